"""Format the validity panel of `roarbench diagnose`; a missing value is a dash."""

from itertools import chain
from textwrap import wrap
from typing import NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from roarbench.analysis.row_validity import KINDS, TwinResult, ValidityPanel, compare_with_twins
from roarbench.analysis.row_warnings import (
    MARKS,
    MASKS,
    SOME,
    STRONG,
    describe_rows_not_above_mask_only,
    find_row_warning,
    find_rows_not_above_mask_only,
    grade_shares_of_gain,
)
from roarbench.common.text import MISSING, format_decimals, format_interval, format_percent_number
from roarbench.estimators.catalogue import choose_row_names
from roarbench.plan.protocols import ROAR
from roarbench.report.status import describe_rows_without_rank
from roarbench.stats.board_agreement import FEWEST_ROWS, Agreement
from roarbench.stats.bootstrap_intervals import Estimate
from roarbench.stats.correctness_and_gain import POINTS

_HEADINGS = {"blurred": "blurred twin", "untrained": "untrained twin", MASKS: "masks alone"}  # by kind of mark
Columns = dict[str, list[str]]  # cells by heading, one per row of the panel


class Section(NamedTuple):
    """A section of the panel: its title, and cells by heading, estimators first."""

    title: str
    columns: Columns

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Return the cells of each estimator."""
        return list(zip(*self.columns.values(), strict=True))


def format_text(panel: ValidityPanel, width: int) -> Group:
    """Format the panel for a terminal of this width, in characters; no cell is cropped."""
    sections, doubts = list_sections(panel), list_lines_below_panel(panel)
    title = [Text(panel.suite_draws.suite_results.title)] if sections else []
    tables = [_make_table(part, width) for section in sections for part in _split_section(section, width)]
    lines = [*write_legend(panel), "", *format_agreements(panel), *doubts] if sections else doubts[-1:]
    wrapped = (wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [""] for line in lines)
    return Group(*title, *tables, Text("\n".join(chain.from_iterable(wrapped))))


def list_sections(panel: ValidityPanel) -> list[Section]:
    """Return the panel's sections that the suite has; without ROAR, only columns with a value."""
    sections = {
        "Marks": _list_mark_columns(panel),
        "Removal masks": _list_removal_mask_columns(panel),
        "Twins": _list_twin_columns(panel),
        "Orders, units, fills": _list_gain_and_area_columns(panel),
    }
    display_names = choose_row_names((*panel.suite_draws.suite_results.suite.estimators, *panel.names))
    names = {"estimator": [display_names[name] for name in panel.names]}
    if panel.suite_draws.main_protocol != ROAR:  # without ROAR, an empty table cell does not mean a missing run
        sections = {
            title: {heading: cells for heading, cells in columns.items() if {*cells} != {MISSING}}
            for title, columns in sections.items()
        }
    return [Section(title, names | columns) for title, columns in sections.items() if columns]


def _list_mark_columns(panel: ValidityPanel) -> Columns:
    marks = [
        {
            mark.kind: f"{format_interval(mark.share, '{:.0%}'.format)} {mark.grade or ''}".strip()
            for mark in grade_shares_of_gain(panel.suite_draws, name)
        }
        for name in panel.names
    ]
    kinds = [kind for kind in MARKS if any(kind in row_marks for row_marks in marks)]
    return {_HEADINGS.get(kind, kind): [row_marks.get(kind, MISSING) for row_marks in marks] for kind in kinds}


