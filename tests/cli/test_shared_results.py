"""`export`, `import` and `submit`: archived results, empty stores, damaged files and full disks."""

import subprocess
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from roarbench.common.errors import StoreError
from roarbench.execution import row_publication
from roarbench.plan.suites import SUITES
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.board_store import make_store
from tests.helpers.command_line import read_refusal
from tests.helpers.processes import read_results


def test_import_counts_archived_results_that_are_back(call, tmp_path):
    url, at = make_store(tmp_path, SUITES["planted"], lambda point: point.seed == 0, images=20), ("--store", tmp_path)
    before, file = read_results(url), tmp_path / "all.parquet"
    assert call("export", file, *at).code == 0
    assert call("runs", "truth", "--archive", "a disk fault", *at).code == 0
    archived = len(before) - len(read_results(url))
    assert archived > 1
    told = f"archived before, and now back: {archived} results; `runs KEY` shows the reasons"
    assert told in call("import", file, *at).err.splitlines()
    assert read_results(url).keys() == before.keys()
    assert "now back" not in call("import", file, *at).err


def test_export_of_empty_store_writes_no_file(call, tmp_path):
    store = tmp_path / "store"
    ResultsStore.open(make_default_url(store)).close()
    run = f"roarbench run --suite quick --store {store}"
    line = f"roarbench: results store {store}/results.sqlite has no results; `{run}` computes them\n"
    assert call("export", tmp_path / "all.parquet", "--store", store) == (2, "", line)
    assert not (tmp_path / "all.parquet").exists()


def change_first_row(path):
    """Change a number of an export, so that its checksum is wrong."""
    table = pq.read_table(path)
    rows = table.to_pylist()
    rows[0]["seconds"] += 1
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)


@pytest.mark.parametrize("damage", [lambda path: path.write_text("# Notes\n"), change_first_row])
def test_import_of_damaged_file_creates_no_store(call, made, tmp_path, damage):
    file, store = tmp_path / "all.parquet", tmp_path / "a" / "store"
    assert call("export", file, "--store", made).code == 0
    damage(file)
    assert read_refusal(call, "import", file, "--store", store).startswith(f"roarbench: {file}")
    assert not store.parent.exists()


def test_submit_goes_on_after_full_disk(call, made, tmp_path, monkeypatch):
    """The same command said that its branch exists already."""
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A. Author")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "author@example.org")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    prepared = row_publication.PreparedPublication("row.parquet", frozenset(), "results/row", "Results: row", ())
    write = Mock(side_effect=[StoreError("no space left"), lambda: (tmp_path / "row.parquet").touch()])
    monkeypatch.setattr(row_publication, "plan_pull_request", lambda *_: prepared)
    monkeypatch.setattr(row_publication, "publish_networks", lambda *_: None)
    monkeypatch.setattr(row_publication, "add_published_file", lambda *_: write()())
    asked = ("submit", "row", "--suite", "planted", "--results", tmp_path, "--about", "me", "--write", "--store", made)
    assert call(*asked).err == "roarbench: no space left\n"
    assert call(*asked).code == 0
    assert subprocess.check_output(["git", "-C", tmp_path, "log", "--format=%s"], text=True) == "Results: row\n"
