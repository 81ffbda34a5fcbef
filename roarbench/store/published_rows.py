"""Read results from the package's published files without a database.

`published_folder` checks every row of a file before the file is published and listed in the index with its hash. So
only the hash is checked again here. Nothing here imports SQLAlchemy.
"""

import json
from collections.abc import Container, Iterator
from dataclasses import MISSING, fields
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from roarbench.common.enums import MapNumerics
from roarbench.common.errors import StoreError
from roarbench.common.files import compute_sha256
from roarbench.plan.cells_and_runs import Cell, Run, read_cell_record
from roarbench.store.run_result import Provenance, RunResult

_SEED = ',"seed":'  # records are canonical JSON, so every record ends with its seed
_PROVENANCE = ("code_version", "versions", "hardware")
_REPEATED = [*_PROVENANCE, "weights", "rankings"]
_COLUMNS = [
    *("key", "correct", "total", "bits", "seconds", "rankings", "smoothness", "weights", "loss", "created"),
    *_PROVENANCE,
]
_DEFAULTS_OF_RUN = {field.name: field.default for field in fields(Run) if field.default is not MISSING}

Record = TypeVar("Record")


class PublishedRows(NamedTuple):
    """Results of a published file, without probabilities, and the file's notes as JSON values by key."""

    results: list[RunResult]
    notes: dict[bytes, Any]


def read_published_rows(path: Path, sha256: str, seeds: Container[int], notes: tuple[bytes, ...]) -> PublishedRows:
    """Read the rows of a published file that have one of these seeds, and the notes with these keys.

    Raises:
        StoreError: The file has another hash.
    """
    if (seen := compute_sha256(path)) != sha256:
        raise StoreError(f"{path} has the SHA-256 {seen[:12]}…, expected {sha256[:12]}… as in the index")
    with pq.ParquetFile(path, memory_map=True, read_dictionary=_REPEATED) as file:
        metadata = file.schema_arrow.metadata
        records = file.read(["record"], use_threads=False)["record"].to_pylist()
        split = [record.rpartition(_SEED) for record in records]
        kept = [int(seed[:-1]) in seeds for *_, seed in split]  # without `}`
        wanted = [(text, seed) for (text, _, seed), keep in zip(split, kept, strict=True) if keep]
        results = list(_read_results(file, wanted, np.array(kept))) if wanted else []
        return PublishedRows(results, {key: json.loads(metadata[key]) for key in notes if key in metadata})


def _read_results(file: pq.ParquetFile, records: list[tuple[str, str]], kept: NDArray[np.bool_]) -> Iterator[RunResult]:
    table = file.read(_COLUMNS, use_threads=False)
    if not kept.all():
        table = table.filter(pa.array(kept))
    columns = {name: _list_values(table[name].combine_chunks()) for name in _COLUMNS}
    columns["run"] = list(map(_read_run, records, columns.pop("key")))
    columns["created"] = list(map(datetime.fromisoformat, columns["created"]))
    columns["provenance"] = list(map(_parse_provenance, *(columns.pop(name) for name in _PROVENANCE)))
    columns["probability"] = [None] * len(records)
    names = list(columns)
    for values in zip(*columns.values(), strict=True):
        yield _make_checked(RunResult, dict(zip(names, values, strict=True)))


def _list_values(column: pa.Array) -> list[Any]:
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = [*column.dictionary.to_pylist(), None]
    return [values[index] for index in column.indices.fill_null(len(values) - 1).to_pylist()]


def _make_checked(kind: type[Record], values: dict[str, Any]) -> Record:
    """Make a frozen record of all its fields without its checks, which passed before the file was published.

    An ordinary call takes four times as long, and the package has 45,000 results.
    """
    record = object.__new__(kind)
    vars(record).update(values)
    return record


def _read_run(record: tuple[str, str], key: str) -> Run:
    """Return the run of a record that was split at its seed; canonical JSON begins with the cell.

    `key` is the record's hash, which was checked before the file was published.
    """
    text, seed = record
    cell, _, settings = text.partition('},"')
    values = {**_read_settings(settings), "cell": _read_cell(cell), "seed": int(seed[:-1]), "key": key}
    return _make_checked(Run, values)


@lru_cache(10_000)  # many runs have the same cell, or differ in cell and seed alone
def _read_cell(text: str) -> Cell:
    return read_cell_record(json.loads(f"{text}}}}}")["cell"])


@lru_cache(10_000)
def _read_settings(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = _DEFAULTS_OF_RUN | json.loads(f'{{"{text}}}')
    return settings | {"maps": MapNumerics(settings["maps"])}


@lru_cache(256)
def _parse_provenance(code_version: str, versions: str, hardware: str) -> Provenance:
    return Provenance(code_version, json.loads(versions), json.loads(hardware))
