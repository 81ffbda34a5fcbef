"""Where commands print: what was asked for on standard output, all else beside it."""

import os
from typing import TYPE_CHECKING

from rich.console import Console

from roarbench.errors import CallerError
from roarbench.options import Format

if TYPE_CHECKING:
    from roarbench.tables import ShownTable

out = Console(highlight=False, markup=False)
err = Console(stderr=True, highlight=False, markup=False)
_WIDTHS = range(20, 1001)  # columns: in fewer no column of a table is whole, and help is padded to all of them


def check_width() -> None:
    """Refuse a width that no terminal has, which the environment may name; rich and typer would take it.

    Raises:
        CallerError: It does.
    """
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        said = os.environ.get(name, "")
        if said and not (said.isdecimal() and len(said) < 5 and int(said) in _WIDTHS):
            seen = f"the environment's {name} is {said[:20]}"
            raise CallerError(f"{seen}, expected {_WIDTHS.start} to {_WIDTHS.stop - 1}; unset {name}")


def print_table(shown: "ShownTable", format: Format) -> None:
    """Print a table, on a terminal as wide as that is."""
    from roarbench import tables

    if format is Format.TEXT:
        out.print(tables.as_text(shown, out.width), crop=False)
    else:
        print(tables.render(shown, format))
