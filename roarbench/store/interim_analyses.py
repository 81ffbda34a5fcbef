"""Rows that somebody looked at while their trainings went on. Nothing here imports torch.

Whether more trainings come has then hung on those that were there, and intervals and verdicts have to allow for it,
whoever shows them later: so it is noted before the first look, and never taken back.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import inspect, select

from roarbench.identity import Keyed
from roarbench.store.database import Database, insert_new
from roarbench.store.schema import watched


@dataclass(frozen=True)
class WatchedRow(Keyed):
    """A row of a suite's boards; one row."""

    suite: str  # title of the suite, with version and replication
    data: str  # fingerprint of the images
    limit: int | None  # images per split if the data set was made small; None for the whole
    given: str  # as `Suite.given`
    retrain: str  # which networks answer for it
    estimator: str
    looks: int  # how many looks were planned, one after each training


def note_watched(database: Database, rows: Iterable[WatchedRow]) -> None:
    """Note rows that will be looked at; one that is noted already stays as it is."""
    with database.write() as connection:
        insert_new(connection, watched, [{"key": row.key, **vars(row)} for row in rows])


def read_planned_looks(
    database: Database, suite: str, data: str, limit: int | None, given: str
) -> dict[tuple[str, str], int]:
    """Return the looks that were planned, the most of them, by kind of network and estimator."""
    asked = (watched.c.suite == suite, watched.c.data == data, watched.c.given == given)
    columns = select(watched.c.retrain, watched.c.estimator, watched.c.looks).where(*asked)
    with database.read() as connection:
        if not inspect(connection).has_table(watched.name):
            return {}
        rows = connection.execute(columns.where(watched.c.limit.is_not_distinct_from(limit)).order_by(watched.c.looks))
        return {(row.retrain, row.estimator): row.looks for row in rows}
