"""Two ways of doing the same, timed in turns, and the line of the table that says how they compare."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One line of the table: how many times better, and how many times it should be."""

    name: str
    against: str
    ratio: float
    bar: float
    detail: str = ""

    @property
    def markdown_row(self) -> str:
        reached = "reached" if self.ratio >= self.bar else "falls short"
        return f"| {self.name} | {self.against} | {self.ratio:.2f} | {self.bar:g} | {reached} | {self.detail} |"


def read_core_seconds() -> float:
    """Return processor seconds of this process and of those that it waited for, in steps of 10 ms."""
    return sum(os.times()[:4])


def measure_core_seconds(work: Callable[[], object]) -> float:
    start = read_core_seconds()
    work()
    return read_core_seconds() - start


class PairedTimer:
    """Times two ways of doing the same and keeps how they compare."""

    def __init__(self, benchmark: Any, figures: list[Figure]) -> None:
        self._benchmark, self._figures = benchmark, figures

    def time_in_turns(
        self, ours: Callable[[], object], peer: Callable[[], object], rounds: int = 2
    ) -> tuple[float, float]:
        """Return the fewest core-seconds of each, timed in turns; ours are pytest-benchmark's, too."""
        took: list[float] = []
        self._benchmark._timer = read_core_seconds
        self._benchmark.pedantic(ours, setup=lambda: took.append(measure_core_seconds(peer)), rounds=rounds)
        return self._benchmark.stats.stats.min, min(took)

    def add_figure(self, figure: Figure) -> None:
        self._benchmark.extra_info[figure.name] = figure._asdict()
        self._figures.append(figure)
