"""Commands that check, describe and extend a folder of published results."""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from roarbench.cli.options import STORE, Db, StoreDir, SuiteName, declare_argument, declare_option
from roarbench.cli.terminal import err, out
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count

Folder = Annotated[Path, declare_argument("Folder of published results, with an index.json.")]
Before = Annotated[Path | None, declare_option("The folder before the change, whose rows must be unchanged.", "FOLDER")]
results = typer.Typer(
    help="Check a folder of published results, or describe a change to it.",
    epilog="Example: `roarbench results check results`",
    no_args_is_help=True,
)


@results.command(epilog="Example: `roarbench results check results --before main/results`")
def check(folder: Folder, before: Before = None) -> None:
    """Check every file and row of a folder: names, hashes, suites, results and duplicates.

    No check repeats a run, so an invented row passes. --before rejects missing or changed rows and lists new rows:
    reproduce some of their runs.
    """
    from roarbench.store.published_folder import find_new_results, read_checked_folder

    by_file = read_checked_folder(folder)
    new = find_new_results(by_file, read_checked_folder(before)) if before else {}
    for file, results in new.items():
        runs = Counter(result.run.cell.estimator for result in results)
        rows = ", ".join(f"{row} ({format_count(number, 'run')})" for row, number in sorted(runs.items()))
        out.print(f"new in {file.path}: {rows}", soft_wrap=True, markup=False)
    counts = f"{format_count(len(by_file), 'file')}, {format_count(sum(map(len, by_file.values())), 'result')}"
    err.print(f"{folder}: {counts}: all checks passed; no check repeats a run", soft_wrap=True)
    if new:
        err.print(
            "reproduce some new runs: `roarbench import` this folder, get keys by `roarbench list-runs --suite SUITE "
            "--estimators ROW`, then `roarbench reproduce KEY`",
            soft_wrap=True,
        )


@results.command(epilog="Example: `roarbench results comment results --before main/results`")
def comment(folder: Folder, before: Before = None) -> None:
    """Print a Markdown comment on a pull request: its new rows and the boards with them."""
    from roarbench.report.row_pull_request import format_pull_request_comment

    out.print(format_pull_request_comment(folder, before), soft_wrap=True, markup=False, end="")


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
    """Prepare a pull request with a row: branch, file and text. Nothing is written without --write.

    Rows of a small version (--max-images) cannot be submitted.
    """
    from roarbench.analysis.load_results import open_store_for_reading
    from roarbench.report.row_pull_request import add_published_file, plan_pull_request

    with open_store_for_reading(store, db) as results_store:
        prepared = plan_pull_request(results_store, suite, row, folder, about)
        if write:
            _run_git(folder, "switch", "--create", prepared.branch)
            add_published_file(results_store, folder, prepared, about)
            _run_git(folder, "add", ".")
            _run_git(folder, "commit", "--message", prepared.text)
    verb = "written" if write else "would write (add --write)"
    err.print(f"{verb}: {folder / prepared.path} on the branch {prepared.branch}", soft_wrap=True)
    out.print(prepared.text, soft_wrap=True, markup=False, end="")


def _run_git(folder: Path, *arguments: str) -> None:
    done = subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True)
    if done.returncode:
        seen = (done.stderr or done.stdout).strip().splitlines()
        raise CallerError(f"git {arguments[0]} in {folder}: {seen[-1] if seen else 'failed'}")
