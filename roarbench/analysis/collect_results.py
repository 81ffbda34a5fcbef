"""Collect the stored results of a suite, in each of their versions. Nothing here imports torch."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

from roarbench.analysis.faithfulness_scores import list_score_specs
from roarbench.analysis.incomplete_results import drop_unstarted_submissions
from roarbench.analysis.result_versions import Version, Versions, list_versions
from roarbench.analysis.suite_results import OtherResults, SuiteResults
from roarbench.common.enums import ScoredNetwork
from roarbench.common.errors import CallerError, Hint
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import (
    PlannedRun,
    build_run,
    list_clean_runs_of_explained_networks,
    list_runs,
    needs_explained_network,
)
from roarbench.plan.suite import SuiteSpec, decode_network_pair_seed
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.stats.chance import compute_largest_class_share
from roarbench.store.annotations_and_scores import (
    AnnotationKind,
    describe_validation_findings,
    read_annotations_of_kinds,
    read_scores,
)
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore, explain_unverified_estimators
from roarbench.store.run_result import RunResult
from roarbench.store.user_files import (
    ImageSource,
    find_addable_estimators_with_runs,
    find_day_before_changes,
    read_submissions_of_estimators,
    read_test_labels,
)
from roarbench.store.workspace import Workspace

_SHARES = (AnnotationKind.STABILITY, AnnotationKind.TIES)
add_estimators_cached = lru_cache(64)(add_estimators_with_twins)  # a board requests the same suites repeatedly


def collect_results(
    suite: SuiteSpec,
    store: ResultsStore,
    limit: int | None = None,
    data: str | None = None,
    sources: Iterable[ImageSource] = (),
    known: Mapping[str, RunResult] = MappingProxyType({}),
) -> SuiteResults:
    """Collect a suite's results on the images with fingerprint `data`; None means the suite's own images.

    `limit` is the number of images per split, or None for all. Results in `known`, by key, are not read again.
    """
    versions = list_versions(suite, store, sources)
    images = versions.find_default_data(limit) if data is None else data
    return _load_results(versions, Version(images, limit, suite.given), store, known)


def collect_results_of_all_versions(
    suite: SuiteSpec, store: ResultsStore, sources: Iterable[ImageSource] = ()
) -> list[SuiteResults]:
    """Collect the results of a suite's stored versions: largest data sets first, defaults first among equal sizes."""
    versions = list_versions(suite, store, sources)
    loaded = [_load_results(versions, version, store) for version in versions.stored]
    return sorted(loaded, key=lambda results: (-(results.limit or float("inf")), bool(results.options)))


def _load_results(
    versions: Versions, version: Version, store: ResultsStore, known: Mapping[str, RunResult] = MappingProxyType({})
) -> SuiteResults:
    suite = version.change(versions.suite)
    runs = list_runs(suite, version.data, version.limit)
    by_key = {run.key: run for run in runs.values()}
    stored = {key: known[key] for key in store.find_done_keys(known)} if known else {}
    stored |= store.read_results(by_key.keys() - stored.keys(), by_key)
    results = {point: stored[run.key] for point, run in runs.items() if run.key in stored}
    totals = sorted({row.total for row in results.values()})
    if len(totals) > 1:  # rows are compared image by image
        seen = f"results of {suite.title} have {totals[0]:,} and {totals[1]:,} test images"
        raise CallerError(seen, Hint("; `{}` archives those that do not have the number of its images", "run"))
    with_results = {point.cell.estimator for point in results}
    stopped = store.failures.list_stop_reasons_on(version.data) if len(stored) < len(by_key) else {}
    waiting = stopped.keys() - stored.keys()
    failed = {point: stopped[run.key] for point, run in runs.items() if run.key in waiting} if waiting else {}
    tried = with_results | {point.cell.estimator for point in failed}
    rankings = {row.rankings for row in stored.values() if row.rankings}
    other_versions = (other for other in versions.stored if other != version)
    others = (
        OtherResults(
            versions.describe(one),
            one.limit,
            (*versions.list_options(one), *one.change(versions.suite).changes.options),
        )
        for one in other_versions
    )
    unverified = explain_unverified_estimators(store.database, results.values())
    pairs = {key: run for key, run in by_key.items() if run.cell.retrain is ScoredNetwork.SIBLINGS and key in stored}
    under_own_map = {key for key, run in pairs.items() if len({*decode_network_pair_seed(run.seed)}) == 1}
    subjects = {AnnotationKind.LARGEST_CLASS: {version.data}, AnnotationKind.MASKS: under_own_map}
    of_rankings = dict.fromkeys((AnnotationKind.PASSES, *_SHARES), rankings)
    annotations = read_annotations_of_kinds(store.database, of_rankings | subjects)
    scores = read_scores(store.database, list_score_specs(suite, version.data))
    quantus: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for (estimator, metric), score in scores.items():
        quantus[estimator][metric] = score.value
    clean_runs = list_clean_runs_of_explained_networks(suite) if needs_explained_network(suite) else ()
    reference_keys = [build_run(suite, point, version.data, version.limit).key for point in clean_runs]
    scored = store.read_results(reference_keys) if reference_keys else {}
    return SuiteResults(
        suite,
        version.data,
        version.limit,
        results,
        failed,
        doubts=_add_doubts_of_compared_rows(unverified, with_results - {CLEAN}),
        submissions=read_submissions_of_estimators(store.database, tried),
        findings=describe_validation_findings(store.database, suite.estimators),
        shares={kind: annotations[kind] for kind in _SHARES},
        counted_passes=_average_passes_by_estimator(results, annotations[AnnotationKind.PASSES]),
        quantus=dict(quantus),
        quantus_counts={cell: score.images for cell, score in scores.items()},
        title_parts=versions.list_title_parts(version),
        options=versions.list_options(version),
        references={number: scored[key] for number, key in enumerate(reference_keys) if key in scored},
        largest_class_share=annotations[AnnotationKind.LARGEST_CLASS].get(version.data),
        masks=annotations[AnnotationKind.MASKS],
        others=tuple(others),
    )


