"""Jobs, their outcomes, and the interface of engines, which run jobs in worker processes."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from roarbench.common.device_settings import is_gpu_dead, is_machine_failure
from roarbench.common.errors import CallerError, MachineError, RunError
from roarbench.common.process_settings import convert_exit_to_error

IN_A_ROW = 3  # a worker that has failed this many jobs in a row is not used any more


class Job(NamedTuple):
    """A function with its arguments; both must be picklable, so the function must be defined in a module."""

    name: str
    call: Callable[..., Any]
    arguments: tuple[Any, ...]


class JobOutcome(NamedTuple):
    """The outcome of a job: its value or error, and its wall time in seconds."""

    name: str
    value: Any
    error: Exception | None
    seconds: float = 0.0


class Engine(Protocol):
    """Workers that run jobs, all on GPUs or all on CPU cores."""

    @property
    def gpus(self) -> int:
        """Return the number of GPUs that the workers use; 0 if they use CPU cores."""

    @property
    def idle(self) -> int:
        """Return the number of jobs that can be started now."""

    def start_job(self, job: Job) -> None:
        """Give a job to an idle worker."""

    def stop_job(self, name: str) -> None:
        """Stop the job of this name if it is running; its outcome is then the error of a lost worker."""

    def wait(self, timeout: float) -> list[JobOutcome]:
        """Return the outcomes of finished jobs; wait at most `timeout` seconds for the first outcome."""


def perform_job(job: Job) -> tuple[Any, Exception | None, float]:
    """Run a job, and return its value, its error and its wall time in seconds."""
    start = time.monotonic()
    try:
        with convert_exit_to_error():
            value = job.call(*job.arguments)
    except Exception as error:  # the error is recorded, and other runs continue
        for kind in (CallerError, MachineError, RunError):  # errors of roarbench can always be pickled
            if isinstance(error, kind):
                return None, kind(str(error), error.hint), time.monotonic() - start
        kind = MachineError if is_machine_failure(error) or is_gpu_dead() else RunError
        return None, kind(f"{type(error).__name__}: {error}"), time.monotonic() - start
    return value, None, time.monotonic() - start


def make_no_worker_left_error(last_failure: str) -> MachineError:
    """Make the error that says that every worker of an engine has failed too many jobs in a row."""
    seen = f"every worker failed {IN_A_ROW} jobs in a row, the last with: {last_failure}"
    return MachineError(f"{seen}; check this machine, then run the same command again")
