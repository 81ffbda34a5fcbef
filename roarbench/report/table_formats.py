"""Format one protocol's table for a terminal, as Markdown, HTML, JSON or CSV; a missing value is a dash in text."""

import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.common.enums import OTHER_IMAGE
from roarbench.common.text import (
    MISSING,
    SAME,
    format_decimals,
    format_interval,
    format_markdown_table,
    format_percent_number,
    format_rank,
    format_signed,
)
from roarbench.estimators.catalogue import find_estimator
from roarbench.report.notes_and_doubts import NOTES_COMMAND, NOTES_METHOD, summarize_notes, write_all_notes
from roarbench.report.table import CONTROLS, UNTRAINED, SuiteTable
from roarbench.report.table_json_and_csv import format_csv, format_json
from roarbench.stats.board_records import Row
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import FEWEST_PERMUTED, OwnNetworkVerdict
from roarbench.stats.verdicts import Comparison, Verdict

_AOPC = "AOPC [95%]"
_BEATS = "beats every control"
_BETTER_THAN = "better than"
_COMPARISONS = ("vs Random", "vs Sobel", "vs blurred random", "vs other image")
_ONLY_WITH_GAINS = ("place", "gain [95%]", _BEATS, _BETTER_THAN, *_COMPARISONS)  # columns that need gains and verdicts
_COMPARED_WITH_RANDOM = {Verdict.BETTER: "Random", Verdict.SAME: f"{SAME} Random", Verdict.WORSE: "< Random"}
_CAPTION_WIDTH = 80  # maximum width of a caption, in characters
# boundaries at which cells of a terminal table are broken
_WORDS = re.compile(r"(?= )|(?=~)")  # before blanks and twins' suffixes
_PARTS = re.compile(rf"{_WORDS.pattern}|(?<=\w)(?=\()|(?<=,)|(?<=-)")  # also around parameters and after hyphens


def render(table: SuiteTable, style: str, notes: bool = False) -> str:
    """Format the table as `json`, `csv` or `markdown`, which ends with all notes if `notes`, else with short notes."""
    if style == "csv":
        return format_csv(table)
    if style == "json":
        return format_json(table)
    columns = list_columns(table)
    rows = format_markdown_table([column.heading for column in columns], _transpose_cells(columns))
    all_notes = (f"{table.caption}.", write_all_notes(table), table.probability_columns_note)
    caption = " ".join(filter(None, all_notes) if notes else summarize_notes(table))
    return f"**{_make_title(table)}**\n\n{rows}\n\n{caption}"


def format_text(table: SuiteTable, width: int, notes: bool = False, in_python: bool = False) -> Table:
    """Format the table for a terminal of this width, in characters; columns that do not fit are left out.

    If `notes`, all notes follow, with the names of omitted columns; otherwise the notes of `summarize_notes` follow.
    """
    all_columns = list_columns(table)
    columns = _choose_fitting_columns(all_columns, width)
    short_notes = summarize_notes(table, NOTES_METHOD if in_python else NOTES_COMMAND)
    caption = "\n".join(list_all_notes(table, columns) if notes else short_notes)
    shown = Table(title=_make_title(table), caption=caption, caption_justify="left", box=SIMPLE_HEAD, padding=0)
    names = next(i for i, column in enumerate(columns) if column.heading == "estimator")
    texts = [i for i, column in enumerate(columns) if column.justify == "left" and i != names]
    wrapped = wrap_columns(map(_shorten_heading_and_cells, columns), names, texts, width)
    shown.width = max(min(width, _CAPTION_WIDTH), measure_table_width(wrapped))
    for column, (heading, *_) in zip(columns, wrapped, strict=True):
        shown.add_column(heading, justify=column.justify, no_wrap=True)
    for number, row in enumerate(table.rows):
        if row.check and not table.rows[number - 1].check:
            shown.add_section()
        cells = (column[number + 1] for column in wrapped)  # after the heading
        shown.add_row(*cells, style="" if row.place or not table.has_gains_and_ranks else "dim")
    return shown


class Column(NamedTuple):
    """A column of the table, with its cells as text."""

    heading: str
    short: str  # heading for a terminal, up to two lines
    justify: Literal["left", "right"]
    cells: tuple[str, ...]
    worth: float  # narrow terminals drop columns of low worth first; columns of worth 0 always stay


def _make_title(table: SuiteTable) -> str:
    return f"{table.suite_results.title}: {table.board.protocol.title}"


def list_all_notes(table: SuiteTable, shown_columns: list[Column]) -> list[str]:
    """Return all notes of a table, with the names of the columns that are not shown."""
    omitted = [column.heading for column in list_columns(table) if column not in shown_columns]
    notes = [table.caption, write_all_notes(table)]
    if table.has_gains_and_ranks and not table.board.protocol.scores_all_network_pairs:
        notes.append(_write_legend(table, [column.heading for column in shown_columns]))
    notes += [table.probability_columns_note] if table.probability_columns_note else []
    notes += [f"Columns not shown: {', '.join(omitted)} (--format csv has all)."] if omitted else []
    return notes


