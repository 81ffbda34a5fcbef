"""What an engine adds to a job, from the call that submits it to its outcome, and for many at once.

    pytest benchmarks/test_engines.py -o addopts= --benchmark-only --benchmark-columns=min,median,mean,max

A job here returns what it is given: the answers to 10,000 test images, as a run does.
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from operator import pos
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roarbench.common.job_interface import Job, JobOutcome
from roarbench.common.local_workers import LocalEngine

WORKERS = 2
# `pos` returns equal values; an array of zeros would also pass for `neg`
ANSWERS = (np.arange(10_000) % 2).astype(np.int8)
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own modules leave resources open


def start_local_engine(folder: Path) -> AbstractContextManager[Any]:
    return LocalEngine(WORKERS)


def start_ray_engine(folder: Path) -> AbstractContextManager[Any]:
    from roarbench.common.ray_workers import RayEngine, connect_to_ray

    connect_to_ray("", WORKERS)
    return RayEngine(WORKERS, folder, follow=False)


@pytest.fixture(scope="module", params=[start_local_engine, start_ray_engine])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with request.param(tmp_path_factory.mktemp("store")) as made:
        while made.idle < WORKERS:
            made.wait(1.0)
        run_jobs(made, WORKERS)  # each worker has then imported torch
        yield made


def run_jobs(engine: Any, count: int) -> list[JobOutcome]:
    """Do so many jobs, as the scheduler does: whenever a worker is idle it gets the next one."""
    begun, ended = 0, list[JobOutcome]()
    while len(ended) < count:
        while engine.idle and begun < count:
            engine.start_job(Job(str(begun), pos, (ANSWERS,)))
            begun += 1
        ended += engine.wait(1.0)
    return ended


def assert_returned(outcomes: list[JobOutcome], count: int) -> None:
    """Check that so many jobs ended, each once, without error, and gave what they were given."""
    ended = {each.name: (each.error, np.array_equal(each.value, ANSWERS)) for each in outcomes}
    assert (len(outcomes), ended) == (count, {str(number): (None, True) for number in range(count)})


@pytest.mark.parametrize(("count", "rounds", "warming"), [(1, 200, 10), (200, 3, 1)])
def test_engine_overhead_per_job(benchmark: Any, engine: Any, count: int, rounds: int, warming: int) -> None:
    assert_returned(benchmark.pedantic(run_jobs, (engine, count), rounds=rounds, warmup_rounds=warming), count)
