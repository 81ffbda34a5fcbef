"""Results from store to store: one Parquet file with a checksum for every row. Nothing here imports torch."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Connection, insert, select

from roarbench.errors import CallerError, StoreError
from roarbench.estimators.catalogue import find_estimator, split_entry
from roarbench.files import sha256, write_new
from roarbench.identity import canonical, record
from roarbench.plan.own import suite_of, suite_record
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Suite
from roarbench.store import schema
from roarbench.store.database import matching
from roarbench.store.entries import find_entries, put_entry
from roarbench.store.images import LOCAL, ImageNote, checked_note, put_notes
from roarbench.store.result import Result, row_of, stored_result
from roarbench.store.results import ResultsStore
from roarbench.store.suites import kept_suites, put_suites
from roarbench.submissions.file import Submission, check_source

FORMAT = "1"  # counts up when older versions of roarbench cannot read the files any more
_NOTES = b"roarbench_images"  # of the file, where images came from
_SUITES = b"roarbench_suites"  # of the file, suites from somebody's file
_COLUMNS = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("record", pa.string()),  # canonical JSON of the run; the key is its hash
        *(pa.field(name, pa.int64()) for name in ("correct", "total")),
        *(pa.field(name, pa.binary()) for name in ("bits", "probability")),
        *(pa.field(name, pa.float64()) for name in ("seconds", "smoothness", "loss")),
        *(pa.field(name, pa.string()) for name in ("rankings", "weights", "code_version", "versions", "hardware")),
        pa.field("created", pa.string()),  # ISO 8601, UTC
        pa.field("source", pa.binary()),  # of a submission; null for others
        pa.field("sha256", pa.string()),  # of the row's other values
    ],
    metadata={"roarbench_format": FORMAT},
)


def export_results(store: ResultsStore, path: Path) -> int:
    """Write all results of a store; the number of rows.

    Raises:
        CallerError: The file is there already.
        StoreError: It cannot be written.
    """
    sources = {name: entry.source for name, entry in find_entries(store.database).items()}
    with store.database.read() as connection:
        stored = [stored_result(row) for row in connection.execute(select(schema.results).order_by("key"))]
    rows = [_exported(result, sources) for result in stored]
    about = {**(_COLUMNS.metadata or {}), _NOTES: _exported_notes(store.images.all())}
    if own := [suite_record(suite) for suite in kept_suites(store.database)]:
        about |= {_SUITES: canonical(own).encode()}
    table = pa.Table.from_pylist(rows, schema=_COLUMNS.with_metadata(about))
    write_new(path, lambda temporary: pq.write_table(table, temporary))
    return len(rows)


def _exported(result: Result, sources: dict[str, bytes]) -> dict[str, Any]:
    row = row_of(result)
    values = {name: row[name] for name in _COLUMNS.names if name in row}
    values |= {name: canonical(row[name]) for name in ("versions", "hardware")}
    values |= {"created": result.created.isoformat()}
    values["source"] = sources.get(split_entry(result.run.cell.estimator)[0])
    return values | {"sha256": _checksum(values)}


def _checksum(values: dict[str, Any]) -> str:
    """Return the hash of a row's values but the checksum itself."""
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
    return hashlib.sha256(canonical(plain).encode()).hexdigest()


class Conflict(NamedTuple):
    """A run that the store and a file have other answers of."""

    stored: Result
    found: Result

    @property
    def differing(self) -> int:
        """Count the test images that one of the two alone answers correctly."""
        return int((self.stored.answers != self.found.answers).sum())


class ImportOutcome(NamedTuple):
    """Fate of the results of a file.

    Attributes:
        new: Keys of those that were added.
        known: Keys of those that were stored already, with the same answers.
        conflicts: Those that were stored already with other answers; the store keeps its own.
    """

    new: set[str]
    known: set[str]
    conflicts: list[Conflict]


