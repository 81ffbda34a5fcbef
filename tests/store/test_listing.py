"""The listing of all rows for a spreadsheet: what is in a line, and that it says what docs/words.md says."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from roarbench.errors import CallerError, StoreError
from roarbench.store.listing import list_results
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.store_rows import make_result, make_run

WORDS = Path(__file__).parents[2] / "docs" / "words.md"


@pytest.fixture
def listed(tmp_path):
    """The lines of a store of two rows, one of a submission whose name begins like a formula."""
    results = [make_result(make_run()), make_result(replace(make_run(estimator="-1@0123abcd"), limit=40))]
    path = tmp_path / "all.csv"
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add_all([replace(results[0], loss=None), results[1]])
        assert list_results(store, path) == 2
    with path.open(encoding="utf-8", newline="") as file:
        lines = {line["key"]: line for line in csv.DictReader(file)}
    return [lines[result.run.key] for result in results], results


def test_a_line_holds_a_run_and_its_outcome(listed):
    (first, second), (result, _) = listed
    assert (first["dataset"], first["t"], first["retrain"], first["limit"]) == ("planted", "0.9", "masks", "")
    assert (first["correct"], first["total"]) == (str(result.correct), "1001")
    assert float(first["accuracy"]) == result.correct / 1001
    assert (first["loss"], float(second["loss"])) == ("", 0.1 + 0.2)
    assert (second["limit"], first["origin"]) == ("40", "verified")
    assert json.loads(first["hardware"]) == {"cpu": "some", "cores": 2}
    assert not {"bits", "probability", "record", "source"} & set(first)
    assert second["estimator"] == "'-1@0123abcd", "no formula"


def test_every_column_is_explained(listed):
    section = WORDS.read_text("utf-8").partition("## Columns of")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert re.findall(r"`(\w+)`", "".join(rows)) != []
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == set(listed[0][0])


def test_nothing_is_written_over(tmp_path):
    (tmp_path / "all.csv").write_text("mine")
    with ResultsStore.open(default_url(tmp_path)) as store:
        with pytest.raises(CallerError, match="is there already; name a new file"):
            list_results(store, tmp_path / "all.csv")
        with pytest.raises(StoreError, match="cannot write .*: there is no folder "):
            list_results(store, tmp_path / "nowhere" / "all.csv")
    assert (tmp_path / "all.csv").read_text() == "mine"
