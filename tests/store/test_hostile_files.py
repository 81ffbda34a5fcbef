"""Files that a stranger made to be imported: each is refused in one line, and nothing of it is kept."""

import hashlib
import json
import shutil
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from roarbench.datasets import FOLDERS, own_images
from roarbench.errors import StoreError
from roarbench.identity import canonical
from roarbench.plan.custom_suite import named_dataset, own_suite, suite_record
from roarbench.plan.suite import Block, CustomSuite, Suite
from roarbench.protocols.roar import ROAR
from roarbench.store import exported, schema
from roarbench.store import transfer as exchange
from roarbench.store.entries import keep_entry
from roarbench.store.kept_suites import keep_suite, kept_suites
from roarbench.store.results import ResultsStore
from roarbench.store.transfer import export_results, import_results
from roarbench.submissions.file import check_source
from tests.helpers.store_rows import make_result, make_run

ENTRY = check_source(b'NAME = "mine"\nDESCRIPTION = "x"\n')
OTHER = check_source(b'NAME = "other"\nDESCRIPTION = "x"\n')
SOURCE = "def build(classes, channels, size):\n    raise SystemExit\n"


def own(**changes):
    """A suite from somebody's file, on photographs and with a network of their own."""
    data = replace(own_images("photos", 3, 8), own=FOLDERS, classes=2, train_images=4, test_images=2)
    data = named_dataset("photos", replace(data, train_split="train", test_split="test"))
    blocks = (Block(ROAR, ("random", "grad"), (0.5,), 1),)
    model = f"net.build@{hashlib.sha256(SOURCE.encode()).hexdigest()[:8]}"
    made = Suite("", "", "", data.name, model, "quick@2", "quick@2", blocks, own=CustomSuite(blocks, 1, data, SOURCE))
    return replace(own_suite("photos", "two classes", made), **changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with what `export` wrote of three rows of a submission and a suite, and an empty store."""
    folder = tmp_path_factory.mktemp("made")
    ResultsStore.open(f"sqlite:///{folder}/second.sqlite").close()
    with ResultsStore.open(f"sqlite:///{folder}/first.sqlite") as store:
        keep_entry(store.database, ENTRY)
        keep_suite(store.database, own())
        store.add_all([make_result(make_run(estimator=ENTRY.id, seed=seed)) for seed in range(3)])
        export_results(store, folder / "file.parquet")
    return folder


@pytest.fixture
def file(made, tmp_path):
    for name in ("second.sqlite", "file.parquet"):
        shutil.copy(made / name, tmp_path)
    return tmp_path / "file.parquet"


def refused(file, words):
    """Import a file into a new store, which stays empty; what was said."""
    with ResultsStore.open(f"sqlite:///{file.parent}/second.sqlite") as store:
        with pytest.raises(StoreError) as found:
            import_results(store, file)
        assert words in str(found.value) and len(str(found.value)) < 600 and str(found.value).isprintable()
        with store.database.read() as connection:
            tables = (schema.results, schema.imports, schema.entries, schema.suites, schema.images)
            assert [connection.scalar(select(func.count()).select_from(table)) for table in tables] == [0] * 5
    return str(found.value)


def altered(path, change, seal, **metadata):
    """Change the first row, with a checksum that fits if it is sealed again."""
    table = pq.read_table(path)
    content = table.to_pylist()
    change(content[0])
    if seal:
        content[0]["sha256"] = exchange._checksum({k: v for k, v in content[0].items() if k != "sha256"})
    about = {**table.schema.metadata, **{name.encode(): value.encode() for name, value in metadata.items()}}
    pq.write_table(pa.Table.from_pylist(content, schema=table.schema.with_metadata(about)), path)


def recorded(cell=None, **changes):
    """Change what a row says of its run, with a key that fits."""

    def change(row):
        record = json.loads(row["record"])
        row["record"] = canonical({**record, **changes, "cell": {**record["cell"], **(cell or {})}})
        row["key"] = hashlib.sha256(row["record"].encode()).hexdigest()[:32]

    return change


def said(**values):
    return lambda row: row.update(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (said(correct=1), "the bits say otherwise"),
        (said(record=None), "row 0"),
        (said(source=OTHER.source), f"the source is that of {OTHER.id}, not of {ENTRY.id}"),
        (said(source=b"#" * 2**19), "the file has 512 KiB, allowed are 256"),
        (said(hardware='{"cpu": [[1]]}'), "hardware is [[1]], expected a line"),
        (said(versions='{"torch": "2\\u001b[31m"}'), "versions is '2\\x1b[31m', expected a line of 1000 printable"),
        (said(code_version="\x1b]0;mine\x07"), "code_version is '\\x1b]0;mine\\x07', expected a line"),
        (said(rankings=None), "rankings is None, expected a line"),
        (said(created="0001-01-01T00:00:00+00:00"), "expected a time with its zone, from 2000 to 2199"),
        (recorded(seed=10**30), "seed is 1000000000000000000000000000000, expected a whole number"),
        (recorded(seed=-1), "seed is -1, expected a whole number from 0"),
        (recorded({"dataset": "../../../etc"}), "dataset is '../../../etc', expected a name"),
        (recorded({"model": "x" * 101}), "model is 'xxx"),
        (recorded({"model": "![](http://x/y.png)"}), "model is '![](http://x/y.png)', expected a name"),
        (recorded({"t": 1e300}), "level t must be in [0, 1]"),
        (recorded({"unit": "\x1b[2J"}), "is not a valid Unit"),
        (recorded({"estimator": "../x@0123abcd"}), "no estimator"),
    ],
)
def test_a_row_is_refused_with_all_others(file, change, words):
    altered(file, change, seal=True)
    refused(file, words)


def note(**changes):
    values = {"data": "1", "dataset": "photos", "limit": None, "kind": "local", "folder": "photos"}
    return canonical([{**values, **changes}])


def suites(**changes):
    return canonical([{**suite_record(own()), **changes}])


def on(**changes):
    data = {**suite_record(own())["dataset"], **changes}
    return suites(dataset=data)


def block(**changes):
    return suites(blocks=[{**suite_record(own())["blocks"][0], **changes}])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (note(limit=True), "limit is True, expected a whole number"),
        (note(folder="a\x1b"), "folder is 'a\\x1b', expected a line"),
        (note(folder="../../a"), "expected its last part"),
        (note(dataset="../../a"), "dataset is '../../a', expected a name"),
        ("[" * 10**5, "cannot be read"),
        (suites(name="a/b"), "name is 'a/b', expected a name"),
        (suites(about="\x1b[2J"), "about is '\\x1b[2J', expected a line"),
        (suites(model="net.build@01234567"), "which is not the hash of its file"),
        (suites(references=10**30), "expected 1 to 1000"),
        (suites(dataset="no such set"), "no data set"),
        (suites(left_out={"grad": "\x07"}), "left_out is '\\x07', expected a line"),
        (on(name="../../../tmp/x"), "name is '../../../tmp/x', expected a name"),
        (on(name="imagenette64"), "is not called by the hash of what it says"),
        (on(train_split="../../home"), "lies outside of its folder"),
        (block(seeds=10**30), "is no part of a suite"),
        (block(levels=[[0.5]]), "cannot be read"),
        (block(levels=[i / 2000 for i in range(1, 2000)], seeds=1000), "runs, expected 1,000,000 at most"),
        (block(fill="<img>"), "no fill '<img>'"),
    ],
)
def test_what_a_file_says_of_images_and_suites(file, text, words):
    name = "roarbench_images" if text.startswith('[{"data"') else "roarbench_suites"
    altered(file, said(), seal=True, **{name: text})
    refused(file, words)


def packed(file, row, count, **how):
    """Write this row many times, which costs next to nothing."""
    table = pa.Table.from_pylist([row], schema=pq.read_schema(file))
    pq.write_table(table.take(pa.array([0] * count)), file, **how)


@pytest.mark.parametrize(
    ("change", "count", "how", "words"),
    [
        ({}, 2, {}, "twice; nothing was added"),
        ({"bits": b"x" * 2**20}, 20, {}, "unpacked, expected 17 MB at most"),  # a few kB that ask for 20 MB
        ({"record": "x" * 2**23}, 1, {}, "a value of 8 MB in record, expected 4 MB at most"),
        ({}, 1001, {}, "1,001 rows, expected 1,000 at most"),
        ({}, 1, {"compression": "zstd"}, "is packed by ZSTD, which no export is"),
    ],
)
def test_a_file_that_asks_for_more_than_an_export(monkeypatch, file, change, count, how, words):
    monkeypatch.setattr(exported, "_ROWS", 1000)
    row = pq.read_table(file).to_pylist()[0]
    packed(file, {**row, **change}, count, **how)
    refused(file, words)


def nested(file):
    table = pq.read_table(file)
    lists = pa.array([[[1]]] * len(table))
    pq.write_table(table.set_column(2, "correct", lists), file)


def letters(file):
    table = pq.read_table(file)
    pq.write_table(table.set_column(1, "record", pa.array([b"\xff"] * len(table)).view(pa.string())), file)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (nested, "is no export, this version reads format 1"),
        (letters, "is no Parquet file"),
        (lambda file: altered(file, said(), True, roarbench_format="2"), "is format 2, this version reads format 1"),
        (lambda file: pq.write_table(pa.table({"a": [1]}), file), "is no export"),
        (lambda file: altered(file, said(seconds=1.0), False), "its checksum is not that of its values"),
        (lambda file: altered(file, said(seconds=float("nan")), False), "row 0"),
        (lambda file: file.write_bytes(file.read_bytes()[:-100]), "is no Parquet file"),
        (lambda file: file.unlink(), "cannot read"),
    ],
)
def test_other_files(file, make, words):
    make(file)
    assert words in refused(file, words)


def test_a_suite_that_is_stored_under_a_path_hides_no_other(tmp_path):
    """It may come from a store of an earlier version."""
    with ResultsStore.open(f"sqlite:///{tmp_path}/s.sqlite") as store:
        keep_suite(store.database, own())
        keep_suite(store.database, own(name="../x"))
        assert [suite.name for suite in kept_suites(store.database)] == ["photos"]
        assert export_results(store, tmp_path / "file.parquet") == 0
