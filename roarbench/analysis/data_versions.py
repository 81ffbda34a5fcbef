"""Images and explained networks that results belong to: each query names both.

Without a word of the caller a question is about the suite's own images and its own reference. Whose images a
fingerprint is of is known from notes in the database, from the manifests of decoded images, or from `PINNED`.
Nothing here imports torch.
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from pathlib import Path

from roarbench.datasets.catalogue import PINNED
from roarbench.plan.run_keys import list_runs
from roarbench.plan.suite import REPLICATION, SuiteSpec
from roarbench.plan.suites import find_default_weights, set_explained_weights
from roarbench.store.image_sources import LOCAL, ImageNote, read_decoded_notes, read_image_notes
from roarbench.store.results import ResultsStore
from roarbench.store.workspace import Workspace

_SHOWN = 8  # hex digits of a fingerprint that a reader sees, and may write


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
