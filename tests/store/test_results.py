"""Rows of the results store, and their provenance: code version, libraries and hardware."""

import hashlib
import os
import re
import shutil
import sqlite3
import subprocess
import tempfile
import threading
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from sqlalchemy import event, make_url

import roarbench.cli.main  # noqa: F401  # registers the commands that proposed lines are made from
from roarbench.cli.terminal import append_proposed_command
from roarbench.common.errors import StoreError
from roarbench.store import database, run_result, schema
from roarbench.store.annotations_and_scores import AnnotationKind
from roarbench.store.archived_runs import archive_rows, find_keys_even_if_archived
from roarbench.store.results import DEFAULT_FILE, ResultsStore, make_default_url
from roarbench.store.run_result import Provenance, RunResult, pack_correctness
from tests.helpers.store_rows import ORIGIN, list_result_keys, make_result, make_run


def test_stored_row_has_expected_columns(tmp_path):
    """Another program reads these columns from the SQLite file."""
    run = make_run(seed=4, t=0.3)
    moment = datetime(2026, 1, 2, 5, 4, 5, 600, tzinfo=timezone(timedelta(hours=2)))
    result = RunResult(run, 3, 10, bytes([0b10100000, 0b01000000]), 2.5, ORIGIN, created=moment)
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store.add_results([result])
        with store.database.begin_read() as connection:
            row = connection.exec_driver_sql("SELECT * FROM results").mappings().one()
    assert row == {
        "key": run.key,
        "record": '{"cell":{"dataset":"planted","estimator":"var-grad","fill":"mean","model":"resnet8","order":"lerf",'
        '"retrain":"masks","t":0.3,"unit":"pixel"},"data":"da7a","estimator":"e571","recipe":"fast@1",'
        '"reference":"4ef","seed":4}',
        **{"dataset": "planted", "model": "resnet8", "estimator": "var-grad", "order": "lerf", "retrain": "masks"},
        **{"fill": "mean", "unit": "pixel", "t": 0.3, "seed": 4, "recipe": "fast@1", "data": "da7a"},
        **{"estimator_fingerprint": "e571", "reference": "4ef", "rankings": "", "weights": ""},
        **{"correct": 3, "total": 10, "bits": b"\xa0\x40", "seconds": 2.5},
        **{"probability": None, "smoothness": None, "loss": None},
        "code_version": "0.1.0 1a2b3c4",
        "versions": '{"python": "3.11.7", "torch": "2.13.0"}',
        "hardware": '{"cpu": "some", "cores": 2}',
        "created": "2026-01-02 03:04:05.000600",
    }
    assert result.correctness.tolist() == [True, False, True] + [False] * 6 + [True]
    assert pack_correctness(result.correctness) == result.bits


def test_run_result_rejects_contradicting_counts_and_bits():
    for correct, total, bits, probability in (
        (2, 8, b"\x80", None),  # fewer bits than correct answers
        (1, 8, b"\x80\x00", None),  # a byte too many
        (1, 3, b"\x08", None),  # set beyond the last image
        (0, 0, b"", None),  # no images
        (1, 2, b"\x80", b"\0" * 4),  # one probability for two images
    ):
        with pytest.raises(ValueError, match="packed|correct|probabilities"):
            RunResult(make_run(), correct, total, bits, 1.0, ORIGIN, probability)


def test_add_results_never_changes_stored_row_and_stamps_each_addition(store):
    first, second = (make_result(make_run(seed)) for seed in range(2))
    read_stamp = partial(store.read_change_stamp_of_network, first.run.cell.dataset, first.run.cell.model)
    states = [read_stamp()]
    assert store.add_results([first])
    states.append(read_stamp())
    assert not store.add_results([replace(make_result(first.run, total=9), seconds=99.0)])
    assert store.read_results(list_result_keys(store)) == {first.run.key: first}
    assert read_stamp() == states[-1]
    store.add_results([second])
    states.append(read_stamp())
    archive_rows(store.database, [first.run.key], "a machine whose clock is behind does it again")
    store.add_results([replace(first, created=first.created - timedelta(hours=1))])
    states.append(read_stamp())
    store.add_results([first], annotations={f"{AnnotationKind.TIES} {first.rankings}": 0.75})
    assert len({*states, read_stamp()}) == 5


def test_find_done_keys_accepts_more_keys_than_one_statement(store):
    results = {result.run.key: result for result in (make_result(make_run(seed), total=20) for seed in range(300))}
    store.add_results(results.values())
    assert store.find_done_keys([]) == set()
    others = [f"{number:032x}" for number in range(12_000)]  # more than one statement has
    assert store.find_done_keys([*others, *results]) == set(results)
    assert store.read_results([*others[:1000], *results]) == results
    first = min(results)
    assert first in find_keys_even_if_archived(store.database, first[:4])
    assert find_keys_even_if_archived(store.database, "%") == []  # no patterns
    assert find_keys_even_if_archived(store.database, "_" * 32) == []


