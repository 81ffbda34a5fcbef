"""Compare own-network gains with the gain of a blind search that asks the network at least as often.

A map that depends on the network may have a gain and explain nothing: a search keeps, of many masks, those that change
this network's prediction (`roarbench.estimators.families.search`). A row explains its network if its gain is
significantly above 0, and above the gain of the search with as many passes.
"""

from collections.abc import Iterable, Mapping

from roarbench.stats.contrasts import Contrast
from roarbench.stats.own_network_gain import OwnNetworkVerdict, SearchComparison
from roarbench.stats.verdicts import Verdict, judge_comparisons

BESIDE_SEARCH = "Explains: also above the blind search with as many passes."
NO_SEARCH = "Verdicts compare with 0 alone: no row is a blind search."


def choose_search(passes: float | None, searches: Mapping[str, int]) -> tuple[str, bool]:
    """Choose the shortest search that has at least `passes` passes, else the longest; tell which of both it is.

    Args:
        passes: Forward and backward passes of an image's map; None if unknown.
        searches: Passes by name of a search; not empty.
    """
    in_order = sorted(searches, key=lambda name: searches[name])
    enough = [name for name in in_order if passes is not None and searches[name] >= passes]
    return (enough[0], True) if enough else (in_order[-1], False)


def compare_with_searches(
    gains: Mapping[str, Contrast],
    passes: Mapping[str, float | None],
    searches: Mapping[str, int],
    added_rows: Iterable[str] = (),
) -> dict[str, SearchComparison]:
    """Compare rows with searches, paired by images and networks; empty without searches.

    Args:
        gains: Gains by row, of all rows that are judged and of the searches.
        passes: Forward and backward passes by row; rows without an entry are not judged.
        searches: Passes by name of a search.
        added_rows: Rows that are adjusted as in `judge_comparisons`.
    """
    if not searches:
        return {}
    chosen = {name: choose_search(count, searches) for name, count in passes.items() if name not in searches}
    column = {name: gains[name].subtract(gains[search]) for name, (search, _) in chosen.items()}
    compared = judge_comparisons(column, added_rows=column.keys() & set(added_rows))
    return {name: SearchComparison(search, compared[name], enough) for name, (search, enough) in chosen.items()}


def judge_beside_search(beside_zero: Verdict, beside_search: SearchComparison | None = None) -> OwnNetworkVerdict:
    """Return the verdict on a row from its comparisons with 0 and with a search; without a search, 0 decides."""
    if beside_zero is Verdict.WORSE:
        return OwnNetworkVerdict.OPPOSES
    if beside_zero is Verdict.SAME:
        return OwnNetworkVerdict.OPEN
    if beside_search is None:
        return OwnNetworkVerdict.EXPLAINS
    if beside_search.comparison.verdict is not Verdict.BETTER:
        return OwnNetworkVerdict.SEARCHED
    return OwnNetworkVerdict.EXPLAINS if beside_search.long_enough else OwnNetworkVerdict.ABOVE_SHORTER
