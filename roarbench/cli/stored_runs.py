"""Commands that count, list, show, archive, retry and reproduce the runs of a store."""

from typing import TYPE_CHECKING, Annotated, Any

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
from roarbench.cli.terminal import (
    append_proposed_command,
    describe_other_results,
    err,
    out,
    print_other_results,
    print_report,
    propose_command,
)
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count
from roarbench.plan.settings import Settings
from roarbench.plan.suite_changes import add_submissions_and_estimators, parse_estimators_option

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.api.suites import Suite
    from roarbench.store.results import ResultsStore


def status(*, suite: SuiteName, source: ResultsOptions, format: ReportFormat = "text") -> None:
    """Count runs that are done, running, missing and failed."""
    loaded = source.load(suite)
    from roarbench.analysis.load_results import load_from_open_store, open_store_for_reading
    from roarbench.report.status import format_lines_below_status_table, make_status_record, make_status_table

    with open_store_for_reading(source.store, source.db) as results:
        suite_results = load_from_open_store(results, loaded.plan, loaded.settings)
        counts = make_status_record(suite_results, results)
    print_report(format, counts, make_status_table)
    if format == "text":
        for line in format_lines_below_status_table(counts, suite_results.inconsistent_rows):
            out.print(append_proposed_command(line), soft_wrap=True)
    print_other_results(suite_results, "status")


def runs(
    run: Annotated[
        str,
        declare_argument(
            "Show this run in full: settings, result, state, and where its rankings are. With --archive, also a row.",
            "[KEY|ROW]",
            "all of the suite",
        ),
    ] = "",
    *,
    suite: Annotated[str, declare_option("List the runs of this suite with key and state.", "NAME|FILE", "none")] = "",
    estimators: Rows = (),
    archive: Annotated[
        str,
        declare_option(
            "Take this run, or all runs of this row, off the boards and archive them with this reason; `run` can "
            "compute them again.",
            "REASON",
            "none",
        ),
    ] = "",
    source: ResultsOptions,
    format: ReportFormat = "text",
) -> None:
    """List the runs of a suite, show one run in full, or archive runs."""
    if bool(run) == bool(suite):
        raise CallerError("write the KEY of a run, or --suite NAME to list the runs of a suite")
    if run and estimators:
        raise CallerError(f"--estimators {','.join(estimators)} needs --suite; leave out {run}, or this option")
    if archive:
        _archive_runs(run, archive, source)
        return
    from roarbench.analysis.load_results import find_run_key, open_store_for_reading
    from roarbench.report.status import format_run, format_runs, make_run_record

    loaded = source.load(suite) if suite else None
    with open_store_for_reading(source.store, source.db) as results:
        if loaded:
            _, records = _load_results_and_run_records("runs", loaded, results, estimators)
            print_report(format, records, format_runs)
        else:
            print_report(format, make_run_record(results, source.store, find_run_key(results, run)), format_run)


def _archive_runs(run_or_row: str, reason: str, source: ResultsOptions) -> None:
    if not run_or_row or not reason.strip():
        raise CallerError("--archive takes a reason, in a few words, and the run or row: `runs KEY --archive REASON`")
    from roarbench.analysis.load_results import open_store_for_writing
    from roarbench.report.status import count_runs_by_network, find_named_runs
    from roarbench.store.archived_runs import archive_rows

    with open_store_for_writing(source.store, source.db) as results:
        chosen = find_named_runs(results, run_or_row)
        affected = count_runs_by_network(results, chosen.keys)
        archived = archive_rows(results.database, chosen.keys, reason)
    counts = f"{format_count(archived.results, 'result')} and {format_count(archived.failures, 'failure')}"
    line = f"taken off the boards: {counts} of {chosen.description} ({affected}); `runs KEY` still shows them"
    err.print(line, soft_wrap=True)


def _load_results_and_run_records(
    command: str, loaded: "Suite", results: "ResultsStore", estimators: tuple[str, ...]
) -> "tuple[SuiteResults, list[dict[str, Any]]]":
    """Return a suite's results and these estimators' run records, or all; raise CallerError for unknown images."""
    from roarbench.analysis.load_results import load_from_open_store
    from roarbench.report.status import list_run_records

    plan = add_submissions_and_estimators(loaded.plan, estimators)
    suite_results = load_from_open_store(results, plan, loaded.settings)
    if not suite_results.data and (other_results := describe_other_results(suite_results, command)):
        raise CallerError(other_results)
    chosen = parse_estimators_option(suite_results.suite, estimators)
    records = list_run_records(suite_results, results)
    return suite_results, [record for record in records if not chosen or record["estimator"] in chosen]


def retry(*, suite: SuiteName, estimators: Rows = (), source: ResultsOptions) -> None:
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


def reproduce(
    key: Annotated[str, declare_argument("Key of a stored run, or its first digits.")],
    store: StoreDir = STORE,
    db: Db = "",
    data: Data = None,
    workers: Workers = None,
    reference: Annotated[
        tuple[str, ...],
        declare_option("Weights that were explained or scored, if they came from a file. Repeatable.", "FILE", "none"),
    ] = (),
    trust: Trust = False,
    trust_network: TrustNetwork = "",
) -> int:
    """Repeat one stored run from scratch, with its reference and rankings, and compare the results."""
    from roarbench.analysis.load_results import open_store_for_writing
    from roarbench.execution import reproduction
    from roarbench.execution.worker_counts import choose_worker_count
    from roarbench.store.results import ReproductionOutcome

    settings = Settings(store, db, None, str(data or ""), reference, trust_network)
    with open_store_for_writing(store, db) as results:
        outcome = reproduction.reproduce(key, settings, results, err, choose_worker_count(workers), trust)
    out.print(outcome.format_report(), soft_wrap=True)
    return int(outcome.verdict in (ReproductionOutcome.DIFFERENT, ReproductionOutcome.INCOMPARABLE))
