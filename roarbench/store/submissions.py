"""Store submissions, and find the submissions and other estimators that a suite can add."""

import json
from collections.abc import Collection, Iterable

from sqlalchemy import Connection, insert, select

from roarbench.common.errors import CallerError, StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN, read_run_record
from roarbench.store.database import Database, select_matching
from roarbench.store.schema import entries, failures, results
from roarbench.submissions.submission_file import Submission, parse_submission


def store_submission(database: Database, submission: Submission) -> None:
    """Store a submission's file; raise StoreError if a different file has the same id."""
    with database.begin_exclusive_write() as connection:
        insert_submission(connection, submission)


def insert_submission(connection: Connection, submission: Submission) -> None:
    """Store a submission within a transaction."""
    known = connection.scalar(select(entries.c.sha256).where(entries.c.id == submission.id_without_parameters))
    if known is None:
        row = {"id": submission.id_without_parameters, "sha256": submission.sha256, "source": submission.source}
        connection.execute(insert(entries), row)
    elif known != submission.sha256:
        seen = f"a different file is stored as {submission.id_without_parameters}"
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
    file_ids = {estimator_id.id_without_parameters for estimator_id in ids.values()}
    submissions = read_submissions_by_id(database, file_ids) if ids else {}
    return {
        name: submissions[estimator_id.id_without_parameters].replace_parameters(estimator_id.listed or "")
        for name, estimator_id in ids.items()
        if estimator_id.id_without_parameters in submissions
    }


def find_addable_estimators_with_runs(database: Database, dataset: str, model: str) -> list[str]:
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
    return sorted(filter(_is_addable_estimator, estimators))


def _is_addable_estimator(name: str) -> bool:
    if name == CLEAN:
        return False
    try:
        estimator = find_estimator(name)
    except CallerError:
        return EstimatorId.parse(name).submitted
    return estimator.id == name and (estimator.addable or bool(estimator.values))
