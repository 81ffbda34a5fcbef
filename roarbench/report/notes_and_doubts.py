"""Write the notes below a table, and list the doubts about each of its rows.

Notes state the scope of intervals, doubts about the whole table, and the meaning of signs. Doubts about a row are
failed comparisons, its provenance, and other possible causes of its gain.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from roarbench.analysis.faithfulness_scores import IMAGES
from roarbench.analysis.missing_runs import UNFINISHED_SIGN
from roarbench.analysis.own_network_gain_of_suite import describe_total_disagreement_of_networks
from roarbench.analysis.row_warnings import (
    MASKS,
    SOME,
    STABLE_ENOUGH,
    Grade,
    Mark,
    describe_prediction_under_noise,
    describe_rows_not_above_mask_only,
    describe_tied_features,
    do_warnings_apply_to,
    grade_shares_of_gain,
    list_general_doubts,
)
from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.common.enums import OTHER_IMAGE
from roarbench.common.errors import Hint
from roarbench.common.text import (
    SAME,
    capitalize,
    fit_on_one_line,
    format_count,
    format_interval,
    list_some,
    typeset_minus_and_percent_signs,
)
from roarbench.compute.masks import BINS
from roarbench.estimators.catalogue import describe_control_use_of_network, find_display_name, find_search_length
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import describe_missing_controls
from roarbench.plan.suites import make_suite_option_value
from roarbench.report.table import UNSTABLE_SIGN, SuiteTable, is_control_off_zero
from roarbench.stats.board_records import ONE_NETWORK, RANDOM, Board, IntervalScope, Row
from roarbench.stats.intervals import CONFIDENCE
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.search_control import BESIDE_SEARCH, NO_SEARCH
from roarbench.stats.verdicts import ControlComparison, Verdict

NOTES_COMMAND, NOTES_METHOD = "table --notes", "result.notes()"  # the sources of all notes
PAGE = "docs/how-it-works.md"
_ONE_TRAINING = "One training per cell: no intervals, no verdicts."
_NO_GAINS = "These networks see masks alone: there are no gains and no ranks."


def summarize_notes(table: SuiteTable, source: str = NOTES_COMMAND) -> list[str]:
    """Return the short notes below a table, one per line.

    The notes define the gain, state the scope of the intervals, list doubts about the whole table and rows without a
    rank, and name the `source` of all other notes.
    """
    board = table.board
    gain = f"{board.protocol.gain_meaning.partition('. ')[0].rstrip('.')}." if table.has_gains_and_ranks else _NO_GAINS
    if table.suite_results.at_chance_warning:
        intervals = "At chance: these numbers test the installation only."
    elif not board.images or not table.has_results:
        intervals = ""  # one of the table's doubts gives the reason
    elif board.covers is IntervalScope.NOTHING:
        intervals = _ONE_TRAINING
    else:
        intervals = f"{_describe_interval_scope(board)}; {SAME}: not significant."
    signs = dict.fromkeys(sign for name in table.names for sign in table.format_row_signs(name).split())
    at_mask_only = table.levels_not_above_mask_only.keys() & set(table.names)
    if at_mask_only or _describe_several_machines(table) or _describe_rows_with_opposite_gains(table):
        signs["warnings"] = None
    more = f"{', '.join(signs)} and more are" if signs else "More is"
    fewer = _describe_fewer_scored_images(table)
    notes = (gain, intervals, note_if_self_reported(table), *list_table_doubts(table), fewer)
    return [*filter(None, notes), f"{more} explained by {source} and {PAGE}."]


def list_table_doubts(table: SuiteTable) -> list[str]:
    """Return doubts about the whole table and rows without a rank, one line each."""
    doubts = (
        describe_missing_runs(table),
        _explain_no_scored_images(table),
        _describe_nonzero_controls(table),
        _describe_missing_controls(table),
        describe_search(table),
    )
    return list(filter(None, (describe_equal_matched_masks(table), *doubts, *_describe_inconsistent_rows(table))))


def note_if_self_reported(table: SuiteTable) -> str:
    """Return a sentence saying that all rows with results were imported; empty for other tables."""
    imported = table.has_results and table.all_rows_self_reported
    return "All rows are self-reported: imported, and not reproduced here." if imported else ""


def write_all_notes(table: SuiteTable, signs: bool = True) -> str:
    """Describe the intervals' scope, all doubts, and special rows and columns.

    The notes on missing runs and on unstable predictions name the signs ‡ and †, unless `signs` is False.
    """
    levels = {name: levels for name, levels in table.levels_not_above_mask_only.items() if name in table.names}
    left_out = _join_names_by_reason(table.suite_results.suite.left_out.items())
    notes = (
        describe_missing_runs(table, signs),
        describe_equal_matched_masks(table),
        _describe_nonzero_controls(table),
        _describe_intervals(table),
        _describe_missing_controls(table),
        describe_search(table),
        describe_rows_not_above_mask_only(levels),
        *_describe_inconsistent_rows(table),
        _describe_several_machines(table),
        note_if_self_reported(table),
        _describe_doubts_of_any_protocol(table),
        _describe_rows_with_opposite_gains(table),
        _describe_unstable_predictions(table, UNSTABLE_SIGN * signs),
        f"Left out: {left_out}." if left_out else "",
        _describe_quantus_columns(table),
        f"Hash of the runs: {table.runs_hash}." if table.board.images else "",
    )
    return " ".join(filter(None, notes))


def describe_missing_runs(table: SuiteTable, signs: bool = True) -> str:
    """Return the number of missing runs of a table with results, and what they can change; else an empty string.

    The sentence names the sign ‡ of unfinished verdicts, unless verdicts are shown without signs.
    """
    if not table.unfinished_text or not table.has_results:
        return ""
    sign = f" ({UNFINISHED_SIGN})" if signs and table.has_verdicts else ""
    return f"Unfinished{sign}: {table.unfinished_text}; {'verdicts' if table.has_verdicts else 'numbers'} may change."


def _explain_no_scored_images(table: SuiteTable) -> str:
    """Explain why a table has no values: no row has a result, or the networks agree on no image; else empty."""
    board, results = table.board, table.suite_results
    if board.images and table.has_results:
        return ""
    disagreement = ""
    if board.protocol.scores_all_network_pairs:
        disagreement = describe_total_disagreement_of_networks(results, board.protocol, table.unit)
    if disagreement:
        return disagreement
    protocols = (board.protocol, *board.protocol.computed_from)
    blocks = (block for block in results.suite.blocks if block.protocol in protocols and block.unit == table.unit)
    points = list_planned_runs(replace(results.suite, blocks=tuple(blocks)))
    done = sum(point in results.results for point in points)
    return f"{done:,} of {len(points):,} runs are done; no row has a result yet."


def describe_equal_matched_masks(table: SuiteTable) -> str:
    """Describe why all matched gains of few columns are about 0; empty for other tables.

    `run` refuses such suites, but a store may have their results from before. With at most as many columns as bins,
    each column is a stratum of its own, unless values are equal.
    """
    data = table.suite_results.suite.dataset_record
    if not (table.board.protocol.compares_with_other_image and data.tabular and data.channels <= BINS):
        return ""
    return f"With {data.channels} columns, matched masks are nearly always the own masks: gains are 0 for every map."


def _describe_nonzero_controls(table: SuiteTable) -> str:
    if not table.nonzero_controls:
        return ""
    controls = ", ".join(f"{name} {format_interval(gain)}" for name, gain in table.nonzero_controls.items())
    return (
        f"This table is doubtful, because gains that should be 0 differ significantly: {controls}. "
        "A gain of that size may mean nothing."
    )


def _describe_missing_controls(table: SuiteTable) -> str:
    """Report that a user's suite lacks usual controls, if rows are compared with controls."""
    missing = describe_missing_controls(table.suite_results.suite, table.board.protocol)
    return f"{missing}." if missing and any(row.beating for row in table.board.rows) else ""