def _list_removal_mask_columns(panel: ValidityPanel) -> Columns:
    suite_draws, names, columns = panel.suite_draws, panel.names, {}
    mask_only = suite_draws.mask_only
    for t in mask_only.levels:
        columns[f"mask-only at {t:g}"] = [
            _format_mask_accuracy(mask_only.estimate_accuracy(name, t), mask_only.compare_with_counterpart(name, t))
            for name in names
        ]
        columns[f"above masks at {t:g}"] = [
            format_interval(suite_draws.estimate_accuracy_above_masks(name, t).in_points) for name in names
        ]
    for t in suite_draws.main_gains.levels:
        columns[f"smoothness at {t:g}"] = [format_decimals(suite_draws.smoothness.get((name, t)), 2) for name in names]
    ties = suite_draws.suite_results.ties
    return columns | ({"ties, %": [format_percent_number(ties.get(name)) for name in names]} if ties else {})


def _list_twin_columns(panel: ValidityPanel) -> Columns:
    columns, missing = {}, TwinResult(Estimate(), Estimate())
    rows = [compare_with_twins(panel.suite_draws, name) for name in panel.names]
    for kind in (kind for kind in KINDS if any(kind in twins for twins in rows)):
        columns[kind] = [format_interval(Estimate(twins.get(kind, missing).gain.value)) for twins in rows]
        columns[f"Δ {kind}"] = [format_interval(twins.get(kind, missing).difference) for twins in rows]
    return columns


def _list_gain_and_area_columns(panel: ValidityPanel) -> Columns:
    suite_draws = panel.suite_draws
    columns = {"gain": suite_draws.main_gains}
    for variants in (suite_draws.draws_by_unit, suite_draws.draws_by_fill):
        columns |= {f"gain, {variant}": draws for variant, draws in variants.items()} if len(variants) > 1 else {}
    gaps = {
        "LeRF - MoRF, retrained": suite_draws.lerf_morf_gap_retrained,
        "LeRF - MoRF, reference": suite_draws.lerf_morf_gap_unretrained,
    }
    columns |= {heading: draws for heading, draws in gaps.items() if draws.levels}
    return {
        heading: [format_interval(draws.estimate_area(name)) for name in panel.names]
        for heading, draws in columns.items()
    }


def _format_mask_accuracy(accuracy: Estimate, over_random: Estimate) -> str:
    """Format an accuracy in percent, with its difference from Random's accuracy if known."""
    if accuracy.value is None:
        return MISSING
    if over_random.value is None:
        return format_percent_number(accuracy.value)
    margin = "" if over_random.high is None else f" ± {POINTS * (over_random.high - over_random.value):.1f}"
    return f"{format_percent_number(accuracy.value)} ({POINTS * over_random.value:+.1f}{margin})"


def write_legend(panel: ValidityPanel) -> list[str]:
    """Explain the panel's numbers, one line per kind."""
    suite_draws, results = panel.suite_draws, panel.suite_draws.suite_results
    suite, bootstrap = results.suite, suite_draws.bootstrap
    protocol = f"{suite_draws.main_protocol.title} on " if suite_draws.main_gains.levels else ""
    lines = [
        f"{protocol}{suite.dataset} with {suite.model}; unit {suite_draws.unit}; gains and areas in accuracy points"
    ]
    lines += filter(None, [results.reference_accuracy_text])
    if any(grade_shares_of_gain(suite_draws, name) for name in panel.names):
        level = suite_draws.highest_level_shared_with_mask_only
        masks = f"; masks alone: share of the accuracy above chance that masks alone reach at t = {level:g}"
        lines += [
            "marks: share of the row's gain that a weaker ranking also reaches"
            f"{masks if level else ''}. Grade: some if the interval's lower end is above {SOME:.0%}, "
            f"strong above {STRONG:.0%}; each grade is wrong with at most 2.5% probability"
        ]
    if suite_draws.mask_only.levels:
        lines += [
            f"mask-only: accuracy in percent (minus Random's), chance {results.chance_text}; smoothness: Random has 1"
        ]
    if results.ties:
        lines += ["ties: percent of a map's features that have its most frequent value; their order is random"]
    gaps = {"retrained": suite_draws.lerf_morf_gap_retrained, "reference": suite_draws.lerf_morf_gap_unretrained}
    for network, areas in gaps.items():
        if areas.levels:
            levels = ", ".join(f"{t:g}" for t in (0.0, *areas.levels))
            lines += [f"LeRF - MoRF, {network}: area between the two curves over t = {levels}"]
    if suite_draws.main_gains.has_intervals:
        draws = f"{bootstrap.resamples} paired resamples, seed {bootstrap.seed}"
        lines += [f"{bootstrap.confidence:.0%} intervals ({draws})"]
    if not results.complete:
        lines += [f"{MISSING}: unknown, because runs are missing"]
    return lines


