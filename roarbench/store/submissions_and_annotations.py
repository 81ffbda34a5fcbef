"""Submissions, the origin of rows, and annotations that are exported with rows. Nothing here imports torch.

A submission's annotation has the findings of `validate`; that of rankings has the share of noisy copies for which the
network keeps its prediction. Annotations that rankings were imported are stored here, too, but not exported.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, insert, inspect, select

from roarbench.errors import CallerError, StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import TRUSTED, EstimatorId
from roarbench.plan.run_records import CLEAN, read_run_record
from roarbench.store.database import Database, find_stored_keys, insert_new, select_matching
from roarbench.store.run_result import RunResult
from roarbench.store.schema import entries, failures, imports, remarks, reproductions, results
from roarbench.store.software_and_hardware import read_code_version
from roarbench.submissions.file import Submission, ValidationFinding, parse_submission


class Origin(StrEnum):
    """The way in which a row was computed."""

    VERIFIED = "verified"  # computed by this store's owner, submissions in the sandbox
    TRUSTED = "trusted"  # submission that ran without the sandbox
    SELF_REPORTED = "self-reported"  # the row or its rankings were imported, and this store has not reproduced the row


class ReproductionOutcome(StrEnum):
    """Outcome of a repeated run compared with its row."""

    EQUAL = "equal"
    WITHIN = "within the interval"
    DIFFERENT = "different"


def store_submission(database: Database, submission: Submission) -> None:
    """Store a submission's file; raise StoreError if another file has its id."""
    with database.begin_write() as connection:
        insert_submission(connection, submission)


def insert_submission(connection: Connection, submission: Submission) -> None:
    """Store a submission within a transaction."""
    known = connection.scalar(select(entries.c.sha256).where(entries.c.id == submission.file_id))
    if known is None:
        row = {"id": submission.file_id, "sha256": submission.sha256, "source": submission.source}
        connection.execute(insert(entries), row)
    elif known != submission.sha256:
        seen = f"a different file is stored as {submission.file_id}"
        raise StoreError(f"{seen}; add a comment to your file, so that its id changes")


def read_submissions_by_id(database: Database, ids: Collection[str] | None = None) -> dict[str, Submission]:
    """Return submissions by id: all, or those with one of these ids."""
    wanted = select(entries.c.id, entries.c.source).order_by(entries.c.created, entries.c.id)
    with database.begin_read() as connection:
        if ids is None:
            rows = list(connection.execute(wanted))
        else:
            rows = list(select_matching(connection, wanted, entries.c.id, ids))
    return {row.id: parse_submission(row.source) for row in rows}


def read_submissions_of_estimators(database: Database, estimators: Iterable[str]) -> dict[str, Submission]:
    """Return the submissions among these estimators by estimator id, with parameters and twins."""
    ids = {name: estimator_id for name in estimators if (estimator_id := EstimatorId.parse(name)).submitted}
    file_ids = {estimator_id.file_id for estimator_id in ids.values()}
    submissions = read_submissions_by_id(database, file_ids) if ids else {}
    return {
        name: submissions[estimator_id.file_id].replace_parameters(estimator_id.listed or "")
        for name, estimator_id in ids.items()
        if estimator_id.file_id in submissions
    }


def find_added_estimators(database: Database, dataset: str, model: str) -> list[str]:
    """Return the estimators that a store adds to suites on a data set and network, such as submissions.

    Estimators with failed runs are included, estimators that only newer versions have are not. A submission that ran
    without the sandbox has its own id, with `~trusted`.
    """
    done = select(results.c.estimator).where(results.c.dataset == dataset, results.c.model == model).distinct()
    failed = select(failures.c.record).distinct()
    with database.begin_read() as connection:
        estimators = set(connection.scalars(done))
        cells = [read_run_record(json.loads(text)).cell for text in connection.scalars(failed)]
    estimators |= {cell.estimator for cell in cells if (cell.dataset, cell.model) == (dataset, model)}
    return sorted(filter(_is_added_estimator, estimators))


def _is_added_estimator(name: str) -> bool:
    if name == CLEAN:
        return False
    try:
        estimator = find_estimator(name)
    except CallerError:
        return EstimatorId.parse(name).submitted
    return estimator.id == name and (estimator.addable or bool(estimator.values))


def read_origins(database: Database, keys: Collection[str]) -> dict[str, Origin]:
    """Return the origin of each stored row; of several reproductions, the last one counts."""
    columns = select(results.c.key, results.c.estimator, results.c.rankings)
    with database.begin_read() as connection:
        stored = list(select_matching(connection, columns, results.c.key, keys))
    return _find_origins(database, {row.key: (row.estimator, row.rankings) for row in stored})


def _find_origins(database: Database, rows: Mapping[str, tuple[str, str]]) -> dict[str, Origin]:
    """Return the origin of each of these rows, given as estimators and ranking checksums by key."""
    last = select(reproductions.c.key, reproductions.c.verdict).order_by(reproductions.c.id)
    shipped = read_annotations(database, AnnotationKind.IMPORTED, {rankings for _, rankings in rows.values()})
    imported = find_imported_rows(database, rows) | {key for key, (_, rankings) in rows.items() if rankings in shipped}
    with database.begin_read() as connection:
        verdicts = {row.key: row.verdict for row in select_matching(connection, last, reproductions.c.key, imported)}
    different = ReproductionOutcome.DIFFERENT
    doubted = {key for key in imported if verdicts.get(key, different) == different}
    return {key: _choose_origin(name, key in doubted) for key, (name, _) in rows.items()}


def find_imported_rows(database: Database, keys: Collection[str]) -> set[str]:
    """Return the rows that another store computed, without those trained here on imported rankings."""
    with database.begin_read() as connection:
        return find_stored_keys(connection, imports, keys)