def test_has_result_finds_one_key_among_many(store):
    result = make_result(make_run())
    store.add_results([result])
    others = [f"{number:032x}" for number in range(2500)]
    assert store.has_result([*others, result.run.key])
    assert not store.has_result(others) and not store.has_result([])


def test_results_with_equal_provenance_share_no_dictionary(store):
    """The text of equal versions is parsed once, but a change of one result must not change another."""
    made = [make_result(make_run(seed=seed)) for seed in range(2)]
    store.add_results(made)
    one, other = store.read_results([result.run.key for result in made]).values()
    one.provenance.versions["python"] = "0"
    assert other.provenance.versions == made[0].provenance.versions
    assert store.read_results([one.run.key])[one.run.key].provenance.versions == made[0].provenance.versions


def test_read_results_reports_damaged_row_in_one_line(tmp_path):
    damage = {"bits": b"\xff" * 126, "record": "{}", "versions": "{", "created": "yesterday"}
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        for seed, (column, value) in enumerate(damage.items()):
            run = make_run(seed)
            store.add_results([make_result(run)])
            with store.database.begin_exclusive_write() as connection:
                connection.exec_driver_sql(f"UPDATE results SET {column} = ? WHERE key = ?", (value, run.key))
            with pytest.raises(StoreError) as caught:
                store.read_results([run.key])
            assert "damaged" in str(caught.value) and "\n" not in str(caught.value)
            assert column != "bits" or f"(var-grad t=0.9 seed 0, {run.key}: " in str(caught.value)


def test_read_commit_marks_changed_code_as_dirty(tmp_path):
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "__init__.py").write_text("1")
    (tmp_path / "README.md").write_text("1")
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm one"):
        subprocess.run(["git", "-C", tmp_path, *words.split()], check=True)
    (folder / "notes.txt").write_text("not part of the code")
    (tmp_path / "README.md").unlink()  # not code either
    commit = run_result._run_git(folder, "log", "-1", "--format=%H")[:8]
    assert run_result._read_commit(folder) == commit
    (folder / "__init__.py").write_text("2")
    assert run_result._read_commit(folder) == f"{commit}+dirty"
    (folder / "venv").mkdir()  # an environment inside a checkout is not part of the commit
    (folder / "venv" / "__init__.py").write_text("1")
    assert run_result._read_commit(folder / "venv") == ""


