"""Schemas: made at the newest, brought up to date, and one with what was shipped."""

import shutil
from pathlib import Path

import pytest
from sqlalchemy import insert, inspect

from roarbench.errors import StoreError
from roarbench.store import opening, schema
from roarbench.store.forgotten import forgotten_rows, known_keys
from roarbench.store.result import row_of
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.watched import watched_rows
from tests.helpers.store_rows import make_result, make_run

DEMO = Path(__file__).parents[2] / "demo" / "results.sqlite"
NEXT_HEAD = f"{int(schema.HEAD) + 1:04d}"
NEXT = "ALTER TABLE results ADD COLUMN origin TEXT DEFAULT 'own' NOT NULL"
LATER = {  # what stores of these versions lack
    "0001": ("scores", "entries", "imports", "reproductions", "images"),
    "0004": ("forgotten", "watched", "leases", "tries", "stopped", "suites", "checksums", "remarks"),
}


@pytest.fixture
def next_release(monkeypatch):
    """Pretend that the next version changes a table, and does these statements."""

    def pretend(*more):
        monkeypatch.setattr(schema, "CHANGES", {**schema.CHANGES, NEXT_HEAD: (NEXT, *more)})
        monkeypatch.setattr(schema, "HEAD", NEXT_HEAD)

    return pretend


def make_older(url, version, *rows):
    """Make a store of this version with these rows by table."""
    lacking = [name for number, names in LATER.items() if number >= version for name in names]
    with ResultsStore.open(url) as store, store.database.write() as connection:
        for table, row in rows:
            connection.execute(insert(table), row)
        for statement in (*(f"DROP TABLE {name}" for name in lacking), "CREATE TABLE claims (key TEXT)"):
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(f"UPDATE roarbench_version SET version_num = '{version}'")


def test_a_store_that_was_shipped_has_the_tables_of_the_schema(tmp_path):
    shutil.copy(DEMO, tmp_path / "results.sqlite")
    with ResultsStore.open(default_url(tmp_path)) as store, store.database.read() as connection:
        found = inspect(connection)
        assert set(found.get_table_names()) == schema.metadata.tables.keys()
        for name, table in schema.metadata.tables.items():
            columns = {(each["name"], str(each["type"]), each["nullable"]) for each in found.get_columns(name)}
            kinds = {column.name: column.type.compile(connection.dialect) for column in table.columns}
            assert columns == {(column.name, kinds[column.name], column.nullable) for column in table.columns}
            assert found.get_pk_constraint(name)["constrained_columns"] == list(table.primary_key.columns.keys())
            indexes = {each["name"]: each["column_names"] for each in found.get_indexes(name)}
            assert indexes == {each.name: each.columns.keys() for each in table.indexes}


def test_a_store_of_the_first_release_is_brought_up_to_date_and_loses_nothing(store_url):
    result, failed = make_result(make_run()), row_of(make_result(make_run(1)))
    tried = {name: failed[name] for name in ("key", "record", "code_version", "created")} | {"reason": "why"}
    make_older(store_url, "0001", (schema.results, row_of(result)), (schema.failures, tried))
    with ResultsStore.open(store_url) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        assert store.failures.stopped([failed["key"]]) == {failed["key"]: "why"}
        assert store.add(make_result(make_run(1)))
        with store.database.read() as connection:
            assert set(inspect(connection).get_table_names()) == schema.metadata.tables.keys()
            assert connection.exec_driver_sql("SELECT version_num FROM roarbench_version").scalar_one() == schema.HEAD


def test_a_migration_that_breaks_off_leaves_the_older_store(store_url, next_release, monkeypatch):
    result = make_result(make_run())
    with ResultsStore.open(store_url) as store:
        store.add(result)
    next_release("DROP TABLE nothing")
    with pytest.raises(StoreError, match="nothing"):
        ResultsStore.open(store_url)
    monkeypatch.undo()
    with ResultsStore.open(store_url) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        with store._database.read() as connection:
            assert "origin" not in {column["name"] for column in inspect(connection).get_columns("results")}


def test_a_store_is_brought_up_to_date_once_and_one_that_is_too_old_is_not_read(store_url, next_release, monkeypatch):
    ResultsStore.open(store_url).close()
    head = schema.HEAD
    calls, migrate = [], opening._migrate
    monkeypatch.setattr(opening, "_migrate", lambda *given: calls.append(schema.HEAD) or migrate(*given))
    ResultsStore.open(store_url).close()
    assert calls == []
    next_release()
    monkeypatch.setattr(schema, "READABLE", NEXT_HEAD)
    with pytest.raises(StoreError, match=f"has schema {head}, this version reads {NEXT_HEAD}"):
        ResultsStore.open(store_url, read_only=True)
    for _ in range(2):
        ResultsStore.open(store_url).close()
    assert calls == [NEXT_HEAD]


def test_a_store_of_release_4_is_read_as_it_is_and_gets_what_came_later(tmp_path):
    result = make_result(make_run())
    make_older(default_url(tmp_path), "0004", (schema.results, row_of(result)))
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        assert known_keys(store.database, result.run.key[:8]) == [result.run.key]
        assert forgotten_rows(store.database, [result.run.key]) == store.images.all() == []
        assert watched_rows(store.database, "quick v2", "da7a", None, "") == {}
    with ResultsStore.open(default_url(tmp_path)) as store, store.database.read() as connection:
        assert set(LATER["0004"]) < set(inspect(connection).get_table_names())
