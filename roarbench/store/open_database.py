"""Open a results database (SQLite or PostgreSQL), or create its tables."""

import os
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool

from roarbench.common.errors import EmptyStore, StoreError
from roarbench.store.database import PATIENCE, Database, convert_database_errors
from roarbench.store.schema import SCHEMA_VERSION, metadata, schema_version

_SQLITE_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html, section 1.3.1
_BEGIN = {  # from database and access (`Database`) to the statement that begins a transaction; psycopg begins by itself
    ("sqlite", "reading"): "BEGIN",
    ("sqlite", "writing"): "BEGIN IMMEDIATE",
    ("sqlite", "exclusive"): "BEGIN IMMEDIATE",
    ("postgresql", "exclusive"): "SELECT pg_advisory_xact_lock(19081806)",
}


def open_database(url: str, read_only: bool) -> Database:
    """Open the database with this URL; unless `read_only`, create a missing database.

    Raises:
        StoreError: The database is missing, unreadable, read-only, damaged, of another version, or not a store.
    """
    address = _parse_url(url)
    is_sqlite = address.get_backend_name() == "sqlite"
    where = str(address.database) if is_sqlite else address.set(query={}).render_as_string(hide_password=True)
    engine = _make_sqlite_engine(Path(where), read_only) if is_sqlite else _make_postgres_engine(address, read_only)
    event.listen(engine, "begin", _begin_transaction)
    database = Database(engine, where)
    try:
        _refuse_other_version(database, read_only)
        if not read_only:
            with database.begin_exclusive_write() as connection:  # fails early if the database is not writable
                if not _read_version(connection, where):
                    metadata.create_all(connection)
                    connection.execute(insert(schema_version), {"version_num": SCHEMA_VERSION})
        if is_sqlite and not read_only:
            _enable_write_ahead_log(engine, where)
            database.record_file_identity()
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
    if address.database in (None, "", ":memory:"):
        raise StoreError("the database URL names no database; write sqlite:///PATH or postgresql://HOST/NAME")
    return address


def _make_sqlite_engine(path: Path, read_only: bool) -> Engine:
    try:
        _check_or_create_sqlite_file(path, read_only)
    except OSError as error:
        raise StoreError(f"results store {path}: {error.strerror}; check the path and its permissions") from None
    # `_connect_to_sqlite` decides for each read whether the file can change, so reads share no connections
    pool = NullPool if read_only else QueuePool
    return create_engine("sqlite://", creator=partial(_connect_to_sqlite, path, read_only), poolclass=pool)


def _check_or_create_sqlite_file(path: Path, read_only: bool) -> None:
    """Refuse a missing file if `read_only`, otherwise create it; refuse a file that is not an SQLite database."""
    if blocked := next((parent for parent in path.parents if parent.is_file()), None):
        expected = "--store names a folder, --db sqlite:///FILE a database"
        raise StoreError(f"results store {path}: {blocked} is a file; {expected}")
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()  # `_connect_to_sqlite` never creates a file
    start = b""
    if path.exists():
        with path.open("rb") as file:
            start = file.read(len(_SQLITE_MAGIC))
    if read_only and not start:
        raise EmptyStore(f"no results store at {path}")
    if start not in (b"", _SQLITE_MAGIC):
        raise StoreError(f"results store {path}: this is not an SQLite database; name another file")


def _connect_to_sqlite(path: Path, read_only: bool) -> sqlite3.Connection:
    mode = "mode=ro" if read_only else "mode=rw"
    if read_only and not (os.access(path.parent, os.W_OK, effective_ids=True) or Path(f"{path}-wal").exists()):
        mode += "&immutable=1"  # no process writes the file, and SQLite cannot create auxiliary files in its folder
    uri = f"{path.absolute().as_uri()}?{mode}"
    # isolation_level=None: `_begin_transaction` starts transactions, not sqlite3
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")  # finished transactions are on the disk
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def _make_postgres_engine(address: URL, read_only: bool) -> Engine:
    options = f"-c lock_timeout={PATIENCE}s -c default_transaction_read_only={'on' if read_only else 'off'}"
    arguments: dict[str, Any] = {"options": options, "connect_timeout": 10}
    try:
        return create_engine(address, connect_args=arguments, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ModuleNotFoundError:
        raise StoreError("PostgreSQL needs psycopg; run `pip install 'roarbench[postgres]'`") from None


def _begin_transaction(connection: Connection) -> None:
    access = connection.get_execution_options()["access"]
    if statement := _BEGIN.get((connection.dialect.name, access)):
        connection.exec_driver_sql(statement)


def _refuse_other_version(database: Database, read_only: bool) -> None:
    """Refuse a database that is not a store of this version, before anything is written."""
    with database.begin_read() as connection:
        version = _read_version(connection, database.where)
    if read_only and not version:
        raise EmptyStore(f"no results store in the empty database {database.where}")
    if version not in ("", SCHEMA_VERSION):
        seen = f"results store {database.where} has schema {version}, expected {SCHEMA_VERSION}"
        raise StoreError(f"{seen}; use the version of roarbench that made the store, or another store")


def _read_version(connection: Connection, where: str) -> str:
    """Return the version of the schema; empty for an empty database."""
    names = inspect(connection).get_table_names()
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
