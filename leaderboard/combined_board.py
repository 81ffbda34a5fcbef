"""Build the first board of a suite that leads with ROAR and own-network gain; each row has a verdict for both."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

from leaderboard.board_contents import (
    BEATS,
    BELOW,
    CONTROL,
    NETWORK_KINDS,
    OPEN,
    UNJUDGED,
    Axis,
    BoardContents,
    add_order_to_title,
    choose_colour_class,
    make_gain_axis,
    mark_unfinished,
)
from leaderboard.build_board_contents import describe_estimator, list_facts
from leaderboard.headline import add_missing_runs_to_headline, write_combined_headline
from leaderboard.text_helpers import make_slug
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.text import capitalize
from roarbench.estimators.catalogue import find_display_name, find_estimator_or_placeholder
from roarbench.plan.protocols import ROAR, Protocol, describe_levels
from roarbench.report.combined_table import CombinedTable
from roarbench.report.doubts import Shown, join_signs
from roarbench.report.suite_table_columns import list_columns
from roarbench.report.table import SuiteTable
from roarbench.report.table_record import list_texts_beside_gain
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict

RANDOM_KINDS = {  # descriptions of the colour classes under ROAR, where rows are compared only with Random
    BEATS: "better than Random",
    OPEN: "no significant difference",
    BELOW: "worse than Random",
    CONTROL: "control",
    UNJUDGED: "no verdict",
}
_KINDS_BY_VERDICT = {Verdict.BETTER: BEATS, Verdict.SAME: OPEN, Verdict.WORSE: BELOW}


class Answer(NamedTuple):
    """The answer to a question about a row: its gain, colour class and verdict."""

    gain: Estimate
    colour_class: str
    verdict_text: str
    by_construction: bool = False  # whether the gain is exactly 0, because the maps are the same for every network
    more: tuple[str, ...] = ()  # texts of other columns, such as the gain at each level
    sign: str = ""  # sign of doubts about this gain, `(!!)` or `(!)`
    doubt: str = ""  # sentences on these doubts


@dataclass(frozen=True)
class Question:
    """A column of the board: the answers for all rows that were run, by estimator."""

    protocol: Protocol
    gain: str  # name of the gain in a sentence
    asks: str
    kinds: Mapping[str, str]  # descriptions of the colour classes
    answers: Mapping[str, Answer]
    # levels in words, such as `at 90 %`, if some of the suite's levels are left out; else empty
    included_levels_text: str
    levels: tuple[float, ...]

    @property
    def levels_text(self) -> str:
        return describe_levels(self.levels)

    @property
    def removal_text(self) -> str:
        """Return the column's levels and order of removal in words."""
        return self.protocol.describe_removal(self.levels)

    @property
    def legend_title(self) -> str:
        """Return the name of the gain and, if another protocol has the opposite order, the order of removal."""
        return add_order_to_title(capitalize(self.gain), self.protocol)

    @property
    def gain_with_levels(self) -> str:
        """Return the name of the gain in a sentence, with the levels if some of the suite's levels are left out."""
        return f"{self.gain} {self.included_levels_text}".rstrip()

    @property
    def title(self) -> str:
        """Return the heading of the column: the name of the gain, with a capital letter."""
        return capitalize(self.gain_with_levels)

    @cached_property
    def gain_axis(self) -> Axis:
        return make_gain_axis(answer.gain for answer in self.answers.values())

    @property
    def colour_legend(self) -> list[tuple[str, str]]:
        """Return each colour class that occurs in the column, with its description."""
        present = {answer.colour_class for answer in self.answers.values()}
        return [(kind, meaning) for kind, meaning in self.kinds.items() if kind in present]


class NamedRow(NamedTuple):
    """A row's id, name, description and cost."""

    id: str
    name: str
    detail: str
    about: str
    control: bool
    passes: float | None  # forward and backward passes per image; None if unknown, 0 for controls
    added: bool = False  # whether the row was added to the suite
    signs: str = ""  # signs of doubts about the row under every protocol, such as †


@dataclass(frozen=True)
class CombinedBoard:
    """The board as a page shows it, with a column per question."""

    slug: str
    title: str
    headline: str
    facts: tuple[str, ...]
    caption: tuple[str, ...]
    questions: tuple[Question, ...]
    rows: tuple[NamedRow, ...]
    # answers under own-network gain in LeRF order, by estimator; empty if the suite lacks that protocol
    lerf_answers: Mapping[str, Answer]

    @property
    def answered_questions(self) -> list[Question]:
        return [question for question in self.questions if question.answers]


