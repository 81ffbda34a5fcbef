"""CSV that opens safely in a spreadsheet, which computes a text that begins like a formula."""

import csv
import io
from collections.abc import Mapping, Sequence

_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # OWASP, "CSV Injection"


def to_csv(rows: Sequence[Mapping[str, object]]) -> str:
    """Records of the same names as CSV, with a line of these names; None is empty.

    A text that a spreadsheet would compute gets an apostrophe in front, which it takes for "this is text".
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _harmless(value) for name, value in row.items()} for row in rows)
    return text.getvalue()


def _harmless(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
