"""List the versions of a suite's stored results: sets of images, explained networks, and fills and units of options.

The source of images is found by their fingerprint in notes in the database, in manifests of decoded images, or in
`PINNED_FINGERPRINTS`. Nothing here imports torch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from roarbench.common.enums import Unit
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS
from roarbench.plan.cells_and_runs import Cell
from roarbench.plan.planned_runs import (
    list_planned_runs,
    list_runs,
)
from roarbench.plan.suite import SEEDS_PER_REPLICATION, SuiteSpec
from roarbench.plan.suite_changes import (
    set_allowed_fill_and_unit,
    set_explained_weights,
)
from roarbench.plan.suites import find_default_explained_weights
from roarbench.store.results import Removal, ResultsStore, read_data_of_imported_results
from roarbench.store.user_files import (
    LOCAL,
    ImageSource,
    read_image_sources,
    read_sources_of_decoded_images,
)
from roarbench.store.workspace import Workspace

_SHOWN = 8  # shown hex digits of a fingerprint; options accept them too


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
    for block in suite.blocks if not suite.changes.options else ():
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
    stored: tuple[Version, ...]  # images and explained networks that have results, oldest first
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
            parts.append(f"explained network{'s' * (len(names) > 1)} {', '.join(names)}")
        elif reference:
            parts.append(f"explained network trained by {self.suite.reference_recipe}")
        return tuple(parts) if version.data else ()

    def list_options(self, version: Version) -> tuple[str, ...]:
        """Return the command-line options that select a version, in addition to `--suite NAME --max-images N`."""
        data = ("--data", version.data[:_SHOWN]) if version.data != self.find_default_data(version.limit) else ()
        names = version.given.split(",") if version.given != find_default_explained_weights(self.suite) else []
        return (*data, *(word for name in names for word in ("--reference", shorten_weights_checksum(name))))

    def describe(self, version: Version) -> str:
        """Describe a version in words."""
        small = (f"small version: {version.limit} images per split",) if version.limit else ()
        changed = (suffix,) if (suffix := version.change(self.suite).changes.title) else ()
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
