"""Write results as CSV, without the correctness on single images and the sources of submissions."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import select

from roarbench.common.files import write_new_file
from roarbench.common.identity import encode_canonically
from roarbench.common.text import write_csv
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import read_run
from roarbench.store.schema import results
from roarbench.store.submissions_and_annotations import Origin, read_origins

_OF_RUN = ("key", "dataset", "model", "estimator", "order", "retrain", "fill", "unit", "t", "seed", "recipe", "data")
_OF_OUTCOME = ("correct", "total", "seconds", "rankings", "smoothness", "weights", "loss", "created", "code_version")
_NAMES = (*_OF_RUN, "estimator_fingerprint", "reference", *_OF_OUTCOME, "versions", "hardware")
_ROWS_AT_ONCE = 1_000  # maximum rows in memory


def write_results_csv(store: ResultsStore, path: Path) -> int:
    """Write a line for every result of a store to a new CSV file; return the number of lines."""

    def write(temporary: Path) -> int:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            return write_csv(file, _list_csv_records(store))

    return write_new_file(path, write)


def _list_csv_records(store: ResultsStore) -> Iterator[dict[str, Any]]:
    columns = [results.c[name] for name in (*_NAMES, "record")]
    wanted = select(*columns).order_by("key").execution_options(yield_per=_ROWS_AT_ONCE)
    with store.database.begin_read() as connection:
        for rows in connection.execute(wanted).partitions():
            vouched = read_origins(store.database, [row.key for row in rows])
            yield from (_make_csv_record(row, vouched[row.key]) for row in rows)


def _make_csv_record(row: Any, origin: Origin) -> dict[str, Any]:
    run = read_run(row)
    values: dict[str, Any] = dict(zip(_NAMES, row, strict=False))  # `row` has one column more than `_NAMES`: `record`
    values |= {name: encode_canonically(values[name]) for name in ("versions", "hardware")}
    values |= {"limit": run.limit, "given": run.given, "maps": run.maps.value, "created": row.created.isoformat()}
    return values | {"accuracy": row.correct / row.total, "origin": origin.value}
