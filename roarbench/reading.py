"""From the store that a command names to what it shows. Nothing here imports torch."""

from collections.abc import Collection, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from roarbench import plan
from roarbench.calls import STORE, propose
from roarbench.datasets import find_dataset
from roarbench.errors import CallerError, EmptyStore, UnknownName
from roarbench.plan import Suite, expand
from roarbench.standings import Dropped, Other, Standing, standing, standings
from roarbench.store.entries import submitted_ids
from roarbench.store.images import ImageNote, source_files
from roarbench.store.results import ResultsStore, default_url
from roarbench.suites import SUITES, with_entries
from roarbench.tables import ShownTable
from roarbench.terms import PROTOCOLS, Protocol, Unit
from roarbench.validity import flags
from roarbench.versions import image_notes
from roarbench.weights import explaining
from roarbench.workspace import bind

_FEWEST = 4  # hex digits of a fingerprint that a caller may write


def open_results(store: Path, db: str, read_only: bool = True, suite: str = "quick") -> ResultsStore:
    """The results of a store folder, or those of a database that was named.

    Raises:
        EmptyStore: It is only read, and there is none yet; the message proposes to run `suite`.
        StoreError: It cannot be used.
    """
    try:
        return ResultsStore.open(db or default_url(store), read_only=read_only)
    except EmptyStore as error:
        raise EmptyStore(error.seen, propose("run", "--suite", suite)) from None


class Question(NamedTuple):
    """Of what a reader asks for results, beside the suite.

    Attributes:
        store: Folder of the store.
        db: URL of its database, if that is named.
        limit: Images of each split of the small version; None for the whole.
        data: Folder of the images, or the start of their fingerprint; the suite's own images if empty.
        reference: File or name of the weights that are explained, or the start of what a title calls them; the suite's
            own reference if empty.
    """

    store: Path
    db: str = ""
    limit: int | None = None
    data: str = ""
    reference: str = ""


def hold(suite: Suite, asked: Question) -> Standing:
    """What a store has of a suite.

    Raises:
        StoreError: There is no store.
        CallerError: It knows nothing of the images or of the reference that is asked for.
    """
    with open_results(asked.store, asked.db, suite=suite.name) as results:
        return held_in(results, suite, asked)


def held_in(results: ResultsStore, suite: Suite, asked: Question) -> Standing:
    """The same of an open store.

    Raises:
        CallerError: As `hold`.
    """
    notes = image_notes(results, asked.store, suite.dataset)
    chosen = _explaining(suite, asked.reference, results)
    data = _images(suite, asked, notes, results) if asked.data else None
    return standing(with_submitted(chosen, results), results, asked.limit, data, notes)


def alike(asked: Question, suite: Suite, other: Suite) -> Question:
    """What a reader of a suite asks of another: the same images and the same reference where they can be the same."""
    data = asked.data if other.dataset == suite.dataset else ""
    reference = asked.reference if (other.dataset, other.model) == (suite.dataset, suite.model) else ""
    return asked._replace(data=data, reference=reference)


def fits(held: Standing, data: str, reference: str, notes: Iterable[ImageNote]) -> bool:
    """Whether a standing, of whatever size, is of the images and the reference that are asked for.

    Args:
        held: What a store has of a suite.
        data: As in `Question`; any images if empty.
        reference: What a title calls it, or the start of that; any reference if empty.
        notes: Where images came from.
    """
    if data and Path(data).is_dir():
        images = bool(find_dataset(held.suite.dataset).hub) and held.data in _of_folder(held.suite, data, notes)
    else:
        images = held.data.startswith(data)
    return images and held.suite.given.startswith(reference)


def _images(suite: Suite, asked: Question, notes: list[ImageNote], results: ResultsStore) -> str:
    """Fingerprint of the images that `--data` names."""
    held = [data for data, limit, _ in results.versions(suite.dataset, suite.model) if limit == asked.limit]
    mine = [note for note in notes if note.limit == asked.limit]
    begun = _begun([*held, *(note.data for note in mine)], asked.data)
    if len(begun) == 1:
        return begun[0]
    gone = [note.data for note in mine if note.folder == str(Path(asked.data).resolve())]
    found = _of_folder(suite, asked.data, mine) if Path(asked.data).exists() or not gone else gone
    if not found:
        run = propose("run", "--suite", suite.name, "--data", asked.data)
        raise CallerError(f"this store has nothing of the images in {asked.data}; `{run}` makes it")
    return found[-1]


def _begun(known: Iterable[str], start: str) -> list[str]:
    """Those fingerprints or names with a checksum that begin so, each once."""
    return [name for name in dict.fromkeys(known) if name.startswith(start) and len(start) >= _FEWEST]


def _of_folder(suite: Suite, folder: str, notes: Iterable[ImageNote]) -> list[str]:
    """Fingerprints of the images that a folder gave."""
    from roarbench.datasets.sources import describe_source

    record = find_dataset(suite.dataset)
    files = source_files(plan.record(record), describe_source(record, Path(folder)))
    return [note.data for note in notes if note.files == files]


