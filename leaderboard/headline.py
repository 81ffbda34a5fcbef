"""Write the headline of a board from its verdicts, whose p values are adjusted for testing all rows.

A row without a significant difference may still be better than a control, so headlines count the rows that are *shown*
to be better.
"""

from collections.abc import Collection, Sequence

from leaderboard.board_contents import BEATS, BoardRow
from roarbench.estimators.catalogue import find_estimator_or_placeholder
from roarbench.plan.protocols import ORDER_NAMES, OWN_NETWORK, REMOVED_FIRST, Protocol, has_opposite_order
from roarbench.stats.board_records import ONE_NETWORK, RANDOM, Row
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict

BLURRED = "random-blurred"
_WORDS_AT_START = ("All", "None", "Of", "The")  # first words of headlines that are not names


def write_beats_controls_headline(rows: Sequence[BoardRow], one_network: bool = False) -> str:
    """Describe how many of the suite's own estimators are shown to beat every control.

    The result is empty if a gain or verdict is missing (as for networks at chance), or if a control was added to the
    suite. `one_network` says that all rows explain the same single network.
    """
    own = [row for row in rows if not row.added]
    estimators = [row for row in own if not row.control]
    has_added_control = any(row.control for row in rows if row.added)
    if not estimators or has_added_control or any(row.value.value is None for row in own):
        return ""
    if not all(row.beating for row in estimators):
        return ""
    winners = sum(row.colour_class == BEATS for row in estimators)
    count = _describe_number_of_winners(winners, len(estimators), len(own) < len(rows))
    number = len(own) - len(estimators)
    if any(find_estimator_or_placeholder(row.id).uses_prediction for row in own if row.control):
        inputs = f"{'use' if number > 1 else 'uses'} at most the network’s predicted class"
    else:
        inputs = f"{'do' if number > 1 else 'does'} not use the network"
    controls = f"all {number} controls that {inputs}" if number > 1 else f"the one control, which {inputs}"
    return f"{count} {controls}{f', {ONE_NETWORK}' * one_network}."


def add_protocol_to_headline(headline: str, protocol: Protocol) -> str:
    """Begin a headline of `write_beats_controls_headline` with the protocol if another one has the opposite order."""
    if not headline or not has_opposite_order(protocol):
        return headline
    first, space, rest = headline.partition(" ")
    return f"Under {protocol.title}, {first.lower() if first in _WORDS_AT_START else first}{space}{rest}"


def write_combined_headline(
    network: Sequence[Row], roar: Sequence[Row], added: Collection[str] = (), included_levels_text: str = ""
) -> str:
    """Count the estimators that are shown to explain their network, and to beat Random under ROAR.

    If `random-blurred` beats Random under ROAR, the sentence says so. The result is empty if a row lacks its verdict.

    Args:
        network: The rows under own-network gain.
        roar: The rows under ROAR, possibly fewer.
        added: Ids of the rows that were added to the suite, which are not counted.
        included_levels_text: The levels in words, such as `at 90 %`, if ROAR has results at only some of the suite's
            levels. Rows without a result at one of these levels are not counted.
    """
    explained = _count_explaining_rows(network, added)
    retrained = [
        row for row in _select_estimators(roar, added) if row.gain.value is not None or not included_levels_text
    ]
    if not explained or not retrained or not all(RANDOM in row.against for row in retrained):
        return ""
    estimators = f"{'its ' * any(row.estimator in added for row in roar)}{len(retrained)}"
    winners = sum(_does_beat_random(row) for row in retrained)
    verb = "is" if winners < 2 else "are"
    blurred_beats = any(row.estimator == BLURRED and _does_beat_random(row) for row in roar)
    blurred = (", and so is blurred noise" if winners else ", but blurred noise is") * blurred_beats
    protocol = f"under ROAR {included_levels_text}".rstrip()
    order = ORDER_NAMES[OWN_NETWORK.order]
    return (
        f"{explained} ({order}); {protocol} {winners or 'none'} of {estimators} {verb} shown to beat Random{blurred}."
    )


def write_own_network_headline(rows: Sequence[Row], protocol: Protocol, added: Collection[str] = ()) -> str:
    """Describe how many estimators are shown to explain their network, and the order of removal, without a full stop.

    Rows that were `added` to the suite are not counted. The result is empty if a verdict is missing.
    """
    explained = _count_explaining_rows(rows, added)
    return explained and f"{explained} ({REMOVED_FIRST[protocol.order]} features removed first)"


def _count_explaining_rows(rows: Sequence[Row], added: Collection[str]) -> str:
    estimators, has_added = _select_estimators(rows, added), any(row.estimator in added for row in rows)
    verdicts = [row.network.verdict for row in estimators if row.network]
    if not estimators or len(verdicts) < len(estimators):
        return ""
    count = verdicts.count(OwnNetworkVerdict.EXPLAINS)
    verb, its = ("is", "its") if count < 2 else ("are", "their")
    of = f"{count or 'None'} of {'the suite’s ' * has_added}{len(estimators)} estimators"
    return f"{of} {verb} shown to explain {its} network"


def _select_estimators(rows: Sequence[Row], added: Collection[str]) -> list[Row]:
    candidates = [row for row in rows if not row.check and row.estimator not in added]
    return [row for row in candidates if not find_estimator_or_placeholder(row.estimator).control]


def _does_beat_random(row: Row) -> bool:
    return RANDOM in row.against and row.against[RANDOM].verdict is Verdict.BETTER


def _describe_number_of_winners(winners: int, estimators: int, has_added: bool) -> str:
    if estimators == 1:
        return f"The {'suite’s ' * has_added}one estimator {'beats' if winners else 'is not shown to beat'}"
    share = f"{winners or 'None'} of {'the suite’s ' * has_added}{estimators}"
    if winners == estimators and not has_added:
        share = f"All {estimators}"
    return f"{share} estimators {'is' if winners < 2 else 'are'} shown to beat"
