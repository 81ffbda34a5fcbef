"""From the store that a command names to what it shows. Nothing here imports torch."""

from collections.abc import Collection
from pathlib import Path

from roarbench.errors import CallerError, UnknownName
from roarbench.plan import Suite
from roarbench.standings import Standing, standing
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url
from roarbench.tables import ShownTable
from roarbench.terms import PROTOCOLS, Protocol, Unit
from roarbench.validity import flags


def open_results(store: Path, db: str, read_only: bool = True) -> ResultsStore:
    """The results of a store folder, or those of a database that was named."""
    return ResultsStore.open(db or default_url(store), read_only=read_only)


def hold(suite: Suite, store: Path, db: str, limit: int | None) -> Standing:
    """What a store has of a suite.

    Raises:
        StoreError: There is no store.
    """
    with open_results(store, db) as results:
        return standing(suite, results, limit)


def hold_if_any(suite: Suite, store: Path, db: str, limit: int | None) -> Standing:
    """The same, where no store yet means that everything is missing."""
    if db or (store / DEFAULT_FILE).exists():
        return hold(suite, store, db, limit)
    return Standing(suite, "", limit, {})


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
