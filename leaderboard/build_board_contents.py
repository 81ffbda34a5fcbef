"""Build the contents of boards from tables of a suite; headlines count the rows that are *shown* to be better."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from leaderboard.board_contents import (
    BEATS,
    BELOW,
    OPEN,
    UNJUDGED,
    BoardContents,
    BoardRow,
    classify_verdict,
    find_kinds,
    make_gain_axis,
)
from leaderboard.text_helpers import format_day, make_slug, shorten_line
from roarbench.analysis.incomplete_results import describe_missing_runs, remove_unfinished_sign
from roarbench.common.text import TABLE_WORDS, capitalize, format_count, join_with_and
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder
from roarbench.plan.protocols import ORDER_NAMES, OWN_NETWORK, Protocol, has_opposite_order
from roarbench.report.combined_table import CombinedTable
from roarbench.report.doubts import has_unknown_passes
from roarbench.report.suite_table_columns import list_columns
from roarbench.report.table import SuiteTable
from roarbench.report.table_record import FAILED, list_texts_beside_gain
from roarbench.stats.board_records import ONE_NETWORK, Row
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
    names = (
        f"{row.name} {row.detail.removeprefix('submission ')}".strip() + " (unfinished)" * row.unfinished
        for row in added
    )
    sentences = (
        capitalize(f"{under}{len(winners) or 'none'} {of} {shown}."),
        f"Added rows that beat every control: {join_with_and(names)}." if added else "",
    )
    return " ".join(filter(None, sentences))


def add_missing_runs_to_headline(headline: str, tables: Sequence[SuiteTable]) -> str:
    """Add to a headline, unless it is empty, that runs of the suite's own rows, which alone count, are missing."""
    missing = any(table.runs.own.missing for table in tables if table.has_results)
    return f"{headline} Unfinished: runs are missing." if headline and missing else headline


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
    return explained and f"{explained} ({ORDER_NAMES[protocol.order]})."


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


def make_board_contents(table: SuiteTable) -> BoardContents:
    """Build a board of a suite from the table that the board shows."""
    board, protocol, results = table.board, table.board.protocol, table.suite_results
    more = list_texts_beside_gain(list_columns(table))
    rows = tuple(_make_row(table, row, more.get(row.estimator, ())) for row in table.rows)
    compared = table.has_gains_and_ranks and not protocol.scores_all_network_pairs
    with_value = (row for row in rows if compared and row.value.value is not None)
    controls = (row for row in with_value if find_estimator_or_placeholder(row.id).is_control_to_beat)
    explained = write_own_network_headline(rows, protocol)
    headline = explained or write_beats_controls_headline(rows, protocol, board.one_network)
    measure = capitalize(protocol.gain_name) if table.has_gains_and_ranks else "Masks alone"
    return BoardContents(
        slug=make_slug(results),
        title=results.title,
        protocol=protocol,
        levels=board.levels,
        headline=add_missing_runs_to_headline(headline, [table]),
        facts=list_facts([table], table.names, f"{measure}, {protocol.describe_removal(board.levels)}"),
        included_levels_text=results.describe_included_levels(protocol, table.unit),
        value_label=protocol.gain_axis if table.has_gains_and_ranks else f"accuracy at t = {board.levels[-1]:g}, %",
        rows=rows,
        best_control=next(controls, None),
        axis=make_gain_axis(row.value for row in rows),
        has_gains=table.has_gains_and_ranks,
    )


def _make_row(table: SuiteTable, row: Row, more: tuple[str, ...]) -> BoardRow:
    name, protocol, results = row.estimator, table.board.protocol, table.suite_results
    estimator, passes = find_estimator_or_placeholder(name), results.find_passes(name)
    control, submission = estimator.has_control_verdict, results.submissions.get(name)
    about = submission.description if submission and not estimator.twin else estimator.about  # by its author
    unfinished, kind = table.runs.is_unfinished(name), classify_verdict(table.find_verdict(row), protocol, control)
    verdict = str(row.network.verdict) if row.network else find_kinds(protocol)[kind]
    if name in table.failed_rows:
        verdict = FAILED
    if has_unknown_passes(table, row):  # rows of equal gains may then have different verdicts
        verdict = f"{verdict}, passes unknown"
    return BoardRow(
        name,
        *find_display_name(name),
        about=capitalize(shorten_line(about)),
        control=control,
        find_place=row.find_place,
        value=row.gain if table.has_gains_and_ranks else row.accuracies[-1].in_points,
        beating=row.beating,
        doubts=tuple(doubt.typeset() for doubt in table.list_doubts(name) if not doubt.fact),
        network=row.network,
        verdict_class=kind,
        # controls have no verdict that missing runs can change, but under ROAR
        verdict_text=f"{verdict}{', unfinished' * (unfinished and kind in (BEATS, OPEN, BELOW))}",
        passes=None if passes is None else sum(passes),
        truth=estimator.uses_ground_truth,
        added=name in results.suite.added,
        started=bool(row.seeds) or name in table.estimators_with_results or name in table.failed_rows,
        unfinished=unfinished,
        more=more,
    )


