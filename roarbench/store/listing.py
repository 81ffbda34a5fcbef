"""All rows of a store as a table for a spreadsheet, to be looked at and not read back; docs/words.md has its columns.

What is left out are the answers to single images and the sources of submissions; `exchange` carries them.
"""

from pathlib import Path
from typing import Any

from roarbench.files import write_new
from roarbench.identity import canonical
from roarbench.store.entries import Origin, origins
from roarbench.store.result import Result, row_of
from roarbench.store.results import ResultsStore
from roarbench.text import to_csv

_LEFT_OUT = ("record", "bits", "probability")  # the first is in the columns, the others are no text


def list_results(store: ResultsStore, path: Path) -> int:
    """Write a line for every result of a store into a CSV file; the number of lines.

    Raises:
        CallerError: The file is there already.
        StoreError: It cannot be written.
    """
    found = store.results(store.keys(""))
    vouched = origins(store.database, found)
    lines = [_line(found[key], vouched[key]) for key in sorted(found)]
    write_new(path, lambda temporary: temporary.write_text(to_csv(lines), "utf-8"))
    return len(lines)


def _line(result: Result, origin: Origin) -> dict[str, Any]:
    row, run = row_of(result), result.run
    values = {name: value for name, value in row.items() if name not in _LEFT_OUT}
    values |= {name: canonical(row[name]) for name in ("versions", "hardware")}
    values |= {"limit": run.limit, "given": run.given, "maps": run.maps.value, "created": result.created.isoformat()}
    return values | {"accuracy": result.correct / result.total, "origin": origin.value}
