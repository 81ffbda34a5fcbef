"""Run transactions on a results database (SQLite or PostgreSQL), and convert database errors.

The database runs only one transaction of `begin_exclusive_write` at a time (SQLite: BEGIN IMMEDIATE; PostgreSQL: an
advisory lock), so data that such a transaction has read cannot change before the transaction writes. Frequent
operations (leases, results, failures) use `run_write`, which on PostgreSQL locks only the rows that the operation uses.
"""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Engine,
    Select,
    Table,
    delete,
    select,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

from roarbench.common.errors import RunError, StoreError
from roarbench.common.text import fit_on_one_line

T = TypeVar("T")
_KEYS_PER_STATEMENT = 10_000  # SQLite allows 32,766 parameters, PostgreSQL 65,535
_INSERT: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
PATIENCE = 60  # seconds to wait for another process's transaction; transactions here take milliseconds
# SQLSTATE prefixes of temporary errors: no connection, shutdown, server full, deadlock
_TEMPORARY_STATES = ("08", "57P0", "53300", "40P01", "40001")
_ADVICE = (  # parts of the database's message, and advice; the first match counts
    (("malformed",), "the file is damaged; restore a backup, or recover its rows with `sqlite3 FILE .recover`"),
    (
        ("is full", "No space left", "disk I/O error"),
        "the disk is full or damaged; free space and run the same command again (finished runs are kept)",
    ),
    (
        ("readonly", "read-only", "unable to open", "permission denied"),
        "the database cannot be read or written; check its path and permissions, or use another store",
    ),
    (
        ("locked", "lock timeout"),
        f"another process has locked it for more than {PATIENCE} s; wait for that process or stop it",
    ),
    (
        ("password", "pg_hba.conf"),
        "the server answered and refused this user; check the user in the URL, and PGPASSWORD or ~/.pgpass",
    ),
    (
        ("SSL was required", "certificate"),
        "the server answered, but not with the TLS that the URL requires; check sslmode and sslrootcert in the URL",
    ),
    (("does not exist",), "create the database (`createdb NAME`), or use another one"),
    (
        ("failed to resolve", "connection"),
        "the server cannot be reached; check that it runs, and the host, user and password of the URL",
    ),
)


