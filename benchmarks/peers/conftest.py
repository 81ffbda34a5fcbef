"""What a user would otherwise do, timed beside roarbench in one run: processor seconds, one after the other in turns.

Each peer is written as well as if it were to win, and says what it follows. At the end of a run the table is printed,
each figure with its bar:

    OMP_NUM_THREADS=1 pytest benchmarks/peers --benchmark-only
"""

from collections.abc import Generator
from typing import Any

import pytest
import torch
from peers.paired_timing import Figure, PairedTimer

_FIGURES = pytest.StashKey[list[Figure]]()


@pytest.fixture
def timer(benchmark: Any, request: pytest.FixtureRequest) -> Generator[PairedTimer, None, None]:
    """Lend what times and keeps; everything is computed by one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield PairedTimer(benchmark, request.config.stash.setdefault(_FIGURES, []))
    torch.set_num_threads(threads)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if figures := config.stash.get(_FIGURES, []):
        terminalreporter.section("against what a user would otherwise do")
        terminalreporter.write_line("| figure | against | times | must reach | | measured |\n|---|---|---|---|---|---|")
        for figure in figures:
            terminalreporter.write_line(figure.markdown_row)