def _write_legend(table: SuiteTable, headings: list[str]) -> str:
    sentences = []
    if _BEATS in headings:
        answers = f"yes, or the control that the row is not shown to beat; controls {table.control_network_use_text}"
        sentences.append(f"Beats all: {answers}.")
    if _BETTER_THAN in headings:
        sentences.append(
            f"Some controls should have gain 0. Better than {CONTROLS}: better than Random and than each of them that "
            "differs significantly from 0, with a larger gain than the rest of them; "
            f"{UNTRAINED}: also better than this twin."
        )
    if any(heading.startswith("Δ ") for heading in headings):
        sentences.append("Δ: the row's gain minus the gain of its twin.")
    return " ".join([*sentences, f"{SAME}: not significantly different."])


def list_columns(table: SuiteTable) -> list[Column]:
    """Return all columns of a table as text; own-network gain has shares of kept predictions instead of accuracies."""
    board, rows, columns = table.board, table.rows, list[Column]()
    own_network = board.protocol.scores_all_network_pairs

    def add(heading: str, cells: Iterable[str], worth: float = 0, short: str = "", left: bool = False) -> None:
        if table.has_gains_and_ranks or heading not in _ONLY_WITH_GAINS:
            columns.append(Column(heading, short or heading, "left" if left else "right", tuple(cells), worth))

    add("place", (format_rank(row.place) for row in rows))
    add("estimator", (_format_name(table, row) for row in rows), left=True)
    add("gain [95%]", (format_interval(row.gain) for row in rows))
    if own_network:
        add("verdict", (_format_own_network_verdict(table, row) for row in rows), left=True)
        if board.references >= FEWEST_PERMUTED:
            p_values = (format_decimals(row.network.permutation if row.network else None, 3) for row in rows)
            add("permutation p", p_values, 4, "perm. p")
    else:
        if controls := max((len(row.beating.against) for row in rows if row.beating), default=0):
            add(
                _BEATS,
                (_format_beats_every_control(table, row) for row in rows),
                short=f"beats all {controls}",
                left=True,
            )
        if board.protocol.random_is_zero:
            add(_BETTER_THAN, (_format_strictest_passed_test(table, row) for row in rows), left=True)
        else:
            add("vs Random", _list_verdicts(table, "random"), short="vs\nRandom", left=True)
        if "sobel" in table.suite_results.suite.controls:  # tabular suites have neither Sobel nor blurred Random
            add("vs Sobel", _list_verdicts(table, "sobel"), 4, "vs\nSobel", left=True)
            add("vs blurred random", _list_verdicts(table, "random-blurred"), 5, "vs blurred\nrandom", left=True)
    for kind in table.twin_kinds:
        differences = (format_interval(row.delta_twins.get(kind, Estimate())) for row in rows)
        add(f"Δ {kind.replace('-', ' ')}", differences, 3.1 if kind == OTHER_IMAGE else 3.3)
        if kind == OTHER_IMAGE and not own_network:
            verdicts = (_format_verdict(table, row, row.get_twin_comparison(kind)) for row in rows)
            add("vs other image", verdicts, 3.2, left=True)
    for i, t in enumerate(board.levels if board.protocol.random_is_zero else ()):
        gains = (table.list_gains_by_level(row)[i] for row in rows)
        texts = (MISSING if gain is None else format_signed(gain) for gain in gains)
        add(f"gain at {t:g}", texts, 3, f"gain\nat {t:g}")
    for i, t in enumerate(board.levels):  # a higher level is worth more
        long, short = ("predictions kept", "kept") if own_network else ("accuracy", "accuracy")
        shares = (format_percent_number(row.accuracies[i].value) for row in rows)
        add(f"{long} at {t:g}", shares, 2 + t, f"{short}\nat {t:g}")
    for t in table.mask_only_levels:
        above = (table.above_masks.get(row.estimator, {}).get(t, Estimate()) for row in rows)
        add(f"above masks at {t:g}", (format_interval(accuracy.in_points) for accuracy in above), 1.7 + t / 10)
    if board.protocol.stores_predicted_probability:
        drops = [table.probability_drops.get(row.estimator) for row in rows]
        add(_AOPC, (format_interval(drop.aopc, "{:.3f}".format) if drop else MISSING for drop in drops), 1.9)
        for i, t in enumerate(board.levels):
            probabilities = (format_decimals(drop.probabilities[i].value, 3) if drop else MISSING for drop in drops)
            add(f"p at {t:g}", probabilities, 1.5 + t / 10)
            changes = (format_decimals(drop.changes[i].value, 3) if drop else MISSING for drop in drops)
            add(f"change at {t:g}", changes, 1.2 + t / 10)
    for metric in () if own_network else table.metrics:  # these columns need scores from `run --with quantus`
        add(metric.heading, (format_decimals(table.get_quantus_scores(row)[metric.id], 3) for row in rows))
    return columns


