"""Write a table for a terminal, as Markdown, HTML, JSON, CSV or data frame; no number is cut or broken."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

from roarbench.common.text import format_markdown_table, format_records_as_csv
from roarbench.report.table_record import ROW_KEY, WORTH_WRAPPING, Column, Table

if TYPE_CHECKING:  # pages need neither pandas nor rich, which are imported at first use
    import pandas
    from rich.console import Group
    from rich.padding import PaddingDimensions
    from rich.table import Table as RichTable

_CAPTION_WIDTH = 80  # maximum width of a caption, in characters
# boundaries at which cells of a terminal table are broken
_WORDS = re.compile(r"(?= )|(?=~)")  # before blanks and twins' suffixes
_PARAMETERS = re.compile(rf"{_WORDS.pattern}|(?<=\w)(?=\()")  # also before parameters
# also between parameters, after hyphens and before signs such as (!!)
_PARTS = re.compile(rf"{_PARAMETERS.pattern}|(?<=,)|(?<=-)|(?=\N{{NO-BREAK SPACE}})")


def format_text(table: Table, width: int, notes: bool = False) -> "RichTable | Group":
    """Format a table for a terminal of this width, in characters.

    If a line does not fit, columns are left out, then texts become `Column.narrow`; in a table of several gains,
    texts are shortened first.

    The short notes follow or, if `notes`, all notes, with the names of omitted columns.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table as RichTable
    from rich.text import Text

    table = table.leave_out_empty_checks()
    columns = list(table.texts)
    if table.parts and measure_table_width(column.terminal_cells for column in columns) > width:
        columns = _use_narrow_texts(columns)
    while droppable := [column for column in columns if column.worth]:  # columns of low worth are dropped first
        least = min(droppable, key=lambda column: column.worth)
        unbroken = [column.terminal_cells for column in columns]
        if measure_table_width(wrap_columns(columns, width) if least.worth >= WORTH_WRAPPING else unbroken) <= width:
            break
        columns.remove(least)
    if measure_table_width(wrap_columns(columns, width)) > width:
        columns = _use_narrow_texts(columns)
    lines = list_all_notes(table, columns) if notes else table.notes
    wrapped = wrap_columns(columns, width)
    shown = RichTable(title=table.title, box=SIMPLE_HEAD, padding=0, width=measure_table_width(wrapped))
    for column, (heading, *_) in zip(columns, wrapped, strict=True):
        shown.add_column(heading, justify=column.side, no_wrap=True)
    for number in range(len(table.names)):
        if number in table.sections:
            shown.add_section()
        cells = (column[number + 1] for column in wrapped)  # after the heading
        shown.add_row(*cells, style="dim" if number in table.dim else "")
    if table.parts:
        return Group(shown, *(Text(line, style="table.caption") for line in lines))
    shown.caption, shown.caption_justify = "\n".join(lines), "left"
    shown.width = max(min(width, _CAPTION_WIDTH), shown.width or 0)
    return shown


def _use_narrow_texts(columns: Iterable[Column]) -> list[Column]:
    return [replace(column, texts=column.narrow or column.texts) for column in columns]


