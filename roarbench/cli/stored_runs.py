"""Commands that count, watch, list, show, retry, archive and reproduce the runs of a store."""

import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.live import Live

from roarbench.cli.options import (
    STORE,
    Data,
    Db,
    ReportFormat,
    ResultsOptions,
    Rows,
    StoreDir,
    SuiteName,
    Trust,
    TrustNetwork,
    Workers,
    declare_argument,
    declare_option,
)
from roarbench.cli.suggested_commands import append_proposed_command, describe_other_results, propose_command
from roarbench.cli.terminal import err, out, print_other_results, print_report
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count
from roarbench.plan.suite_changes import add_submissions_and_estimators, parse_estimators_option

if TYPE_CHECKING:
    from roarbench.analysis.load_results import ResultsQuery
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.api.suites import Suite
    from roarbench.plan.suite import SuiteSpec
    from roarbench.store.results import ResultsStore

    ProgressState = tuple[SuiteResults, dict[str, Any]]  # rows, and a record of progress, workers and pace

_PERIOD = 2.0  # seconds between updates of `status --watch`
_Key = Annotated[str, declare_argument("Key of a run, or its first digits; `list-runs` lists them.", "KEY")]


def status(
    *,
    suite: SuiteName,
    source: ResultsOptions,
    watch: Annotated[
        bool, declare_option("Show workers, pace and time left until all is done or Ctrl-C.", flags="--watch")
    ] = False,
    format: ReportFormat = "text",
) -> None:
    """Count runs that are done, running, missing and failed."""
    if watch and format == "json":
        raise CallerError("--watch draws on a terminal; leave out --format json, or leave out --watch to get JSON once")
    loaded = source.load(suite)
    from roarbench.analysis.load_results import load_from_open_store, open_store_for_reading
    from roarbench.report.status import format_lines_below_status_table, make_status_record, make_status_table

    with open_store_for_reading(source.store, source.db) as results:
        if watch:
            watch_suite(results, loaded.plan, loaded.query)
            return
        suite_results = load_from_open_store(results, loaded.plan, loaded.query)
        counts = make_status_record(suite_results, results)
    print_report(format, counts, make_status_table)
    if format == "text":
        for line in format_lines_below_status_table(counts, suite_results.inconsistent_rows):
            out.print(append_proposed_command(line), soft_wrap=True)
    print_other_results(suite_results, "status")


def watch_suite(results: "ResultsStore", suite: "SuiteSpec", query: "ResultsQuery") -> None:
    """Show a suite's state until it is complete or Ctrl-C; redraw a terminal, else print a line per change."""
    results.enable_waiting_for_server(lambda line: err.print(line, soft_wrap=True))
    with suppress(KeyboardInterrupt):  # Ctrl-C is the normal end, and no work is lost
        show = _redraw_progress if out.is_terminal else _print_progress_changes
        show(_poll_progress(results, suite, query))


def _redraw_progress(states: Iterator["ProgressState"]) -> None:
    from roarbench.report.status import format_lines_below_status_table, render_progress

    with Live(console=out, auto_refresh=False) as live:
        for suite_results, status in states:
            lines = format_lines_below_status_table(status, suite_results.inconsistent_rows)
            live.update(render_progress(status, map(append_proposed_command, lines)), refresh=True)


def _print_progress_changes(states: Iterator["ProgressState"]) -> None:
    from roarbench.report.status import format_progress

    printed = ""
    for _, status in states:
        if (line := format_progress(status)) != printed:
            print(printed := line, file=out.file, flush=True)


def _poll_progress(results: "ResultsStore", suite: "SuiteSpec", query: "ResultsQuery") -> Iterator["ProgressState"]:
    """Yield the suite's state until no run is left; read rows again only if there are new rows."""
    from roarbench.analysis.load_results import load_from_open_store
    from roarbench.report.status import make_status_record, measure_workers_and_pace

    read_stamp, suite_results = "", None
    while True:
        stamp = results.read_change_stamp()
        if suite_results is None or stamp != read_stamp:
            read_stamp, suite_results = stamp, load_from_open_store(results, suite, query)
        status = make_status_record(suite_results, results)
        left = status["missing"] + status["running"]
        activity = measure_workers_and_pace(suite_results, results, left, datetime.now(UTC))
        yield suite_results, status | activity
        if not (left or activity["workers"]):
            return
        time.sleep(_PERIOD)


def list_runs(
    *, suite: SuiteName, estimators: Rows = None, source: ResultsOptions, format: ReportFormat = "text"
) -> None:
    """List the runs of a suite with key and state."""
    loaded = source.load(suite)
    from roarbench.analysis.load_results import open_store_for_reading
    from roarbench.report.status import format_runs

    with open_store_for_reading(source.store, source.db) as results:
        _, records = _load_results_and_run_records("list-runs", loaded, results, estimators)
    print_report(format, records, format_runs)


