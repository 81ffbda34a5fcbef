"""Store annotations of submissions, rankings and runs, and the scores that Quantus gives to importance maps.

Exports contain annotations with results, except for annotations of kind `AnnotationKind.IMPORTED`. A stored score never
changes; if a metric's definition changes, its new scores have new keys.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from sqlalchemy import Connection, select

from roarbench.common.enums import MapNumerics
from roarbench.common.identity import Keyed, encode_canonically, make_json_record
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import Run
from roarbench.plan.plan_entry import PlanEntry, make_plan_entry, read_plan_entry
from roarbench.plan.suite import SuiteSpec
from roarbench.store.database import Database
from roarbench.store.run_result import RunResult
from roarbench.store.schema import delete_rows, insert_new, remarks, scores, select_matching
from roarbench.submissions.limits_and_faults import ValidationFinding


class AnnotationKind(StrEnum):
    """Kind of an annotation; the kind determines the subject of the annotation."""

    VALIDATE = "validate"  # subject: submission id; value: findings of `validate`
    STABILITY = "kept"  # subject: checksum of rankings; value: share of noisy copies with an unchanged prediction
    TIES = "ties"  # subject: checksum of rankings; value: share of features with the map's most frequent value
    LARGEST_CLASS = "largest-class"  # subject: fingerprint of images; value: share of the most frequent test class
    PASSES = "passes"  # subject: checksum of rankings; value: counted forward and backward passes per image
    IMPORTED = "imported"  # subject: checksum of imported rankings; value: True
    MASKS = "masks"  # subject: key of a run; value: first two bytes of each test image's mask hash, in base 64
    PLAN = "plan"  # subject: key of a run; value: key of the run's `PlanEntry`, which many runs share
    ENTRY = "entry"  # subject: key of a `PlanEntry`; value: its record


OF_RANKINGS = (AnnotationKind.STABILITY, AnnotationKind.TIES, AnnotationKind.PASSES)  # measured with the maps
_MEASURED = (*OF_RANKINGS, AnnotationKind.LARGEST_CLASS)


def replace_validation_findings(
    database: Database, submission_id: str, findings: Collection[ValidationFinding]
) -> None:
    """Store the findings of `validate` on a submission, and delete earlier findings."""
    with database.begin_exclusive_write() as connection:
        replace_annotations(connection, {f"{AnnotationKind.VALIDATE} {submission_id}": list(findings)})


def replace_annotations(connection: Connection, new: Mapping[str, Any]) -> None:
    """Store annotations within a transaction in place of those with the same keys; None only deletes."""
    delete_rows(connection, remarks, new)
    insert_annotations(connection, {key: value for key, value in new.items() if value is not None})


def insert_annotations(connection: Connection, new: Mapping[str, Any]) -> None:
    """Store annotations within a transaction; keys are `KIND SUBJECT`, and existing annotations stay unchanged."""
    insert_new(connection, remarks, [{"key": key, "value": value} for key, value in new.items()])


def insert_annotations_of_results(
    connection: Connection, new: Mapping[str, Any], added: Collection[str], same: Collection[str] = ()
) -> None:
    """Store annotations of results within a transaction.

    Args:
        connection: The transaction.
        new: The annotations; those of runs count only for `added`, hashes of masks also for `same`.
        added: Keys of the results that are new. They may replace archived ones, whose annotations then go.
        same: Keys of results that were stored before with the same values. They keep their plan entry, or none.
    """
    plans, masks = ({f"{kind} {key}" for key in added} for kind in (AnnotationKind.PLAN, AnnotationKind.MASKS))
    delete_rows(connection, remarks, plans | masks)
    of_runs = plans | masks | {f"{AnnotationKind.MASKS} {key}" for key in same}
    keys = of_runs | {key for key in new if key.split(" ")[0] not in (AnnotationKind.PLAN, AnnotationKind.MASKS)}
    insert_annotations(connection, {key: value for key, value in new.items() if key in keys})


def delete_claims_of_imports(connection: Connection, measured: Mapping[str, Any]) -> None:
    """Delete what imports claimed of rankings and images if `measured`, annotations of this store, has other values."""
    own = {key: value for key, value in measured.items() if key.split(" ")[0] in _MEASURED}
    stored = select_matching(connection, select(remarks), remarks.c.key, own)
    delete_rows(connection, remarks, [row.key for row in stored if row.value != own[row.key]])


def list_measured_subjects(result: RunResult) -> dict[AnnotationKind, str]:
    """Return a dict from the kinds of what is measured of a result's maps and masks to the subjects."""
    return {**dict.fromkeys(OF_RANKINGS, result.rankings), AnnotationKind.MASKS: result.run.key}


