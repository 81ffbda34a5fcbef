"""All that a store has of a suite, by version of its data, with what was entered and what its rankings say."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from roarbench.analysis.data_versions import Version, Versions, list_versions
from roarbench.analysis.faithfulness import list_score_specs
from roarbench.analysis.suite_results import OtherResults, SuiteResults
from roarbench.enums import Order, ScoredNetwork
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.points import expand_points
from roarbench.plan.run_keys import build_run, has_explained_model, list_reference_points, list_runs
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import SuiteSpec, find_reference_pair
from roarbench.plan.suites import add_estimators, set_explained_weights
from roarbench.store.annotations import Kind, read_annotations, read_findings
from roarbench.store.image_sources import ImageNote
from roarbench.store.quantus_scores import read_scores
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult
from roarbench.store.submissions import explain_unverified, find_entered_ids, read_submissions
from roarbench.store.workspace import Workspace

STABLE_ENOUGH = 0.8  # below this share of noisy copies that keep their class a row is marked
joined = lru_cache(64)(add_estimators)  # a board asks for the same ones again and again


def collect_results(
    suite: SuiteSpec,
    store: ResultsStore,
    limit: int | None = None,
    data: str | None = None,
    notes: Iterable[ImageNote] = (),
) -> SuiteResults:
    """Return what a store has of a suite on images of this fingerprint, or its own; `limit` of each split, or all."""
    versions = list_versions(suite, store, notes)
    images = versions.own_images(limit) if data is None else data
    return _results_of(versions, Version(images, limit, suite.given), store)


def collect_all_versions(suite: SuiteSpec, store: ResultsStore, notes: Iterable[ImageNote] = ()) -> list[SuiteResults]:
    """Return all versions of a suite that a store has, largest first; of one size its own images and reference."""
    versions = list_versions(suite, store, notes)
    found = [_results_of(versions, version, store) for version in versions.stored]
    return sorted(found, key=lambda suite_results: (-(suite_results.limit or float("inf")), bool(suite_results.asked)))


def _results_of(versions: Versions, version: Version, store: ResultsStore) -> SuiteResults:
    suite = set_explained_weights(versions.suite, version.given)
    runs = list_runs(suite, version.data, version.limit)
    by_key = {run.key: run for run in runs.values()}
    found = store.results(by_key, by_key)
    results = {point: found[run.key] for point, run in runs.items() if run.key in found}
    return SuiteResults(
        suite,
        version.data,
        version.limit,
        results,
        doubts=_add_doubtful_company(explain_unverified(store.database, results.values()), suite.estimators),
        submissions=read_submissions(store.database, {point.cell.estimator for point in results}),
        findings=read_findings(store.database, suite.estimators),
        shares=read_annotations(store.database, Kind.KEPT, {row.rankings for row in results.values() if row.rankings}),
        quantus=_quantus(suite, store, version.data),
        named=versions.names(version),
        asked=versions.options(version),
        references=_references(suite, version, store) if has_explained_model(suite) else {},
        masks=read_annotations(store.database, Kind.MASKS, {key for key, row in found.items() if _is_own(row)}),
        others=tuple(
            OtherResults(versions.describe(other), other.limit, versions.options(other))
            for other in versions.stored
            if other != version
        ),
    )


def _is_own(result: RunResult) -> bool:
    """Return whether a network is scored beside others and under its own map."""
    explained, scored = find_reference_pair(result.run.seed)
    return result.run.cell.retrain is ScoredNetwork.SIBLINGS and explained == scored


def _add_doubtful_company(own: dict[str, str], estimators: Iterable[str]) -> dict[str, str]:
    """Return why rows are doubted: by their own, else by controls, untouched images or twins beside them."""
    common = [name for name in (CLEAN, *CONTROLS) if name in own]
    against = {name: common.copy() for name in estimators if name not in own}
    for name in own.keys() - {CLEAN}:
        against.get(find_estimator(name).parent, []).append(name)
    return own | {
        name: f"held against {', '.join(dict.fromkeys(others))}, {own[others[0]]}"
        for name, others in against.items()
        if others
    }


def _references(suite: SuiteSpec, version: Version, store: ResultsStore) -> dict[int, RunResult]:
    keys = [build_run(suite, point, version.data, version.limit).key for point in list_reference_points(suite)]
    found = store.results(keys)
    return {number: found[key] for number, key in enumerate(keys) if key in found}


def _quantus(suite: SuiteSpec, store: ResultsStore, data: str) -> dict[str, dict[str, float | None]]:
    specs = list_score_specs(suite, data)
    values = read_scores(store.database, [spec.key for spec in specs.values()])
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for (estimator, metric), spec in specs.items():
        if spec.key in values:
            found[estimator][metric] = values[spec.key]
    return dict(found)


def add_prediction_stability(suite_results: SuiteResults, folder: Path) -> SuiteResults:
    """Add `SuiteResults.prediction_stability` from the store's rankings, or from what an import says of them.

    `SuiteResults.ties` are from the store's rankings alone.
    """
    rankings = RankingsStore(Workspace(folder).rankings)
    stability = _means(suite_results, suite_results.shares | rankings.kept_shares())
    return replace(suite_results, prediction_stability=stability, ties=_means(suite_results, rankings.tied_shares()))


def _means(suite_results: SuiteResults, shares: Mapping[str, float]) -> dict[str, float]:
    """Return by estimator the mean of what its rankings have, by their checksums; missing where none has any."""
    found: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for point, result in suite_results.results.items():
        if result.rankings in shares:
            found[point.cell.estimator][result.rankings] = shares[result.rankings]
    return {name: sum(each.values()) / len(each) for name, each in found.items()}


def describe_prediction_stability(share: float | None) -> str:
    """Return in a sentence on how many noisy copies the prediction is kept; empty where it is not known."""
    if share is None:
        return ""
    few = f", fewer than {STABLE_ENOUGH:.0%}" if share < STABLE_ENOUGH else ""
    return f"The explained network keeps its prediction on {share:.0%} of the noisy copies{few}."


def add_stored_submissions(suite: SuiteSpec, results: ResultsStore) -> SuiteSpec:
    """Return a suite with what was submitted to it, and with its estimators by other parameters."""
    return joined(suite, tuple(find_entered_ids(results.database, suite.dataset, suite.model)))


def drop_idle_submissions(suite_results: SuiteResults, asked: SuiteSpec, results: ResultsStore) -> SuiteResults:
    """Leave out what was entered under each protocol where nothing of it is done, running or failed.

    Whoever enters one version of a suite, or one of its protocols, has not begun the others: there is nothing to wait
    for. What a twin has counts for the estimator that it is made from. Rows of the suite that was asked for stay.
    """
    suite, own = suite_results.suite, asked.estimators
    entered = {name for name in suite.estimators if find_estimator(name).row not in own}
    if not entered:
        return suite_results
    begun = _find_begun(suite_results, results)
    blocks = tuple(
        replace(
            block,
            estimators=tuple(
                name
                for name in block.estimators
                if name not in entered or _question(name, block.protocol.order, block.protocol.retrain) in begun
            ),
        )
        for block in suite.blocks
    )
    return replace(suite_results, suite=replace(suite, blocks=blocks))


_Question = tuple[str, Order, ScoredNetwork]  # an estimator under a protocol


def _find_begun(suite_results: SuiteResults, results: ResultsStore) -> set[_Question]:
    """Return what at least one run of is done, running or failed."""
    points = [point for point in expand_points(suite_results.suite) if point.cell.estimator != CLEAN]
    missing = [point for point in points if point not in suite_results.results]
    keys = suite_results.keys
    tried = {*results.failures.history([keys[point] for point in missing]), *(lease.key for lease in results.running())}
    cells = [point.cell for point in points if point in suite_results.results or keys[point] in tried]
    return {_question(cell.estimator, cell.order, cell.retrain) for cell in cells}


def _question(estimator: str, order: Order, retrain: ScoredNetwork) -> _Question:
    return find_estimator(estimator).row, order, retrain
