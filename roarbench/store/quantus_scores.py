"""Store the scores that Quantus gives to importance maps.

A stored score never changes; if a metric's definition changes, its new scores have new keys.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select

from roarbench.common.enums import MapNumerics
from roarbench.common.identity import Keyed, encode_canonically, make_json_record
from roarbench.store.database import Database, insert_new, select_matching
from roarbench.store.schema import scores


@dataclass(frozen=True)
class ScoreSpec(Keyed):
    """Metric, and everything that determines the maps."""

    data: str  # fingerprint of the images
    reference: str  # key of the explained network
    estimator: str  # fingerprint of the estimator
    metric: str  # name of the metric
    parameters: str  # arguments of the metric that Quantus leaves to its caller, as text
    images: int  # maximum number of scored images; the first images of the test split are scored
    # requested settings for the explained network's maps; see `plan.cells_and_runs.Run`
    maps: MapNumerics = MapNumerics.FLOAT32


@dataclass(frozen=True)
class Score:
    """Mean score of an estimator's maps by one metric."""

    spec: ScoreSpec  # identity of the score
    estimator: str  # id of the estimator
    value: float | None  # mean over the images; None if the metric is undefined for every image
    count: int  # number of images in the mean
    versions: dict[str, str]  # versions of roarbench, the metric's library and its dependencies
    created: datetime = field(default_factory=lambda: datetime.now(UTC))  # time in UTC


def store_scores(database: Database, new: Iterable[Score]) -> None:
    """Store scores in one transaction; existing scores stay unchanged."""
    with database.begin_exclusive_write() as connection:
        insert_new(connection, scores, [_make_row(score) for score in new])


def read_scores(database: Database, keys: Collection[str]) -> dict[str, float | None]:
    """Return a dict from keys to stored scores, which are None for undefined metrics; missing scores have no entry."""
    columns = select(scores.c.key, scores.c.value)
    with database.begin_read() as connection:
        return {row.key: row.value for row in select_matching(connection, columns, scores.c.key, keys)}


def _make_row(score: Score) -> dict[str, Any]:
    spec = score.spec
    identity = {"key": spec.key, "record": encode_canonically(make_json_record(spec)), "metric": spec.metric}
    return identity | {name: value for name, value in vars(score).items() if name != "spec"}
