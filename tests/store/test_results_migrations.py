"""Schemas: made at the newest, brought up to date, and one with the code."""

import re
import shutil

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import insert, inspect

from roarbench.errors import StoreError
from roarbench.store import opening, schema
from roarbench.store.forgotten import forgotten_rows, known_keys
from roarbench.store.result import row_of
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.watched import watched_rows
from tests.helpers.store_rows import make_result, make_run

NEXT_HEAD = f"{int(schema.HEAD) + 1:04d}"
NEXT = """
import sqlalchemy as sa
from alembic import op

revision = "{revision}"
down_revision = "{head}"


def upgrade():
    op.add_column("results", sa.Column("origin", sa.Text, nullable=False, server_default="own"))
    {end}
"""


@pytest.fixture
def next_release(tmp_path, monkeypatch):
    """Pretend that this version has one more migration, ending with these statements."""

    def pretend(end=""):
        folder = tmp_path / "migrations"
        shutil.copytree(opening.MIGRATIONS, folder, dirs_exist_ok=True)
        text = NEXT.format(revision=NEXT_HEAD, head=schema.HEAD, end=end)
        (folder / "versions" / f"r{NEXT_HEAD}_next.py").write_text(text)
        monkeypatch.setattr(opening, "MIGRATIONS", folder)
        monkeypatch.setattr(schema, "HEAD", NEXT_HEAD)

    return pretend


def test_the_head_is_the_newest_migration():
    config = Config()
    config.set_main_option("script_location", str(opening.MIGRATIONS))
    scripts = ScriptDirectory.from_config(config)
    revisions = [script.revision for script in scripts.walk_revisions()]
    assert scripts.get_current_head() == schema.HEAD
    assert all(re.fullmatch(r"\d{4}", revision) for revision in revisions), "they are compared as text"
    assert revisions == sorted(revisions, reverse=True)


def test_migrations_and_tables_agree(store_url):
    with ResultsStore.open(store_url) as store, store.database.read() as connection:
        options = {"version_table": schema.VERSION_TABLE, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata) == []
        # what compare_metadata does not look at
        for name, table in schema.metadata.tables.items():
            found = {column["name"]: column["nullable"] for column in inspect(connection).get_columns(name)}
            assert found == {column.name: column.nullable for column in table.columns}
            assert inspect(connection).get_pk_constraint(name)["constrained_columns"] == list(
                table.primary_key.columns.keys()
            )


def test_a_store_of_the_first_release_is_brought_up_to_date_and_loses_nothing(store_url, tmp_path, monkeypatch):
    result, older = make_result(make_run()), tmp_path / "100% first"
    shutil.copytree(opening.MIGRATIONS, older)
    for script in sorted((older / "versions").glob("r*.py"))[1:]:
        script.unlink()
    with monkeypatch.context() as release:
        release.setattr(opening, "MIGRATIONS", older)
        release.setattr(schema, "HEAD", "0001")
        with ResultsStore.open(store_url) as store, store.database.write() as connection:
            connection.execute(insert(schema.results), row_of(result))
    with ResultsStore.open(store_url) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        assert store.add(make_result(make_run(1)))
        with store.database.read() as connection:
            assert connection.exec_driver_sql("SELECT version_num FROM roarbench_version").scalar_one() == schema.HEAD


def test_a_migration_that_breaks_off_leaves_the_older_store(store_url, next_release, monkeypatch):
    result = make_result(make_run())
    with ResultsStore.open(store_url) as store:
        store.add(result)
    next_release(end="raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        ResultsStore.open(store_url)
    monkeypatch.undo()
    with ResultsStore.open(store_url) as store:
        assert store.results([result.run.key]) == {result.run.key: result}
        with store.database.read() as connection:
            assert set(inspect(connection).get_table_names()) == {*schema.metadata.tables, schema.VERSION_TABLE}
            assert "origin" not in {column["name"] for column in inspect(connection).get_columns("results")}


def test_a_store_at_the_head_needs_no_alembic_and_one_that_is_too_old_is_not_read(store_url, next_release, monkeypatch):
    ResultsStore.open(store_url).close()
    head = schema.HEAD
    calls, migrate = [], opening._migrate
    monkeypatch.setattr(opening, "_migrate", lambda connection: calls.append(schema.HEAD) or migrate(connection))
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
        assert forgotten_rows(store.database, [result.run.key]) == store.images.all() == []
        assert watched_rows(store.database, "quick v2", "da7a", None, "") == {}
    with ResultsStore.open(default_url(tmp_path)) as store, store.database.read() as connection:
        assert set(later) < set(inspect(connection).get_table_names())