def format_agreements(panel: ValidityPanel) -> list[str]:
    """Describe how far each of the other orders of rows agrees with the main protocol's order."""
    main = panel.suite_draws.main_protocol.title
    return [f"{main} and {other}: {_format_agreement(agreement)}" for other, agreement in panel.agreements.items()]


def _format_agreement(agreement: Agreement | None) -> str:
    if agreement is None:
        return f"unknown; fewer than {FEWEST_ROWS} rows have a gain under both."
    tau = f"Kendall's tau {format_interval(agreement.tau, '{:+.2f}'.format)} over {agreement.rows} rows"
    if agreement.settled is None:
        return f"{tau}, without interval: one training per cell."
    pairs = f"of {agreement.settled} pairs that differ significantly in both, {agreement.opposed} in opposite order"
    return f"{tau}; {pairs}."


def list_lines_below_panel(panel: ValidityPanel) -> list[str]:
    """Return the lines below the panel: table-wide warnings, then the warnings about each row.

    Table-wide lines name rows without a rank and rows that are not significantly above mask-only. If no row has a
    warning, a line says so.
    """
    suite_draws, results = panel.suite_draws, panel.suite_draws.suite_results
    unranked = describe_rows_without_rank(row for row in results.inconsistent_rows if row.unit is suite_draws.unit)
    if results.at_chance_warning:
        return [*unranked, results.at_chance_warning]
    by_row = {name: find_row_warning(suite_draws, name) for name in panel.names}
    warnings = [f"{name} {warning.warning_sign} {warning.reason}" for name, warning in by_row.items() if warning.reason]
    if suite_draws.main_protocol != ROAR:
        columns = "Marks, accuracies above masks alone and the area LeRF - MoRF after retraining"
        return [*unranked, *warnings, f"{columns} need ROAR, which {results.suite.name} does not have."]
    if not suite_draws.main_gains.has_intervals:
        return [*unranked, *warnings, "One training per cell: no intervals, no marks."]
    at_mask_only = filter(None, [describe_rows_not_above_mask_only(find_rows_not_above_mask_only(suite_draws))])
    return [*unranked, *at_mask_only, *(warnings or ["No row is marked."])]


def _split_section(section: Section, width: int) -> list[Section]:
    """Divide a section into several that fit a terminal; each starts with the column of estimators."""
    names, *columns = section.columns.items()
    parts = [dict([names])]
    for heading, cells in columns:
        wider = parts[-1] | {heading: cells}
        if len(parts[-1]) > 1 and _measure_table_width(wider) > width:
            parts.append(dict([names, (heading, cells)]))
        else:
            parts[-1] = wider
    return [section._replace(columns=part) for part in parts]


def _measure_table_width(columns: Columns) -> int:
    """Return the width of a table's line: its columns, a space after each, between neighbours and at both ends."""
    return sum(max(map(len, (heading, *cells))) + 2 for heading, cells in columns.items()) + 1


def _make_table(section: Section, width: int) -> Table:
    shown = Table(title=section.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    names, *numbers = section.columns
    shown.add_column(names, overflow="fold")
    for heading in numbers:  # a cropped number would show another value
        shown.add_column(heading, justify="right", no_wrap=True)
    for line in section.rows:
        shown.add_row(*line)
    shown.width = min(width, _measure_table_width(section.columns))
    return shown
