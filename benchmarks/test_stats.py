"""Speed and memory of the statistics: 20 estimators x 5 levels x 5 seeds x 10,000 images, 2,000 draws, one core.

    pytest benchmarks/test_stats.py -o addopts= --benchmark-only

Timed in CPU seconds, so that a busy machine does not show.
"""

import resource
import subprocess
import sys
import time
from itertools import product
from typing import Any

import numpy as np
import pytest

from roarbench.protocols.roar import ROAR
from roarbench.stats.board import Board
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.curves import UNTOUCHED, Scores
from roarbench.stats.judging import board
from roarbench.terms import PAPER_LEVELS

ESTIMATORS = ("random", "sobel", *(f"e{index}" for index in range(18)))


def scores(seeds: int = 5, images: int = 10_000) -> Scores:
    generator = np.random.default_rng(0)
    points = [UNTOUCHED, *product(ESTIMATORS, PAPER_LEVELS)]
    correct = {point: generator.random((seeds, images), dtype=np.float32) < 0.9 - 0.5 * point[1] for point in points}
    return Scores(ESTIMATORS, PAPER_LEVELS, correct)


def judge(answers: Scores) -> Board:
    return board(answers, ROAR, Bootstrap(2000))


@pytest.mark.benchmark(timer=time.process_time, min_rounds=3)
def test_board(benchmark: Any) -> None:
    judged = benchmark(judge, scores())
    assert all(row.gain.low is not None for row in judged.rows)


def test_peak_memory(benchmark: Any) -> None:
    """Measure the peak memory of a process of its own, bits included, and show it beside the time."""
    command = [sys.executable, __file__]
    found = benchmark.pedantic(
        subprocess.run, (command,), {"capture_output": True, "text": True, "check": True}, rounds=1
    )
    benchmark.extra_info["peak_mib"] = float(found.stdout)
    print(f"peak {found.stdout.strip()} MiB")
    assert float(found.stdout) < 1024


if __name__ == "__main__":
    judge(scores())
    print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
