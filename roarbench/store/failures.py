"""What failed: every failure of a run for good, and what is not tried again until somebody asks for it.

Runs fail, and so do steps before them (rankings, references); a step's reason is kept only until it is due again. What
a machine cut off has not failed: it is tried again, and counted until it is done or fails.
"""

import socket
from collections.abc import Collection, Sequence

from sqlalchemy import Connection, delete, func, insert, inspect, select

from roarbench.errors import LostLease
from roarbench.identity import encode_canonically, make_record
from roarbench.plan.runs import Run
from roarbench.store.database import Database, delete_rows, find_present, insert_new, select_matching
from roarbench.store.leases import LeaseRequest, Owner, drop_leases, release_lease
from roarbench.store.provenance import read_code_version
from roarbench.store.run_result import Failure, read_run
from roarbench.store.schema import failures, stopped, tries
from roarbench.text import fit_on_one_line

REASON_LENGTH = 500  # characters kept of a failure's reason


class Failures:
    """The failures of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def add(self, run: Run, reason: str, number: int | None = None) -> None:
        """Note that a run failed, see `add_all`."""
        self.add_all([run], reason, number)

    def add_all(self, runs: Sequence[Run], reason: str, number: int | None = None) -> None:
        """Note that runs failed, so that they are not tried until somebody asks for it; their leases are given up.

        Their history stays when they succeed later. They were tried under the leases of this number, or under none.

        Raises:
            LostLease: One of these leases is no longer there; nothing is written.
        """
        why = fit_on_one_line(reason, REASON_LENGTH)
        same = {"reason": why, "code_version": read_code_version()}
        rows = [{"key": run.key, "record": encode_canonically(make_record(run)), **same} for run in runs]

        def work(connection: Connection) -> None:
            for run in runs:
                if number is not None and not release_lease(connection, run.key, number):
                    raise LostLease(f"the lease on {run.key} went to another process")
            connection.execute(insert(failures), rows)
            _stop(connection, [run.key for run in runs], "", runs[0].data, why)

        self._database.change(work)

    def stop(self, step: LeaseRequest, reason: str, owner: Owner) -> None:
        """Release a step that is no run and failed; it is not tried until somebody asks for it."""

        def work(connection: Connection) -> None:
            _stop(connection, step.keys, step.what, step.data, fit_on_one_line(reason, REASON_LENGTH))
            drop_leases(connection, step.keys, owner)

        self._database.change(work)

    def stopped(self, keys: Collection[str]) -> dict[str, str]:
        """Return why, for those of these runs or steps that failed and are not tried until somebody asks for it."""

        def work(connection: Connection) -> dict[str, str]:
            if not inspect(connection).has_table(stopped.name):  # a store of an older version, which is only read
                newest = select(failures).order_by(failures.c.id)
                return {row.key: row.reason for row in select_matching(connection, newest, failures.c.key, keys)}
            return {row.key: row.reason for row in select_matching(connection, select(stopped), stopped.c.key, keys)}

        return self._database.ask(work)

    def retry(self, keys: Collection[str], data: str) -> set[str]:
        """Make failed runs due again, and all failed steps before runs on these images; return those runs' keys."""

        def work(connection: Connection) -> set[str]:
            due = find_present(connection, stopped, keys)
            clear_failures(connection, due)
            steps = select(stopped.c.key).where(stopped.c.what != "", stopped.c.data == data)
            connection.execute(delete(tries).where(tries.c.key.in_(steps)))
            connection.execute(delete(stopped).where(stopped.c.what != "", stopped.c.data == data))
            return due

        return self._database.change(work)

    def cut_off(self, key: str, reason: str) -> int:
        """Note that a machine cut a step off; how often that happened to it, by whichever process."""
        row = {"key": key, "reason": fit_on_one_line(reason, REASON_LENGTH), "host": socket.gethostname()}

        def work(connection: Connection) -> int:
            connection.execute(insert(tries), row)
            return connection.scalar(select(func.count()).where(tries.c.key == key)) or 0

        return self._database.change(work)

    def history(self, keys: Collection[str]) -> dict[str, list[Failure]]:
        """Return failures of these keys, oldest first; a run that succeeded later is still among them."""
        found: dict[str, list[Failure]] = {}
        with self._database.read() as connection:
            for row in select_matching(connection, select(failures).order_by(failures.c.id), failures.c.key, keys):
                failure = Failure(read_run(row), row.reason, row.code_version, row.created)
                found.setdefault(row.key, []).append(failure)
        return found

    def data_of(self, dataset: str, model: str) -> list[tuple[str, int | None]]:
        """Return fingerprints of the data that runs failed on, each with the images per split, oldest first."""
        records = select(failures.c.key, failures.c.record).order_by(failures.c.id)
        with self._database.read() as connection:
            runs = [read_run(row) for row in connection.execute(records)]
        asked = [run for run in runs if (run.cell.dataset, run.cell.model) == (dataset, model)]
        return list(dict.fromkeys((run.data, run.limit) for run in asked))


def clear_failures(connection: Connection, keys: Collection[str]) -> None:
    """Forget that these runs or steps failed or were cut off; a run's history stays."""
    for table in (stopped, tries):
        delete_rows(connection, table, keys)


def _stop(connection: Connection, keys: Collection[str], what: str, data: str, reason: str) -> None:
    clear_failures(connection, keys)
    rows = [{"key": key, "what": what, "data": data, "reason": reason} for key in sorted(keys)]
    insert_new(connection, stopped, rows)
