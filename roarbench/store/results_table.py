"""All rows of a store as a table for a spreadsheet, to be looked at and not read back; docs/words.md has its columns.

What is left out are the answers to single images and the sources of submissions; `transfer` carries them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import select

from roarbench.files import write_new
from roarbench.identity import encode_canonically
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import read_run
from roarbench.store.schema import results
from roarbench.store.submissions import Origin, read_origins
from roarbench.text import write_csv

_OF_RUN = ("key", "dataset", "model", "estimator", "order", "retrain", "fill", "unit", "t", "seed", "recipe", "data")
_OF_OUTCOME = ("correct", "total", "seconds", "rankings", "smoothness", "weights", "loss", "created", "code_version")
_NAMES = (*_OF_RUN, "estimator_fingerprint", "reference", *_OF_OUTCOME, "versions", "hardware")
_BATCH = 1_000  # rows that are in memory at once


def list_results(store: ResultsStore, path: Path) -> int:
    """Write a line for every result of a store into a CSV file; the number of lines.

    Raises:
        CallerError: The file is there already.
        StoreError: It cannot be written.
    """

    def write(temporary: Path) -> int:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            return write_csv(file, _lines(store))

    return write_new(path, write)


def _lines(store: ResultsStore) -> Iterator[dict[str, Any]]:
    columns = [results.c[name] for name in (*_NAMES, "record")]
    wanted = select(*columns).order_by("key").execution_options(yield_per=_BATCH)
    with store.database.read() as connection:
        for rows in connection.execute(wanted).partitions():
            vouched = read_origins(store.database, [row.key for row in rows])
            yield from (_line(row, vouched[row.key]) for row in rows)


def _line(row: Any, origin: Origin) -> dict[str, Any]:
    run = read_run(row)
    values: dict[str, Any] = dict(zip(_NAMES, row, strict=False))  # the record comes after them
    values |= {name: encode_canonically(values[name]) for name in ("versions", "hardware")}
    values |= {"limit": run.limit, "given": run.given, "maps": run.maps.value, "created": row.created.isoformat()}
    return values | {"accuracy": row.correct / row.total, "origin": origin.value}
