"""Watch a suite while other commands work on it."""

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from rich.live import Live

from roarbench.cli.commands.terminal import err, out
from roarbench.cli.suggested_commands import add_command

if TYPE_CHECKING:
    from roarbench.analysis.results_query import ResultsQuery
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.plan.suite import SuiteSpec
    from roarbench.store.results import ResultsStore

    Glance = tuple[SuiteResults, dict[str, Any]]  # rows, and the record of what is done, who works and how fast

PERIOD = 2.0  # seconds between glances


def watch_suite(results: "ResultsStore", suite: "SuiteSpec", query: "ResultsQuery") -> None:
    """Show a suite's state until nothing is left to do or Ctrl-C: drawn anew on a terminal, else a line per change."""
    results.be_patient(lambda line: err.print(line, soft_wrap=True))
    with suppress(KeyboardInterrupt):  # the way to end it, and nothing was begun
        show = _draw if out.is_terminal else _tell
        show(_glances(results, suite, query))


def _draw(glances: Iterator["Glance"]) -> None:
    from roarbench.report.status import format_status_lines, render_activity

    with Live(console=out, auto_refresh=False) as live:
        for suite_results, status in glances:
            below = map(add_command, format_status_lines(status, suite_results.dropped))
            live.update(render_activity(status, below), refresh=True)


def _tell(glances: Iterator["Glance"]) -> None:
    from roarbench.report.status import format_activity

    before = ""
    for _, status in glances:
        if (line := format_activity(status)) != before:
            print(before := line, file=out.file, flush=True)


def _glances(results: "ResultsStore", suite: "SuiteSpec", query: "ResultsQuery") -> Iterator["Glance"]:
    """Yield glances until nothing is left; rows, which may be many, are read only when some are new."""
    from roarbench.analysis.results_query import load_from_open_store
    from roarbench.report.status import count_status, measure_activity

    seen, suite_results = "", None
    while True:
        if suite_results is None or results.state() != seen:
            seen, suite_results = results.state(), load_from_open_store(results, suite, query)
        status = count_status(suite_results, results)
        left = status["missing"] + status["running"]
        activity = measure_activity(suite_results, results, left, datetime.now(UTC))
        yield suite_results, status | activity
        if not (left or activity["workers"]):
            return
        time.sleep(PERIOD)
