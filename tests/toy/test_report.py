"""The picture of the toy."""

from toy.figure import make_chart
from toy.linear import LEVELS, ToyCurve, ToyResult


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
