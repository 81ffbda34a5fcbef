"""Record failures of runs, and of the steps that prepare runs (rankings, references).

The table `failures` keeps all failures of runs; the table `stopped` keeps the reasons of failed runs and steps until a
user retries them. If a machine interrupts a step, the step has not failed: a process tries the step again, and the
interruptions are counted until the step is done or fails.
"""

import socket
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, and_, delete, func, insert, select

from roarbench.common.errors import LostLease
from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.common.text import fit_on_one_line
from roarbench.plan.cells_and_runs import Run
from roarbench.store.database import Database, delete_rows, find_stored_keys, insert_new, select_matching
from roarbench.store.leases import LeaseRequest, Owner, delete_leases, release_lease
from roarbench.store.process_provenance import read_code_version
from roarbench.store.run_result import Failure, read_run
from roarbench.store.schema import failures, stopped, tries

MAX_REASON_LENGTH = 500  # maximum characters of a failure's reason


class Failures:
    """Failures of runs and steps in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def record_runs_failed_until_retry(self, runs: Sequence[Run], reason: str, lease: int | None = None) -> None:
        """Record that runs failed, and delete their leases with the number `lease`, if given.

        Only a user's request retries the runs. If a run succeeds later, the record of its failure stays.

        Raises:
            LostLease: One of the leases is gone; nothing is written.
        """
        reason = fit_on_one_line(reason, MAX_REASON_LENGTH)
        shared = {"reason": reason, "code_version": read_code_version()}
        rows = [{"key": run.key, "record": encode_canonically(make_json_record(run)), **shared} for run in runs]

        def work(connection: Connection) -> None:
            for run in runs:
                if lease is not None and not release_lease(connection, run.key, lease):
                    raise LostLease(f"another process took over the lease on {run.key}")
            connection.execute(insert(failures), rows)
            _replace_stopped_rows(connection, [run.key for run in runs], "", runs[0].data, reason)

        self._database.run_write(work)

    def record_step_failed_until_retry(self, step: LeaseRequest, reason: str, owner: Owner) -> None:
        """Record that a step that is no run failed, and delete its leases; only a user's request retries the step."""
        reason = fit_on_one_line(reason, MAX_REASON_LENGTH)

        def work(connection: Connection) -> None:
            _replace_stopped_rows(connection, step.keys, step.step_name, step.data, reason)
            delete_leases(connection, step.keys, owner)

        self._database.run_write(work)

    def find_stop_reasons(self, keys: Collection[str]) -> dict[str, str]:
        """Return a dict from the keys of runs and steps that failed, and were not retried since, to the reasons."""

        def work(connection: Connection) -> dict[str, str]:
            rows = select_matching(connection, select(stopped), stopped.c.key, keys)
            return {row.key: row.reason for row in rows}

        return self._database.run_read(work)

    def allow_retry_of_runs_and_steps(self, keys: Collection[str], data: str) -> set[str]:
        """Allow processes to do these failed runs, and all failed steps on the images `data`; return the runs' keys."""

        def work(connection: Connection) -> set[str]:
            failed = find_stored_keys(connection, stopped, keys)
            mark_not_failed_or_interrupted(connection, failed)
            is_failed_step = and_(stopped.c.what != "", stopped.c.data == data)
            connection.execute(delete(tries).where(tries.c.key.in_(select(stopped.c.key).where(is_failed_step))))
            connection.execute(delete(stopped).where(is_failed_step))
            return failed

        return self._database.run_write(work)

    def record_interruption(self, key: str, reason: str) -> int:
        """Record that a machine interrupted a step; return the step's number of interruptions."""
        row = {"key": key, "reason": fit_on_one_line(reason, MAX_REASON_LENGTH), "host": socket.gethostname()}

        def work(connection: Connection) -> int:
            connection.execute(insert(tries), row)
            return connection.scalar(select(func.count()).where(tries.c.key == key)) or 0

        return self._database.run_write(work)

    def read_history(self, keys: Collection[str]) -> dict[str, list[Failure]]:
        """Return a dict from keys of runs to all failures, oldest first, also of runs that succeeded later."""
        history: dict[str, list[Failure]] = {}
        with self._database.begin_read() as connection:
            for row in select_matching(connection, select(failures).order_by(failures.c.id), failures.c.key, keys):
                failure = Failure(read_run(row), row.reason, row.code_version, row.created)
                history.setdefault(row.key, []).append(failure)
        return history

    def list_data_and_limits_of_failed_runs(self, dataset: str, model: str) -> list[tuple[str, int | None]]:
        """Return pairs of fingerprint and images per split for the image sets of failed runs, oldest first."""
        records = select(failures.c.key, failures.c.record).order_by(failures.c.id)
        with self._database.begin_read() as connection:
            runs = [read_run(row) for row in connection.execute(records)]
        failed = [run for run in runs if (run.cell.dataset, run.cell.model) == (dataset, model)]
        return list(dict.fromkeys((run.data, run.limit) for run in failed))


def mark_not_failed_or_interrupted(connection: Connection, keys: Collection[str]) -> None:
    """Mark these runs or steps as neither failed nor interrupted; the history of their failures stays."""
    for table in (stopped, tries):
        delete_rows(connection, table, keys)


def _replace_stopped_rows(connection: Connection, keys: Collection[str], step: str, data: str, reason: str) -> None:
    mark_not_failed_or_interrupted(connection, keys)
    rows = [{"key": key, "what": step, "data": data, "reason": reason} for key in sorted(keys)]
    insert_new(connection, stopped, rows)
