"""Results from store to store: one Parquet file with a checksum for every row. Nothing here imports torch."""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Connection, select

from roarbench.errors import CallerError, StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.files import compute_sha256, write_new
from roarbench.identity import check_record, encode_canonically, make_record
from roarbench.plan.custom_suite import read_suite_record, write_suite_record
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import SuiteSpec
from roarbench.store import schema
from roarbench.store.annotations import check_remarks, export_remarks, put_remarks
from roarbench.store.database import insert_new, select_matching
from roarbench.store.export_file import COLUMNS, ExportedFile
from roarbench.store.image_sources import LOCAL, ImageNote, check_note, put_notes, read_image_notes
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult, make_row, read_result
from roarbench.store.stored_suites import put_suites, read_suites
from roarbench.store.submissions import find_entries, put_entry
from roarbench.submissions.file import Submission, check_source
from roarbench.text import fit_on_one_line

_NOTES = b"roarbench_images"  # of the file, where images came from
_REMARKS = b"roarbench_remarks"  # of the file, what is known of entries and rankings
_SUITES = b"roarbench_suites"  # of the file, suites from somebody's file
_ODD = (LookupError, ValueError, TypeError, AttributeError, RecursionError, OverflowError, CallerError)
_TOGETHER = 500  # rows in one statement


def export_results(
    store: ResultsStore,
    path: Path,
    kept: Mapping[str, float] = MappingProxyType({}),
    keys: Collection[str] | None = None,
) -> int:
    """Write the results of a store, of these keys or all, to a new file; the number of rows.

    `kept` is the share of the noisy copies that keep their class, in [0, 1], by the checksum of the rankings.

    Raises:
        CallerError: The file is there already.
        StoreError: It cannot be written.
    """
    sources = {name: entry.source for name, entry in find_entries(store.database).items()}
    with store.database.read() as connection:
        found = connection.execute(select(schema.results).order_by("key"))
        stored = [read_result(row) for row in found if keys is None or row.key in keys]
    about = {**(COLUMNS.metadata or {}), _NOTES: _export_notes(read_image_notes(store.database))}
    own_shares = {row.rankings: kept[row.rankings] for row in stored if row.rankings in kept}
    about[_REMARKS] = export_remarks(store.database, own_shares)
    if own := [write_suite_record(suite) for suite in read_suites(store.database)]:
        about |= {_SUITES: encode_canonically(own).encode()}
    table = pa.Table.from_pylist(
        [_export_row(result, sources) for result in stored], schema=COLUMNS.with_metadata(about)
    )
    write_new(path, lambda temporary: pq.write_table(table, temporary))
    return len(stored)


def _export_row(result: RunResult, sources: dict[str, bytes]) -> dict[str, Any]:
    row = make_row(result) | {"created": result.created.isoformat()}
    row |= {name: encode_canonically(row[name]) for name in ("versions", "hardware")}
    row["source"] = sources.get(EstimatorId.read(result.run.cell.estimator).file)
    values = {name: row[name] for name in COLUMNS.names if name != "sha256"}
    return values | {"sha256": _checksum(values)}


def _checksum(values: dict[str, Any]) -> str:
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
    return hashlib.sha256(encode_canonically(plain).encode()).hexdigest()


class Conflict(NamedTuple):
    """A run that the store and a file have other answers of."""

    stored: RunResult
    found: RunResult

    @property
    def differing(self) -> int:
        """Count the test images that one of the two alone answers correctly."""
        return int((self.stored.answers != self.found.answers).sum())


class ImportOutcome(NamedTuple):
    """Fate of the results of a file."""

    new: set[str]  # keys of those that were added
    known: set[str]  # keys of those that were stored already, with the same answers
    conflicts: list[Conflict]  # those that were stored already with other answers; the store keeps its own


def import_results(store: ResultsStore, path: Path) -> ImportOutcome:
    """Add another store's results as self-reported; rows that are stored already stay as they are.

    Raises:
        StoreError: The file cannot be read, is of a newer version, a row is not what its checksums say or is there
            twice, or rows on the same images have other numbers of answers. Then nothing was added.
    """
    origin = {"file": compute_sha256(path)}
    file = ExportedFile(path)
    notes, suites, remarks = _said(file.metadata, path)
    submissions: dict[bytes, Submission] = {}
    totals = _totals(_import_rows(file, path, submissions), path)
    fresh, known = set[str](), dict[str, RunResult]()
    with store.database.write() as connection:
        _check_totals(connection, totals, path)
        for submission in submissions.values():
            put_entry(connection, submission)
        rest = _import_rows(file, path, submissions)  # once more: all of them may be more than memory holds
        while part := {result.run.key: result for result in islice(rest, _TOGETHER)}:
            new = insert_new(connection, schema.results, [make_row(result) for result in part.values()])
            insert_new(connection, schema.imports, [{"key": key, **origin} for key in sorted(new)])
            known |= {key: result for key, result in part.items() if key not in new}
            fresh |= new
        put_notes(connection, notes)
        put_suites(connection, suites)
        put_remarks(connection, remarks)
    stored = store.results(known)
    conflicts = [Conflict(own, known[key]) for key, own in sorted(stored.items()) if own.bits != known[key].bits]
    return ImportOutcome(fresh, set(stored) - {conflict.stored.run.key for conflict in conflicts}, conflicts)


