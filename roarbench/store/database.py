"""Open a results database (SQLite or PostgreSQL), run transactions on it, and convert database errors.

The database runs only one transaction of `begin_exclusive_write` at a time (SQLite: BEGIN IMMEDIATE; PostgreSQL: an
advisory lock), so data that such a transaction has read cannot change before the transaction writes. Frequent
operations (leases, results, failures) use `run_write`, which on PostgreSQL locks only the rows that the operation uses.
"""

import json
import logging
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, TypeVar, cast

from sqlalchemy import URL, Column, Connection, Engine, Select, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from roarbench.common.errors import EmptyStore, RunError, StoreError
from roarbench.store.database_errors import PATIENCE, convert_database_errors, is_temporary
from roarbench.store.schema import SCHEMA_VERSION, metadata, schema_version, select_matching

T = TypeVar("T")
# SQLAlchemy's traceback if a signal ends the program while a connection closes; other errors are reported as errors
logging.getLogger("sqlalchemy.pool").addHandler(logging.NullHandler())


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
        # identity of the open SQLite file, because writes to a removed file would not fail
        self._file: tuple[int, int] | None = None
        self._engine = engine
        accesses = ("reading", "writing", "exclusive")  # `_begin_transaction` explains them
        self._engines = {access: engine.execution_options(access=access) for access in accesses}

    def run_write(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in a write transaction, which may overlap other write transactions on PostgreSQL.

        The call is repeated while the server is unreachable, so `work` must be idempotent.
        """
        with self._raise_afterwards_if_file_removed():
            return self._retry_while_unreachable(lambda: self._run_in_transaction(self._engines["writing"], work))

    def run_read(self, work: Callable[[Connection], T]) -> T:
        """Call `work` in a read transaction; the call is repeated while the server is unreachable."""
        with self._report_damaged_rows():
            return self._retry_while_unreachable(lambda: self._run_in_transaction(self._engines["reading"], work))

    def read(self, statement: Select[Any], column: Column[str] | None = None, keys: Collection[str] = ()) -> list[Any]:
        """Return the rows of a statement, or those that have one of these keys in a column; repeated as `run_read`."""
        if column is None:
            return self.run_read(lambda connection: list(connection.execute(statement)))
        return self.run_read(lambda connection: list(select_matching(connection, statement, column, keys)))

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
                if not is_temporary(error) or elapsed > self.patience:
                    raise
                # `report` may block, so other threads stay silent
                if not reported and threading.current_thread() is threading.main_thread():
                    self.report(f"{error}; this command waits for the server, and nothing is lost")
                    reported = True
                time.sleep(random.SystemRandom().uniform(0.5, 1.5) * min(5.0, 0.1 + elapsed))
            else:
                if reported:
                    waited = f"{time.monotonic() - start:.0f} s"
                    self.report(f"results store {self.where}: the server is back after {waited}")
                return result

    @contextmanager
    def begin_exclusive_write(self) -> Iterator[Connection]:
        """Open a write transaction that excludes other write transactions."""
        with self._raise_afterwards_if_file_removed(), self._open_transaction(self._engines["exclusive"]) as connection:
            yield connection

    @contextmanager
    def begin_read(self) -> Iterator[Connection]:
        """Open a read transaction, which never blocks write transactions."""
        with self._report_damaged_rows(), self._open_transaction(self._engines["reading"]) as connection:
            yield connection

    @contextmanager
    def _report_damaged_rows(self) -> Iterator[None]:
        try:
            yield
        except ValueError as error:  # reading a row checks its values
            raise StoreError(f"results store {self.where}: a row is damaged ({error}); restore a backup") from error

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


_SMALLEST_PAGE = 512  # bytes; SQLite 3.40 takes a smaller file for an empty one, and would write over it
_SHARED_JSON = 2000  # maximum characters of a JSON text that is kept to be reused


def open_database(url: str, read_only: bool) -> Database:
    """Open the database with this URL; unless `read_only`, create a missing database.

    Raises:
        StoreError: The database is missing, unreadable, read-only, damaged, of another version, or not a store.
    """
    address = _parse_url(url)
    is_sqlite = address.get_backend_name() == "sqlite"
    shown = address.set(drivername="postgresql", query={})
    where = str(address.database) if is_sqlite else shown.render_as_string(hide_password=True)
    engine = _make_sqlite_engine(Path(where), read_only) if is_sqlite else _make_postgres_engine(address)
    event.listen(engine, "begin", partial(_begin_transaction, read_only))
    database = Database(engine, where)
    try:
        with database.begin_read() as connection:
            version = _read_version(connection, where)
        if read_only and not version:
            raise EmptyStore(f"no results store in the empty database {where}")
        if version not in ("", SCHEMA_VERSION):
            seen = f"results store {where} has schema {version}, expected {SCHEMA_VERSION}"
            raise StoreError(f"{seen}; use the version of roarbench that made the store, or another store")
        if not read_only:
            with database.begin_exclusive_write() as connection:  # fails early if the database is not writable
                if not _read_version(connection, where):
                    # unchecked: a check would find tables of the same names in other schemas of the search path
                    metadata.create_all(connection, checkfirst=False)
                    connection.execute(insert(schema_version), {"version_num": SCHEMA_VERSION})
        if is_sqlite and not read_only:
            _enable_write_ahead_log(engine, where)
            database._file = _read_device_and_inode(where)
    except BaseException:
        database.close()
        raise
    return database


def _parse_url(url: str) -> URL:
    try:
        address = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError("the database URL cannot be read; write sqlite:///PATH or postgresql://HOST/NAME") from None
    if address.drivername in ("postgresql", "postgres"):
        address = address.set(drivername="postgresql+psycopg")
    if address.drivername not in ("sqlite", "postgresql+psycopg"):
        seen = f"databases of type '{address.drivername}' are not supported"
        raise StoreError(f"{seen}; write sqlite:///PATH or postgresql://HOST/NAME")
    if "@" in (address.host or ""):  # the host contains the end of a password
        raise StoreError("the database URL has one '@' too many; in a password write %40, or set PGPASSWORD")
    if address.database in (None, "", ":memory:") and "service" not in address.query:
        raise StoreError("the database URL names no database; write sqlite:///PATH or postgresql://HOST/NAME")
    return address


def _make_sqlite_engine(path: Path, read_only: bool) -> Engine:
    """Return the engine of an SQLite file; create a missing file unless `read_only`."""
    size = 0
    try:
        if blocked := next((parent for parent in path.parents if parent.is_file()), None):
            expected = "--store names a folder, --db sqlite:///FILE a database"
            raise StoreError(f"results store {path}: {blocked} is a file; {expected}")
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists():
                path.touch()  # `_connect_to_sqlite` never creates a file
        if path.exists():  # another descriptor of the file would end this process's locks (`_has_file_locks`)
            size = path.stat().st_size
    except OSError as error:
        raise StoreError(f"results store {path}: {error.strerror}; check the path and its permissions") from None
    if read_only and not size:
        raise EmptyStore(f"no results store at {path}")
    if 0 < size < _SMALLEST_PAGE:
        raise StoreError(f"results store {path}: file is not a database; name another file")
    # `_connect_to_sqlite` decides for each read whether the file can change, so reads share no connections
    pool = NullPool if read_only else QueuePool
    return create_engine(
        "sqlite://", creator=partial(_connect_to_sqlite, path, read_only), poolclass=pool, json_deserializer=_parse_json
    )


_parse_shared_json = lru_cache(256)(json.loads)


def _parse_json(text: str) -> object:
    """Parse a JSON column; texts that many rows share, such as versions of libraries, are parsed once."""
    value = _parse_shared_json(text) if len(text) <= _SHARED_JSON else json.loads(text)
    return value.copy() if isinstance(value, (dict, list)) else value


def _connect_to_sqlite(path: Path, read_only: bool) -> sqlite3.Connection:
    mode = "mode=ro" if read_only else "mode=rw"
    if read_only and not (os.access(path.parent, os.W_OK, effective_ids=True) or Path(f"{path}-wal").exists()):
        mode += "&immutable=1"  # no process writes the file, and SQLite cannot create auxiliary files in its folder
    uri = f"{path.absolute().as_uri()}?{mode}"
    # isolation_level=None: `_begin_transaction` starts transactions, not sqlite3
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA synchronous=FULL")  # finished transactions are on the disk
        connection.execute("PRAGMA foreign_keys=ON")
    except sqlite3.Error:  # the first statement reads the file
        connection.close()
        raise
    return connection


def _make_postgres_engine(address: URL) -> Engine:
    # stored text is UTF-8 whatever the database's encoding; of SQL_ASCII, psycopg would return bytes
    # a proxy such as PgBouncer may give each transaction another connection, which lacks prepared statements
    arguments: dict[str, Any] = {"client_encoding": "utf8", "prepare_threshold": None}
    if not {"connect_timeout", "service"} & {*address.query} and "PGCONNECT_TIMEOUT" not in os.environ:
        arguments["connect_timeout"] = 10
    try:
        return create_engine(address, connect_args=arguments, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ModuleNotFoundError:
        raise StoreError("PostgreSQL needs psycopg; run `pip install 'roarbench[postgres]'`") from None


def _begin_transaction(read_only: bool, connection: Connection) -> None:
    access = connection.get_execution_options()["access"]  # `Database` sets it
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("BEGIN" if access == "reading" else "BEGIN IMMEDIATE")
        return
    # psycopg has begun the transaction. Its settings are not the connection's: as a connection's `options` they would
    # replace the user's (a URL's, PGOPTIONS or a service file's, such as the schema), and a pool of connections would
    # keep or refuse them
    settings = f"SELECT set_config('lock_timeout', '{PATIENCE}s', true)"
    lock = ", pg_advisory_xact_lock(19081806)" if access == "exclusive" else ""
    connection.exec_driver_sql(settings + lock + ", set_config('transaction_read_only', 'on', true)" * read_only)


def _read_version(connection: Connection, where: str) -> str:
    """Return the version of the schema; empty for an empty database."""
    # the schema in which `create_all` creates tables, and not all schemas of the search path
    names = inspect(connection).get_table_names(connection.dialect.default_schema_name)
    if schema_version.name in names:
        return connection.scalar(select(schema_version.c.version_num)) or ""
    if names:
        raise StoreError(f"{where} has other tables ({names[0]}, …) and no results; use a separate database")
    return ""


def _enable_write_ahead_log(engine: Engine, where: str) -> None:
    """Permanently switch the SQLite file to write-ahead logging, which allows reads during a write transaction."""
    deadline = time.monotonic() + PATIENCE
    with convert_database_errors(where):
        connection = engine.raw_connection()
        while True:
            try:
                connection.cursor().execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError:  # SQLite does not wait while another process changes the journal mode
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        connection.close()
