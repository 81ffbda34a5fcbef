"""The table of two questions in its formats; what is not run is no dash."""

import json
from html import escape
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from roarbench.estimators.catalogue import find_estimator
from roarbench.report.combined_table import HEADINGS, NOT_RUN, TwoQuestions
from roarbench.report.latex import format_latex_table
from roarbench.report.table import SuiteTable
from roarbench.report.table_values import list_flat_rows, list_shared_values, make_plain_row
from roarbench.text import format_markdown_table, format_records_as_csv


def render_both(table: TwoQuestions, style: str, notes: bool = False) -> str:
    """Return the table as `json`, `csv`, `markdown` or `latex`; the last two with three lines of notes or all."""
    if style == "json":
        return json.dumps(list_values_of_both(table) | {"rows": nest_rows(table)}, indent=1)
    if style == "csv":
        return format_records_as_csv(flatten_rows(table)).rstrip("\n")
    said = table.all_notes if notes else table.notes
    if style == "latex":
        sides = {heading: "r" if "gain" in heading else "l" for heading in HEADINGS}
        return format_latex_table(sides, table.rows, " ".join((f"{table.title}.", *said)))
    return "\n\n".join((f"**{table.title}**", format_markdown_rows(table), *said))


def _parts(table: TwoQuestions) -> dict[str, SuiteTable]:
    """Return both tables by what groups and columns are called."""
    return {"roar": table.roar, "own_network": table.own}


def list_values_of_both(table: TwoQuestions) -> dict[str, Any]:
    """Return what the rows share as plain values, that of each table in its group."""
    suite = table.roar.suite_results.suite
    of_each = {name: list_shared_values(each) for name, each in _parts(table).items()}
    return {"suite": suite.name, "version": suite.version, **of_each}


def nest_rows(table: TwoQuestions) -> list[dict[str, Any]]:
    """Return the rows as plain values, that of each table in its group; None where it is not run."""
    found = {
        part: {row.estimator: make_plain_row(each, row) for row in each.rows} for part, each in _parts(table).items()
    }
    return [
        {"estimator": name, "control": find_estimator(name).control}
        | {part: rows.get(name) for part, rows in found.items()}
        for name in table.names
    ]


def flatten_rows(table: TwoQuestions) -> list[dict[str, Any]]:
    """Return the rows without groups: columns `roar_…` and `own_network_…`, and whether each is run."""
    parts = {part: {row["estimator"]: row for row in list_flat_rows(each)} for part, each in _parts(table).items()}
    lines = [{"estimator": name, "control": find_estimator(name).control} for name in table.names]
    for part, rows in parts.items():
        keys = [key for key in next(iter(rows.values()), {}) if key not in ("estimator", "protocol")]
        for line in lines:
            row = rows.get(line["estimator"])
            line[part] = NOT_RUN if row is None else "run"
            line |= {f"{part}_{key}": row and row[key] for key in keys}
    return lines


def format_text(table: TwoQuestions, notes: bool = False) -> Group:
    """Return the table for a terminal, with three lines of notes or all below it; no number is cut."""
    shown = Table(title=table.title, box=SIMPLE_HEAD, padding=0)
    shown.width = sum(max(map(len, column)) + 1 for column in zip(HEADINGS, *table.rows, strict=True)) + 1
    for heading in HEADINGS:
        shown.add_column(heading, justify="right" if "gain" in heading else "left", no_wrap=True)
    for name, cells in zip(table.names, table.rows, strict=True):
        shown.add_row(*cells, style="dim" if find_estimator(name).control else "")
    said = table.all_notes if notes else table.notes
    return Group(shown, *(Text(line, style="table.caption") for line in said))


def format_html(table: TwoQuestions) -> str:
    """Return the table as HTML with its notes; all that somebody wrote is text."""
    heads = "".join(f"<th>{escape(heading)}</th>" for heading in HEADINGS)
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in table.rows)
    body = f"<caption>{escape(table.title)}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody>"
    return f"<table>{body}</table><p>{escape(' '.join(table.notes))}</p>"


def format_markdown_rows(table: TwoQuestions) -> str:
    """Return the rows as a Markdown table, names as code and without signs."""
    lines = zip(table.names, table.rows, strict=True)
    return format_markdown_table(HEADINGS, [(f"`{table.called[name]}`", *cells) for name, (_, *cells) in lines])
