"""Find every doubt about the rows of a table, and word it: signs, notes, `flag`, `diagnose` and pages read this list.

A kind of doubt is one entry of `KINDS`. Pages and reports list all doubts; `Kind.shown` says where tables show them.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from enum import Enum, auto
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from roarbench.analysis.correctness_of_suite import list_points_with_every_map_and_network
from roarbench.analysis.incomplete_results import write_unfinished_line
from roarbench.analysis.suite_judges import (
    BLURRED_MAP,
    MASKS,
    SOME,
    STABLE_ENOUGH,
    TIED,
    Grade,
    Mark,
    SuiteJudges,
    do_marks_apply_to,
    grade_shares_of_gain,
)
from roarbench.analysis.suite_results import ONLY_TESTS_INSTALLATION
from roarbench.common.enums import OTHER_IMAGE
from roarbench.common.text import (
    SAME,
    capitalize,
    fit_on_one_line,
    format_count,
    format_interval,
    typeset_minus_and_percent_signs,
)
from roarbench.estimators.catalogue import (
    describe_control_use_of_network,
    find_display_name,
    find_estimator,
    find_estimator_or_placeholder,
)
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import Protocol
from roarbench.report.descriptions_and_repeat_commands import make_status_command
from roarbench.report.table_record import FAILED
from roarbench.stats.board_records import RANDOM, ZERO, Row
from roarbench.stats.correctness_and_gain import UNTOUCHED, Point
from roarbench.stats.intervals import Estimate
from roarbench.stats.verdicts import Verdict
from roarbench.store.results import UNVERIFIED, Origin

if TYPE_CHECKING:
    from roarbench.report.table import SuiteTable

SELF_REPORTED = "imported, not reproduced here"  # fact about a table whose rows are all self-reported
LONGEST_SENTENCE = 500  # maximum characters of a sentence with text from outside
MARKS = {  # by kind of mark: a label, and the weaker ranking that reaches a share of the row's result
    "blurred": ("its own blur", "its blurred twin, which adds no information,"),
    "untrained": ("untrained network", "its untrained twin, which has learnt nothing,"),
    OTHER_IMAGE: ("another image’s map", "its map of another image"),
    BLURRED_MAP: ("blurred random", "a blurred random map"),
    MASKS: ("masks alone", "its mask alone"),
}
# by kind of twin: what its map explains, and the cause to which a gain is not due if the twin has an equal gain
_TWINS = {
    "untrained": ("untrained network", "to training"),
    "shuffled": ("shuffled network", "to what training put into the weights"),
    "other-target": ("another class", "to the class that is explained"),
}


class Shown(Enum):
    """Place at which tables show the doubts of a kind."""

    NAME = auto()  # sign after the row's name, `flag`, notes and `diagnose`
    GAIN = auto()  # sign beside the gain that is doubted, `flag` and `diagnose`
    NOTE = auto()  # notes and `diagnose`
    COLUMN = auto()  # another column


class Kind(NamedTuple):
    """A kind of doubt.

    Attributes:
        find: Yields the doubts about the rows of a table.
        shown: Where tables show the doubts.
        sign: Sign after the row's name; if empty, the severity decides.
        heading: Beginning of a note that lists rows with `Doubt.brief`; without it, notes group rows by sentence.
        always: Whether the note is among the short notes below a table.
    """

    find: Callable[["SuiteTable"], Iterator["Doubt"]] = lambda table: iter(())
    shown: Shown = Shown.NAME
    sign: str = ""
    heading: str = ""
    always: bool = False


class Doubt(NamedTuple):
    """A doubt about a row: its kind, its severity, and its evidence in words."""

    row: str
    short: str  # label on pages, such as `masks alone 53 %`
    sentence: str
    severity: Grade = Grade.SOME
    brief: str = ""  # evidence after the row's name in a note with a heading
    more: str = ""  # further sentences, for which only pages and reports have room
    fact: str = ""  # what is said once instead, because all rows with results have the doubt
    kind: Kind = Kind()

    @property
    def grave(self) -> bool:
        return self.severity is Grade.STRONG

    @property
    def sign(self) -> str:
        """Return the sign of the doubt in tables; empty for doubts that tables show otherwise."""
        if self.fact or self.kind.shown not in (Shown.NAME, Shown.GAIN):
            return ""
        return self.kind.sign or ("(!!)" if self.grave else "(!)")

    def typeset(self) -> "Doubt":
        """Return the doubt as pages show it, with all its sentences."""
        sentence = " ".join(filter(None, (self.sentence, self.more)))
        short, sentence = map(typeset_minus_and_percent_signs, (self.short, sentence))
        return self._replace(short=short, sentence=sentence, more="")


def find_doubts(table: "SuiteTable") -> tuple[Doubt, ...]:
    """Return all doubts about a table's rows, in the order of `KINDS`; `table` may still lack its doubts."""
    return tuple(doubt._replace(kind=kind) for kind in KINDS for doubt in kind.find(table))


