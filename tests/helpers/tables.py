"""Tables as a reader and as a program get them."""

import csv
import json
from io import StringIO

from rich.console import Console, RenderableType

from roarbench.analysis.suite_results import SuiteResults
from roarbench.report.table import SuiteTable, make_suite_table
from roarbench.report.table_formats import format_text, render


def make_table(results: SuiteResults, protocol: str = "roar", rows: list[str] | None = None) -> SuiteTable:
    return make_suite_table(results, protocol, None, rows)


def render_text(shown: RenderableType, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width, highlight=False, markup=False)
    console.print(shown, crop=False)
    return console.file.getvalue()


def render_words(table: SuiteTable, width: int = 200) -> str:
    """All that a table says on a terminal of this width, with its notes, in one line."""
    return " ".join(render_text(format_text(table, width, notes=True), width).split())


def parse_rows(table: SuiteTable, style: str = "json") -> dict[str, dict]:
    """The rows of a table as JSON or CSV, by estimator."""
    text = render(table, style)
    rows = json.loads(text)["rows"] if style == "json" else csv.DictReader(StringIO(text))
    return {row["estimator"]: row for row in rows}
