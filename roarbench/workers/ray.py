"""Runs jobs on a Ray cluster, by actors that live as long as the command: each has a GPU, a part of one, or a core.

Ray places the actors and tells when one is gone; this module hands them jobs and asks for new ones. What an actor
opens stays open in its process, as in a worker of this machine: images, rankings, compiled networks. Nothing is sent
but the jobs and what they return, so every machine has to see the store's folder under the same path.
"""

import logging
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from types import TracebackType
from typing import Any, NamedTuple

from roarbench.devices import SHARING, bound_compilers
from roarbench.errors import CallerError, MachineError, RunError
from roarbench.text import one_line
from roarbench.workers.local import Job, JobOutcome, perform
from roarbench.workers.logs import write_worker_log
from roarbench.workers.stopping import same_signals

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is reported to Ray's makers; read on import
# on this machine alone: 15 is Ray's own choice, by which everything else on a busy machine comes before the workers
os.environ.setdefault("RAY_worker_niceness", "0")
try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise CallerError("--engine ray needs Ray, and it cannot be imported; pip install 'roarbench[ray]'") from error

_ANSWERS = 5.0  # seconds in which the head of a cluster takes a connection; Ray itself would try for two minutes
_LOOK = 10.0  # seconds between looks at how large the cluster is
_STARTS = 3  # of a worker, in a row, before it is given up
_GPUS_A_NODE = 8  # at most, in the machines that are sold; an actor sees its own alone
_REASON = 300  # letters of what Ray says of a failure
_log = logging.getLogger(__name__)


def connect(address: str, asked: int | None) -> int:
    """Join a Ray cluster, or start one on this machine that ends with this process.

    Args:
        address: `HOST:PORT` of its head, or `auto` on one of its machines; empty for a cluster of this machine alone.
        asked: How many workers are wanted; one for each GPU, or else for each core, if None. A cluster of this machine
            has room for as many.

    Returns:
        How many workers there will be at first.

    Raises:
        CallerError: There is no such cluster, it is of another version, or it has neither a GPU nor a core.
    """
    own = {} if address else {"num_cpus": asked, "include_dashboard": False}
    try:
        host, _, port = address.rpartition(":")
        if host and port.isdecimal():
            socket.create_connection((host, int(port)), _ANSWERS).close()
        with same_signals():
            ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, OverflowError, RuntimeError, SystemExit, ValueError) as error:
        where = f"the Ray cluster at '{address}'" if address else "a Ray cluster on this machine"
        ways = "write HOST:PORT of its head, auto on one of its machines, or leave --address out"
        raise CallerError(f"cannot join {where} ({_reason(error)}); {ways}") from error
    if not (asked or _room()):
        raise CallerError("the Ray cluster has no GPU and no core yet; start a node of it first, or write --workers N")
    return asked or _room()


def _gpus() -> int:
    return int(ray.cluster_resources().get("GPU", 0))


def _room() -> int:
    """Return how many workers have a GPU, or else a core, of their own."""
    return _gpus() or int(ray.cluster_resources().get("CPU", 0))


class _Place(NamedTuple):
    """Surroundings that an actor takes over from the process that asks for it.

    Attributes:
        mark: A file in the store that exists as long as the engine.
        folder: The working directory, which relative paths start from.
        sharing: How many workers share a GPU; 0 without GPUs.
        logs: Folder where each worker writes a log; none writes one if None.
    """

    mark: Path
    folder: Path
    sharing: int
    logs: Path | None


class _JobActor:
    """Process for jobs, which Ray starts somewhere."""

    def prepare(self, place: _Place) -> str:
        """Make the process what a worker of one machine is; return why it cannot be one, or nothing."""
        if not place.mark.exists():
            node, store = ray.util.get_node_ip_address(), place.mark.parent
            return f"node {node} does not see {store}; mount that folder there, under the same path"
        if place.sharing:
            os.environ[SHARING] = str(place.sharing)
            bound_compilers(_GPUS_A_NODE * place.sharing)
        with suppress(OSError):  # files named by relative paths are not there, and the job that wants one says so
            os.chdir(place.folder)
        if place.logs:
            write_worker_log(place.logs)
        import torch

        torch.set_num_threads(1)
        return ""

    def do(self, job: Job) -> tuple[Any, Exception | None, float]:
        """Return the value of a job or its error, and the seconds by the clock that it took."""
        start = time.monotonic()
        return (*perform(job), time.monotonic() - start)


class _Start(NamedTuple):
    """An actor that is on its way, and how often in a row such a one failed before."""

    actor: Any
    failures: int


