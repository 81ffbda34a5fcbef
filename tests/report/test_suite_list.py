"""The lists of suites and estimators, and numbers in words."""

import json

from roarbench.plan.points import Point, describe
from roarbench.plan.runs import CLEAN, Cell
from roarbench.plan.suites import SUITES
from roarbench.report.suite_list import suite_list, suite_records
from roarbench.terms import Order, Retrain, Unit
from roarbench.text import duration


def test_every_suite_is_listed_with_what_it_costs():
    rows = {row["suite"]: row for row in suite_records()}
    assert list(rows) == list(SUITES)
    assert json.loads(json.dumps(rows)) == rows
    planted = rows["planted"]
    assert (planted["estimators"], planted["runs"]) == (
        3,
        2 + 2 * 3 * 5 * 2,
    )  # both protocols share the untouched images
    assert planted["images_trained"] == 62 * 8 * 1000  # trainings, epochs, images
    quick = rows["quick"]
    trained = 3 + 3 * 6 + 3 + 5  # untouched, Random and five estimators by three seeds, three controls, masks alone
    matched = 3 * (1 + 2 * 3 * 13)  # by each common network: untouched images; own and matched masks, levels, rows
    assert (quick["estimators"], quick["runs"]) == (14, trained + 3 * (1 + 2 * 13) + matched)
    assert quick["trainings"] == trained + 3 + 3  # references, common networks


def test_the_suites_in_words():
    text = suite_list(120)
    for row in suite_records():
        assert f"{row['suite']} v{row['version']}\n  {row['about']}\n" in text
    assert "14 rankings, 35 trainings of resnet-quick, 3.7 M images" in text
    narrow = suite_list(60)
    assert narrow.split() == text.split()
    assert max(map(len, narrow.splitlines()[:-1])) <= 60


def test_a_run_in_a_few_words():
    for order, retrain, estimator, t, unit, words in (
        (Order.MORF, Retrain.IMAGES, "grad", 0.9, Unit.SCALAR, "roar grad t=0.9 scalar seed 1"),
        (Order.LERF, Retrain.IMAGES, "ig", 0.1, Unit.PIXEL, "kar ig t=0.1 pixel seed 1"),
        (Order.LERF, Retrain.NONE, "random", 0.5, Unit.SCALAR, "lerf random t=0.5 scalar seed 1"),
        (Order.MORF, Retrain.MASKS, "gb", 0.5, Unit.SCALAR, "mask-only gb t=0.5 scalar seed 1"),
        (Order.MORF, Retrain.IMAGES, CLEAN, 0.0, Unit.SCALAR, "roar none t=0 scalar seed 1"),
    ):
        assert describe(Point(Cell("planted", "resnet8", estimator, order, retrain, "mean", unit, t), 1)) == words


def test_seconds_in_words():
    spoken = {0.2: "0 s", 89.4: "89 s", 90: "2 min", 5399: "90 min", 12600: "3.5 h", 36e6: "10,000 h"}
    assert {seconds: duration(seconds) for seconds in spoken} == spoken
