"""The toy experiment's curves as the pages' own records."""

from functools import cache

from leaderboard.curves import CurvePoint, CurveTable
from toy.linear import FEATURES, INFORMATIVE, ToyCurve, ToyResult, experiment


@cache
def toy_tables() -> tuple[CurveTable, ...]:
    """Without retraining, then with: mean accuracies of three rankings, bands two standard errors to each side."""
    result = experiment()
    return tuple(_table(result, retrain) for retrain in (False, True))


def _table(result: ToyResult, retrain: bool) -> CurveTable:
    kind = "with retraining" if retrain else "without retraining"
    points = [point for curve in result.curves if curve.retrain == retrain for point in _points(result, curve)]
    caption = (
        f"The toy {kind}: {FEATURES} features, {INFORMATIVE} of them informative; mean test accuracy of "
        f"{result.draws} draws, seed {result.seed}. Bands: two standard errors to each side."
    )
    return CurveTable(f"Toy, {kind}", "roar" if retrain else "morf", False, caption, tuple(points))


def _points(result: ToyResult, curve: ToyCurve) -> list[CurvePoint]:
    errors = curve.error or (0.0,) * len(curve.accuracy)
    return [
        CurvePoint(curve.ranking, False, "measured", t, mean, mean - 2 * error, mean + 2 * error)
        for t, mean, error in zip(result.levels, curve.accuracy, errors, strict=True)
    ]
