"""Break long cells of a table on a terminal between words, so that they continue on the next line."""

import re
from collections.abc import Iterable, Sequence

_WORDS = re.compile(r"(?= )|(?=~)")  # before blanks and twins' suffixes
_PARTS = re.compile(rf"{_WORDS.pattern}|(?<=\w)(?=\()|(?<=,)|(?<=-)")  # also around parameters and after hyphens
_LETTERS = re.compile(r"(?<=.)")
_LEAST = 14  # minimum width of a name that is broken within words


def wrap_columns(
    columns: Sequence[Sequence[str]], name_column: int, text_columns: Iterable[int], width: int
) -> list[tuple[str, ...]]:
    """Break cells of a table between words until a line of the table fits a width; no number is broken.

    Names are broken first, then other texts from right to left, then names around their parameters and after hyphens,
    then names within words. A table that still does not fit stays wider than `width`.

    Args:
        columns: The cells of each column, its heading among them; a cell may have several lines.
        name_column: The index of the column of estimators' names.
        text_columns: The indices of other columns that may break.
        width: Width of the terminal, in characters.
    """
    wrapped = [tuple(column) for column in columns]
    steps = [(name_column, _WORDS, 0), *((i, _WORDS, 0) for i in sorted(text_columns, reverse=True))]
    steps += [(name_column, _PARTS, 0), (name_column, _LETTERS, _LEAST)]
    for i, boundary, least in steps:
        excess = measure_table_width(wrapped) - width
        if excess > 0:
            narrowest = _measure_column(_wrap(cell, least, boundary) for cell in columns[i])
            target = max(_measure_column(wrapped[i]) - excess, narrowest)
            wrapped[i] = tuple(_wrap(cell, target, boundary) for cell in columns[i])
    return wrapped


def measure_table_width(columns: Iterable[Iterable[str]]) -> int:
    """Return the width of a line: the columns, one space between neighbours, and one at each end."""
    widths = [_measure_column(column) for column in columns]
    return sum(widths) + len(widths) + 1


def _measure_column(cells: Iterable[str]) -> int:
    return max(len(line) for cell in cells for line in cell.split("\n"))


def _wrap(cell: str, width: int, boundary: re.Pattern[str]) -> str:
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