UNVERIFIED = {  # why a row of this origin is not verified
    Origin.TRUSTED: "run without the sandbox, so not verified",
    Origin.SELF_REPORTED: "self-reported: imported, and not reproduced here",
}


def explain_unverified_estimators(database: Database, stored: Iterable[RunResult]) -> dict[str, str]:
    """Explain, for each estimator with an unverified row, why it is unverified."""
    rows = {result.run.key: (result.run.cell.estimator, result.rankings) for result in stored}
    origins = _find_origins(database, rows)
    return {rows[key][0]: UNVERIFIED[origin] for key, origin in origins.items() if origin in UNVERIFIED}


def _choose_origin(name: str, imported: bool) -> Origin:
    if TRUSTED in EstimatorId.parse(name).marks:
        return Origin.TRUSTED
    return Origin.SELF_REPORTED if imported else Origin.VERIFIED


def read_reproductions(database: Database, key: str) -> list[tuple[datetime, str, int]]:
    """Return the reproductions of a row as time, verdict and number of correct predictions, oldest first."""
    columns = (reproductions.c.created, reproductions.c.verdict, reproductions.c.correct)
    wanted = select(*columns).where(reproductions.c.key == key).order_by(reproductions.c.id)
    with database.begin_read() as connection:
        return [(row.created, row.verdict, row.correct) for row in connection.execute(wanted)]


def store_reproduction(database: Database, key: str, verdict: ReproductionOutcome, correct: int) -> None:
    """Store the outcome of a reproduction of a row."""
    row = {"key": key, "verdict": verdict.value, "correct": correct, "code_version": read_code_version()}
    with database.begin_write() as connection:
        connection.execute(insert(reproductions), row)


class AnnotationKind(StrEnum):
    """The kind of an annotation, whose subject is a submission's id, a checksum of rankings or the key of a run."""

    VALIDATE = "validate"
    STABILITY = "kept"
    IMPORTED = "imported"
    MASKS = "masks"  # the first two bytes of each test image's mask hash, base 64


def store_validation_findings(database: Database, submission_id: str, findings: Collection[ValidationFinding]) -> None:
    """Store the findings of `validate` on a submission; earlier findings are replaced."""
    key = f"{AnnotationKind.VALIDATE} {submission_id}"
    with database.begin_write() as connection:
        connection.execute(delete(remarks).where(remarks.c.key == key))
        insert_annotations(connection, {key: list(findings)})


def insert_annotations(connection: Connection, new: Mapping[str, Any]) -> None:
    """Store annotations by kind and subject within a transaction; existing ones stay unchanged."""
    insert_new(connection, remarks, [{"key": key, "value": value} for key, value in new.items()])


def read_annotations(database: Database, kind: AnnotationKind, subjects: Collection[str]) -> dict[str, Any]:
    """Return the annotations of these subjects; empty in an older store, which lacks the table."""
    keys = {f"{kind} {subject}": subject for subject in subjects}
    with database.begin_read() as connection:
        if not keys or not inspect(connection).has_table(remarks.name):
            return {}
        return {keys[row.key]: row.value for row in select_matching(connection, select(remarks), remarks.c.key, keys)}


def describe_validation_findings(database: Database, estimators: Collection[str]) -> dict[str, str]:
    """Describe the findings of `validate` for each submission, or twin of one, among these estimators."""
    entries = {
        name: parts.id_without_marks_and_twins for name in estimators if (parts := EstimatorId.parse(name)).submitted
    }
    annotations = read_annotations(database, AnnotationKind.VALIDATE, set(entries.values()))
    lists = {name: annotations[entry] for name, entry in entries.items() if annotations.get(entry)}
    return {name: f"`validate` found: {', '.join(words)}" for name, words in lists.items()}


def export_annotations(database: Database, exported: Collection[RunResult], stability: Mapping[str, float]) -> bytes:
    """Return the annotations that these rows need as JSON; `stability` has shares by rankings checksum."""
    rankings = {result.rankings for result in exported}
    names = {EstimatorId.parse(result.run.cell.estimator) for result in exported}
    subjects = {
        AnnotationKind.VALIDATE: {name.id_without_marks_and_twins for name in names if name.submitted},
        AnnotationKind.STABILITY: rankings,
        AnnotationKind.MASKS: {result.run.key for result in exported},
    }
    annotations = {
        f"{kind} {subject}": value
        for kind, wanted in subjects.items()
        for subject, value in read_annotations(database, kind, wanted).items()
    }
    annotations |= {
        f"{AnnotationKind.STABILITY} {checksum}": share for checksum, share in stability.items() if checksum in rankings
    }
    return json.dumps(annotations, sort_keys=True).encode()


def parse_annotations(text: bytes) -> dict[str, Any]:
    """Read and check the annotations of an export; raise ValueError if one is invalid."""
    checked = {}
    for key, value in dict(json.loads(text)).items():
        kind, _, subject = key.partition(" ")
        if len(subject) > 400 or not _is_valid_annotation(kind, value):
            raise ValueError(f"'{key[:60]}' is not a valid annotation")
        checked[key] = value
    return checked


def _is_valid_annotation(kind: str, value: Any) -> bool:
    if kind == AnnotationKind.STABILITY:
        return isinstance(value, float | int) and 0 <= value <= 1
    if kind == AnnotationKind.MASKS:
        return isinstance(value, str) and re.fullmatch("[A-Za-z0-9+/]*=*", value) is not None
    return kind == AnnotationKind.VALIDATE and isinstance(value, list) and set(value) <= {*ValidationFinding}
