"""Prepare and write the file of published rows, say why a row would have no rank, and copy published networks."""

import re
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from roarbench.analysis.load_results import find_suite_in_open_store, load_from_open_store
from roarbench.analysis.suite_results import SuiteResults, describe_rows_without_rank
from roarbench.common.enums import ScoredNetwork
from roarbench.common.errors import CallerError, Hint
from roarbench.common.files import convert_write_errors, write_atomically
from roarbench.common.text import format_count
from roarbench.estimators.catalogue import ESTIMATORS, map_row_names_to_ids
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.board_records import RANDOM
from roarbench.store.export_and_import import export_results, import_results
from roarbench.store.published_folder import INDEX, add_file_to_index, read_checked_folder
from roarbench.store.published_networks import FOLDER, MAX_BYTES, find_network_file
from roarbench.store.results import Origin, ResultsStore, find_imported_keys, make_default_url, read_origins
from roarbench.store.run_result import RunResult
from roarbench.store.workspace import Workspace


class PreparedPublication(NamedTuple):
    """A prepared pull request that adds a file to a folder of results."""

    path: str  # path of the new file within the folder
    keys: frozenset[str]  # keys of the published runs
    branch: str  # branch name
    text: str  # title and body of the pull request
    warnings: tuple[str, ...]  # tables in which the row would have no rank until more runs are published


def plan_pull_request(store: ResultsStore, suite: str, row: str, folder: Path, about: str) -> PreparedPublication:
    """Prepare the publication of a suite's row: all runs of the row and its twins that the folder lacks.

    Raises:
        CallerError: The store has no runs of the row, the folder has all of them, or some runs were computed elsewhere
            or without the sandbox. Runs on imported rankings are allowed; the pull request mentions them. The row has
            no rank among the folder's rows, because it explains other networks or has other images.
    """
    stored = load_from_open_store(store, find_suite_in_open_store(suite, store), Settings(folder))
    title, row = stored.suite.title, map_row_names_to_ids(stored.suite.estimators).get(row, row)
    if row not in stored.by_estimator:
        small = (
            " on all images, and those of --max-images cannot be submitted"
            if any(other.limit for other in stored.others)
            else ""
        )
        missing = f"the store has no runs of {row} in {title}{small}"
        file = () if EstimatorId.parse(row).name in ESTIMATORS else ("--submission", "FILE")
        raise CallerError(missing, Hint("; `{}` adds rows", "run", ("--suite", suite, *file)))
    names = [name for name in stored.by_estimator if name in (row, CLEAN) or name.startswith(f"{row}~")]
    own_keys = frozenset(result.run.key for name in names for _, result in stored.by_estimator[name])
    # the files of a suite hold all runs of the suite, including runs shared with other suites
    versioned, checked = stored.suite.versioned, read_checked_folder(folder)
    files = {file: results for file, results in checked.items() if file.versioned_suite == versioned}
    published = {result.run.key: result.run.data for results in files.values() for result in results}
    if own_keys <= published.keys():
        raise CallerError(f"{folder / INDEX} has all runs of {row} in {title} already")
    references = {result.run.key for result in stored.references.values()}
    origins = read_origins(store.database, own_keys | references)
    # without the accuracies of explained networks, readers would not see that a network is near chance
    keys = (own_keys | {key for key in references if origins[key] == Origin.VERIFIED}) - {*published}
    self_reported = {key for key in keys if origins[key] == Origin.SELF_REPORTED}
    on_imported_rankings = self_reported - find_imported_keys(store.database, keys)
    if any(origins[key] != Origin.VERIFIED for key in keys - on_imported_rankings):
        raise CallerError(f"{row} has runs that are not verified: {stored.doubts[row]}; publish runs of this machine")
    if other := {*published.values()} - {stored.data}:
        seen = f"{row} was computed on images {stored.data[:8]}, and the rows in {folder} on {min(other)[:8]}"
        raise CallerError(f"{seen}; compute the row again on the suite's own images")
    paths = [folder / file.path for file in files]
    inconsistent, incomplete = _find_missing_ranks(store, stored.suite, stored.data, row, keys, paths)
    if inconsistent:
        submission = ("--submission", "FILE") if EstimatorId.parse(row).submitted else ()
        words = ("--suite", suite, "--estimators", RANDOM if submission else row, *submission, "--store", "NEW")
        seen = f"not published, since a row would have no rank: {inconsistent[0]}"
        raise CallerError(seen, Hint(" `{}` explains the published networks", "run", words))
    stem = re.sub("[^a-z0-9]+", "-", row.lower()).strip("-")
    source = " Networks were trained on imported rankings." if on_imported_rankings else ""
    text = f"Results: {row} in {title}\n\n{format_count(len(keys), 'run')}. {about}{source}\n"
    path = f"{stored.suite.name}/{stored.suite.version}/{stem}.parquet"
    branch = f"results/{stored.suite.name}-{stem}"
    return PreparedPublication(path, keys, branch, text, tuple(incomplete))


