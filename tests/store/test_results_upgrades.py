"""Schemas: stores of earlier versions are readable, and upgrades are atomic."""

import hashlib
import shutil
from pathlib import Path

import pytest
from sqlalchemy import inspect

from roarbench.analysis.load_results import open_writable_results
from roarbench.common.errors import StoreError
from roarbench.store import open_database, schema
from roarbench.store.archive_rows import find_keys_even_if_archived, read_archived_rows
from roarbench.store.image_set_sources import read_image_sources
from roarbench.store.results import ResultsStore
from tests.helpers.elsewhere import ROOT
from tests.helpers.store_rows import make_result, make_run

COMMITTED = sorted((ROOT / "studies").rglob("*.sqlite"))
LATER = ("images", "forgotten", "watched", "suites", "leases", "tries", "stopped", "checksums", "remarks")


def describe_tables(store):
    """Return columns, key and indexes of each table."""
    with store.database.begin_read() as connection:
        seen = inspect(connection)
        return {
            name: (
                {column["name"]: (str(column["type"]), column["nullable"]) for column in seen.get_columns(name)},
                seen.get_pk_constraint(name)["constrained_columns"],
                {index["name"]: index["column_names"] for index in seen.get_indexes(name)},
            )
            for name in seen.get_table_names()
        }


def execute(store, *statements):
    with store.database.begin_exclusive_write() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def test_schema_number_changes_with_tables():
    """A stored table keeps its old columns unless `open_database._upgrade_schema` changes the table."""
    digest = hashlib.sha256()
    for table in schema.metadata.sorted_tables:
        for column in table.columns:
            digest.update(f"{column} {column.type} {column.nullable} {column.primary_key}\n".encode())
        for index in sorted(table.indexes, key=lambda index: index.name):
            digest.update(f"{index.name} {index.columns.keys()}\n".encode())
    assert (schema.NEWEST_VERSION, digest.hexdigest()[:16]) == ("0010", "9a42b7915cafcf76")


def test_open_upgrades_old_schema_whole_or_not_at_all(store_url, monkeypatch):
    """Old failures block their runs after the upgrade, except runs that succeeded later."""
    result, failed = make_result(make_run()), make_run(1)
    keys = [result.run.key, failed.key]
    with ResultsStore.open(store_url) as store:
        for each in (result.run, failed):
            store.failures.record_runs_failed_until_retry([each], "no")
        store.add_results([result])
        newest = describe_tables(store)
        execute(store, *(f"DROP TABLE {name}" for name in LATER), "CREATE TABLE claims (key TEXT)")
        execute(store, "UPDATE roarbench_version SET version_num = '0002'")
        with pytest.raises(StoreError, match=f"has schema 0002, this version reads {schema.NEWEST_VERSION}"):
            ResultsStore.open(store_url, read_only=True)
        open_writable_results(Path(), store_url).close()
        assert describe_tables(store) == newest
        execute(store, *(f"DROP TABLE {name}" for name in LATER), "CREATE TABLE claims (key TEXT)")
        execute(store, "UPDATE roarbench_version SET version_num = '0003'")
        older = describe_tables(store)
    with ResultsStore.open(store_url, read_only=True) as store:
        assert store.read_results(keys) == {result.run.key: result}
        assert find_keys_even_if_archived(store.database, failed.key[:8]) == [failed.key]
        assert (store.failures.find_stop_reasons([failed.key]), store.list_leases()) == ({failed.key: "no"}, [])
        assert read_archived_rows(store.database, keys) == read_image_sources(store.database) == []
    with monkeypatch.context() as patch, pytest.raises(StoreError):
        patch.setattr(open_database, "_STOP_FAILED_RUNS", "it breaks off here")
        ResultsStore.open(store_url)
    with ResultsStore.open(store_url, read_only=True) as store:
        assert describe_tables(store) == older
    with ResultsStore.open(store_url) as store:
        assert describe_tables(store) == newest
        assert store.read_results(keys) == {result.run.key: result}
        assert store.failures.find_stop_reasons(keys) == {failed.key: "no"}
    monkeypatch.setattr(open_database, "_upgrade_schema", lambda *_: pytest.fail("it is at the newest"))
    ResultsStore.open(store_url).close()


@pytest.mark.parametrize("path", COMMITTED, ids=lambda path: path.parent.name)
def test_committed_store_is_read_unchanged_and_upgraded_to_newest_schema(second, tmp_path, path):
    """One of the stores has an earlier schema."""
    (folder := tmp_path / "folder").mkdir()
    copy = Path(shutil.copy(path, folder))
    with ResultsStore.open(f"sqlite:///{copy}", read_only=True) as store:
        assert len(store.read_results(store.list_result_keys(""))) > 0
    assert [(left, left.read_bytes()) for left in folder.iterdir()] == [(copy, path.read_bytes())]
    with ResultsStore.open(f"sqlite:///{copy}") as store:
        assert describe_tables(store) == describe_tables(second)
