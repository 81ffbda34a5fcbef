"""Files that a stranger made to be imported: each is refused in one line, and nothing of it is kept."""

import hashlib
import json
import shutil
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from roarbench.common.errors import StoreError
from roarbench.common.identity import encode_canonically
from roarbench.plan.read_suite_file import read_suite
from roarbench.store import schema, transfer
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.submissions_and_annotations import store_submission
from roarbench.store.transfer import export_results, import_results
from roarbench.store.user_suites import read_suites, store_suite
from roarbench.submissions.file import parse_submission
from tests.helpers.own_photos import write_suite
from tests.helpers.store_rows import make_result, make_run

ENTRY = parse_submission(b'NAME = "mine"\nDESCRIPTION = "x"\n')
OTHER = parse_submission(b'NAME = "other"\nDESCRIPTION = "x"\n')


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """What `export` wrote of three rows of a submission and a suite."""
    folder = tmp_path_factory.mktemp("made")
    with ResultsStore.open(make_default_url(folder)) as store:
        store_submission(store.database, ENTRY)
        store_suite(store.database, own := read_suite(write_suite(folder)))
        runs = [make_run(estimator=ENTRY.id, seed=seed) for seed in range(3)]
        runs = [replace(run, cell=replace(run.cell, dataset=own.dataset, model=own.model)) for run in runs]
        store.add_results(map(make_result, runs))
        export_results(store, folder / "file.parquet")
    return folder / "file.parquet"


def altered(change=lambda row: None, sealed=True, **metadata):
    """Change the first row, with a checksum that fits if it is sealed again, or what the file says of itself."""

    def spoil(path):
        table = pq.read_table(path)
        rows = table.to_pylist()
        change(rows[0])
        if sealed:
            rows[0]["sha256"] = transfer._compute_row_checksum({k: v for k, v in rows[0].items() if k != "sha256"})
        about = {**table.schema.metadata, **{name.encode(): value.encode() for name, value in metadata.items()}}
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema.with_metadata(about)), path)

    return spoil


def row(sealed=True, **values):
    return altered(lambda row: row.update(values), sealed)


def recorded(cell=None, **changes):
    """Change what a row says of its run, with a key that fits."""

    def change(row):
        record = json.loads(row["record"])
        row["record"] = encode_canonically({**record, **changes, "cell": {**record["cell"], **(cell or {})}})
        row["key"] = hashlib.sha256(row["record"].encode()).hexdigest()[:32]

    return altered(change)


def note(**changes):
    values = {"data": "1", "dataset": "photos", "limit": None, "kind": "local", "folder": "photos"}
    return altered(roarbench_images=encode_canonically([{**values, **changes}]))


def suite(*place, **changes):
    """Change what the file says of its suite, or of this place in it."""

    def spoil(path):
        records = json.loads(pq.read_schema(path).metadata[b"roarbench_suites"])
        reduce(getitem, place, records[0]).update(changes)
        altered(roarbench_suites=encode_canonically(records))(path)

    return spoil


def packed(count, compression="snappy", **values):
    """Write one row many times, which costs next to nothing."""

    def spoil(path):
        table = pa.Table.from_pylist([pq.read_table(path).to_pylist()[0] | values], schema=pq.read_schema(path))
        pq.write_table(table.take(pa.array([0] * count)), path, compression=compression)

    return spoil


