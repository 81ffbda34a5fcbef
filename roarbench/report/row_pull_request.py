"""Prepare and write the file of published rows, and write the comment on its pull request."""

import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from roarbench.analysis.load_results import ResultsQuery, load_from_open_store
from roarbench.common.errors import CallerError, Hint
from roarbench.common.text import format_count, format_markdown_table
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.suites import find_suite
from roarbench.report.roar_and_own_network_table import make_default_table, render
from roarbench.store.published_folder import (
    INDEX,
    PublishedFile,
    add_file_to_index,
    find_published_suite,
    read_checked_folder,
    read_index,
)
from roarbench.store.results import Origin, ResultsStore, find_imported_rows, make_default_url, read_origins
from roarbench.store.run_result import RunResult
from roarbench.store.transfer import export_results, import_results


def format_pull_request_comment(folder: Path, before: Path | None = None) -> str:
    """Write a Markdown comment on a pull request that changes a folder of results: its new files and their tables.

    The whole folder is checked. `before` is the folder without the change, whose rows must be unchanged.
    """
    results_by_file = read_checked_folder(folder, before)
    known = {file.path for file in read_index(before)} if before else set()
    new = {file: results for file, results in results_by_file.items() if file.path not in known}
    if not new:
        return "There is no new file, and all published rows are unchanged.\n"
    lines = [
        (f"`{file.path}`", f"{file.rows:,}", _format_row_names(results), file.about) for file, results in new.items()
    ]
    parts = ["### New results", format_markdown_table(("file", "runs", "rows", "about"), lines)]
    for suite in dict.fromkeys(file.versioned_suite for file in new):
        parts += [
            f"### {suite} with the new results",
            _format_suite_table(folder, suite, [file for file in results_by_file if file.versioned_suite == suite]),
        ]
    return "\n\n".join(
        [*parts, "Imported rows are self-reported until `roarbench reproduce KEY` gives the same results.", ""]
    )


def _format_row_names(results: list[RunResult]) -> str:
    names = {result.run.cell.estimator for result in results} - {CLEAN}
    return ", ".join(f"`{name}`" for name in sorted(names) if "~" not in name)


def _format_suite_table(folder: Path, name: str, files: list[PublishedFile]) -> str:
    with TemporaryDirectory() as temporary, ResultsStore.open(make_default_url(Path(temporary))) as store:
        for file in files:
            import_results(store, folder / file.path)
        suite = find_published_suite(name, [folder / file.path for file in files])
        results = load_from_open_store(store, suite, ResultsQuery(Path(temporary)))
        return render(make_default_table(results), "markdown", notes=True)


class PreparedPublication(NamedTuple):
    """A prepared pull request that adds a file to a folder of results."""

    path: str  # path of the new file within the folder
    keys: frozenset[str]  # keys of the published runs
    branch: str  # branch name
    text: str  # title and body of the pull request


def prepare_published_file(store: ResultsStore, suite: str, row: str, folder: Path, about: str) -> PreparedPublication:
    """Prepare the publication of a suite's row: all runs of the row and its twins that the folder lacks.

    Raises:
        CallerError: The store has no runs of the row, the folder has all of them, or some runs were computed elsewhere
            or without the sandbox. Runs on imported rankings are allowed; the pull request mentions them.
    """
    stored = load_from_open_store(store, find_suite(suite), ResultsQuery(folder))
    rows = [name for name in stored.by_estimator if name in (row, CLEAN) or name.startswith(f"{row}~")]
    mine = [run for name in rows for run in stored.by_estimator[name]]
    if row not in stored.by_estimator:
        there = ", ".join(sorted(name for name in stored.by_estimator if name != CLEAN and "~" not in name)) or "none"
        other_titles = ", ".join(other.title for other in stored.others)
        unpublished = f" (only others, which are not published: {other_titles})" * (
            bool(other_titles) and not stored.has_rows
        )
        seen = f"the store has no runs of {row} in {stored.suite.title}{unpublished}; its rows: {there}"
        raise CallerError(seen, Hint("; `{}` adds rows", "run", ("--suite", suite)))
    # the files of a suite hold all runs of the suite, including runs shared with other suites
    files = read_checked_folder(folder).items()
    published = {one.run.key for file, rows in files if file.versioned_suite == stored.suite.versioned for one in rows}
    keys = frozenset(result.run.key for _, result in mine) - published
    if not keys:
        raise CallerError(f"{folder / INDEX} has all {len(mine)} runs of {row} in {stored.suite.title} already")
    told = read_origins(store.database, keys)
    shipped = {key for key in keys if told[key] == Origin.SELF_REPORTED} - find_imported_rows(store.database, keys)
    if any(told[key] != Origin.VERIFIED for key in keys - shipped):
        raise CallerError(f"{row} has runs that are not verified: {stored.doubts[row]}; publish what was run here")
    stem = re.sub("[^a-z0-9]+", "-", row.lower()).strip("-")
    source = " Networks were trained on imported rankings." if shipped else ""
    text = f"Results: {row} in {stored.suite.title}\n\n{format_count(len(keys), 'run')}. {about}{source}\n"
    path = f"{stored.suite.name}/{stored.suite.version}/{stem}.parquet"
    return PreparedPublication(path, keys, f"results/{stored.suite.name}-{stem}", text)


def write_published_file(store: ResultsStore, folder: Path, prepared: PreparedPublication, about: str) -> None:
    """Write the file and its index entry, and check the folder again."""
    path = folder / prepared.path
    path.parent.mkdir(parents=True, exist_ok=True)
    export_results(store, path, keys=prepared.keys)
    add_file_to_index(folder, prepared.path, len(prepared.keys), about)
    read_checked_folder(folder)
