"""Stores that cannot be opened: the error is one line, and no file changes or appears."""

import hashlib
import os
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from sqlalchemy import event

import roarbench.cli.main  # noqa: F401  # registers the commands that proposed lines are made from
from roarbench.cli.suggested_commands import append_proposed_command
from roarbench.common.errors import StoreError
from roarbench.store import database, schema
from roarbench.store.results import DEFAULT_FILE, ResultsStore, make_default_url
from tests.helpers.store_rows import make_result, make_run

OTHER = f"has schema 0042, expected {schema.SCHEMA_VERSION}; use the version of roarbench that made the store"


def open_refused_store(url, read_only):
    """Return the message of the command line about a store that cannot be opened."""
    with pytest.raises(StoreError) as caught:
        ResultsStore.open(url, read_only=read_only)
    message = append_proposed_command(caught.value)
    assert "\n" not in message
    assert ";" in message, "what to do stands after what was seen"
    return message


def read_contents(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def filled(tmp_path):
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store.add_results([make_result(make_run())])
    return tmp_path / DEFAULT_FILE


@contextmanager
def become_ordinary_user():
    """Drop root's rights for a while, since permissions do not bind root."""
    before = os.geteuid()
    os.seteuid(before or 65534)  # nobody
    try:
        yield
    finally:
        os.seteuid(before)


def test_open_read_only_creates_no_store_and_rejects_file_as_folder(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / DEFAULT_FILE).touch()
    before = read_contents(tmp_path)
    for name in ("absent", "empty"):
        message = open_refused_store(make_default_url(tmp_path / name), read_only=True)
        assert f"no results store at {tmp_path / name / DEFAULT_FILE}" in message and "roarbench run" in message
    for read_only in (True, False):
        message = open_refused_store(make_default_url(tmp_path / "file"), read_only=read_only)
        assert f"{tmp_path / 'file'} is a file; --store names a folder" in message
    assert read_contents(tmp_path) == before
    for name in ("absent", "empty"):
        with ResultsStore.open(make_default_url(tmp_path / name)) as store:
            assert len(store.list_result_keys("")) == 0


def execute_statements(statements):
    """Return a function that executes statements as another program does, without leaving WAL files."""

    def spoil(path):
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(f"PRAGMA journal_mode=DELETE; {statements}")

    return spoil


def test_schema_version_changes_with_tables():
    digest = hashlib.sha256()
    for table in schema.metadata.sorted_tables:
        columns = [f"{one} {one.type} {one.nullable} {one.primary_key}" for one in table.columns]
        indexes = sorted(f"{one.name} {one.columns.keys()}" for one in table.indexes)
        digest.update("\n".join([*columns, *indexes]).encode())
    assert (schema.SCHEMA_VERSION, digest.hexdigest()[:16]) == ("0010", "0db6b8484e427e5c")


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b"x"), "not an SQLite database"),
        (execute_statements("ALTER TABLE roarbench_version RENAME TO bookmarks"), "bookmarks"),
        (execute_statements("UPDATE roarbench_version SET version_num = '0042'"), OTHER),
        (execute_statements("PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = 'x'"), "damaged"),
    ],
)
def test_open_rejects_foreign_newer_or_damaged_database_unchanged(filled, spoil, said, read_only):
    spoil(filled)
    before = read_contents(filled.parent)
    assert said in open_refused_store(f"sqlite:///{filled}", read_only)
    assert read_contents(filled.parent) == before


def test_store_without_write_permission_opens_read_only():
    with tempfile.TemporaryDirectory() as name:  # pytest's own are private
        folder, path = Path(name), Path(name, DEFAULT_FILE)
        with ResultsStore.open(make_default_url(folder)) as store:
            store.add_results([make_result(make_run())])
        path.chmod(0o444)
        folder.chmod(0o555)
        with become_ordinary_user():
            for other in (DEFAULT_FILE, "other.sqlite", "new/results.sqlite"):
                assert "permissions" in open_refused_store(f"sqlite:///{folder}/{other}", read_only=False)
            with ResultsStore.open(f"sqlite:///{path}", read_only=True) as store:
                assert store.find_done_keys(store.list_result_keys("")) == {make_run().key}
        folder.chmod(0)
        with become_ordinary_user():
            assert "permissions" in open_refused_store(f"sqlite:///{path}", read_only=True)
        folder.chmod(0o755)
        assert list(folder.iterdir()) == [path]


