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
    """Describe how many estimators are shown to beat every control, and whether ROAR's best estimators are among them.

    The result is empty if a gain or verdict is missing (as for networks at chance), or if a control was added to the
    suite.

    Args:
        rows: Rows of a board. Rows that were added to the suite are not counted; a sentence names those that win.
        one_network: Whether all rows explain the same single network.
    """
    own = [row for row in rows if not row.added]
    estimators = [row for row in own if not row.control]
    has_added_control = any(row.control for row in rows if row.added)
    if not estimators or has_added_control or any(row.value.value is None for row in own):
        return ""
    if not all(row.beating for row in estimators):
        return ""
    winners = [row for row in estimators if row.colour_class == BEATS]
    count = _describe_number_of_winners(len(winners), len(estimators), len(own) < len(rows))
    number, several = len(own) - len(estimators), len(own) - len(estimators) > 1
    uses_class = any(find_estimator_or_placeholder(row.id).uses_prediction for row in own if row.control)
    if uses_class:
        inputs = f"{'use' if several else 'uses'} at most the network’s predicted class"
    else:
        inputs = f"{'do' if several else 'does'} not use the network"
    controls = f"all {number} controls that {inputs}" if several else f"the one control, which {inputs}"
    controls += f", {ONE_NETWORK}" * one_network
    added = [row for row in rows if row.added and row.beating]
    # if only added rows win, the sentence about the added rows comes first
    if not winners and (first := _describe_added_rows_that_beat(added, controls)):
        return f"{first} {count} {'them all' if several else 'it'}."
    sentences = (
        f"{count} {controls}.",
        _describe_added_rows_that_beat(added, "every control"),
        _describe_roar_best_not_winning(estimators, winners),
    )
    return " ".join(filter(None, sentences))


def add_protocol_to_headline(headline: str, protocol: Protocol) -> str:
    """Begin a headline of `write_beats_controls_headline` with the protocol if another one has the opposite order."""
    if not headline or not has_opposite_order(protocol):
        return headline
    first, space, rest = headline.partition(" ")
    return f"Under {protocol.title}, {first.lower() if first in _WORDS_AT_START else first}{space}{rest}"


def add_missing_runs_to_headline(headline: str, unfinished_text: str) -> str:
    """Add a sentence on missing runs, such as `6 of 99 runs are missing`, to a headline, because its counts may change.

    An empty headline stays empty.
    """
    return f"{headline} Unfinished: {unfinished_text}." if headline and unfinished_text else headline


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
        row
        for row in _drop_controls_and_added_rows(roar, added)
        if row.gain.value is not None or not included_levels_text
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
    estimators, has_added = _drop_controls_and_added_rows(rows, added), any(row.estimator in added for row in rows)
    verdicts = [row.network.verdict for row in estimators if row.network]
    if not estimators or len(verdicts) < len(estimators):
        return ""
    count = verdicts.count(OwnNetworkVerdict.EXPLAINS)
    verb, its = ("is", "its") if count < 2 else ("are", "their")
    of = f"{count or 'None'} of {'the suite’s ' * has_added}{len(estimators)} estimators"
    return f"{of} {verb} shown to explain {its} network"


def _drop_controls_and_added_rows(rows: Sequence[Row], added: Collection[str]) -> list[Row]:
    candidates = [row for row in rows if not row.check and row.estimator not in added]
    return [row for row in candidates if not find_estimator_or_placeholder(row.estimator).is_control_or_search]


def _does_beat_random(row: Row) -> bool:
    return RANDOM in row.against and row.against[RANDOM].verdict is Verdict.BETTER


def _describe_number_of_winners(winners: int, estimators: int, has_added: bool) -> str:
    if estimators == 1:
        return f"The {'suite’s ' * has_added}one estimator {'beats' if winners else 'is not shown to beat'}"
    share = f"{winners or 'None'} of {'the suite’s ' * has_added}{estimators}"
    if winners == estimators and not has_added:
        share = f"All {estimators}"
    return f"{share} estimators {'is' if winners < 2 else 'are'} shown to beat"


def _describe_added_rows_that_beat(rows: Sequence[BoardRow], controls: str) -> str:
    """Describe which added rows beat these controls; the result is empty if no added row does."""
    winners = [row for row in rows if row.colour_class == BEATS]
    if not winners:
        return ""
    names = _join_names(winners) if len(winners) <= 3 else str(len(winners))
    beats = f"beat{'s' * (len(winners) == 1)} {controls}"
    if len(rows) == 1:
        return f"{names}, {'a submission' if rows[0].detail == 'submission' else 'added to the suite'}, {beats}."
    return f"Of {len(rows)} rows added to the suite, each judged alone, {names} {beats}."


def _join_names(rows: Sequence[BoardRow]) -> str:
    *first_names, last = (f"{row.name} {row.detail}".removesuffix("submission").strip() for row in rows)
    return f"{', '.join(first_names)} and {last}" if first_names else last


def _describe_roar_best_not_winning(estimators: Sequence[BoardRow], winners: Sequence[BoardRow]) -> str:
    """State that no row with ROAR's best rank beats every control.

    The result is empty if such a row beats every control, if no row does, or if all rows have the same rank.
    """
    ranks = {row.id: row.roar.low for row in estimators if row.roar and row.roar.low is not None}
    first = [row for row in estimators if row.id in ranks and ranks[row.id] == min(ranks.values())]
    if not winners or not first or len(first) == len(ranks) or any(row in winners for row in first):
        return ""
    if len(first) > 3:
        return f"None of ROAR’s best {len(first)} is among them."
    return f"ROAR’s best, {_join_names(first)}, {'is' if len(first) == 1 else 'are'} not among them."
