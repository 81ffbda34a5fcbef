"""Folders of published results: valid files are accepted, and each kind of tampering is refused in one line."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roarbench.analysis.collect_results import collect_results
from roarbench.common.errors import CallerError, StoreError
from roarbench.common.files import compute_sha256
from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.execution.row_publication import add_published_file, plan_pull_request
from roarbench.plan.cells_and_runs import read_run_record
from roarbench.plan.planned_runs import PlannedRun, build_run
from roarbench.plan.suites import find_builtin_suite, make_renamed_suite_text
from roarbench.report.pull_request_comment import format_pull_request_comment
from roarbench.store.annotations_and_scores import AnnotationKind, insert_annotations
from roarbench.store.export_and_import import (
    ANNOTATIONS,
    NOTES_CHECKSUM,
    compute_notes_checksum,
    compute_row_checksum,
    export_results,
    import_results,
)
from roarbench.store.published_folder import (
    INDEX,
    PublishedFile,
    add_file_to_index,
    find_new_results,
    list_checked_result_files,
    read_checked_folder,
    read_index_and_check_folder,
)
from roarbench.store.results import Origin, ResultsStore, make_default_url, read_origins
from roarbench.store.schema import imports
from tests.helpers.processes import ROOT
from tests.helpers.store_rows import list_result_keys, make_result, make_run

ROWS = ROOT / "results" / "quick-matched" / "3" / "roarbench.parquet"
NAME = "quick-matched/3/roarbench.parquet"
OTHER = "quick-matched/3/mine.parquet"
PUBLISHED = ("random", "random~matched", "none", "sobel", "sobel~matched")  # estimators of the file NAME


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with the runs of a study, as if all of them had been computed there."""
    with ResultsStore.open(make_default_url(tmp_path_factory.mktemp("store"))) as results:
        import_results(results, ROWS)
        results.database.run_write(lambda connection: connection.execute(imports.delete()))
        yield results


@pytest.fixture(scope="module")
def published(store, tmp_path_factory):
    """A folder with the runs of two controls and of the untouched images."""
    folder = tmp_path_factory.mktemp("results")
    (folder / NAME).parent.mkdir(parents=True)
    keys = list_keys(store, *PUBLISHED)
    export_results(store, folder / NAME, keys=keys)
    add_file_to_index(folder, NAME, "the project")
    return folder


@pytest.fixture
def folder(published, tmp_path):
    return Path(shutil.copytree(published, tmp_path / "results"))


def change_index(**values):
    """Return a function that changes the index entry of the file."""

    def tamper(folder):
        index = json.loads((folder / INDEX).read_text("utf-8"))
        index["files"][0] |= values
        (folder / INDEX).write_text(json.dumps(index), "utf-8")

    return tamper


def change_rows(change):
    """Return a function that changes rows of the file and updates the hashes."""

    def tamper(folder):
        number = rewrite_rows(folder / NAME, change)
        change_index(sha256=compute_sha256(folder / NAME), rows=number)(folder)

    return tamper


def rewrite_rows(path, change):
    """Change the rows of a file, update their hashes, and return their number."""
    table = pq.read_table(path)
    lines = table.to_pylist()
    change(lines)
    for line in lines:
        line["sha256"] = compute_row_checksum({name: value for name, value in line.items() if name != "sha256"})
    pq.write_table(type(table).from_pylist(lines, schema=table.schema), path)
    return len(lines)


def set_row(**values):
    return change_rows(lambda lines: lines[0].update(values))


def move_to_other_images(lines):
    run = read_run_record(json.loads(lines[0]["record"]))
    run = build_run(find_builtin_suite("quick-matched@3"), PlannedRun(run.cell, run.seed), "0" * 32, run.limit)
    lines[0] |= {"key": run.key, "record": encode_canonically(make_json_record(run))}


def drop_last_image(lines):
    """Say that the last image was wrong, and that it is none."""
    for line in lines:
        bits = bytearray(line["bits"])
        was_correct = bits[-1] & 1
        bits[-1] &= 0xFE
        line |= {"bits": bytes(bits), "correct": line["correct"] - was_correct, "total": line["total"] - 1}


def link(folder):
    (folder / NAME).rename(folder.parent / "away.parquet")
    (folder / NAME).symlink_to(folder.parent / "away.parquet")


def other_suite(folder):
    os.renames(folder / NAME, folder / "quick/6/roarbench.parquet")
    change_index(path="quick/6/roarbench.parquet")(folder)


