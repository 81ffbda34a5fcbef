"""Run jobs in single-threaded worker processes on this machine: one process per core, or one or more per GPU.

If a worker dies or hangs, only its job is lost, and the worker is replaced. If a job that failed on a worker is started
again, it goes to a worker on another GPU or, without GPUs, to another worker, if there is one. A worker that has failed
three jobs in a row is not replaced. Workers end when the parent process has ended, so a killed command leaves no
process behind.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import NamedTuple

from roarbench.common.device_settings import SHARING
from roarbench.common.errors import MachineError
from roarbench.common.job_interface import IN_A_ROW, Job, JobOutcome, make_no_worker_left_error, perform_job
from roarbench.common.process_settings import (
    disable_slow_avx512_sorts,
    exit_at_once_on_sigterm,
    keep_freed_cpu_memory,
    limit_compiler_threads,
)

STARTING = 1200.0  # a new worker has this many seconds to its first sign of life: importing torch can be slow
STILL = 120.0  # a worker is replaced after this many seconds without a sign of life
_SIGN = 0.5  # seconds between signs of life
_STOPPED = "stopped on request"  # reason for a worker that was killed because its job's lease was lost
_STARTING = threading.Lock()  # one thread at a time may start a process
_GRACE = 6.0  # seconds that workers have to save checkpoints of training runs before they are killed


class _Worker(NamedTuple):
    process: BaseProcess
    connection: Connection
    number: int
    signs_of_life: "ctypes.c_long"  # counter, increased by the process
    failed_jobs: frozenset[str]  # names of jobs that the worker, or a worker that it replaces, has failed in a row


class LocalEngine(AbstractContextManager["LocalEngine"]):
    """A fixed number of worker processes, which end with the context.

    `gpus` are ids in the notation of CUDA_VISIBLE_DEVICES, which are dealt out to the workers in turn, one GPU each.
    """

    def __init__(self, workers: int, gpus: Sequence[str] = ()) -> None:
        disable_slow_avx512_sorts()
        if multiprocessing.get_start_method() not in multiprocessing.get_all_start_methods():
            # in a worker of joblib; a new process is told this method, and ends because it does not know it
            multiprocessing.set_start_method("spawn", force=True)
        self._context = multiprocessing.get_context("spawn")
        self._shown = [gpus[number % len(gpus)] if gpus else None for number in range(workers)]
        # of each worker, the GPU or, without GPUs, the number; failures are counted for it
        self._places = [gpu or number for number, gpu in enumerate(self._shown)]
        self._idle: list[_Worker] = [self._start_worker(number) for number in range(workers)]
        self._busy: dict[Connection, tuple[_Worker, Job]] = {}
        self._waiting: list[Job] = []  # jobs that wait for a busy worker, because all idle workers have failed them
        self._failed_by = defaultdict[str, set[str | int]](set)  # from a job's name to GPUs or workers that failed it
        self._killed: dict[int, str] = {}  # from a worker's number to the reason why this process killed it
        # from a worker's number to its counter of signs of life and the seconds since the counter changed
        self._silence: dict[int, tuple[int, float]] = {}
        self._looked = time.monotonic()
        self._last = ""  # reason of the last failure

    def __exit__(self, *_: object) -> None:
        workers = self._list_workers()
        for worker in workers:
            worker.process.terminate()
        deadline = time.monotonic() + _GRACE
        try:
            for worker in workers:
                worker.process.join(max(0.0, deadline - time.monotonic()))
        finally:  # this block runs even if the user presses Ctrl-C a second time
            for worker in workers:
                worker.process.kill()
                _join_and_close_worker(worker)

    def _list_workers(self) -> list[_Worker]:
        return [*self._idle, *(worker for worker, _ in self._busy.values())]

    @property
    def gpus(self) -> int:
        return len({gpu for gpu in self._shown if gpu is not None})

    @property
    def idle(self) -> int:
        return max(0, len(self._idle) - len(self._waiting))

    def start_job(self, job: Job) -> None:
        """Give a job to an idle worker, if possible to a worker on whose GPU or core the job has not failed before."""
        self._waiting.append(job)
        self._assign_jobs()

    def stop_job(self, name: str) -> None:
        """Stop a running job; its outcome is then the error of a lost worker."""
        for worker, job in self._busy.values():
            if job.name == name:
                self._kill_worker(worker, _STOPPED)

    def wait(self, timeout: float) -> list[JobOutcome]:
        """Return outcomes of finished jobs; wait at most `timeout` seconds; raise MachineError if no worker is left."""
        if not self._list_workers():
            raise make_no_worker_left_error(self._last)
        ready = wait(list(self._busy), timeout)
        connections = [source for source in ready if isinstance(source, Connection)]
        ended = [self._collect_outcome_and_free_or_replace_worker(connection) for connection in connections]
        self._assign_jobs()
        self._kill_silent_workers()
        return ended

    def _assign_jobs(self) -> None:
        """Give each waiting job to an idle worker, if possible to a worker on whose GPU or core it has not failed."""
        for job in list(self._waiting):
            failed_by, workers = self._failed_by[job.name], self._list_workers()
            suited = [worker for worker in workers if self._places[worker.number] not in failed_by]
            idle = [worker for worker in self._idle if worker in (suited or workers)]
            if not idle:
                continue
            worker = idle[-1]
            self._waiting.remove(job)
            self._idle.remove(worker)
            if not worker.process.is_alive():  # the worker died while idle
                _join_and_close_worker(worker)
                worker = self._start_worker(worker.number, worker.failed_jobs)
            # if the worker dies now, `_collect_outcome_and_free_or_replace_worker` detects its death
            with suppress(OSError):
                worker.connection.send(job)
            self._silence[worker.number] = (worker.signs_of_life.value, 0.0)
            self._busy[worker.connection] = (worker, job)

    def _kill_silent_workers(self) -> None:
        """Kill workers that gave no sign of life for too long; time while this process was suspended does not count."""
        now = time.monotonic()
        awake, self._looked = min(now - self._looked, 10 * _SIGN), now
        for worker, _ in self._busy.values():
            signs, seconds = self._silence[worker.number]
            signs_now = worker.signs_of_life.value
            silent = seconds + awake if signs_now == signs else 0.0
            self._silence[worker.number] = (signs_now, silent)
            most = STILL if signs_now else STARTING  # the first sign of life may come late
            if silent > most:
                self._kill_worker(worker, f"no response for {most:.0f} s")

    def _kill_worker(self, worker: _Worker, reason: str) -> None:
        self._killed[worker.number] = reason
        worker.process.kill()

    def _collect_outcome_and_free_or_replace_worker(self, connection: Connection) -> JobOutcome:
        worker, job = self._busy.pop(connection)
        try:
            value, error, seconds = connection.recv()
        except (EOFError, OSError):  # the process ended before it had sent the outcome, for example for lack of memory
            worker.process.join()
            code = worker.process.exitcode or 0
            by_signal = f"signal {signal.Signals(-code).name}; often caused by too little memory" if code < 0 else ""
            death = self._killed.get(worker.number) or by_signal or f"exit code {code}"
            value, error, seconds = None, MachineError(f"the worker's process died ({death})"), 0.0
        stopped = self._killed.pop(worker.number, "") == _STOPPED
        if isinstance(error, MachineError):  # a process whose GPU has failed cannot compute any more
            worker.process.kill()
            _join_and_close_worker(worker)
            failed, self._last = worker.failed_jobs, str(error)
            if not stopped:
                self._failed_by[job.name].add(self._places[worker.number])
                failed |= {job.name}
            if len(failed) < IN_A_ROW:
                self._idle.append(self._start_worker(worker.number, failed))
        else:
            self._failed_by.pop(job.name, None)
            self._idle.append(worker._replace(failed_jobs=frozenset()))
        return JobOutcome(job.name, value, error, seconds)

    def _start_worker(self, number: int, failed_jobs: frozenset[str] = frozenset()) -> _Worker:
        connection, worker_connection = self._context.Pipe()
        gpu, signs_of_life = self._shown[number], self._context.Value("l", 0, lock=False)
        sharing, workers = self._shown.count(gpu), len(self._shown)
        arguments = (worker_connection, os.getpid(), gpu, sharing, workers, signs_of_life)
        process = self._context.Process(target=_serve_jobs, args=arguments, daemon=True)
        with _STARTING, _shield_children():
            process.start()
        worker_connection.close()
        return _Worker(process, connection, number, signs_of_life, failed_jobs)


def _join_and_close_worker(worker: _Worker) -> None:
    worker.process.join()
    worker.connection.close()


@contextmanager
def _shield_children() -> Iterator[None]:
    """Make processes that are started in this block ignore Ctrl-C, which only the parent process handles.

    The main program is hidden from them; otherwise, they would run a script again.
    """
    program, sets_handlers = sys.modules["__main__"], threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if sets_handlers else None
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = program
        if sets_handlers:
            signal.signal(signal.SIGINT, before)


def _serve_jobs(
    connection: Connection, parent: int, gpu: str | None, sharing: int, workers: int, signs_of_life: "ctypes.c_long"
) -> None:
    """Run jobs until the parent closes the connection or dies; `sharing` of the `workers` use this worker's GPU."""
    limit_compiler_threads(workers)
    keep_freed_cpu_memory()
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # torch reads the variable when it first looks for a GPU
        os.environ[SHARING] = str(sharing)
    exit_at_once_on_sigterm()
    sys.stdout = sys.stderr  # a user's network file may print, but standard output is for the command's results

    def beat_while_parent_lives() -> None:
        while os.getppid() == parent:
            signs_of_life.value += 1
            time.sleep(_SIGN)
        os._exit(1)

    threading.Thread(target=beat_while_parent_lives, daemon=True).start()
    import torch

    torch.set_num_threads(1)
    with suppress(EOFError, OSError):  # raised when the parent has ended
        while True:
            job = connection.recv()
            connection.send(perform_job(job))
