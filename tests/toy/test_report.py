"""The toy's numbers as text and JSON, and its picture."""

import pytest
from PIL import Image

from toy.figure import draw, make_chart
from toy.linear import LEVELS, ToyCurve, ToyResult, experiment
from toy.report import to_text


def test_text_by_hand():
    curves = (ToyCurve("true", True, (0.8, 0.5), (0.01, 0.002)), ToyCurve("inverted", False, (0.8, 0.5), (0.01, 0.0)))
    text = to_text(ToyResult(7, 3, 10, 10, (0.0, 1.0), curves))
    assert text.splitlines() == [
        "Test accuracy in percent, mean of 3 draws +- its standard error; seed 7",
        "ranking           true       inverted",
        "      t      retrained  not retrained",
        " 0.0000    80.0 +- 1.0    80.0 +- 1.0",
        " 1.0000    50.0 +- 0.2    50.0 +- 0.0",
    ]


def test_chart_shows_the_numbers_with_two_standard_errors():
    accuracy, error = (0.875, *[0.5] * 16), (0.0625, *[0.25] * 16)
    curves = tuple(ToyCurve("true", retrain, accuracy, error) for retrain in (True, False))
    chart = make_chart(ToyResult(7, 3, 10, 10, LEVELS, curves))
    assert [(curve.family, curve.estimator) for curve in chart.curves] == [
        ("without retraining", "true"),
        ("with retraining (ROAR)", "true"),
    ]
    shown = chart.curves[1]
    assert (shown.levels, shown.accuracy) == (LEVELS, accuracy)
    assert (shown.low[0], shown.high[0], shown.low[5], shown.high[5]) == (0.75, 1.0, 0.0, 1.0)
    assert "seed 7" in chart.caption and "3 draws" in chart.caption


@pytest.mark.slow
def test_picture_opens(tmp_path):
    draw(experiment(0, 2), tmp_path / "toy.png")
    with Image.open(tmp_path / "toy.png") as image:
        image.load()
        assert image.width > 1000