def make_combined_board(
    both: CombinedTable, matched_board: BoardContents | None = None, own_network_lerf: SuiteTable | None = None
) -> CombinedBoard:
    """Build the board of ROAR and own-network gain; `matched_board`, if given, adds a column of matched gain."""
    results = both.roar.suite_results
    own_gain = both.own_network.board.protocol.gain_name
    questions = [
        _make_table_question(both.roar, "ROAR gain", "Do the pixels matter in the data?"),
        _make_table_question(both.own_network, own_gain, "Does the map explain this network?"),
    ]
    if matched_board:  # its column is too narrow for the legend's descriptions
        texts = {**matched_board.kinds, CONTROL: "control", OPEN: "not shown"}
        third = make_board_question(matched_board, "Does the map show evidence in the image?", texts)
        questions.append(replace(third, gain=matched_board.protocol.gain_name))
    listed = dict.fromkeys([*both.names, *(matched_board.rows_by_id if matched_board else ())])
    names = [name for name in listed if any(name in question.answers for question in questions)]
    gains = capitalize(", ".join(question.gain_with_levels for question in questions if question.answers))
    return CombinedBoard(
        slug=make_slug(results),
        title=results.title,
        headline=add_missing_runs_to_headline(
            write_combined_headline(
                both.own_network.rows, both.roar.rows, results.suite.added, both.roar.included_levels_text
            ),
            both.unfinished_text,
        ),
        facts=list_facts(both.own_network, names, gains, both.roar.board.images),
        caption=both.all_notes[2:],  # the page itself defines the gains, as the first two notes do
        questions=tuple(questions),
        rows=tuple(_make_named_row(results, name, both.list_row_signs(name)) for name in names),
        lerf_answers=_list_lerf_answers(own_network_lerf),
    )


def make_board_without_roar(
    results: SuiteResults, board: BoardContents, own_network_lerf: SuiteTable | None = None
) -> CombinedBoard:
    """Build the board of a suite that leads with own-network gain alone, for advice; its ROAR question is empty."""
    own = replace(make_board_question(board), gain=board.protocol.gain_name)
    return CombinedBoard(
        slug=board.slug,
        title=board.title,
        headline=board.headline,
        facts=board.facts,
        caption=(board.caption,),
        questions=(Question(ROAR, "ROAR gain", "", RANDOM_KINDS, {}, "", ()), own),
        rows=tuple(_make_named_row(results, name) for name in own.answers),
        lerf_answers=_list_lerf_answers(own_network_lerf),
    )


def make_board_question(board: BoardContents, asks: str = "", texts: Mapping[str, str] | None = None) -> Question:
    """Return a board of one protocol as a question; `texts` replace the verdicts, by colour class."""
    protocol = board.protocol
    answers = {
        row.id: Answer(
            row.value,
            row.colour_class,
            mark_unfinished(texts[row.colour_class], row.colour_class, row.unfinished) if texts else row.verdict_text,
            row.by_construction,
            row.more,
        )
        for row in board.rows
        if row.started
    }
    return Question(protocol, protocol.title, asks, board.kinds, answers, board.included_levels_text, board.levels)


def _make_named_row(results: SuiteResults, name: str, signs: Iterable[str] = ()) -> NamedRow:
    estimator, passes = find_estimator_or_placeholder(name), results.find_passes(name)
    return NamedRow(
        name,
        *find_display_name(name),
        describe_estimator(results, name),
        estimator.is_control_or_search,
        None if passes is None else sum(passes),
        name in results.suite.added,
        " ".join(signs),
    )


def _make_table_question(table: SuiteTable, gain: str, asks: str) -> Question:
    """Return a table of ROAR or of own-network gain as a question.

    Under ROAR, rows are compared with Random alone; controls have their own colour, and Random has no verdict.
    """
    board, more, answers = table.board, list_texts_beside_gain(list_columns(table)), dict[str, Answer]()
    own_network = board.protocol.scores_all_network_pairs
    kinds = NETWORK_KINDS if own_network else RANDOM_KINDS
    for row in table.rows:
        name, shown, by_construction = row.estimator, row.gain, False
        if not (row.seeds or name in table.estimators_with_results):
            continue
        if own_network:
            kind = choose_colour_class(row.network)
            verdict = str(row.network.verdict) if row.network else kinds[kind]
            by_construction = verdict == OwnNetworkVerdict.BY_CONSTRUCTION
            colour = kind
        else:
            control = find_estimator_or_placeholder(name).is_control_or_search
            kind = _KINDS_BY_VERDICT[row.vs_random.verdict] if row.vs_random else CONTROL if control else UNJUDGED
            shown = row.gain if row.vs_random else Estimate(row.gain.value)
            verdict, colour = kinds[kind], CONTROL if control else kind
        text = mark_unfinished(verdict, kind, table.runs.is_unfinished(name))
        doubts = [doubt.typeset() for doubt in table.list_doubts(name, Shown.GAIN)]
        why = " ".join(doubt.sentence for doubt in doubts)
        answers[name] = Answer(shown, colour, text, by_construction, more[name], join_signs(doubts), why)
    return Question(board.protocol, gain, asks, kinds, answers, table.included_levels_text, board.levels)


def _list_lerf_answers(table: SuiteTable | None) -> Mapping[str, Answer]:
    return _make_table_question(table, "", "").answers if table else {}
