"""Define the tables of the results store, open its database, and upgrade the database to the newest schema.

Rows of scores, results and failures are never changed or deleted, except that the store's owner may archive results and
failures, which moves their rows to the table `forgotten`. Leases are inserted and deleted while runs are in progress.

A change of an existing table increases `HEAD`, and `_upgrade_schema` makes the change in older stores.
"""

import os
import sqlite3
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import (
    JSON,
    URL,
    BigInteger,
    Column,
    Connection,
    Double,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    delete,
    event,
    insert,
    inspect,
    make_url,
    select,
)
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import NullPool, QueuePool
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

from roarbench.common.errors import EmptyStore, Hint, StoreError
from roarbench.store.database import PATIENCE, Database, convert_database_errors

HEAD = "0010"  # version of the newest schema; versions have four digits, so alphabetical order is order in time
READABLE = "0003"  # oldest schema that a read-only store may have; such a store may lack tables
metadata = MetaData()
_MAGIC = b"SQLite format 3\0"  # https://sqlite.org/fileformat.html, section 1.3.1
_BEGIN_WRITING = {"sqlite": "BEGIN IMMEDIATE", "postgresql": "SELECT pg_advisory_xact_lock(19081806)"}
_BEGIN_READING = {"sqlite": "BEGIN"}  # psycopg begins transactions by itself
_BEGIN_CHANGING = {"sqlite": "BEGIN IMMEDIATE"}
_STOP_WHAT_FAILED = """
INSERT INTO stopped (key, what, data, reason, created)
SELECT key, '', '', reason, created FROM failures
WHERE id IN (SELECT max(id) FROM failures GROUP BY key) AND key NOT IN (SELECT key FROM results)
"""