def _explaining(suite: Suite, reference: str, results: ResultsStore) -> Suite:
    """The suite with the weights that `--reference` names for what it explains."""
    known = [given for *_, given in results.versions(suite.dataset, suite.model) if given]
    begun = _begun(known, reference) if "@" in reference else []
    return replace(suite, given=begun[0]) if len(begun) == 1 else explaining(suite, reference)


def with_submitted(suite: Suite, results: ResultsStore) -> Suite:
    """A suite with what was submitted to it."""
    return with_entries(suite, submitted_ids(results.database, suite.dataset, suite.model))


def hold_if_any(suite: Suite, asked: Question, data: str | None) -> Standing:
    """What `run` would find done: on images of a fingerprint, or on the suite's own if None; no store is nothing."""
    if data == "":  # of images that are still to be decoded nothing can be known
        return Standing(suite, data, asked.limit, {})
    try:
        with open_results(asked.store, asked.db, suite=suite.name) as results:
            notes = image_notes(results, asked.store, suite.dataset)
            return standing(suite, results, asked.limit, data, notes)
    except EmptyStore:
        return Standing(suite, data or "", asked.limit, {})


def only_part(held: Standing, results: ResultsStore) -> bool:
    """Suites may share runs: one that has nothing but some of another's was never begun."""
    suite, own = held.suite, _done(held.suite, held, results)
    kin = [other for other in SUITES.values() if (other.dataset, other.model) == (suite.dataset, suite.model)]
    names = [other.name for other in kin]
    before = names[: names.index(suite.name)] if suite.name in names else []
    shared = {other.name: _done(with_submitted(other, results), held, results) for other in kin}
    return any(own < theirs or (own == theirs and name in before) for name, theirs in shared.items())


def _done(suite: Suite, held: Standing, results: ResultsStore) -> set[str]:
    """Keys of what is stored of a suite on the images and the reference of a standing."""
    asked = replace(suite, given=held.suite.given)
    return results.done({bind(asked, point, held.data, held.limit).key for point in expand(asked)})


def dropped_among(keys: Collection[str], results: ResultsStore, folder: Path) -> dict[str, list[Dropped]]:
    """Rows without a place in what these results belong to, by the title of the suite.

    Args:
        keys: Of the results.
        results: The store that has them.
        folder: Its folder.
    """
    cells = [result.run.cell for result in results.results(keys).values()]
    places = {(cell.dataset, cell.model) for cell in cells}
    suites = [suite for suite in SUITES.values() if (suite.dataset, suite.model) in places]
    dropped = {}
    for suite in suites:
        notes = image_notes(results, folder, suite.dataset)
        for held in standings(with_submitted(suite, results), results, notes):
            touched = not {result.run.key for result in held.results.values()}.isdisjoint(keys)
            if touched and not only_part(held, results):
                dropped[held.title] = held.dropped
    return dropped


def what_else(held: Standing, command: str) -> str:
    """In a line, what else the store has of the suite, and how it is shown; empty if that could not be confused.

    Args:
        held: What is shown.
        command: What shows it, such as `table`.
    """
    confused = [other for other in held.others if not held.results or other.limit == held.limit]
    calls = [f"{_call(held.suite, command, other)} ({other.called})" for other in confused]
    first = "this store also has" if held.results else f"nothing of {held.title} is in this store, but"
    return f"{first}: {'; '.join(calls)}" if calls else ""


def _call(suite: Suite, command: str, other: Other) -> str:
    small = ("--limit", other.limit) if other.limit else ()
    return propose(command, "--suite", suite.name, *small, *other.asked, carried=STORE)


def shown_table(held: Standing, protocol: str, unit: Unit | None, rows: Collection[str] | None) -> ShownTable:
    """One protocol's board of what a store holds.

    Args:
        held: The suite and its results.
        protocol: Its name.
        unit: What one feature is; the first that the suite has under this protocol if not given.
        rows: The estimators to show; all if not given.

    Raises:
        CallerError: There is no such protocol, or the suite does not have it, the unit or any of the rows.
    """
    if protocol not in PROTOCOLS:
        raise UnknownName("protocol", protocol, PROTOCOLS)
    asked = PROTOCOLS[protocol]
    chosen = unit or _first_unit(held.suite, asked)
    board = held.board(asked, chosen, rows)
    if board is None:
        has = ", ".join(dict.fromkeys(f"{block.protocol.name} ({block.unit})" for block in held.suite.blocks))
        raise CallerError(f"suite '{held.suite.name}' has no {protocol} with unit {chosen}; it has: {has}")
    if not board.rows:
        raise CallerError(f"suite '{held.suite.name}' has no {protocol} of {', '.join(rows or ())}; leave it out")
    return ShownTable(held, board, chosen, flags(held, chosen))


def _first_unit(suite: Suite, protocol: Protocol) -> Unit:
    return next((block.unit for block in suite.blocks if block.protocol == protocol), Unit.SCALAR)
