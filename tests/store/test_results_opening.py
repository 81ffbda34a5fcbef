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

from roarbench.cli.proposals import worded
from roarbench.errors import StoreError
from roarbench.store import opening, schema
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.store_rows import make_result, make_run

NOBODY = 65534


def refusal(url, read_only):
    """What the command line says of a store that it does not open."""
    with pytest.raises(StoreError) as caught:
        ResultsStore.open(url, read_only=read_only)
    message = worded(caught.value)
    assert "\n" not in message
    assert ";" in message, "what to do stands after what was seen"
    return message


def contents(folder):
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def filled(tmp_path):
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(make_result(make_run()))
    return tmp_path / "results.sqlite"


@pytest.fixture
def shared_folder():
    """A folder that every user can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def ordinary_user():
    """Permissions do not bind root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.mark.parametrize("there", ["", "results.sqlite"])
def test_a_store_that_is_missing_or_empty_is_not_made_by_reading(tmp_path, there):
    if there:
        (tmp_path / there).touch()
    before = contents(tmp_path)
    assert "roarbench run" in refusal(default_url(tmp_path), read_only=True)
    assert contents(tmp_path) == before
    with ResultsStore.open(default_url(tmp_path)) as store:
        assert len(store.keys("")) == 0


def other_program(path):
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")


def newer(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("UPDATE roarbench_version SET version_num = '0042'")
        connection.commit()


def folder(path):
    path.unlink()
    path.mkdir()


def without_tables(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    content = bytearray(path.read_bytes())
    content[100:4096] = b"\xff" * 3996  # the page that lists them
    path.write_bytes(content)


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda path: path.write_bytes(b"hello, world\n" * 500), ["no SQLite database"]),
        (lambda path: path.write_bytes(b"x"), ["no SQLite database"]),
        (other_program, ["bookmarks"]),
        (newer, ["0042", schema.HEAD, "pip install --upgrade roarbench"]),
        (folder, ["directory"]),
        (without_tables, ["damaged"]),
    ],
)
def test_what_is_no_store_of_this_version(filled, spoil, said, read_only):
    spoil(filled)
    before = contents(filled.parent)
    message = refusal(f"sqlite:///{filled}", read_only)
    assert all(words in message for words in said)
    assert contents(filled.parent) == before


@pytest.mark.parametrize(("read_only", "seen"), [(True, "no results store at"), (False, "File exists; check the path")])
def test_a_file_instead_of_the_folder(tmp_path, read_only, seen):
    (tmp_path / "store").touch()
    message = refusal(f"sqlite:///{tmp_path}/store/results.sqlite", read_only)
    assert seen in message and f"{tmp_path}/store/results.sqlite" in message
    assert contents(tmp_path) == {f"{tmp_path}/store": b""}


def test_damage_that_only_reading_finds(filled):
    with closing(sqlite3.connect(filled)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'results'").fetchone()
    content = bytearray(filled.read_bytes())
    content[size * (page - 1) : size * page] = b"\xff" * size
    filled.write_bytes(content)
    with ResultsStore.open(f"sqlite:///{filled}", read_only=True) as store, pytest.raises(StoreError) as caught:
        store.results([make_run().key])
    assert "damaged" in str(caught.value)


def test_what_cannot_be_written_is_read_and_no_more(shared_folder):
    path = shared_folder / "results.sqlite"
    with ResultsStore.open(f"sqlite:///{path}") as store:
        store.add(make_result(make_run()))
    path.chmod(0o444)
    shared_folder.chmod(0o555)
    with ordinary_user():
        for name in ("results.sqlite", "other.sqlite", "new/results.sqlite"):
            assert "permissions" in refusal(f"sqlite:///{shared_folder}/{name}", read_only=False)
        with ResultsStore.open(f"sqlite:///{path}", read_only=True) as store:
            assert store.done(store.keys("")) == {make_run().key}
    path.chmod(0)
    with ordinary_user():
        assert "permissions" in refusal(f"sqlite:///{path}", read_only=True)
    shared_folder.chmod(0)
    with ordinary_user():
        assert "permissions" in refusal(f"sqlite:///{path}", read_only=True)
    shared_folder.chmod(0o755)
    assert [file.name for file in shared_folder.iterdir()] == ["results.sqlite"]


def test_reading_changes_nothing(filled):
    before = filled.read_bytes()
    with ResultsStore.open(f"sqlite:///{filled}", read_only=True) as store:
        assert len(store.keys("")) == 1
        with pytest.raises(StoreError):
            store.add(make_result(make_run(1)))
        with pytest.raises(StoreError):
            store.failures.add(make_run(1), "no")
    assert filled.read_bytes() == before


def test_the_change_to_wal_waits_for_a_writer(filled):
    """SQLite itself gives up at once; it happens when two processes make the store at the same time."""
    holder = sqlite3.connect(filled, check_same_thread=False, isolation_level=None)
    holder.execute("PRAGMA journal_mode=DELETE")
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, holder.close)
    timer.start()
    engine = opening._sqlite_engine(filled, read_only=False)
    opening._use_wal(engine, str(filled))
    with engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
    engine.dispose()
    timer.join()


