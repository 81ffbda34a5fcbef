"""The tables of the results store.

Scores are only ever added to, and so are results and failures until their owner has them forgotten, which keeps them
whole in a table of their own; leases come and go while runs are under way.

Since the first release only tables were added. Whoever changes one that is here raises `HEAD`, and says in
`open_database._upgrade` how older stores get the change.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import JSON, BigInteger, Column, Double, Index, Integer, LargeBinary, MetaData, String, Table, Text
from sqlalchemy.types import DateTime, TypeDecorator, TypeEngine

HEAD = "0010"  # the newest schema; numbers of four digits, so that text order is time order
READABLE = "0003"  # what was added since then can be missing from a store that is only read

metadata = MetaData()


class UtcDateTime(TypeDecorator[datetime]):
    """A moment in UTC; SQLite keeps no time zone, so none is stored anywhere."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: object) -> datetime | None:
        """Turn a moment with a time zone into one in UTC without."""
        return value and value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: object) -> datetime | None:
        """Give a stored moment its time zone back."""
        return value and value.replace(tzinfo=UTC)


def _added() -> Column[datetime]:
    return Column("created", UtcDateTime, nullable=False, default=lambda: datetime.now(UTC))


def _required(kind: type[TypeEngine[Any]], *names: str) -> list[Column[Any]]:
    return [Column(name, kind, nullable=False) for name in names]


version = Table("roarbench_version", metadata, Column("version_num", String(32), primary_key=True))  # one row

results = Table(
    "results",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("record", Text, nullable=False),  # canonical JSON of the run; the key is its hash
    *_required(Text, "dataset", "model", "estimator", "order", "retrain", "fill", "unit"),
    Column("t", Double, nullable=False),
    Column("seed", Integer, nullable=False),
    *_required(Text, "recipe", "data", "estimator_fingerprint", "reference"),
    *_required(Integer, "correct", "total"),
    Column("bits", LargeBinary, nullable=False),
    Column("probability", LargeBinary),
    Column("rankings", Text, nullable=False),
    Column("smoothness", Double),
    Column("weights", Text, nullable=False),
    Column("loss", Double),
    Column("seconds", Double, nullable=False),
    Column("code_version", Text, nullable=False),
    *_required(JSON, "versions", "hardware"),
    Column("created", UtcDateTime, nullable=False),
    Index("ix_results_dataset_model", "dataset", "model"),
    Index("ix_results_created", "created"),  # the store's state is asked for often, and rows are wide
)

failures = Table(
    "failures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    *_required(Text, "record", "reason", "code_version"),
    _added(),
    Index("ix_failures_key", "key"),
)

leases = Table(  # missing from stores older than 0008
    "leases",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("owner", Text, nullable=False),
    Column("number", BigInteger, nullable=False),  # of this lease: an owner that lost it may hold a later one
    Column("host", Text, nullable=False),
    Column("pid", Integer, nullable=False),
    Column("start", Text, nullable=False),  # tells a process from a later one with the same number
    Column("what", Text, nullable=False),  # name of the step; empty for a run
    Column("data", Text, nullable=False),  # fingerprint of its images
    *_required(UtcDateTime, "since", "beat"),
    Index("ix_leases_owner", "owner"),
)

tries = Table(  # jobs that their machine cut off, until they are done or failed; missing from stores older than 0008
    "tries",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    *_required(Text, "reason", "host"),
    _added(),
    Index("ix_tries_key", "key"),
)

stopped = Table(  # what failed and is not done until somebody asks for it; missing from stores older than 0008
    "stopped",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("what", Text, nullable=False),  # name of the step; empty for a run
    *_required(Text, "data", "reason"),
    _added(),
)

checksums = Table(  # of what many runs rest on; missing from stores older than 0009
    "checksums",
    metadata,
    Column("key", String(32), primary_key=True),  # hash of the record of what was made
    Column("what", Text, nullable=False),
    Column("checksum", String(64), nullable=False),
    Column("folder", String(32), nullable=False),  # identity of the store's folder where it was made
    Column("place", Text, nullable=False),  # machine and path of that folder
    Column("created", UtcDateTime, nullable=False),
)

scores = Table(
    "scores",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("record", Text, nullable=False),  # canonical JSON of what was scored; the key is its hash
    *_required(Text, "estimator", "metric"),
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
    _added(),
)

imports = Table(  # rows that another store computed
    "imports",
    metadata,
    Column("key", String(32), primary_key=True),
    Column("file", String(64), nullable=False),  # checksum of the file that they came in
    _added(),
)

images = Table(  # where images came from; missing from stores older than 0004
    "images",
    metadata,
    Column("key", String(32), primary_key=True),  # hash of the rest
    *_required(Text, "data", "dataset"),
    Column("limit", Integer),
    *_required(Text, "kind", "folder", "files"),
    _added(),
)

forgotten = Table(  # results and failures that were taken off the boards; missing from stores older than 0005
    "forgotten",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    *_required(Text, "record", "kind"),
    Column("row", JSON, nullable=False),
    *_required(Text, "reason", "who", "code_version"),
    _added(),
    Index("ix_forgotten_key", "key"),
)

watched = Table(  # no longer used; missing from stores older than 0006
    "watched",
    metadata,
    Column("key", String(32), primary_key=True),  # hash of the rest
    *_required(Text, "suite", "data"),
    Column("limit", Integer),
    *_required(Text, "given", "retrain", "estimator"),
    Column("looks", Integer, nullable=False),
    _added(),
)

remarks = Table(  # on entries and rankings; missing from stores older than 0010
    "remarks",
    metadata,
    Column("key", Text, primary_key=True),  # kind and subject, as in `annotations.Kind`
    Column("value", JSON, nullable=False),
    _added(),
)

suites = Table(  # suites from somebody's file; missing from stores older than 0007
    "suites",
    metadata,
    Column("id", Text, primary_key=True),  # NAME@VERSION
    Column("record", Text, nullable=False),  # canonical JSON of `plan.custom_suite.suite_record`
    Column("folder", Text, nullable=False),  # where its data lay on this machine
    _added(),
)

reproductions = Table(  # rows that this store's owner computed again
    "reproductions",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("key", String(32), nullable=False),
    Column("verdict", Text, nullable=False),
    Column("correct", Integer, nullable=False),
    Column("code_version", Text, nullable=False),
    _added(),
    Index("ix_reproductions_key", "key"),
)
