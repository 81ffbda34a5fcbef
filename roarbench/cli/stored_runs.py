"""Commands on single runs of a store."""

from typing import TYPE_CHECKING, Annotated, Any

from roarbench.cli.options import (
    STORE,
    Db,
    Report,
    ResultsOptions,
    Rows,
    StoreDir,
    SuiteName,
    declare_argument,
    declare_option,
)
from roarbench.cli.suggested_commands import describe_other_results, propose_command
from roarbench.cli.terminal import err, print_report
from roarbench.common.errors import CallerError
from roarbench.plan.suite_options import add_submissions_and_estimators, parse_estimators_option

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.api.suites import Suite
    from roarbench.store.results import ResultsStore

Key = Annotated[str, declare_argument("Key of a run, or its first digits; `list-runs` lists them.", "KEY")]


def list_runs(*, suite: SuiteName, estimators: Rows = None, source: ResultsOptions, format: Report = "text") -> None:
    """List the runs of a suite with key and state."""
    loaded = source.load(suite)
    from roarbench.analysis.load_results import open_read_only_results
    from roarbench.report.run_list import format_runs

    with open_read_only_results(source.store, source.db) as results:
        _, records = _load_results_and_run_records("list-runs", loaded, results, estimators)
    print_report(format, records, format_runs)


def _load_results_and_run_records(
    command: str, loaded: "Suite", results: "ResultsStore", estimators: list[str] | None
) -> "tuple[SuiteResults, list[dict[str, Any]]]":
    """Return a suite's results and these estimators' run records (None: all); raise CallerError for unknown images."""
    from roarbench.analysis.load_results import load_from_open_store
    from roarbench.report.run_list import list_run_records

    plan = add_submissions_and_estimators(loaded.plan, estimators)
    suite_results = load_from_open_store(results, plan, loaded.query)
    if not suite_results.data and (other_results := describe_other_results(suite_results, command)):
        raise CallerError(other_results)
    chosen, rows = parse_estimators_option(suite_results.suite, estimators), list_run_records(suite_results, results)
    return suite_results, [row for row in rows if not chosen or row["estimator"] in chosen]


def retry(*, suite: SuiteName, estimators: Rows = None, source: ResultsOptions) -> None:
    """Mark failed runs as due; the next `run` of the suite retries them."""
    loaded = source.load(suite)
    from roarbench.analysis.load_results import open_writable_results
    from roarbench.common.text import format_count

    with open_writable_results(source.store, source.db) as results:
        suite_results, rows = _load_results_and_run_records("retry", loaded, results, estimators)
        keys = [row["key"] for row in rows if row["state"] == "failed"]
        due = results.failures.retry(keys, suite_results.data)
    verb = "is" if len(due) == 1 else "are"
    words = f"{format_count(len(due), 'failed run')} of {suite_results.title} {verb} due again"
    then = f"`{propose_command('run')}` starts them" if due else "nothing to retry"
    err.print(f"{words}; {then}", soft_wrap=True)


def run_info(key: Key, store: StoreDir = STORE, db: Db = "", format: Report = "text") -> None:
    """Show one run in full: settings, result, status, and where its rankings are."""
    from roarbench.analysis.load_results import find_run_key, open_read_only_results
    from roarbench.report.run_list import format_run, make_run_record

    with open_read_only_results(store, db) as results:
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
    from roarbench.analysis.load_results import open_writable_results
    from roarbench.common.text import format_count
    from roarbench.report.run_list import find_named_runs
    from roarbench.store.archived_rows import archive_rows as take_off

    with open_writable_results(store, db) as results:
        chosen = find_named_runs(results, run_or_estimator)
        if chosen.built_in and not yes:
            raise CallerError(f"{chosen.words} comes with roarbench; add --yes to take it off the boards anyway")
        gone = take_off(results.database, chosen.keys, why)
    counts = f"{format_count(gone.results, 'result')} and {format_count(gone.failures, 'failure')}"
    err.print(f"taken off the boards: {counts} of {chosen.words}; `run-info` still shows them", soft_wrap=True)
