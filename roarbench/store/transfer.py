"""Export results to a Parquet file with a checksum for every row, and import such a file.

A few kilobytes of Parquet can unpack to any size. Therefore, a file is refused if its footer announces more data than
an export can contain. An accepted file is read a few rows at a time, and the size of repeated values is measured before
they are unpacked.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import select

from roarbench.common.errors import CallerError, StoreError
from roarbench.common.files import compute_sha256, write_new_file
from roarbench.common.identity import check_field_values, encode_canonically, make_json_record
from roarbench.common.text import fit_on_one_line, format_bytes
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_record import convert_user_suite_to_record, read_user_suite_record
from roarbench.store import schema
from roarbench.store.database import insert_new, select_matching
from roarbench.store.image_set_sources import (
    LOCAL,
    ImageSource,
    check_imported_source,
    insert_image_sources,
    read_image_sources,
)
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult, make_result_row, read_result
from roarbench.store.software_and_hardware import Provenance
from roarbench.store.submissions_and_annotations import (
    export_annotations,
    insert_annotations,
    insert_submission,
    parse_annotations,
    read_submissions_by_id,
)
from roarbench.store.user_suites import insert_suites, read_suites
from roarbench.submissions.file import Submission, parse_submission

FORMAT = "1"  # increases when older versions of roarbench cannot read the files
COLUMNS = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("record", pa.string()),  # canonical JSON of the run; the key is its hash
        *(pa.field(name, pa.int64()) for name in ("correct", "total")),
        *(pa.field(name, pa.binary()) for name in ("bits", "probability")),
        *(pa.field(name, pa.float64()) for name in ("seconds", "smoothness", "loss")),
        *(pa.field(name, pa.string()) for name in ("rankings", "weights", "code_version", "versions", "hardware")),
        pa.field("created", pa.string()),  # ISO 8601, UTC
        pa.field("source", pa.binary()),  # source of a submission; null for other rows
        pa.field("sha256", pa.string()),  # hash of all other values of the row
    ],
    metadata={"roarbench_format": FORMAT},
)
_SIZED = [field.name for field in COLUMNS if field.type in (pa.string(), pa.binary())]
_BATCH, _ROWS = 64, 5_000_000
_VALUE = 2**22  # maximum bytes of one value: the probabilities of a million images
_TIMES, _SMALL = 50, 2**24  # maximum ratio of unpacked to packed size; small files may unpack to `_SMALL` bytes
_CODECS = {"SNAPPY", "UNCOMPRESSED"}  # other codecs can expand kilobytes to gigabytes
# other encodings repeat parts of values
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_NOTES = b"roarbench_images"  # key of the file's notes on the images' sources
_ANNOTATIONS = b"roarbench_remarks"  # key of the file's annotations of submissions and rankings
_SUITES = b"roarbench_suites"  # key of the file's suites
_ODD = (LookupError, ValueError, TypeError, AttributeError, RecursionError, OverflowError, CallerError)
_TOGETHER = 500  # rows per statement


class ExportedFile:
    """File that `export_results` has written.

    Attributes:
        metadata: The file's format, and its notes on images, submissions, rankings and suites.

    Raises:
        StoreError: The file cannot be read, has another format, or is larger than an export can be.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _convert_read_errors(path):
            size = path.stat().st_size
            self._most = max(_TIMES * size, _SMALL)
            # notes are not packed, so no note is longer than the file; the notes on masks of 50,000 images have 80 MB
            self._file = pq.ParquetFile(path, thrift_string_size_limit=min(max(size, 1), 2**31 - 1))
            schema = self._file.schema_arrow
            self.metadata: dict[bytes, bytes] = schema.metadata or {}
            file_format = self.metadata.get(b"roarbench_format", b"").decode(errors="replace")[:20]
        if file_format != FORMAT or not schema.equals(COLUMNS):
            seen = "is not an export"
            if file_format and file_format != FORMAT:
                seen = f"has format {file_format}, but this version reads format {FORMAT}"
            raise StoreError(f"{path} {seen}; export the results again with this version")
        self._check_footer()

    def _check_footer(self) -> None:
        about = self._file.metadata
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
        rows = [about.num_rows, *(group.num_rows for group in groups), *(chunk.num_values for chunk in chunks)]
        if not all(0 <= count <= _ROWS for count in rows):
            raise self._make_too_large_error(f"{max(rows, key=abs):,} rows, expected at most {_ROWS:,}")
        self._check_size(sum(max(chunk.total_uncompressed_size, chunk.total_compressed_size) for chunk in chunks))
        unexpected = {chunk.compression for chunk in chunks} - _CODECS
        unexpected |= {encoding for chunk in chunks for encoding in chunk.encodings} - _ENCODINGS
        if unexpected:
            seen = f"{self._path} is packed with {min(unexpected)}, which exports never use"
            raise StoreError(f"{seen}; export the results again")

    def read_rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dict from column names to values.

        Raises:
            StoreError: The file is damaged, or has more data than an export can contain.
        """
        unpacked = 0
        with _convert_read_errors(self._path):
            packed = pq.ParquetFile(self._path, metadata=self._file.metadata, read_dictionary=_SIZED)
            for batch in packed.iter_batches(_BATCH):
                for name in _SIZED:
                    unpacked += self._measure_unpacked_size(name, batch.column(name))
                    self._check_size(unpacked)
                yield from batch.to_pylist()

    def _measure_unpacked_size(self, name: str, column: pa.DictionaryArray) -> int:
        """Return the unpacked size of a column in bytes; the source of each submission counts only once."""
        used = pc.value_counts(column.indices.drop_null())
        lengths = pc.binary_length(column.dictionary.take(used.field("values")))
        if (longest := pc.max(lengths).as_py() or 0) > _VALUE:
            seen = f"a value of {format_bytes(longest)} in {name}"
            raise self._make_too_large_error(f"{seen}, expected at most {format_bytes(_VALUE)}")
        return int(pc.sum(lengths if name == "source" else pc.multiply(lengths, used.field("counts"))).as_py() or 0)

    def _check_size(self, unpacked: int) -> None:
        if unpacked > self._most:
            seen = f"{format_bytes(unpacked)} of unpacked data"
            raise self._make_too_large_error(f"{seen}, expected at most {format_bytes(self._most)}")

    def _make_too_large_error(self, seen: str) -> StoreError:
        return StoreError(f"{self._path} has {seen}, so nothing was added; name a file that `roarbench export` wrote")


@contextmanager
def _convert_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        if isinstance(error, OSError) and error.strerror:
            raise StoreError(f"cannot read {path}: {error.strerror}") from None
        seen = fit_on_one_line(str(error) or type(error).__name__, 90)
        raise StoreError(f"{path} is not a Parquet file ({seen}); name a file that `roarbench export` wrote") from None


def export_results(
    store: ResultsStore,
    path: Path,
    stability_by_rankings: Mapping[str, float] = MappingProxyType({}),
    keys: Collection[str] | None = None,
) -> int:
    """Write all results of a store, or the results with these keys, to a new file; return the number of rows."""
    sources = {name: entry.source for name, entry in read_submissions_by_id(store.database).items()}
    with store.database.begin_read() as connection:
        rows = connection.execute(select(schema.results).order_by("key"))
        stored = [read_result(row) for row in rows if keys is None or row.key in keys]
    about = {
        **(COLUMNS.metadata or {}),
        _ANNOTATIONS: export_annotations(store.database, stored, stability_by_rankings),
    }
    data, pairs = {row.run.data for row in stored}, {(row.run.cell.dataset, row.run.cell.model) for row in stored}
    # images from a data set's own source need no record; the path of a folder is not exported
    image_sources = [one for one in read_image_sources(store.database) if one.data in data and one.kind == LOCAL]
    plain = [make_json_record(replace(source, folder=Path(source.folder).name, files="")) for source in image_sources]
    about |= {_NOTES: encode_canonically(plain).encode()}
    suites = [suite for suite in read_suites(store.database) if (suite.dataset, suite.model) in pairs]
    if own := [convert_user_suite_to_record(suite) for suite in suites]:
        about |= {_SUITES: encode_canonically(own).encode()}
    table = pa.Table.from_pylist([_make_export_row(result, sources) for result in stored], schema=COLUMNS)
    write_new_file(path, lambda temporary: _write_table(table, about, temporary))
    return len(stored)


def _write_table(table: pa.Table, about: Mapping[bytes, bytes], path: Path) -> None:
    # with `store_schema`, the file would contain the notes twice
    with pq.ParquetWriter(path, table.schema, store_schema=False) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(about)


def _make_export_row(result: RunResult, sources: dict[str, bytes]) -> dict[str, Any]:
    row = make_result_row(result) | {"created": result.created.isoformat()}
    row |= {name: encode_canonically(row[name]) for name in ("versions", "hardware")}
    row["source"] = sources.get(EstimatorId.parse(result.run.cell.estimator).file_id)
    values = {name: row[name] for name in COLUMNS.names if name != "sha256"}
    return values | {"sha256": _compute_row_checksum(values)}


def _compute_row_checksum(values: dict[str, Any]) -> str:
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
    return hashlib.sha256(encode_canonically(plain).encode()).hexdigest()


class Conflict(NamedTuple):
    """Different results of one run, in the store and in an imported file."""

    stored: RunResult
    imported: RunResult

    @property
    def differing_images(self) -> int:
        """Count the test images on which only one of the two results is correct."""
        return int((self.stored.correctness != self.imported.correctness).sum())


class ImportOutcome(NamedTuple):
    """Outcome of an import."""

    new: set[str]  # keys of added rows
    known: set[str]  # keys of rows that were already stored with the same correctness
    conflicts: list[Conflict]  # rows that are stored with different correctness; the store keeps its own


def import_results(store: ResultsStore, path: Path) -> ImportOutcome:
    """Add another store's results as self-reported; rows that are already stored stay unchanged.

    Raises:
        StoreError: The file cannot be read or has another format, a row does not match its checksums or is in the file
            twice, or rows on the same images have different numbers of test images; nothing is added.
    """
    origin = {"file": compute_sha256(path)}
    file = ExportedFile(path)
    image_sources, suites, annotations = _read_metadata(file.metadata, path)
    submissions: dict[bytes, Submission] = {}
    totals, fresh, known = set[tuple[str, int]](), set[str](), dict[str, RunResult]()
    rows = _refuse_duplicate_runs(_read_checked_rows(file, path, submissions), path)
    with store.database.begin_write() as connection:  # after an error in the file, no row of the file is stored
        while part := {result.run.key: result for result in islice(rows, _TOGETHER)}:
            new = insert_new(connection, schema.results, [make_result_row(result) for result in part.values()])
            insert_new(connection, schema.imports, [{"key": key, **origin} for key in sorted(new)])
            known |= {key: result for key, result in part.items() if key not in new}
            totals |= {(result.run.data, result.total) for result in part.values()}
            fresh |= new
        totals_of_data = select(schema.results.c.data, schema.results.c.total).distinct()
        stored_totals = select_matching(connection, totals_of_data, schema.results.c.data, {data for data, _ in totals})
        _refuse_different_image_counts(totals, {(row.data, row.total) for row in stored_totals}, path)
        for submission in submissions.values():
            insert_submission(connection, submission)
        insert_image_sources(connection, image_sources)
        insert_suites(connection, suites)
        insert_annotations(connection, annotations)
    stored = store.read_results(known)
    conflicts = [Conflict(own, known[key]) for key, own in sorted(stored.items()) if own.bits != known[key].bits]
    return ImportOutcome(fresh, set(stored) - {conflict.stored.run.key for conflict in conflicts}, conflicts)


def check_exports(paths: Iterable[Path]) -> None:
    """Read and check whole files without a store; raise StoreError as `read_exported_results` does."""
    for path in paths:
        for _ in read_exported_results(path):
            pass


def _refuse_duplicate_runs(results: Iterable[RunResult], path: Path) -> Iterator[RunResult]:
    keys = set[str]()
    for result in results:
        if result.run.key in keys:
            seen = f"{path} has the run {result.run.key} twice, so nothing was added"
            raise StoreError(f"{seen}; export the results again")
        keys.add(result.run.key)
        yield result


def read_exported_results(path: Path) -> Iterator[RunResult]:
    """Yield the results of a file; raise StoreError if `import_results` would refuse it for any store."""
    file, totals = ExportedFile(path), set[tuple[str, int]]()
    _read_metadata(file.metadata, path)
    for result in _refuse_duplicate_runs(_read_checked_rows(file, path, {}), path):
        totals.add((result.run.data, result.total))
        yield result
    _refuse_different_image_counts(totals, set(), path)


def read_suites_of_file(path: Path) -> list[SuiteSpec]:
    """Return the users' suites in an exported file; raise StoreError if the file cannot be read."""
    return _read_metadata(ExportedFile(path).metadata, path)[1]


