"""Commands that count, list, show, archive, retry, reproduce, move and publish the runs of a store."""

import subprocess
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from roarbench.api.suites import print_store_if_default
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
from roarbench.common.errors import CallerError, Hint
from roarbench.common.text import format_count, join_with_and
from roarbench.plan.planned_runs import PlannedRun, describe_run
from roarbench.plan.settings import Settings
from roarbench.plan.suite_changes import add_submissions_and_estimators, parse_estimators_option

if TYPE_CHECKING:
    from roarbench.analysis.suite_results import SuiteResults
    from roarbench.api.suites import Suite
    from roarbench.store.export_and_import import ImportOutcome
    from roarbench.store.results import ResultsStore

_MOST_CONFLICTS = 10  # maximum number of conflicts that an import lists one by one
Folder = Annotated[Path, declare_argument("Folder of published results, with an index.json.")]
Before = Annotated[Path | None, declare_option("The folder before the change, whose rows must be unchanged.", "FOLDER")]


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
    run: Annotated[str, declare_argument("Show this run in full: settings, result, state, and where its rankings are. "
        "With --archive, also a row.", "[KEY|ROW]", "all of the suite")] = "",
    *,
    suite: Annotated[str, declare_option("List the runs of this suite with key and state.", "NAME|FILE", "none")] = "",
    estimators: Rows = (),
    archive: Annotated[str, declare_option("Take this run, or all runs of this row, off the boards and archive them "
        "with this reason; `run` can compute them again.", "REASON", "none")] = "",
    source: ResultsOptions,
    format: ReportFormat = "text",
) -> None:  # fmt: skip
    """List the runs of a suite, show one run in full, or archive runs."""
    if run and suite:
        raise CallerError(f"{run} is looked up in all suites; leave out --suite {suite}, or {run} to list all runs")
    if not run and not suite:
        raise CallerError("write the KEY of a run, or --suite NAME to list the runs of a suite")
    if run and estimators:
        raise CallerError(f"--estimators {','.join(estimators)} needs --suite; leave out {run}, or this option")
    from roarbench.analysis.load_results import find_run_key, open_store_for_reading, open_store_for_writing
    from roarbench.report import status as runs_and_failures
    from roarbench.store.archived_runs import archive_rows

    if archive:
        if not run or not archive.strip():
            way = "`runs KEY --archive REASON`"
            raise CallerError(f"--archive takes a reason, in a few words, and the run or row: {way}")
        with open_store_for_writing(source.store, source.db) as results:
            keys, described = runs_and_failures.find_named_runs(results, run)
            affected = runs_and_failures.count_runs_by_network(results, keys)
            archived = archive_rows(results.database, keys, archive)
        counts = f"{format_count(archived.results, 'result')} and {format_count(archived.failures, 'failure')}"
        line = f"taken off the boards: {counts} of {described} ({affected}); `runs KEY` still shows them"
        err.print(line, soft_wrap=True)
        return
    loaded = source.load(suite) if suite else None
    with open_store_for_reading(source.store, source.db) as results:
        if loaded:
            found, records = _load_results_and_run_records("runs", loaded, results, estimators)
            if found.title_parts:
                err.print(f"runs of {found.title}", soft_wrap=True)
            print_report(format, records, runs_and_failures.format_runs)
        else:
            record = runs_and_failures.make_run_record(results, source.store, find_run_key(results, run))
            print_report(format, record, runs_and_failures.format_run)


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
    from roarbench.estimators.catalogue import find_estimator

    with open_store_for_writing(source.store, source.db) as results:
        suite_results, records = _load_results_and_run_records("retry", loaded, results, estimators)
        keys = [record["key"] for record in records if record["state"] == "failed"]
        due = results.failures.allow_retry_of_runs_and_steps(keys, suite_results.data)
    failed = {record["estimator"] for record in records if record["key"] in due} & {*suite_results.suite.estimators}
    rows = {find_estimator(name).untwinned_id for name in failed}
    named = sorted(row for row in rows if not find_estimator(row).submitted)
    words = ("--submission", "FILE") * (len(rows) - len(named))
    if suite_results.suite.added & {*named}:  # `run` starts no rows that were added to the suite, unless it names them
        words += ("--estimators", ",".join(named))
    verb = "is" if len(due) == 1 else "are"
    counted = f"{format_count(len(due), 'failed run')} of {suite_results.title} {verb} due again"
    advice = f"`{propose_command('run', *words)}` starts them" if due else "nothing to retry"
    err.print(f"{counted}; {advice}", soft_wrap=True)


