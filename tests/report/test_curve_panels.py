"""Charts of a board, and their figures and files."""

import itertools
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from roarbench.common.enums import Order
from roarbench.common.errors import CallerError
from roarbench.report.curve_panels import (
    ACCURACY,
    Chart,
    PanelCurve,
    XLabel,
    make_figure,
    save_figure,
    spread_label_positions,
)
from roarbench.report.paper_claims import read_published_curves
from roarbench.report.suite_charts import make_chart
from roarbench.stats.intervals import Estimate
from tests.helpers.made_up_results import LEVELS, MAIN, make_suite_results, make_table
from tests.helpers.store_rows import remove_rows


@pytest.fixture(scope="module")
def whole():
    return make_suite_results()


def test_make_chart_draws_each_row_from_untouched_images(whole):
    table = make_table(whole, rows=["random", "grad"])
    for row, curve in zip(table.board.rows, make_chart(table).curves, strict=True):
        assert (curve.estimator, tuple(curve.points)) == (row.estimator, (0.0, *LEVELS))
        assert list(curve.points.values()) == [row.clean, *row.accuracies]
    part = remove_rows(remove_rows(whole, t=0.9), estimator="grad")
    curves = {curve.estimator: curve for curve in make_chart(make_table(part)).curves}
    assert "grad" not in curves and list(curves["random"].points.values())[-1] == Estimate()


def test_make_chart_adds_published_curves_of_shown_rows(whole):
    found = {curve.estimator: curve for curve in make_chart(make_table(whole, "kar", MAIN), "imagenet").published}
    published = read_published_curves("imagenet", Order.LERF)
    assert set(found) == set(MAIN) & set(published)
    assert {t: at.value for t, at in found["grad"].points.items()} == published["grad"]
    with pytest.raises(CallerError, match="this plot shows .* under morf, but .*; leave --published out"):
        make_chart(make_table(whole, "morf"), "imagenet")


T = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)


def make_curve(estimator, family="", *, control=False, end=0.4, levels=T, missing=(), band=True):
    points = {}
    for k, t in enumerate(levels):
        value = 0.8 - (0.8 - end) * t / 0.9
        whole = Estimate(value, value - 0.01, value + 0.02) if band else Estimate(value)
        points[t] = Estimate() if k in missing else whole
    return PanelCurve(estimator, family or estimator, control, points)


def list_values(curve):
    return tuple(at.value for at in curve.points.values())


def make_chart_of(*curves, title="one", caption="Three seeds.", **more):
    return Chart(title, caption, XLabel.REMOVED, curves, **more)


def make_full_chart():
    """Make a chart of three panels whose first has more names than fit beside the usual height."""
    controls = (make_curve("random", control=True, end=0.5), make_curve("sobel", control=True, end=0.501))
    names = {base: (base, f"sg-{base}", f"sgsq-{base}", f"var-{base}") for base in ("grad", "gb", "ig")}
    rest = [make_curve(name, base, end=0.5 + k / 1000) for base, each in names.items() for k, name in enumerate(each)]
    kinds = ("", "~blurred", "~untrained", "~other-target")
    twins = [make_curve(f"{name}-sq{kind}", "grad", end=0.5) for name in names["grad"] for kind in kinds]
    return make_chart_of(*controls, *rest, *twins, title="big v1 · ROAR " * 9, caption="Five seeds. " * 30)


def find_lines_by_label(axes):
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_make_figure_draws_bands_with_gaps_for_missing_points():
    whole = make_curve("grad")
    (axes,) = make_figure(make_chart_of(whole)).axes
    corners = {tuple(point) for point in axes.collections[0].get_paths()[0].vertices}
    for t, (_, low, high) in whole.points.items():
        assert {(t, low), (t, high)} <= corners
    (axes,) = make_figure(make_chart_of(make_curve("grad", missing=(2,)))).axes
    assert np.flatnonzero(np.isnan(find_lines_by_label(axes)["grad"].get_ydata())).tolist() == [2]
    assert axes.get_ylim()[0] > 0.3  # a missing point drawn as 0 would lower the limit
    assert len(axes.collections[0].get_paths()) == 2  # the band has two parts
    with pytest.raises(CallerError, match="nothing to draw"):
        make_figure(make_chart_of(make_curve("grad", missing=range(6))))
    assert len(make_figure(make_chart_of(make_curve("grad"), make_curve("ig", missing=range(6)))).axes) == 1
    (axes,) = make_figure(make_chart_of(make_curve("search"))).axes
    assert [text.get_text() for text in axes.texts] == ["search(passes=32)"]  # as in tables