def _load_results_and_run_records(
    command: str, loaded: "Suite", results: "ResultsStore", estimators: list[str] | None
) -> "tuple[SuiteResults, list[dict[str, Any]]]":
    """Return a suite's results and these estimators' run records (None: all); raise CallerError for unknown images."""
    from roarbench.analysis.load_results import load_from_open_store
    from roarbench.report.status import list_run_records

    plan = add_submissions_and_estimators(loaded.plan, estimators)
    suite_results = load_from_open_store(results, plan, loaded.query)
    if not suite_results.data and (other_results := describe_other_results(suite_results, command)):
        raise CallerError(other_results)
    chosen = parse_estimators_option(suite_results.suite, estimators)
    records = list_run_records(suite_results, results)
    return suite_results, [record for record in records if not chosen or record["estimator"] in chosen]


def retry(*, suite: SuiteName, estimators: Rows = None, source: ResultsOptions) -> None:
    """Mark failed runs as due; the next `run` of the suite retries them."""
    loaded = source.load(suite)
    from roarbench.analysis.load_results import open_store_for_writing

    with open_store_for_writing(source.store, source.db) as results:
        suite_results, records = _load_results_and_run_records("retry", loaded, results, estimators)
        keys = [record["key"] for record in records if record["state"] == "failed"]
        due = results.failures.allow_retry_of_runs_and_steps(keys, suite_results.data)
    verb = "is" if len(due) == 1 else "are"
    counted = f"{format_count(len(due), 'failed run')} of {suite_results.title} {verb} due again"
    advice = f"`{propose_command('run')}` starts them" if due else "nothing to retry"
    err.print(f"{counted}; {advice}", soft_wrap=True)


def run_info(key: _Key, store: StoreDir = STORE, db: Db = "", format: ReportFormat = "text") -> None:
    """Show one run in full: settings, result, status, and where its rankings are."""
    from roarbench.analysis.load_results import find_run_key, open_store_for_reading
    from roarbench.report.run_details import format_run, make_run_record

    with open_store_for_reading(store, db) as results:
        record = make_run_record(results, store, find_run_key(results, key))
    print_report(format, record, format_run)


def archive(
    run_or_estimator: Annotated[str, declare_argument("A run, or all runs of an estimator.", "KEY|ESTIMATOR")],
    why: Annotated[str, declare_option("Reason, stored with the rows.", "TEXT")],
    yes: Annotated[bool, declare_option("Confirm for estimators that come with roarbench.", flags="--yes")] = False,
    store: StoreDir = STORE,
    db: Db = "",
) -> None:
    """Take results and failures off the boards and archive them with a reason; `run` can compute them again."""
    if not why.strip():
        raise CallerError("--why is empty; write in a few words why these rows are taken off the boards")
    from roarbench.analysis.load_results import open_store_for_writing
    from roarbench.report.run_details import count_runs_by_suite, find_named_runs
    from roarbench.store.archived_runs import archive_rows

    with open_store_for_writing(store, db) as results:
        chosen = find_named_runs(results, run_or_estimator)
        affected = count_runs_by_suite(results, chosen.keys)
        if chosen.built_in and not yes:
            seen = f"{chosen.description} comes with roarbench"
            raise CallerError(f"{seen}; add --yes to take it off the boards anyway ({affected})")
        archived = archive_rows(results.database, chosen.keys, why)
    counts = f"{format_count(archived.results, 'result')} and {format_count(archived.failures, 'failure')}"
    line = f"taken off the boards: {counts} of {chosen.description} ({affected}); `run-info` still shows them"
    err.print(line, soft_wrap=True)


def reproduce(
    key: Annotated[str, declare_argument("Key of a stored run, or its first digits.")],
    store: StoreDir = STORE,
    db: Db = "",
    data: Data = None,
    workers: Workers = None,
    reference: Annotated[
        list[str] | None,
        declare_option("Weights that were explained or scored, if they came from a file. Repeatable.", "FILE", "none"),
    ] = None,
    trust: Trust = False,
    trust_network: TrustNetwork = "",
) -> None:
    """Repeat one stored run from scratch, with its reference and rankings, and compare the results."""
    from roarbench.analysis.load_results import open_store_for_writing
    from roarbench.execution import reproduction
    from roarbench.execution.run_suite import choose_worker_count
    from roarbench.store.results import ReproductionOutcome
    from roarbench.store.workspace import Workspace

    request = reproduction.RerunRequest(
        key, data, tuple(reference or ()), choose_worker_count(workers), trust_network, trust
    )
    with open_store_for_writing(store, db) as results:
        outcome = reproduction.reproduce(request, Workspace(store), results, err)
    out.print(outcome.format_report(), soft_wrap=True)
    if outcome.verdict in (ReproductionOutcome.DIFFERENT, ReproductionOutcome.INCOMPARABLE):
        raise typer.Exit(1)
