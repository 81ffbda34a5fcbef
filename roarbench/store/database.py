"""A database of results, SQLite or PostgreSQL: opened at the newest schema, its troubles told in one line.

All writing transactions of a store come one after the other: on SQLite by BEGIN IMMEDIATE, on PostgreSQL by an
advisory lock. What a writing transaction reads therefore still holds when it writes.
"""

import os
import sqlite3
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Column, Connection, Engine, Select, create_engine, event, inspect, make_url, text
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from roarbench.calls import propose
from roarbench.errors import EmptyStore, StoreError
from roarbench.store import schema

MIGRATIONS = Path(__file__).parent / "migrations"
_CHUNK = 10_000  # keys in one statement; SQLite allows 32,766 parameters, PostgreSQL 65,535
_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html, section 1.3.1
PATIENCE = 60  # seconds to wait for another process's transaction; ours take milliseconds

_BEGIN_WRITING = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "SELECT pg_advisory_xact_lock(19081806)"}
_BEGIN_READING = {"sqlite": "BEGIN"}  # psycopg begins by itself
_ADVICE = {  # a piece of the database's own message -> what to do; the first that fits
    "malformed": "the file is damaged; restore a copy, or save what is left with `sqlite3 FILE .recover`",
    "is full": "the disk is full; make room and run the same command again, finished runs are kept",
    "No space left": "the server's disk is full; make room and run the same command again, finished runs are kept",
    "readonly": "the file or its folder cannot be written; change its permissions, or name another store",
    "read-only": "it cannot be written; change the permissions, or name another store",
    "unable to open": "the file or its folder cannot be opened; check the path and its permissions",
    "permission denied": "this user has no right to it; ask the database's owner",
    "locked": f"another process has held it for {PATIENCE} s; wait for it or stop it",
    "lock timeout": f"another process has held it for {PATIENCE} s; wait for it or stop it",
    "does not exist": "make the database (`createdb NAME`), or name another one",
    "failed to resolve": "no server has this name; check the host in the URL",
    "connection": "the server cannot be reached; check that it runs, and the host, user and password of the URL",
}


class Database:
    """A database at the newest schema.

    Attributes:
        where: How messages call it; never holds a password.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        self.where = where
        self._engine = engine
        self._reader = engine.execution_options(reading=True)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that no other writing transaction of the store overlaps.

        Raises:
            StoreError: The database refused, for a reason that lies outside of the code.
        """
        with _explained(self.where), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads, and never makes a writer wait.

        Raises:
            StoreError: The database refused, for a reason that lies outside of the code, or a row is damaged.
        """
        try:
            with _explained(self.where), self._reader.begin() as connection:
                yield connection
        except ValueError as error:  # rows check themselves when they are read
            raise StoreError(f"results store {self.where}: a row is damaged ({error}); restore a copy") from error

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()


def open_database(url: str, read_only: bool) -> Database:
    """Open a database; if it is to be written, make it or bring it to the newest schema.

    Args:
        url: `sqlite:///PATH` or `postgresql://USER:PASSWORD@HOST/NAME`.
        read_only: Create and change nothing.

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
            _upgrade(database)
        if lite and not read_only:
            _use_wal(engine, where)
    except BaseException:
        database.close()
        raise
    return database


def matching(
    connection: Connection, statement: Select[Any], column: Column[str], keys: Collection[str]
) -> Iterator[Any]:
    """Return the rows whose key is among these, in few statements however many there are."""
    for chunk in chunks(keys):
        yield from connection.execute(statement.where(column.in_(chunk)))


def chunks(keys: Collection[str]) -> Iterator[list[str]]:
    """Divide the keys, each once, into lists that fit into one statement."""
    rest = iter(sorted(set(keys)))
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def _parse(url: str) -> URL:
    try:
        place = make_url(url)
    except (ArgumentError, ValueError):
        raise StoreError("the database URL cannot be read; write sqlite:///PATH or postgresql://HOST/NAME") from None
    if place.drivername in ("postgresql", "postgres"):
        place = place.set(drivername="postgresql+psycopg")
    if place.drivername not in ("sqlite", "postgresql+psycopg"):
        raise StoreError(f"no results store in '{place.drivername}'; write sqlite:///PATH or postgresql://HOST/NAME")
    if place.database in (None, "", ":memory:"):
        raise StoreError("the database URL names no database; write sqlite:///PATH or postgresql://HOST/NAME")
    return place


def _sqlite_engine(path: Path, read_only: bool) -> Engine:
    try:
        _look(path, read_only)
    except OSError as error:
        raise StoreError(f"results store {path}: {error.strerror}; check the path and its permissions") from None

    def connect() -> sqlite3.Connection:
        return _connect(path, read_only)

    # A reader keeps no connection: whether the file can change while it looks is asked anew each time.
    return create_engine("sqlite://", creator=connect, poolclass=NullPool if read_only else QueuePool)


def _look(path: Path, read_only: bool) -> None:
    """Refuse a missing file before SQLite makes it, and another kind of file before SQLite overwrites a short one."""
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
    start = b""
    if path.exists():
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    if read_only and not start:
        raise EmptyStore(f"no results store at {path}", propose("run"))
    if start not in (b"", _MAGIC):
        raise StoreError(f"results store {path}: this is no SQLite database; name another file")


def _connect(path: Path, read_only: bool) -> sqlite3.Connection:
    mode = "mode=ro" if read_only else "mode=rwc"
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
    statements = _BEGIN_READING if connection.get_execution_options().get("reading") else _BEGIN_WRITING
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
        raise EmptyStore(f"no results store in the empty database {database.where}", propose("run"))
    if read_only and version < schema.READABLE:
        raise StoreError(
            f"results store {database.where} has schema {version}, this version reads {schema.HEAD}; "
            f"`{propose('run')}` brings it up to date and loses nothing"
        )


def _version(connection: Connection, where: str) -> str:
    """Return the schema's number; empty for an empty database."""
    names = inspect(connection).get_table_names()
    if schema.VERSION_TABLE in names:
        return str(connection.scalar(text(f"SELECT version_num FROM {schema.VERSION_TABLE}")) or "")
    if names:
        raise StoreError(f"{where} holds other tables ({names[0]}, …) and no results; name a database of its own")
    return ""


def _upgrade(database: Database) -> None:
    with database.write() as connection:  # also finds out whether it can be written at all
        if _version(connection, database.where) < schema.HEAD:
            _migrate(connection)


def _migrate(connection: Connection) -> None:
    from alembic import command  # half a second that only new and old stores need
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _use_wal(engine: Engine, where: str) -> None:
    """Let readers and the writer work at the same time; the file remembers it."""
    deadline = time.monotonic() + PATIENCE
    with _explained(where):
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


@contextmanager
def _explained(where: str) -> Iterator[None]:
    """Tell the database's trouble in one line."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        seen = " ".join(str(getattr(error, "orig", error)).split())[:200]
        advice = next(
            (advice for piece, advice in _ADVICE.items() if piece in seen), "see the database's documentation"
        )
        raise StoreError(f"results store {where}: {seen}; {advice}") from error
