"""Import of hostile files: each is refused in one line, and the store stays empty."""

import hashlib
import json
import shutil
from dataclasses import replace
from functools import reduce
from operator import getitem
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from roarbench.common.errors import StoreError
from roarbench.common.identity import encode_canonically
from roarbench.plan.suites import read_suite
from roarbench.store import export_and_import, schema
from roarbench.store.export_and_import import (
    NOTES_CHECKSUM,
    compute_notes_checksum,
    compute_row_checksum,
    export_results,
    import_results,
)
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.user_files import store_or_replace_suite, store_submission
from roarbench.submissions.submission_file import parse_submission
from tests.helpers.image_files import write_suite
from tests.helpers.store_rows import make_result, make_run

ENTRY = parse_submission(b'NAME = "mine"\nDESCRIPTION = "x"\n')
OTHER = parse_submission(b'NAME = "other"\nDESCRIPTION = "x"\n')
MANY_LEVELS = [i / 2000 for i in range(1, 2000)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """An export of three rows of a submission, with its suite."""
    folder = tmp_path_factory.mktemp("made")
    with ResultsStore.open(make_default_url(folder)) as store:
        store_submission(store.database, ENTRY)
        store_or_replace_suite(store.database, own := read_suite(write_suite(folder)))
        runs = [make_run(estimator=ENTRY.id, seed=seed) for seed in range(3)]
        runs = [replace(run, cell=replace(run.cell, dataset=own.dataset, model=own.model)) for run in runs]
        store.add_results(map(make_result, runs))
        export_results(store, folder / "file.parquet")
    return folder / "file.parquet"


def alter_row(change=lambda row: None, sealed=True, **metadata):
    """Return a function that changes the first row or the file's metadata, with matching checksums if sealed."""

    def spoil(path):
        table = pq.read_table(path)
        rows = table.to_pylist()
        change(rows[0])
        if sealed:
            rows[0]["sha256"] = compute_row_checksum({k: v for k, v in rows[0].items() if k != "sha256"})
        about = {**table.schema.metadata, **{name.encode(): value.encode() for name, value in metadata.items()}}
        if sealed:
            about[NOTES_CHECKSUM] = compute_notes_checksum(about)
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema.with_metadata(about)), path)

    return spoil


def set_row(sealed=True, **values):
    return alter_row(lambda row: row.update(values), sealed)


def change_record(cell=None, **changes):
    """Return a function that changes the run of a row, with a matching key."""

    def change(row):
        record = json.loads(row["record"])
        row["record"] = encode_canonically({**record, **changes, "cell": {**record["cell"], **(cell or {})}})
        row["key"] = hashlib.sha256(row["record"].encode()).hexdigest()[:32]

    return alter_row(change)


def change_image_source(**changes):
    values = {"data": "1", "dataset": "photos", "limit": None, "kind": "local", "folder": "photos"}
    return alter_row(roarbench_images=encode_canonically([{**values, **changes}]))


def change_suite(*place, **changes):
    """Return a function that changes the suite in the file, or one place in the suite."""

    def spoil(path):
        records = json.loads(pq.read_schema(path).metadata[b"roarbench_suites"])
        reduce(getitem, place, records[0]).update(changes)
        alter_row(roarbench_suites=encode_canonically(records))(path)

    return spoil


def hash_masks(text):
    """Return a function that gives the first row these hashes of masks."""

    def spoil(path):
        key = pq.read_table(path)["key"][0].as_py()
        alter_row(roarbench_remarks=encode_canonically({f"masks {key}": text}))(path)

    return spoil


def repeat_row(count, compression="snappy", **values):
    """Return a function that writes one row many times, in a file of a few kB."""

    def spoil(path):
        table = pa.Table.from_pylist([pq.read_table(path).to_pylist()[0] | values], schema=pq.read_schema(path))
        pq.write_table(table.take(pa.array([0] * count)), path, compression=compression)

    return spoil


def replace_column(name, values):
    def spoil(path):
        table = pq.read_table(path)
        pq.write_table(table.set_column(table.column_names.index(name), name, values), path)

    return spoil


