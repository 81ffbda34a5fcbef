"""Collect the stored results of a suite by version; a version is a set of images and the explained networks.

By default, results on the suite's own images and with its own explained networks are loaded. The source of images is
found by their fingerprint in notes in the database, in manifests of decoded images, or in `PINNED_FINGERPRINTS`. This
module does not import torch.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from roarbench.analysis.quantus_and_probability_drop import list_score_specs
from roarbench.analysis.suite_results import OtherResults, SuiteResults
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.change_suite import add_estimators_with_twins, set_explained_weights
from roarbench.plan.planned_runs import (
    build_run,
    has_explained_model,
    list_planned_runs,
    list_planned_runs_on_untouched_images,
    list_runs,
)
from roarbench.plan.suite import SEEDS_PER_REPLICATION, Block, SuiteSpec, decode_network_pair_seed
from roarbench.plan.suites import find_default_explained_weights
from roarbench.store.image_set_sources import LOCAL, ImageSource, read_image_sources, read_sources_of_decoded_images
from roarbench.store.quantus_scores import read_scores
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore, explain_unverified_estimators
from roarbench.store.run_result import RunResult
from roarbench.store.submissions_and_annotations import (
    AnnotationKind,
    describe_validation_findings,
    find_added_estimators,
    read_annotations,
    read_submissions_of_estimators,
)
from roarbench.store.workspace import Workspace

_SHOWN = 8  # shown hex digits of a fingerprint; options accept them too
STABLE_ENOUGH = 0.8  # minimum prediction stability of a row without a mark
add_estimators_cached = lru_cache(64)(add_estimators_with_twins)  # a board requests the same suites repeatedly


@dataclass(frozen=True)
class Version:
    """A version of results: images (fingerprint and `SuiteResults.limit`) and explained networks (`Suite.given`)."""

    data: str
    limit: int | None
    given: str


def list_image_sources(store: ResultsStore, folder: Path, dataset: str) -> list[ImageSource]:
    """Return the known sources of a data set's images, from the database and the store folder, oldest first."""
    known = [source for source in read_image_sources(store.database) if source.dataset == dataset]
    return list(dict.fromkeys([*known, *read_sources_of_decoded_images(Workspace(folder).data, dataset)]))


def is_original_data(data: str, sources: Iterable[ImageSource]) -> bool | None:
    """Return whether images are the data set's own, and not from a folder given by the user; None if unknown."""
    kinds = {source.kind for source in sources if source.data == data}
    if kinds - {LOCAL} or data in PINNED_FINGERPRINTS.values():
        return True
    return False if kinds else None


def _list_result_versions(suite: SuiteSpec, store: ResultsStore) -> list[Version]:
    """List the images and explained networks of a suite's stored results, oldest first.

    Results that do not depend on an explained network belong to all versions. They form a separate version only if all
    results on the same images are of this kind.
    """
    by_version = store.read_seeds_by_data_and_weights(suite.dataset, suite.model)
    own, stored = find_default_explained_weights(suite), list[Version]()
    for data, limit in dict.fromkeys(key[:2] for key in by_version):
        seeds = {key[2]: used for key, used in by_version.items() if key[:2] == (data, limit) and key[2]}
        combined = [] if suite.networks else _join_given_weights(seeds)
        versions = [Version(data, limit, given) for given in dict.fromkeys([own, *combined])]
        explained = [version for version in versions if _has_results(suite, version, store, of_explained_network=True)]
        if not explained and _has_results(suite, versions[0], store, of_explained_network=False):
            explained = versions[:1]
        stored += explained
    return stored


def _join_given_weights(seeds: Mapping[str, Set[int]]) -> list[str]:
    """Join the weights of one command, among which the seeds were divided, into one title; keep other weights apart."""
    numbers = {given: {seed % SEEDS_PER_REPLICATION for seed in used} for given, used in seeds.items()}
    in_order = sorted(numbers, key=lambda given: min(numbers[given]))
    count = len(in_order)
    if count > 1 and all(seed % count == number for number, given in enumerate(in_order) for seed in numbers[given]):
        return [",".join(in_order)]
    return [*seeds]


