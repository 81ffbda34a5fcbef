"""A folder of published results: what belongs into it passes, and each kind of tampering is refused in one line."""

import json
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roarbench.analysis.collecting import collect
from roarbench.errors import CallerError, StoreError
from roarbench.files import sha256
from roarbench.plan.suites import find_suite
from roarbench.report.pull_request import comment, prepare, write
from roarbench.store.remarks import Kind, put_remarks
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.results_folder import INDEX, add_file, check_folder, fetched
from roarbench.store.schema import imports
from roarbench.store.transfer import _checksum, export_results, import_results, read_results
from tests.helpers.command_line import command

ROOT = Path(__file__).parents[2]
ROWS = ROOT / "studies" / "replication" / "quick-5.parquet"  # those of quick-matched 2 among them
NAME = "quick-matched/2/roarbench.parquet"
OTHER = "quick-matched/2/mine.parquet"


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    with ResultsStore.open(default_url(folder)) as results:
        import_results(results, ROWS)
        yield results


@pytest.fixture(scope="module")
def published(store, tmp_path_factory):
    """A folder with the runs of two controls."""
    folder = tmp_path_factory.mktemp("results")
    (folder / NAME).parent.mkdir(parents=True)
    wanted = {"random", "random~matched", "none", "sobel", "sobel~matched"}
    found = collect(find_suite("quick-matched@2"), store).results.values()
    keys = {result.run.key for result in found if result.run.cell.estimator in wanted}
    count = export_results(store, folder / NAME, keys=keys)
    add_file(folder, NAME, count, "the project")
    return folder


@pytest.fixture
def folder(published, tmp_path):
    return Path(shutil.copytree(published, tmp_path / "results"))


def edit_index(folder, change):
    values = json.loads((folder / INDEX).read_text("utf-8"))
    change(values)
    (folder / INDEX).write_text(json.dumps(values), "utf-8")


def edit_rows(folder, change):
    """Change rows of the file, and make the hashes fit again."""
    table = pq.read_table(folder / NAME)
    lines = table.to_pylist()
    change(lines)
    for line in lines:
        line.pop("sha256")
        line["sha256"] = _checksum(line)
    pq.write_table(type(table).from_pylist(lines, schema=table.schema), folder / NAME)
    edit_index(folder, lambda values: values["files"][0].update(sha256=sha256(folder / NAME), rows=len(lines)))


def test_a_folder_that_is_as_it_says_passes(published):
    found = check_folder(published, published)
    assert [file.path for file in found] == [NAME]
    assert {result.run.cell.estimator for result in found[next(iter(found))]} >= {"random", "sobel~matched", "none"}


def forged(values):
    values["files"][0]["state"] = "verified"


def set_in_row(name, value):
    return lambda folder: edit_rows(folder, lambda lines: lines[0].__setitem__(name, value(lines[0])))


def set_in_file(name, value):
    return lambda folder: edit_index(folder, lambda values: values["files"][0].__setitem__(name, value))


def flip_answer(row):
    return bytes([row["bits"][0] ^ 128]) + row["bits"][1:]


def link(folder):
    (folder / NAME).rename(folder.parent / "away.parquet")
    (folder / NAME).symlink_to(folder.parent / "away.parquet")


def other_suite(folder):
    (folder / "quick-specific/1").mkdir(parents=True)
    shutil.move(folder / NAME, folder / "quick-specific/1/roarbench.parquet")
    set_in_file("path", "quick-specific/1/roarbench.parquet")(folder)


def twice(folder):
    shutil.copy(folder / NAME, folder / OTHER)
    add_file(folder, OTHER, len(list(read_results(folder / OTHER))), "again")


def add_to(folder, name, text):
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, "utf-8")


TAMPERED = {
    "answers that are no more than their count": (set_in_row("bits", flip_answer), "the bits say otherwise"),
    "a formula": (set_in_row("code_version", lambda row: "=HYPERLINK(1)"), "computed by a spreadsheet"),
    "a file with another hash": (set_in_file("sha256", "0" * 64), "has the SHA-256"),
    "a number of rows": (set_in_file("rows", 3), "rows, index.json says 3"),
    "a path out of the folder": (set_in_file("path", "../../etc/1/passwd.parquet"), "expected SUITE/VERSION/NAME"),
    "a forged state": (lambda f: edit_index(f, forged), "no index of results"),
    "a file that is gone": (lambda f: (f / NAME).unlink(), "not in the folder"),
    "a file that is in no index": (lambda f: add_to(f, "quick/2/more.parquet", "x"), "is not in index.json"),
    "a link": (link, "is a link"),
    "rows of another suite": (other_suite, "no run of quick-specific v1 has these settings"),
    "a suite that nobody knows": (set_in_file("path", "nobody/1/roarbench.parquet"), "is not in"),
    "a run twice": (twice, "keep one of them"),
    "an endless index": (lambda f: add_to(f, INDEX, " " * 2**21), "bytes at most"),
    "an index that is nested without end": (lambda f: add_to(f, INDEX, "[" * 100_000), "no index of results"),
}


