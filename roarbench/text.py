"""Numbers in words, and CSV that opens safely in a spreadsheet, which computes a text that begins like a formula."""

import csv
import io
from collections.abc import Mapping, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # OWASP, "CSV Injection"


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Write records of the same names as CSV, with a line of these names; None is empty.

    A text that a spreadsheet would compute gets an apostrophe in front, which it takes for "this is text".
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def counted(count: int, what: str) -> str:
    """Write a number of things in words: `no results`, `1 result`, `1,234 results`."""
    return f"{count or 'no':{',' if count else ''}} {what}{'s' * (count != 1)}"


def duration(seconds: float) -> str:
    """Write seconds in words: `40 s`, `7 min`, `3.5 h`, `5,933 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def size(count: float) -> str:
    """Write bytes in words: `48 kB`, `926 MB`, `1.4 GB`, `2.0 TB`."""
    if count < 1e6:
        return f"{count / 1e3:.0f} kB"
    if count < 1e9:
        return f"{count / 1e6:.0f} MB"
    return f"{count / 1e9:.1f} GB" if count < 1e12 else f"{count / 1e12:.1f} TB"