def _has_results(suite: SuiteSpec, version: Version, store: ResultsStore, *, of_explained_network: bool) -> bool:
    """Return whether a version has results of one kind: dependent on an explained network, or independent."""
    runs = list_runs(set_explained_weights(suite, version.given), version.data, version.limit).values()
    return bool(store.find_done_keys([run.key for run in runs if bool(run.reference) is of_explained_network]))


@dataclass(frozen=True)
class Versions:
    """All versions of a suite in a store."""

    suite: SuiteSpec
    stored: tuple[Version, ...]  # images and references that have results, oldest first
    sources: tuple[ImageSource, ...]  # sources of the data set's images
    # fingerprints of the images of failed runs, with images per split, oldest first
    data_of_failed_runs: tuple[tuple[str, int | None], ...]

    def find_default_data(self, limit: int | None) -> str:
        """Return the fingerprint of the default images; empty if they cannot be determined.

        If the suite's own images have several versions, the most recent one with results is used. Images of unknown
        source, as in old stores, are used only if there are no others.
        """
        done = list(dict.fromkeys(version.data for version in self.stored if version.limit == limit))
        known = [(source.data, source.limit) for source in self.sources]
        begun = [data for data, size in (*known, *self.data_of_failed_runs) if size == limit]
        own = [data for data in (*begun, *done) if is_original_data(data, self.sources)]
        if own:
            return next((data for data in reversed(own) if data in done), own[-1])
        unknown = [data for data in done or begun if is_original_data(data, self.sources) is None]
        return unknown[-1] if len(unknown) == 1 or not done and unknown else ""

    def list_title_parts(self, version: Version) -> tuple[str, ...]:
        """Return the parts of a title that distinguish this version's images and networks from other versions."""
        alike = [other for other in self.stored if other.limit == version.limit]
        own = is_original_data(version.data, self.sources)
        strange = own is None and version.limit is None and self.suite.dataset in PINNED_FINGERPRINTS
        images = own is False or strange or any(other.data != version.data for other in alike)
        reference = version.given != find_default_explained_weights(self.suite) or any(other.given for other in alike)
        parts = [self._describe_images(version.data)] if images else []
        parts += [self._describe_reference(version.given)] if reference else []
        return tuple(parts) if version.data else ()

    def list_options(self, version: Version) -> tuple[str, ...]:
        """Return the command-line options that select a version, in addition to `--suite NAME --max-images N`."""
        data = ("--data", version.data[:_SHOWN]) if version.data != self.find_default_data(version.limit) else ()
        names = version.given.split(",") if version.given != find_default_explained_weights(self.suite) else []
        return (*data, *(word for name in names for word in ("--reference", shorten_reference(name))))

    def describe(self, version: Version) -> str:
        """Describe a version in words."""
        small = (f"small version: {version.limit} images per split",) if version.limit else ()
        return "; ".join((*small, *self.list_title_parts(version))) or "the whole"

    def _describe_images(self, data: str) -> str:
        own = is_original_data(data, self.sources)
        folders = [source.folder for source in self.sources if source.data == data]
        if own:
            return f"the suite's own images, {data[:_SHOWN]}"
        whose = f"of {Path(folders[-1]).name}" if own is False else "of unknown origin"
        return f"images {whose}, {data[:_SHOWN]}"

    def _describe_reference(self, given: str) -> str:
        if not given:
            return f"reference trained by {self.suite.reference_recipe}"
        names = [shorten_reference(name) for name in given.split(",")]
        return f"reference {names[0]}" if len(names) == 1 else f"references {', '.join(names)}"


def _list_versions(suite: SuiteSpec, store: ResultsStore, sources: Iterable[ImageSource] = ()) -> Versions:
    """Return all versions of a suite in a store, whatever the value of `suite.given`."""
    mine = tuple(source for source in sources if source.dataset == suite.dataset)
    failed = tuple(store.failures.list_data_of_failed_runs(suite.dataset, suite.model))
    return Versions(suite, tuple(_list_result_versions(suite, store)), mine, failed)


