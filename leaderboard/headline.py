"""Write the headline of a board, which counts the rows that are *shown* to be better: verdicts are adjusted."""

from collections.abc import Sequence

from leaderboard.board_contents import BEATS, UNJUDGED, BoardRow
from roarbench.common.text import capitalize, format_count, join_with_and
from roarbench.plan.protocols import ORDER_NAMES, OWN_NETWORK, REMOVED_FIRST, Protocol, has_opposite_order
from roarbench.stats.board_records import ONE_NETWORK
from roarbench.stats.own_network_gain import OwnNetworkVerdict

BLURRED = "random-blurred"


def write_beats_controls_headline(rows: Sequence[BoardRow], protocol: Protocol, one_network: bool = False) -> str:
    """Describe how many estimators are shown to beat every control; a sentence names the added rows that do.

    The result is empty if a gain or verdict is missing (as for networks at chance), or if a control was added to the
    suite. It names the protocol if another one has the opposite order.
    """
    own = [row for row in rows if not row.added]
    estimators = _select_own_estimators(rows)
    if not estimators or any(row.control for row in rows if row.added) or any(row.value.value is None for row in own):
        return ""
    if not all(row.beating for row in estimators):
        return ""
    winners = [row for row in estimators if row.beating and row.beating.beats_all]
    under = f"under {protocol.title}, " * has_opposite_order(protocol)
    of = f"of {'the suite’s ' * (len(own) < len(rows))}{format_count(len(estimators), 'estimator')}"
    shown = f"{'is' if len(winners) < 2 else 'are'} shown to beat every control{f', {ONE_NETWORK}' * one_network}"
    added = [row for row in rows if row.added and row.beating and row.beating.beats_all]
    sentences = (
        capitalize(f"{under}{len(winners) or 'none'} {of} {shown}."),
        f"Added rows that beat every control: {_join_names(added)}." if added else "",
    )
    return " ".join(filter(None, sentences))


def add_missing_runs_to_headline(headline: str, unfinished_text: str) -> str:
    """Add missing runs, such as `6 of 99 runs are missing`, to a headline unless it is empty: its counts may change."""
    return f"{headline} Unfinished: {unfinished_text}." if headline and unfinished_text else headline


def write_combined_headline(
    network: Sequence[BoardRow], roar: Sequence[BoardRow], included_levels_text: str = ""
) -> str:
    """Count the estimators that are shown to explain their network, and to beat Random under ROAR.

    The result is empty if a row lacks its verdict; rows that were added to the suite are not counted. If ROAR has
    results at only some levels, `included_levels_text` names them, such as `at 90 %`, and rows without a result at one
    of them are not counted.
    """
    explained = _count_explaining_rows(network)
    retrained = [row for row in _select_own_estimators(roar) if row.value.value is not None or not included_levels_text]
    if not explained or not retrained or any(row.verdict_class == UNJUDGED for row in retrained):
        return ""
    estimators = f"{'its ' * any(row.added for row in roar)}{len(retrained)}"
    winners = sum(row.verdict_class == BEATS for row in retrained)
    verb = "is" if winners < 2 else "are"
    blurred_beats = any(row.id == BLURRED and row.verdict_class == BEATS for row in roar)
    blurred = (", and so is blurred noise" if winners else ", but blurred noise is") * blurred_beats
    protocol = f"under ROAR {included_levels_text}".rstrip()
    order = ORDER_NAMES[OWN_NETWORK.order]
    return (
        f"{explained} ({order}); {protocol} {winners or 'none'} of {estimators} {verb} shown to beat Random{blurred}."
    )


def write_own_network_headline(rows: Sequence[BoardRow], protocol: Protocol) -> str:
    """Describe how many of the suite's estimators are shown to explain their network; empty if a verdict is missing."""
    explained = _count_explaining_rows(rows)
    return explained and f"{explained} ({REMOVED_FIRST[protocol.order]} features removed first)."


def _count_explaining_rows(rows: Sequence[BoardRow]) -> str:
    """Count the rows that are shown to explain their network; in a table without a search, those above 0."""
    estimators = _select_own_estimators(rows)
    verdicts = [row.network.verdict for row in estimators if row.network]
    if not estimators or len(verdicts) < len(estimators):
        return ""
    without_search = not any(row.network and row.network.search for row in estimators)
    count = verdicts.count(OwnNetworkVerdict.ABOVE_ZERO if without_search else OwnNetworkVerdict.EXPLAINS)
    of = f"{count or 'None'} of {'the suite’s ' * any(row.added for row in rows)}{len(estimators)} estimators"
    if without_search:
        return f"{of} {'gain' if count > 1 else 'gains'} more than 0, compared with no blind search"
    return f"{of} {'is shown to explain its' if count < 2 else 'are shown to explain their'} network"


def _select_own_estimators(rows: Sequence[BoardRow]) -> list[BoardRow]:
    return [row for row in rows if row.is_estimator and not row.added]


def _join_names(rows: Sequence[BoardRow]) -> str:
    return join_with_and(f"{row.name} {row.detail}".removesuffix("submission").strip() for row in rows)
