"""Collect the results of a published suite from its files, without a store."""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from roarbench.analysis.incomplete_results import drop_unstarted_submissions, keep_most_shared_levels
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import StoreError
from roarbench.estimators.catalogue import is_addable_to_suites
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import PlannedRun, list_cells_with_seeds
from roarbench.plan.suite import SEEDS_PER_REPLICATION
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.plan.suites import find_builtin_or_own_suite, read_known_suites
from roarbench.store.published_folder import PublishedFile
from roarbench.store.published_rows import read_published_rows
from roarbench.store.run_result import RunResult

_SUITES, _ANNOTATIONS, _MASKS = b"roarbench_suites", b"roarbench_remarks", "masks "


def collect_published_results(folder: Path, suite: str, files: Iterable[PublishedFile]) -> SuiteResults:
    """Collect the published results of the suite `NAME@VERSION`, at the levels that most rows share.

    Quantus scores, findings, references and what `PublishedRows` lacks are left out: gains and verdicts do not need
    them.

    Raises:
        StoreError: A file does not match its hash in the index, or the files have rows on different images.
        UnknownName: There is no such suite.
    """
    seeds = range(SEEDS_PER_REPLICATION)  # later seeds are those of replications
    notes = (_SUITES, _ANNOTATIONS)
    used = (file for file in files if not file.first_replication)
    parts = [read_published_rows(folder / file.path, file.sha256, seeds, notes) for file in used]
    rows = [result for part in parts for result in part.results]
    images = {result.run.data for result in rows}
    if len(images) > 1:
        raise StoreError(f"the published rows of {suite} are on {len(images)} sets of images, expected one")
    found = defaultdict[Cell, dict[int, RunResult]](dict)
    for result in rows:
        found[result.run.cell][result.run.seed] = result
    names = {cell.estimator for cell in found} - {CLEAN}
    own = read_known_suites(record for part in parts for record in part.notes.get(_SUITES, ()))
    requested = find_builtin_or_own_suite(suite, own)
    extended = add_estimators_with_twins(requested, sorted(filter(is_addable_to_suites, names)))
    planned = {
        PlannedRun(cell, seed): by_seed[seed]
        for cells, seeds in list_cells_with_seeds(extended)
        for cell in cells
        if (by_seed := found.get(cell))
        for seed in seeds
        if seed in by_seed
    }
    annotations = {key: value for part in parts for key, value in part.notes.get(_ANNOTATIONS, {}).items()}
    masks = {key.removeprefix(_MASKS): value for key, value in annotations.items() if key.startswith(_MASKS)}
    results = SuiteResults(extended, "".join(images), None, planned, masks=masks)
    return keep_most_shared_levels(drop_unstarted_submissions(results, requested))
