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

from roarbench.common.enums import MapNumerics, Order, ScoredNetwork, Unit
from roarbench.common.errors import StoreError
from roarbench.common.files import compute_sha256
from roarbench.plan.cells_and_runs import Cell, Run
from roarbench.store.run_result import Provenance, RunResult

# a quotation mark inside of a text has a backslash, so no text of a record matches
_SEED = r'[{,]"seed":(?P<seed>[0-9]+)[,}]'
_COLUMNS = ("record", "correct", "total", "bits", "seconds", "rankings", "smoothness", "weights", "loss")
_PROVENANCE = ("code_version", "versions", "hardware")


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
    with pq.ParquetFile(path, memory_map=True) as file:
        metadata = file.schema_arrow.metadata
        records = file.read(["record"], use_threads=False)["record"].combine_chunks()
        found = pc.extract_regex(records, _SEED).field("seed").to_pylist()
        wanted = [int(seed) in seeds for seed in found]
        results = list(_read_results(file, pa.array(wanted))) if any(wanted) else []
        return PublishedRows(results, {key: json.loads(metadata[key]) for key in notes if key in metadata})


def _read_results(file: pq.ParquetFile, wanted: pa.BooleanArray) -> Iterator[RunResult]:
    columns = ["key", *_COLUMNS, "created", *_PROVENANCE]
    table = file.read(columns, use_threads=False).filter(wanted)
    keys, *values, created, codes, versions, hardware = (table[name].to_pylist() for name in columns)
    origins = map(_parse_provenance, codes, versions, hardware)
    for key, record, *outcome, origin, moment in zip(keys, *values, origins, created, strict=True):
        run = _read_run(json.loads(record))
        vars(run)["key"] = key  # its hash was checked before the file was published
        results = dict(zip(_COLUMNS[1:], outcome, strict=True))
        yield RunResult(run, provenance=origin, created=datetime.fromisoformat(moment), **results)


def _read_run(values: dict[str, Any]) -> Run:
    cell = _read_cell(**values.pop("cell"))
    maps = MapNumerics(values.pop("maps", MapNumerics.FLOAT32))
    return Run(cell, maps=maps, **values)


@lru_cache(10_000)  # runs differ mostly in their seeds
def _read_cell(order: str, retrain: str, unit: str, **values: Any) -> Cell:
    return Cell(order=Order(order), retrain=ScoredNetwork(retrain), unit=Unit(unit), **values)


@lru_cache(256)
def _parse_provenance(code_version: str, versions: str, hardware: str) -> Provenance:
    return Provenance(code_version, json.loads(versions), json.loads(hardware))