class Database:
    """A results database.

    Methods raise StoreError if the database rejects a statement or stays unreachable, and for a damaged row. Writing
    methods raise RunError if the SQLite file is gone.

    Attributes:
        where: Name of the database in messages; never contains a password.
        patience: Seconds to wait for an unreachable server.
        report: Function to call with a message when the server becomes unreachable, and when the server is back.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        self.where = where
        self.patience = 0.0
        self.report: Callable[[str], object] = lambda line: None
        self._file: tuple[int, int] | None = None  # identity of the open SQLite file
        self._engine = engine
        self._reading_engine = engine.execution_options(access="reading")
        self._writing_engine = engine.execution_options(access="writing")
        self._exclusive_engine = engine.execution_options(access="exclusive")

    def run_write(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in a write transaction, which may overlap other write transactions on PostgreSQL.

        The call is repeated while the server is unreachable, so `work` must be idempotent.
        """
        with self._raise_afterwards_if_file_removed():
            return self._retry_while_unreachable(lambda: self._run_in_transaction(self._writing_engine, work))

    def run_read(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in a read transaction; the call is repeated while the server is unreachable."""
        with self._report_damaged_rows():
            return self._retry_while_unreachable(lambda: self._run_in_transaction(self._reading_engine, work))

    @contextmanager
    def _open_transaction(self, engine: Engine) -> Iterator[Connection]:
        with convert_database_errors(self.where), ExitStack() as stack:
            yield self._retry_while_unreachable(lambda: stack.enter_context(engine.begin()))

    def _run_in_transaction(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        with engine.begin() as connection:
            return work(connection)

    def _retry_while_unreachable(self, call: Callable[[], T]) -> T:
        start, reported = time.monotonic(), False
        while True:
            try:
                with convert_database_errors(self.where):
                    result = call()
            except StoreError as error:
                elapsed = time.monotonic() - start
                if not _is_temporary(error) or elapsed > self.patience:
                    raise
                # `report` may block, so other threads stay silent
                if not reported and threading.current_thread() is threading.main_thread():
                    self.report(f"{error}; this command waits for the server, and nothing is lost")
                    reported = True
                time.sleep(random.uniform(0.5, 1.5) * min(5.0, 0.1 + elapsed))
            else:
                if reported:
                    waited = f"{time.monotonic() - start:.0f} s"
                    self.report(f"results store {self.where}: the server is back after {waited}")
                return result

    @contextmanager
    def begin_exclusive_write(self) -> Iterator[Connection]:
        """Open a write transaction that excludes other write transactions."""
        with self._raise_afterwards_if_file_removed(), self._open_transaction(self._exclusive_engine) as connection:
            yield connection

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """Open a read transaction, which never blocks write transactions."""
        with self._report_damaged_rows(), self._open_transaction(self._reading_engine) as connection:
            yield connection

    @contextmanager
    def _report_damaged_rows(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:  # reading a row checks its values
            raise StoreError(f"results store {self.where}: a row is damaged ({error}); restore a backup") from error

    def record_file_identity(self) -> None:
        """Record the identity of the open SQLite file, because writes to a removed file would not fail."""
        self._file = _read_device_and_inode(self.where)

    def save_and_raise_if_file_removed(self) -> None:
        """Raise RunError if the opened SQLite file is gone, after saving its rows in a new file in the same folder."""
        if (
            self._file in (None, _read_device_and_inode(self.where))
            or threading.current_thread() is not threading.main_thread()
        ):
            return
        self._file, copy = None, f"{self.where}.kept-{os.getpid()}"
        try:
            with closing(self._engine.raw_connection()) as source, closing(sqlite3.connect(copy)) as target:
                cast(sqlite3.Connection, source.driver_connection).backup(target)
            saved = f"its rows were saved in {copy}: move that file back and run the same command again"
        except (DBAPIError, sqlite3.Error):  # the folder is gone, too, or no connection was open
            saved = "its rows could not be saved; restore a backup"
        raise RunError(f"results store {self.where} was removed or replaced while this command worked; {saved}")

    @contextmanager
    def _raise_afterwards_if_file_removed(self) -> Iterator[None]:
        try:
            yield
        finally:
            self.save_and_raise_if_file_removed()

    @property
    def is_sqlite(self) -> bool:
        """Return whether the database is an SQLite file."""
        return self._engine.dialect.name == "sqlite"

    def close(self) -> None:
        """Close all connections; the next transaction opens a new connection."""
        self._engine.dispose()


def _read_device_and_inode(path: str) -> tuple[int, int]:
    """Return a file's identity, which changes if another file replaces the file; zeros if there is no file."""
    try:
        status = Path(path).stat()
    except OSError:
        return 0, 0
    return status.st_dev, status.st_ino


def _is_temporary(error: StoreError) -> bool:
    cause = error.__cause__
    if not isinstance(cause, DBAPIError) or isinstance(cause.orig, sqlite3.Error):
        return False
    state = getattr(cause.orig, "sqlstate", None)  # None if no connection was established
    return cause.connection_invalidated or state is None or state.startswith(_TEMPORARY_STATES)


def select_matching(
    connection: Connection, statement: Select[Any], column: Column[str], keys: Collection[str]
) -> Iterator[Any]:
    """Yield the statement's rows that have one of these keys in this column; each execution selects many keys."""
    for chunk in _split_keys(keys):
        yield from connection.execute(statement.where(column.in_(chunk)))


def find_stored_keys(connection: Connection, table: Table, keys: Collection[str]) -> set[str]:
    """Return the keys that have a row in the table."""
    return {row.key for row in select_matching(connection, select(table.c.key), table.c.key, keys)}


def insert_new(
    connection: Connection, table: Table, rows: Sequence[dict[str, Any]], shared: Mapping[str, Any] = {}
) -> set[str]:
    """Insert the rows whose keys are new, in order; return the new keys.

    `shared` has the values, or SQL expressions, of columns that are equal in every row.
    """
    if not rows:
        return set()
    statement = _INSERT[connection.dialect.name](table)
    statement = statement.values(shared) if shared else statement
    inserted = connection.execute(statement.on_conflict_do_nothing().returning(*table.primary_key), list(rows))
    return set(inserted.scalars())


def delete_rows(connection: Connection, table: Table, keys: Collection[str], *conditions: ColumnElement[bool]) -> None:
    """Delete the table's rows that have one of these keys and fulfil the conditions."""
    for chunk in _split_keys(keys):
        connection.execute(delete(table).where(table.c.key.in_(chunk), *conditions))


def _split_keys(keys: Iterable[str]) -> Iterator[list[str]]:
    """Divide keys, without duplicates, into lists that each fit into one statement."""
    rest = iter(sorted(set(keys)))
    while chunk := list(islice(rest, _KEYS_PER_STATEMENT)):
        yield chunk


@contextmanager
def convert_database_errors(where: str) -> Iterator[None]:
    """Convert database errors in the `with` block to a one-line StoreError."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        text = str(getattr(error, "orig", error))
        matches = (advice for parts, advice in _ADVICE if any(part in text for part in parts))
        advice = next(matches, "see the database's documentation")
        raise StoreError(f"results store {where}: {fit_on_one_line(text, 200)}; {advice}") from error
