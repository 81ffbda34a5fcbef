"""Check each estimator for known criticisms of ROAR: the panel of `roarbench diagnose` (docs/validity.md).

For a suite without ROAR, the panel checks the headline protocol.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import chain
from textwrap import wrap

from rich.console import Group
from rich.text import Text

from roarbench.analysis.incomplete_results import UNFINISHED_SIGN, describe_missing_runs, write_unfinished_line
from roarbench.analysis.suite_judges import MASKS, Mark, SuiteJudges, grade_shares_of_gain
from roarbench.analysis.suite_results import SuiteResults, describe_rows_without_rank
from roarbench.common.text import MISSING, format_decimals, format_interval, format_percent_number
from roarbench.estimators.catalogue import TWINS, choose_row_names
from roarbench.estimators.ids import make_twin_id
from roarbench.plan.protocols import KAR, LERF, MASK_ONLY, MORF, ROAR
from roarbench.report.doubts import MARKS, NO_RANK, Doubt, Shown, describe_doubts
from roarbench.report.table import make_table
from roarbench.report.table_record import ROW_KEY, Column, Table, format_signed_value, make_column
from roarbench.report.table_renderers import format_list, measure_table_width
from roarbench.stats.board_agreement import FEWEST_ROWS, Agreement, compute_agreement
from roarbench.stats.board_records import ONE_TRAINING, RANDOM
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import POINTS
from roarbench.stats.intervals import CONFIDENCE, Estimate

_KINDS = (*TWINS, "redrawn")  # kinds of twins; `redrawn` belongs to Random alone
_HEADINGS = {"blurred": "blurred twin", "untrained": "untrained twin", MASKS: "masks alone"}  # by kind of mark
_LEGEND = "gains and areas in accuracy points; docs/validity.md explains columns and marks"


def can_check_validity(suite_results: SuiteResults) -> bool:
    """Return whether there are results for the panel's checks: results of ROAR, or of both MoRF and LeRF."""
    return suite_results.has_started(ROAR) or (suite_results.has_started(MORF) and suite_results.has_started(LERF))


def compare_orders(judges: SuiteJudges) -> dict[str, Agreement | None]:
    """Compare the main protocol's order of rows with other orders, by their source: `KAR`, `MoRF`, `unit pixel`, ….

    The result is None for fewer than three common rows; it has no interval if the training noise is unknown.
    """
    suite = judges.suite_results.suite
    in_suite = {block.protocol for block in suite.blocks if block.unit is judges.unit}
    protocols = [each for each in (KAR, MORF, LERF) if each in in_suite and each != judges.main_protocol]
    orders: dict[str, Judge] = {each.title: judges.judge(each, judges.unit) for each in protocols}
    orders |= {f"unit {unit}": judge for unit, judge in judges.judges_by_unit.items() if unit is not judges.unit}
    orders |= {f"fill {fill}": judge for fill, judge in judges.judges_by_fill.items() if judge is not judges.main_gains}
    names = suite.estimators_with_own_row
    main, agreements = judges.main_gains, dict[str, Agreement | None]()
    for order, other in orders.items():
        agreement = compute_agreement(
            *({name: judge.gains[name] for name in names if name in judge.gains} for judge in (main, other))
        )
        if agreement and not (main.has_intervals and other.has_intervals):
            agreement = agreement._replace(tau=Estimate(agreement.tau.value), settled=None, opposed=None)
        agreements[order] = agreement
    return agreements


