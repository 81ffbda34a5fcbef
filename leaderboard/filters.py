"""Which rows of a board are shown, and in which order."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from leaderboard.rows import BoardRow, BoardTable
from roarbench.analysis.marks import MASKS


@dataclass(frozen=True)
class Filter:
    """Rows that are shown, and their order.

    Attributes:
        families: Bases; all if empty. Controls go by the name `control`.
        search: Each of its words is in the id or in the sentence about it.
        status: One of these; any if empty.
        sort: A key of `SORTS`.
        down: The largest first; as readers expect it of the column if not given.
    """

    families: tuple[str, ...] = ()
    search: str = ""
    status: str = ""
    sort: str = "gain"
    down: bool | None = None


def filter_rows(table: BoardTable, wanted: Filter) -> BoardTable:
    """Return the rows that pass a filter, sorted; missing values are last either way. Places stay those of all rows."""
    rows = [row for row in table.rows if _passes(row, wanted)]
    value = SORTS[wanted.sort]
    down = wanted.sort not in RISING if wanted.down is None else wanted.down
    there = sorted((row for row in rows if value(row) is not None), key=value, reverse=down)
    return replace(table, rows=(*there, *(row for row in rows if value(row) is None)))


def _passes(row: BoardRow, wanted: Filter) -> bool:
    family = "control" if row.control else row.family
    text = f"{row.estimator} {row.about}".casefold()
    return (
        (not wanted.families or family in wanted.families)
        and (not wanted.status or row.status == wanted.status)
        and all(word in text for word in wanted.search.casefold().split())
    )


SORTS: dict[str, Callable[[BoardRow], Any]] = {  # by column; None where a row has nothing there
    "place": lambda row: None if row.place is None or row.gain.value is None else -row.gain.value,
    "estimator": lambda row: row.estimator.casefold(),
    "gain": lambda row: row.gain.value,
    "beats": lambda row: row.beating and row.beating.p,
    "accuracy": lambda row: row.accuracies[-1].value if row.accuracies else None,
    "random": lambda row: row.random or None,
    "sobel": lambda row: row.sobel or None,
    "blurred": lambda row: row.blurred or None,
    "kar": lambda row: row.kar.value,
    "no-retrain": lambda row: row.unretrained.value,
    "other-image": lambda row: row.other_image.value,
    "twin": lambda row: row.mark("blurred").share.value,
    "masks": lambda row: row.mark(MASKS).share.value,
    "above": lambda row: row.above_masks.value,
    "seconds": lambda row: row.seconds,
    "seeds": lambda row: row.seeds,
    "date": lambda row: row.date or None,
    "status": lambda row: row.status or None,
}
RISING = (
    "place",
    "estimator",
    "beats",
    "random",
    "sobel",
    "blurred",
    "seconds",
    "status",
)  # the smallest is wanted for first