def reproduce(
    key: Annotated[str, declare_argument("Key of a stored run, or its first digits.")],
    store: StoreDir = STORE,
    db: Db = "",
    data: Data = None,
    workers: Workers = None,
    reference: Annotated[tuple[str, ...], declare_option("Weights that were explained or scored, if they came from a "
        "file. Repeatable.", "FILE", "none")] = (),
    trust: Trust = False,
    trust_network: TrustNetwork = "",
) -> int:  # fmt: skip
    """Rank, train and score again as in one stored run, and compare the results; lost networks are trained again."""
    from roarbench.analysis.load_results import open_store_for_writing
    from roarbench.execution import reproduction
    from roarbench.execution.workload import choose_worker_count
    from roarbench.store.results import ReproductionOutcome

    settings = Settings(store, db, None, str(data or ""), reference, trust_network)
    with open_store_for_writing(store, db) as results:
        outcome = reproduction.reproduce(key, settings, results, err, choose_worker_count(workers), trust)
    out.print(outcome.format_report(), soft_wrap=True)
    return int(outcome.verdict in (ReproductionOutcome.DIFFERENT, ReproductionOutcome.INCOMPARABLE))


def export_(
    file: Annotated[Path, declare_argument("New file, .parquet.")], store: StoreDir = STORE, db: Db = ""
) -> None:
    """Export all results as Parquet, with submitted sources, for another store."""
    from roarbench.analysis.load_results import open_store_for_reading
    from roarbench.store.export_and_import import export_results
    from roarbench.store.rankings import RankingsStore
    from roarbench.store.workspace import Workspace

    measured = RankingsStore(Workspace(store).rankings).read_annotations()
    if file.suffix != ".parquet":
        seen = f"cannot write '{file}': an export is .parquet, which `roarbench import` reads"
        table = "`roarbench table --format csv` prints a table for a spreadsheet"
        raise CallerError(f"{seen}; write {file.stem or 'results'}.parquet ({table})")
    with open_store_for_reading(store, db) as results:
        if not results.list_datasets_and_networks():
            hint = Hint("; `{}` computes them", "run")
            raise CallerError(f"results store {results.database.where} has no results", hint)
        count = export_results(results, file, measured)
    content = "of all suites, and of explained networks on untouched images, which `status` does not count"
    err.print(f"written: {file}: {count} results ({content})", soft_wrap=True)


def import_(
    source: Annotated[str, declare_argument("File of `roarbench export`, or a folder of published results.",
        "FILE|FOLDER")],
    store: StoreDir = STORE, db: Db = "",
) -> None:  # fmt: skip
    """Import another store's results; they are self-reported until `roarbench reproduce KEY` repeats them."""
    from roarbench.analysis.load_results import open_store_for_writing
    from roarbench.store.archived_runs import read_archived_rows
    from roarbench.store.export_and_import import check_exported_files, import_results
    from roarbench.store.published_folder import list_checked_result_files
    from roarbench.store.user_files import read_suites

    print_store_if_default(store, err)
    files = list_checked_result_files(source)
    unchecked = [] if Path(source).is_dir() else files
    with open_store_for_writing(store, db, partial(check_exported_files, unchecked)) as results:
        if Path(source).is_dir():
            from roarbench.execution.row_publication import copy_published_networks
            from roarbench.store.workspace import Workspace

            if copied := copy_published_networks(Path(source), Workspace(store)):
                err.print(f"read: {source}: {format_count(copied, 'explained network')}", soft_wrap=True)
        for file in files:
            before = read_suites(results.database)
            outcome = import_results(results, file)
            for line in _summarize_import(file, outcome):
                err.print(line, soft_wrap=True)
            now, names = read_suites(results.database), {suite.name for suite in before}
            meant = {suite.name: suite.name_in_commands for suite in now}
            for suite in now:
                if suite not in before and suite.name in names:
                    other = f"{suite.name_in_commands} is another suite of this name"
                    err.print(f"{other}: `--suite {suite.name}` means {meant[suite.name]}", soft_wrap=True)
            if restored := {row.run.key for row in read_archived_rows(results.database, outcome.new)}:
                count = format_count(len(restored), "result")
                err.print(f"archived before, and now back: {count}; `runs KEY` shows the reasons", soft_wrap=True)


