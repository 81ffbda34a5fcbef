"""Tables of results in every format, as commands and notebooks show them."""

from roarbench.report import table_renderers
from roarbench.report.combined_table import CombinedTable, present
from roarbench.report.table import SuiteTable
from roarbench.report.table_record import Column


def render(table: SuiteTable | CombinedTable, style: str, notes: bool = False) -> str:
    return table_renderers.render(present(table), style, notes)


def format_text(table: SuiteTable | CombinedTable, width: int, notes: bool = False):
    return table_renderers.format_text(present(table), width, notes)


def format_html(table: SuiteTable | CombinedTable) -> str:
    return table_renderers.format_html(present(table, in_python=True))


def list_columns(table: SuiteTable | CombinedTable) -> list[Column]:
    """The columns with texts."""
    return present(table).texts
