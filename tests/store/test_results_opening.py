"""Stores that cannot be used: one line, nothing changed, nothing made."""

import os
import sqlite3
import tempfile
import threading
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import event

import roarbench.cli.main  # noqa: F401  # registers the commands that proposed lines are made from
from roarbench.cli.suggested_commands import append_proposed_command
from roarbench.common.errors import StoreError
from roarbench.store import schema
from roarbench.store.results import DEFAULT_FILE, ResultsStore, make_default_url
from tests.helpers.store_rows import make_result, make_run

NOBODY = 65534
NEWER = f"has schema 0042, this version supports up to {schema.HEAD}; run `pip install --upgrade roarbench`"


def refusal(url, read_only):
    """What the command line says of a store that it does not open."""
    with pytest.raises(StoreError) as caught:
        ResultsStore.open(url, read_only=read_only)
    message = append_proposed_command(caught.value)
    assert "\n" not in message
    assert ";" in message, "what to do stands after what was seen"
    return message


def contents(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def filled(tmp_path):
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store.add_results([make_result(make_run())])
    return tmp_path / DEFAULT_FILE


@contextmanager
def ordinary_user():
    """Permissions do not bind root."""
    before = os.geteuid()
    os.seteuid(before or NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


def test_a_store_that_is_missing_or_empty_is_not_made_by_reading_nor_where_its_folder_is_a_file(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "folder" / DEFAULT_FILE).mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / DEFAULT_FILE).touch()
    before = contents(tmp_path)
    for name in ("absent", "empty"):
        message = refusal(make_default_url(tmp_path / name), read_only=True)
        assert f"no results store at {tmp_path / name / DEFAULT_FILE}" in message and "roarbench run" in message
    for read_only in (True, False):
        message = refusal(make_default_url(tmp_path / "file"), read_only=read_only)
        assert f"{tmp_path / 'file'} is a file; --store names a folder" in message
    assert "directory" in refusal(make_default_url(tmp_path / "folder"), read_only=True)
    assert contents(tmp_path) == before
    for name in ("absent", "empty"):
        with ResultsStore.open(make_default_url(tmp_path / name)) as store:
            assert len(store.list_result_keys("")) == 0


def changed(statements):
    """Change a store as another program does, and leave nothing beside it."""

    def spoil(path):
        with closing(sqlite3.connect(path)) as connection:
            connection.executescript(f"PRAGMA journal_mode=DELETE; {statements}")

    return spoil


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b"x"), "not an SQLite database"),
        (changed("ALTER TABLE roarbench_version RENAME TO bookmarks"), "bookmarks"),
        (changed("UPDATE roarbench_version SET version_num = '0042'"), NEWER),
        (changed("PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = 'x'"), "damaged"),
    ],
)
def test_what_is_no_store_of_this_version(filled, spoil, said, read_only):
    spoil(filled)
    before = contents(filled.parent)
    assert said in refusal(f"sqlite:///{filled}", read_only)
    assert contents(filled.parent) == before


def test_what_cannot_be_written_is_read_and_no_more():
    with tempfile.TemporaryDirectory() as name:  # pytest's own are private
        folder, path = Path(name), Path(name, DEFAULT_FILE)
        with ResultsStore.open(make_default_url(folder)) as store:
            store.add_results([make_result(make_run())])
        path.chmod(0o444)
        folder.chmod(0o555)
        with ordinary_user():
            for other in (DEFAULT_FILE, "other.sqlite", "new/results.sqlite"):
                assert "permissions" in refusal(f"sqlite:///{folder}/{other}", read_only=False)
            with ResultsStore.open(f"sqlite:///{path}", read_only=True) as store:
                assert store.find_done_keys(store.list_result_keys("")) == {make_run().key}
        for closed in (path, folder):
            closed.chmod(0)
            with ordinary_user():
                assert "permissions" in refusal(f"sqlite:///{path}", read_only=True)
        folder.chmod(0o755)
        assert list(folder.iterdir()) == [path]


def test_reading_changes_nothing_and_finds_the_damage_of_what_it_reads(filled):
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


def test_the_change_to_wal_waits_for_a_writer(filled):
    """SQLite itself gives up at once; it happens when two processes make the store at the same time."""
    holder = sqlite3.connect(filled, check_same_thread=False, isolation_level=None)
    holder.execute("PRAGMA journal_mode=DELETE")
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, holder.close)
    timer.start()
    engine = schema._make_sqlite_engine(filled, read_only=False)
    schema._use_wal(engine, str(filled))
    with engine.connect() as connection:
        for name, value in (("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1)):  # 2: FULL
            assert connection.exec_driver_sql(f"PRAGMA {name}").scalar() == value
    engine.dispose()
    timer.join()


def test_a_second_writer_does_not_begin_before_the_first_ends(filled, monkeypatch):
    monkeypatch.setattr(schema, "PATIENCE", 0.1)
    url = f"sqlite:///{filled}"
    with ResultsStore.open(url) as one, ResultsStore.open(url) as two, one.database.begin_write():
        with pytest.raises(StoreError, match="another process has locked it"), two.database.begin_write():
            pytest.fail("two write at once")
        with pytest.raises(StoreError, match="another process has locked it"):
            two.database.run_write(lambda connection: pytest.fail("two change it at once"))
        assert two.list_result_keys("")


def test_a_full_disk_loses_nothing_that_was_stored(filled):
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


def test_an_address_where_no_store_is(tmp_path):
    for url in ("", "sqlite:///:memory:", "postgresql://host", "postgresql://host:port/name"):
        assert "postgresql://HOST/NAME" in refusal(url, read_only=False)
    message = refusal(f"postgresql://user:hush@/name?host={tmp_path}&password=hush", read_only=False)
    assert "server" in message and "hush" not in message


@pytest.mark.postgres
def test_what_a_server_has_is_not_filled_by_reading_nor_read_by_everybody(postgres_url):
    assert "createdb" in refusal(postgres_url.replace("@/postgres", "@/absent"), read_only=False)
    assert "roarbench run" in refusal(postgres_url, read_only=True)
    ResultsStore.open(postgres_url).close()
    with ResultsStore.open(postgres_url, read_only=True) as store:
        assert len(store.list_result_keys("")) == 0
        with pytest.raises(StoreError, match="cannot be written"):
            store.add_results([make_result(make_run())])
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA public TO guest")
    assert "permission denied" in refusal(postgres_url.replace("postgres@", "guest@"), read_only=True)
