"""Export a store's results to a Parquet or CSV file, and import such a Parquet file into another store."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import select

from roarbench.common.files import compute_sha256, write_new_file
from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.common.text import write_csv
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.suite_record import convert_user_suite_to_record
from roarbench.store.annotations import export_annotations, insert_annotations
from roarbench.store.database import insert_new, select_matching
from roarbench.store.exported_file import (
    ANNOTATIONS,
    COLUMNS,
    IMAGE_SOURCES,
    SUITES,
    ExportedFile,
    compute_row_checksum,
)
from roarbench.store.results import Origin, ResultsStore, read_origins
from roarbench.store.run_result import RunResult, make_result_row, read_result
from roarbench.store.schema import imports, results
from roarbench.store.submissions import insert_submission, read_submissions_by_id
from roarbench.store.user_files import LOCAL, insert_image_sources, insert_suites, read_image_sources, read_suites
from roarbench.submissions.submission_file import Submission

_ROWS_PER_STATEMENT = 500
_CSV_ROWS_IN_MEMORY = 100  # a row on 50,000 images has up to 206 KB
_CSV_COLUMNS = (
    *("key", "dataset", "model", "estimator", "order", "retrain", "fill", "unit", "t", "seed", "recipe", "data"),
    *("estimator_fingerprint", "reference", "correct", "total", "seconds", "rankings", "smoothness", "weights", "loss"),
    *("created", "code_version", "versions", "hardware"),
)


def export_results(
    store: ResultsStore,
    path: Path,
    stability_by_rankings: Mapping[str, float] = {},
    keys: Collection[str] | None = None,
) -> int:
    """Write all results of a store, or the results with these keys, to a new Parquet file; return the number of rows.

    `stability_by_rankings` is a dict from checksums of rankings to prediction stability.
    """
    with store.database.begin_read() as connection:
        rows = connection.execute(select(results).order_by("key"))
        exported = [read_result(row) for row in rows if keys is None or row.key in keys]
    data, pairs = {one.run.data for one in exported}, {(one.run.cell.dataset, one.run.cell.model) for one in exported}
    # images from a data set's own source need no record, and the paths of folders stay private
    sources = [source for source in read_image_sources(store.database) if source.data in data and source.kind == LOCAL]
    plain_sources = [make_json_record(replace(one, folder=Path(one.folder).name, files="")) for one in sources]
    suites = [suite for suite in read_suites(store.database) if (suite.dataset, suite.model) in pairs]
    notes = {
        IMAGE_SOURCES: encode_canonically(plain_sources).encode(),
        ANNOTATIONS: export_annotations(store.database, exported, stability_by_rankings),
    }
    if suites:
        notes[SUITES] = encode_canonically([convert_user_suite_to_record(suite) for suite in suites]).encode()
    submissions = read_submissions_by_id(store.database)
    table = pa.Table.from_pylist([_make_export_row(result, submissions) for result in exported], schema=COLUMNS)

    def write(temporary: Path) -> None:
        # with `store_schema`, the file would contain the notes twice
        with pq.ParquetWriter(temporary, table.schema, store_schema=False) as writer:
            writer.write_table(table)
            writer.add_key_value_metadata({**COLUMNS.metadata, **notes})

    write_new_file(path, write)
    return len(exported)


def _make_export_row(result: RunResult, submissions: Mapping[str, Submission]) -> dict[str, Any]:
    row = make_result_row(result) | {"created": result.created.isoformat()}
    row |= {name: encode_canonically(row[name]) for name in ("versions", "hardware")}
    submission = submissions.get(EstimatorId.parse(result.run.cell.estimator).id_without_parameters)
    row["source"] = submission.source if submission else None
    values = {name: row[name] for name in COLUMNS.names if name != "sha256"}
    return values | {"sha256": compute_row_checksum(values)}


def export_results_as_csv(store: ResultsStore, path: Path) -> int:
    """Write a line for every result of a store to a new CSV file; return the number of lines.

    The lines do not contain the correctness on single images, or the sources of submissions.
    """

    def write(temporary: Path) -> int:
        with temporary.open("w", encoding="utf-8", newline="") as file:
            return write_csv(file, _list_csv_records(store))

    return write_new_file(path, write)


def _list_csv_records(store: ResultsStore) -> Iterator[dict[str, Any]]:
    statement = select(results).order_by("key").execution_options(yield_per=_CSV_ROWS_IN_MEMORY)
    with store.database.begin_read() as connection:
        for rows in connection.execute(statement).partitions():
            origins = read_origins(store.database, [row.key for row in rows])
            yield from (_make_csv_record(row, origins[row.key]) for row in rows)


def _make_csv_record(row: Any, origin: Origin) -> dict[str, Any]:
    run = read_result(row).run  # refuses a damaged row
    values: dict[str, Any] = {name: row._mapping[name] for name in _CSV_COLUMNS}
    values |= {name: encode_canonically(values[name]) for name in ("versions", "hardware")}
    values |= {"limit": run.limit, "given": run.given, "maps": run.maps.value, "created": row.created.isoformat()}
    return values | {"accuracy": row.correct / row.total, "origin": origin.value}


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
        StoreError: `ExportedFile` refuses the file or a row, or the store has rows on the same images with another
            number of test images; nothing is added.
    """
    checksum = compute_sha256(path)
    file = ExportedFile(path)
    new, known = set[str](), dict[str, RunResult]()
    file_results = file.read_results()
    # after an error in the file, no row of the file is stored
    with store.database.begin_exclusive_write() as connection:
        while part := {result.run.key: result for result in islice(file_results, _ROWS_PER_STATEMENT)}:
            added = insert_new(connection, results, [make_result_row(result) for result in part.values()])
            insert_new(connection, imports, [{"key": key, "file": checksum} for key in sorted(added)])
            known |= {key: result for key, result in part.items() if key not in added}
            new |= added
        totals = select(results.c.data, results.c.total).distinct()
        for row in select_matching(connection, totals, results.c.data, file.totals):
            file.refuse_different_total(row.data, row.total)
        for submission in file.submissions.values():
            insert_submission(connection, submission)
        insert_image_sources(connection, file.image_sources)
        insert_suites(connection, file.suites)
        insert_annotations(connection, file.annotations)
    stored = store.read_results(known)
    conflicts = [Conflict(own, known[key]) for key, own in sorted(stored.items()) if own.bits != known[key].bits]
    return ImportOutcome(new, set(stored) - {conflict.stored.run.key for conflict in conflicts}, conflicts)


def check_exported_files(paths: Iterable[Path]) -> None:
    """Read whole files without a store; raise StoreError if `import_results` would refuse a file for every store."""
    for path in paths:
        for _ in ExportedFile(path).read_results():
            pass
