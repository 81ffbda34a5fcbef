"""Results of two machines in one store: what `import` says of them, and what `table` and `validity` show."""

import json
from dataclasses import replace

import pytest

from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.store.results import ResultsStore, default_url
from roarbench.store.transfer import export_results
from tests.helpers.command_line import publish
from tests.helpers.made_up import SUITE, held

SMALL = replace(SUITE, blocks=(Block(ROAR, ("random", "sobel", "grad", "var-grad"), (0.9,), seeds=2),))
ASKED = ("--suite", SMALL.name, "--store")
UNSAID = "results without the checksum of the weights that they explain, which the other rows have"


@pytest.fixture(autouse=True)
def known(monkeypatch):
    publish(monkeypatch, SMALL)


def write_rows(folder, keep, **marks):
    """A store with those rows of the suite that are kept; what explains the reference has the marks."""
    rows = {point: row for point, row in held(SMALL).results.items() if keep(point.cell.estimator)}
    with ResultsStore.open(default_url(folder)) as store:
        store.add_all(replace(row, **(marks if row.run.reference else {})) for row in rows.values())
    return folder


def exported(folder):
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        export_results(store, folder / "file.parquet")
    return folder / "file.parquet"


def turned(row):
    """The row with one answer more, or one less."""
    last = bytearray(row.bits)
    last[0] ^= 128
    return replace(row, bits=bytes(last), correct=int.from_bytes(last, "big").bit_count())


def test_other_answers_are_counted_and_shown_and_nothing_is_replaced(call, tmp_path):
    here = write_rows(tmp_path / "here", lambda name: name != "grad", weights="a" * 64)
    rows = held(SMALL).results
    with ResultsStore.open(default_url(tmp_path / "there")) as store:
        store.add_all(turned(row) if point.cell.estimator == CLEAN else row for point, row in rows.items())
    before = call("table", *ASKED, here, "--format", "json").out
    answer = call("import", exported(tmp_path / "there"), "--store", here)
    assert answer.code == 0
    lines = answer.err.splitlines()
    words = "2 results are new, 6 are stored already, 2 are stored already with other answers and were not taken"
    assert lines[0].endswith(words)
    assert lines[1] == (
        "other answers: roar none t=0 scalar seed 1: "
        "1,798 of 2,000 correct here, 1,797 in the file, 1 differ (key afb0293f)"
    )
    after = json.loads(call("table", *ASKED, here, "--format", "json").out)
    changed = {row["estimator"]: row for row in after["rows"] if row["estimator"] != "grad"}
    assert {name: row["curve"] for name, row in changed.items()} == {
        row["estimator"]: row["curve"] for row in json.loads(before)["rows"] if row["estimator"] != "grad"
    }


def test_rows_without_the_checksum_of_the_weights_have_no_place_and_are_named_with_the_reason(call, tmp_path):
    here = write_rows(tmp_path / "here", lambda name: name != "grad", weights="a" * 64)
    file = exported(write_rows(tmp_path / "there", lambda name: name == "grad"))
    told = f"No place for grad (roar scalar): {UNSAID}; do it again in a fresh --store."
    for _ in range(2):  # whether they are new or not
        assert call("import", file, "--store", here).err.splitlines()[1:] == [f"made-up v1: {told}"]
    assert told in call("status", *ASKED, here).out
