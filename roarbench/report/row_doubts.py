"""List the doubts about a row of a board: failed comparisons, its provenance, and other possible causes of its gain."""

from collections.abc import Iterator
from typing import NamedTuple

from roarbench.analysis.row_warnings import (
    MASKS,
    SOME,
    STABLE_ENOUGH,
    Grade,
    Mark,
    describe_prediction_under_noise,
    describe_tied_features,
    do_warnings_apply_to,
    grade_shares_of_gain,
)
from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.common.enums import OTHER_IMAGE
from roarbench.common.text import (
    SAME,
    capitalize,
    fit_on_one_line,
    format_interval,
    typeset_minus_and_percent_signs,
)
from roarbench.estimators.catalogue import describe_control_use_of_network, find_display_name
from roarbench.plan.protocols import Protocol
from roarbench.report.table import is_control_off_zero
from roarbench.stats.board_records import Board, Row
from roarbench.stats.verdicts import ControlComparison, Verdict

NOTES_COMMAND, NOTES_METHOD = "table --notes", "result.notes()"  # the sources of all notes


CHANGED_CODE = "changed code"  # label of the doubt about runs of code with uncommitted changes
RUN_ELSEWHERE = "run elsewhere"  # label of the doubt about a row's origin
LONGEST_SENTENCE = 500  # maximum characters of a sentence with text from outside
_WEAKER_RANKINGS = {  # short names of the weaker ranking that reaches a share of a ROAR gain
    "blurred": "its own blur",
    "untrained": "untrained network",
    OTHER_IMAGE: "another image’s map",
    "random-blurred": "blurred random",
}
# by kind of twin: what its map explains, and the cause to which a gain is not due if the twin has an equal gain
_TWINS = {
    "untrained": ("untrained network", "to training"),
    "shuffled": ("shuffled network", "to what training put into the weights"),
    "other-target": ("another class", "to the class that is explained"),
}


class Doubt(NamedTuple):
    """A warning about a row: a label such as `masks alone 53 %`, and a sentence; pages show `grave` doubts in red."""

    short: str
    sentence: str
    grave: bool = False


def list_row_doubts(judges: SuiteJudges, board: Board, row: Row) -> tuple[Doubt, ...]:
    """Return the doubts about a row of a board.

    The order of the kinds is fixed, so a `grave` doubt can follow others: the nearest control, a gain that should be 0,
    levels of opposite sign, twins, `validate` and provenance, ties, prediction stability, marks.
    """
    protocol = board.protocol
    doubts = [_make_control_doubt(row.beating, protocol)] if row.beating and not row.beating.beats_all else []
    if is_control_off_zero(protocol, row):
        words = f"Its gain should be 0 but is {format_interval(row.gain)} points: a gain of that size may mean nothing."
        doubts.append(Doubt("not 0", words, grave=True))
    if opposed := list_opposite_gains(board, row, " points"):
        gains = f"Its gain is {' and '.join(opposed)}"
        doubts.append(Doubt("sign differs by level", f"{gains}; the row’s gain is over all levels."))
    doubts += _find_twin_doubts(row, protocol)
    doubts += _find_provenance_doubts(judges, protocol, row.estimator)
    doubts += _find_tie_and_stability_doubts(judges, row.estimator)
    doubts += _find_other_cause_doubts(judges, protocol, row.estimator)

    typeset = typeset_minus_and_percent_signs
    return tuple(Doubt(typeset(short), typeset(sentence), grave) for short, sentence, grave in doubts)


def list_opposite_gains(board: Board, row: Row, unit: str = "") -> list[str]:
    """Describe a row's gains at two levels if they have opposite signs; empty for other rows."""
    gains = board.find_two_opposite_gains(row).items()
    return [f"{format_interval(gain.in_points)}{unit} at t = {at:g}" for at, gain in gains]


def _make_control_doubt(comparison: ControlComparison, protocol: Protocol) -> Doubt:
    control = find_display_name(comparison.hardest_control)
    sign, relation = (
        ("<", "Significantly worse than")
        if comparison.loses_to_a_control
        else (SAME, "Not significantly different from")
    )
    use = describe_control_use_of_network(comparison.hardest_control)
    points = f"{format_interval(comparison.margin_over_hardest)} points"
    margin = f"the row’s {protocol.gain_name} minus the control’s is {points}"
    return Doubt(f"{sign} {control.name}", f"{relation} {control.full_name}, which {use}: {margin}.", grave=True)


