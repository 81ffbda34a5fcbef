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


def open_results(store: Path, db: str, read_only: bool = True) -> ResultsStore:
    """The results of a store folder, or those of a database that was named."""
    return ResultsStore.open(db or default_url(store), read_only=read_only)


def hold(suite: Suite, store: Path, db: str, limit: int | None) -> Standing:
    """What a store has of a suite.

    Raises:
        StoreError: There is no store.
    """
    with open_results(store, db) as results:
        return standing(with_submitted(suite, results), results, limit)


def with_submitted(suite: Suite, results: ResultsStore) -> Suite:
    """A suite with what was submitted to it."""
    return with_entries(suite, submitted_ids(results.database, suite.dataset, suite.model))


def hold_if_any(suite: Suite, store: Path, db: str, limit: int | None) -> Standing:
    """The same, where no store yet means that everything is missing."""
    try:
        return hold(suite, store, db, limit)
    except EmptyStore:
        return Standing(suite, "", limit, {})


def hold_unfinished(suite: Suite, results: ResultsStore, store: Path, limit: int | None) -> Standing:
    """The same, where no run may be done yet: of the images that runs failed on, or that lie decoded in the store."""
    held = standing(suite, results, limit)
    if held.data:
        return held
    seen = [*results.failed_on(suite.dataset, suite.model, limit), *Workspace(store).decoded(suite.dataset, limit)]
    return standing(suite, results, limit, seen[-1]) if seen else held


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