def read_measured_annotations(database: Database, result: RunResult) -> dict[AnnotationKind, Any]:
    """Return what was measured of a result's maps and masks, by kind; None if unknown."""
    subjects = list_measured_subjects(result)
    found = read_annotations_of_kinds(database, {kind: [subject] for kind, subject in subjects.items()})
    return {kind: found[kind].get(subject) for kind, subject in subjects.items()}


def read_annotations(database: Database, kind: AnnotationKind, subjects: Collection[str]) -> dict[str, Any]:
    """Return a dict from subjects to annotations of this kind."""
    return read_annotations_of_kinds(database, {kind: subjects})[kind]


def read_annotations_of_kinds(
    database: Database, subjects: Mapping[AnnotationKind, Collection[str]]
) -> dict[AnnotationKind, dict[str, Any]]:
    """Return a dict from each kind to its annotations by subject; `subjects` has the subjects of each kind."""
    keys = {f"{kind} {subject}": (kind, subject) for kind, some in subjects.items() for subject in some}
    found: dict[AnnotationKind, dict[str, Any]] = {kind: {} for kind in subjects}
    for key, value in database.read(select(remarks.c.key, remarks.c.value), remarks.c.key, keys):
        kind, subject = keys[key]
        found[kind][subject] = value
    return found


def describe_validation_findings(database: Database, estimators: Collection[str]) -> dict[str, str]:
    """Return a dict from submissions, and twins of submissions, to a text with the findings of `validate`."""
    parsed = {name: EstimatorId.parse(name) for name in estimators}
    ids = {name: id_.id_without_marks_and_twins for name, id_ in parsed.items() if id_.submitted}
    findings = read_annotations(database, AnnotationKind.VALIDATE, set(ids.values()))
    texts = {
        id_: f"Validation found: {'; '.join(ValidationFinding(finding).description for finding in found)}"
        for id_, found in findings.items()
        if found
    }
    return {name: texts[id_] for name, id_ in ids.items() if id_ in texts}


def make_plan_annotations(suite: SuiteSpec, runs: Iterable[Run]) -> dict[str, Any]:
    """Return annotations with what planned these runs of a suite."""
    by_row: dict[tuple[object, ...], PlanEntry] = {}  # runs of a row at other levels and seeds have the same entry
    annotations: dict[str, Any] = {}
    for run in runs:
        cell = run.cell
        row = (cell.order, cell.retrain, cell.estimator, suite.find_explained_number(cell, run.seed))
        entry = by_row.get(row) or by_row.setdefault(row, make_plan_entry(suite, run))
        annotations[f"{AnnotationKind.PLAN} {run.key}"] = entry.key
        annotations[f"{AnnotationKind.ENTRY} {entry.key}"] = make_json_record(entry)
    return annotations


def find_plan_entry(database: Database, key: str) -> PlanEntry | None:
    """Return what planned the run with this key; None for runs that were stored before entries were."""
    entry_keys = read_annotations(database, AnnotationKind.PLAN, [key]).values()
    records = read_annotations(database, AnnotationKind.ENTRY, entry_keys)
    return next(map(read_plan_entry, records.values()), None)


