"""Read results from the package's published files without a database.

`published_folder` checks every row of a file before the file is published and listed in the index with its hash. So
only the hash is checked again here. Nothing here imports SQLAlchemy.
"""

import hashlib
import json
from collections.abc import Container, Iterable, Iterator
from itertools import compress, repeat
from pathlib import Path
from typing import Any, NamedTuple

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
# fields of every run, with interned names, which are found faster; fields that it lacks have their defaults
_RUN = dict.fromkeys(("cell", "seed", "recipe", "data", "estimator", "reference", "key"))


class PublishedRows(NamedTuple):
    """Results of a published file by cell and seed, and the file's notes as JSON values by key.

    Results have what gains need: no probabilities, smoothness and losses, whose columns would take a tenth more time;
    `seconds`, `created` and `provenance` raise AttributeError.
    """

    results: dict[Cell, dict[int, RunResult]]
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
        parts = [*map(str.rpartition, table["record"].to_pylist(), repeat(_SEED))]
        kept = [int(seed[:-1]) in seeds for _, _, seed in parts]
        if not all(kept):
            table, parts = table.filter(pa.array(kept)), [*compress(parts, kept)]
        results = _read_results(table, parts) if parts else {}
        return PublishedRows(results, {key: json.loads(metadata[key]) for key in notes if key in metadata})


def _read_results(table: pa.Table, parts: list[tuple[str, str, str]]) -> dict[Cell, dict[int, RunResult]]:
    """Return the results of records that were split at their seeds."""
    columns = [_list_values(table[name].combine_chunks()) for name in _COLUMNS]
    heads, _, seeds = zip(*parts, strict=True)
    # canonical JSON begins with the cell; many runs have the same cell, or differ in cell and seed alone
    cell_texts, _, rests = zip(*map(str.partition, heads, repeat('},"')), strict=True)
    make, fill, cells = object.__new__, object.__setattr__, dict[str, tuple[Cell, dict[int, RunResult]]]()
    for text, values in _parse_distinct(cell_texts, "", "}}"):
        cells[text] = make(Cell), {}
        fill(cells[text][0], "__dict__", convert_enums(values["cell"]))
    settings = {
        text: {**_RUN, **values, "maps": _MAPS[values.get("maps", MapNumerics.FLOAT32)]}
        for text, values in _parse_distinct(rests, '{"', "}")
    }
    # frozen records are made without their checks, which passed before the file was published: ordinary calls take four
    # times as long, and the package has 45,000 results
    rows = zip(cell_texts, rests, seeds, *columns, strict=True)
    for text, rest, digits, key, correct, total, bits, rankings, weights in rows:
        (cell, by_seed), run, result, values = cells[text], make(Run), make(RunResult), settings[rest].copy()
        values["cell"], values["seed"], values["key"] = cell, int(digits[:-1]), key
        fill(run, "__dict__", values)
        by_seed[values["seed"]] = result
        named = {"run": run, "correct": correct, "total": total, "bits": bits, "rankings": rankings, "weights": weights}
        fill(result, "__dict__", named)
    return dict(cells.values())


def _list_values(column: pa.Array) -> list[Any]:
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = [*column.dictionary.to_pylist(), None]
    return [values[index] for index in column.indices.fill_null(len(values) - 1).to_pylist()]


def _parse_distinct(texts: Iterable[str], head: str, tail: str) -> Iterator[tuple[str, Any]]:
    """Yield each distinct text with the value of the JSON text that it becomes between `head` and `tail`."""
    distinct = list(dict.fromkeys(texts))
    return zip(distinct, json.loads(f"[{','.join(f'{head}{text}{tail}' for text in distinct)}]"), strict=True)