def shorten_reference(given: str) -> str:
    """Shorten the checksum in `NAME@CHECKSUM` to the first digits, which `--reference` accepts too."""
    name, _, checksum = given.partition("@")
    return f"{name}@{checksum[:_SHOWN]}" if checksum else name


def collect_results(
    suite: SuiteSpec,
    store: ResultsStore,
    limit: int | None = None,
    data: str | None = None,
    sources: Iterable[ImageSource] = (),
) -> SuiteResults:
    """Collect a suite's results on the images with fingerprint `data`; None means the suite's own images.

    `limit` is the number of images per split, or None for all.
    """
    versions = _list_versions(suite, store, sources)
    images = versions.find_default_data(limit) if data is None else data
    return _load_results(versions, Version(images, limit, suite.given), store)


def collect_results_by_images_and_weights(
    suite: SuiteSpec, store: ResultsStore, sources: Iterable[ImageSource] = ()
) -> list[SuiteResults]:
    """Collect the results of a suite's stored versions: largest data sets first, defaults first among equal sizes."""
    versions = _list_versions(suite, store, sources)
    loaded = [_load_results(versions, version, store) for version in versions.stored]
    return sorted(loaded, key=lambda results: (-(results.limit or float("inf")), bool(results.options)))


def _load_results(versions: Versions, version: Version, store: ResultsStore) -> SuiteResults:
    suite = set_explained_weights(versions.suite, version.given)
    runs = list_runs(suite, version.data, version.limit)
    by_key = {run.key: run for run in runs.values()}
    stored = store.read_results(by_key, by_key)
    results = {point: stored[run.key] for point, run in runs.items() if run.key in stored}
    rankings = {row.rankings for row in stored.values() if row.rankings}
    other_versions = [other for other in versions.stored if other != version]
    unverified = explain_unverified_estimators(store.database, results.values())
    return SuiteResults(
        suite,
        version.data,
        version.limit,
        results,
        doubts=_add_doubts_of_compared_rows(unverified, suite.estimators),
        submissions=read_submissions_of_estimators(store.database, {point.cell.estimator for point in results}),
        findings=describe_validation_findings(store.database, suite.estimators),
        shares=read_annotations(store.database, AnnotationKind.STABILITY, rankings),
        quantus=_load_quantus_scores(suite, store, version.data),
        title_parts=versions.list_title_parts(version),
        options=versions.list_options(version),
        references=_load_reference_results(suite, version, store) if has_explained_model(suite) else {},
        masks=read_annotations(
            store.database, AnnotationKind.MASKS, {key for key, row in stored.items() if _scores_own_network(row)}
        ),
        others=tuple(
            OtherResults(versions.describe(other), other.limit, versions.list_options(other))
            for other in other_versions
        ),
    )


def _scores_own_network(result: RunResult) -> bool:
    explained, scored = decode_network_pair_seed(result.run.seed)
    return result.run.cell.retrain is ScoredNetwork.SIBLINGS and explained == scored


def _add_doubts_of_compared_rows(own: dict[str, str], estimators: Iterable[str]) -> dict[str, str]:
    """Return a reason to doubt each row: its own, else a reason of its controls, untouched images or twins."""
    common = [name for name in (CLEAN, *CONTROLS) if name in own]
    against = {name: common.copy() for name in estimators if name not in own}
    for name in own.keys() - {CLEAN}:
        against.get(find_estimator(name).parent_id, []).append(name)
    return own | {
        name: f"compared with {', '.join(dict.fromkeys(doubtful))}, {own[doubtful[0]]}"
        for name, doubtful in against.items()
        if doubtful
    }


