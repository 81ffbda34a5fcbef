"""The lists of suites and estimators, and numbers in words."""

import json

import pytest

from roarbench.plan.suites import SUITES
from roarbench.report.suite_list import suite_records
from roarbench.text import duration


@pytest.mark.slow
def test_every_suite_is_listed_with_what_it_costs():
    rows = {row["suite"]: row for row in suite_records()}
    assert list(rows) == list(SUITES)
    assert json.loads(json.dumps(rows)) == rows
    planted = rows["planted"]
    assert (planted["estimators"], planted["runs"]) == (3, 2 + 2 * 3 * 5 * 2)  # untouched images are shared
    assert planted["images_trained"] == 62 * 8 * 1000  # trainings, epochs, images
    quick = rows["quick"]
    trained = 3 + 3 * 6 + 3 + 5  # untouched, Random and five estimators by three seeds, three controls, masks alone
    matched = 3 * (1 + 2 * 3 * 19)  # by each common network: untouched images; own and matched masks, levels, rows
    assert (quick["estimators"], quick["runs"]) == (20, trained + 3 * (1 + 2 * 14) + matched)
    assert quick["trainings"] == trained + 3 + 3  # references, common networks


def test_seconds_in_words():
    spoken = {0.2: "0 s", 89.4: "89 s", 90: "2 min", 5399: "90 min", 12600: "3.5 h", 36e6: "10,000 h"}
    assert {seconds: duration(seconds) for seconds in spoken} == spoken
