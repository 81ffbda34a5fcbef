"""Export a store's results to a Parquet or CSV file, and check and import such a Parquet file.

Every row of a Parquet file has a checksum. A few kilobytes of Parquet can unpack to any size. Therefore, a file is
refused if its footer announces more data than an export can contain. An accepted file is read a few rows at a time, and
the size of repeated values is measured before they are unpacked.
"""

import hashlib
import json
from base64 import b64decode
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from sqlalchemy import select

from roarbench.common.enums import ScoredNetwork
from roarbench.common.errors import CallerError, StoreError
from roarbench.common.files import compute_sha256, write_file_refusing_existing
from roarbench.common.identity import check_field_values, encode_canonically, make_json_record
from roarbench.common.text import fit_on_one_line, format_bytes
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.suites import convert_user_suite_to_record, read_known_suites
from roarbench.store.annotations_and_scores import (
    AnnotationKind,
    export_annotations,
    insert_annotations_of_results,
    parse_and_check_annotations,
)
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import READ_COLUMNS, RunResult, make_result_row, parse_provenance, read_result
from roarbench.store.schema import imports, insert_new, results, select_matching
from roarbench.store.user_files import (
    LOCAL,
    OLDER,
    ImageSource,
    check_imported_source,
    insert_image_sources,
    insert_submission,
    insert_suites,
    read_image_sources,
    read_submissions_by_id,
    read_suites,
)
from roarbench.submissions.submission_file import Submission, parse_submission

_FORMAT = "1"  # increases when older versions of roarbench cannot read the files
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
    metadata={"roarbench_format": _FORMAT},
)
# keys of the file's metadata
IMAGE_SOURCES, SUITES, ANNOTATIONS = b"roarbench_images", b"roarbench_suites", b"roarbench_remarks"
NOTES_CHECKSUM = b"roarbench_notes_sha256"  # files of earlier versions lack it
_VARIABLE_SIZE = [field.name for field in COLUMNS if field.type in (pa.string(), pa.binary())]
_ROWS_PER_BATCH, _MAX_ROWS = 64, 5_000_000
_MAX_VALUE_BYTES = 2**22  # the probabilities of a million images
_MAX_RATIO, _ALWAYS_ALLOWED = 50, 2**24  # maximum ratio of unpacked to packed size; bytes that any file may unpack to
_CODECS = {"SNAPPY", "UNCOMPRESSED"}  # other codecs can expand kilobytes to gigabytes
# other encodings repeat parts of values
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}
_CONTENT_ERRORS = (LookupError, ValueError, TypeError, AttributeError, RecursionError, OverflowError, CallerError)


def compute_notes_checksum(notes: Mapping[bytes, bytes]) -> bytes:
    """Hash the three notes of a file."""
    parts = (notes.get(name, b"") for name in (IMAGE_SOURCES, SUITES, ANNOTATIONS))
    return hashlib.sha256(b"\n".join(parts)).hexdigest().encode()


def compute_row_checksum(values: dict[str, Any]) -> str:
    """Hash all values of a row except the checksum."""
    plain = {name: value.hex() if isinstance(value, bytes) else value for name, value in values.items()}
    return hashlib.sha256(encode_canonically(plain).encode()).hexdigest()


