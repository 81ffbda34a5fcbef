"""Time roarbench and another tool in turns, and format the comparison as a row of the table."""

from collections.abc import Callable
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any, NamedTuple


class Figure(NamedTuple):
    """One row of the table: how many times as fast roarbench is (`ratio`), and the goal (`bar`)."""

    name: str
    against: str
    ratio: float
    bar: float
    detail: str = ""

    @property
    def markdown_row(self) -> str:
        reached = "reached" if self.ratio >= self.bar else "missed"
        return f"| {self.name} | {self.against} | {self.ratio:.2f} | {self.bar:g} | {reached} | {self.detail} |"


def read_core_seconds() -> float:
    """Read the processor seconds of this process and its ended child processes, to the microsecond."""
    usages = [getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN)]  # `os.times` has steps of 10 ms
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def measure_core_seconds(work: Callable[[], object]) -> float:
    start = read_core_seconds()
    work()
    return read_core_seconds() - start


class PairedTimer:
    """Timer of roarbench and a peer, which collects the rows of the table."""

    def __init__(self, benchmark: Any, figures: list[Figure]) -> None:
        self._benchmark, self._figures = benchmark, figures

    def time_in_turns(
        self, ours: Callable[[], object], peer: Callable[[], object], rounds: int = 2
    ) -> tuple[float, float]:
        """Time both in turns, ours with pytest-benchmark, and return the fewest core-seconds of each."""
        peer_seconds: list[float] = []
        self._benchmark._timer = read_core_seconds
        self._benchmark.pedantic(ours, setup=lambda: peer_seconds.append(measure_core_seconds(peer)), rounds=rounds)
        return self._benchmark.stats.stats.min, min(peer_seconds)

    def add_figure(self, figure: Figure) -> None:
        self._benchmark.extra_info[figure.name] = figure._asdict()
        self._figures.append(figure)
