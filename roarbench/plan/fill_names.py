"""Convert the names of fills between users and records, and refuse fills that are too slow for a protocol."""

from roarbench.common.enums import FILL_WORDS, FILLS, PLAIN_FILLS, ScoredNetwork
from roarbench.common.errors import CallerError, UnknownName


def find_recorded_fill_name(name: str) -> str:
    """Return the spelling in records of a fill that a user names; raise UnknownName if there is no such fill."""
    if (fill := FILL_WORDS.get(str(name), name)) not in FILLS:
        raise UnknownName("fill", name, list_fill_names())
    return fill


def list_fill_names() -> list[str]:
    """Return the names of all fills as users write them."""
    return [*map(find_displayed_fill_name, FILLS)]


def find_displayed_fill_name(fill: str) -> str:
    """Return the name of a fill as users write it, for example `black` for the record's `zero`."""
    return next((word for word, stored_name in FILL_WORDS.items() if stored_name == fill), fill)


def refuse_unusable_fill(fill: str, retrain: ScoredNetwork) -> None:
    """Raise an error for an unknown fill, or if the fill is too slow for masks that change in every epoch."""
    if fill not in FILLS:
        raise UnknownName("fill", fill, list_fill_names())
    if fill not in PLAIN_FILLS and retrain in (ScoredNetwork.EXCHANGED, ScoredNetwork.COMMON):
        slow = f"fill '{fill}' is too slow to compute for every mask"
        *first_fills, last = map(find_displayed_fill_name, PLAIN_FILLS)
        raise CallerError(f"{slow}; for protocols that exchange masks use {', '.join(first_fills)} or {last}")