def add_published_file(
    store: ResultsStore, folder: Path, prepared: PreparedPublication, about: str, measured: Mapping[str, float] = {}
) -> None:
    """Write the prepared file and its entry in the folder's index, and check the folder again.

    `export_results` explains `measured`.
    """
    path = folder / prepared.path
    path.parent.mkdir(parents=True, exist_ok=True)
    export_results(store, path, measured, prepared.keys)
    add_file_to_index(folder, prepared.path, about)
    read_checked_folder(folder)


def _find_missing_ranks(
    store: ResultsStore, suite: SuiteSpec, data: str, row: str, keys: Collection[str], published: Collection[Path]
) -> tuple[list[str], Iterator[str]]:
    """Add these runs of a row to a copy of a suite's published files, and return why rows have no rank there.

    The first list has rows that explain other weights, or mix rankings, which no more runs can mend, also published
    rows that lose their rank; the second has tables in which runs of the row are missing.
    """
    with TemporaryDirectory() as folder, ResultsStore.open(make_default_url(Path(folder))) as copy:
        settings = Settings(Path(folder), data=data)
        for file in published:
            import_results(copy, file)
        before = {*load_from_open_store(copy, suite, settings).inconsistent_rows} if published else set()
        export_results(store, Path(folder) / "new.parquet", keys=keys)
        import_results(copy, Path(folder) / "new.parquet")
        after = load_from_open_store(copy, suite, settings)
    new = [unranked for unranked in after.inconsistent_rows if unranked not in before]
    return describe_rows_without_rank(new), _describe_missing_runs(after, row)


def _describe_missing_runs(results: SuiteResults, row: str) -> Iterator[str]:
    for block in results.suite.blocks:
        if row not in block.estimators:
            continue
        planned, protocol = list_planned_runs(replace(results.suite, blocks=(block,))), block.protocol
        needs_random = not protocol.random_is_zero and protocol.retrain is not ScoredNetwork.MASKS
        baselines = {CLEAN, RANDOM} if needs_random and RANDOM in block.estimators else {CLEAN}
        own = {row, protocol.make_paired_twin_id(row)}
        compared = "untouched images and random", f"; submit {RANDOM}, too"
        for names, title, remedy in ((own, row, ""), (baselines, *compared)):
            needed = [point for point in planned if point.cell.estimator in names]
            if missing := [point for point in needed if point not in results.results]:
                counts = f"{len(missing):,} of {format_count(len(needed), 'run')}"
                yield f"{row} has no rank ({protocol.name} {block.unit}): {counts} of {title} missing{remedy}"


def copy_published_networks(folder: Path, workspace: Workspace) -> int:
    """Copy the networks of a checked folder of published results to a store; return the number of networks."""
    paths = sorted((folder / FOLDER).glob("*.safetensors"))
    for path in paths:
        with convert_write_errors(workspace.published):
            workspace.published.mkdir(parents=True, exist_ok=True)
            write_atomically(workspace.published / path.name, partial(shutil.copyfile, path))
    return len(paths)


def publish_networks(results: Iterable[RunResult], workspace: Workspace, folder: Path) -> list[Path]:
    """Write the explained networks of these results to a folder of published results, unless it has them.

    Networks with given weights, and large ones, are left out. A store that lacks a network's folder leaves it out, too.
    """
    from roarbench.store.networks import StoredNetwork, write_network_file  # imports torch, which takes seconds

    by_key = {result.run.reference: result for result in results if result.run.reference and not result.run.given}
    written = []
    for key, result in by_key.items():
        for path in workspace.references.glob(f"*-{key[:16]}"):
            stored = StoredNetwork(workspace.references, key, path.name)
            reference, weights = stored.read_reference(), stored.load_weights()
            is_small = sum(tensor.nbytes for tensor in weights.values()) < MAX_BYTES // 2
            is_published = find_network_file([folder / FOLDER], reference) is not None
            if not is_published and stored.read_checksum() == result.weights and is_small:
                written.append(write_network_file(folder / FOLDER, reference, weights))
    return written