def test_import_leaves_out_hashes_of_masks_of_runs_that_the_file_lacks(made, second, tmp_path):
    file = Path(shutil.copy(made, tmp_path))
    alter_row(roarbench_remarks=encode_canonically({"masks 0123": "AAAA", "kept 7a4c": 0.5}))(file)
    assert len(import_results(second, file).new) == 3
    assert [row.key for row in second.database.read(select(schema.remarks))] == ["kept 7a4c"]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (set_row(correct=1), "which contradicts the bits"),
        (set_row(source=OTHER.source), f"the source belongs to {OTHER.id}, not to {ENTRY.id}"),
        (set_row(source=b"#" * 2**19), "more than 256 KiB"),
        (set_row(hardware='{"cpu": [[1]]}'), "hardware is [[1]], expected one line"),
        (set_row(versions='{"torch": "2\\u001b[31m"}'), "versions is '2\\x1b[31m', expected one line of at most 1000"),
        (set_row(created="0001-01-01T00:00:00+00:00"), "expected a time with a time zone, in the years 2000 to 2199"),
        (set_row(sealed=False, seconds=1.0), "its checksum does not match its values"),
        (
            alter_row(sealed=False, roarbench_remarks='{"kept 7a4c": 0.5}'),
            "its notes cannot be read: their checksum does not match their values",
        ),
        (set_row(probability=np.full(1001, np.nan, "<f4").tobytes()), "a probability that is not between 0 and 1"),
        (set_row(probability=np.full(1001, 1.25, "<f4").tobytes()), "a probability that is not between 0 and 1"),
        (set_row(seconds=-0.5), "seconds is -0.5, expected 0 or more"),
        (set_row(loss=-0.5), "loss is -0.5, expected 0 or more"),
        (set_row(smoothness=-0.5), "smoothness is -0.5, expected 0 or more"),
        (hash_masks("AAAA"), "it has 1001 images, but 1.5 hashes of masks"),
        (hash_masks("A==="), "row 0: "),
        (change_record(seed=10**30), "seed is 1000000000000000000000000000000, expected a whole number"),
        (change_record({"dataset": "../../../etc"}), "dataset is '../../../etc', expected a name"),
        (change_record({"t": 1e300}), "level t must be in [0, 1]"),
        (change_record({"estimator": "../x@0123abcd"}), "no estimator"),
        (change_image_source(limit=True), "limit is True, expected a whole number"),
        (change_image_source(folder="../../a"), "expected a name without '/'"),
        (alter_row(roarbench_suites="[" * 10**5), "cannot be read"),
        (alter_row(roarbench_remarks='{"masks 0123": "<img>"}'), "'masks 0123' is not a valid annotation"),
        (alter_row(roarbench_remarks='{"passes 0123": [1, 2, 3]}'), "'passes 0123' is not a valid annotation"),
        (change_suite(name="a/b"), "name is 'a/b', expected a name"),
        (change_suite(model="net.build@01234567", source="#"), "does not end in the hash of the network's file"),
        (change_suite(dataset="no such set"), "no data set"),
        (change_suite(left_out={"grad": "\x07"}), "left_out is '\\x07', expected one line"),
        (change_suite("dataset", name="../../../tmp/x"), "name is '../../../tmp/x', expected a name"),
        (change_suite("dataset", name="imagenette64"), "does not end in the hash of its record"),
        (change_suite("dataset", train_split="../../home"), "must be relative paths inside its folder"),
        (change_suite("dataset", mean=[0.5], std=[0.5]), "expected 3 numbers each, with std above 0"),
        (change_suite("blocks", 0, estimators=["../x"]), "no estimator '../x'"),
        (change_suite("blocks", 0, seeds=10**30), "is not a valid block of a suite"),
        (change_suite("blocks", 0, levels=MANY_LEVELS, seeds=1000), "runs, expected at most 1,000,000"),
        (change_suite("blocks", 0, fill="<img>"), "no fill '<img>'"),
        (repeat_row(2), "twice, so nothing was added"),
        (repeat_row(20, bits=b"x" * 2**20), "of unpacked data, expected at most 17 MB"),  # a few kB that ask for 20 MB
        (repeat_row(1, record="x" * 2**23), "a value of 8 MB in record, expected at most 4 MB"),
        (repeat_row(1001), "1,001 rows, expected at most 1,000"),
        (repeat_row(1, "zstd"), "is packed with ZSTD, which exports never use"),
        (replace_column("correct", pa.array([[[1]]] * 3)), "is not an export; export the results again"),
        (replace_column("record", pa.array([b"\xff"] * 3).view(pa.string())), "is not a Parquet file"),
        (alter_row(roarbench_format="2"), "has format 2, but this version reads format 1"),
        (lambda path: pq.write_table(pa.table({"a": [1]}), path), "is not an export"),
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "is not a Parquet file"),
        (Path.unlink, "cannot read"),
    ],
)
def test_import_rejects_altered_file_and_adds_nothing(made, second, tmp_path, monkeypatch, spoil, words):
    monkeypatch.setattr(export_and_import, "_MAX_ROWS", 1000)
    file = Path(shutil.copy(made, tmp_path))
    spoil(file)
    with pytest.raises(StoreError) as found:
        import_results(second, file)
    said = str(found.value)
    assert words in said and len(said) < 600 and said.isprintable()
    with second.database.begin_read() as connection:
        tables = (schema.results, schema.imports, schema.entries, schema.suites, schema.images)
        assert [connection.scalar(select(func.count()).select_from(table)) for table in tables] == [0] * 5
