"""Read results from the package's published files without a database.

`published_folder` checks every row of a file before the file is published and listed in the index with its hash. So
only the hash is checked again here. Nothing here imports SQLAlchemy.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator
from itertools import compress, repeat
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from roarbench.common.enums import MapNumerics
from roarbench.common.errors import StoreError
from roarbench.common.files import convert_read_errors
from roarbench.plan.cells_and_runs import Cell, Run, convert_enums
from roarbench.store.run_result import RunResult

_SEED = ',"seed":'  # records are canonical JSON, so every record ends with its seed
_COLUMNS = ["key", "correct", "total", "bits", "rankings", "weights"]
_REPEATED = ["rankings", "weights"]
_MAPS = {maps.value: maps for maps in MapNumerics}

Record = TypeVar("Record")


class PublishedRows(NamedTuple):
    """Results of a published file, and the file's notes as JSON values by key.

    Results have what gains need: no probabilities, smoothness and losses, whose columns would take a tenth more time;
    `seconds`, `created` and `provenance` raise AttributeError.
    """

    results: list[RunResult]
    notes: dict[bytes, Any]


def read_published_rows(path: Path, sha256: str, seeds: Container[int], notes: tuple[bytes, ...]) -> PublishedRows:
    """Read the rows of a published file that have one of these seeds, and the notes with these keys.

    Raises:
        StoreError: The file has another hash.
    """
    with convert_read_errors(path):
        content = path.read_bytes()  # no memory map: the file may change after its hash was checked
    if (seen := hashlib.sha256(content).hexdigest()) != sha256:
        raise StoreError(f"{path} has the SHA-256 {seen[:12]}…, expected {sha256[:12]}… as in the index")
    with pq.ParquetFile(pa.BufferReader(content), read_dictionary=_REPEATED) as file:
        metadata = file.metadata.metadata
        table = file.read(["record", *_COLUMNS], use_threads=False)
        records = [*map(str.rpartition, table["record"].to_pylist(), repeat(_SEED))]
        numbers = [int(seed[:-1]) for _, _, seed in records]
        kept = [number in seeds for number in numbers]
        results = _read_results(table, records, numbers, kept) if any(kept) else []
        return PublishedRows(results, {key: json.loads(metadata[key]) for key in notes if key in metadata})


def _read_results(
    table: pa.Table, records: list[tuple[str, str, str]], seeds: list[int], kept: list[bool]
) -> list[RunResult]:
    """Return the results of the kept records, which were split at their seeds."""
    if not all(kept):
        table = table.filter(pa.array(kept))
    columns = {name: _list_values(table[name].combine_chunks()) for name in _COLUMNS}
    keys = columns.pop("key")  # hashes of the records, which were checked before the file was published
    # canonical JSON begins with the cell; many runs have the same cell, or differ in cell and seed alone
    parts = [*map(str.partition, (text for text, _, _ in compress(records, kept)), repeat('},"'))]
    read = {text: values["cell"] for text, values in _parse_distinct((cell for cell, _, _ in parts), "", "}}")}
    cells = dict(zip(read, _make_checked(Cell, map(convert_enums, read.values())), strict=True))
    settings = {
        text: {**values, "maps": _MAPS[values.get("maps", MapNumerics.FLOAT32)]}
        for text, values in _parse_distinct((rest for _, _, rest in parts), '{"', "}")
    }
    runs = _make_checked(Run, (
        {**settings[rest], "cell": cells[cell], "seed": seed, "key": key}
        for (cell, _, rest), seed, key in zip(parts, compress(seeds, kept), keys, strict=True)
    ))  # fmt: skip
    return _make_checked(RunResult, (  # a dict whose keys are written here is made twice as fast as of two sequences
        {"run": run, "correct": correct, "total": total, "bits": bits, "rankings": rankings, "weights": weights}
        for run, correct, total, bits, rankings, weights in zip(runs, *columns.values(), strict=True)
    ))  # fmt: skip


def _list_values(column: pa.Array) -> list[Any]:
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = [*column.dictionary.to_pylist(), None]
    return [values[index] for index in column.indices.fill_null(len(values) - 1).to_pylist()]


def _make_checked(kind: type[Record], values: Iterable[dict[str, Any]]) -> list[Record]:
    """Make frozen records without their checks, which passed before the file was published.

    Fields that `values` lacks have their defaults, if they have one. Ordinary calls take four times as long, and the
    package has 45,000 results.
    """
    records = list[Record]()
    for fields in values:  # generated one by one, so a record and its values lie side by side in memory
        record = object.__new__(kind)
        object.__setattr__(record, "__dict__", fields)
        records.append(record)
    return records


def _parse_distinct(texts: Iterable[str], head: str, tail: str) -> Iterator[tuple[str, Any]]:
    """Yield each distinct text with the value of the JSON text that it becomes between `head` and `tail`."""
    distinct = list(dict.fromkeys(texts))
    return zip(distinct, json.loads(f"[{','.join(f'{head}{text}{tail}' for text in distinct)}]"), strict=True)