def describe_search(table: SuiteTable) -> str:
    """Say whether verdicts on own-network gains compare with a blind search; empty for tables without such verdicts."""
    named = [(row, row.network) for row in table.rows if row.network and find_search_length(row.estimator) is None]
    tested = {row.estimator: test for row, test in named if test.verdict is not OwnNetworkVerdict.BY_CONSTRUCTION}
    if not tested:
        return ""
    if not any(test.search for test in tested.values()):
        return NO_SEARCH
    short = [table.display_names[name] for name, test in tested.items() if test.search and not test.search.long_enough]
    too_short = f" No search has as many passes as {list_some(short)}." if short else ""
    return f"{BESIDE_SEARCH}{too_short}"


def suggest_diagnose(table: SuiteTable) -> Hint | None:
    """Return a hint to the command that explains the signs (!) and (!!); None if no row has such a sign."""
    signs = ", ".join(sorted({table.find_warning_sign(name) for name in table.names} - {""}))
    suite = make_suite_option_value(table.suite_results.suite)
    return Hint(f"{signs}: `{{}}` explains the doubts.", "diagnose", ("--suite", suite)) if signs else None


def _describe_inconsistent_rows(table: SuiteTable) -> list[str]:
    by_reason = defaultdict[str, list[str]](list)
    for name in (row.estimator for row in table.board.rows if row.estimator in table.inconsistency_reasons):
        uncompared = " and no row is compared with it" if name == RANDOM else ""
        by_reason[f" no rank{uncompared}: {table.inconsistency_reasons[name]}."].append(name)
    return [
        (f"{names[0]} has" if len(names) == 1 else f"{len(names)} rows ({', '.join(names)}) have") + text
        for text, names in by_reason.items()
    ]


