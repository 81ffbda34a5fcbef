"""Archive results and failures of runs, so that leaderboards no longer show them. Nothing here imports torch.

A separate table keeps the complete rows, with user, time and reason. Later commands may do the archived runs again.
"""

import getpass
import json
import socket
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import Connection, Table, insert, select

from roarbench.common.errors import CallerError
from roarbench.common.text import fit_on_one_line
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import EstimatorId
from roarbench.plan.cells_and_runs import CLEAN, Run, read_run_record
from roarbench.store.database import Database
from roarbench.store.leases import MAX_REASON_LENGTH, read_leases_of_living_owners
from roarbench.store.run_result import read_code_version
from roarbench.store.schema import (
    delete_rows,
    failures,
    forgotten,
    imports,
    reproductions,
    results,
    select_matching,
    stopped,
    tries,
)

_ARCHIVED_TABLES = {"result": results, "failure": failures}
_PROVENANCE_TABLES = {"imports": imports, "reproductions": reproductions}  # archived with results


@dataclass(frozen=True)
class ArchivedRow:
    """Archived result or failure of a run."""

    run: Run
    kind: str  # `result` or `failure`
    # columns of the archived row, and its provenance records; bytes are hex digits, times are ISO 8601
    row: dict[str, Any]
    reason: str  # reason for archiving, given by the store's owner
    who: str  # user and host
    created: datetime  # time of archiving, UTC


class ArchivedCounts(NamedTuple):
    """Numbers of archived rows."""

    results: int
    failures: int


def list_keys_of_estimator_and_twins(database: Database, estimator: str) -> list[str]:
    """Return the keys of all results and failures of an estimator and its twins."""
    estimators = _map_keys_to_candidate_estimators(database, estimator)
    return sorted(key for key, name in estimators.items() if _strip_twin(name) == estimator)


def list_submission_ids_with_rows(database: Database, prefix: str) -> list[str]:
    """Return the ids, without twins, of submissions that begin with this string and have results or failures."""
    names = {name for name in _map_keys_to_candidate_estimators(database, prefix).values() if name.startswith(prefix)}
    return sorted({_strip_twin(name) for name in names if EstimatorId.parse(name).submitted})


def _map_keys_to_candidate_estimators(database: Database, prefix: str) -> dict[str, str]:
    """Return a dict from run keys to estimators; includes all estimators that begin with `prefix`, and some others."""
    done = select(results.c.key, results.c.estimator).where(results.c.estimator.startswith(prefix, autoescape=True))
    failed = select(failures.c.key, failures.c.record).where(failures.c.record.contains(prefix, autoescape=True))
    with database.begin_read() as connection:
        estimators = {row.key: row.estimator for row in connection.execute(done)}
        records = {row.key: json.loads(row.record) for row in connection.execute(failed)}
        return estimators | {key: read_run_record(record).cell.estimator for key, record in records.items()}


def _strip_twin(name: str) -> str:
    return name if name == CLEAN else find_estimator(name).untwinned_id


def find_keys_even_if_archived(database: Database, prefix: str) -> list[str]:
    """Return the keys of results, failures and archived rows that begin with this string."""
    tables = (results, failures, forgotten)
    statements = [select(table.c.key).where(table.c.key.startswith(prefix, autoescape=True)) for table in tables]
    return sorted({row.key for statement in statements for row in database.read(statement)})


def archive_rows(database: Database, keys: Collection[str], reason: str) -> ArchivedCounts:
    """Archive the results and failures of these runs; raise CallerError if a process is working on one of them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # the system has no name for the user id
        user = "unknown"
    shared = {"reason": fit_on_one_line(reason, MAX_REASON_LENGTH), "code_version": read_code_version()}
    shared["who"] = f"{user} on {socket.gethostname()}"
    with database.begin_exclusive_write() as connection:
        if busy := {lease.key for lease in read_leases_of_living_owners(connection)} & set(keys):
            seen = f"{len(busy)} of these runs are in progress"
            raise CallerError(f"{seen}; stop the command that works on them, or wait until it ends")
        provenance = {name: _read_rows(connection, table, keys) for name, table in _PROVENANCE_TABLES.items()}
        rows_by_kind = {kind: _read_rows(connection, table, keys) for kind, table in _ARCHIVED_TABLES.items()}
        for kind, rows in rows_by_kind.items():
            for row in rows:
                attached = provenance if kind == "result" else {}
                own = {name: [one for one in records if one["key"] == row["key"]] for name, records in attached.items()}
                values = {"key": row["key"], "record": row.pop("record"), "kind": kind, "row": {**row, **own}}
                connection.execute(insert(forgotten), {**values, **shared})
        for table in (*_ARCHIVED_TABLES.values(), *_PROVENANCE_TABLES.values(), stopped, tries):
            delete_rows(connection, table, keys)
    return ArchivedCounts(len(rows_by_kind["result"]), len(rows_by_kind["failure"]))


def read_archived_rows(database: Database, keys: Collection[str]) -> list[ArchivedRow]:
    """Return the archived rows of these runs, oldest first."""
    return [
        ArchivedRow(read_run_record(json.loads(row.record)), row.kind, row.row, row.reason, row.who, row.created)
        for row in database.read(select(forgotten).order_by(forgotten.c.id), forgotten.c.key, keys)
    ]


def _read_rows(connection: Connection, table: Table, keys: Collection[str]) -> list[dict[str, Any]]:
    rows = [dict(row._mapping) for row in select_matching(connection, select(table), table.c.key, keys)]
    for row in rows:
        row |= {name: value.hex() for name, value in row.items() if isinstance(value, bytes)}
        row |= {name: value.isoformat() for name, value in row.items() if isinstance(value, datetime)}
    return rows