def _totals(results: Iterable[RunResult], path: Path) -> set[tuple[str, int]]:
    """Return the numbers of answers on the same images; refuse a run that is there twice."""
    keys, totals = set[str](), set[tuple[str, int]]()
    for result in results:
        if result.run.key in keys:
            raise StoreError(f"{path} has the run {result.run.key} twice; nothing was added, export it again")
        keys.add(result.run.key)
        totals.add((result.run.data, result.total))
    return totals


def read_results(path: Path) -> Iterator[RunResult]:
    """Yield the results of a file; StoreError where a row is not what its checksums say, or it cannot be read."""
    yield from _import_rows(ExportedFile(path), path, {})


def _check_totals(connection: Connection, new: set[tuple[str, int]], path: Path) -> None:
    """Refuse rows that differ in the number of answers, by images: boards compare rows image by image."""
    stored = select(schema.results.c.data, schema.results.c.total).distinct()
    known = select_matching(connection, stored, schema.results.c.data, {data for data, _ in new})
    totals: dict[str, int] = {row.data: row.total for row in known}
    for data, total in sorted(new):
        if totals.setdefault(data, total) != total:
            found = f"{path} has rows with {total} answers on the images {data[:8]}, others have {totals[data]}"
            raise StoreError(f"{found}; nothing was added, export it again")


def _import_rows(file: ExportedFile, path: Path, submissions: dict[bytes, Submission]) -> Iterator[RunResult]:
    """Yield the results of a file, and add the submissions among them by their sources."""
    for number, row in enumerate(file.rows()):
        try:
            yield _check_row(row, submissions)
        except _ODD as error:
            raise _make_error(f"{path}, row {number}", error) from None


def _make_error(where: str, error: Exception) -> StoreError:
    """Return what is wrong with a part of a file; Python's own words need a beginning."""
    seen = str(error) if isinstance(error, (ValueError, CallerError)) else f"it cannot be read ({error!r})"
    return StoreError(f"{where}: {fit_on_one_line(seen, 300)}; nothing was added, export it again")


def _export_notes(notes: Iterable[ImageNote]) -> bytes:
    """Return which folders images came from, without paths; every machine knows a suite's own images itself."""
    local = [replace(note, folder=Path(note.folder).name, files="") for note in notes if note.kind == LOCAL]
    return encode_canonically([make_record(note) for note in local]).encode()


def _said(metadata: dict[bytes, bytes], path: Path) -> tuple[list[ImageNote], list[SuiteSpec], dict[str, Any]]:
    """Return what a file says beside its rows: where images came from, suites, and remarks on entries."""
    what = "images"
    try:
        found = [ImageNote(**values) for values in json.loads(metadata.get(_NOTES, b"[]"))]
        notes = [check_note(note) for note in found if note.kind == LOCAL]
        what = "suites"
        suites = [read_suite_record(values) for values in json.loads(metadata.get(_SUITES, b"[]"))]
        what = "entries"
        return notes, suites, check_remarks(metadata.get(_REMARKS, b"{}"))
    except _ODD as error:
        raise _make_error(f"{path}: what it says of {what} cannot be read", error) from None


def _check_row(row: dict[str, Any], submissions: dict[bytes, Submission]) -> RunResult:
    """Return a row as a result, if all its checksums fit and all it says is of its kind."""
    stated, source = row.pop("sha256"), row.get("source") or b""
    if stated != _checksum(row):
        raise ValueError("its checksum is not that of its values")
    values = {name: json.loads(row[name]) for name in ("versions", "hardware")}
    if not all(isinstance(value, dict) for value in values.values()):
        raise ValueError("its versions or its hardware are not JSON objects")
    values["created"] = datetime.fromisoformat(row["created"])
    result = read_result(SimpleNamespace(**{**row, **values}))
    check_record(result)
    name = result.run.cell.estimator
    if name == CLEAN or not find_estimator(name).submitted:
        return result
    if source not in submissions:
        submissions[source] = check_source(source)
    estimator_id = EstimatorId.read(name)
    submission = submissions[source].tuned(estimator_id.listed or "")
    if submission.id != estimator_id.entry:
        raise ValueError(f"the source is that of {submission.id}, not of {name}")
    return result
