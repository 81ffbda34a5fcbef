"""Commands that check folders of published results, and export and import rankings for retraining elsewhere."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roarbench.cli.options import (
    STORE,
    Db,
    StoreDir,
    SuiteName,
    WorkOptions,
    declare_argument,
    declare_option,
    expand_option_records,
)
from roarbench.cli.suggested_commands import propose_command
from roarbench.cli.terminal import err, out
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count

if TYPE_CHECKING:
    from roarbench.execution.job_context import JobContext
    from roarbench.store.rankings import Rankings
    from roarbench.store.results import ResultsStore

Folder = Annotated[Path, declare_argument("Folder of published results, with an index.json.")]
Before = Annotated[Path | None, declare_option("The folder before the change, whose rows must be unchanged.", "FOLDER")]
results = typer.Typer(
    help="Check a folder of published results, or describe a change to it.",
    epilog="Example: `roarbench results check results`",
    no_args_is_help=True,
)
rankings = typer.Typer(
    help="Export or import the rankings of a suite, so that others retrain without computing maps.",
    epilog="Example: `roarbench rankings export quick-rankings --suite quick --about lab`",
    no_args_is_help=True,
)


@results.command(epilog="Example: `roarbench results check results --before main/results`")
def check(folder: Folder, before: Before = None) -> None:
    """Check every file and row of a folder: names, hashes, suites, results, duplicates, missing or changed rows."""
    from roarbench.store.published_folder import read_checked_folder

    by_file = read_checked_folder(folder, before)
    rows = sum(map(len, by_file.values()))
    err.print(f"{folder}: {format_count(len(by_file), 'file')}, {format_count(rows, 'result')}: all checks passed")


@results.command(epilog="Example: `roarbench results comment results --before main/results`")
def comment(folder: Folder, before: Before = None) -> None:
    """Print a Markdown comment on a pull request: its new rows and the boards with them."""
    from roarbench.report.row_pull_request import format_pull_request_comment as words

    out.print(words(folder, before), soft_wrap=True, markup=False, end="")


def submit(
    *,
    suite: SuiteName,
    row: Annotated[str, declare_argument("Id of the row, such as my-estimator@1a2b3c4d.")],
    folder: Annotated[Path, declare_option("Folder of published results.", "FOLDER", flags="--results")],
    about: Annotated[str, declare_option("One line on who computed the results.")],
    write: Annotated[bool, declare_option("Write the file, and commit it to a new branch.", flags="--write")] = False,
    store: StoreDir = STORE,
    db: Db = "",
) -> None:
    """Prepare a pull request with a row: branch, file and text. Nothing is written without --write."""
    from roarbench.analysis.load_results import open_read_only_results
    from roarbench.report.row_pull_request import prepare_published_file
    from roarbench.report.row_pull_request import write_published_file as add

    with open_read_only_results(store, db) as rows:
        prepared = prepare_published_file(rows, suite, row, folder, about)
        if write:
            _run_git(folder, "switch", "--create", prepared.branch)
            add(rows, folder, prepared, about)
            _run_git(folder, "add", ".")
            _run_git(folder, "commit", "--message", prepared.text)
    verb = "written" if write else "would write (add --write)"
    err.print(f"{verb}: {folder / prepared.path} on the branch {prepared.branch}", soft_wrap=True)
    out.print(prepared.text, soft_wrap=True, markup=False, end="")


@rankings.command("export")
@expand_option_records
def export_rankings(
    *,
    folder: Annotated[Path, declare_argument("New folder.")],
    suite: SuiteName,
    about: Annotated[str, declare_option("One line on who made the rankings, and on which machine.")],
    references_only: Annotated[
        bool, declare_option("Write only the explained networks, without rankings.", flags="--references-only")
    ] = False,
    work: WorkOptions,
) -> None:
    """Write all rankings of a suite and the explained networks to a folder, with checksums."""
    from roarbench.analysis.load_results import open_read_only_results
    from roarbench.execution.ranking_bundle import export_rankings as export

    open_read_only_results(work.store, work.db).close()  # a wrong path fails before images are decoded
    with _open_results_with_images(work, suite) as (context, _):
        exported = export(context, folder, about, references_only)
    err.print(f"written: {folder}: {_describe_shipped_rankings(exported)}", soft_wrap=True)


@rankings.command("import")
@expand_option_records
def import_rankings(
    *,
    folder: Annotated[Path, declare_argument("Folder of `roarbench rankings export`.")],
    suite: SuiteName,
    work: WorkOptions,
) -> None:
    """Import a suite's rankings from a folder; their rows are self-reported until `reproduce KEY` repeats them."""
    from roarbench.execution.ranking_bundle import import_rankings as take
    from roarbench.execution.ranking_bundle import read_bundle_index

    read_bundle_index(folder)  # a wrong folder fails before images are decoded
    with _open_results_with_images(work, suite) as (context, store):
        imported = take(context, store, folder)
    err.print(f"read: {folder}: {_describe_shipped_rankings(imported)}; next: {propose_command('run')}", soft_wrap=True)


def _describe_shipped_rankings(rankings: list["Rankings"]) -> str:
    return format_count(len(rankings), "ranking") if rankings else "only explained networks"


@contextmanager
def _open_results_with_images(work: WorkOptions, suite: str) -> "Iterator[tuple[JobContext, ResultsStore]]":
    loaded = work.load(suite)
    with loaded.open_writable_results(err) as store:
        yield loaded.make_context_with_images(loaded.runnable_plan, store, err), store


def _run_git(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    if done.returncode:
        seen = (done.stderr or done.stdout).strip().splitlines()
        raise CallerError(f"git {arguments[0]} in {folder}: {seen[-1] if seen else 'failed'}")
