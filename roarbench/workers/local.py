"""Runs jobs in processes of this machine, one thread each: one process per core, or one and more per GPU.

A worker that dies takes only its own job with it, and one whose machine failed is replaced. Workers end themselves
when the parent is gone, so a killed command leaves nothing behind that still computes.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, NamedTuple

from roarbench.devices import SHARING, machine_failed
from roarbench.errors import CallerError, MachineError, RunError


class Job(NamedTuple):
    """A function of a module with its arguments; everything must pickle."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...]


class JobOutcome(NamedTuple):
    """End of a job: its value, or the error that ended it, and the seconds by the clock that a worker took."""

    name: str
    value: Any
    error: Exception | None
    seconds: float = 0.0


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection
    gpu: str | None


class LocalEngine:
    """A fixed number of worker processes.

    Use as a context manager: leaving it ends the workers, whatever they do.

    Args:
        workers: How many.
        gpus: As CUDA_VISIBLE_DEVICES names them; each worker sees one, in turn. Workers see what there is if empty.
    """

    def __init__(self, workers: int, gpus: Sequence[str] = ()) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._shown = [gpus[number % len(gpus)] if gpus else None for number in range(workers)]
        self._idle: list[_Worker] = [self._start(gpu) for gpu in self._shown]
        self._busy: dict[Connection, tuple[_Worker, Job]] = {}

    def __enter__(self) -> "LocalEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers = [*self._idle, *(worker for worker, _ in self._busy.values())]
        for worker in workers:
            worker.process.terminate()
        for worker in workers:
            _bury(worker)

    @property
    def idle(self) -> int:
        """Return how many workers wait for a job."""
        return len(self._idle)

    def submit(self, job: Job) -> None:
        """Give a job to an idle worker."""
        worker = self._idle.pop()
        if not worker.process.is_alive():  # it died while it waited
            _bury(worker)
            worker = self._start(worker.gpu)
        with suppress(OSError):  # it dies right now: the wait for its answer will tell
            worker.connection.send(job)
        self._busy[worker.connection] = (worker, job)

    def wait(self, timeout: float) -> list[JobOutcome]:
        """Return the jobs that ended, waiting `timeout` seconds at most for the first of them."""
        ready = wait(list(self._busy), timeout)
        return [self._collect(connection) for connection in ready if isinstance(connection, Connection)]

    def _collect(self, connection: Connection) -> JobOutcome:
        worker, job = self._busy.pop(connection)
        try:
            value, error, seconds = connection.recv()
        except (EOFError, OSError):  # the process is gone, before or amid its answer: out of memory, or killed by hand
            worker.process.join()
            value, error, seconds = None, MachineError(f"its process died ({_death(worker.process.exitcode)})"), 0.0
        if isinstance(error, MachineError):  # a process whose GPU failed once can compute nothing any more
            worker.process.kill()
            _bury(worker)
            worker = self._start(worker.gpu)
        self._idle.append(worker)
        return JobOutcome(job.name, value, error, seconds)

    def _start(self, gpu: str | None) -> _Worker:
        here, there = self._context.Pipe()
        arguments = (there, os.getpid(), gpu, self._shown.count(gpu))
        process = self._context.Process(target=_serve, args=arguments, daemon=True)
        with _deaf_to_interrupts():
            process.start()
        there.close()
        return _Worker(process, here, gpu)


def _bury(worker: _Worker) -> None:
    worker.process.join()
    worker.connection.close()


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that never hear Ctrl-C, which reaches the whole group: the parent decides."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _serve(connection: Connection, parent: int, gpu: str | None, sharing: int) -> None:
    """Do jobs until the parent closes the connection, or is killed; `sharing` workers see the same GPU."""
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # read when torch first asks for a GPU
        os.environ[SHARING] = str(sharing)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(1)
    with suppress(EOFError, OSError):  # the parent is gone
        while True:
            job = connection.recv()
            start = time.monotonic()
            connection.send((*perform(job), time.monotonic() - start))


def perform(job: Job) -> tuple[Any, Exception | None]:
    """Return a job's value or error; errors travel as base class and one line, which always pickle."""
    try:
        return job.call(*job.arguments), None
    except CallerError as error:
        return None, CallerError(str(error))
    except MachineError as error:
        return None, MachineError(str(error))
    except RunError as error:
        return None, RunError(str(error))
    except Exception as error:  # a fault of one run must not stop the others; its reason is recorded
        kind = MachineError if machine_failed(error) else RunError
        return None, kind(f"{type(error).__name__}: {error}")


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"signal {signal.Signals(-code).name}; often too little memory"
    return f"exit code {code}"