class RayEngine:
    """Workers on the cluster that this process has joined; `connect` comes first.

    Use as a context manager: leaving it ends the workers, whatever they do.

    Args:
        workers: How many. On a cluster with fewer GPUs each has the same part of one; those that there is no room for
            start when nodes join.
        shared: The store's folder; a machine that does not see it gets no job.
        follow: Whether to start more workers as the cluster grows, one for each GPU or core.
        logs: Folder where each worker writes a log; none writes one if None.
    """

    def __init__(self, workers: int, shared: Path, follow: bool, logs: Path | None = None) -> None:
        gpus = _gpus()
        sharing = -(-workers // gpus) if gpus else 0
        # Ray counts GPUs in ten-thousandths; a worker with a GPU takes no core away from others of its node
        need = {"num_gpus": 10_000 // sharing / 10_000, "num_cpus": 0} if gpus else {"num_cpus": 1}
        self._actors = ray.remote(_JobActor).options(**need, max_restarts=0, scheduling_strategy="SPREAD")
        self._mark = NamedTemporaryFile(dir=shared.absolute(), prefix=".ray-")  # noqa: SIM115 (as long as the engine)
        self._place = _Place(Path(self._mark.name), Path.cwd(), sharing, logs)
        self._wanted, self._follow, self._looked = workers, follow, time.monotonic()
        self._idle: list[Any] = []
        self._starting: dict[Any, _Start] = {}
        self._busy: dict[Any, tuple[Any, Job]] = {}
        for _ in range(workers):
            self._start()

    def __enter__(self) -> "RayEngine":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for actor in (*self._idle, *(actor for actor, _ in (*self._starting.values(), *self._busy.values()))):
            ray.kill(actor)
        self._mark.close()

    @property
    def gpus(self) -> int:
        """Return how many GPUs the cluster has now; 0 where the workers compute on cores."""
        return _gpus() if self._place.sharing else 0

    @property
    def idle(self) -> int:
        """Return how many workers wait for a job; one that Ray has no room for yet does not."""
        return len(self._idle)

    def submit(self, job: Job) -> None:
        """Give a job to an idle worker."""
        actor = self._idle.pop()
        self._busy[actor.do.remote(job)] = (actor, job)

    def stop(self, name: str) -> None:
        """End a job under way; its outcome is that of a worker that was lost."""
        for actor in [actor for actor, job in self._busy.values() if job.name == name]:
            ray.kill(actor)

    def wait(self, timeout: float) -> list[JobOutcome]:
        """Return the jobs that ended, waiting `timeout` seconds at most for the first thing to happen.

        Raises:
            CallerError: No worker can start anywhere.
        """
        self._grow()
        awaited = [*self._starting, *self._busy]
        ray.wait(awaited, num_returns=1, timeout=timeout)
        happened, _ = ray.wait(awaited, num_returns=len(awaited), timeout=0)
        for reference in happened:
            if reference in self._starting:
                self._settle(reference)
        return [self._collect(reference) for reference in happened if reference in self._busy]

    def _grow(self) -> None:
        """Ask for a worker on every GPU or core that has come to the cluster."""
        if self._follow and time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            for _ in range(_room() - self._wanted):
                self._wanted += 1
                self._start()

    def _start(self, failures: int = 0) -> None:
        actor = self._actors.remote()
        self._starting[actor.prepare.remote(self._place)] = _Start(actor, failures)

    def _settle(self, reference: Any) -> None:
        """Take a worker that is ready, or start another one in its place, up to `_STARTS` times in a row."""
        actor, failures = self._starting.pop(reference)
        try:
            wrong = ray.get(reference)
        except RayError as error:
            wrong = f"a worker did not start: {_reason(error)}"
        if not wrong:
            self._idle.append(actor)
            return
        ray.kill(actor)
        if failures + 1 < _STARTS:
            self._start(failures + 1)
        elif self._starting or self._busy or self._idle:
            _log.warning("%s; going on with the others", wrong)
        else:
            raise CallerError(wrong)

    def _collect(self, reference: Any) -> JobOutcome:
        actor, job = self._busy.pop(reference)
        try:
            value, error, seconds = ray.get(reference)
        except RayTaskError as told:  # the actor lives: the job could not be read there, or its value not be sent
            value, error, seconds = None, RunError(_reason(told)), 0.0
        except RayError as told:  # the actor is gone, or its node
            value, error, seconds = None, MachineError(f"its worker was lost ({_reason(told)})"), 0.0
        if isinstance(error, MachineError):  # a process whose GPU failed once can compute nothing any more
            ray.kill(actor)
            self._start()
        else:
            self._idle.append(actor)
        return JobOutcome(job.name, value, error, seconds)


def _reason(error: BaseException) -> str:
    """Return the last line of what Ray says, which names the cause; the lines before it are ids and call stacks."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return one_line(lines[-1], _REASON)
