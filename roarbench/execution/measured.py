"""Rates as a worker measures them: the process that plans, waits and writes opens no GPU, or is where there is none."""

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from roarbench.errors import CallerError
from roarbench.forecast.rates import CORE, GPU, Rates, assume, measure
from roarbench.forecast.workload import Work
from roarbench.plan.suite import Suite
from roarbench.workers.job import Engine, Job, JobOutcome

_PATIENCE = 1.0  # seconds between looks whether a worker is there


class DeviceEngine(Engine, Protocol):
    """Workers that do jobs, all on the same kind of device."""

    @property
    def gpus(self) -> int:
        """Return how many GPUs they have together; 0 where they compute on cores."""


def measured_rates(
    engine: DeviceEngine, suite: Suite, work: Work | None = None, say: Callable[[str], object] = print
) -> Rates:
    """Return rates of the workers' devices, measured by the first one that is idle, or assumed where that failed.

    No worker has a job yet. `say` takes a line about what the device lacks, or why nothing was measured.

    Raises:
        CallerError: No worker can do the suite.
    """
    while not engine.idle:
        engine.wait(_PATIENCE)
    engine.submit(Job("rates", measure, (suite, work)))
    ended: list[JobOutcome] = []
    while not ended:
        ended = engine.wait(_PATIENCE)
    found: Rates = ended[0].value
    error = ended[0].error
    if isinstance(error, CallerError):
        raise error
    if error is not None:
        say(f"{suite.title}: nothing was measured ({error}); the times below are assumed")
        found = assume(suite, GPU if engine.gpus else CORE)
    for lack in found.lacks:
        say(f"{suite.title}: {lack}")
    return replace(found, gpus=engine.gpus or found.gpus)
