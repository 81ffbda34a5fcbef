"""Jobs given to an engine, and their outcomes."""

import time
from collections.abc import Callable

from roarbench.workers.job import Engine, Job, JobOutcome

PATIENCE = 180.0  # seconds that a slow machine may take before a test gives up; none is spent on a quick one


def collect(engine: Engine, count: int) -> dict[str, JobOutcome]:
    """Wait for so many outcomes; by the names of their jobs."""
    outcomes: dict[str, JobOutcome] = {}
    deadline = time.monotonic() + PATIENCE
    while len(outcomes) < count and time.monotonic() < deadline:
        outcomes |= {outcome.name: outcome for outcome in engine.wait(1.0)}
    return outcomes


def do(engine: Engine, call: Callable[..., object], *arguments: object) -> JobOutcome:
    """Do one job."""
    engine.submit(Job("job", call, arguments))
    return collect(engine, 1)["job"]