def _describe_several_machines(table: SuiteTable) -> str:
    differences = table.suite_results.find_machine_differences_by_row(table.board.protocol, table.unit)
    shown = [row.estimator for row in table.board.rows if row.estimator in differences]
    values_by_setting = defaultdict[str, set[str]](set)
    for name in shown:
        for setting, values in differences[name].items():
            values_by_setting[setting] |= set(values)
    if not values_by_setting:
        return ""
    differ = "; ".join(f"{setting} {' or '.join(sorted(values))}" for setting, values in values_by_setting.items())
    return f"Different machines computed the runs of one row ({list_some(shown)}): {differ}."


def _describe_doubts_of_any_protocol(table: SuiteTable) -> str:
    shared = table.suite_results.doubts if table.all_rows_self_reported else {}
    doubts = _join_names_by_reason(
        (row.estimator, reason)
        for row in table.board.rows
        for reason in list_general_doubts(table.suite_results, row.estimator)
        if reason != shared.get(row.estimator)
    )
    return f"(!) {doubts}." if doubts else ""


def _list_opposite_gains(board: Board, row: Row, unit: str = "") -> list[str]:
    """Describe a row's gains at two levels if they have opposite signs; empty for other rows."""
    gains = board.find_two_opposite_gains(row).items()
    return [f"{format_interval(gain.in_points)}{unit} at t = {at:g}" for at, gain in gains]


def _describe_rows_with_opposite_gains(table: SuiteTable) -> str:
    found = {row.estimator: _list_opposite_gains(table.board, row) for row in table.board.rows}
    rows = [f"{name} ({', '.join(gains)})" for name, gains in found.items() if gains]
    return f"Gains of opposite sign at two levels: {'; '.join(rows)}." if rows else ""


def _join_names_by_reason(reasons: Iterable[tuple[str, str]]) -> str:
    """Join pairs of a name and a reason to `a, b: reason; c: other reason`."""
    names_by_reason = defaultdict[str, list[str]](list)
    for name, reason in reasons:
        names_by_reason[reason].append(name)
    return "; ".join(f"{', '.join(names)}: {reason}" for reason, names in names_by_reason.items())


