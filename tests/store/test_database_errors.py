"""Advice in database errors follows from codes and answers, whatever words and language the server uses."""

import errno
import fcntl
import socket
import sqlite3
import struct
import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

psycopg = pytest.importorskip("psycopg")

from roarbench.common.errors import StoreError  # noqa: E402
from roarbench.store.annotations_and_scores import insert_annotations  # noqa: E402
from roarbench.store.database import open_database  # noqa: E402
from roarbench.store.database_errors import _is_database_missing, convert_database_errors  # noqa: E402
from roarbench.store.schema import remarks  # noqa: E402

pytestmark = pytest.mark.process
CLOSING = """
import sys
from pathlib import Path
from sqlalchemy.engine.default import DefaultDialect
from roarbench.store.results import ResultsStore, make_default_url
DefaultDialect.do_close = lambda dialect, connection: sys.exit(143)  # the signal arrives now
with ResultsStore.open(make_default_url(Path(sys.argv[1]))):
    pass
"""
WRITING_AND_CLOSING = """
import sys
from roarbench.store.annotations_and_scores import insert_annotations
from roarbench.store.database import open_database
database = open_database(sys.argv[1], read_only=False)
database.run_write(lambda connection: insert_annotations(connection, {"b": 1}))
database.close()
"""
REFUSED = "the server answered and refused the connection"
STARTING = "the server is starting or stopping; wait, and run the same command again"
SILENT = "no PostgreSQL server answers there; check that it runs, and the host and port of the URL"


def make_refusal(state, message):
    fields = {"S": "FATAL", "V": "FATAL", "C": state, "M": message}
    body = b"".join(key.encode() + text.encode() + b"\0" for key, text in fields.items()) + b"\0"
    return b"E" + struct.pack("!I", len(body) + 4) + body


# a process of its own, since a ping of libpq leaves other threads of its process no time
SERVER = """
import contextlib, socket, struct, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):  # the other side may close first
        connection.settimeout(10)
        # SSLRequest and GSSENCRequest of PostgreSQL's protocol are declined
        while struct.unpack("!II", (connection.recv(4096) + bytes(8))[:8])[1] in (80877103, 80877104):
            connection.sendall(b"N")
        connection.sendall(bytes.fromhex(sys.argv[1]))
        connection.recv(4096)
"""