def list_facts(tables: Sequence[SuiteTable], names: Collection[str], measure: str) -> tuple[str, ...]:
    """Return facts about tables of a suite: protocol, data, networks, images, rows, date, missing runs and origin."""
    *_, table = tables
    results, board, suite = table.suite_results, table.board, table.suite_results.suite
    record, network = suite.dataset_record, shorten_line(suite.architecture_names)
    controls = [name for name in names if find_estimator_or_placeholder(name).has_control_verdict]
    truths = [name for name in names if find_estimator_or_placeholder(name).uses_ground_truth]
    added = [name for name in names if name in suite.added and name not in (*controls, *truths)]
    kind = "submission" if all(find_estimator_or_placeholder(name).submitted for name in added) else "added row"
    estimators = len(names) - len(controls) - len(truths) - len(added)
    counts = (estimators, "estimator"), (len(added), kind), (len(controls), "control"), (len(truths), "known ranking")
    missing = describe_missing_runs(results, [each.board.protocol for each in tables], table.unit, {})
    newest = max((result.created for result in results.results.values()), default=None)
    facts = (
        measure,
        f"{shorten_line(suite.dataset)}{f': {TABLE_WORDS}' if record.tabular else f', {record.size} px'}",
        format_count(board.references, f"{network} network") if board.references else network,
        next((format_count(each.images, "test image") for each in tables if each.images), ""),
        ", ".join(format_count(n, noun) for n, noun in counts if n),
        format_day(newest) if newest else "",
        f"unfinished: {missing}" if missing else "",
        *table.common_facts,
    )
    return tuple(filter(None, facts))


@dataclass(frozen=True)
class CombinedBoard:
    """The board as a page shows it, with a column per gain: ROAR gain, own-network gain, and matched gain if run."""

    headline: str
    facts: tuple[str, ...]
    caption: tuple[str, ...]
    boards: tuple[BoardContents, ...]
    rows: tuple[BoardRow, ...]  # a row of any of the boards, for what is the same on all of them

    @property
    def started_boards(self) -> list[BoardContents]:
        return [board for board in self.boards if board.started_rows]


def make_combined_board(both: CombinedTable, matched: BoardContents | None = None) -> CombinedBoard:
    """Build the board of ROAR and own-network gain; `matched`, if given, adds a column of matched gain."""
    made = (*map(make_board_contents, both.tables), *([matched] if matched else ()))
    boards = tuple(replace(board, best_control=None) for board in made)
    first_rows = {name: row for board in reversed(boards) for name, row in board.started_rows.items()}
    listed = dict.fromkeys([*both.names, *first_rows])
    rows = [
        replace(first_rows[name], signs=" ".join(both.list_row_signs(name))) for name in listed if name in first_rows
    ]
    gains = capitalize(", ".join(board.gain_with_levels for board in boards if board.started_rows))
    roar, own_network, *_ = boards
    headline = write_combined_headline(own_network.rows, roar.rows, roar.included_levels_text)
    return CombinedBoard(
        headline=add_missing_runs_to_headline(headline, both.tables),
        facts=list_facts(both.tables, [row.id for row in rows], gains),
        # the page itself defines the gains, as the first two notes do, and its rows say `unfinished` in words
        caption=remove_unfinished_sign(both.all_notes[2:]),
        boards=boards,
        rows=tuple(rows),
    )


class AdvisedRow(NamedTuple):
    """An estimator's row whose verdict is that it explains its network, with its cost and gain."""

    row: BoardRow  # under own-network gain
    roar: BoardRow | None  # the row under ROAR; None if ROAR was not run
    # the row's interval is above the gains of all other rows of the suite with at most as many passes, also of rows
    # without a significant gain; rows that were added to the suite do not count
    certain: bool
    lerf_text: str  # the verdict in LeRF order unless it is the same; empty, too, if LeRF order was not run


class Advice(NamedTuple):
    """The Pareto front, cheapest row first, and all other rows whose interval overlaps that of the front's last row.

    The front is empty if no row explains its network.
    """

    own_network: BoardContents
    levels_text: str  # levels of each gain that is shown
    front: list[AdvisedRow]
    near: list[AdvisedRow]


def recommend_rows(
    own_network: BoardContents, roar: BoardContents | None = None, lerf: BoardContents | None = None
) -> Advice | None:
    """Return the rows among which to choose; None if rows lack verdicts, or if no explaining row has a known cost.

    The boards are those of own-network gain, of ROAR, and of own-network gain in LeRF order.
    """
    rows, (retrained, kept) = own_network.started_rows, (board.started_rows if board else {} for board in (roar, lerf))
    kinds = {row.colour_class for row in rows.values()}
    front, others, best = list[AdvisedRow](), list[AdvisedRow](), float("-inf")
    candidates = [  # rows that explain their network and have a known cost
        (row, row.passes, row.value.value)
        for row in rows.values()
        if row.passes and row.colour_class == BEATS and row.value.value is not None
    ]
    for row, most, value in sorted(candidates, key=lambda each: (each[1], -each[2])):
        beside, reverse = retrained.get(row.id), kept.get(row.id)
        # the suite's other rows with at most as many passes; a row with an unknown number may have as few
        rivals = (other for other in rows.values() if other != row and not other.added and not other.control)
        rivals = (other for other in rivals if other.passes is None or 0 < other.passes <= most)
        highest = max((gain for other in rivals if (gain := other.value.value) is not None), default=float("-inf"))
        advised = AdvisedRow(
            row,
            beside if beside and beside.value.value is not None else None,
            row.value.low is not None and row.value.low > highest,
            f"{reverse.verdict_text} in LeRF order" if reverse and reverse.colour_class in (OPEN, BELOW) else "",
        )
        (front if value > best else others).append(advised)
        best = max(best, value)
    if not front and (BEATS in kinds or not {OPEN, BELOW} & kinds):
        return None
    lowest = front[-1].row.value.low or 0.0 if front else 0.0
    near = [advised for advised in others if advised.row.value.high is not None and advised.row.value.high >= lowest]
    near.sort(key=lambda advised: -(advised.row.value.value or 0.0))
    levels = (f"{board.gain}: {board.levels_text}" for board in (roar, own_network) if board and board.started_rows)
    return Advice(own_network, "; ".join(levels), front, near)