def join_signs(doubts: Iterable[Doubt]) -> str:
    """Return the signs of a row's doubts, such as `† (!!)`, with the most severe of `(!!)` and `(!)`."""
    signs = {doubt.sign for doubt in doubts if doubt.sign}
    severe = [sign for sign in ("(!!)", "(!)") if sign in signs]
    return " ".join([*sorted(signs - {*severe}), *severe[:1]])


def describe_doubts(doubts: Iterable[Doubt], signs: bool = True) -> list[str]:
    """Return notes on doubts, which name the rows, and begin with the doubts' signs unless `signs` is False."""
    rows = defaultdict[tuple[str, str], list[str]](list)
    for doubt in doubts:
        sentence, heading = "" if doubt.kind.heading else doubt.sentence, doubt.kind.heading
        start = f"{doubt.sign} " if signs and doubt.sign else ""
        rows[f"{start}{heading}", sentence].append(f"{doubt.row} {doubt.brief}" if heading else doubt.row)
    return [
        f"{start}: {', '.join(names)}." if not sentence else f"{start}{', '.join(names)}: {sentence}"
        for (start, sentence), names in rows.items()
    ]


def has_unknown_passes(table: "SuiteTable", row: Row) -> bool:
    """Return whether a row is compared with a blind search, the longest, since the number of its passes is unknown."""
    is_compared = row.network is not None and row.network.search is not None
    return is_compared and table.suite_results.find_passes(row.estimator) is None


def is_control_off_zero(protocol: Protocol, row: Row) -> bool:
    """Return whether a row is a control whose gain should be 0 but differs from Random's gain (Random: from 0)."""
    comparison = row.against.get(ZERO if row.estimator == RANDOM else RANDOM)
    zero = row.estimator in protocol.zero_gain_controls
    return zero and comparison is not None and comparison.verdict is not Verdict.SAME


