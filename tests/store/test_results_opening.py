"""Stores that cannot be used: one line, nothing changed, nothing made."""

import os
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
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


def refusal(url: str, read_only: bool) -> str:
    """What the command line says of a store that it does not open."""
    with pytest.raises(StoreError) as caught:
        ResultsStore.open(url, read_only=read_only)
    message = worded(caught.value)
    assert "\n" not in message
    assert ";" in message, "what to do stands after what was seen"
    return message


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(make_result(make_run()))
    return tmp_path / "results.sqlite"


@pytest.fixture
def shared_folder() -> Iterator[Path]:
    """A folder that every user can reach; pytest's own are private."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@contextmanager
def ordinary_user() -> Iterator[None]:
    """Permissions do not bind root."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_missing_store_is_not_made_by_reading(tmp_path: Path):
    message = refusal(f"sqlite:///{tmp_path}/no/results.sqlite", read_only=True)
    assert "roarbench run" in message
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("content", [b"hello, world\n" * 500, b"\x89PNG\r\n\x1a\n" * 1000, b"x"])
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes, read_only: bool):
    path = tmp_path / "results.sqlite"
    path.write_bytes(content)
    assert "no SQLite database" in refusal(f"sqlite:///{path}", read_only)
    assert contents(tmp_path) == {str(path): content}


@pytest.mark.parametrize("read_only", [True, False])
def test_a_database_of_something_else(tmp_path: Path, read_only: bool):
    path = tmp_path / "results.sqlite"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE bookmarks (url TEXT)")
    connection.close()
    before = contents(tmp_path)
    assert "bookmarks" in refusal(f"sqlite:///{path}", read_only)
    assert contents(tmp_path) == before


@pytest.mark.parametrize("read_only", [True, False])
def test_a_store_of_a_newer_version(filled: Path, read_only: bool):
    connection = sqlite3.connect(filled)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute("UPDATE roarbench_version SET version_num = '0042'")
    connection.commit()
    connection.close()
    before = contents(filled.parent)
    message = refusal(f"sqlite:///{filled}", read_only)
    assert "0042" in message
    assert schema.HEAD in message
    assert "pip install --upgrade roarbench" in message
    assert contents(filled.parent) == before


@pytest.mark.parametrize(("read_only", "seen"), [(True, "no results store at"), (False, "File exists; check the path")])
def test_a_file_instead_of_the_folder(tmp_path: Path, read_only: bool, seen: str):
    (tmp_path / "store").touch()
    message = refusal(f"sqlite:///{tmp_path}/store/results.sqlite", read_only)
    assert seen in message and f"{tmp_path}/store/results.sqlite" in message
    assert contents(tmp_path) == {f"{tmp_path}/store": b""}


def test_damage_that_only_reading_finds(filled: Path):
    with closing(sqlite3.connect(filled)) as connection:
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'results'").fetchone()
    content = bytearray(filled.read_bytes())
    content[size * (page - 1) : size * page] = b"\xff" * size
    filled.write_bytes(content)
    with ResultsStore.open(f"sqlite:///{filled}", read_only=True) as store, pytest.raises(StoreError) as caught:
        store.results([make_run().key])
    assert "damaged" in str(caught.value)


def test_a_file_that_cannot_be_written(shared_folder: Path):
    path = shared_folder / "results.sqlite"
    with ResultsStore.open(f"sqlite:///{path}") as store:
        store.add(make_result(make_run()))
    path.chmod(0o444)
    shared_folder.chmod(0o555)
    with ordinary_user():
        assert "permissions" in refusal(f"sqlite:///{path}", read_only=False)
        with ResultsStore.open(f"sqlite:///{path}", read_only=True) as store:
            assert len(store.keys("")) == 1
            assert store.done([make_run().key]) == {make_run().key}
    shared_folder.chmod(0o755)
    assert [file.name for file in shared_folder.iterdir()] == ["results.sqlite"]


def test_a_folder_that_cannot_be_written(shared_folder: Path):
    shared_folder.chmod(0o555)
    with ordinary_user():
        assert "permissions" in refusal(f"sqlite:///{shared_folder}/results.sqlite", read_only=False)
        assert "permissions" in refusal(f"sqlite:///{shared_folder}/new/results.sqlite", read_only=False)
    shared_folder.chmod(0o755)
    assert list(shared_folder.iterdir()) == []


def test_reading_changes_nothing(filled: Path):
    before = filled.read_bytes()
    with ResultsStore.open(f"sqlite:///{filled}", read_only=True) as store:
        assert len(store.keys("")) == 1
        with pytest.raises(StoreError):
            store.add(make_result(make_run(1)))
        with pytest.raises(StoreError):
            store.failures.add(make_run(1), "no")
    assert filled.read_bytes() == before


def test_the_change_to_wal_waits_for_a_writer(filled: Path):
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