def _refuse_different_image_counts(totals: set[tuple[str, int]], stored: set[tuple[str, int]], path: Path) -> None:
    """Refuse rows on the same images with different numbers of images, because leaderboards compare image by image.

    Each row of the file has a pair in `totals`, and each row of the store has a pair in `stored`: the fingerprint of
    the images and their number.
    """
    for data, total in sorted(totals):
        if other_totals := [other for same, other in stored | totals if same == data and other != total]:
            seen = f"{path} has rows on {total} images of {data[:8]}, but other rows have {min(other_totals)}"
            raise StoreError(f"{seen}, so nothing was added; export the results again")


def _read_checked_rows(file: ExportedFile, path: Path, submissions: dict[bytes, Submission]) -> Iterator[RunResult]:
    """Yield the results of a file; add their submissions to `submissions`, a dict from sources to submissions."""
    for number, row in enumerate(file.read_rows()):
        try:
            yield _read_checked_row(row, submissions)
        except _ODD as error:
            raise _make_import_error(f"{path}, row {number}", error) from None


def _make_import_error(where: str, error: Exception) -> StoreError:
    """Return an error about a part of a file; exceptions of other libraries follow `it cannot be read`."""
    seen = str(error) if isinstance(error, (ValueError, CallerError)) else f"it cannot be read ({error!r})"
    return StoreError(f"{where}: {fit_on_one_line(seen, 300)}, so nothing was added; export the results again")


