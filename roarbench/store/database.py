"""A database of results, SQLite or PostgreSQL: opened at the newest schema, its troubles told in one line.

Writing transactions of a store come one after the other: on SQLite by BEGIN IMMEDIATE, on PostgreSQL by an advisory
lock. What such a transaction reads therefore still holds when it writes. What many processes do all the time (leases,
results, failures) goes by `change` instead, which on PostgreSQL locks no more than the rows that it touches.
"""

import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from sqlalchemy import URL, Column, Connection, Engine, Select, Table, create_engine, event, inspect, make_url, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import NullPool, QueuePool

from roarbench.calls import propose
from roarbench.errors import EmptyStore, StoreError
from roarbench.store import schema

T = TypeVar("T")
MIGRATIONS = Path(__file__).parent / "migrations"
_CHUNK = 10_000  # keys in one statement; SQLite allows 32,766 parameters, PostgreSQL 65,535
_INSERT: dict[str, Any] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}
_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html, section 1.3.1
PATIENCE = 60  # seconds to wait for another process's transaction; ours take milliseconds

_BEGIN_WRITING = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "SELECT pg_advisory_xact_lock(19081806)"}
_BEGIN_READING = {"sqlite": "BEGIN"}  # psycopg begins by itself
_BEGIN_CHANGING = {"sqlite": "BEGIN IMMEDIATE"}
_AWAY = ("08", "57P0", "53300", "40P01", "40001")  # how SQLSTATE begins: no connection, shutting down, full; deadlock
_ADVICE = {  # a piece of the database's own message -> what to do; the first that fits
    "malformed": "the file is damaged; restore a copy, or save what is left with `sqlite3 FILE .recover`",
    "is full": "the disk is full; make room and run the same command again, finished runs are kept",
    "disk I/O error": "the disk is full or damaged; make room and run the same command again, finished runs are kept",
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
        patience: Seconds for which a server that is gone is waited for.
        tell: Told in a line when the server is gone, and when it is back.
    """

    def __init__(self, engine: Engine, where: str) -> None:
        self.where = where
        self.patience = 0.0
        self.tell: Callable[[str], object] = _tell_nobody
        self._engine = engine
        self._reader = engine.execution_options(manner="reading")
        self._changer = engine.execution_options(manner="changing")

    def change(self, work: Callable[[Connection], T]) -> T:
        """Do some work in a writing transaction that others may overlap; on SQLite they come one after the other.

        While the server is gone the work is tried again; so it has to come out the same if it was done already.

        Raises:
            StoreError: The database refused, for a reason that lies outside of the code, or stays away.
        """
        return self._as_soon_as_possible(lambda: self._work(self._changer, work))

    def ask(self, work: Callable[[Connection], T]) -> T:
        """Do some work that only reads, and try it again while the server is gone.

        Raises:
            StoreError: As `change`, or a row is damaged.
        """
        with self._sound():
            return self._as_soon_as_possible(lambda: self._work(self._reader, work))

    @contextmanager
    def _begun(self, engine: Engine) -> Iterator[Connection]:
        """Open a transaction, as soon as the server is there."""
        with _explained(self.where), ExitStack() as stack:
            yield self._as_soon_as_possible(lambda: stack.enter_context(engine.begin()))

    def _work(self, engine: Engine, work: Callable[[Connection], T]) -> T:
        with engine.begin() as connection:
            return work(connection)

    def _as_soon_as_possible(self, call: Callable[[], T]) -> T:
        """Call a function, and again for as long as the server is gone."""
        begun, told = time.monotonic(), False
        while True:
            try:
                with _explained(self.where):
                    found = call()
            except StoreError as error:
                elapsed = time.monotonic() - begun
                if not is_away(error) or elapsed > self.patience:
                    raise
                if not told and threading.current_thread() is threading.main_thread():  # whoever is told may block
                    self.tell(f"{error}; until then this command waits, and nothing is lost")
                    told = True
                time.sleep(random.uniform(0.5, 1.5) * min(5.0, 0.1 + elapsed))
            else:
                if told:
                    self.tell(f"results store {self.where}: it is back after {time.monotonic() - begun:.0f} s")
                return found

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """Open a transaction that no other writing transaction of the store overlaps.

        Raises:
            StoreError: The database refused, for a reason that lies outside of the code.
        """
        with self._begun(self._engine) as connection:
            yield connection

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads, and never makes a writer wait.

        Raises:
            StoreError: The database refused, for a reason that lies outside of the code, or a row is damaged.
        """
        with self._sound(), self._begun(self._reader) as connection:
            yield connection

    @contextmanager
    def _sound(self) -> Iterator[None]:
        """Tell of damaged rows in one line."""
        try:
            yield
        except ValueError as error:  # rows check themselves when they are read
            raise StoreError(f"results store {self.where}: a row is damaged ({error}); restore a copy") from error

    @property
    def is_file(self) -> bool:
        """Return whether it is an SQLite file."""
        return self._engine.dialect.name == "sqlite"

    def close(self) -> None:
        """Close all connections; the next transaction opens one."""
        self._engine.dispose()


def _tell_nobody(line: str) -> None:
    pass


def is_away(error: StoreError) -> bool:
    """Return whether an error of a database is one of those that pass: no connection, or a transaction cut short."""
    cause = error.__cause__
    if not isinstance(cause, DBAPIError) or isinstance(cause.orig, sqlite3.Error):
        return False
    state = getattr(cause.orig, "sqlstate", None)  # none where not even a connection was made
    return cause.connection_invalidated or state is None or state.startswith(_AWAY)


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


def insert_new(
    connection: Connection, table: Table, rows: Sequence[dict[str, Any]], same: Mapping[str, Any] = MappingProxyType({})
) -> set[str]:
    """Add rows whose key is not in a table yet, in their order; return the keys of those.

    Args:
        connection: In a transaction.
        table: Where to.
        rows: All columns but those of `same`.
        same: Columns that are the same in every row; may be expressions.
    """
    if not rows:
        return set()
    statement = (
        _INSERT[connection.dialect.name](table).values(same) if same else _INSERT[connection.dialect.name](table)
    )
    found = connection.execute(statement.on_conflict_do_nothing().returning(table.c.key), list(rows))
    return set(found.scalars())


def chunks(keys: Iterable[str]) -> Iterator[list[str]]:
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
