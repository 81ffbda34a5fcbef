"""All that a store has of a suite, by version of its data: images and explained networks that results belong to.

Without a word of the caller a question is about the suite's own images and its own reference. Whose images a
fingerprint is of is known from notes in the database, from the manifests of decoded images, or from `PINNED`.
Nothing here imports torch.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from roarbench.analysis.faithfulness import list_score_specs
from roarbench.analysis.suite_results import OtherResults, SuiteResults
from roarbench.datasets.catalogue import PINNED
from roarbench.enums import Order, ScoredNetwork
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import CONTROLS
from roarbench.plan.planned_runs import build_run, expand_points, has_explained_model, list_reference_points, list_runs
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import REPLICATION, SuiteSpec, find_reference_pair
from roarbench.plan.suites import add_estimators, find_default_weights, set_explained_weights
from roarbench.store.image_sources import LOCAL, ImageNote, read_decoded_notes, read_image_notes
from roarbench.store.quantus_scores import read_scores
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult
from roarbench.store.submissions import (
    Kind,
    explain_unverified,
    find_entered_ids,
    read_annotations,
    read_findings,
    read_submissions,
)
from roarbench.store.workspace import Workspace

_SHOWN = 8  # hex digits of a fingerprint that a reader sees, and may write
STABLE_ENOUGH = 0.8  # below this share of noisy copies that keep their class a row is marked
joined = lru_cache(64)(add_estimators)  # a board asks for the same ones again and again


@dataclass(frozen=True)
class Version:
    """Images, by fingerprint and as `SuiteResults.limit`, and a reference, as `Suite.given`, that results are of."""

    data: str
    limit: int | None
    given: str


def list_image_notes(store: ResultsStore, folder: Path, dataset: str) -> list[ImageNote]:
    """Return where the images of a data set came from, as far as database and store folder know; oldest first."""
    noted = [note for note in read_image_notes(store.database) if note.dataset == dataset]
    return list(dict.fromkeys([*noted, *read_decoded_notes(Workspace(folder).data, dataset)]))


def is_own(data: str, notes: Iterable[ImageNote]) -> bool | None:
    """Return whether images are the data set's own, not those of a folder that was named; None if unknown."""
    kinds = {note.kind for note in notes if note.data == data}
    if kinds - {LOCAL} or data in PINNED.values():
        return True
    return False if kinds else None


def _find_versions(suite: SuiteSpec, store: ResultsStore) -> list[Version]:
    """Return the images and references that a store has results of a suite of, oldest first.

    Rows that depend on no reference belong to every one of them, and make a version alone only where no row of the
    same images explains anything.
    """
    found = store.versions(suite.dataset, suite.model)
    own, stored = find_default_weights(suite), list[Version]()
    for data, limit in dict.fromkeys((data, limit) for data, limit, _ in found):
        seeds = {given: found[key] for key in found if key[:2] == (data, limit) and (given := key[2])}
        others = [] if suite.networks else _together(seeds)
        asked = [Version(data, limit, given) for given in dict.fromkeys([own, *others])]
        explained = [version for version in asked if _has(suite, version, store, explained=True)]
        stored += explained or [version for version in asked[:1] if _has(suite, version, store, explained=False)]
    return stored


def _together(seeds: Mapping[str, Set[int]]) -> list[str]:
    """Return weights that were given, those as one that were given together, from the seeds that explain each.

    Of weights that were given together each explains some of the seeds, by their number. Those that were given alone
    explain every seed, the first one at least.
    """
    numbers = {given: {seed % REPLICATION for seed in each} for given, each in seeds.items()}
    in_order = sorted(numbers, key=lambda given: min(numbers[given]))
    count = len(in_order)
    if count > 1 and all(seed % count == number for number, given in enumerate(in_order) for seed in numbers[given]):
        return [",".join(in_order)]
    return [*seeds]