def _load_reference_results(suite: SuiteSpec, version: Version, store: ResultsStore) -> dict[int, RunResult]:
    keys = [
        build_run(suite, point, version.data, version.limit).key
        for point in list_planned_runs_on_untouched_images(suite)
    ]
    stored = store.read_results(keys)
    return {number: stored[key] for number, key in enumerate(keys) if key in stored}


def _load_quantus_scores(suite: SuiteSpec, store: ResultsStore, data: str) -> dict[str, dict[str, float | None]]:
    specs = list_score_specs(suite, data)
    values = read_scores(store.database, [spec.key for spec in specs.values()])
    scores: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for (estimator, metric), spec in specs.items():
        if spec.key in values:
            scores[estimator][metric] = values[spec.key]
    return dict(scores)


def add_prediction_stability_and_ties(suite_results: SuiteResults, folder: Path) -> SuiteResults:
    """Add `prediction_stability` from the store's rankings and from imports, and `ties` from the store's rankings."""
    rankings = RankingsStore(Workspace(folder).rankings)
    stability = _average_shares_by_estimator(suite_results, suite_results.shares | rankings.read_prediction_stability())
    ties = _average_shares_by_estimator(suite_results, rankings.read_tied_shares())
    return replace(suite_results, prediction_stability=stability, ties=ties)


def _average_shares_by_estimator(suite_results: SuiteResults, shares: Mapping[str, float]) -> dict[str, float]:
    """Average `shares`, a dict from checksums of rankings, over the rankings of each estimator."""
    by_rankings: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for point, result in suite_results.results.items():
        if result.rankings in shares:
            by_rankings[point.cell.estimator][result.rankings] = shares[result.rankings]
    return {name: sum(row_shares.values()) / len(row_shares) for name, row_shares in by_rankings.items()}


def describe_prediction_under_noise(share: float | None) -> str:
    """Describe the share of noisy copies for which the prediction stays the same; empty if unknown."""
    if share is None:
        return ""
    few = f", fewer than {STABLE_ENOUGH:.0%}" if share < STABLE_ENOUGH else ""
    return f"The explained network keeps its prediction on {share:.0%} of the noisy copies{few}."


def add_stored_estimators(suite: SuiteSpec, results: ResultsStore) -> SuiteSpec:
    """Add to a suite the stored submissions, and its estimators with other parameters."""
    return add_estimators_cached(suite, tuple(find_added_estimators(results.database, suite.dataset, suite.model)))


def drop_unrun_submissions(suite_results: SuiteResults, requested: SuiteSpec, results: ResultsStore) -> SuiteResults:
    """Remove submissions from the protocols in which none of their runs is done, running or failed.

    A submission that was run for one version or protocol may never have been started for others. Runs of a twin count
    for its parent. Rows of the requested suite are never removed.
    """
    suite, own, blocks = suite_results.suite, {*requested.estimators}, list[Block]()
    untwinned = {name: find_estimator(name).untwinned_id for name in suite.estimators}
    if own.issuperset(untwinned.values()):
        return suite_results
    started = _find_started_rows(suite_results, results)
    for block in suite.blocks:
        kept = []
        for name in block.estimators:
            row = untwinned[name]
            if row in own or (row, block.protocol.order, block.protocol.retrain) in started:
                kept.append(name)
        blocks.append(replace(block, estimators=tuple(kept)))
    return replace(suite_results, suite=replace(suite, blocks=tuple(blocks)))


def _find_started_rows(suite_results: SuiteResults, results: ResultsStore) -> set[tuple[str, Order, ScoredNetwork]]:
    """Return estimator, order and scored network of all runs that are done, running or failed."""
    points = [point for point in list_planned_runs(suite_results.suite) if point.cell.estimator != CLEAN]
    missing = [point for point in points if point not in suite_results.results]
    keys = suite_results.keys
    failed = results.failures.read_history([keys[point] for point in missing])
    tried = {*failed, *(lease.key for lease in results.list_leases())}
    cells = [point.cell for point in points if point in suite_results.results or keys[point] in tried]
    return {(find_estimator(cell.estimator).untwinned_id, cell.order, cell.retrain) for cell in cells}
