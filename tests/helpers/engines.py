"""Jobs given to an engine, and their outcomes."""

import os
import time
from collections.abc import Callable
from operator import add, truediv

from roarbench.common.errors import CallerError, RunError
from roarbench.common.job_interface import Engine, Job, JobOutcome
from roarbench.plan.suites import find_builtin_suite
from tests.helpers.commands import PATIENCE


def collect(engine: Engine, count: int) -> dict[str, JobOutcome]:
    """Wait for so many outcomes; by the names of their jobs."""
    outcomes: dict[str, JobOutcome] = {}
    deadline = time.monotonic() + PATIENCE
    while len(outcomes) < count and time.monotonic() < deadline:
        outcomes |= {outcome.name: outcome for outcome in engine.wait(1.0)}
    return outcomes


def do(engine: Engine, call: Callable[..., object], *arguments: object) -> JobOutcome:
    engine.start_job(Job("job", call, arguments))
    return collect(engine, 1)["job"]


def check_outcomes(engine: Engine) -> int:
    """Jobs bring values, or errors of one line, and the engine's one worker outlives them; its process number."""
    pid = int(do(engine, os.getpid).value)
    assert do(engine, add, 2, 3)[:3] == ("job", 5, None)
    seen = do(engine, find_builtin_suite, "quikc").error
    assert (type(seen), str(seen)) == (CallerError, "no suite 'quikc'; did you mean 'quick'?")
    seen = do(engine, truediv, 1, 0).error
    assert (type(seen), str(seen)) == (RunError, "ZeroDivisionError: division by zero")
    assert do(engine, os.getpid).value == pid != os.getpid()
    return pid