def column(name, values):
    def spoil(path):
        table = pq.read_table(path)
        pq.write_table(table.set_column(table.column_names.index(name), name, values), path)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (row(correct=1), "which contradicts the bits"),
        (row(record=None), "row 0"),
        (row(source=OTHER.source), f"the source belongs to {OTHER.id}, not to {ENTRY.id}"),
        (row(source=b"#" * 2**19), "the file has 512 KiB, expected at most 256 KiB; remove embedded data"),
        (row(hardware='{"cpu": [[1]]}'), "hardware is [[1]], expected one line"),
        (row(versions='{"torch": "2\\u001b[31m"}'), "versions is '2\\x1b[31m', expected one line of at most 1000"),
        (row(rankings=None), "rankings is None, expected one line"),
        (row(created="0001-01-01T00:00:00+00:00"), "expected a time with a time zone, in the years 2000 to 2199"),
        (row(sealed=False, seconds=1.0), "its checksum does not match its values"),
        (row(sealed=False, seconds=float("nan")), "row 0"),
        (recorded(seed=10**30), "seed is 1000000000000000000000000000000, expected a whole number"),
        (recorded(seed=-1), "seed is -1, expected a whole number from 0"),
        (recorded({"dataset": "../../../etc"}), "dataset is '../../../etc', expected a name"),
        (recorded({"model": "![](http://x/y.png)"}), "model is '![](http://x/y.png)', expected a name"),
        (recorded({"t": 1e300}), "level t must be in [0, 1]"),
        (recorded({"unit": "\x1b[2J"}), "is not a valid Unit"),
        (recorded({"estimator": "../x@0123abcd"}), "no estimator"),
        (note(limit=True), "limit is True, expected a whole number"),
        (note(folder="../../a"), "expected a name without '/'"),
        (altered(roarbench_suites="[" * 10**5), "cannot be read"),
        (suite(name="a/b"), "name is 'a/b', expected a name"),
        (suite(model="net.build@01234567", source="#"), "does not end in the hash of its file"),
        (suite(references=10**30), "expected 1 to 1000"),
        (suite(dataset="no such set"), "no data set"),
        (suite(left_out={"grad": "\x07"}), "left_out is '\\x07', expected one line"),
        (suite("dataset", name="../../../tmp/x"), "name is '../../../tmp/x', expected a name"),
        (suite("dataset", name="imagenette64"), "does not end in the hash of its record"),
        (suite("dataset", train_split="../../home"), "must be relative paths inside its folder"),
        (suite("blocks", 0, seeds=10**30), "is not a valid block of a suite"),
        (suite("blocks", 0, levels=[[0.5]]), "cannot be read"),
        (suite("blocks", 0, levels=[i / 2000 for i in range(1, 2000)], seeds=1000), "runs, expected at most 1,000,000"),
        (suite("blocks", 0, fill="<img>"), "no fill '<img>'"),
        (packed(2), "twice, so nothing was added"),
        (packed(20, bits=b"x" * 2**20), "of unpacked data, expected at most 17 MB"),  # a few kB that ask for 20 MB
        (packed(1, record="x" * 2**23), "a value of 8 MB in record, expected at most 4 MB"),
        (packed(1001), "1,001 rows, expected at most 1,000"),
        (packed(1, "zstd"), "is packed with ZSTD, which exports never use"),
        (column("correct", pa.array([[[1]]] * 3)), "is not an export; export the results again"),
        (column("record", pa.array([b"\xff"] * 3).view(pa.string())), "is not a Parquet file"),
        (altered(roarbench_format="2"), "has format 2, but this version reads format 1"),
        (lambda path: pq.write_table(pa.table({"a": [1]}), path), "is not an export"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is not a Parquet file"),
        (lambda path: path.write_bytes(b""), "is not a Parquet file"),
        (Path.unlink, "cannot read"),
    ],
)
def test_a_file_is_refused_with_all_that_it_holds(made, tmp_path, monkeypatch, spoil, words):
    monkeypatch.setattr(transfer, "_ROWS", 1000)
    file = Path(shutil.copy(made, tmp_path))
    spoil(file)
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        with pytest.raises(StoreError) as found:
            import_results(store, file)
        said = str(found.value)
        with pytest.raises(StoreError) as alone:
            transfer.check_exports([file])
        assert str(alone.value) == said
        assert words in said and len(said) < 600 and said.isprintable()
        with store.database.begin_read() as connection:
            tables = (schema.results, schema.imports, schema.entries, schema.suites, schema.images)
            assert [connection.scalar(select(func.count()).select_from(table)) for table in tables] == [0] * 5


def test_a_suite_that_is_stored_under_a_path_hides_no_other(second, tmp_path):
    """It may come from a store of an earlier version."""
    own = read_suite(write_suite(tmp_path))
    for each in (own, replace(own, name="../x")):
        store_suite(second.database, each)
    assert read_suites(second.database) == [own]
    assert export_results(second, tmp_path / "file.parquet") == 0