def _find_inconsistent_rows(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.board.rows:
        if reason := table.inconsistency_reasons.get(row.estimator):
            uncompared = ", and no row is compared with it" * (row.estimator == RANDOM)
            yield Doubt(row.estimator, "no rank", f"No rank{uncompared}: {fit_on_one_line(reason, LONGEST_SENTENCE)}.")


def _find_rows_without_rank(table: "SuiteTable") -> Iterator[Doubt]:
    """Yield the rows that have no rank because the networks are at chance, or because results are missing."""
    protocol, reasons = table.board.protocol, table.inconsistency_reasons
    unranked = [row for row in table.rows if not row.find_place and row.estimator not in reasons]
    if not table.has_gains_and_ranks or not unranked:
        return
    chance = f"at chance, {ONLY_TESTS_INSTALLATION}" if table.suite_results.at_chance_warning else ""
    if protocol.scores_all_network_pairs:  # this protocol has no correctness
        done: Set[Point] = set(list_points_with_every_map_and_network(table.suite_results, protocol, table.unit))
    else:
        done = table.judges.judge(protocol, table.unit).scores.correct.keys()
    for row in unranked:
        reason, short = chance, "no rank"
        for name in (row.estimator,) if protocol.scores_all_network_pairs else (row.estimator, RANDOM):
            points = (UNTOUCHED, *((name, t) for t in table.board.levels))
            missing = [t for at, t in points if (at, t) not in done]
            if missing and not reason:
                source = "the untouched images" if missing == [0.0] else fit_on_one_line(name, 300)
                reason = f"no result yet of {source} at t = {', '.join(f'{t:g}' for t in missing)}"
                if causes := table.failure_reasons.get(CLEAN if missing == [0.0] else name):
                    short, counted = FAILED, format_count(len(causes), "run")
                    first = fit_on_one_line(causes[0], LONGEST_SENTENCE).rstrip(".")
                    command = make_status_command(table.suite_results)
                    reason = f"{counted} of {source} failed: {first}; {command} lists failures"
        if reason:
            yield Doubt(row.estimator, short, f"No rank: {reason}.")


def _find_unfinished_added_rows(table: "SuiteTable") -> Iterator[Doubt]:
    for name in table.names:
        counts = table.runs.added.get(find_estimator_or_placeholder(name).untwinned_id)
        if counts and counts.missing and name in table.estimators_with_results:
            yield Doubt(name, "unfinished", write_unfinished_line(counts.describe(), "the row’s verdicts", sign=False))


def _find_better_controls(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.rows:
        if not row.beating or row.beating.beats_all:
            continue
        control = find_display_name(row.beating.hardest_control)
        worse = row.beating.loses_to_a_control
        relation = "Significantly worse than" if worse else "Not significantly different from"
        use = describe_control_use_of_network(row.beating.hardest_control)
        margin = f"the row’s {table.board.protocol.gain_name} minus the control’s is"
        points = f"{format_interval(row.beating.margin_over_hardest)} points"
        sentence = f"{relation} {control.full_name}, which {use}: {margin} {points}."
        yield Doubt(row.estimator, f"{'<' if worse else SAME} {control.name}", sentence, Grade.STRONG)


def _find_controls_off_zero(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.board.rows:
        if is_control_off_zero(table.board.protocol, row):
            gain = format_interval(row.gain)
            sentence = f"Its gain should be 0 but is {gain} points: a gain of that size may mean nothing."
            yield Doubt(row.estimator, "not 0", sentence, Grade.STRONG, gain)


def _find_opposite_gains(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.board.rows:
        if found := table.board.find_two_opposite_gains(row):
            gains = [(format_interval(gain.in_points), f"at t = {t:g}") for t, gain in found.items()]
            sentence = f"Its gain is {' and '.join(f'{gain} points {at}' for gain, at in gains)}"
            brief = f"({', '.join(f'{gain} {at}' for gain, at in gains)})"
            sentence = f"{sentence}; the row’s gain is over all levels."
            yield Doubt(row.estimator, "sign differs by level", sentence, brief=brief)


def _find_equal_twins(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.rows:
        for kind, difference in row.delta_twins.items():
            comparison = row.get_twin_comparison(kind)
            if kind not in _TWINS or not comparison or comparison.verdict is Verdict.BETTER:
                continue
            twin, cause = _TWINS[kind]
            size = f"The row’s {table.board.protocol.gain_name} minus that of its twin ({twin}) is"
            points = f"{format_interval(difference)} points, so the gain is not shown to be due {cause}."
            sign = "<" if comparison.verdict is Verdict.WORSE else SAME
            yield Doubt(row.estimator, f"{sign} {twin}", f"{size} {points}", Grade.STRONG)


def _find_other_origins(table: "SuiteTable") -> Iterator[Doubt]:
    reasons, names = table.suite_results.doubts, [row.estimator for row in table.board.rows]
    with_results = {reasons.get(name) for name in names if name in table.suite_results.by_estimator}
    fact = SELF_REPORTED if with_results == {UNVERIFIED[Origin.SELF_REPORTED]} else ""
    for name in names:
        if name in reasons:
            yield Doubt(name, "run elsewhere", _make_sentence(reasons[name]), fact=fact)


def _find_findings_of_validate(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.board.rows:
        if finding := table.suite_results.findings.get(row.estimator):
            yield Doubt(row.estimator, "see validate", _make_sentence(finding), Grade.STRONG)


def _make_sentence(text: str) -> str:
    return f"{capitalize(fit_on_one_line(text, LONGEST_SENTENCE)).rstrip('.')}."


def _find_runs_of_changed_code(table: "SuiteTable") -> Iterator[Doubt]:
    results, protocol = table.suite_results, table.board.protocol
    kinds = {(part.retrain, part.order) for part in protocol.computed_from or (protocol,)}
    counts = dict[str, tuple[int, int]]()
    for name in table.names:
        stored = results.by_estimator.get(name, ())
        runs = [result for point, result in stored if (point.cell.retrain, point.cell.order) in kinds]
        if changed := sum("dirty" in result.provenance.code_version for result in runs):
            counts[name] = changed, len(runs)
    started = table.estimators_with_results & {*table.names}
    fact = "by code with uncommitted changes" if started and started <= counts.keys() else ""
    for name, (changed, number) in counts.items():
        sentence = f"{changed} of its {number} runs were computed by code with uncommitted changes."
        yield Doubt(name, "changed code", sentence, fact=fact)


def _find_tied_maps(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.board.rows:
        share = table.suite_results.ties.get(row.estimator, 0.0)
        if share > TIED and not find_estimator(row.estimator).control:
            sentence = f"{share:.0%} of the features in its maps have the same value, so their order is random."
            yield Doubt(row.estimator, f"{share:.0%} of features tie", sentence)


def _find_marks(table: "SuiteTable", signed: bool) -> Iterator[Doubt]:
    """Yield marks, strong marks first: the graded marks of the table's protocol if `signed`, else other evidence.

    Other evidence are marks of ROAR under another protocol, and high accuracies on masks without a grade.
    """
    protocol, with_own_row = table.board.protocol, table.suite_results.suite.estimators_with_own_row
    if protocol.scores_all_network_pairs:  # marks doubt ROAR's gain, beside which ROAR's board shows them
        return
    applies = do_marks_apply_to(protocol)
    remark = "" if applies else f"This mark was computed from results of ROAR, not of {protocol.title}."
    for name in filter(with_own_row.__contains__, table.names):
        for mark in sorted(grade_shares_of_gain(table.judges, name), key=lambda mark: mark.grade is not Grade.STRONG):
            graded = mark.grade in (Grade.SOME, Grade.STRONG)
            ungraded = mark.kind == MASKS and mark.grade is None and _do_masks_reach_half(table.judges, name)
            if not (graded or ungraded) or signed is not (graded and applies):
                continue
            doubt = _make_mark_doubt(table.judges, name, mark)
            short = doubt.short if applies or mark.kind == MASKS else f"ROAR: {doubt.short}"
            severity = Grade.STRONG if signed and mark.grade is Grade.STRONG else Grade.SOME
            yield doubt._replace(short=short, severity=severity, more=" ".join(filter(None, (doubt.more, remark))))


def _make_mark_doubt(judges: SuiteJudges, name: str, mark: Mark) -> Doubt:
    label, weaker = MARKS[mark.kind]
    reaches = f"{weaker} reaches {format_interval(mark.share, '{:.0%}'.format)}"
    if mark.kind != MASKS:
        sentence = f"{capitalize(reaches)} of the row's gain ({mark.grade})."
        return Doubt(name, f"{label} {mark.share.value:.0%}", sentence)
    graded = f"{reaches} of the row's accuracy above chance ({mark.grade})."
    ungraded = f"{weaker} reaches more than half of the row's accuracy above chance."
    t, alone, images = _compare_with_masks(judges, name)
    masks_text, images_text = (format_interval(accuracy, "{:.1%}".format) for accuracy in (alone, images))
    more = (
        f"At t = {t:g}, networks trained on masks alone have an accuracy of {masks_text}, networks trained on degraded "
        f"images {images_text}; chance is {judges.suite_results.chance_text}."
    )
    short = f"{label} {format_interval(Estimate(alone.value), '{:.0%}'.format)}"
    return Doubt(name, short, capitalize(graded if mark.grade else ungraded), more=more)


def _compare_with_masks(judges: SuiteJudges, name: str) -> tuple[float, Estimate, Estimate]:
    """Return the highest common level, and there the accuracies of networks trained on masks alone and on images."""
    t = judges.highest_level_shared_with_mask_only
    return t, judges.mask_only.estimate_accuracy(name, t), judges.roar.estimate_accuracy(name, t)


def _do_masks_reach_half(judges: SuiteJudges, name: str) -> bool:
    """Return whether masks alone reach over half of degraded images' accuracy above chance, by values alone."""
    _, alone, images = _compare_with_masks(judges, name)
    if judges.suite_results.at_chance_warning or alone.value is None or images.value is None:
        return False
    chance = judges.suite_results.chance
    return alone.value - chance > SOME * max(images.value - chance, 0)


def _find_rows_at_mask_only_accuracy(table: "SuiteTable") -> Iterator[Doubt]:
    if table.suite_results.at_chance_warning:
        return
    for name, above in table.above_masks.items():  # only ROAR's table has these
        found = [f"{t:g}" for t, share in above.items() if share.low is not None and share.low <= 0]
        if found and name in table.names:
            levels = f"t = {', '.join(found)}"
            sentence = f"Its accuracy is not significantly above that of masks alone at {levels}."
            yield Doubt(name, f"at the floor, {levels}", sentence, brief=f"({levels})")


def _find_unstable_predictions(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.board.rows:
        share = table.suite_results.prediction_stability.get(row.estimator, 1.0)
        if share < STABLE_ENOUGH:
            keeps = f"The explained network keeps its prediction on {share:.0%} of the noisy copies"
            more = "So the row’s maps often explain another class."
            sentence = f"{keeps}, fewer than {STABLE_ENOUGH:.0%}."
            yield Doubt(row.estimator, f"prediction stability {share:.0%}", sentence, brief=f"{share:.0%}", more=more)


def _find_unknown_passes(table: "SuiteTable") -> Iterator[Doubt]:
    for row in table.rows:
        if row.network and row.network.search and has_unknown_passes(table, row):
            longest = table.display_names.get(row.network.search.search, row.network.search.search)
            sentence = f"The number of its passes is not known, so it is compared with the longest search, {longest}."
            yield Doubt(row.estimator, "passes unknown", sentence)


_OFF_ZERO = (
    "This table is doubtful: gains that should be 0 differ significantly, and a gain of that size may mean nothing"
)
_UNSTABLE = f"The explained network keeps its prediction on fewer than {STABLE_ENOUGH:.0%} of the noisy copies"
NO_RANK = Kind(_find_inconsistent_rows, always=True)
KINDS = (  # in the order of pages, notes and `flag`
    NO_RANK,
    Kind(_find_rows_without_rank, Shown.COLUMN),
    Kind(_find_better_controls, Shown.COLUMN),
    Kind(_find_controls_off_zero, Shown.NOTE, heading=_OFF_ZERO, always=True),
    Kind(_find_opposite_gains, Shown.NOTE, heading="Gains of opposite sign at two levels"),
    Kind(_find_equal_twins, Shown.COLUMN),
    Kind(_find_unfinished_added_rows, Shown.COLUMN),
    Kind(_find_other_origins),
    Kind(_find_findings_of_validate),
    Kind(_find_runs_of_changed_code, Shown.COLUMN),
    Kind(_find_tied_maps),
    Kind(_find_unknown_passes, Shown.COLUMN),  # `table_notes.describe_search` names these rows, too
    Kind(partial(_find_marks, signed=True), Shown.GAIN),
    Kind(partial(_find_marks, signed=False), Shown.COLUMN),
    Kind(
        _find_rows_at_mask_only_accuracy,
        Shown.NOTE,
        heading="At the floor, accuracy not significantly above that of masks alone",
    ),
    Kind(_find_unstable_predictions, sign="†", heading=_UNSTABLE),
)