def twice(folder):
    shutil.copy(folder / NAME, folder / OTHER)
    add_file_to_index(folder, OTHER, "again")


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (set_row(code_version="=HYPERLINK(1)"), "a spreadsheet would take"),
        (change_index(sha256="0" * 64), "has the SHA-256"),
        (change_index(rows=3), "rows, expected 3 as in index.json"),
        (change_index(first_replication=1), "has rows from replication 0 on, expected 1"),
        (change_index(path="../../etc/1/passwd.parquet"), "expected SUITE/VERSION/NAME"),
        (change_index(state="verified"), "not an index of results"),
        (lambda folder: (folder / NAME).unlink(), "missing in the folder"),
        (lambda folder: (folder / OTHER).write_text("x"), "is not in index.json"),
        (link, "is a link"),
        (other_suite, "no run of quick v6 has these settings"),
        (twice, "keep it in one of them"),
        (change_rows(move_to_other_images), "than the suite's other rows"),
        (change_rows(drop_last_image), "it has 999 test images, but the suite has 1,000"),
        (change_rows(lambda lines: lines.append(dict(lines[0]))), "twice"),
        (lambda folder: (folder / INDEX).write_text(" " * 2**21), "a plain file of at most"),
        (lambda folder: (folder / INDEX).write_text("[" * 10**5), "not an index of results"),
    ],
)
def test_published_folder_rejects_tampering_in_one_line(folder, tamper, said):
    tamper(folder)
    with pytest.raises(StoreError) as refused:
        list_checked_result_files(str(folder))
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_published_folder_rejects_removed_or_changed_row(published, folder):
    (found,) = read_checked_folder(published).values()
    assert not find_new_results(read_checked_folder(published), read_checked_folder(published))
    assert {result.run.cell.estimator for result in found} >= {"random", "sobel~matched", "none"}
    for tamper, said in (
        (change_rows(lambda lines: lines.pop()), "is missing now"),
        (set_row(seconds=1.5), "rows must not change"),
    ):
        tamper(folder)
        with pytest.raises(StoreError, match=said):
            find_new_results(read_checked_folder(folder), read_checked_folder(published))


def replace_notes(table, notes):
    """Return a table with other notes and their checksum."""
    metadata = table.schema.metadata | notes
    return table.replace_schema_metadata(metadata | {NOTES_CHECKSUM: compute_notes_checksum(metadata)})


@pytest.mark.parametrize(
    ("command", "kind", "was", "now"),
    [
        ("check", AnnotationKind.TIES, 0.75, 0.0),
        ("comment", AnnotationKind.TIES, 0.75, 0.0),
        ("check", AnnotationKind.VALIDATE, ["ignores the class", "has maps of bytes"], ["ignores the class"]),
    ],
)
def test_commands_for_reviewers_reject_changed_annotations(command, kind, was, now, folder, tmp_path, call):
    """The comment on a pull request said that all published rows are unchanged."""
    shutil.copytree(folder, before := tmp_path / "before")
    table = pq.read_table(folder / NAME)
    for each, value in ((before, was), (folder, now)):
        notes = {ANNOTATIONS: json.dumps({f"{kind} {table['rankings'][0]}": value}).encode()}
        pq.write_table(replace_notes(table, notes), each / NAME)
        change_index(sha256=compute_sha256(each / NAME))(each)
    answer = call("results", command, folder, "--before", before)
    assert answer.code == 2 and f"{NAME} was published with another value of '{kind} " in answer.err


@pytest.mark.parametrize("command", ["check", "comment"])
def test_missing_folder_before_a_change_is_refused_without_reading_rows(folder, tmp_path, call, command):
    (folder / NAME).write_bytes(b"")  # a checked row would be refused
    answer = call("results", command, folder, "--before", tmp_path / "typo")
    assert (answer.code, answer.out) == (2, "")
    assert "there is no " in answer.err and "typo/index.json" in answer.err


def test_removed_row_is_named_before_its_annotations(folder, tmp_path, call):
    shutil.copytree(folder, before := tmp_path / "before")
    table = pq.read_table(before / NAME)
    notes = {ANNOTATIONS: json.dumps({f"{AnnotationKind.TIES} {table['rankings'][0]}": 0.75}).encode()}
    pq.write_table(replace_notes(table, notes), before / NAME)
    change_index(sha256=compute_sha256(before / NAME))(before)
    change_rows(lambda lines: lines.pop())(folder)
    answer = call("results", "check", folder, "--before", before)
    assert answer.code == 2 and answer.err.endswith("is missing now; published rows must not be removed\n")


def test_results_of_one_run_in_two_suites_may_differ_in_time_and_are_published_separately():
    result = make_result(make_run())
    first, second = (PublishedFile(f"{suite}/1/rows.parquet", "", 1, "the project") for suite in ("first", "second"))
    before, later = {first: [result]}, {second: [replace(result, seconds=9.0)]}
    assert find_new_results(before | later, before) == later
    with pytest.raises(StoreError, match="first/1/rows.parquet was published and is missing now"):
        find_new_results({second: [result]}, before)


def list_keys(store, *estimators):
    results = collect_results(find_builtin_suite("quick-matched@3"), store).results.values()
    return {result.run.key for result in results if result.run.cell.estimator in estimators}


def invert(lines):
    """Exchange correct and wrong images of all rows."""
    for line in lines:
        assert line["total"] % 8 == 0
        line |= {"bits": bytes(255 - byte for byte in line["bits"]), "correct": line["total"] - line["correct"]}


