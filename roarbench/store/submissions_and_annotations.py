"""Store submissions, and annotations of submissions, rankings and runs. Nothing here imports torch.

Exports contain annotations with results, except for annotations of kind `AnnotationKind.IMPORTED`.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, insert, inspect, select

from roarbench.common.errors import CallerError, StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN, read_run_record
from roarbench.store.database import Database, insert_new, select_matching
from roarbench.store.run_result import RunResult
from roarbench.store.schema import entries, failures, remarks, results
from roarbench.submissions.file import Submission, parse_submission
from roarbench.submissions.limits_and_faults import ValidationFinding


def store_submission(database: Database, submission: Submission) -> None:
    """Store a submission's file; raise StoreError if a different file has the same id."""
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
    """Return a dict from ids to stored submissions; `ids` selects submissions, and None selects all."""
    wanted = select(entries.c.id, entries.c.source).order_by(entries.c.created, entries.c.id)
    with database.begin_read() as connection:
        if ids is None:
            rows = list(connection.execute(wanted))
        else:
            rows = list(select_matching(connection, wanted, entries.c.id, ids))
    return {row.id: parse_submission(row.source) for row in rows}


def read_submissions_of_estimators(database: Database, estimators: Iterable[str]) -> dict[str, Submission]:
    """Return a dict from estimator ids to submissions with parameters; other estimators have no entry."""
    ids = {name: estimator_id for name in estimators if (estimator_id := EstimatorId.parse(name)).submitted}
    file_ids = {estimator_id.file_id for estimator_id in ids.values()}
    submissions = read_submissions_by_id(database, file_ids) if ids else {}
    return {
        name: submissions[estimator_id.file_id].replace_parameters(estimator_id.listed or "")
        for name, estimator_id in ids.items()
        if estimator_id.file_id in submissions
    }


def find_added_estimators(database: Database, dataset: str, model: str) -> list[str]:
    """Return the ids of stored submissions and other estimators that can be added to suites on a data set and network.

    Estimators that only have failed runs are included. Estimators that this version of roarbench lacks are not. A
    submission that ran without the sandbox has a different id, with `~trusted`.
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


class AnnotationKind(StrEnum):
    """Kind of an annotation; the kind determines the subject of the annotation."""

    VALIDATE = "validate"  # subject: submission id; value: findings of `validate`
    STABILITY = "kept"  # subject: checksum of rankings; value: share of noisy copies with an unchanged prediction
    IMPORTED = "imported"  # subject: checksum of imported rankings; value: True
    MASKS = "masks"  # subject: key of a run; value: first two bytes of each test image's mask hash, in base 64


def replace_validation_findings(
    database: Database, submission_id: str, findings: Collection[ValidationFinding]
) -> None:
    """Store the findings of `validate` on a submission, and delete earlier findings."""
    key = f"{AnnotationKind.VALIDATE} {submission_id}"
    with database.begin_write() as connection:
        connection.execute(delete(remarks).where(remarks.c.key == key))
        insert_annotations(connection, {key: list(findings)})


def insert_annotations(connection: Connection, new: Mapping[str, Any]) -> None:
    """Store annotations within a transaction; keys are `KIND SUBJECT`, and existing annotations stay unchanged."""
    insert_new(connection, remarks, [{"key": key, "value": value} for key, value in new.items()])


def read_annotations(database: Database, kind: AnnotationKind, subjects: Collection[str]) -> dict[str, Any]:
    """Return a dict from subjects to annotations of this kind; empty if an older store lacks the table."""
    keys = {f"{kind} {subject}": subject for subject in subjects}
    with database.begin_read() as connection:
        if not keys or not inspect(connection).has_table(remarks.name):
            return {}
        return {keys[row.key]: row.value for row in select_matching(connection, select(remarks), remarks.c.key, keys)}


def describe_validation_findings(database: Database, estimators: Collection[str]) -> dict[str, str]:
    """Return a dict from submissions, and twins of submissions, to a text with the findings of `validate`."""
    parsed = {name: EstimatorId.parse(name) for name in estimators}
    ids = {name: id_.id_without_marks_and_twins for name, id_ in parsed.items() if id_.submitted}
    findings = read_annotations(database, AnnotationKind.VALIDATE, set(ids.values()))
    return {name: f"`validate` found: {', '.join(findings[id_])}" for name, id_ in ids.items() if findings.get(id_)}


def export_annotations(database: Database, exported: Collection[RunResult], stability: Mapping[str, float]) -> bytes:
    """Return the annotations of these results as JSON; `stability` maps ranking checksums to prediction stability."""
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
    own_stability = {checksum: share for checksum, share in stability.items() if checksum in rankings}
    annotations |= {f"{AnnotationKind.STABILITY} {checksum}": share for checksum, share in own_stability.items()}
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