def _has(suite: SuiteSpec, version: Version, store: ResultsStore, *, explained: bool) -> bool:
    """Return whether there is a result of a version: of those that explain a network, or of the others."""
    runs = list_runs(set_explained_weights(suite, version.given), version.data, version.limit).values()
    return store.has_any([run.key for run in runs if bool(run.reference) is explained])


@dataclass(frozen=True)
class Versions:
    """All versions of a suite that a store has."""

    suite: SuiteSpec
    stored: tuple[Version, ...]  # of which images and references, oldest first
    notes: tuple[ImageNote, ...]  # where the images of its data set came from
    # fingerprints of images that a run failed on, each with the images per split, oldest first
    begun: tuple[tuple[str, int | None], ...]

    def own_images(self, limit: int | None) -> str:
        """Return the fingerprint of the images that are meant unless others are named; empty if nothing says which.

        Of several that are the suite's own, those whose results began last. Where nothing says whose the images are,
        as in stores from before it was noted, they count as the suite's own if there are no others.
        """
        done = list(dict.fromkeys(version.data for version in self.stored if version.limit == limit))
        noted = [(note.data, note.limit) for note in self.notes]
        begun = [data for data, size in (*noted, *self.begun) if size == limit]
        own = [data for data in (*begun, *done) if is_own(data, self.notes)]
        if own:
            return next((data for data in reversed(own) if data in done), own[-1])
        unknown = [data for data in done or begun if is_own(data, self.notes) is None]
        return unknown[-1] if len(unknown) == 1 or not done and unknown else ""

    def names(self, version: Version) -> tuple[str, ...]:
        """Return what a title has to say of images and reference, so that nobody takes them for others."""
        alike = [other for other in self.stored if other.limit == version.limit]
        own = is_own(version.data, self.notes)
        strange = own is None and version.limit is None and self.suite.dataset in PINNED
        images = own is False or strange or any(other.data != version.data for other in alike)
        reference = version.given != find_default_weights(self.suite) or any(other.given for other in alike)
        named = (self._images(version.data) if images else "", self._reference(version.given) if reference else "")
        return tuple(filter(None, named)) if version.data else ()

    def options(self, version: Version) -> tuple[str, ...]:
        """Return what to write after `--suite NAME --max-images N` to be shown a version."""
        data = ("--data", version.data[:_SHOWN]) if version.data != self.own_images(version.limit) else ()
        names = version.given.split(",") if version.given != find_default_weights(self.suite) else []
        return (*data, *(word for name in names for word in ("--reference", shorten_reference(name))))

    def describe(self, version: Version) -> str:
        """Describe a version in words."""
        small = (f"small version: {version.limit} images a split",) if version.limit else ()
        return "; ".join((*small, *self.names(version))) or "the whole"

    def _images(self, data: str) -> str:
        own, folders = is_own(data, self.notes), [note.folder for note in self.notes if note.data == data]
        if own:
            return f"the suite's own images, {data[:_SHOWN]}"
        whose = f"of {Path(folders[-1]).name}" if own is False else "of unknown origin"
        return f"images {whose}, {data[:_SHOWN]}"

    def _reference(self, given: str) -> str:
        if not given:
            return f"reference trained by {self.suite.reference_recipe}"
        names = [shorten_reference(name) for name in given.split(",")]
        return f"reference {names[0]}" if len(names) == 1 else f"references {', '.join(names)}"


def list_versions(suite: SuiteSpec, store: ResultsStore, notes: Iterable[ImageNote] = ()) -> Versions:
    """Return all versions of a suite that a store has; what the suite's `given` says plays no part."""
    mine = tuple(note for note in notes if note.dataset == suite.dataset)
    begun = tuple(store.failures.data_of(suite.dataset, suite.model))
    return Versions(suite, tuple(_find_versions(suite, store)), mine, begun)


def shorten_reference(given: str) -> str:
    """Return `NAME@CHECKSUM` with as much of the checksum as a reader needs, and `--reference` takes."""
    name, _, checksum = given.partition("@")
    return f"{name}@{checksum[:_SHOWN]}" if checksum else name


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
