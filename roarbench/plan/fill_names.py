"""Convert names of fills between the users' spelling and the records' spelling, and refuse unsuitable fills."""

from roarbench.common.enums import FILL_WORDS, FILLS, PLAIN_FILLS, ScoredNetwork
from roarbench.common.errors import CallerError, UnknownName


def find_recorded_fill_name(name: str) -> str:
    """Return the records' name of a fill, given the users' name; raise UnknownName if there is no such fill."""
    if (fill := FILL_WORDS.get(str(name), name)) not in FILLS:
        raise UnknownName("fill", name, list_fill_names())
    return fill


def list_fill_names() -> list[str]:
    """Return the names of all fills as users write them."""
    return list(map(find_displayed_fill_name, FILLS))


def find_displayed_fill_name(fill: str) -> str:
    """Return the users' name of a fill, given the records' name, for example `black` for `zero`."""
    return next((displayed for displayed, recorded in FILL_WORDS.items() if recorded == fill), fill)


def refuse_unusable_fill(fill: str, retrain: ScoredNetwork) -> None:
    """Raise CallerError for an unknown fill, or if the fill is too slow for masks that change in every epoch."""
    if fill not in FILLS:
        raise UnknownName("fill", fill, list_fill_names())
    if fill not in PLAIN_FILLS and retrain in (ScoredNetwork.EXCHANGED, ScoredNetwork.COMMON):
        *first_fills, last_fill = map(find_displayed_fill_name, PLAIN_FILLS)
        remedy = f"for protocols that exchange masks use {', '.join(first_fills)} or {last_fill}"
        raise CallerError(f"fill '{fill}' is too slow to compute for every mask; {remedy}")