def test_read_only_store_changes_nothing_and_reports_damaged_page(filled):
    before = filled.read_bytes()
    with ResultsStore.open(f"sqlite:///{filled}", read_only=True) as store:
        assert len(store.list_result_keys("")) == 1
        with pytest.raises(StoreError):
            store.add_results([make_result(make_run(1))])
        with store.database.begin_read() as connection:
            size = connection.exec_driver_sql("PRAGMA page_size").scalar()
            page = connection.exec_driver_sql("SELECT rootpage FROM sqlite_master WHERE name = 'results'").scalar()
    assert filled.read_bytes() == before
    filled.write_bytes(before[: size * (page - 1)] + b"\xff" * size + before[size * page :])
    with ResultsStore.open(f"sqlite:///{filled}", read_only=True) as store, pytest.raises(StoreError, match="damaged"):
        store.read_results([make_run().key])


def test_switch_to_wal_waits_for_writer(filled):
    """SQLite itself gives up at once, for example when two processes create the store at the same time."""
    holder = sqlite3.connect(filled, check_same_thread=False, isolation_level=None)
    holder.execute("PRAGMA journal_mode=DELETE")
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, holder.close)
    timer.start()
    engine = database._make_sqlite_engine(filled, read_only=False)
    database._enable_write_ahead_log(engine, str(filled))
    with engine.connect() as connection:
        for name, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):  # 2: FULL
            assert connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value
    engine.dispose()
    timer.join()


def test_second_writer_waits_for_first_to_end(filled, monkeypatch):
    monkeypatch.setattr(database, "PATIENCE", 0.1)
    url = f"sqlite:///{filled}"
    with ResultsStore.open(url) as one, ResultsStore.open(url) as two, one.database.begin_exclusive_write():
        with pytest.raises(StoreError, match="another process has locked it"), two.database.begin_exclusive_write():
            pytest.fail("two write at once")
        with pytest.raises(StoreError, match="another process has locked it"):
            two.database.run_write(lambda connection: pytest.fail("two change it at once"))
        assert two.list_result_keys("")


def test_full_disk_keeps_stored_results(filled):
    def leave_no_room(connection):  # the same answer from SQLite as on a full disk, without one
        connection.exec_driver_sql("PRAGMA max_page_count=1")  # SQLite takes the present size instead

    large = make_result(make_run(1), total=400_000)
    with ResultsStore.open(f"sqlite:///{filled}") as store:
        event.listen(store.database._engine, "begin", leave_no_room, insert=True)
        with pytest.raises(StoreError, match="disk is full"):
            store.add_results([large])
        assert store.find_done_keys([make_run().key, large.run.key]) == {make_run().key}
    with ResultsStore.open(f"sqlite:///{filled}") as store:
        assert store.add_results([large])


def test_open_rejects_invalid_database_url_and_hides_password(tmp_path):
    for url in ("", "sqlite:///:memory:", "postgresql://host", "postgresql://host:port/name"):
        assert "postgresql://HOST/NAME" in open_refused_store(url, read_only=False)
    message = open_refused_store(f"postgresql://user:hush@/name?host={tmp_path}&password=hush", read_only=False)
    assert "server" in message and "hush" not in message


@pytest.mark.postgres
def test_postgres_store_is_not_created_by_reading_and_checks_permissions(postgres_url):
    assert "createdb" in open_refused_store(postgres_url.replace("@/postgres", "@/absent"), read_only=False)
    assert "roarbench run" in open_refused_store(postgres_url, read_only=True)
    ResultsStore.open(postgres_url).close()
    with ResultsStore.open(postgres_url, read_only=True) as store:
        assert len(store.list_result_keys("")) == 0
        with pytest.raises(StoreError, match="permissions"):
            store.add_results([make_result(make_run())])