def format_list(table: Table, padding: "PaddingDimensions" = 0, **look: Any) -> "RichTable":
    """Format a table for a terminal with all its columns: texts are wrapped, numbers stay whole."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table as RichTable

    shown = RichTable(title=table.title or None, box=SIMPLE_HEAD, padding=padding, **look)
    for column in table.texts:
        shown.add_column(column.heading, justify=column.side, no_wrap=column.side == "right", overflow="fold")
    for number, line in enumerate(table.lines):
        if number in table.sections:
            shown.add_section()
        shown.add_row(*line)
    if table.notes:
        shown.caption, shown.caption_justify = "\n".join(table.notes), "left"
    return shown


def list_all_notes(table: Table, shown: Sequence[Column]) -> list[str]:
    """Return all notes of a table, with sentences on the shown columns, and the names of the others."""
    sentences = [*dict.fromkeys(column.about for column in shown if column.about), table.last_note]
    headings = {column.heading for column in shown}
    omitted = ", ".join(column.heading for column in table.texts if column.heading not in headings)
    about_omitted = f"Columns not shown: {omitted} (--format csv has all)." if omitted else ""
    notes = (*table.all_notes, " ".join(filter(None, sentences)), *table.notes_after_columns, about_omitted)
    return list(filter(None, notes))


def render(table: Table, style: str, notes: bool = False) -> str:
    """Write a table as `json`, `csv` or `markdown`; Markdown ends with the short notes or, if `notes`, all notes."""
    if style == "json":
        return format_json(table)
    if style == "csv":
        return format_csv(table)
    table = table.leave_out_empty_checks()
    headings = [column.heading for column in table.texts]
    lines = table.lines
    if table.name_texts:
        at = headings.index(ROW_KEY)
        lines = [(*line[:at], name, *line[at + 1 :]) for line, name in zip(lines, table.name_texts, strict=True)]
    shown = (*table.all_notes, *table.notes_after_columns) if notes else table.notes
    paragraphs = shown if table.parts else (" ".join(filter(None, shown)),)
    return "\n\n".join((f"**{table.title}**", format_markdown_table(headings, lines), *paragraphs))


def format_html(table: Table) -> str:
    """Write a table as HTML with its title and short notes, for notebooks; text is escaped."""
    table = table.leave_out_empty_checks()
    columns = table.texts
    heads = "".join(
        f'<th style="text-align:{column.side}">{escape(column.short or column.heading)}</th>' for column in columns
    )
    starts = [f'<td style="text-align:{column.side};white-space:nowrap">' for column in columns]
    rows = "".join(
        f"<tr>{''.join(f'{start}{escape(text)}</td>' for start, text in zip(starts, line, strict=True))}</tr>"
        for line in table.lines
    )
    body = f"<caption>{escape(table.title)}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    return f"<table>{body}</table><p>{'<br>'.join(map(escape, table.notes))}</p>"


def format_plain_text(table: Table) -> str:
    """Format a table as lines without a frame, whatever their width, with the short notes below."""
    from rich.cells import cell_len, set_cell_size

    columns = [(column.heading, *column.texts) for column in table.texts]
    widths = [max(map(cell_len, column)) for column in columns]  # a Chinese letter is two cells wide
    lines = ("  ".join(map(set_cell_size, line, widths)).rstrip() for line in zip(*columns, strict=True))
    return "\n".join([*lines, *table.notes])


def format_json(table: Table) -> str:
    """Write an object with what the rows share and the list `rows`, one line per row; missing values are null."""
    write_compactly = partial(json.dumps, separators=(",", ":"))
    rows = ",\n".join(map(write_compactly, table.plain_rows))
    return f'{write_compactly(table.shared)[:-1]},"rows":[\n{rows}\n]}}'


def format_csv(*tables: Table) -> str:
    """Write the rows of tables as CSV with a header of all names; missing values are empty."""
    rows = [row for table in tables for row in table.flat_rows]
    names = dict.fromkeys(name for row in rows for name in row)
    return format_records_as_csv([{name: row.get(name) for name in names} for row in rows]).rstrip("\n")


def make_data_frame(table: Table, names: Mapping[str, str] | None = None) -> "pandas.DataFrame":
    """Return the rows as a data frame; if given, `names` by id are its first column. `attrs` has what rows share."""
    import pandas

    frame = pandas.DataFrame(table.flat_rows)
    if names is not None and table.names:
        frame.insert(0, "name", [names.get(name, name) for name in table.names])
    missing = [name for name in frame if frame[name].isna().all() and name not in table.word_keys]
    frame = frame.astype(dict.fromkeys(missing, float))
    frame.attrs.update(table.shared)
    return frame


def wrap_columns(columns: Sequence[Column], width: int) -> list[tuple[str, ...]]:
    """Break cells of a table between words until a line of the table fits a width; no number is broken.

    Names are broken first, then other texts from right to left, then names and texts at `_PARTS`.
    A table that still does not fit stays wider than `width`. Each column is returned as its heading and cells.
    """
    whole = [column.terminal_cells for column in columns]
    wrapped = whole.copy()
    at = next(i for i, column in enumerate(columns) if column.key == ROW_KEY)
    texts = [i for i, column in enumerate(columns) if column.side == "left" and i != at]
    names = [(at, boundary) for boundary in (_WORDS, _PARAMETERS, _PARTS)]
    words, parts = ([(i, boundary) for i in reversed(texts)] for boundary in (_WORDS, _PARTS))
    for i, boundary in (*names[:2], *words, names[2], *parts):
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