@contextmanager
def serve(answer):
    """Answer each connection's first message, after offers of encryption are declined, and close it; yield the port."""
    command = [sys.executable, "-S", "-c", SERVER, answer.hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield int(process.stdout.readline())
        finally:
            process.kill()


def read_refusal(port, options=""):
    with pytest.raises(StoreError) as refused:
        open_database(f"postgresql://me@127.0.0.1:{port}/bench{options}", read_only=False)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith(f"results store postgresql://me@127.0.0.1:{port}/bench: ")  # as it was written
    return str(refused.value)


@pytest.mark.parametrize(
    ("state", "message", "advice"),
    [
        # PgBouncer 1.18
        ("08P01", "no such database: bench", REFUSED),
        ("08P01", "unsupported startup parameter: options", REFUSED),
        ("08P01", "no more connections allowed (max_client_conn)", REFUSED),
        ("08P01", "password authentication failed", REFUSED),
        ("3D000", 'database "gone" does not exist', REFUSED),
        # PostgreSQL 15 with lc_messages of other languages
        ("3D000", "Datenbank »bench« existiert nicht", REFUSED),
        ("28000", "Rolle »me« existiert nicht", REFUSED),
        ("28P01", "l'authentification par mot de passe a échoué pour l'utilisateur « me »", REFUSED),
        ("28000", "no hay una línea en pg_hba.conf para «127.0.0.1», usuario «me», base de datos «bench»", REFUSED),
        ("53300", "すでに接続クライアントが多すぎます", REFUSED),
        ("57P03", "das Datenbanksystem startet", STARTING),
        ("57P03", "the database system is shutting down", STARTING),
    ],
)
def test_refusal_is_quoted_and_advice_does_not_follow_its_words(state, message, advice):
    with serve(make_refusal(state, message)) as port:
        said = read_refusal(port)
    assert said.endswith(f"{message}; {advice}")


def test_password_is_asked_for():
    cleartext = b"R" + struct.pack("!II", 8, 3)  # AuthenticationCleartextPassword
    with serve(cleartext) as port:
        assert "none was given; set PGPASSWORD or ~/.pgpass" in read_refusal(port)


def test_server_without_tls_is_not_called_unreachable():
    with serve(make_refusal("28000", "no")) as port:
        assert "but not with the TLS that sslmode requires" in read_refusal(port, "?sslmode=require")


def test_silent_addresses_are_named(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert read_refusal(port).endswith(SILENT)
    with serve(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert read_refusal(port).endswith(SILENT)

    def fail(*_, **__):
        raise socket.gaierror(-2, "Der Name oder der Dienst ist nicht bekannt")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    with pytest.raises(StoreError, match="nicht bekannt; no PostgreSQL server answers there"):
        open_database("postgresql://me@nowhere.invalid/bench", read_only=False)


@pytest.mark.parametrize(("process", "exists", "missing"), [(7, False, True), (7, True, False), (8, False, False)])
def test_database_is_missing_if_the_servers_own_catalogue_lacks_it(monkeypatch, process, exists, missing):
    """A proxy such as PgBouncer has process numbers of its own, and other names for databases."""

    @contextmanager
    def connect(**given):
        assert given == {"host": "here", "dbname": "postgres", "connect_timeout": "5"}
        answers = SimpleNamespace(backend_pid=7)
        yield SimpleNamespace(info=answers, execute=lambda query, values: [(process, exists)])

    monkeypatch.setattr(psycopg, "connect", connect)
    assert _is_database_missing({"host": "here", "dbname": "bench"}) is missing


@pytest.mark.parametrize(
    ("state", "message", "advice"),
    [
        ("42501", "keine Berechtigung für Tabelle results", "permissions"),
        ("3F000", "es wurde kein Schema für die Objekterzeugung ausgewählt", "CREATE SCHEMA"),
        ("53100", "konnte Datei nicht erweitern", "the disk is full"),
        ("42P01", 'relation "results" does not exist', "a table of the store is missing"),
        ("26000", 'prepared statement "_pg3_0" does not exist', ""),
        ("57014", "canceling statement due to user request on this connection", ""),
    ],
)
def test_postgres_codes_give_advice_and_words_do_not(state, message, advice):
    error = DBAPIError("SELECT", {}, psycopg.errors.lookup(state)(message))
    with pytest.raises(StoreError) as raised, convert_database_errors("here"):
        raise error
    assert str(raised.value).startswith(f"results store here: {message}")
    assert advice in str(raised.value) and (advice or str(raised.value).endswith(message))


@pytest.mark.parametrize("code", [sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR | 15 << 8])  # as for ENOLCK and ENOTSUP
def test_file_system_without_locks_is_no_other_process_and_no_full_disk(code, tmp_path, monkeypatch):
    error = sqlite3.OperationalError("database is locked")
    error.sqlite_errorcode = code
    monkeypatch.setattr(fcntl, "lockf", Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    where = str(tmp_path / "results.sqlite")
    with pytest.raises(StoreError, match="this folder has no file locks"), convert_database_errors(where):
        raise error


def test_sqlite_codes_give_advice_and_words_do_not():
    for code, advice in (
        (sqlite3.SQLITE_CORRUPT, "sqlite3 FILE .recover"),
        (sqlite3.SQLITE_IOERR | 2 << 8, "disk"),
        (0, ""),
    ):
        error = sqlite3.OperationalError("no such column: password is full of locked connections")
        if code:
            error.sqlite_errorcode = code
        with pytest.raises(StoreError) as raised, convert_database_errors("here"):
            raise error
        _, _, said = str(raised.value).partition("connections")
        assert advice in said and bool(advice) == bool(said)


def test_signal_while_connection_closes_prints_no_traceback(tmp_path):
    ended = subprocess.run([sys.executable, "-c", CLOSING, tmp_path], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (143, "")


def test_reading_a_store_that_this_process_writes_keeps_its_locks(tmp_path):
    """A table in the midst of `run` must not end the locks: another command would delete the log of this process."""
    url = f"sqlite:///{tmp_path / 'results.sqlite'}"

    def insert(key):
        ours.run_write(lambda connection: insert_annotations(connection, {key: 1}))

    def read_keys():
        database = open_database(url, read_only=True)
        keys = [row.key for row in database.read(select(remarks.c.key).order_by(remarks.c.key))]
        database.close()
        return keys

    ours = open_database(url, read_only=False)
    insert("a")
    assert read_keys() == ["a"]
    subprocess.run([sys.executable, "-c", WRITING_AND_CLOSING, url], check=True)
    insert("c")
    assert read_keys() == ["a", "b", "c"]
    ours.close()
    assert read_keys() == ["a", "b", "c"]
