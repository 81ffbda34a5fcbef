"""Format the accuracies with and without retraining as text, and as a chart like figure 2 of the paper."""

from roarbench.report.curve_panels import Chart, PanelCurve, XLabel
from roarbench.stats.intervals import Estimate
from toy.linear import FEATURES, INFORMATIVE, ToyCurve, ToyResult

COLUMN = 15  # width of a column, in characters


def format_text(result: ToyResult) -> str:
    """Format a table of mean accuracies in percent with their standard errors: a row per level, a column per curve."""
    headings = ["retrained" if curve.retrain else "not retrained" for curve in result.curves]
    lines = [
        f"Test accuracy in percent, mean of {result.draws} draws +- its standard error; seed {result.seed}",
        _format_row("ranking", [curve.ranking for curve in result.curves]),
        _format_row("t", headings),
    ]
    lines += [
        _format_row(f"{t:.4f}", [_format_cell(curve, k) for curve in result.curves])
        for k, t in enumerate(result.levels)
    ]
    return "\n".join(lines)


def _format_row(first: str, cells: list[str]) -> str:
    return f"{first:>7}" + "".join(cell.rjust(COLUMN) for cell in cells)


def _format_cell(curve: ToyCurve, k: int) -> str:
    return f"{100 * curve.accuracy[k]:.1f} +- {100 * curve.error[k]:.1f}"


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
