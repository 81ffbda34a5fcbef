"""Collect the stored results of a suite; a version of them is a set of images and the explained networks. No torch.

The source of images is found by their fingerprint in notes in the database, in manifests of decoded images, or in
`PINNED_FINGERPRINTS`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType

from roarbench.analysis.faithfulness_scores import list_score_specs
from roarbench.analysis.incomplete_results import drop_unstarted_submissions
from roarbench.analysis.suite_results import OtherResults, SuiteResults
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import (
    PlannedRun,
    build_run,
    list_clean_runs_of_explained_networks,
    list_planned_runs,
    list_runs,
    needs_explained_network,
)
from roarbench.plan.suite import SEEDS_PER_REPLICATION, SuiteSpec, decode_network_pair_seed
from roarbench.plan.suite_changes import (
    add_estimators_with_twins,
    set_allowed_fill_and_unit,
    set_explained_weights,
)
from roarbench.plan.suites import find_default_explained_weights
from roarbench.stats.chance import compute_largest_class_share
from roarbench.store.annotations_and_scores import (
    AnnotationKind,
    describe_validation_findings,
    read_annotations_of_kinds,
    read_scores,
)
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import Removal, ResultsStore, explain_unverified_estimators, read_data_of_imported_results
from roarbench.store.run_result import RunResult
from roarbench.store.user_files import (
    LOCAL,
    ImageSource,
    find_addable_estimators_with_runs,
    find_day_before_changes,
    read_image_sources,
    read_sources_of_decoded_images,
    read_submissions_of_estimators,
    read_test_labels,
)
from roarbench.store.workspace import Workspace

_SHOWN = 8  # shown hex digits of a fingerprint; options accept them too
_SHARES = (AnnotationKind.STABILITY, AnnotationKind.TIES)
add_estimators_cached = lru_cache(64)(add_estimators_with_twins)  # a board requests the same suites repeatedly


@dataclass(frozen=True)
class Version:
    """A version of results: its images (fingerprint and `SuiteResults.limit`) and networks (`SuiteSpec.given`).

    Results that the tables of the suite itself do not show also have the fill and the unit of options.
    """

    data: str
    limit: int | None
    given: str
    fill: str = ""
    unit: Unit | None = None

    def change(self, suite: SuiteSpec) -> SuiteSpec:
        """Return a suite with the version's networks, fill and unit."""
        return set_explained_weights(set_allowed_fill_and_unit(suite, self.fill, self.unit), self.given)


def list_image_sources(store: ResultsStore, folder: Path, dataset: str) -> list[ImageSource]:
    """Return the known sources of a data set's images, from the database and the store folder, oldest first."""
    known = [source for source in read_image_sources(store.database) if source.dataset == dataset]
    return list(dict.fromkeys([*known, *read_sources_of_decoded_images(Workspace(folder).data, dataset)]))


def is_from_dataset_source(data: str, sources: Iterable[ImageSource]) -> bool | None:
    """Return whether images are the data set's own, and not from a folder given by the user; None if unknown."""
    kinds = {source.kind for source in sources if source.data == data}
    if kinds - {LOCAL} or data in PINNED_FINGERPRINTS.values():
        return True
    return False if kinds else None


def _join_given_weights(seeds: Mapping[str, Set[int]]) -> list[str]:
    """Join the weights of one command, among which the seeds were divided, into one title; keep other weights apart."""
    numbers = {given: {seed % SEEDS_PER_REPLICATION for seed in used} for given, used in seeds.items()}
    in_order = sorted(numbers, key=lambda given: min(numbers[given]))
    count = len(in_order)
    if count > 1 and all(seed % count == number for number, given in enumerate(in_order) for seed in numbers[given]):
        return [",".join(in_order)]
    return [*seeds]


def _has_results(suite: SuiteSpec, version: Version, store: ResultsStore, *, of_explained_network: bool) -> bool:
    """Return whether a version has results of one kind: dependent on an explained network, or independent.

    If options set the fill or the unit, results that the suite's own tables show do not count.
    """
    runs, shown = list_runs(version.change(suite), version.data, version.limit), frozenset[Cell]()
    if version.fill or version.unit:
        own = replace(
            suite, blocks=tuple(block for block in suite.blocks if block.fill == suite.find_fill(block.protocol))
        )
        shown = frozenset(point.cell for point in list_planned_runs(own))
    kind = (run for run in runs.values() if bool(run.reference) is of_explained_network and run.cell not in shown)
    return store.has_result(run.key for run in kind)


def _list_other_fills_and_units(suite: SuiteSpec, removals: Iterable[Removal]) -> list[tuple[str, Unit | None]]:
    """Return the values of `--fill` and `--unit` that select stored results which the suite's tables may not show."""
    own = defaultdict[tuple[str, str], set[tuple[str, str]]](set)
    for block in suite.blocks if not suite.title_suffix else ():
        own[block.protocol.order, block.protocol.retrain].add((suite.find_fill(block.protocol), block.unit))
    found = dict[tuple[str, Unit | None], None]()
    for order, retrain, fill, unit in sorted({*removals}):
        known = own.get((order, retrain), {(fill, unit)})
        fills, units = ({each[part] for each in known} for part in (0, 1))
        found["" if fill in fills else fill, None if unit in units else Unit(unit)] = None
    return [options for options in found if any(options)]


