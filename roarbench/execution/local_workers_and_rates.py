"""Count and start the workers of this machine, and measure their rates."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from roarbench.common.device_settings import list_gpu_ids
from roarbench.common.errors import CallerError
from roarbench.common.job_interface import Engine, Job, JobOutcome
from roarbench.common.local_workers import LocalEngine
from roarbench.execution.rate_measurement import measure_worker_rates
from roarbench.execution.rates import CORE, GPU, SMALL, Rates, assume_rates
from roarbench.execution.workload import Work
from roarbench.plan.suite import SuiteSpec
from roarbench.store.software_and_hardware import count_cores

PER_CORE = 4  # maximum workers per core; a worker computes on one thread, so more are not faster and need more memory
# default workers per GPU for images up to `SMALL` pixels per side: 8 trained 7 to 8 times as fast as one (docs/gpu.md);
# we assume that each worker needs about 0.5 GB of the GPU
_SHARING = 8
_PATIENCE = 1.0  # seconds between checks for a started worker


def count_default_workers(image_side: int | None = None) -> int:
    """Return the default number of workers: one per core without GPUs, else one per GPU, or more for small images."""
    gpus = len(list_gpu_ids())
    if not gpus:
        return count_cores()
    sharing = _SHARING if image_side and image_side <= SMALL else 1
    return gpus * max(1, min(sharing, count_cores() // gpus))


def count_workers(requested: int | None, image_side: int | None = None) -> int:
    """Return the requested or default number of workers; raise CallerError if a request is below 1 or too large."""
    if requested is None:
        return count_default_workers(image_side)
    most = PER_CORE * count_cores()
    if requested < 1:
        raise CallerError(f"--workers is {requested}, expected at least 1; use 1 to {most}")
    if requested > most:
        seen = f"--workers {requested} is more than {PER_CORE} for each core of this machine"
        raise CallerError(f"{seen}; use {most} or less")
    return requested


def start_local_workers(workers: int, logs: Path | None = None) -> LocalEngine:
    """Start processes on this machine; `logs` is a folder for their logs."""
    return LocalEngine(workers, list_gpu_ids(), logs)


@contextmanager
def start_rate_measurement(say: Callable[[str], object]) -> Iterator[Callable[[SuiteSpec, Work], Rates]]:
    """Start a worker on this machine and yield a function that measures rates with it; `say` receives messages."""
    gpus = list_gpu_ids()
    with LocalEngine(1, gpus) as engine:

        def measure(suite: SuiteSpec, work: Work) -> Rates:
            rates = measure_rates(engine, suite, work, say)
            for recipe, why in rates.too_large:
                say(f"{suite.title}: trainings with {recipe} would be left out on this machine: {why}")
            return replace(rates, gpus=len(gpus)) if gpus else rates

        yield measure


def measure_rates(engine: Engine, suite: SuiteSpec, work: Work, say: Callable[[str], object]) -> Rates:
    """Measure rates with the first idle worker before any other job; return assumed rates if the measurement fails.

    `say` receives messages.
    """
    while not engine.idle:
        engine.wait(_PATIENCE)
    engine.start_job(Job("rates", measure_worker_rates, (suite, work)))
    outcomes: list[JobOutcome] = []
    while not outcomes:
        outcomes = engine.wait(_PATIENCE)
    rates: Rates = outcomes[0].value
    error = outcomes[0].error
    if isinstance(error, CallerError):
        raise error
    if error is not None:
        say(f"{suite.title}: the speed could not be measured ({error}); the times below use assumed rates")
        rates = assume_rates(suite, GPU if engine.gpus else CORE)
    for lack in rates.lacks:
        say(f"{suite.title}: {lack}")
    return replace(rates, gpus=engine.gpus or rates.gpus)