class UtcDateTime(TypeDecorator[datetime]):
    """Time in UTC, stored without a time zone, because SQLite cannot store time zones."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: object) -> datetime | None:
        """Convert a time with a time zone to UTC, and drop the time zone."""
        return value and value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: object) -> datetime | None:
        """Add the time zone UTC to a stored time."""
        return value and value.replace(tzinfo=UTC)


def _make_created_column() -> Column[datetime]:
    return Column("created", UtcDateTime, nullable=False, default=lambda: datetime.now(UTC))


def _make_required_columns(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


schema_version = Table("roarbench_version", metadata, Column("version_num", String(32), primary_key=True))  # one row
results = Table(
    "results",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("record", Text, nullable=False),  # canonical JSON of the run; the key is its hash
    *_make_required_columns(Text, "dataset", "model", "estimator", "order", "retrain", "fill", "unit"),
    Column("t", Double, nullable=False),
    Column("seed", Integer, nullable=False),
    *_make_required_columns(Text, "recipe", "data", "estimator_fingerprint", "reference"),
    *_make_required_columns(Integer, "correct", "total"),
    Column("bits", LargeBinary, nullable=False),
    Column("probability", LargeBinary),
    Column("rankings", Text, nullable=False),
    Column("smoothness", Double),
    Column("weights", Text, nullable=False),
    Column("loss", Double),
    Column("seconds", Double, nullable=False),
    Column("code_version", Text, nullable=False),
    *_make_required_columns(JSON, "versions", "hardware"),
    Column("created", UtcDateTime, nullable=False),
    Index("ix_results_dataset_model", "dataset", "model"),
    Index("ix_results_created", "created"),  # finds the newest row, a frequent query, without a scan of the wide rows
)
failures = Table(
    "failures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    *_make_required_columns(Text, "record", "reason", "code_version"),
    _make_created_column(),
    Index("ix_failures_key", "key"),
)
leases = Table(  # missing from stores older than 0008
    "leases",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("owner", Text, nullable=False),
    # number of this lease; an owner that lost a lease on a key may hold a later lease on the same key
    Column("number", BigInteger, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("start", Text, nullable=False),  # start time, which distinguishes a process from later ones with its id
    Column("what", Text, nullable=False),  # name of the step; empty for a run
    Column("data", Text, nullable=False),  # fingerprint of the step's images
    *_make_required_columns(UtcDateTime, "since", "beat"),
    Index("ix_leases_owner", "owner"),
)
tries = Table(  # interruptions of jobs that are neither done nor failed; missing from stores older than 0008
    "tries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    *_make_required_columns(Text, "reason", "host"),
    _make_created_column(),
    Index("ix_tries_key", "key"),
)
stopped = Table(  # failed steps that wait for `retry`; missing from stores older than 0008
    "stopped",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("what", Text, nullable=False),  # name of the step; empty for a run
    *_make_required_columns(Text, "data", "reason"),
    _make_created_column(),
)
checksums = Table(  # checksums of artifacts that many runs use; missing from stores older than 0009
    "checksums",
    metadata,
    Column("key", String(32), primary_key=True),  # hash of the artifact's record
    Column("what", Text, nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("folder", String(32), nullable=False),  # identity of the store's folder that made the artifact
    Column("place", Text, nullable=False),  # machine and path of that folder
    Column("created", UtcDateTime, nullable=False),
)
scores = Table(
    "scores",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("record", Text, nullable=False),  # canonical JSON of the score's identity; the key is its hash
    *_make_required_columns(Text, "estimator", "metric"),
    Column("value", Double),
    Column("count", Integer, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("created", UtcDateTime, nullable=False),
)
entries = Table(
    "entries",
    metadata,
    Column("id", String(49), primary_key=True),  # NAME@ and the first 8 hex digits of the hash
    Column("sha256", String(64), nullable=False),
    Column("source", LargeBinary, nullable=False),
    _make_created_column(),
)
imports = Table(  # rows computed by another store
    "imports",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("file", String(64), nullable=False),  # checksum of the imported file
    _make_created_column(),
)
images = Table(  # sources of images; missing from stores older than 0004
    "images",
    metadata,
    Column("key", String(32), primary_key=True),  # hash of the other columns
    *_make_required_columns(Text, "data", "dataset"),
    Column("limit", Integer),
    *_make_required_columns(Text, "kind", "folder", "files"),
    _make_created_column(),
)
forgotten = Table(  # archived results and failures; missing from stores older than 0005
    "forgotten",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    *_make_required_columns(Text, "record", "kind"),
    Column("row", JSON, nullable=False),
    *_make_required_columns(Text, "reason", "who", "code_version"),
    _make_created_column(),
    Index("ix_forgotten_key", "key"),
)
watched = Table(  # no longer used; missing from stores older than 0006
    "watched",
    metadata,
    Column("key", String(32), primary_key=True),  # hash of the other columns
    *_make_required_columns(Text, "suite", "data"),
    Column("limit", Integer),
    *_make_required_columns(Text, "given", "retrain", "estimator"),
    Column("looks", Integer, nullable=False),
    _make_created_column(),
)
remarks = Table(  # annotations of submissions, rankings and runs; missing from stores older than 0010
    "remarks",
    metadata,
    Column("key", Text, primary_key=True),  # kind and subject, see `submissions_and_annotations.AnnotationKind`
    Column("value", JSON, nullable=False),
    _make_created_column(),
)
suites = Table(  # suites from users' files; missing from stores older than 0007
    "suites",
    metadata,
    Column("id", Text, primary_key=True),  # NAME@VERSION
    Column("record", Text, nullable=False),  # canonical JSON of `plan.suite_record.convert_user_suite_to_record`
    Column("folder", Text, nullable=False),  # folder of the suite's data on this machine
    _make_created_column(),
)
reproductions = Table(  # rows that this store's owner recomputed
    "reproductions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("correct", Integer, nullable=False),
    Column("code_version", Text, nullable=False),
    _make_created_column(),
    Index("ix_reproductions_key", "key"),
)


def open_database(url: str, read_only: bool) -> Database:
    """Open the database with this URL; unless `read_only`, create the database or upgrade it to the newest schema.

    Raises:
        StoreError: The database is missing, unreadable, read-only, damaged, newer than this version, or not a store.
    """
    address = _parse_url(url)
    is_sqlite = address.get_backend_name() == "sqlite"
    where = str(address.database) if is_sqlite else address.set(query={}).render_as_string(hide_password=True)
    engine = _make_sqlite_engine(Path(where), read_only) if is_sqlite else _make_postgres_engine(address, read_only)
    event.listen(engine, "begin", _begin_transaction)
    database = Database(engine, where)
    try:
        _refuse_unreadable_version(database, read_only)
        if not read_only:
            with database.begin_write() as connection:  # fails early if the database is not writable
                if (version := _read_version(connection, where)) < HEAD:
                    _upgrade_schema(connection, version)
        if is_sqlite and not read_only:
            _use_wal(engine, where)
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
        _check_sqlite_file(path, read_only)
    except OSError as error:
        raise StoreError(f"results store {path}: {error.strerror}; check the path and its permissions") from None

    pool = (
        NullPool if read_only else QueuePool
    )  # `_connect_to_sqlite` decides for each read whether the file can change
    return create_engine("sqlite://", creator=partial(_connect_to_sqlite, path, read_only), poolclass=pool)


def _check_sqlite_file(path: Path, read_only: bool) -> None:
    """Refuse a missing file if `read_only`, otherwise create it; refuse a file that is not an SQLite database."""
    if blocked := next((parent for parent in path.parents if parent.is_file()), None):
        expected = "--store names a folder, --db sqlite:///FILE a database"
        raise StoreError(f"results store {path}: {blocked} is a file; {expected}")
    if not read_only:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.touch()  # only here: `_connect_to_sqlite` never creates a file
    start = b""
    if path.exists():
        with path.open("rb") as file:
            start = file.read(len(_MAGIC))
    if read_only and not start:
        raise EmptyStore(f"no results store at {path}")
    if start not in (b"", _MAGIC):
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
    manner = str(connection.get_execution_options().get("manner"))
    statements = {"reading": _BEGIN_READING, "changing": _BEGIN_CHANGING}.get(manner, _BEGIN_WRITING)
    if statement := statements.get(connection.dialect.name):
        connection.exec_driver_sql(statement)


def _refuse_unreadable_version(database: Database, read_only: bool) -> None:
    """Refuse a database that is not a store of this version, before anything is written."""
    with database.begin_read() as connection:
        version = _read_version(connection, database.where)
    if version > HEAD:
        raise StoreError(
            f"results store {database.where} has schema {version}, this version supports up to {HEAD}; "
            "run `pip install --upgrade roarbench`"
        )
    if read_only and not version:
        raise EmptyStore(f"no results store in the empty database {database.where}")
    if read_only and version < READABLE:
        seen = f"results store {database.where} has schema {version}, this version reads {HEAD}"
        raise StoreError(seen, Hint("; `{}` upgrades it without losing data", "run"))


def _read_version(connection: Connection, where: str) -> str:
    """Return the version of the schema; empty for an empty database."""
    names = inspect(connection).get_table_names()
    if schema_version.name in names:
        return connection.scalar(select(schema_version.c.version_num)) or ""
    if names:
        raise StoreError(f"{where} has other tables ({names[0]}, …) and no results; use a separate database")
    return ""


def _upgrade_schema(connection: Connection, version: str) -> None:
    if "" < version < "0008":
        # the table has leases of older versions, which are all stale, because no process works during an upgrade
        connection.exec_driver_sql("DROP TABLE claims")
    metadata.create_all(connection)
    if version < "0008":
        connection.exec_driver_sql(_STOP_WHAT_FAILED)
    connection.execute(delete(schema_version))
    connection.execute(insert(schema_version), {"version_num": HEAD})


def _use_wal(engine: Engine, where: str) -> None:
    """Switch the file permanently to write-ahead logging, which allows reads during a write transaction."""
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