@pytest.mark.parametrize("kind", TAMPERED)
def test_tampering_is_refused_in_one_line(folder, kind):
    tamper, said = TAMPERED[kind]
    tamper(folder)
    with pytest.raises(StoreError) as refused:
        check_folder(folder)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_published_row_may_neither_go_nor_change(published, folder):
    edit_rows(folder, lambda rows: rows.pop())
    with pytest.raises(StoreError, match="was published and is gone"):
        check_folder(folder, published)
    shutil.copytree(published, folder, dirs_exist_ok=True)
    set_in_row("seconds", lambda row: row["seconds"] + 1)(folder)
    check_folder(folder)
    with pytest.raises(StoreError, match="rows never change"):
        check_folder(folder, published)


@pytest.fixture
def own(tmp_path):
    """A store with the same rows, as if all of them had been computed there."""
    with ResultsStore.open(default_url(tmp_path)) as results:
        import_results(results, ROWS)
        with results.database.write() as connection:
            connection.execute(imports.delete())
        yield results


@pytest.mark.slow
def test_a_row_is_prepared_written_and_told(own, published, folder):
    prepared = prepare(own, "quick-matched@2", "ig(baseline=mean)", folder, "A. Author")
    assert prepared.path == "quick-matched/2/ig-baseline-mean.parquet"
    assert prepared.text.endswith(" runs. A. Author\n")
    write(own, folder, prepared, "A. Author")
    (new,) = (rows for file, rows in check_folder(folder, published).items() if file.path == prepared.path)
    assert {result.run.cell.estimator for result in new} == {"ig(baseline=mean)", "ig(baseline=mean)~matched"}
    told = comment(folder, published)
    assert "| `quick-matched/2/ig-baseline-mean.parquet` |" in told and "| A. Author |" in told
    assert NAME not in told and "ig(baseline=mean) (!) | +2" in told
    assert comment(folder, folder).startswith("No file is new")


@pytest.mark.slow
def test_suites_that_share_runs_have_whole_files_each(own, folder):
    one = prepare(own, "quick-matched@2", "grad", folder, "A. Author")
    write(own, folder, one, "A. Author")
    other = prepare(own, "quick@5", "grad", folder, "A. Author")
    with pytest.raises(CallerError, match="no runs of gard in .*; there are: class-template, .*, grad, .*, ig, "):
        prepare(own, "quick-matched@2", "gard", folder, "A. Author")
    assert other.path == "quick/5/grad.parquet" and other.keys >= one.keys


def test_rows_that_were_trained_on_imported_rankings_are_published_as_such(own, folder):
    stored = own.results(own.keys("")).values()
    with own.database.write() as connection:
        put_remarks(connection, {f"{Kind.IMPORTED} {row.rankings}": True for row in stored if row.rankings})
    prepared = prepare(own, "quick-matched@2", "grad", folder, "A. Author")
    assert prepared.text.endswith(" runs. A. Author Trained on rankings that were imported.\n")
    taken = {"key": sorted(prepared.keys)[0], "file": "0" * 64, "created": datetime.now(UTC)}
    with own.database.write() as connection:
        connection.execute(imports.insert(), taken)
    with pytest.raises(CallerError, match="publish what was run here"):
        prepare(own, "quick-matched@2", "grad", folder, "A. Author")


@pytest.mark.slow
def test_import_takes_a_folder_and_refuses_a_tampered_one(folder, tmp_path, capsys):
    assert command("import", folder, "--store", tmp_path / "store") == 0
    assert "results are new" in capsys.readouterr().err
    set_in_file("rows", 3)(folder)
    assert command("import", folder, "--store", tmp_path / "other") == 2
    said = capsys.readouterr().err
    assert "index.json says 3" in said and said.count("\n") == 1


def test_what_an_address_gives_is_bounded(monkeypatch):
    with pytest.raises(StoreError, match="cannot fetch"), fetched("http://127.0.0.1:9/results.parquet"):
        pass
    monkeypatch.setattr("roarbench.store.results_folder._FILE_BYTES", 10)
    monkeypatch.setattr("roarbench.store.results_folder.urlopen", lambda *_, **__: (ROOT / "README.md").open("rb"))
    with pytest.raises(StoreError, match="more than 10 bytes"), fetched("https://example.org/results.parquet"):
        pass


@pytest.mark.process
def test_the_projects_own_folder_passes_and_so_does_its_workflow(capsys):
    assert command("results", "check", ROOT / "results") == 0
    program = Path(sys.executable).with_name("check-jsonschema")
    workflow = ROOT / "results" / ".github" / "workflows" / "check.yml"
    subprocess.run([program, "--builtin-schema", "vendor.github-workflows", workflow], check=True)