def format_text(judges: SuiteJudges, width: int) -> Group:
    """Format the panel for a terminal of this width, in characters; no cell is cropped."""
    sections, doubts = list_sections(judges), list_lines_below_panel(judges)
    protocols = dict.fromkeys((judges.main_protocol, MASK_ONLY, KAR, MORF, LERF))
    called = choose_row_names(judges.suite_results.suite.estimators)
    missing = describe_missing_runs(judges.suite_results, protocols, judges.unit, called)
    unfinished = write_unfinished_line(missing, "numbers and marks")
    sign = UNFINISHED_SIGN * bool(unfinished)
    title = [Text(f"{judges.suite_results.title}{sign}")] if sections else []
    filled = [
        section.select_rows(number for number, line in enumerate(section.lines) if {*line[1:]} != {MISSING})
        for section in sections
    ]
    pairs = [(section, whole) for section, whole in zip(filled, sections, strict=True) if section.names]
    tables = []
    for section, _ in pairs:
        parts = [list(section.columns[:1])]
        for column in section.columns[1:]:  # columns that do not fit stand below, each time beside the names
            if len(parts[-1]) > 1 and _measure([*parts[-1], column]) > width:
                parts.append(parts[0][:1])
            parts[-1].append(column)
        for part in parts:
            shown, fitting = replace(section, columns=tuple(part)), min(width, _measure(part))
            tables.append(format_list(shown, (0, 1, 0, 0), title_justify="left", width=fitting))
    counts = {section.title: len(whole.names) - len(section.names) for section, whole in pairs}
    left_out = ", ".join(f"{count} of {title}" for title, count in counts.items() if count)
    results, gains = judges.suite_results, judges.main_gains
    protocol = f"{judges.main_protocol.title} on " if gains.levels else ""
    legend = (
        f"Rows without any value are left out: {left_out}" * bool(left_out),
        f"{protocol}{results.suite.dataset} with {results.suite.model}; unit {judges.unit}; {_LEGEND}",
        f"{CONFIDENCE:.0%} intervals; chance {results.chance_text}" * gains.has_intervals,
        results.reference_accuracy_text,
    )
    lines = [*filter(None, legend), "", *describe_rank_agreements(judges), *doubts] if sections else doubts[-1:]
    lines += filter(None, [unfinished])
    wrapped = (wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [""] for line in lines)
    return Group(*title, *tables, Text("\n".join(chain.from_iterable(wrapped))))


def list_sections(judges: SuiteJudges) -> list[Table]:
    """Return the panel's sections that the suite has; without ROAR, only columns with a value."""
    results, main, mask_only = judges.suite_results, judges.main_gains, judges.mask_only
    rows = results.suite.estimators_with_own_row  # estimators and controls without twins, in the suite's order
    display_names = choose_row_names(results.suite.estimators)
    names = make_column(ROW_KEY, rows, "estimator", map(display_names.__getitem__, rows), side="left")
    sections = defaultdict[str, list[Column]](list)

    def add(section: str, heading: str, cells: Iterable[str]) -> None:
        column = make_column("", cells, heading)
        if judges.main_protocol == ROAR or {*column.texts} != {MISSING}:  # else a dash does not mean a missing run
            sections[section].append(column)

    marks = [{mark.kind: mark for mark in grade_shares_of_gain(judges, name)} for name in rows]
    for kind in (kind for kind in MARKS if any(kind in row_marks for row_marks in marks)):
        graded = (row_marks.get(kind, Mark(kind, Estimate(), None)) for row_marks in marks)
        shares = ((format_interval(mark.share, "{:.0%}".format), mark.grade or "") for mark in graded)
        add("Marks", _HEADINGS.get(kind, kind), (" ".join(filter(None, each)) for each in shares))
    for t in mask_only.levels:
        over_random = (mask_only.estimate_difference_from_counterpart(name, t) for name in rows)
        accuracies = (mask_only.estimate_accuracy(name, t) for name in rows)
        add("Removal masks", f"mask-only at {t:g}", map(_format_mask_accuracy, accuracies, over_random))
        above = (judges.accuracies_above_masks.get((name, t), Estimate()).in_points for name in rows)
        add("Removal masks", f"above masks at {t:g}", map(format_interval, above))
    for t in () if results.suite.dataset_record.tabular else main.levels:  # columns of a table are no neighbours
        smooth = (format_decimals(judges.smoothness.get((name, t)), 2) for name in rows)
        add("Removal masks", f"smoothness at {t:g}", smooth)
    if results.ties:
        add("Removal masks", "ties, %", (format_percent_number(results.ties.get(name)) for name in rows))
    for kind in _KINDS:
        twins = {name: f"random-{kind}" if name == RANDOM else make_twin_id(name, kind) for name in rows}
        if not {*twins.values()}.isdisjoint(main.scores.estimators):
            add("Twins", kind, (format_signed_value(main.estimate_gain(twin)) for twin in twins.values()))
            differences = (main.estimate(main.subtract_gain(*pair)) for pair in twins.items())
            add("Twins", f"Δ {kind}", map(format_interval, differences))
    gains = {"gain": main}
    for variants in (judges.judges_by_unit, judges.judges_by_fill):
        gains |= {f"gain, {variant}": judge for variant, judge in variants.items()} if len(variants) > 1 else {}
    gaps = {
        "LeRF - MoRF, retrained": judges.judge_areas_between_orders(ROAR, KAR),
        "LeRF - MoRF, not retrained": judges.judge_areas_between_orders(MORF, LERF),
    }
    for heading, judge in (gains | {heading: judge for heading, judge in gaps.items() if judge.levels}).items():
        add("Gains", heading, (format_interval(judge.estimate_gain(name)) for name in rows))
    return [Table(title, (names, *columns)) for title, columns in sections.items()]


