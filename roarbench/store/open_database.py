"""Opens a database of results: an SQLite file or a PostgreSQL server, brought to the newest schema."""

import os
import sqlite3
import time
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, insert, inspect, make_url, select
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool

from roarbench.errors import EmptyStore, Hint, StoreError
from roarbench.store import schema
from roarbench.store.database import PATIENCE, Database, explain_errors

_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html, section 1.3.1

_BEGIN_WRITING = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "SELECT pg_advisory_xact_lock(19081806)"}
_BEGIN_READING = {"sqlite": "BEGIN"}  # psycopg begins by itself
_BEGIN_CHANGING = {"sqlite": "BEGIN IMMEDIATE"}
_STOP_WHAT_FAILED = """
INSERT INTO stopped (key, what, data, reason, created)
SELECT key, '', '', reason, created FROM failures
WHERE id IN (SELECT max(id) FROM failures GROUP BY key) AND key NOT IN (SELECT key FROM results)
"""


def open_database(url: str, read_only: bool) -> Database:
    """Open a database by URL; if it is to be written, make it or bring it to the newest schema.

    Raises:
        StoreError: It is missing, unreadable, read-only, damaged, of a newer version or no results store.
    """
    place = _parse(url)
    lite = place.get_backend_name() == "sqlite"
    where = str(place.database) if lite else place.set(query={}).render_as_string(hide_password=True)
    engine = _sqlite_engine(Path(where), read_only) if lite else _postgres_engine(place, read_only)
    event.listen(engine, "begin", _begin)
    database = Database(engine, where)
    try:
        _check(database, read_only)
        if not read_only:
            with database.write() as connection:  # also finds out whether it can be written at all
                if (version := _version(connection, where)) < schema.HEAD:
                    _upgrade(connection, version)
        if lite and not read_only:
            _use_wal(engine, where)
            database.watch()
    except BaseException:
        database.close()
        raise
    return database


def _parse(url: str) -> URL:
    try:
        place = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError("the database URL cannot be read; write sqlite:///PATH or postgresql://HOST/NAME") from None
    if place.drivername in ("postgresql", "postgres"):
        place = place.set(drivername="postgresql+psycopg")
    if place.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StoreError(f"no results store in '{place.drivername}'; write sqlite:///PATH or postgresql://HOST/NAME")
    if "@" in (place.host or ""):  # the end of a password
        raise StoreError("the database URL has an '@' too many; in a password write %40, or leave it to PGPASSWORD")
    if place.database in (None, "", ":memory:"):
        raise StoreError("the database URL names no database; write sqlite:///PATH or postgresql://HOST/NAME")
    return place


def _sqlite_engine(path: Path, read_only: bool) -> Engine:
    try:
        _look(path, read_only)
    except OSError as error:
        raise StoreError(f"results store {path}: {error.strerror}; check the path and its permissions") from None

    pool = NullPool if read_only else QueuePool  # whether the file can change while a reader looks is asked each time
    return create_engine("sqlite://", creator=partial(_connect, path, read_only), poolclass=pool)


def _look(path: Path, read_only: bool) -> None:
    """Refuse a missing file before SQLite makes it, and another kind of file before SQLite overwrites a short one."""
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()  # once: `_connect` makes no other one in its place
    start = b""
    if path.exists():
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    if read_only and not start:
        raise EmptyStore(f"no results store at {path}")
    if start not in (b"", _MAGIC):
        raise StoreError(f"results store {path}: this is not an SQLite database; name another file")


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    mode = "mode=ro" if read_only else "mode=rw"
    if read_only and not (os.access(path.parent, os.W_OK, effective_ids=True) or Path(f"{path}-wal").exists()):
        mode += "&immutable=1"  # nobody is writing, and SQLite cannot make the files that it reads beside
    uri = f"{path.absolute().as_uri()}?{mode}"
    # isolation_level=None: sqlite3 begins no transaction of its own, `_begin` does
    connection = sqlite3.connect(uri, uri=True, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")  # done means on the disk
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def _postgres_engine(place: URL, read_only: bool) -> Engine:
    options = f"-c lock_timeout={PATIENCE}s -c default_transaction_read_only={'on' if read_only else 'off'}"
    arguments: dict[str, Any] = {"options": options, "connect_timeout": 10}
    try:
        return create_engine(place, connect_args=arguments, isolation_level="READ COMMITTED", pool_pre_ping=True)
    except ModuleNotFoundError:
        raise StoreError("PostgreSQL needs psycopg; write `pip install 'roarbench[postgres]'`") from None


def _begin(connection: Connection) -> None:
    manner = str(connection.get_execution_options().get("manner"))
    statements = {"reading": _BEGIN_READING, "changing": _BEGIN_CHANGING}.get(manner, _BEGIN_WRITING)
    if statement := statements.get(connection.dialect.name):
        connection.exec_driver_sql(statement)


def _check(database: Database, read_only: bool) -> None:
    """Refuse what is no store of this version, before anything is written."""
    with database.read() as connection:
        version = _version(connection, database.where)
    if version > schema.HEAD:
        raise StoreError(
            f"results store {database.where} has schema {version}, this version knows {schema.HEAD}; "
            "write `pip install --upgrade roarbench`"
        )
    if read_only and not version:
        raise EmptyStore(f"no results store in the empty database {database.where}")
    if read_only and version < schema.READABLE:
        raise StoreError(
            f"results store {database.where} has schema {version}, this version reads {schema.HEAD}",
            Hint("; `{}` brings it up to date and loses nothing", "run"),
        )


def _version(connection: Connection, where: str) -> str:
    """Return the schema's number; empty for an empty database."""
    names = inspect(connection).get_table_names()
    if schema.version.name in names:
        return connection.scalar(select(schema.version.c.version_num)) or ""
    if names:
        raise StoreError(f"{where} holds other tables ({names[0]}, …) and no results; name a database of its own")
    return ""


def _upgrade(connection: Connection, version: str) -> None:
    """Bring an empty database, or a store of an older schema, to the newest."""
    if "" < version < "0008":
        connection.exec_driver_sql("DROP TABLE claims")  # before leases; nobody works on it now: they are of the dead
    schema.metadata.create_all(connection)
    if version < "0008":
        connection.exec_driver_sql(_STOP_WHAT_FAILED)
    connection.execute(delete(schema.version))
    connection.execute(insert(schema.version), {"version_num": schema.HEAD})


def _use_wal(engine: Engine, where: str) -> None:
    """Let readers and the writer work at the same time; the file remembers it."""
    deadline = time.monotonic() + PATIENCE
    with explain_errors(where):
        connection = engine.raw_connection()
        while True:
            try:
                connection.cursor().execute("PRAGMA journal_mode=WAL")
                break
            except sqlite3.OperationalError:  # SQLite does not wait here for another process that does the same
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        connection.close()
