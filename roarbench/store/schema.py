"""Define the tables of the results store, and select, insert and delete rows by key.

Rows of scores, results and failures are never changed or deleted, except that the store's owner may archive results and
failures, which moves their rows to the table `forgotten`. Leases are inserted and deleted while runs are in progress.

Any change of a table needs a new `SCHEMA_VERSION`; stores with another version are refused.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Column,
    ColumnElement,
    Connection,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Select,
    String,
    Table,
    Text,
    delete,
    select,
)
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

SCHEMA_VERSION = "0010"
_KEYS_PER_STATEMENT = 10_000  # SQLite allows 32,766 parameters, PostgreSQL 65,535
metadata = MetaData()


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


def _make_columns_of_repeated_key() -> list[Column[Any]]:
    """Return the first columns of a table that may have several rows for one key."""
    return [Column("id", Integer, primary_key=True), Column("key", String(32), nullable=False, index=True)]


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
    # the index finds the newest row, a frequent query, without a scan of the wide rows
    Column("created", UtcDateTime, nullable=False, index=True),
    Index("ix_results_dataset_model", "dataset", "model"),
)
failures = Table(
    "failures",
    metadata,
    *_make_columns_of_repeated_key(),
    *_make_required_columns(Text, "record", "reason", "code_version"),
    _make_created_column(),
)
leases = Table(
    "leases",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("owner", Text, nullable=False, index=True),
    # number of this lease; an owner that lost a lease on a key may hold a later lease on the same key
    Column("number", BigInteger, nullable=False),
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("start", Text, nullable=False),  # start time, which distinguishes a process from later ones with its id
    Column("what", Text, nullable=False),  # name of the step; empty for a run
    Column("data", Text, nullable=False),  # fingerprint of the step's images
    *_make_required_columns(UtcDateTime, "since", "beat"),
)
tries = Table(  # interruptions of jobs that are neither done nor failed
    "tries",
    metadata,
    *_make_columns_of_repeated_key(),
    *_make_required_columns(Text, "reason", "host"),
    _make_created_column(),
)
stopped = Table(  # failed steps that wait for `retry`
    "stopped",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("what", Text, nullable=False),  # name of the step; empty for a run
    *_make_required_columns(Text, "data", "reason"),
    _make_created_column(),
)
checksums = Table(  # checksums of artifacts that many runs use
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
images = Table(  # sources of images
    "images",
    metadata,
    Column("key", String(32), primary_key=True),  # hash of the other columns
    *_make_required_columns(Text, "data", "dataset"),
    Column("limit", Integer),
    *_make_required_columns(Text, "kind", "folder", "files"),
    _make_created_column(),
)
forgotten = Table(  # archived results and failures
    "forgotten",
    metadata,
    *_make_columns_of_repeated_key(),
    *_make_required_columns(Text, "record", "kind"),
    Column("row", JSON, nullable=False),
    *_make_required_columns(Text, "reason", "who", "code_version"),
    _make_created_column(),
)
remarks = Table(  # annotations of submissions, rankings and runs
    "remarks",
    metadata,
    Column("key", Text, primary_key=True),  # kind and subject, see `annotations_and_scores.AnnotationKind`
    Column("value", JSON, nullable=False),
    _make_created_column(),
)
suites = Table(  # suites from users' files
    "suites",
    metadata,
    Column("id", Text, primary_key=True),  # NAME@VERSION
    Column("record", Text, nullable=False),  # canonical JSON of `plan.suites.convert_user_suite_to_record`
    Column("folder", Text, nullable=False),  # folder of the suite's data on this machine
    _make_created_column(),
)
reproductions = Table(  # rows that this store's owner recomputed
    "reproductions",
    metadata,
    *_make_columns_of_repeated_key(),
    Column("verdict", Text, nullable=False),
    Column("correct", Integer, nullable=False),
    Column("code_version", Text, nullable=False),
    _make_created_column(),
)


def select_matching(
    connection: Connection, statement: Select[Any], column: Column[str], keys: Collection[str]
) -> Iterator[Any]:
    """Yield the statement's rows that have one of these keys in this column; each execution selects many keys."""
    for chunk in _split_keys(keys):
        yield from connection.execute(statement.where(column.in_(chunk)))


def find_stored_keys(connection: Connection, table: Table, keys: Collection[str]) -> set[str]:
    return {row.key for row in select_matching(connection, select(table.c.key), table.c.key, keys)}


def insert_new(
    connection: Connection, table: Table, rows: Sequence[dict[str, Any]], shared: Mapping[str, Any] = {}
) -> set[str]:
    """Insert the rows whose keys are new, in order; return the new keys.

    `shared` has the values, or SQL expressions, of columns that are equal in every row.
    """
    if not rows:
        return set()
    # stores in SQLite need no modules for PostgreSQL, whose import takes a tenth of a second
    statement = import_module(f"sqlalchemy.dialects.{connection.dialect.name}").insert(table)
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