def _read_metadata(
    metadata: dict[bytes, bytes], path: Path
) -> tuple[list[ImageSource], list[SuiteSpec], dict[str, Any]]:
    section = "images"
    try:
        image_sources = [ImageSource(**values) for values in json.loads(metadata.get(_NOTES, b"[]"))]
        checked = [check_imported_source(source) for source in image_sources if source.kind == LOCAL]
        section = "suites"
        suites = [read_user_suite_record(values) for values in json.loads(metadata.get(_SUITES, b"[]"))]
        section = "entries"
        return checked, suites, parse_annotations(metadata.get(_ANNOTATIONS, b"{}"))
    except _ODD as error:
        raise _make_import_error(f"{path}: its notes on {section} cannot be read", error) from None


@lru_cache(256)
def _parse_provenance(code_version: str, versions: str, hardware: str) -> Provenance:
    """Return the provenance of a row, cached because many rows share one; raise an error for wrong types."""
    provenance = Provenance(code_version, json.loads(versions), json.loads(hardware))
    check_field_values(provenance)
    return provenance


def _read_checked_row(row: dict[str, Any], submissions: dict[bytes, Submission]) -> RunResult:
    stated, source = row.pop("sha256"), row.get("source") or b""
    if stated != _compute_row_checksum(row):
        raise ValueError("its checksum does not match its values")
    provenance = _parse_provenance(row["code_version"], row["versions"], row["hardware"])
    created = datetime.fromisoformat(row["created"])
    result = read_result(SimpleNamespace(**row | vars(provenance) | {"created": created}))
    check_field_values(result, checked=("provenance",))
    name = result.run.cell.estimator
    if name == CLEAN or not find_estimator(name).submitted:
        return result
    if source not in submissions:
        submissions[source] = parse_submission(source)
    estimator_id = EstimatorId.parse(name)
    submission = submissions[source].replace_parameters(estimator_id.listed or "")
    if submission.id != estimator_id.id_without_marks_and_twins:
        raise ValueError(f"the source belongs to {submission.id}, not to {name}")
    return result
