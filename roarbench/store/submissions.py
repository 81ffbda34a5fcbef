"""What was submitted, and where rows come from. Nothing here imports torch."""

import json
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from enum import StrEnum

from sqlalchemy import Connection, insert, select

from roarbench.errors import CallerError, StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import TRUSTED, EstimatorId
from roarbench.plan.runs import CLEAN, read_run_record
from roarbench.store.annotations import Kind, find_annotations
from roarbench.store.database import Database, find_present, select_matching
from roarbench.store.provenance import read_code_version
from roarbench.store.run_result import RunResult
from roarbench.store.schema import entries, failures, imports, reproductions, results
from roarbench.submissions.file import Submission, check_source


class Origin(StrEnum):
    """Party that vouches for a row."""

    VERIFIED = "verified"  # computed by this store's owner, a submission in the sandbox
    TRUSTED = "trusted"  # a submission that was run without the sandbox
    SELF_REPORTED = "self-reported"  # it or its rankings were imported, and it was not reproduced here


class ReproductionOutcome(StrEnum):
    """Comparison of a run that was done again with its row."""

    EQUAL = "equal"
    WITHIN = "within the interval"
    DIFFERENT = "different"


def keep_entry(database: Database, submission: Submission) -> None:
    """Keep a submission's file for ever; StoreError where another has its id: equal names, hashes that begin alike."""
    with database.write() as connection:
        put_entry(connection, submission)


def put_entry(connection: Connection, submission: Submission) -> None:
    """Store an entry within a transaction."""
    known = connection.scalar(select(entries.c.sha256).where(entries.c.id == submission.file_id))
    if known is None:
        row = {"id": submission.file_id, "sha256": submission.sha256, "source": submission.source}
        connection.execute(insert(entries), row)
    elif known != submission.sha256:
        raise StoreError(f"another file is stored as {submission.file_id}; change yours by a comment")


def find_entries(database: Database, ids: Collection[str] | None = None) -> dict[str, Submission]:
    """Return what was submitted, by id: all of it, or what is among these ids."""
    wanted = select(entries.c.id, entries.c.source).order_by(entries.c.created, entries.c.id)
    with database.read() as connection:
        if ids is None:
            rows = list(connection.execute(wanted))
        else:
            rows = list(select_matching(connection, wanted, entries.c.id, ids))
    return {row.id: check_source(row.source) for row in rows}


def read_submissions(database: Database, estimators: Iterable[str]) -> dict[str, Submission]:
    """Return the submissions among these estimators, by the estimator's id, which also has parameters and twins."""
    ids = {name: asked for name in estimators if (asked := EstimatorId.read(name)).submitted}
    found = find_entries(database, {asked.file for asked in ids.values()}) if ids else {}
    return {name: found[asked.file].tuned(asked.listed or "") for name, asked in ids.items() if asked.file in found}


def find_entered_ids(database: Database, dataset: str, model: str) -> list[str]:
    """Return the ids run on a data set and network that no suite names: submissions, parameters, and what is addable.

    Failed ones are among them, those of newer versions of roarbench are not; `~trusted` stands apart.
    """
    done = select(results.c.estimator).where(results.c.dataset == dataset, results.c.model == model).distinct()
    failed = select(failures.c.record).distinct()
    with database.read() as connection:
        found = set(connection.scalars(done))
        cells = [read_run_record(json.loads(text)).cell for text in connection.scalars(failed)]
    found |= {cell.estimator for cell in cells if (cell.dataset, cell.model) == (dataset, model)}
    return sorted(filter(_is_entered, found))


def _is_entered(name: str) -> bool:
    if name == CLEAN:
        return False
    try:
        found = find_estimator(name)
    except CallerError:
        return EstimatorId.read(name).submitted
    return found.id == name and (found.addable or bool(found.values))


def read_origins(database: Database, keys: Collection[str]) -> dict[str, Origin]:
    """Return who vouches for each of the stored rows; of several reproductions the last one counts."""
    with database.read() as connection:
        columns = select(results.c.key, results.c.estimator, results.c.rankings)
        stored = select_matching(connection, columns, results.c.key, keys)
        return _find_origins(connection, {row.key: (row.estimator, row.rankings) for row in stored})


def _find_origins(connection: Connection, rows: Mapping[str, tuple[str, str]]) -> dict[str, Origin]:
    """Return who vouches for each of these rows, which are estimators with the checksum of their rankings by key."""
    last = select(reproductions.c.key, reproductions.c.verdict).order_by(reproductions.c.id)
    shipped = find_annotations(connection, Kind.IMPORTED, {rankings for _, rankings in rows.values()})
    imported = find_present(connection, imports, rows) | {
        key for key, (_, rankings) in rows.items() if rankings in shipped
    }
    again = {row.key: row.verdict for row in select_matching(connection, last, reproductions.c.key, imported)}
    different = ReproductionOutcome.DIFFERENT
    doubted = {key for key in imported if again.get(key, different) == different}
    return {key: _origin(name, key in doubted) for key, (name, _) in rows.items()}


def find_imported_rows(database: Database, keys: Collection[str]) -> set[str]:
    """Return those of these rows that another store computed; what was trained here on imported rankings is none."""
    with database.read() as connection:
        return find_present(connection, imports, keys)


_DOUBTS = {
    Origin.TRUSTED: "run without the sandbox, so not verified",
    Origin.SELF_REPORTED: "self-reported: imported and not reproduced here",
}


def explain_unverified(database: Database, stored: Iterable[RunResult]) -> dict[str, str]:
    """Say why, for each estimator of which a row is not verified."""
    rows = {result.run.key: (result.run.cell.estimator, result.rankings) for result in stored}
    with database.read() as connection:
        found = _find_origins(connection, rows)
    return {rows[key][0]: _DOUBTS[origin] for key, origin in found.items() if origin in _DOUBTS}


def _origin(name: str, imported: bool) -> Origin:
    if TRUSTED in EstimatorId.read(name).marks:
        return Origin.TRUSTED
    return Origin.SELF_REPORTED if imported else Origin.VERIFIED


def read_reproductions(database: Database, key: str) -> list[tuple[datetime, str, int]]:
    """Return when a row was computed again, with verdict and number of correct answers, oldest first."""
    columns = (reproductions.c.created, reproductions.c.verdict, reproductions.c.correct)
    wanted = select(*columns).where(reproductions.c.key == key).order_by(reproductions.c.id)
    with database.read() as connection:
        return [(row.created, row.verdict, row.correct) for row in connection.execute(wanted)]


def note_reproduction(database: Database, key: str, verdict: ReproductionOutcome, correct: int) -> None:
    """Note that a row was computed again."""
    row = {"key": key, "verdict": verdict.value, "correct": correct, "code_version": read_code_version()}
    with database.write() as connection:
        connection.execute(insert(reproductions), row)