def import_results(store: ResultsStore, path: Path) -> ImportOutcome:
    """Add another store's results as self-reported; rows that are stored already stay as they are.

    Raises:
        StoreError: The file cannot be read, is of a newer version, a row is not what its checksums say or is there
            twice, or rows on the same images have other numbers of answers. Then nothing was added.
    """
    checksum = sha256(path)
    content, metadata = _read(path)
    found: dict[str, Result] = {}
    sources = {}
    for result, submission in _imported(content, path):
        if result.run.key in found:
            raise StoreError(f"{path} has the run {result.run.key} twice; nothing was added, export it again")
        found[result.run.key] = result
        if submission is not None:
            sources[submission.file_id] = submission
    notes, suites = _imported_notes(metadata, path), _imported_suites(metadata, path)
    rows, now = {key: row_of(result) for key, result in found.items()}, datetime.now(UTC)
    with store.database.write() as connection:
        _check_totals(connection, rows.values(), path)
        known = matching(connection, select(schema.results.c.key), schema.results.c.key, rows)
        fresh = set(rows) - {row.key for row in known}
        for submission in sources.values():
            put_entry(connection, submission)
        if fresh:
            connection.execute(insert(schema.results), [rows[key] for key in sorted(fresh)])
            origins = [{"key": key, "file": checksum, "created": now} for key in sorted(fresh)]
            connection.execute(insert(schema.imports), origins)
        put_notes(connection, notes)
        put_suites(connection, suites)
    stored = store.results(set(found) - fresh)
    conflicts = [Conflict(own, found[key]) for key, own in sorted(stored.items()) if own.bits != found[key].bits]
    return ImportOutcome(fresh, set(stored) - {conflict.stored.run.key for conflict in conflicts}, conflicts)


def _check_totals(connection: Connection, rows: Iterable[dict[str, Any]], path: Path) -> None:
    """Refuse rows that differ in the number of answers: boards compare rows image by image."""
    new = {(row["data"], row["total"]) for row in rows}
    stored = select(schema.results.c.data, schema.results.c.total).distinct()
    known = matching(connection, stored, schema.results.c.data, {data for data, _ in new})
    totals: dict[str, int] = {row.data: row.total for row in known}
    for data, total in sorted(new):
        if totals.setdefault(data, total) != total:
            found = f"{path} has rows with {total} answers on the images {data[:8]}, others have {totals[data]}"
            raise StoreError(f"{found}; nothing was added, export it again")


def _read(path: Path) -> tuple[list[dict[str, Any]], dict[bytes, bytes]]:
    """Read the rows of a file and what it says of itself."""
    try:
        table = pq.read_table(path)
        rows, metadata = table.to_pylist(), table.schema.metadata or {}
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        seen = " ".join(str(error).split())[:90]
        raise StoreError(f"{path} is no Parquet file ({seen}); name what `roarbench export` wrote") from None
    found = metadata.get(b"roarbench_format", b"").decode()
    if found != FORMAT or table.schema.names != _COLUMNS.names:
        seen = f"format {found}" if found else "no export"
        raise StoreError(f"{path} is {seen}, this version reads format {FORMAT}; export it again with this version")
    return rows, metadata


def _imported(rows: Iterable[dict[str, Any]], path: Path) -> Iterator[tuple[Result, Submission | None]]:
    for number, row in enumerate(rows):
        try:
            yield _checked(row)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, CallerError) as error:
            raise StoreError(f"{path}, row {number}: {error}; nothing was added, export it again") from None


def _exported_notes(notes: Iterable[ImageNote]) -> bytes:
    """Return which folders images came from, without paths; every machine knows a suite's own images itself."""
    local = [replace(note, folder=Path(note.folder).name, files="") for note in notes if note.kind == LOCAL]
    return canonical([record(note) for note in local]).encode()


def _imported_notes(metadata: dict[bytes, bytes], path: Path) -> list[ImageNote]:
    try:
        found = [ImageNote(**values) for values in json.loads(metadata.get(_NOTES, b"[]"))]
        return [checked_note(note) for note in found if note.kind == LOCAL]
    except (ValueError, TypeError, RecursionError) as error:
        raise StoreError(f"{path}: what it says of images cannot be read ({error}); nothing was added") from None


def _imported_suites(metadata: dict[bytes, bytes], path: Path) -> list[Suite]:
    try:
        return [suite_of(values) for values in json.loads(metadata.get(_SUITES, b"[]"))]
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError, CallerError) as error:
        raise StoreError(f"{path}: what it says of suites cannot be read ({error}); nothing was added") from None


def _checked(row: dict[str, Any]) -> tuple[Result, Submission | None]:
    """Return a row as a result, if all its checksums fit."""
    stated, source = row.pop("sha256"), row.get("source")
    if stated != _checksum(row):
        raise ValueError("its checksum is not that of its values")
    values = {name: json.loads(row[name]) for name in ("versions", "hardware")}
    if not all(isinstance(value, dict) for value in values.values()):
        raise ValueError("its versions or its hardware are no JSON object")
    values["created"] = datetime.fromisoformat(row["created"])
    result = stored_result(SimpleNamespace(**{**row, **values}))
    name = result.run.cell.estimator
    if name == CLEAN or not find_estimator(name).submitted:
        return result, None
    submission = check_source(source or b"").tuned(split_entry(name)[1])
    if submission.id != name.partition("~")[0]:
        raise ValueError(f"the source is that of {submission.id}, not of {name}")
    return result, submission