def _find_twin_doubts(row: Row, protocol: Protocol) -> Iterator[Doubt]:
    for kind, difference in row.delta_twins.items():
        comparison = row.get_twin_comparison(kind)
        if kind in _TWINS and comparison and comparison.verdict is not Verdict.BETTER:
            twin, cause = _TWINS[kind]
            points = f"{format_interval(difference)} points"
            size = f"The row’s {protocol.gain_name} minus that of its twin ({twin}) is {points}"
            sign = "<" if comparison.verdict is Verdict.WORSE else SAME
            yield Doubt(f"{sign} {twin}", f"{size}, so the gain is not shown to be due {cause}.", grave=True)


def _find_provenance_doubts(judges: SuiteJudges, protocol: Protocol, name: str) -> Iterator[Doubt]:
    """Yield doubts from findings of `validate`, from the row's origin, and from uncommitted changes of the code."""
    results = judges.suite_results
    for short, text in (("see validate", results.findings.get(name)), (RUN_ELSEWHERE, results.doubts.get(name))):
        if text:
            yield Doubt(
                short,
                f"{capitalize(fit_on_one_line(text, LONGEST_SENTENCE)).rstrip('.')}.",
                grave=short == "see validate",
            )
    kinds = {(part.retrain, part.order) for part in protocol.computed_from or (protocol,)}
    stored = results.by_estimator.get(name, ())
    runs = [result for point, result in stored if (point.cell.retrain, point.cell.order) in kinds]
    if changed := sum("dirty" in result.provenance.code_version for result in runs):
        sentence = f"{changed} of its {len(runs)} runs were computed by code with uncommitted changes."
        yield Doubt(CHANGED_CODE, sentence)


def _find_tie_and_stability_doubts(judges: SuiteJudges, name: str) -> Iterator[Doubt]:
    if description := describe_tied_features(judges.suite_results, name):
        yield Doubt(f"{judges.suite_results.ties[name]:.0%} of features tie", f"{capitalize(description)}.")
    share = judges.suite_results.prediction_stability.get(name)
    if share is not None and share < STABLE_ENOUGH:
        sentence = f"{describe_prediction_under_noise(share)} So the row’s maps often explain another class."
        yield Doubt(f"prediction stability {share:.0%}", sentence)


def _find_other_cause_doubts(judges: SuiteJudges, protocol: Protocol, name: str) -> Iterator[Doubt]:
    if protocol.scores_all_network_pairs:  # marks doubt ROAR's gain, beside which ROAR's board shows them
        return
    applies = do_warnings_apply_to(protocol)
    remark = "" if applies else f" This mark was computed from results of ROAR, not of {protocol.name}."
    for mark in grade_shares_of_gain(judges, name):
        grave = applies and mark.grade is Grade.STRONG
        if mark.kind == MASKS:
            yield from _find_mask_leakage_doubt(judges, mark, name, remark, grave)
        elif mark.text:
            label = f"{_WEAKER_RANKINGS[mark.kind]} {mark.share.value:.0%}"
            yield Doubt(label if applies else f"ROAR: {label}", f"{capitalize(mark.text)}.{remark}", grave)


def _find_mask_leakage_doubt(judges: SuiteJudges, mark: Mark, name: str, remark: str, grave: bool) -> Iterator[Doubt]:
    """Yield a doubt if masks alone reach over half of the accuracy that degraded images reach (both above chance).

    Nothing is yielded if the grade of the mark is `none`. A single training run on masks has no interval and no
    grade; the accuracies are then reported without intervals.
    """
    t, chance = judges.highest_level_shared_with_mask_only, judges.suite_results.chance
    accuracies = [judge.estimate_accuracy(name, t) for judge in (judges.mask_only, judges.roar)]
    masks_alone, images = (accuracy.value for accuracy in accuracies)
    if masks_alone is None or images is None:
        return
    reaches_half = masks_alone - chance > SOME * max(images - chance, 0)
    if mark.grade is Grade.NONE or judges.suite_results.at_chance_warning or not reaches_half:
        return
    masks_text, images_text = (format_interval(accuracy, "{:.1%}".format) for accuracy in accuracies)
    sentence = (
        f"At t = {t:g}, networks trained on masks alone have an accuracy of {masks_text}, networks trained on degraded "
        f"images {images_text}; chance is {judges.suite_results.chance_text}.{remark}"
    )
    yield Doubt(f"masks alone {masks_alone:.0%}", sentence, grave)