def test_results_check_accepts_invented_row_and_lists_it_as_new(store, published, folder, call):
    keys = list_keys(store, "grad", "grad~matched")
    export_results(store, folder / OTHER, keys=keys)
    rewrite_rows(folder / OTHER, invert)
    add_file_to_index(folder, OTHER, "invented")
    checked = call("results", "check", folder, "--before", published)
    half = len(keys) // 2
    assert checked.code == 0 and "no check repeats a run" in checked.err and "`roarbench reproduce KEY`" in checked.err
    assert checked.out == f"new in {OTHER}: grad ({half} runs), grad~matched ({half} runs)\n"
    unchanged = call("results", "check", published, "--before", published)
    assert unchanged.code == 0 and not unchanged.out and "reproduce" not in unchanged.err


@pytest.mark.slow
def test_published_file_is_prepared_written_and_described_in_comment(store, published, folder):
    prepared = plan_pull_request(store, "quick-matched@3", "ig(baseline=mean)", folder, "A. Author")
    assert prepared.path == "quick-matched/3/ig-baseline-mean.parquet"
    assert prepared.text.endswith(" runs. A. Author\n")
    add_published_file(store, folder, prepared, "A. Author")
    ((file, new),) = find_new_results(read_checked_folder(folder), read_checked_folder(published)).items()
    assert file.path == prepared.path
    assert {result.run.cell.estimator for result in new} == {
        f"ig(baseline=mean){twin}" for twin in ("", "~matched", "~untrained", "~untrained~matched")
    }
    told = format_pull_request_comment(folder, published)
    assert "| `quick-matched/3/ig-baseline-mean.parquet` |" in told and "| A. Author |" in told
    assert NAME not in told and "| ig(baseline=mean) | +2" in told
    with pytest.raises(CallerError, match="no runs of gard in "):
        plan_pull_request(store, "quick-matched@3", "gard", folder, "A. Author")


def test_publishing_rejects_imported_rows_and_names_imported_rankings(published, second, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / INDEX).write_text('{"format": 1, "files": []}')
    asked = ("quick-matched@3", "sobel", tmp_path / "new", "A. Author")
    import_results(second, published / NAME)
    with pytest.raises(CallerError, match="publish runs of this machine"):
        plan_pull_request(second, *asked)
    found = second.read_results(list_result_keys(second)).values()
    with second.database.begin_exclusive_write() as connection:
        connection.execute(imports.delete())
        rankings = {result.rankings for result in found} - {""}
        insert_annotations(connection, {f"{AnnotationKind.IMPORTED} {each}": True for each in rankings})
    origins = read_origins(second.database, [result.run.key for result in found if result.rankings])
    assert {*origins.values()} == {Origin.SELF_REPORTED}, "as in stores of the removed `rankings import`"
    text = plan_pull_request(second, *asked).text
    assert text.endswith(" runs. A. Author Networks were trained on imported rankings.\n")


def test_row_of_user_suite_is_published_with_suite_in_file(second, tmp_path):
    source = ROOT / "results" / "benchmark-imagenet" / "5a187511" / "efficientnet-lite-1.parquet"
    folder = tmp_path / "new"
    folder.mkdir()
    (folder / INDEX).write_text('{"format": 1, "files": []}')
    import_results(second, source)
    second.database.run_write(lambda connection: connection.execute(imports.delete()))
    prepared = plan_pull_request(second, "benchmark-imagenet", "grad", folder, "A. Author")
    add_published_file(second, folder, prepared, "A. Author")
    (tmp_path / "mine.toml").write_text(make_renamed_suite_text("planted"), "utf-8")
    with pytest.raises(CallerError, match="the store has no runs of grad in my-planted@"):
        plan_pull_request(second, str(tmp_path / "mine.toml"), "grad", folder, "A. Author")
    assert prepared.path == "benchmark-imagenet/5a187511/grad.parquet"
    ((file, found),) = read_checked_folder(folder).items()
    assert file.versioned_suite == "benchmark-imagenet@5a187511"
    assert {result.run.key for result in found} == prepared.keys
    assert "### benchmark-imagenet@5a187511 with the new results" in format_pull_request_comment(folder)
    other = prepared.path.replace("5a187511", "00000000")  # a version that is not in the file
    (folder / other).parent.mkdir()
    (folder / prepared.path).rename(folder / other)
    (folder / INDEX).unlink()
    add_file_to_index(folder, other, "the project")
    with pytest.raises(StoreError, match="parquet: no suite 'benchmark-imagenet@00000000'"):
        read_checked_folder(folder)


@pytest.mark.slow
def test_results_check_accepts_published_folder_of_project(call):
    """The key of each row is that of a run of its version."""
    assert call("results", "check", ROOT / "results").code == 0
    listed = {file.versioned_suite for file in read_index_and_check_folder(ROOT / "results") if file.rows}
    there = {"@".join(path.parts[-3:-1]) for path in (ROOT / "results").glob("*/*/*.parquet")}
    assert listed == there >= {"quick@6", "quick@7", "quick@8"}
