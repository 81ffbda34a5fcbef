"""Scores that another library gives to importance maps: in a table of their own, apart from all results.

Like a result, a score is written once and never changed; a new definition of a metric is a new key.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from roarbench.identity import Keyed, canonical, record
from roarbench.store.database import Database, insert_new, matching
from roarbench.store.schema import scores
from roarbench.terms import Making


@dataclass(frozen=True)
class ScoreSpec(Keyed):
    """Identity of a score.

    Attributes:
        data: Fingerprint of the images.
        reference: Key of the explained model.
        estimator: Fingerprint of what made the maps.
        metric: Name of the metric.
        parameters: All that the metric's own code leaves open, as text.
        images: The first so many test images are scored, or all where there are fewer.
        maps: How the explained model's maps were to be made; see `plan.Run`.
    """

    data: str
    reference: str
    estimator: str
    metric: str
    parameters: str
    images: int
    maps: Making = Making.FLOAT32


@dataclass(frozen=True)
class Score:
    """One number; one row.

    Attributes:
        spec: What it is of.
        estimator: Id of the estimator.
        value: Mean over the images; None where the metric is not defined for any of them.
        count: Images that the mean is over.
        versions: Of roarbench, of the library that has the metric, and of what it computes with.
        created: When, in UTC.
    """

    spec: ScoreSpec
    estimator: str
    value: float | None
    count: int
    versions: dict[str, str]
    created: datetime = field(default_factory=lambda: datetime.now(UTC))


class ScoresStore:
    """The scores of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, new: Iterable[Score]) -> None:
        """Store scores in one transaction; one that is stored already keeps its row."""
        rows = {score.spec.key: _row(score) for score in new}
        with self._database.write() as connection:
            insert_new(connection, scores, [*rows.values()])

    def values(self, keys: Collection[str]) -> dict[str, float | None]:
        """Return the scores that there are of these keys."""
        columns = select(scores.c.key, scores.c.value)
        with self._database.read() as connection:
            return {row.key: row.value for row in matching(connection, columns, scores.c.key, keys)}


def _row(score: Score) -> dict[str, Any]:
    return {
        "key": score.spec.key,
        "record": canonical(record(score.spec)),
        "estimator": score.estimator,
        "metric": score.spec.metric,
        "value": score.value,
        "count": score.count,
        "versions": score.versions,
        "created": score.created,
    }
