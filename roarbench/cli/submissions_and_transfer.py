"""Commands on submissions, and on results that move between stores."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roarbench.api.suites import print_store_if_default
from roarbench.cli.options import (
    STORE,
    Data,
    Db,
    StoreDir,
    Trust,
    TrustNetwork,
    Workers,
    declare_argument,
    declare_option,
)
from roarbench.cli.suggested_commands import propose_command
from roarbench.cli.terminal import err, out
from roarbench.common.errors import CallerError, Hint

if TYPE_CHECKING:
    from roarbench.store.results import ResultsStore


def new_submission(name: Annotated[str, declare_argument("1-40 characters of a-z, 0-9 and -.")]) -> None:
    """Write a submission template into this folder."""
    from roarbench.submissions.file import write_template

    path = write_template(name)
    err.print(f"written: {path}; next: {propose_command('validate', path)}", soft_wrap=True)


def validate(
    file: Annotated[Path, declare_argument("The submission, one Python file; or FILE(samples=50).")],
    explain: Annotated[
        bool, declare_option("Show the traceback if the submission is refused.", flags="--explain")
    ] = False,
) -> None:
    """Check a submission in a sandbox in seconds; show a map, and the cost of running it in the suite quick."""
    from roarbench.execution.submission_intake import check_submission
    from roarbench.submissions.file import Refusal, read_submission

    try:
        accepted = check_submission(read_submission(file), err)
        out.print(accepted.format_report(with_picture=True), soft_wrap=True)
        command = propose_command("run", "--suite", accepted.suite.name_in_commands, "--submission", file)
        err.print(f"next: {command}", soft_wrap=True)
    except Refusal as refusal:
        if not refusal.fault.trace:
            raise
        if not explain:
            raise CallerError(f"{refusal}; `--explain` shows the traceback") from refusal
        err.print(refusal.fault.trace, soft_wrap=True)
        raise


def export_(
    file: Annotated[Path, declare_argument("New file: .parquet for another store, .csv for a spreadsheet.")],
    store: StoreDir = STORE,
    db: Db = "",
) -> None:
    """Export all results: Parquet, with submitted sources, for another store; CSV for a spreadsheet."""
    from roarbench.analysis.load_results import open_read_only_results
    from roarbench.store.rankings import RankingsStore
    from roarbench.store.transfer import export_results
    from roarbench.store.workspace import Workspace
    from roarbench.store.write_results_csv import write_results_csv

    stability = RankingsStore(Workspace(store).rankings).read_prediction_stability()
    ways: dict[str, Callable[[ResultsStore, Path], int]]
    ways = {".parquet": partial(export_results, stability_by_rankings=stability), ".csv": write_results_csv}
    if file.suffix not in ways:
        kinds = ".parquet, which `roarbench import` reads, or .csv, which spreadsheets read"
        raise CallerError(f"cannot write '{file}': an export is {kinds}; write {file.stem or 'results'}.parquet")
    with open_read_only_results(store, db) as results:
        if not results.list_result_keys(""):
            seen = f"results store {results.database.where} has no results"
            raise CallerError(seen, Hint("; `{}` computes them", "run"))
        count = ways[file.suffix](results, file)
    err.print(f"written: {file}: {count} results", soft_wrap=True)


def import_(
    source: Annotated[
        str, declare_argument("File of `roarbench export`, or a folder of published results.", "FILE|FOLDER")
    ],
    store: StoreDir = STORE,
    db: Db = "",
) -> None:
    """Import another store's results; they are self-reported until `roarbench reproduce KEY` repeats them."""
    from roarbench.analysis.load_results import find_unranked_rows, open_writable_results
    from roarbench.report.import_summary import format_import_summary
    from roarbench.store.published_folder import list_checked_result_files
    from roarbench.store.transfer import check_exports, import_results

    print_store_if_default(store, err)
    files = list_checked_result_files(source)
    unchecked = [] if Path(source).is_dir() else files
    with open_writable_results(store, db, partial(check_exports, unchecked)) as results:
        for file in files:
            outcome = import_results(results, file)
            dropped = find_unranked_rows(outcome.new | outcome.known, results, store)
            for line in format_import_summary(file, outcome, dropped):
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
    from roarbench.analysis.load_results import open_writable_results
    from roarbench.execution.local_workers_and_rates import count_workers
    from roarbench.execution.reproduce import RerunRequest
    from roarbench.execution.reproduce import reproduce as again
    from roarbench.store.submissions_and_annotations import ReproductionOutcome
    from roarbench.store.workspace import Workspace

    request = RerunRequest(key, data, tuple(reference or ()), count_workers(workers), trust_network, trust)
    with open_writable_results(store, db) as results:
        made = again(request, Workspace(store), results, err)
    out.print(made.format_report(), soft_wrap=True)
    if made.verdict is ReproductionOutcome.DIFFERENT:
        raise typer.Exit(1)
