"""The lists of suites and estimators, and numbers in words."""

import json
from io import StringIO

import pytest
from rich.console import Console

from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.plan.points import Point, describe
from roarbench.plan.runs import CLEAN, Cell
from roarbench.plan.suites import SUITES
from roarbench.report.suite_list import estimator_list, estimator_records, suite_list, suite_records
from roarbench.terms import Order, Retrain, Unit
from roarbench.text import duration


def printed(shown) -> str:
    console = Console(file=StringIO(), width=80, highlight=False, markup=False)
    console.print(shown)
    return console.file.getvalue()


# --- lists


def test_every_suite_is_listed_with_what_it_costs():
    rows = {row["suite"]: row for row in suite_records()}
    assert list(rows) == list(SUITES)
    assert json.loads(json.dumps(rows)) == rows
    planted = rows["planted"]
    assert (planted["estimators"], planted["runs"]) == (
        3,
        2 + 2 * 3 * 5 * 2,
    )  # both protocols share the untouched images
    assert planted["trainings"] == planted["runs"]  # nothing explains: there is no reference
    assert planted["images_trained"] == 62 * 8 * 1000  # trainings, epochs, images
    quick = rows["quick"]
    trained = 3 + 3 * 6 + 3 + 3  # untouched, Random and five estimators by three seeds, three controls, masks alone
    specific = 3 * (1 + 2 * 3 * 8)  # by each common network: untouched images; own and other maps, levels, rows
    assert (quick["estimators"], quick["runs"]) == (9, trained + 3 * (1 + 2 * 8) + specific)
    assert quick["trainings"] == trained + 3 + 3  # references, common networks
    assert (planted["twins"], quick["twins"]) == (0, 0)  # the blurred random map is a control


def test_the_suites_in_words():
    text = suite_list(120)
    for row in suite_records():
        assert f"{row['suite']} v{row['version']}\n  {row['about']}\n" in text
    assert "3 rankings, 62 trainings of resnet-planted, 0.5 M images" in text
    assert "9 rankings, 33 trainings of resnet-quick, 3.4 M images" in text
    narrow = suite_list(60)
    assert narrow.split() == text.split()
    names = {f"{row['suite']} v{row['version']}" for row in suite_records()}
    assert {line for line in narrow.splitlines()[:-1] if not line.startswith("  ")} == names
    assert max(map(len, narrow.splitlines()[:-1])) <= 60


def test_every_estimator_is_listed():
    rows = estimator_records()
    assert [row["estimator"] for row in rows] == list(ESTIMATORS)
    assert {row["kind"] for row in rows} == {"control", "estimator"}
    assert next(row for row in rows if row["estimator"] == "sobel")["kind"] == "control"
    text = printed(estimator_list())
    assert all(row["estimator"] in text for row in rows)
    assert "ID~untrained" in text


# --- words


@pytest.mark.parametrize(
    "order, retrain, estimator, t, unit, words",
    [
        (Order.MORF, Retrain.IMAGES, "grad", 0.9, Unit.SCALAR, "roar grad t=0.9 scalar seed 1"),
        (Order.LERF, Retrain.IMAGES, "ig", 0.1, Unit.PIXEL, "kar ig t=0.1 pixel seed 1"),
        (Order.MORF, Retrain.NONE, "random", 0.5, Unit.SCALAR, "morf random t=0.5 scalar seed 1"),
        (Order.LERF, Retrain.NONE, "random", 0.5, Unit.SCALAR, "lerf random t=0.5 scalar seed 1"),
        (Order.MORF, Retrain.MASKS, "gb", 0.5, Unit.SCALAR, "mask-only gb t=0.5 scalar seed 1"),
        (Order.MORF, Retrain.IMAGES, CLEAN, 0.0, Unit.SCALAR, "roar none t=0 scalar seed 1"),
    ],
)
def test_a_run_in_a_few_words(order, retrain, estimator, t, unit, words):
    assert describe(Point(Cell("planted", "resnet8", estimator, order, retrain, "mean", unit, t), 1)) == words


@pytest.mark.parametrize(
    "seconds, words",
    [
        (0.2, "0 s"),
        (40, "40 s"),
        (89.4, "89 s"),
        (90, "2 min"),
        (420, "7 min"),
        (5399, "90 min"),
        (12600, "3.5 h"),
        (36e6, "10,000 h"),
    ],
)
def test_seconds_in_words(seconds, words):
    assert duration(seconds) == words