def _summarize_import(file: Path, outcome: "ImportOutcome") -> Iterator[str]:
    """Yield counts, and runs with different predictions, one line each."""
    conflicts, more = outcome.conflicts, len(outcome.conflicts) - _MOST_CONFLICTS
    known = f", {len(outcome.known)} are stored already" if outcome.known else ""
    other = f", {len(conflicts)} are stored already with other predictions, weights or rankings and were not imported"
    yield f"read: {file}: {len(outcome.new)} results are new{known}{other if conflicts else ''}"
    if outcome.removed:
        count = format_count(outcome.removed, "result")
        yield f"{count} of the removed protocol roar-exchanged: stored, but in no table; commit 33fdbc1c shows them"
    for conflict in conflicts[:_MOST_CONFLICTS]:
        run, stored = conflict.stored.run, conflict.stored
        counts = f"{stored.correct:,} of {stored.total:,} correct here, {conflict.imported.correct:,} in the file"
        named = f"other {join_with_and(conflict.differences)}: {describe_run(PlannedRun(run.cell, run.seed))}"
        yield f"{named}: {counts}, {conflict.differing_images:,} differ (key {run.key[:8]})"
    if more > 0:
        yield f"other values: {more} more runs"


def check(folder: Folder, before: Before = None) -> None:
    """Check every file and row of a folder: names, hashes, suites, results and duplicates.

    No check repeats a run, so an invented row passes. --before rejects missing or changed rows and lists new rows:
    reproduce some of their runs.
    """
    from roarbench.store.published_folder import read_checked_change

    by_file, new = read_checked_change(folder, before)
    new = new if before else {}
    for file, results in new.items():
        runs = Counter(result.run.cell.estimator for result in results)
        rows = ", ".join(f"{row} ({format_count(number, 'run')})" for row, number in sorted(runs.items()))
        out.print(f"new in {file.path}: {rows}", soft_wrap=True, markup=False)
    counts = f"{format_count(len(by_file), 'file')}, {format_count(sum(map(len, by_file.values())), 'result')}"
    err.print(f"{folder}: {counts}: all checks passed; no check repeats a run", soft_wrap=True)
    if new:
        advice = "`roarbench import` this folder, get keys by `roarbench runs --suite SUITE --estimators ROW`"
        err.print(f"reproduce some new runs: {advice}, then `roarbench reproduce KEY`", soft_wrap=True)


def comment(folder: Folder, before: Before = None) -> None:
    """Print a Markdown comment on a pull request: its new rows and the boards with them."""
    from roarbench.report.pull_request_comment import format_pull_request_comment

    out.print(format_pull_request_comment(folder, before), soft_wrap=True, markup=False, end="")


def submit(
    *,
    suite: SuiteName,
    row: Annotated[str, declare_argument("Id of the row, such as my-estimator@1a2b3c4d.")],
    folder: Annotated[Path, declare_option("Folder of published results.", "FOLDER", flags="--results")],
    about: Annotated[str, declare_option("One line on who computed the results.", "TEXT")],
    write: Annotated[bool, declare_option("Write the file, and commit it to a new branch.")] = False,
    store: StoreDir = STORE,
    db: Db = "",
) -> None:
    """Prepare a pull request with a row: branch, file and text. Nothing is written without --write.

    Rows of a small version (--max-images) cannot be submitted.
    """
    from roarbench.analysis.load_results import open_store_for_reading
    from roarbench.execution.row_publication import add_published_file, plan_pull_request, publish_networks

    with open_store_for_reading(store, db) as results_store:
        prepared = plan_pull_request(results_store, suite, row, folder, about)
        for warning in prepared.warnings:
            err.print(f"warning: {warning}", soft_wrap=True)
        if write:
            from roarbench.store.rankings import RankingsStore
            from roarbench.store.workspace import Workspace

            workspace = Workspace(store)
            if _run_git(folder, "branch", "--show-current") != prepared.branch:  # else an earlier try met a full disk
                _run_git(folder, "switch", "--create", prepared.branch)
            publish_networks(results_store.read_results(prepared.keys).values(), workspace, folder)
            measured = RankingsStore(workspace.rankings).read_annotations()
            add_published_file(results_store, folder, prepared, about, measured)
            _run_git(folder, "add", ".")
            _run_git(folder, "commit", "--message", prepared.text)
    verb = "written" if write else "would write (add --write)"
    err.print(f"{verb}: {folder / prepared.path} on the branch {prepared.branch}", soft_wrap=True)
    out.print(prepared.text, soft_wrap=True, markup=False, end="")


def _run_git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    if done.returncode:
        seen = (done.stderr or done.stdout).strip().splitlines()
        raise CallerError(f"git {arguments[0]} in {folder}: {seen[-1] if seen else 'failed'}")
    return done.stdout.strip()
