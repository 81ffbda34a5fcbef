"""The table of a suite as HTML, for a notebook's cell."""

from html import escape

from roarbench.report.table import SuiteTable
from roarbench.report.table_formats import columns_of
from roarbench.report.table_notes import remarks


def as_html(table: SuiteTable) -> str:
    """Return the table as HTML with its caption; all that somebody wrote is text."""
    columns = columns_of(table)
    heads = "".join(f'<th style="text-align:{column.justify}">{escape(column.short)}</th>' for column in columns)
    lines = zip(*(column.cells for column in columns), strict=True)
    rows = "".join(f"<tr>{''.join(map(_cell, line, (column.justify for column in columns)))}</tr>" for line in lines)
    title, notes = (
        escape(table.suite_results.title),
        escape(f"{table.caption}. {remarks(table)} {table.falling}".rstrip()),
    )
    return (
        f"<table><caption>{title}</caption><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table><p>{notes}</p>"
    )


def _cell(text: str, side: str) -> str:
    return f'<td style="text-align:{side}">{escape(text)}</td>'
