"""Figure 2 of the paper: the toy's accuracies with and without retraining."""

from roarbench.report.figures import Axis, Chart
from roarbench.report.panels import Curve
from toy.linear import FEATURES, INFORMATIVE, ToyCurve, ToyResult


def make_chart(result: ToyResult) -> Chart:
    """Make two panels, as in the paper: without retraining, and with; the band is two standard errors each side."""
    caption = (
        f"{FEATURES} features, {INFORMATIVE} informative, least squares. Mean of {result.draws} draws, seed "
        f"{result.seed}, {result.train} training and {result.test} test examples each. "
        "Removed features hold their training mean."
    )
    if result.draws > 1:
        caption += " Bands: two standard errors to each side."
    ordered = sorted(result.curves, key=lambda curve: curve.retrain)
    curves = tuple(_as_curve(result, curve) for curve in ordered)
    return Chart("Does removing features find the informative ones?", caption, Axis.REMOVED, curves)


def _as_curve(result: ToyResult, curve: ToyCurve) -> Curve:
    panel = "with retraining (ROAR)" if curve.retrain else "without retraining"
    low: tuple[float | None, ...] = (None,) * len(result.levels)
    high = low
    if curve.error is not None:
        low = tuple(mean - 2 * error for mean, error in zip(curve.accuracy, curve.error, strict=True))
        high = tuple(mean + 2 * error for mean, error in zip(curve.accuracy, curve.error, strict=True))
    return Curve(curve.ranking, panel, False, result.levels, curve.accuracy, low, high)