def _format_mask_accuracy(accuracy: Estimate, over_random: Estimate) -> str:
    if accuracy.value is None:
        return MISSING
    if over_random.value is None:
        return format_percent_number(accuracy.value)
    margin = "" if over_random.high is None else f" ± {POINTS * (over_random.high - over_random.value):.1f}"
    return f"{format_percent_number(accuracy.value)} ({POINTS * over_random.value:+.1f}{margin})"


def describe_rank_agreements(judges: SuiteJudges) -> list[str]:
    """Describe how far each of the other orders of rows agrees with the main protocol's order."""
    main = judges.main_protocol.title
    lines = []
    for other, agreement in compare_orders(judges).items():
        if agreement is None:
            lines.append(f"{main} and {other}: unknown; fewer than {FEWEST_ROWS} rows have a gain under both.")
            continue
        tau = f"Kendall's tau {format_interval(agreement.tau, '{:+.2f}'.format)} over {agreement.rows} rows"
        pairs = (
            f"; of {agreement.settled} pairs that differ significantly in both, {agreement.opposed} in opposite order"
        )
        unknown = f", without interval: {ONE_TRAINING.lower()}"
        lines.append(f"{main} and {other}: {tau}{unknown if agreement.settled is None else pairs}.")
    return lines


def list_lines_below_panel(judges: SuiteJudges) -> list[str]:
    """Return the rows without a rank, and the doubts about rows except those that columns show."""
    results = judges.suite_results
    unranked = describe_rows_without_rank(row for row in results.inconsistent_rows if row.unit is judges.unit)
    if results.at_chance_warning:
        return [*unranked, results.at_chance_warning]
    # doubts about the main protocol's rows, then those about rows that only other protocols have
    found, known, names = list[Doubt](), set[str](), results.suite.estimators_with_own_row
    for protocol in dict.fromkeys((judges.main_protocol, *results.list_started_protocols())):
        rows = [name for name in names if name not in known]
        table = make_table(results, protocol, rows, judges.unit) if rows else None
        for doubt in table.doubts if table else ():
            here = doubt.kind.shown is Shown.NAME if known else doubt.kind.shown is not Shown.COLUMN
            if here and doubt.kind is not NO_RANK:  # rows without a rank under any protocol are named above
                found.append(doubt)
        known.update(table.names if table else ())
    doubts, last = describe_doubts(found), "No row is marked." * (not any(doubt.sign for doubt in found))
    if judges.main_protocol != ROAR:
        planned = any(block.protocol == ROAR for block in results.suite.blocks)
        missing = "was not run" if planned else f"{results.suite.name} does not have"
        columns = "Marks, accuracies above masks alone and the area LeRF - MoRF after retraining"
        last = f"{columns} need ROAR, which {missing}."
    elif not judges.main_gains.has_intervals:
        last = f"{ONE_TRAINING}: no intervals, no marks."
    return [*unranked, *doubts, *filter(None, [last])]


def _measure(columns: Sequence[Column]) -> int:
    """Return the width of a table's line: its columns, a space after each, between neighbours and at both ends."""
    return measure_table_width(column.terminal_cells for column in columns) + len(columns)