def _average_passes_by_estimator(
    results: Mapping[PlannedRun, RunResult], counted: Mapping[str, Sequence[float]]
) -> dict[str, tuple[float, float]]:
    """Average the passes per image, a dict from checksums of rankings, over the rankings of each estimator.

    An estimator with a ranking that lacks a count has no entry.
    """
    averages = {}
    for name, checksums in _list_rankings_by_estimator(results).items():
        pairs = [counted[checksum] for checksum in sorted(checksums) if checksum in counted]
        if len(pairs) == len(checksums):
            forward, backward = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
            averages[name] = (forward, backward)
    return averages


def _add_doubts_of_compared_rows(own: dict[str, str], estimators: Iterable[str]) -> dict[str, str]:
    """Return a reason to doubt each row: its own, else a reason of its controls, untouched images or twins."""
    common = [name for name in (CLEAN, *CONTROLS) if name in own]
    against = {name: common.copy() for name in estimators if name not in own}
    for name in own.keys() - {CLEAN}:
        against.get(find_estimator(name).id_without_last_twin, []).append(name)
    called = {CLEAN: "untouched images"}
    return own | {
        name: f"compared with {', '.join(dict.fromkeys(called.get(at, at) for at in doubtful))}, {own[doubtful[0]]}"
        for name, doubtful in against.items()
        if doubtful
    }


def add_facts_of_store_folder(suite_results: SuiteResults, folder: Path) -> SuiteResults:
    """Add `prediction_stability`, `ties`, and the share of the largest class, from the database and a store's files.

    If a user's images have changed since they were decoded, the title says so.
    Databases of older versions lack all three. The share of the largest class stays unknown if the database lacks it
    and the store has not decoded the images.
    """
    workspace = Workspace(folder)
    labels, of_files = read_test_labels(workspace.data, suite_results.data), defaultdict[str, dict[str, float]](dict)
    for key, value in RankingsStore(workspace.rankings).read_annotations().items():
        kind, _, checksum = key.partition(" ")
        of_files[kind][checksum] = value
    rankings, means = _list_rankings_by_estimator(suite_results.results), list[dict[str, float]]()
    for kind in _SHARES:
        shares = suite_results.shares.get(kind, {}) | of_files[kind]
        known = {name: [shares[one] for one in checksums if one in shares] for name, checksums in rankings.items()}
        means.append({name: sum(row_shares) / len(row_shares) for name, row_shares in known.items() if row_shares})
    stability, ties = means
    share = suite_results.largest_class_share if labels is None else compute_largest_class_share(labels)
    day = find_day_before_changes(workspace.data, suite_results.suite.dataset_record, suite_results.data)
    parts = suite_results.title_parts + (f"images read on {day}, before their files changed",) * bool(day)
    found = replace(suite_results, prediction_stability=stability, ties=ties, largest_class_share=share)
    return replace(found, title_parts=parts)


def _list_rankings_by_estimator(results: Mapping[PlannedRun, RunResult]) -> dict[str, dict[str, None]]:
    rankings: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for point, result in results.items():
        if result.rankings:
            rankings[point.cell.estimator][result.rankings] = None
    return rankings


def add_stored_estimators(suite: SuiteSpec, results: ResultsStore) -> SuiteSpec:
    """Add to a suite the stored submissions, and its estimators with other parameters."""
    added = find_addable_estimators_with_runs(results.database, suite.dataset, suite.model)
    return add_estimators_cached(suite, tuple(added))


def drop_unrun_submissions(suite_results: SuiteResults, requested: SuiteSpec, results: ResultsStore) -> SuiteResults:
    """Remove submissions from the protocols in which none of their runs is done, running or failed.

    Rows of the requested suite are never removed (`drop_unstarted_submissions`).
    """

    def list_tried_cells() -> list[Cell]:
        runs = list_runs(suite_results.suite, suite_results.data, suite_results.limit)  # cached since they were read
        removed = (run for point, run in runs.items() if point not in suite_results.results)
        missing = [run for run in removed if run.cell.estimator != CLEAN]
        failed = results.failures.read_history([run.key for run in missing])
        tried = {*failed, *(lease.key for lease in results.list_leases())}
        return [run.cell for run in missing if run.key in tried]

    return drop_unstarted_submissions(suite_results, requested, list_tried_cells)
