"""The listing of all rows for a spreadsheet: what is in a line, and that it says what docs/words.md says."""

import csv
import json
import re
from dataclasses import replace
from pathlib import Path

from roarbench.store.listing import list_results
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.store_rows import make_result, make_run

WORDS = Path(__file__).parents[2] / "docs" / "words.md"


def test_a_line_holds_a_run_and_its_outcome_in_columns_that_are_explained(tmp_path):
    """One row is of a submission whose name begins like a formula."""
    result, other = make_result(make_run()), make_result(replace(make_run(estimator="-1@0123abcd"), limit=40))
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add_all([replace(result, loss=None), other])
        assert list_results(store, tmp_path / "all.csv") == 2
    with (tmp_path / "all.csv").open(encoding="utf-8", newline="") as file:
        lines = {line["key"]: line for line in csv.DictReader(file)}
    first, second = lines[result.run.key], lines[other.run.key]
    assert (first["dataset"], first["t"], first["retrain"], first["limit"]) == ("planted", "0.9", "masks", "")
    assert (first["correct"], first["total"]) == (str(result.correct), "1001")
    assert float(first["accuracy"]) == result.correct / 1001
    assert (first["loss"], float(second["loss"])) == ("", 0.1 + 0.2)
    assert (second["limit"], first["origin"]) == ("40", "verified")
    assert json.loads(first["hardware"]) == {"cpu": "some", "cores": 2}
    assert second["estimator"] == "'-1@0123abcd", "no formula"
    section = WORDS.read_text("utf-8").partition("## Columns of")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert set(re.findall(r"`(\w+)`", "".join(rows))) == set(first)
