"""Measure the overhead of an engine per job, from its start to its outcome, for one job and for 200 jobs.

    pytest benchmarks/test_engines.py -o addopts= --benchmark-only --benchmark-columns=min,median,mean,max

Each job returns its argument, an array as large as the correctness of 10,000 test images, which a run returns.
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
BITS = (np.arange(10_000) % 2).astype(np.int8)
pytestmark = pytest.mark.filterwarnings("default")  # Ray's own modules leave resources open


def start_local_engine(folder: Path) -> AbstractContextManager[Any]:
    return LocalEngine(WORKERS)


def start_ray_engine(folder: Path) -> AbstractContextManager[Any]:
    from roarbench.common.ray_workers import RayEngine, connect_to_ray

    connect_to_ray("", WORKERS)
    return RayEngine(WORKERS, folder, follow=False)


@pytest.fixture(scope="module", params=[start_local_engine, start_ray_engine])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with request.param(tmp_path_factory.mktemp("store")) as started:
        while started.idle < WORKERS:
            started.wait(1.0)
        run_jobs(started, WORKERS)  # makes each worker import torch
        yield started


def run_jobs(engine: Any, count: int) -> list[JobOutcome]:
    """Run this number of jobs as the scheduler does: each idle worker gets the next job."""
    started, outcomes = 0, list[JobOutcome]()
    while len(outcomes) < count:
        while engine.idle and started < count:
            engine.start_job(Job(str(started), pos, (BITS,)))
            started += 1
        outcomes += engine.wait(1.0)
    return outcomes


def assert_returned(outcomes: list[JobOutcome], count: int) -> None:
    """Check that each of `count` jobs ended once, without an error, and returned its argument."""
    results = {outcome.name: (outcome.error, np.array_equal(outcome.value, BITS)) for outcome in outcomes}
    assert (len(outcomes), results) == (count, {str(number): (None, True) for number in range(count)})


@pytest.mark.parametrize(("count", "rounds", "warming"), [(1, 200, 10), (200, 3, 1)])
def test_engine_overhead_per_job(benchmark: Any, engine: Any, count: int, rounds: int, warming: int) -> None:
    assert_returned(benchmark.pedantic(run_jobs, (engine, count), rounds=rounds, warmup_rounds=warming), count)
