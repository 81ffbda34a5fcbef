"""Convert errors of SQLite and PostgreSQL to one line with advice.

Advice follows from error codes and from what the server answers to further questions, not from the words of a message,
which depend on the server's language and on proxies such as PgBouncer. Where the cause is unknown, the message stands
alone.
"""

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy.exc import DBAPIError

from roarbench.common.errors import StoreError
from roarbench.common.text import fit_on_one_line

PATIENCE = 60  # seconds to wait for another process's transaction; transactions here take milliseconds
# SQLSTATE prefixes of temporary errors: no connection, shutdown, server full, deadlock
_TEMPORARY_STATES = ("08", "57P0", "53300", "40P01", "40001")
_DAMAGED = "the file is damaged; restore a backup, or recover its rows with `sqlite3 FILE .recover`"
_FULL = (
    "the disk is full or damaged, or a limit on file sizes (`ulimit -f`) is reached; "
    "free space and run the same command again (finished runs are kept)"
)
_NOT_ALLOWED = "the database cannot be read or written; check its path and permissions, or use another store"
_LOCKED = f"another process has locked it for more than {PATIENCE} s; wait for that process or stop it"
_NO_LOCKS = "the file system of this folder has no file locks; use a folder on a local disk, or PostgreSQL (`--db URL`)"
_SQLITE_ADVICE = {  # by primary result code (https://sqlite.org/rescode.html)
    sqlite3.SQLITE_CORRUPT: _DAMAGED,
    sqlite3.SQLITE_NOTADB: "name another file; if this was a store, restore a backup",
    sqlite3.SQLITE_FULL: _FULL,
    sqlite3.SQLITE_IOERR: _FULL,
    sqlite3.SQLITE_READONLY: _NOT_ALLOWED,
    sqlite3.SQLITE_CANTOPEN: _NOT_ALLOWED,
    sqlite3.SQLITE_PERM: _NOT_ALLOWED,
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
}
_POSTGRES_ADVICE = {  # by SQLSTATE (PostgreSQL's documentation, appendix A)
    "25006": _NOT_ALLOWED,  # a transaction that may only read
    "42501": _NOT_ALLOWED,
    "3F000": "no schema of the search path exists; create the schema (`CREATE SCHEMA NAME`), or use another one",
    "42703": "a column of the store is missing; restore a backup, or use another database",
    "42P01": "a table of the store is missing; restore a backup, or use another database",
    "53100": _FULL,
    "55P03": _LOCKED,
    "58030": _FULL,
    "XX001": "the database is damaged; restore a backup",
}
_UNREACHABLE = "no PostgreSQL server answers there; check that it runs, and the host and port of the URL"


@contextmanager
def convert_database_errors(where: str) -> Iterator[None]:
    """Convert database errors in the `with` block to a one-line StoreError."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        text = fit_on_one_line(str(getattr(error, "orig", error)), 200)
        raise StoreError("; ".join(filter(None, [f"results store {where}: {text}", _advise(error, where)]))) from error


def is_temporary(error: StoreError) -> bool:
    """Return whether the statement of a converted error may succeed later, because the server was not reached."""
    cause = error.__cause__
    if not isinstance(cause, DBAPIError) or isinstance(cause.orig, sqlite3.Error):
        return False
    state = getattr(cause.orig, "sqlstate", None)  # None if no connection was established
    return cause.connection_invalidated or state is None or state.startswith(_TEMPORARY_STATES)


def _advise(error: DBAPIError | sqlite3.Error, where: str) -> str:
    """Return what the user can do; empty if that is unknown."""
    original = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(original, sqlite3.Error):
        code = getattr(original, "sqlite_errorcode", 0)  # errors of Python's module have no code
        if code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR) and not _has_file_locks(Path(where).parent):
            return _NO_LOCKS  # SQLite reports ENOLCK as a busy file, and other errors of locks as errors of the disk
        return _SQLITE_ADVICE.get(code & 0xFF, "")
    if state := getattr(original, "sqlstate", None):
        return _POSTGRES_ADVICE.get(state, "")
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return "the connection was lost; run the same command again (finished runs are kept)"
    return _advise_on_failed_connection(original)


def _has_file_locks(folder: Path) -> bool:
    """Try a lock on a new file; closing a second descriptor of the database would end the locks of this process.

    Then another process that closes the database deletes the write-ahead log, and what this process writes is lost to
    others until this process ends (https://sqlite.org/howtocorrupt.html, section 2.2).
    """
    import fcntl  # only this error needs these imports
    import tempfile

    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
    except OSError as error:
        return error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS)
    return True


def _advise_on_failed_connection(error: Any) -> str:
    """Ask the server why no connection was made: for such errors, psycopg has the server's words and no SQLSTATE."""
    import psycopg
    from psycopg.pq import PGconn, Ping

    if not isinstance(error, psycopg.OperationalError):
        return ""
    if isinstance(error, psycopg.errors.ConnectionTimeout) or error.pgconn is None:  # the latter: an unknown host
        return _UNREACHABLE
    if error.pgconn.needs_password:
        return "the server asks for a password, and none was given; set PGPASSWORD or ~/.pgpass"
    given = {option.keyword.decode(): option.val.decode() for option in error.pgconn.info if option.val}

    def ping(**changes: str) -> int:
        # A ping tells an answer from silence, and needs neither a right user nor an existing database. Of a database
        # that lets no connection succeed, PgBouncer delays further answers, hence another database.
        asked = given | {"dbname": "postgres", "connect_timeout": "5"} | changes
        return PGconn.ping(psycopg.conninfo.make_conninfo("", **asked).encode())

    answer = ping()
    if answer == Ping.OK:
        missing = _is_database_missing(given)
        return (
            "create the database (`createdb NAME`), or use another one"
            if missing
            else "the server answered and refused the connection"
        )
    if answer == Ping.REJECT:
        return "the server is starting or stopping; wait, and run the same command again"
    if given.get("sslmode") in ("require", "verify-ca", "verify-full") and ping(sslmode="prefer") == Ping.OK:
        return "the server answers, but not with the TLS that sslmode requires; check sslmode and sslrootcert"
    return _UNREACHABLE


def _is_database_missing(given: dict[str, str]) -> bool:
    """Return whether the server's own catalogue lacks the database; False if that cannot be asked.

    Through a proxy, which has names of its own for databases, the catalogue says nothing. A proxy shows itself by a
    process number that is not that of the server.
    """
    import psycopg

    try:
        with psycopg.connect(**(given | {"dbname": "postgres", "connect_timeout": "5"})) as connection:  # type: ignore[arg-type]
            query = "SELECT pg_backend_pid(), EXISTS (SELECT FROM pg_database WHERE datname = %s)"
            ((process, exists),) = connection.execute(query, [given["dbname"]])
            return bool(process == connection.info.backend_pid and not exists)
    except (psycopg.Error, KeyError):
        return False
