"""Format the accuracies with and without retraining as a table, and as a chart like figure 2 of the paper."""

from roarbench.report.curve_panels import Chart, PanelCurve, XLabel
from roarbench.report.table_record import ROW_KEY, Table, make_column
from roarbench.stats.intervals import Estimate
from toy.linear import FEATURES, INFORMATIVE, ToyCurve, ToyResult


def make_table(result: ToyResult) -> Table:
    """Make a table of mean accuracies in percent: a row per level, a column per curve."""
    columns = [make_column(ROW_KEY, result.levels, "removed", form=lambda t: f"{100 * t:.2f}%")]
    for curve in result.curves:
        heading = f"{curve.ranking}\n{'' if curve.retrain else 'not '}\nretrained"
        columns.append(make_column("accuracy", curve.accuracy, heading, form=lambda mean: f"{100 * mean:.1f}"))
    largest = 100 * max(error for curve in result.curves for error in curve.error)
    title = f"Test accuracy in percent, mean of {result.draws} draws; seed {result.seed}"
    return Table(title, tuple(columns), (f"Standard errors are at most {largest:.1f} points.",))


def make_chart(result: ToyResult) -> Chart:
    """Make a chart with two panels, as in the paper: without retraining, and with retraining."""
    caption = (
        f"{FEATURES} features, {INFORMATIVE} informative, least squares. Mean of {result.draws} draws, seed "
        f"{result.seed}, {result.train} training and {result.test} test examples each. "
        "Removed features hold their training mean. Bands: two standard errors to each side."
    )
    ordered = sorted(result.curves, key=lambda curve: curve.retrain)
    curves = tuple(_make_plot_curve(curve, result.levels) for curve in ordered)
    return Chart("Does removing features find the informative ones?", caption, XLabel.REMOVED, curves)


def _make_plot_curve(curve: ToyCurve, levels: tuple[float, ...]) -> PanelCurve:
    panel = "with retraining (ROAR)" if curve.retrain else "without retraining"
    measured = zip(levels, curve.accuracy, curve.error, strict=True)
    points = {t: Estimate(mean, mean - 2 * error, mean + 2 * error) for t, mean, error in measured}
    return PanelCurve(curve.ranking, panel, False, points)
