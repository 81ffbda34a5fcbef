"""Schemas: made at the newest, brought up to date, and one with the code."""

import shutil
from contextlib import contextmanager

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import insert, inspect

from roarbench.errors import StoreError
from roarbench.store import opening, schema
from roarbench.store.forgotten import forgotten_rows, known_keys
from roarbench.store.image_notes import noted_images
from roarbench.store.result import row_of
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.watched import watched_rows
from tests.helpers.store_rows import make_result, make_run

NEXT_HEAD = f"{int(schema.HEAD) + 1:04d}"
NEXT = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT_HEAD}"
down_revision = "{schema.HEAD}"


def upgrade():
    op.add_column("results", sa.Column("origin", sa.Text, nullable=False, server_default="own"))
"""


@contextmanager
def release(migrations, head):
    """Be the release with these migrations, which reads no older store."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opening, "MIGRATIONS", migrations)
        patch.setattr(schema, "HEAD", head)
        patch.setattr(schema, "READABLE", head)
        yield


def test_migrations_and_tables_agree(store):
    with store.database.read() as connection:
        options = {"version_table": schema.VERSION_TABLE, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []
        seen = inspect(connection)  # what compare_metadata does not look at
        for name, table in schema.metadata.tables.items():
            nullable = {column["name"]: column["nullable"] for column in seen.get_columns(name)}
            assert nullable == {column.name: column.nullable for column in table.columns}
            assert seen.get_pk_constraint(name)["constrained_columns"] == table.primary_key.columns.keys()


def test_a_store_of_the_first_release_is_brought_up_to_date_and_loses_nothing(store_url, tmp_path):
    result, older = make_result(make_run()), tmp_path / "100% first"
    shutil.copytree(opening.MIGRATIONS, older)
    for script in sorted((older / "versions").glob("r*.py"))[1:]:
        script.unlink()
    with release(older, "0001"), ResultsStore.open(store_url) as store, store.database.write() as connection:
        connection.execute(insert(schema.results), row_of(result))
    with ResultsStore.open(store_url) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        assert store.add(make_result(make_run(1)))
        with store.database.read() as connection:
            assert opening._version(connection, "") == schema.HEAD


def test_a_store_is_migrated_once_and_whole_and_one_that_is_too_old_is_not_read(store_url, tmp_path, monkeypatch):
    result, head, newer = make_result(make_run()), schema.HEAD, tmp_path / "newer"
    calls, migrate = [], opening._migrate
    with ResultsStore.open(store_url) as store:
        store.add(result)
    monkeypatch.setattr(opening, "_migrate", lambda connection: calls.append(schema.HEAD) or migrate(connection))
    with ResultsStore.open(store_url):
        assert calls == [], "one at the head needs no Alembic"
    shutil.copytree(opening.MIGRATIONS, newer)
    script = newer / "versions" / f"r{NEXT_HEAD}_next.py"
    script.write_text(f"{NEXT}    raise KeyboardInterrupt\n")
    with release(newer, NEXT_HEAD), pytest.raises(KeyboardInterrupt):
        ResultsStore.open(store_url)
    with ResultsStore.open(store_url) as store, store.database.read() as connection:
        assert store.results([result.run.key]) == {result.run.key: result}
        assert set(inspect(connection).get_table_names()) == {*schema.metadata.tables, schema.VERSION_TABLE}
        assert "origin" not in {column["name"] for column in inspect(connection).get_columns("results")}
    script.write_text(NEXT)
    with release(newer, NEXT_HEAD):
        with pytest.raises(StoreError, match=f"has schema {head}, this version reads {NEXT_HEAD}"):
            ResultsStore.open(store_url, read_only=True)
        for _ in range(2):
            ResultsStore.open(store_url).close()
    assert calls == [NEXT_HEAD] * 2, "once where it broke off, once to its end"


def test_a_store_of_release_4_is_read_as_it_is_and_gets_what_came_later(tmp_path):
    result = make_result(make_run())
    later = ("forgotten", "watched", "leases", "tries", "stopped", "suites", "checksums", "remarks")
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(result)
        with store.database.write() as connection:
            for statement in (*(f"DROP TABLE {name}" for name in later), "CREATE TABLE claims (key TEXT)"):
                connection.exec_driver_sql(statement)
            connection.exec_driver_sql("UPDATE roarbench_version SET version_num = '0004'")
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        assert known_keys(store.database, result.run.key[:8]) == [result.run.key]
        assert forgotten_rows(store.database, [result.run.key]) == noted_images(store.database) == []
        assert watched_rows(store.database, "quick v2", "da7a", None, "") == {}
    with ResultsStore.open(default_url(tmp_path)) as store, store.database.read() as connection:
        assert set(later) < set(inspect(connection).get_table_names())