class ExportedFile:
    """File that `export_results` has written; its rows are checked when they are read, the rest immediately.

    Attributes:
        image_sources: Sources of images from users' folders.
        suites: Users' suites.
        annotations: Annotations of submissions, rankings and runs.
        submissions: Dict from sources to submissions of the rows that have been read.
        totals: Dict from fingerprints of images to numbers of test images, of the rows that have been read.

    Raises:
        StoreError: The file cannot be read, has another format, is larger than an export can be, or has invalid notes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.submissions: dict[bytes, Submission] = {}
        self.totals: dict[str, int] = {}
        with self._convert_read_errors():
            size = path.stat().st_size
            self._max_unpacked = max(_MAX_RATIO * size, _ALWAYS_ALLOWED)
            # notes are not packed, so no note is longer than the file; the notes on masks of 50,000 images have 80 MB
            self._file = pq.ParquetFile(path, thrift_string_size_limit=min(max(size, 1), 2**31 - 1))
            schema = self._file.schema_arrow
            metadata: dict[bytes, bytes] = schema.metadata or {}
            file_format = metadata.get(b"roarbench_format", b"").decode(errors="replace")[:20]
        if file_format != _FORMAT or not schema.equals(COLUMNS):
            seen = "is not an export"
            if file_format and file_format != _FORMAT:
                seen = f"has format {file_format}, but this version reads format {_FORMAT}"
            raise StoreError(f"{path} {seen}; export the results again with this version")
        footer = self._file.metadata
        groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
        chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
        rows = [footer.num_rows, *(group.num_rows for group in groups), *(chunk.num_values for chunk in chunks)]
        if not all(0 <= count <= _MAX_ROWS for count in rows):
            raise self._make_too_large_error(f"{max(rows, key=abs):,} rows, expected at most {_MAX_ROWS:,}")
        sizes = (max(chunk.total_uncompressed_size, chunk.total_compressed_size) for chunk in chunks)
        self._check_unpacked_size(sum(sizes))
        unexpected = {chunk.compression for chunk in chunks} - _CODECS
        unexpected |= {encoding for chunk in chunks for encoding in chunk.encodings} - _ENCODINGS
        if unexpected:
            seen = f"{path} is packed with {min(unexpected)}, which exports never use"
            raise StoreError(f"{seen}; export the results again")
        try:
            image_sources = [ImageSource(**values) for values in json.loads(metadata.get(IMAGE_SOURCES, b"[]"))]
            self.image_sources = [check_imported_source(source) for source in image_sources if source.kind == LOCAL]
            self.suites = [*read_known_suites(json.loads(metadata.get(SUITES, b"[]")))]
            self.annotations = parse_and_check_annotations(metadata.get(ANNOTATIONS, b"{}"))
            if metadata.get(NOTES_CHECKSUM, checksum := compute_notes_checksum(metadata)) != checksum:
                raise ValueError("their checksum does not match their values")
        except _CONTENT_ERRORS as error:
            raise self._make_content_error(": its notes cannot be read", error) from None

    def read_results(self) -> Iterator[RunResult]:
        """Yield the results of the rows.

        Raises:
            StoreError: The file is damaged or has more data than an export can contain, a row does not match its
                checksums, a run is in the file twice, or rows on the same images have different numbers of test images.
        """
        keys = set[str]()
        for number, row in enumerate(self._read_rows()):
            try:
                result = self._convert_checked_row(row)
            except _CONTENT_ERRORS as error:
                raise self._make_content_error(f", row {number}", error) from None
            if result.run.key in keys:
                seen = f"{self._path} has the run {result.run.key} twice, so nothing was added"
                raise StoreError(f"{seen}; export the results again")
            keys.add(result.run.key)
            self.refuse_different_total(result.run.data, result.total)
            yield result

    def refuse_different_total(self, data: str, total: int) -> None:
        """Raise StoreError if the file's rows on these images have another number of test images than `total`.

        Leaderboards compare results image by image.
        """
        if (known := self.totals.setdefault(data, total)) != total:
            seen = f"{self._path} has rows on {known} images of {data[:8]}, but other rows have {total}"
            raise StoreError(f"{seen}, so nothing was added; export the results again")

    def _read_rows(self) -> Iterator[dict[str, Any]]:
        unpacked = 0
        with self._convert_read_errors():
            packed = pq.ParquetFile(self._path, metadata=self._file.metadata, read_dictionary=_VARIABLE_SIZE)
            for batch in packed.iter_batches(_ROWS_PER_BATCH):
                for name in _VARIABLE_SIZE:
                    unpacked += self._measure_unpacked_size(name, batch.column(name))
                    self._check_unpacked_size(unpacked)
                yield from batch.to_pylist()

    def _measure_unpacked_size(self, name: str, column: pa.DictionaryArray) -> int:
        """Return the unpacked size of a column in bytes; the source of each submission counts only once."""
        used = pc.value_counts(column.indices.drop_null())
        lengths = pc.binary_length(column.dictionary.take(used.field("values")))
        if (longest := pc.max(lengths).as_py() or 0) > _MAX_VALUE_BYTES:
            seen = f"a value of {format_bytes(longest)} in {name}"
            raise self._make_too_large_error(f"{seen}, expected at most {format_bytes(_MAX_VALUE_BYTES)}")
        return int(pc.sum(lengths if name == "source" else pc.multiply(lengths, used.field("counts"))).as_py() or 0)

    def _check_unpacked_size(self, unpacked: int) -> None:
        if unpacked > self._max_unpacked:
            seen = f"{format_bytes(unpacked)} of unpacked data"
            raise self._make_too_large_error(f"{seen}, expected at most {format_bytes(self._max_unpacked)}")

    def _convert_checked_row(self, row: dict[str, Any]) -> RunResult:
        stated, source = row.pop("sha256"), row.get("source") or b""
        if stated != compute_row_checksum(row):
            raise ValueError("its checksum does not match its values")
        provenance = parse_provenance(row["code_version"], row["versions"], row["hardware"])
        created = datetime.fromisoformat(row["created"])
        values = row | vars(provenance) | {"created": created}
        result = read_result(values[name] for name in READ_COLUMNS)
        check_field_values(result, checked=("provenance",))
        for measured in ("seconds", "smoothness", "loss"):
            if (getattr(result, measured) or 0) < 0:
                raise ValueError(f"{measured} is {getattr(result, measured)}, expected 0 or more")
        if result.probabilities is not None and not np.all(abs(result.probabilities - 0.5) <= 0.5):
            raise ValueError("it has a probability that is not between 0 and 1")
        mask_hashes = self.annotations.get(f"{AnnotationKind.MASKS} {result.run.key}")
        if mask_hashes is not None and len(b64decode(mask_hashes)) != 2 * result.total:
            raise ValueError(f"it has {result.total} images, but {len(b64decode(mask_hashes)) / 2:g} hashes of masks")
        name = result.run.cell.estimator
        if name == CLEAN or not find_estimator(name).submitted:
            return result
        if source not in self.submissions:
            self.submissions[source] = parse_submission(source)
        estimator_id = EstimatorId.parse(name)
        submission = self.submissions[source].replace_parameters(estimator_id.listed or "")
        if submission.id != estimator_id.id_without_marks_and_twins:
            raise ValueError(f"the source belongs to {submission.id}, not to {name}")
        return result

    def _make_too_large_error(self, seen: str) -> StoreError:
        return StoreError(f"{self._path} has {seen}, so nothing was added; name a file that `roarbench export` wrote")

    def _make_content_error(self, where: str, error: Exception) -> StoreError:
        """Return an error about a part of the file; exceptions of other libraries follow `it cannot be read`."""
        seen = str(error) if isinstance(error, (ValueError, CallerError)) else f"it cannot be read ({error!r})"
        seen = f"{self._path}{where}: {fit_on_one_line(seen, 300)}"
        return StoreError(f"{seen}, so nothing was added; export the results again")

    @contextmanager
    def _convert_read_errors(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
            if isinstance(error, OSError) and error.strerror:
                raise StoreError(f"cannot read {self._path}: {error.strerror}") from None
            seen = f"{self._path} is not a Parquet file ({fit_on_one_line(str(error) or type(error).__name__, 90)})"
            raise StoreError(f"{seen}; name a file that `roarbench export` wrote") from None


_ROWS_PER_STATEMENT = 500


def export_results(
    store: ResultsStore, path: Path, measured: Mapping[str, Any] = {}, keys: Collection[str] | None = None
) -> int:
    """Write all results of a store, or the results with these keys, to a new Parquet file; return the number of rows.

    `measured` has annotations of rankings that an older version did not record in the database
    (`RankingsStore.read_annotations`).
    """
    with store.database.begin_read() as connection:
        rows = connection.execute(select(*(results.c[name] for name in READ_COLUMNS)).order_by("key"))
        exported = [read_result(row) for row in rows if keys is None or row.key in keys]
    data, pairs = {one.run.data for one in exported}, {(one.run.cell.dataset, one.run.cell.model) for one in exported}
    # images from a data set's own source need no record, and the paths of folders stay private
    sources = [source for source in read_image_sources(store.database) if source.data in data and source.kind == LOCAL]
    plain_sources = [make_json_record(replace(one, folder=Path(one.folder).name, files="")) for one in sources]
    suites = [suite for suite in read_suites(store.database) if (suite.dataset, suite.model) in pairs]
    notes = {
        IMAGE_SOURCES: encode_canonically(plain_sources).encode(),
        ANNOTATIONS: export_annotations(store.database, exported, measured),
    }
    if suites:
        notes[SUITES] = encode_canonically([convert_user_suite_to_record(suite) for suite in suites]).encode()
    notes[NOTES_CHECKSUM] = compute_notes_checksum(notes)
    submissions, table_rows = read_submissions_by_id(store.database), []
    for result in exported:
        row = make_result_row(result) | {"created": result.created.isoformat()}
        row |= {name: encode_canonically(row[name]) for name in ("versions", "hardware")}
        submission = submissions.get(EstimatorId.parse(result.run.cell.estimator).id_without_parameters)
        row["source"] = submission.source if submission else None
        values = {name: row[name] for name in COLUMNS.names if name != "sha256"}
        table_rows.append(values | {"sha256": compute_row_checksum(values)})
    table = pa.Table.from_pylist(table_rows, schema=COLUMNS)

    def write(temporary: Path) -> None:
        # with `store_schema`, the file would contain the notes twice
        with pq.ParquetWriter(temporary, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({**COLUMNS.metadata, **notes})

    write_file_refusing_existing(path, write)
    return len(exported)


# from columns of two results of one run to the names of what differs; times and machines may differ
_COMPARED = {"bits": "predictions", "probability": "probabilities", "weights": "weights", "rankings": "rankings"}


class Conflict(NamedTuple):
    """Different results of one run, in the store and in an imported file."""

    stored: RunResult
    imported: RunResult

    @property
    def differences(self) -> list[str]:
        """Name what differs: predictions, or, with equal predictions, what they were computed from."""
        values = ((getattr(self.stored, column), getattr(self.imported, column)) for column in _COMPARED)
        both = zip(_COMPARED.values(), values, strict=True)
        return [name for name, (own, other) in both if own != other and own and other]  # an empty checksum is unknown

    @property
    def differing_images(self) -> int:
        """Count the test images on which only one of the two results is correct."""
        return int((self.stored.correctness != self.imported.correctness).sum())


class ImportOutcome(NamedTuple):
    """Outcome of an import."""

    new: set[str]  # keys of added rows
    known: set[str]  # keys of rows that were already stored with the same values, except for times and machines
    conflicts: list[Conflict]  # rows that are stored with other values; the store keeps its own
    removed: int  # rows in the file of a protocol that was removed; they are stored


def import_results(store: ResultsStore, path: Path) -> ImportOutcome:
    """Add another store's results as self-reported; rows that are already stored stay unchanged.

    Raises:
        StoreError: `ExportedFile` refuses the file or a row, or the store has rows on the same images with another
            number of test images; nothing is added.
    """
    checksum = compute_sha256(path)
    file = ExportedFile(path)
    new, known, removed = set[str](), dict[str, RunResult](), 0
    file_results = file.read_results()
    # after an error in the file, no row of the file is stored
    with store.database.begin_exclusive_write() as connection:
        while part := {result.run.key: result for result in islice(file_results, _ROWS_PER_STATEMENT)}:
            added = insert_new(connection, results, [make_result_row(result) for result in part.values()])
            insert_new(connection, imports, [{"key": key, "file": checksum} for key in sorted(added)])
            known |= {key: result for key, result in part.items() if key not in added}
            new |= added
            removed += sum(result.run.cell.retrain is ScoredNetwork.EXCHANGED for result in part.values())
        totals = select(results.c.data, results.c.total).distinct()
        for row in select_matching(connection, totals, results.c.data, file.totals):
            file.refuse_different_total(row.data, row.total)
        for submission in file.submissions.values():
            insert_submission(connection, submission)
        insert_image_sources(connection, file.image_sources)
        insert_suites(connection, file.suites, OLDER)
        stored = store.read_results(known)
        pairs = [Conflict(own, known[key]) for key, own in sorted(stored.items())]
        conflicts = [pair for pair in pairs if pair.differences]
        alike = set(stored) - {conflict.stored.run.key for conflict in conflicts}
        insert_annotations_of_results(connection, file.annotations, new, alike)
    return ImportOutcome(new, alike, conflicts, removed)


def check_exported_files(paths: Iterable[Path]) -> None:
    """Read whole files without a store; raise StoreError if `import_results` would refuse a file for every store."""
    for path in paths:
        for _ in ExportedFile(path).read_results():
            pass
