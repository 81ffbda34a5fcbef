"""Read results from the package's published files without a database.

`published_folder` checks every row of a file before the file is published and listed in the index with its hash. So
only the hash is checked again here. Nothing here imports SQLAlchemy.
"""

import json
from collections.abc import Container, Iterator
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roarbench.common.enums import MapNumerics
from roarbench.common.errors import StoreError
from roarbench.common.files import compute_sha256
from roarbench.plan.cells_and_runs import Cell, Run, read_cell_record
from roarbench.store.run_result import Provenance, RunResult

# a quotation mark inside of a text has a backslash, so no text of a record matches
_SEED = r'[{,]"seed":(?P<seed>[0-9]+)[,}]'
_PROVENANCE = ("code_version", "versions", "hardware")
_REPEATED = [*_PROVENANCE, "weights", "rankings"]
_COLUMNS = [
    *("key", "correct", "total", "bits", "seconds", "rankings", "smoothness", "weights", "loss", "created"),
    *_PROVENANCE,
]


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
        records = file.read(["record"], use_threads=False)["record"].combine_chunks()
        found = pc.extract_regex(records, _SEED).field("seed").to_pylist()
        wanted = pa.array([int(seed) in seeds for seed in found])
        results = list(_read_results(file, records.filter(wanted), wanted)) if wanted.true_count else []
        return PublishedRows(results, {key: json.loads(metadata[key]) for key in notes if key in metadata})


def _read_results(file: pq.ParquetFile, records: pa.StringArray, wanted: pa.BooleanArray) -> Iterator[RunResult]:
    table = file.read(_COLUMNS, use_threads=False).filter(wanted)
    columns = {name: _list_values(table[name].combine_chunks()) for name in _COLUMNS}
    runs = map(_read_run, records.to_pylist(), columns.pop("key"))
    created = map(datetime.fromisoformat, columns.pop("created"))
    origins = map(_parse_provenance, *(columns.pop(name) for name in _PROVENANCE))
    names = list(columns)
    for run, origin, moment, *outcome in zip(runs, origins, created, *columns.values(), strict=True):
        yield RunResult(run=run, provenance=origin, created=moment, **dict(zip(names, outcome, strict=True)))


def _list_values(column: pa.Array) -> list[Any]:
    if not pa.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = [*column.dictionary.to_pylist(), None]
    return [values[index] for index in column.indices.fill_null(len(values) - 1).to_pylist()]


def _read_run(record: str, key: str) -> Run:
    """Return the run of a record: canonical JSON, which begins with the cell and ends with the seed."""
    cell, _, others = record.partition('},"')
    settings, _, seed = others.rpartition(',"seed":')
    run = Run(cell=_read_cell(cell), seed=int(seed.removesuffix("}")), **_read_settings(settings))
    vars(run)["key"] = key  # its hash was checked before the file was published
    return run


@lru_cache(10_000)  # many runs have the same cell, or differ in cell and seed alone
def _read_cell(text: str) -> Cell:
    return read_cell_record(json.loads(f"{text}}}}}")["cell"])


@lru_cache(10_000)
def _read_settings(text: str) -> dict[str, Any]:
    settings: dict[str, Any] = json.loads(f'{{"{text}}}')
    return settings | {"maps": MapNumerics(settings["maps"])} if "maps" in settings else settings


@lru_cache(256)
def _parse_provenance(code_version: str, versions: str, hardware: str) -> Provenance:
    return Provenance(code_version, json.loads(versions), json.loads(hardware))