def _choose_fitting_columns(columns: list[Column], width: int) -> list[Column]:
    while any(column.worth for column in columns):
        if measure_table_width(map(_shorten_heading_and_cells, columns)) <= width:
            break
        least = min((column for column in columns if column.worth), key=lambda column: column.worth)
        columns = [column for column in columns if column is not least]
    return columns


def _shorten_heading_and_cells(column: Column) -> list[str]:
    return [cell.replace(Verdict.SAME, SAME) for cell in (column.short, *column.cells)]


def _format_name(table: SuiteTable, row: Row) -> str:
    name, added = table.display_names[row.estimator], row.estimator in table.suite_results.suite.added
    parts = (name, "(added)" * added, table.format_row_signs(row.estimator))
    return " ".join(filter(None, parts))


def _format_own_network_verdict(table: SuiteTable, row: Row) -> str:
    if row.network is None or row.network.verdict is OwnNetworkVerdict.BY_CONSTRUCTION:
        return row.network.verdict.value if row.network else MISSING
    return table.mark_verdict(row.network.verdict, row.estimator)


def _format_beats_every_control(table: SuiteTable, row: Row) -> str:
    if row.beating:
        return table.mark_verdict(row.beating.verdict_text, row.estimator)
    return "control" if find_estimator(row.estimator).is_control_to_beat else MISSING


def _format_strictest_passed_test(table: SuiteTable, row: Row) -> str:
    """Return the strictest of the tests in `better than` that a row passes, otherwise its comparison with Random."""
    if find_estimator(row.estimator).is_control_to_beat or row.vs_random is None:
        return MISSING
    *_, strictest = ("", *table.list_beaten_control_groups(row))
    return table.mark_verdict(strictest or _COMPARED_WITH_RANDOM[row.vs_random.verdict], row.estimator)


def _list_verdicts(table: SuiteTable, control: str) -> list[str]:
    return [_format_verdict(table, row, row.against.get(control)) for row in table.rows]


def _format_verdict(table: SuiteTable, row: Row, comparison: Comparison | None) -> str:
    return table.mark_verdict(comparison.verdict, row.estimator) if comparison else MISSING


def _transpose_cells(columns: list[Column]) -> Iterator[tuple[str, ...]]:
    return zip(*(column.cells for column in columns), strict=True)


def format_html(table: SuiteTable) -> str:
    """Format the table as HTML with its title and short notes, for notebooks."""
    columns = list_columns(table)
    headings = [(column.short, column.justify) for column in columns]
    return format_html_table(
        _make_title(table), headings, _transpose_cells(columns), summarize_notes(table, NOTES_METHOD)
    )


def format_html_table(
    title: str, headings: Sequence[tuple[str, str]], lines: Iterable[Sequence[str]], notes: Iterable[str]
) -> str:
    """Format a table as HTML with notes below; each heading comes with `left` or `right`, and text is escaped."""
    heads = "".join(f'<th style="text-align:{side}">{escape(heading)}</th>' for heading, side in headings)
    starts = [f'<td style="text-align:{side};white-space:nowrap">' for _, side in headings]
    cells = (zip(starts, map(escape, line), strict=True) for line in lines)
    rows = "".join(f"<tr>{''.join(f'{start}{text}</td>' for start, text in row)}</tr>" for row in cells)
    body = f"<caption>{escape(title)}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    return f"<table>{body}</table><p>{'<br>'.join(map(escape, notes))}</p>"


def wrap_columns(
    columns: Iterable[Iterable[str]], name_column: int, text_columns: Iterable[int], width: int
) -> list[tuple[str, ...]]:
    """Break cells of a table between words until a line of the table fits a width; no number is broken.

    Names are broken first, then other texts from right to left, then names around their parameters and after hyphens.
    A table that still does not fit stays wider than `width`. Each column is given by its heading and cells.
    """
    whole = list(map(tuple, columns))
    wrapped = whole.copy()
    texts = sorted(text_columns, reverse=True)
    for i, boundary in ((name_column, _WORDS), *((i, _WORDS) for i in texts), (name_column, _PARTS)):
        excess = measure_table_width(wrapped) - width
        if excess > 0:
            narrowest = _measure_column(_wrap_cell(cell, 0, boundary) for cell in whole[i])
            target = max(_measure_column(wrapped[i]) - excess, narrowest)
            wrapped[i] = tuple(_wrap_cell(cell, target, boundary) for cell in whole[i])
    return wrapped


def measure_table_width(columns: Iterable[Iterable[str]]) -> int:
    """Return the width of a line: the columns, one space between neighbours, and one at each end."""
    widths = [_measure_column(column) for column in columns]
    return sum(widths) + len(widths) + 1


def _measure_column(cells: Iterable[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _wrap_cell(cell: str, width: int, boundary: re.Pattern[str]) -> str:
    """Break a cell's lines at boundaries; a longer piece stays whole."""
    lines = []
    for line in cell.split("\n"):
        lines.append("")
        for piece in boundary.split(line):
            if lines[-1] and len(lines[-1] + piece) > width:
                lines.append(piece.lstrip())
            else:
                lines[-1] += piece
    return "\n".join(lines)