def test_a_full_disk_loses_nothing_that_was_stored(filled: Path):
    with ResultsStore.open(f"sqlite:///{filled}") as store:
        # the same answer from SQLite as on a full disk, without one
        event.listen(store._database._engine, "begin", _leave_no_room, insert=True)
        with pytest.raises(StoreError) as caught:
            store.add(make_result(make_run(1), total=400_000))
        assert "disk is full" in str(caught.value)
        assert "\n" not in str(caught.value)
        assert store.done([make_run().key, make_run(1).key]) == {make_run().key}
    with ResultsStore.open(f"sqlite:///{filled}") as store:
        assert store.add(make_result(make_run(1), total=400_000))


def _leave_no_room(connection):
    connection.exec_driver_sql("PRAGMA max_page_count=1")  # SQLite takes the present size instead


@pytest.mark.parametrize(
    "url",
    [
        "results.sqlite",
        "",
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://host/name",
        "postgresql://host",
        "postgresql://host:port/name",
    ],
)
@pytest.mark.parametrize("read_only", [True, False])
def test_a_url_that_names_no_store(url: str, read_only: bool):
    assert "postgresql://HOST/NAME" in refusal(url, read_only)


def test_a_host_that_does_not_exist():
    assert "host" in refusal("postgresql://host.invalid/name", read_only=True)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_server_that_cannot_be_reached(tmp_path: Path, read_only: bool):
    url = f"postgresql://user:hush@/name?host={tmp_path}&password=hush"
    message = refusal(url, read_only)
    assert "server" in message
    assert "hush" not in message


def test_psycopg_is_an_extra(monkeypatch: pytest.MonkeyPatch):
    def missing(*arguments: object, **options: object) -> None:
        raise ModuleNotFoundError("No module named 'psycopg'")

    monkeypatch.setattr(opening, "create_engine", missing)
    assert "roarbench[postgres]" in refusal("postgresql://host/name", read_only=True)


@pytest.mark.postgres
def test_a_database_that_does_not_exist(postgres_url: str):
    url = postgres_url.replace("@/postgres", "@/absent")
    assert "createdb" in refusal(url, read_only=False)


@pytest.mark.postgres
def test_an_empty_postgres_database_is_not_filled_by_reading(postgres_url: str):
    assert "roarbench run" in refusal(postgres_url, read_only=True)
    ResultsStore.open(postgres_url).close()
    with ResultsStore.open(postgres_url, read_only=True) as store:
        assert len(store.keys("")) == 0
        with pytest.raises(StoreError, match="cannot be written"):
            store.add(make_result(make_run()))


@pytest.mark.postgres
def test_a_postgres_store_of_a_newer_version(postgres_url: str):
    ResultsStore.open(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("UPDATE roarbench_version SET version_num = '0042'")
    assert "0042" in refusal(postgres_url, read_only=False)


@pytest.mark.postgres
def test_a_postgres_database_of_something_else(postgres_url: str):
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE bookmarks (url TEXT)")
    assert "bookmarks" in refusal(postgres_url, read_only=False)


@pytest.mark.postgres
def test_a_user_without_rights(postgres_url: str):
    ResultsStore.open(postgres_url).close()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("DROP ROLE IF EXISTS guest")
        connection.execute("CREATE ROLE guest LOGIN")
        connection.execute("GRANT USAGE ON SCHEMA public TO guest")
    assert "permission denied" in refusal(postgres_url.replace("postgres@", "guest@"), read_only=True)


def test_an_empty_file_is_an_empty_store(tmp_path: Path):
    path = tmp_path / "results.sqlite"
    path.touch()
    assert "roarbench run" in refusal(f"sqlite:///{path}", read_only=True)
    assert path.read_bytes() == b""
    with ResultsStore.open(f"sqlite:///{path}") as store:
        assert len(store.keys("")) == 0


@pytest.mark.parametrize("read_only", [True, False])
def test_a_folder_instead_of_a_file(tmp_path: Path, read_only: bool):
    (tmp_path / "results.sqlite").mkdir()
    assert "directory" in refusal(f"sqlite:///{tmp_path}/results.sqlite", read_only)


@pytest.mark.parametrize("read_only", [True, False])
def test_a_damaged_store(filled: Path, read_only: bool):
    content = bytearray(filled.read_bytes())
    content[100:4096] = b"\xff" * 3996  # the page that lists the tables
    filled.write_bytes(content)
    assert "damaged" in refusal(f"sqlite:///{filled}", read_only)


def test_a_file_that_cannot_be_read(shared_folder: Path):
    path = shared_folder / "inner" / "results.sqlite"
    ResultsStore.open(f"sqlite:///{path}").close()
    path.chmod(0)
    with ordinary_user():
        assert "permissions" in refusal(f"sqlite:///{path}", read_only=True)
    path.parent.chmod(0)
    with ordinary_user():
        assert "permissions" in refusal(f"sqlite:///{path}", read_only=True)
    path.parent.chmod(0o755)
