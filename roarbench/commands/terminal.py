"""Where commands print: what was asked for on standard output, all else beside it."""

from typing import TYPE_CHECKING

from rich.console import Console

from roarbench.options import Format

if TYPE_CHECKING:
    from roarbench.tables import ShownTable

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)


def print_table(shown: "ShownTable", format: Format) -> None:
    """Print a table, on a terminal as wide as that is."""
    from roarbench import tables

    if format is Format.TEXT:
        out.print(tables.as_text(shown, out.width), crop=False)
    else:
        print(tables.render(shown, format))