def test_unpacked_archive_names_its_commit_until_a_file_changes(tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    (package / "run_result.py").write_text(Path(run_result.__file__).read_text("utf-8"))
    attributes = (Path(__file__).parents[2] / ".gitattributes").read_text().replace("roarbench/store/", "package/")
    (tmp_path / ".gitattributes").write_text(attributes)
    for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm one", "archive -o one.tar HEAD"):
        subprocess.run(["git", "-C", tmp_path, *words.split()], check=True)
    commit = run_result._run_git(tmp_path, "log", "-1", "--format=%H")[:8]
    unpacked = tmp_path / "unpacked"
    shutil.unpack_archive(tmp_path / "one.tar", unpacked, filter="data")
    (archived,) = re.findall(
        '^_ARCHIVED = "(.*?)"', (unpacked / "package" / "run_result.py").read_text("utf-8"), re.MULTILINE
    )
    assert run_result._read_archived_commit(unpacked / "package", archived) == commit
    assert run_result._read_archived_commit(package, run_result._ARCHIVED) == ""  # not an archive
    (unpacked / "package" / "run_result.py").touch()
    assert run_result._read_archived_commit(unpacked / "package", archived) == ""


def test_provenance_strips_markup():
    hostile = {"cpu": "[red]x[/red] <b>*[a](http://b)*\x1b\n" + "y" * 300, "precision": ["`", 1]}
    said = Provenance("0", {"torch": "2"}, hostile).known_values
    assert said.keys() == {"torch", "cpu", "precision"} and len(said["cpu"]) == 200
    assert not set("[]<>*:`\x1b\n") & set("".join(said.values()))


def test_limited_processors_differ_by_name(monkeypatch):
    """Of names behind two limits, three letters were left, so two processors seemed to be one."""
    for name in run_result._INSTRUCTION_LIMITS:
        monkeypatch.setenv(name, "AVX512_CORE_BF16")
    found = set()
    for processor in ("AMD EPYC 9655 96-Core Processor", "AMD EPYC 7763 64-Core Processor"):
        monkeypatch.setattr(run_result, "_name_processor", lambda processor=processor: processor)
        found.add(run_result.read_provenance().known_values["cpu"])
    assert len(found) == 2 and all(name.endswith("-Core Processor") for name in found)


@pytest.mark.parametrize("name", ["ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY"])
def test_provenance_names_limits_of_instructions(monkeypatch, name):
    """A limited processor computes other bits; both had one name, so no table told their runs apart."""
    for known in run_result._INSTRUCTION_LIMITS:
        monkeypatch.delenv(known, raising=False)
    usual = run_result.read_provenance()
    monkeypatch.setenv(name, "AVX2")
    limited = run_result.read_provenance()
    assert limited.hardware == usual.hardware | {"cpu": f"{name} AVX2, {usual.hardware['cpu']}"}
    assert limited.rounding_settings["processor"].startswith(f"{name} AVX2, ")


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
            assert len(list_result_keys(store)) == 0


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
        (lambda path: path.write_bytes(b"x"), "file is not a database; name another file"),
        (lambda path: path.write_bytes(b"x" * 4096), "file is not a database; name another file"),
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


def test_refused_damaged_database_is_closed(filled, monkeypatch):
    class Recorded(sqlite3.Connection):
        def close(self):
            super().close()
            closed.append(self)

    opened, closed, connect = [], [], sqlite3.connect

    def record(*args, **settings):
        opened.append(connect(*args, factory=Recorded, **settings))
        return opened[-1]

    execute_statements("PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = 'x'")(filled)
    monkeypatch.setattr(sqlite3, "connect", record)
    open_refused_store(f"sqlite:///{filled}", read_only=True)
    assert opened and {*map(id, opened)} == {*map(id, closed)}


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
                assert store.find_done_keys(list_result_keys(store)) == {make_run().key}
        folder.chmod(0)
        with become_ordinary_user():
            assert "permissions" in open_refused_store(f"sqlite:///{path}", read_only=True)
        folder.chmod(0o755)
        assert list(folder.iterdir()) == [path]


def test_read_only_store_changes_nothing_and_reports_damaged_page(filled):
    before = filled.read_bytes()
    with ResultsStore.open(f"sqlite:///{filled}", read_only=True) as store:
        assert len(list_result_keys(store)) == 1
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
        assert list_result_keys(two)


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
        assert len(list_result_keys(store)) == 0
        with pytest.raises(StoreError, match="permissions"):
            store.add_results([make_result(make_run())])


def list_schemas_with_results(url):
    with psycopg.connect(url) as connection:
        return [name for (name,) in connection.execute("SELECT schemaname FROM pg_tables WHERE tablename = 'results'")]


@pytest.fixture
def bench_schema(postgres_url):
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA bench")
        yield
        connection.execute("DROP SCHEMA bench CASCADE")


@pytest.mark.postgres
@pytest.mark.parametrize("given", ["url", "environment", "service"])
@pytest.mark.usefixtures("bench_schema")
def test_postgres_keeps_schema_that_the_user_sets(postgres_url, monkeypatch, tmp_path, given):
    ResultsStore.open(postgres_url).close()  # `public` holds another store, and is in the search path
    url, options = postgres_url, "-c search_path=bench,public"
    if given == "url":
        url += "&options=" + quote(options)
    elif given == "environment":
        monkeypatch.setenv("PGOPTIONS", options)
    else:
        (tmp_path / "services").write_text(f"[bench]\noptions={options}\nhost={make_url(url).query['host']}\n")
        monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
        url = "postgresql://postgres@/postgres?service=bench"
    run = make_run()
    with ResultsStore.open(url) as store:
        store.add_results([make_result(run)])
    with ResultsStore.open(url, read_only=True) as store:
        assert list(list_result_keys(store)) == [run.key]
        with pytest.raises(StoreError, match="read-only"):
            store.add_results([make_result(make_run(seed=1))])
    monkeypatch.delenv("PGOPTIONS", raising=False)
    assert sorted(list_schemas_with_results(postgres_url)) == ["bench", "public"]
    with ResultsStore.open(postgres_url, read_only=True) as store:
        assert not list_result_keys(store)


@pytest.mark.postgres
def test_postgres_has_no_prepared_statements(postgres_url):
    """PgBouncer may give each transaction another connection, where a prepared statement is missing or taken."""
    with ResultsStore.open(postgres_url) as store:
        for _ in range(10):
            list_result_keys(store)
        count = "SELECT count(*) FROM pg_prepared_statements"
        assert store.database.run_read(lambda connection: connection.exec_driver_sql(count).scalar()) == 0


@pytest.mark.postgres
def test_postgres_names_schema_that_does_not_exist(postgres_url):
    message = open_refused_store(f"{postgres_url}&options=-csearch_path%3Dabsent", read_only=False)
    assert "CREATE SCHEMA" in message and list_schemas_with_results(postgres_url) == []


@pytest.mark.postgres
@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_postgres_of_other_encoding_keeps_text(postgres_server, encoding):
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        connection.execute("DROP DATABASE IF EXISTS encoded")
        connection.execute(f"CREATE DATABASE encoded ENCODING '{encoding}' TEMPLATE template0")
    origin = Provenance("0", {"torch": "2"}, {"cpu": "Prozessor für Äpfel"})
    with ResultsStore.open(postgres_server.url.replace("@/postgres", "@/encoded")) as store:
        store.add_results([replace(make_result(run := make_run()), provenance=origin)])
        assert store.read_results([run.key])[run.key].provenance == origin