def test_a_second_writer_does_not_begin_before_the_first_ends(filled, monkeypatch):
    monkeypatch.setattr(opening, "PATIENCE", 0.1)
    url = f"sqlite:///{filled}"
    with ResultsStore.open(url) as one, ResultsStore.open(url) as two, one.database.write():
        with pytest.raises(StoreError, match="another process has held it"), two.database.write():
            pytest.fail("two write at once")
        with pytest.raises(StoreError, match="another process has held it"):
            two.database.change(lambda connection: pytest.fail("two change it at once"))


def test_a_full_disk_loses_nothing_that_was_stored(filled):
    with ResultsStore.open(f"sqlite:///{filled}") as store:
        # the same answer from SQLite as on a full disk, without one
        event.listen(store.database._engine, "begin", _leave_no_room, insert=True)
        with pytest.raises(StoreError) as caught:
            store.add(make_result(make_run(1), total=400_000))
        assert "disk is full" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert store.done([make_run().key, make_run(1).key]) == {make_run().key}
    with ResultsStore.open(f"sqlite:///{filled}") as store:
        assert store.add(make_result(make_run(1), total=400_000))


def _leave_no_room(connection):
    connection.exec_driver_sql("PRAGMA max_page_count=1")  # SQLite takes the present size instead


@pytest.mark.parametrize("url", ["", "sqlite:///:memory:", "postgresql://host", "postgresql://host:port/name"])
def test_a_url_that_names_no_store(url):
    assert "postgresql://HOST/NAME" in refusal(url, read_only=False)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_server_that_cannot_be_reached(tmp_path, read_only):
    message = refusal(f"postgresql://user:hush@/name?host={tmp_path}&password=hush", read_only)
    assert "server" in message and "hush" not in message
    assert "host" in refusal("postgresql://host.invalid/name", read_only)


@pytest.mark.postgres
def test_what_a_server_has_is_not_filled_by_reading_nor_read_by_everybody_or_an_older_version(postgres_url):
    assert "createdb" in refusal(postgres_url.replace("@/postgres", "@/absent"), read_only=False)
    assert "roarbench run" in refusal(postgres_url, read_only=True)
    ResultsStore.open(postgres_url).close()
    with ResultsStore.open(postgres_url, read_only=True) as store:
        assert len(store.keys("")) == 0
        with pytest.raises(StoreError, match="cannot be written"):
            store.add(make_result(make_run()))
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN; GRANT USAGE ON SCHEMA public TO guest")
    assert "permission denied" in refusal(postgres_url.replace("postgres@", "guest@"), read_only=True)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE roarbench_version SET version_num = '0042'")
    assert "0042" in refusal(postgres_url, read_only=False)
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE TABLE bookmarks (url TEXT)")
    assert "bookmarks" in refusal(postgres_url, read_only=False)
