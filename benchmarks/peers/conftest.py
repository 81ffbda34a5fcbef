"""Compare the processor time of roarbench with the time of the other tools that a user would otherwise choose (peers).

The code of each peer is as fast as we could make it, and its docstring names its source. At the end of the run, a table
is printed with each ratio and its goal:

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
    """Yield a timer that collects the rows of the table; torch uses one thread."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield PairedTimer(benchmark, request.config.stash.setdefault(_FIGURES, []))
    torch.set_num_threads(threads)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if figures := config.stash.get(_FIGURES, []):
        terminalreporter.section("roarbench against other tools")
        terminalreporter.write_line("| task | against | times as fast | goal | | measured |\n|---|---|---|---|---|---|")
        for figure in figures:
            terminalreporter.write_line(figure.markdown_row)