def export_annotations(database: Database, exported: Collection[RunResult], measured: Mapping[str, Any]) -> bytes:
    """Return the annotations of these results as JSON; `measured` has those in the files of rankings."""
    rankings = {result.rankings for result in exported}
    names = {EstimatorId.parse(result.run.cell.estimator) for result in exported}
    keys = {result.run.key for result in exported}
    plans = read_annotations(database, AnnotationKind.PLAN, keys)
    subjects = {
        AnnotationKind.VALIDATE: {name.id_without_marks_and_twins for name in names if name.submitted},
        **dict.fromkeys(OF_RANKINGS, rankings),
        AnnotationKind.LARGEST_CLASS: {result.run.data for result in exported},
        AnnotationKind.MASKS: keys,
        AnnotationKind.ENTRY: set(plans.values()),
    }
    found = read_annotations_of_kinds(database, subjects)
    found[AnnotationKind.PLAN] = plans
    annotations = {f"{kind} {subject}": value for kind, values in found.items() for subject, value in values.items()}
    own = {key: value for key, value in measured.items() if key.partition(" ")[2] in rankings}
    return json.dumps(annotations | own, sort_keys=True).encode()


def parse_and_check_annotations(text: bytes) -> dict[str, Any]:
    """Read and check the annotations of an export; raise ValueError if one is invalid."""
    annotations = dict(json.loads(text))
    for key, value in annotations.items():
        kind, _, subject = key.partition(" ")
        match kind:
            case AnnotationKind.PLAN | AnnotationKind.MASKS:
                form = "[0-9a-f]{32}" if kind == AnnotationKind.PLAN else "[A-Za-z0-9+/]*=*"
                valid = isinstance(value, str) and re.fullmatch(form, value) is not None
            case AnnotationKind.ENTRY:
                valid = read_plan_entry(value).key == subject
            case AnnotationKind.STABILITY | AnnotationKind.TIES | AnnotationKind.LARGEST_CLASS:
                valid = isinstance(value, float | int) and 0 <= value <= 1
            case AnnotationKind.PASSES:
                valid = isinstance(value, list) and len(value) == 2
                valid = valid and all(type(count) in (int, float) and 0 <= count < 1e15 for count in value)
            case _:
                valid = kind == AnnotationKind.VALIDATE and isinstance(value, list) and {*value} <= {*ValidationFinding}
        if len(subject) > 400 or not valid:
            raise ValueError(f"'{key[:60]}' is not a valid annotation")
    return annotations


@dataclass(frozen=True)
class ScoreSpec(Keyed):
    """Metric, and everything that determines the maps."""

    data: str  # fingerprint of the images
    reference: str  # key of the explained network
    estimator: str  # fingerprint of the estimator
    metric: str  # name of the metric
    parameters: str  # arguments of the metric that Quantus leaves to its caller, as text
    images: int  # maximum number of scored images; the first images of the test split are scored
    # requested settings for the explained network's maps; see `plan.cells_and_runs.Run`
    maps: MapNumerics = MapNumerics.FLOAT32


@dataclass(frozen=True)
class Score:
    """Mean score of an estimator's maps by one metric."""

    spec: ScoreSpec  # identity of the score
    estimator: str  # id of the estimator
    value: float | None  # mean over the images; None if the metric is undefined for every image
    count: int  # number of images in the mean
    versions: dict[str, str]  # versions of roarbench, the metric's library and its dependencies
    created: datetime = field(default_factory=lambda: datetime.now(UTC))  # time in UTC


def store_scores(database: Database, new: Iterable[Score]) -> None:
    """Store scores in one transaction; existing scores stay unchanged."""
    rows = []
    for score in new:
        row = {**vars(score), "metric": score.spec.metric, "key": score.spec.key}
        row["record"] = encode_canonically(make_json_record(row.pop("spec")))
        rows.append(row)
    with database.begin_exclusive_write() as connection:
        insert_new(connection, scores, rows)


class StoredScore(NamedTuple):
    """A stored score."""

    value: float | None  # mean over the images; None if the metric is undefined for every image
    images: int  # in the mean


def read_scores(database: Database, specs: Mapping[tuple[str, str], ScoreSpec]) -> dict[tuple[str, str], StoredScore]:
    """Return the stored scores among these specifications, by (estimator, metric); missing scores have no entry."""
    statement = select(scores.c.estimator, scores.c.key, scores.c.value, scores.c.count)
    stored = {(name, key): StoredScore(*score) for name, key, *score in database.read(statement)}
    scored = {name for name, _ in stored}
    keys = {cell: (cell[0], spec.key) for cell, spec in specs.items() if cell[0] in scored}  # a key is a slow hash
    return {cell: stored[key] for cell, key in keys.items() if key in stored}