@dataclass(frozen=True)
class Versions:
    """All versions of a suite in a store."""

    suite: SuiteSpec
    stored: tuple[Version, ...]  # images and references that have results, oldest first
    sources: tuple[ImageSource, ...]  # sources of the data set's images
    # fingerprints of the images of failed runs, with images per split, oldest first
    data_of_failed_runs: tuple[tuple[str, int | None], ...]
    read_imported_data: Callable[[], frozenset[str]] = frozenset  # fingerprints of the images of imported results

    def find_default_data(self, limit: int | None) -> str:
        """Return the fingerprint of the default images; empty if they cannot be determined.

        If the suite's own images have several versions, the one with results that was used last is the default. Images
        of unknown source, as in old stores and imports, are used only if there are no others. Files that a user decoded
        later do not make imported results results of other images, and a user's data set has no source but the user's
        files.
        """
        done = list(dict.fromkeys(version.data for version in self.stored if version.limit == limit))
        known = [(source.data, source.limit) for source in self.sources]
        begun = [data for data, size in (*self.data_of_failed_runs, *known) if size == limit]
        own = [data for data in (*done, *begun) if is_from_dataset_source(data, self.sources)]
        if own:
            return next((data for data in reversed(own) if data in done), own[-1])
        imported = self.read_imported_data()
        sources = [source for source in self.sources if source.is_imported or source.data not in imported]
        unknown = [data for data in done or begun if is_from_dataset_source(data, sources) is None]
        if len(unknown) == 1 or not done and unknown:
            return unknown[-1]
        return done[0] if len(done) == 1 and self.suite.dataset_record.own else ""

    def list_title_parts(self, version: Version) -> tuple[str, ...]:
        """Return the parts of a title that distinguish this version's images and networks from other versions."""
        alike = [other for other in self.stored if other.limit == version.limit]
        own = is_from_dataset_source(version.data, self.sources)
        strange = own is None and version.limit is None and self.suite.dataset in PINNED_FINGERPRINTS
        foreign = own is False and version.data != self.find_default_data(version.limit)
        images = foreign or strange or any(other.data != version.data for other in alike)
        reference = version.given != find_default_explained_weights(self.suite) or any(other.given for other in alike)
        parts = []
        digits = version.data[:_SHOWN]
        if images and own:
            parts.append(f"the suite's own images, {digits}")
        elif images:
            folders = [source.folder for source in self.sources if source.data == version.data]
            whose = f"of {Path(folders[-1]).name}" if own is False else "of unknown origin"
            parts.append(f"images {whose}, {digits}")
        if reference and version.given:
            names = [shorten_weights_checksum(name) for name in version.given.split(",")]
            parts.append(f"reference {names[0]}" if len(names) == 1 else f"references {', '.join(names)}")
        elif reference:
            parts.append(f"reference trained by {self.suite.reference_recipe}")
        return tuple(parts) if version.data else ()

    def list_options(self, version: Version) -> tuple[str, ...]:
        """Return the command-line options that select a version, in addition to `--suite NAME --max-images N`."""
        data = ("--data", version.data[:_SHOWN]) if version.data != self.find_default_data(version.limit) else ()
        names = version.given.split(",") if version.given != find_default_explained_weights(self.suite) else []
        return (*data, *(word for name in names for word in ("--reference", shorten_weights_checksum(name))))

    def describe(self, version: Version) -> str:
        """Describe a version in words."""
        small = (f"small version: {version.limit} images per split",) if version.limit else ()
        changed = (suffix,) if (suffix := version.change(self.suite).title_suffix) else ()
        return "; ".join((*small, *self.list_title_parts(version), *changed)) or "the whole"


def list_versions(suite: SuiteSpec, store: ResultsStore, sources: Iterable[ImageSource] = ()) -> Versions:
    """Return all versions of a suite in a store, whatever the value of `suite.given`.

    Results that do not depend on an explained network belong to all versions. They form a separate version only if all
    results on the same images are of this kind.
    """
    by_version = store.read_seeds_and_removals_by_version(suite.dataset, suite.model)
    own, stored = find_default_explained_weights(suite), list[Version]()
    removals = (removal for seeds in by_version.values() for _, removal in seeds)
    options = [("", None), *_list_other_fills_and_units(suite, removals)]
    for data, limit in dict.fromkeys(key[:2] for key in by_version):
        alike = {key[2]: used for key, used in by_version.items() if key[:2] == (data, limit) and key[2]}
        seeds = {given: {seed for seed, _ in used} for given, used in alike.items()}
        combined = [] if suite.networks else _join_given_weights(seeds)
        for fill, unit in options:
            versions = [Version(data, limit, given, fill, unit) for given in dict.fromkeys([own, *combined])]
            explained = [each for each in versions if _has_results(suite, each, store, of_explained_network=True)]
            if not explained and _has_results(suite, versions[0], store, of_explained_network=False):
                explained = versions[:1]
            stored += explained
    mine = tuple(source for source in sources if source.dataset == suite.dataset)
    failed = tuple(store.failures.list_data_and_limits_of_failed_runs(suite.dataset, suite.model))
    read_imported = partial(read_data_of_imported_results, store.database, suite.dataset)
    return Versions(suite, tuple(stored), mine, failed, read_imported)


def shorten_weights_checksum(given: str) -> str:
    """Shorten the checksum in `NAME@CHECKSUM` to the first digits, which `--reference` accepts too."""
    name, _, checksum = given.partition("@")
    return f"{name}@{checksum[:_SHOWN]}" if checksum else name


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
            (*versions.list_options(one), *one.change(versions.suite).fill_and_unit_options),
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
