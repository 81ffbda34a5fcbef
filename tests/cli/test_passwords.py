"""A password in a database's URL is said and kept nowhere."""

from itertools import product

import pytest

from roarbench.cli.proposals import without_password
from roarbench.errors import StoreError
from roarbench.store.opening import open_database
from tests.helpers import forked
from tests.helpers.command_line import PART
from tests.helpers.commands import PATIENCE


def test_an_error_and_a_proposed_command_leave_it_out():
    passwords = ("hush", "12@hush", "12/hush", "12#hush", "12?hush", "12:hush", "12%40hush")
    ends = ("localhost:1/name", "/name?host=/nowhere", "localhost:1/name?sslmode=require")
    for password, end in product(passwords, ends):
        url = f"postgresql://user:{password}@{end}"
        with pytest.raises(StoreError) as error:
            open_database(url, read_only=True)
        assert "hush" not in str(error.value), url
        assert without_password(url) == f"postgresql://user:***@{end}"


@pytest.mark.postgres
@pytest.mark.process
def test_a_run_leaves_it_out_of_its_log_and_its_workers_logs_of_rows_and_files(postgres_url, tmp_path):
    url = postgres_url.replace("postgres@", "postgres:hush@")  # the server asks for none
    log = tmp_path / "log"
    words = ("--workers", "1", "--log-format", "json", "--store", tmp_path / "store", "--db", url)
    process = forked.start(("run", *PART, *words), log)
    process.join(PATIENCE)
    assert process.exitcode == 0, log.read_text()
    assert "hush" not in log.read_text()
    files = [path for path in (tmp_path / "store").rglob("*") if path.is_file()]
    assert any(path.suffix == ".jsonl" for path in files)
    assert [path for path in files if b"hush" in path.read_bytes()] == []
    database = open_database(url, read_only=True)
    with database.read() as connection:
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
        for table in connection.exec_driver_sql(tables).scalars().all():
            rows = connection.exec_driver_sql(f'SELECT * FROM "{table}"').all()
            assert "hush" not in repr(rows), table
    database.close()