def test_ticks_of_gains_have_signs_except_zero():
    for label, shown in (("gain, points", ["0", "+0.5", "−5"]), (ACCURACY, ["0 %", "0.5 %", "−5 %"])):
        (axes,) = make_figure(replace(make_chart_of(make_curve("grad")), y_label=label)).axes
        assert [axes.yaxis.get_major_formatter()(value, 0) for value in (0.0, 0.005, -0.05)] == shown


def test_long_name_widens_only_its_column():
    long = f"{'long-name-' * 4}@0123abcd(samples=2)"
    charts = [make_chart_of(*(make_curve(name, name) for name in ("grad", "gb", last))) for last in ("ig", long)]
    lefts = [
        [axes.get_position().x0 * figure.get_figwidth() for axes in figure.axes] for figure in map(make_figure, charts)
    ]
    assert lefts[0] == pytest.approx(lefts[1])


@pytest.mark.slow
def test_figure_texts_do_not_overlap():
    figure = make_figure(make_full_chart())
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    texts = list(figure.texts)
    for axes in figure.axes:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label, axes._left_title]
        texts += axes.get_xticklabels()
        low, high = axes.get_ylim()  # a tick beyond the limits is not drawn
        texts += [tick.label1 for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    # a label's box has its ascenders and descenders: 1 pixel of the 100 per inch is anti-aliasing
    shown = [text for text in texts if text.get_text() and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent(renderer).padded(-1)) for text in shown]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), f"'{one}' overlaps '{other}'"
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0, text
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text


def test_published_curves_are_dashed_in_color_of_measured_curve():
    measured = make_curve("grad")
    published = (make_curve("grad", end=0.2, levels=T[1:]), make_curve("var-grad", "grad", end=0.1))
    (axes,) = make_figure(make_chart_of(measured, published=published)).axes
    drawn = find_lines_by_label(axes)
    assert list(drawn) == ["grad (published)", "var-grad (published)", "grad"]
    dashed = drawn["grad (published)"]
    assert tuple(dashed.get_ydata()) == list_values(published[0])
    assert dashed.is_dashed() and not drawn["grad"].is_dashed()
    assert dashed.get_color() == drawn["grad"].get_color()
    assert sorted(text.get_text() for text in axes.texts) == ["grad", "var-grad"]


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("PNG", b"\x89PNG")])
def test_save_figure_is_deterministic(tmp_path, ending, start):
    files = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for file in files:
        save_figure(make_figure(make_full_chart()), file)
    first, second = (file.read_bytes() for file in files)
    assert first == second and first.startswith(start)
    assert b"Date" not in first and b"Software" not in first
    assert sorted(tmp_path.iterdir()) == files


def test_spread_labels_matches_manual_positions():
    assert spread_label_positions([5.0, 1.0], 1.0, 0.0, 10.0) == [5.0, 1.0]
    assert spread_label_positions([5.0, 5.0, 5.0], 1.0, 0.0, 10.0) == [4.0, 5.0, 6.0]
    assert spread_label_positions([0.0, 0.0], 1.0, 0.0, 10.0) == [0.0, 1.0]
    assert spread_label_positions([10.0, 9.9, 3.0], 2.0, 0.0, 10.0) == [10.0, 8.0, 3.0]


def test_make_figure_draws_panel_for_each_family_with_controls():
    curves = (make_curve("random", control=True), make_curve("grad"), make_curve("gb", end=0.3), make_curve("ig"))
    figure = make_figure(make_chart_of(*curves))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["GRAD", "GB", "IG"]
    for axes, measured in zip(figure.axes, curves[1:], strict=True):
        drawn = {name: tuple(line.get_ydata()) for name, line in find_lines_by_label(axes).items()}
        assert drawn == {"random": list_values(curves[0]), measured.estimator: list_values(measured)}
        assert tuple(find_lines_by_label(axes)["random"].get_xdata()) == T
    assert [axes.get_ylabel() for axes in figure.axes] == ["test accuracy", "", ""]


def test_figures_ignore_settings_of_user(tmp_path):
    chart = make_chart_of(make_curve("random", control=True), caption="Correct 73.1%, 63.8% on untouched images.")
    save_figure(make_figure(chart), tmp_path / "usual.svg")
    # as from a matplotlibrc of somebody who writes papers; LaTeX may be missing
    own = {
        "text.usetex": True,
        "font.family": "serif",
        "font.size": 20,
        "savefig.bbox": "tight",
        "svg.fonttype": "none",
    }
    with mpl.rc_context(own):
        save_figure(make_figure(chart), tmp_path / "own.svg")
        assert mpl.rcParams["text.usetex"]
    assert (tmp_path / "own.svg").read_bytes() == (tmp_path / "usual.svg").read_bytes()