def _describe_unstable_predictions(table: SuiteTable, sign: str) -> str:
    if not table.low_prediction_stabilities:
        return ""
    shares = ", ".join(f"{name} {share:.0%}" for name, share in table.low_prediction_stabilities.items())
    text = f"The explained network keeps its prediction on fewer than {STABLE_ENOUGH:.0%} of the noisy copies"
    return f"{sign} {text}: {shares}.".strip()


def _describe_quantus_columns(table: SuiteTable) -> str:
    if not table.metrics:
        return ""
    columns = "; ".join(f"{metric.heading}: {metric.about}" for metric in table.metrics)
    text = f"Scores from Quantus (first {IMAGES} test images at most), which do not affect gains and ranks: {columns}."
    return f"{text} {_describe_fewer_scored_images(table)}".rstrip()


def _describe_fewer_scored_images(table: SuiteTable) -> str:
    """List scores that are means over fewer images than others, because metrics are undefined for some maps."""
    counts = table.suite_results.quantus_counts
    headings = {metric.id: metric.heading.partition(" ")[0] for metric in table.metrics}
    rows = [row.estimator for row in table.board.rows]
    most = max((counts.get((name, metric), 0) for name in rows for metric in headings), default=0)
    fewer = [
        f"{headings[metric]} of {name} {counts[name, metric]}"
        for name in rows
        for metric in headings
        if counts.get((name, metric), most) < most
    ]
    reason = "without constant maps and, for FC, constant outputs"
    return f"Images in each mean of Quantus: {most}, but {', '.join(fewer)} ({reason})." if fewer else ""


def _describe_intervals(table: SuiteTable) -> str:
    board, protocol = table.board, table.board.protocol
    if nothing := _explain_no_scored_images(table):
        return nothing
    if table.suite_results.at_chance_warning:
        return table.suite_results.at_chance_warning
    if board.covers is IntervalScope.NOTHING:
        return _ONE_TRAINING
    scope, meaning = _describe_interval_scope(board), protocol.gain_meaning
    if not table.has_gains_and_ranks:
        return f"{scope}. {_NO_GAINS}"
    if protocol.scores_all_network_pairs:
        rows = format_count(board.family, "row")
        return f"{meaning} {scope}; verdicts are adjusted for the suite's {rows}, shown or not."
    notes = [f"{meaning} {scope}; place intervals hold jointly over the suite's rows."]
    if board.reference_freedom is not None:
        notes.append(
            f"The spread between {board.references} references was estimated from "
            f"{format_count(board.reference_rows, 'row')} ({board.reference_freedom:.1f} degrees of freedom)."
        )
    notes.append(
        f"Verdicts of a column are adjusted for the suite's {format_count(board.family, 'row')}, shown or not."
    )
    if added := ", ".join(row.estimator for row in board.rows if row.estimator in table.suite_results.suite.added):
        notes.append(f"Rows in brackets are judged as if each alone were added to the suite: {added}.")
    return " ".join(notes)


def _describe_interval_scope(board: Board) -> str:
    network = f", {ONE_NETWORK}" if board.one_network else ""
    return f"{CONFIDENCE:.0%} intervals over {board.covers}{network}"


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
    if opposed := _list_opposite_gains(board, row, " points"):
        gains = f"Its gain is {' and '.join(opposed)}"
        doubts.append(Doubt("sign differs by level", f"{gains}; the row’s gain is over all levels."))
    doubts += _find_twin_doubts(row, protocol)
    doubts += _find_provenance_doubts(judges, protocol, row.estimator)
    doubts += _find_tie_and_stability_doubts(judges, row.estimator)
    doubts += _find_other_cause_doubts(judges, protocol, row.estimator)

    typeset = typeset_minus_and_percent_signs
    return tuple(Doubt(typeset(short), typeset(sentence), grave) for short, sentence, grave in doubts)


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
