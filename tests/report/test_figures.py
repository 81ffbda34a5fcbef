"""Figures: what is drawn equals what was given, gaps stay gaps, names do not overlap, files are the same each time."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex
from PIL import Image

from roarbench.errors import CallerError
from roarbench.report.figures import Axis, Chart, draw_curves, make_figure
from roarbench.report.panels import Curve, spread

LEVELS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9)


def curve(estimator, family="", *, control=False, end=0.4, levels=LEVELS, missing=(), band=True):
    accuracy = tuple(None if k in missing else 0.8 - (0.8 - end) * t / 0.9 for k, t in enumerate(levels))
    low = tuple(None if a is None or not band else a - 0.01 for a in accuracy)
    high = tuple(None if a is None or not band else a + 0.02 for a in accuracy)
    return Curve(estimator, family or estimator, control, levels, accuracy, low, high)


def forms(base):
    return [base, f"{base}-sq", f"sg-{base}", f"sg-{base}-sq", f"sgsq-{base}", f"var-{base}"]


def full_chart():
    controls = [curve("random", control=True, end=0.5), curve("sobel", control=True, end=0.501)]
    rest = [
        curve(name, base, end=0.5 + k / 1000) for base in ("grad", "gb", "ig") for k, name in enumerate(forms(base))
    ]
    return Chart("big v1 · ROAR", "Five seeds. " * 30, Axis.REMOVED, (*controls, *rest))


def planted_chart():
    curves = [
        curve("truth", control=True, end=0.1),
        curve("random", control=True),
        curve("truth-inverted", "truth", control=True, end=0.7),
    ]
    return Chart("planted v1 · ROAR", "Three seeds.", Axis.REMOVED, tuple(curves))


def crowded_chart():
    """More names than fit beside a panel of the usual height."""
    twins = [f"{name}~{twin}" for twin in ("blurred", "untrained", "other-target") for name in forms("grad")]
    return Chart("crowd", "", Axis.REMOVED, tuple(curve(name, "grad") for name in (*forms("grad"), *twins)))


def lines(axes):
    """Measured and published lines by label."""
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


@pytest.mark.slow
def test_drawn_data_equal_the_input_in_every_panel():
    chart = full_chart()
    figure = make_figure(chart)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["GRAD", "GB", "IG"]
    for axes, base in zip(figure.axes, ("grad", "gb", "ig"), strict=True):
        drawn = lines(axes)
        assert list(drawn) == ["random", "sobel", *forms(base)]
        for given_curve in chart.curves:
            if given_curve.estimator in drawn:
                x, y = drawn[given_curve.estimator].get_data()
                assert tuple(x) == given_curve.levels
                assert tuple(y) == given_curve.accuracy


def test_bands_equal_the_input_and_a_missing_point_is_a_gap():
    (axes,) = make_figure(Chart("one", "", Axis.REMOVED, (whole := curve("grad"),))).axes
    (band,) = axes.collections
    corners = {tuple(point) for point in band.get_paths()[0].vertices}
    for t, low, high in zip(LEVELS, whole.low, whole.high, strict=True):
        assert {(t, low), (t, high)} <= corners
    (axes,) = make_figure(Chart("one", "", Axis.REMOVED, (curve("grad", band=False),))).axes
    assert all(len(path.vertices) == 0 for band in axes.collections for path in band.get_paths())
    (axes,) = make_figure(Chart("gap", "", Axis.REMOVED, (curve("grad", missing=(2,)),))).axes
    assert np.flatnonzero(np.isnan(lines(axes)["grad"].get_ydata())).tolist() == [2]
    assert axes.get_ylim()[0] > 0.3  # a zero would have pulled the limits down
    assert len(axes.collections[0].get_paths()) == 2  # the band has two parts


def test_a_curve_without_points_is_named_below_and_not_drawn():
    figure = make_figure(Chart("gap", "Shown.", Axis.REMOVED, (curve("grad"), curve("ig", missing=range(6)))))
    assert len(figure.axes) == 1
    assert any("No finished point yet: ig." in text.get_text() for text in figure.texts)
    with pytest.raises(CallerError, match="nothing to draw"):
        make_figure(Chart("none", "", Axis.REMOVED, (curve("grad", missing=range(6)),)))


def long_chart() -> Chart:
    """One panel under a title that says all it can have to say."""
    title = "planted v1 (small version: 40 images a split) (images of photos, 1a2b3c4d) (reference file@0a1b2c3d)"
    return replace(planted_chart(), title=f"{title} (tests the installation only): ROAR")


@pytest.mark.slow
@pytest.mark.parametrize("make", [full_chart, crowded_chart, long_chart])
def test_no_text_overlaps_another_or_leaves_the_picture(make):
    figure = make_figure(make())
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw(renderer)
    texts = list(figure.texts)
    for axes in figure.axes:
        texts += [*axes.texts, axes.xaxis.label, axes.yaxis.label, axes._left_title]
        texts += axes.get_xticklabels()
        low, high = axes.get_ylim()  # a tick beyond the limits is not drawn
        texts += [tick.label1 for tick in axes.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    # a label's box has its ascenders and descenders: 1 pixel of the 100 per inch is anti-aliasing
    boxes = [
        (t.get_text(), t.get_window_extent(renderer).padded(-1)) for t in texts if t.get_text() and t.get_visible()
    ]
    for (one, a), (other, b) in itertools.combinations(boxes, 2):
        assert not a.overlaps(b), f"'{one}' overlaps '{other}'"
    for text, box in boxes:
        assert box.x0 >= 0 and box.y0 >= 0, text
        assert box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1, text


def test_published_curves_are_dashed_in_the_measured_curve_s_colour():
    published = (curve("grad", end=0.2, levels=LEVELS[1:]), curve("var-grad", "grad", end=0.1))
    chart = Chart("one", "", Axis.REMOVED, (curve("grad"),), published)
    figure = make_figure(chart)
    (axes,) = figure.axes
    drawn = lines(axes)
    assert list(drawn) == ["grad (published)", "var-grad (published)", "grad"]
    assert tuple(drawn["grad (published)"].get_ydata()) == published[0].accuracy
    assert drawn["grad (published)"].is_dashed() and not drawn["grad"].is_dashed()
    assert drawn["grad (published)"].get_color() == drawn["grad"].get_color()
    assert to_hex(drawn["grad (published)"].get_markerfacecolor()) == "#ffffff"
    assert sorted(text.get_text() for text in axes.texts) == ["grad", "var-grad"]
    leaders = {(line.get_xdata()[0], line.get_ydata()[0]) for line in axes.lines if len(line.get_xdata()) == 2}
    assert leaders == {(0.9, chart.curves[0].accuracy[-1]), (0.9, published[1].accuracy[-1])}  # measured comes first
    assert any("published" in text.get_text() for text in figure.texts)


@pytest.mark.slow
@pytest.mark.parametrize(("ending", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("PNG", b"\x89PNG")])
def test_files_open_and_are_the_same_each_time(tmp_path, ending, start):
    for name in ("a", "b"):
        draw_curves(planted_chart(), tmp_path / f"{name}.{ending}")
    first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in ("a", "b"))
    assert first == second and first.startswith(start)
    if ending == "PNG":
        with Image.open(tmp_path / "a.PNG") as image:
            image.load()
            assert image.format == "PNG" and image.width > 500
    assert b"Date" not in first and b"Software" not in first
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"a.{ending}", f"b.{ending}"]


def test_spread_by_hand():
    assert spread([5.0, 1.0], 1.0, 0.0, 10.0) == [5.0, 1.0]
    assert spread([5.0, 5.0, 5.0], 1.0, 0.0, 10.0) == [4.0, 5.0, 6.0]
    assert spread([0.0, 0.0], 1.0, 0.0, 10.0) == [0.0, 1.0]
    assert spread([10.0, 9.9, 3.0], 2.0, 0.0, 10.0) == [10.0, 8.0, 3.0]


def test_what_is_above_masks_has_panels_of_its_own_below_the_others():
    curves = (curve("random", control=True), curve("grad"), curve("gb"), curve("ig"))
    above = tuple(replace(c, accuracy=tuple(a and a - 0.7 for a in c.accuracy)) for c in curves if c.family != "gb")
    figure = make_figure(Chart("three", "", Axis.REMOVED, curves, above_masks=above))
    upper, lower = figure.axes[:3], figure.axes[3:]
    assert [axes.get_title(loc="left") for axes in lower] == ["GRAD", "IG"]
    assert (upper[0].get_ylabel(), lower[0].get_ylabel()) == ("test accuracy", "accuracy above masks alone")
    assert all(axes.get_position().y1 < upper[0].get_position().y0 for axes in lower)
    assert lower[0].get_ylim()[0] < min(above[0].accuracy)
