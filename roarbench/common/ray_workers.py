"""Run jobs on a Ray cluster, in actors that live as long as the command; each has a GPU, a part of a GPU, or a core.

Ray starts the actors and reports lost actors; this module gives jobs to actors and requests new actors. Images,
rankings and compiled networks stay loaded in an actor's process, as in a local worker. Only jobs and their return
values are sent, so every machine must see the store's folder under the same path.
"""

import logging
import os
import signal
import socket
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple

import torch

from roarbench.common.device_settings import SHARING
from roarbench.common.errors import CallerError, MachineError, RunError
from roarbench.common.job_interface import IN_A_ROW, Job, JobOutcome, make_no_worker_left_error, perform_job
from roarbench.common.process_settings import exit_at_once_on_sigterm, limit_compiler_threads
from roarbench.common.text import fit_on_one_line

# Ray, which reads this variable when it is imported, must not send usage statistics to its developers
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# under `uv run`, Ray would start workers by `uv run` in a copy of the folder, where files may be missing;
# workers use this process's Python instead
os.environ.setdefault("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
# otherwise `ray.init` waits, for ever and with Python's lock, until a worker has registered that no job asked for
os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
# niceness of workers of a local cluster; with Ray's default of 15, they would wait for all other programs
os.environ.setdefault("RAY_worker_niceness", "0")
try:
    import ray
    from ray.exceptions import RayError, RayTaskError
except ImportError as error:
    raise CallerError("--engine ray needs Ray, which cannot be imported; run pip install 'roarbench[ray]'") from error

_SILENCE = 30.0  # seconds without any worker, after which the reason is logged
_LOOK = 10.0  # seconds between checks of the cluster's size
_log = logging.getLogger(__name__)


def connect_to_ray(address: str, requested: int | None) -> int:
    """Join a Ray cluster, or start one on this machine that ends with this process; return the number of workers.

    `address` is `HOST:PORT` of the cluster's head, or `auto` on one of its machines; if it is empty, a cluster of this
    machine alone is started. By default, there is one worker per GPU, or per core if there are no GPUs.
    """
    own = {} if address else {"num_cpus": requested, "include_dashboard": False}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        host, _, port = address.rpartition(":")
        if host and port.isdecimal():
            socket.create_connection((host, int(port)), 5.0).close()  # ray.init would try for two minutes
        ray.init(address or "local", log_to_driver=False, logging_level=logging.ERROR, **own)
    except (OSError, OverflowError, RuntimeError, SystemExit, ValueError) as error:
        where = f"the Ray cluster at '{address}'" if address else "a Ray cluster on this machine"
        ways = "use HOST:PORT of the cluster's head, or auto on one of its machines, or leave --address out"
        raise CallerError(f"cannot join {where} ({_extract_reason(error)}); {ways}") from error
    finally:
        signal.signal(signal.SIGTERM, handler)  # Ray's handler changes the exit code
    if not (requested or _count_gpus_or_cores()):
        seen = "the Ray cluster has no GPU and no core yet"
        raise CallerError(f"{seen}; start one of its nodes first, or use --workers N")
    return requested or _count_gpus_or_cores()


def _count_gpus() -> int:
    return int(ray.cluster_resources().get("GPU", 0))


def _count_gpus_or_cores() -> int:
    """Return the number of GPUs in the cluster or, if there are none, the number of cores."""
    return _count_gpus() or int(ray.cluster_resources().get("CPU", 0))


class _ActorSetup(NamedTuple):
    mark: Path  # file in the store that exists as long as the engine; an actor must see this file
    folder: Path  # working directory, from which relative paths start
    sharing: int  # number of workers per GPU; 0 without GPUs


class _JobActor:
    """A process that runs jobs; Ray starts it on any node."""

    def set_up_worker_or_explain(self, setup: _ActorSetup) -> str:
        """Prepare the process for jobs; return the reason if it cannot run jobs here, else an empty string."""
        if not setup.mark.exists():
            node, store = ray.util.get_node_ip_address(), setup.mark.parent
            return f"node {node} does not see {store}; mount that folder there, under the same path"
        if setup.sharing:
            os.environ[SHARING] = str(setup.sharing)
            # an actor sees only its own GPU, so this assumes a machine with eight GPUs
            limit_compiler_threads(8 * setup.sharing)
        with suppress(OSError):  # if the folder is missing here, jobs that read files by relative paths report an error
            os.chdir(setup.folder)
        torch.set_num_threads(1)
        # Ray's handler calls `sys.exit(1)`, which a job on a machine that ends would take for a call of its own code
        exit_at_once_on_sigterm()
        return ""

    def perform(self, job: Job) -> tuple[Any, Exception | None, float]:
        return perform_job(job)


class _RayWorker(NamedTuple):
    """An actor with its failures in a row; the failures of the actors that it replaces count, too."""

    actor: Any
    failed_jobs: frozenset[str]  # names of jobs that failed in a row; a failed start counts as a job


class RayEngine(AbstractContextManager["RayEngine"]):
    """Workers on the cluster that this process has joined with `connect_to_ray`; they end with the context.

    If there are fewer GPUs than workers, each worker has an equal share of a GPU. Workers that do not fit into the
    cluster start when nodes join; with `follow`, one more for each further GPU or core. A machine that does not see the
    store's folder `shared` gets no jobs.
    """

    def __init__(self, workers: int, shared: Path, follow: bool) -> None:
        gpus = _count_gpus()
        sharing = -(-workers // gpus) if gpus else 0
        # Ray counts GPUs in ten-thousandths; workers with a GPU reserve no core
        need = {"num_gpus": 10_000 // sharing / 10_000, "num_cpus": 0} if gpus else {"num_cpus": 1}
        self._actors = ray.remote(_JobActor).options(**need, max_restarts=0, scheduling_strategy="SPREAD")
        self._mark = NamedTemporaryFile(dir=shared.absolute(), prefix=".ray-")  # noqa: SIM115 (as long as the engine)
        self._setup = _ActorSetup(Path(self._mark.name), Path.cwd(), sharing)
        self._wanted, self._follow, self._looked, self._last = workers, follow, time.monotonic(), ""
        self._silent_since: float | None = time.monotonic()  # None once a worker has started, or the reason was logged
        self._idle: list[_RayWorker] = []
        self._starting: dict[Any, _RayWorker] = {}
        self._busy: dict[Any, tuple[_RayWorker, Job]] = {}
        for _ in range(workers):
            self._start_worker()

    def __exit__(self, *_: object) -> None:
        for worker in (*self._idle, *self._starting.values(), *(worker for worker, _ in self._busy.values())):
            ray.kill(worker.actor)
        self._mark.close()

    @property
    def gpus(self) -> int:
        return _count_gpus() if self._setup.sharing else 0

    @property
    def idle(self) -> int:
        return len(self._idle)

    def start_job(self, job: Job) -> None:
        """Give a job to an idle worker."""
        worker = self._idle.pop()
        self._busy[worker.actor.perform.remote(job)] = (worker, job)

    def stop_job(self, name: str) -> None:
        """Stop a running job; its outcome is then the error of a lost worker."""
        for reference, (worker, job) in self._busy.items():
            if job.name == name:
                # a job that was stopped does not count as the worker's failure
                self._busy[reference] = (worker._replace(failed_jobs=frozenset()), job)
                ray.kill(worker.actor)

    def wait(self, timeout: float) -> list[JobOutcome]:
        """Return the outcomes of finished jobs; wait at most `timeout` seconds for a job or a start to finish."""
        if self._follow and time.monotonic() - self._looked > _LOOK:
            self._looked = time.monotonic()
            for _ in range(_count_gpus_or_cores() - self._wanted):  # that joined the cluster
                self._wanted += 1
                self._start_worker()
        awaited = [*self._starting, *self._busy]
        if not (awaited or self._idle):
            raise make_no_worker_left_error(self._last)
        ray.wait(awaited, num_returns=1, timeout=timeout)
        happened, _ = ray.wait(awaited, num_returns=len(awaited), timeout=0)
        self._explain_if_no_worker_starts()
        if not happened:
            own = ray.get_runtime_context().get_node_id()
            if any(node["NodeID"] == own and not node["Alive"] for node in ray.nodes()):  # no more outcomes arrive
                raise MachineError("Ray's process on this machine died; restart Ray, then run the same command again")
        for reference in self._starting.keys() & set(happened):
            worker = self._starting.pop(reference)
            try:
                wrong = ray.get(reference)
            except RayError as error:
                wrong = f"a worker did not start: {_extract_reason(error)}"
            if not wrong:
                self._idle.append(worker)
                continue
            ray.kill(worker.actor)
            failed = worker.failed_jobs | {f"start {len(worker.failed_jobs)}"}
            if len(failed) < IN_A_ROW:
                self._start_worker(failed)
            elif self._starting or self._busy or self._idle:
                _log.warning("%s; continuing with the other workers", wrong)
            else:
                raise CallerError(wrong)
        ended = [reference for reference in happened if reference in self._busy]
        return [self._collect_outcome_and_free_or_replace_worker(reference) for reference in ended]

    def _explain_if_no_worker_starts(self) -> None:
        """Log, once, that Ray has started no worker for `_SILENCE` seconds, with Ray's reason."""
        if self._idle or self._busy:
            self._silent_since = None
        elif self._silent_since is not None and time.monotonic() - self._silent_since > _SILENCE:
            self._silent_since = None
            asked = "GPU" if self._setup.sharing else "CPU"
            free, total = (source().get(asked, 0) for source in (ray.available_resources, ray.cluster_resources))
            seen = f"no worker has registered with Ray after {_SILENCE:.0f} s ({free:g} of {total:g} {asked}s are free)"
            _log.warning("%s; %s; this command waits", seen, _read_reason_of_silence())

    def _start_worker(self, failed_jobs: frozenset[str] = frozenset()) -> None:
        actor = self._actors.remote()
        self._starting[actor.set_up_worker_or_explain.remote(self._setup)] = _RayWorker(actor, failed_jobs)

    def _collect_outcome_and_free_or_replace_worker(self, reference: Any) -> JobOutcome:
        worker, job = self._busy.pop(reference)
        try:
            value, error, seconds = ray.get(reference)
        except RayTaskError as ray_error:  # the actor is alive, but unpickling the job or pickling its value failed
            value, error, seconds = None, RunError(_extract_reason(ray_error)), 0.0
        except RayError as ray_error:  # the actor or its node has ended
            value, error, seconds = None, MachineError(f"the worker was lost ({_extract_reason(ray_error)})"), 0.0
            if "its node has died" in str(ray_error):
                worker = worker._replace(failed_jobs=frozenset())
        if isinstance(error, MachineError):  # a process whose GPU has failed cannot compute any more
            ray.kill(worker.actor)
            failed, self._last = worker.failed_jobs | {job.name}, str(error)
            if len(failed) < IN_A_ROW:
                self._start_worker(failed_jobs=failed)
        else:
            self._idle.append(worker._replace(failed_jobs=frozenset()))
        return JobOutcome(job.name, value, error, seconds)


def _read_reason_of_silence() -> str:
    """Return the last line that Ray or a worker's process wrote as an error on this machine, or where to look."""
    logs = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "session_latest", "logs")
    # a worker's own error first, then failed environments of workers, then Ray's process on this machine
    for pattern in ("worker-*.err", "runtime_env_setup-*.log", "raylet.err"):
        with suppress(OSError):
            for file in sorted(logs.glob(pattern), key=lambda file: file.stat().st_mtime, reverse=True):
                lines = [line for line in file.read_text(errors="replace").splitlines() if line.strip()]
                if lines:
                    return f"{file.name} in {logs} ends with: {fit_on_one_line(lines[-1], 200)}"
    return f"Ray wrote no reason into {logs}"


def _extract_reason(error: BaseException) -> str:
    """Return the last line of Ray's message, which names the cause."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return fit_on_one_line(lines[-1], 300)
