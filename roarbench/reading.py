"""From the store that a command names to what it shows. Nothing here imports torch."""

from collections.abc import Collection
from pathlib import Path

from roarbench.errors import CallerError, EmptyStore, UnknownName
from roarbench.plan import Suite
from roarbench.standings import Standing, standing
from roarbench.store.entries import submitted_ids
from roarbench.store.results import ResultsStore, default_url
from roarbench.suites import with_entries
from roarbench.tables import ShownTable
from roarbench.terms import PROTOCOLS, Protocol, Unit
from roarbench.validity import flags
from roarbench.workspace import Workspace


def open_results(store: Path, db: str, read_only: bool = True, suite: str = "quick") -> ResultsStore:
    """The results of a store folder, or those of a database that was named.

    Raises:
        EmptyStore: It is only read, and there is none yet; the message proposes to run `suite`.
        StoreError: It cannot be used.
    """
    try:
        return ResultsStore.open(db or default_url(store), read_only=read_only)
    except EmptyStore as error:
        raise EmptyStore(error.seen, suite) from None


def hold(suite: Suite, store: Path, db: str, limit: int | None, data: str = "") -> Standing:
    """What a store has of a suite.

    Args:
        suite: Which.
        store: Its folder.
        db: URL of its database, if that is named.
        limit: Images of each split of the small version; None for the whole.
        data: Fingerprint of the images; those with the most results if empty.

    Raises:
        StoreError: There is no store.
    """
    with open_results(store, db, suite=suite.name) as results:
        return standing(with_submitted(suite, results), results, limit, data or None)


def with_submitted(suite: Suite, results: ResultsStore) -> Suite:
    """A suite with what was submitted to it."""
    return with_entries(suite, submitted_ids(results.database, suite.dataset, suite.model))


def hold_if_any(suite: Suite, store: Path, db: str, limit: int | None, data: str) -> Standing:
    """The same, where no store yet means that everything is missing."""
    try:
        return hold(suite, store, db, limit, data)
    except EmptyStore:
        return Standing(suite, data, limit, {})


def hold_unfinished(suite: Suite, results: ResultsStore, store: Path, limit: int | None) -> Standing:
    """The same, where no run may be done yet: of the images that runs failed on, or that lie decoded in the store."""
    held = standing(suite, results, limit)
    if held.data:
        return held
    seen = [*results.failed_on(suite.dataset, suite.model, limit), *Workspace(store).decoded(suite.dataset, limit)]
    return standing(suite, results, limit, seen[-1]) if seen else held


def limits_held(suite: Suite, results: ResultsStore) -> list[int | None]:
    """Of which versions of its images a store has results of a suite: images per split, None for the whole."""
    sizes = dict.fromkeys(size for _, size in results.versions(suite.dataset, suite.model))
    return [size for size in sizes if standing(suite, results, size).results]


def what_else(held: Standing, store: Path, db: str) -> str:
    """Where nothing is held of the images that were asked for: of which others the store has results, in a line."""
    if held.results:
        return ""
    with open_results(store, db) as results:
        sizes = limits_held(held.suite, results)
    ways = [f"write --limit {size}" if size else "leave --limit out" for size in sizes]
    return f"nothing of {held.title} is in this store, but of other images; {', or '.join(ways)}" if ways else ""


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
