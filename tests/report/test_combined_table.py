"""The table of ROAR and own-network gain, beside a handwritten one."""

import csv
import json
from dataclasses import replace
from io import StringIO
from itertools import chain, combinations, pairwise

import pytest
from matplotlib.text import Text

from roarbench.analysis.suite_judges import do_marks_apply_to
from roarbench.analysis.suite_results import SuiteResults
from roarbench.api.published_results import load_published_results
from roarbench.common.errors import CallerError
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.report.combined_table import make_combined_table
from roarbench.report.suite_charts import plot_gains
from roarbench.report.table_record import Bar
from roarbench.stats.board_records import IntervalScope
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict
from tests.helpers.made_up_results import (
    SUITE,
    make_own_row,
    make_suite_results,
    make_table,
    make_table_of_both_gains,
    render_text,
)
from tests.helpers.shown_tables import format_html, format_text, render

TEXT = """\
                                    made-up v1
                               ROAR vs            own-network   at   at
 estimator               gain [95%] Random               gain 0.05  0.5 explains?
 grad             -4.5 [-5.7, -3.2] worse   +3.1 [-0.1, +6.3] +8.6 -2.4 not shown
 ig                         not run         +1.0 [+0.5, +1.5] +0.5 +1.5 yes
 gb                               – –       -2.0 [-3.0, -1.0]    –    – opposes it
 random-blurred +10.7 [+9.3, +12.1] better  0 by construction
 sobel            +5.0 [+4.0, +6.0] ≈ (!!)  0 by construction
 random                         0.0 control 0 by construction
ROAR gain: area between Random's accuracy curve and the row's, t = 0.9.
Own-network gain, MoRF: predictions changed by own map - others, t = 0.05, 0.5.
Own-network gain: Verdicts compare with 0 alone, not with a blind search.
95% intervals (images, networks, seeds); ≈ not significant; (!!): --notes."""
MARKDOWN = """\
| estimator | ROAR gain [95%] | vs Random | own-network gain | own-network gain at 0.05 | own-network gain at 0.5 \
| explains? |
| --- | --- | --- | --- | --- | --- | --- |
| `grad` | -4.5 [-5.7, -3.2] | worse | +3.1 [-0.1, +6.3] | +8.6 | -2.4 | not shown |
| `ig` | not run |  | +1.0 [+0.5, +1.5] | +0.5 | +1.5 | yes |
| `gb` | – | – | -2.0 [-3.0, -1.0] | – | – | opposes it |
| `random-blurred` | +10.7 [+9.3, +12.1] | better | 0 by construction |  |  |  |
| `sobel` | +5.0 [+4.0, +6.0] | ≈ (!!) | 0 by construction |  |  |  |
| `random` | 0.0 | control | 0 by construction |  |  |  |
"""


@pytest.fixture
def both():
    return make_table_of_both_gains()


def test_combined_table_markdown_matches_handwritten_rows(both):
    """A row that is not run shows no dash; controls come last, sorted by ROAR gain."""
    page = render(both, "markdown")
    assert MARKDOWN in page + "\n" and page.startswith("**made-up v1**")
    assert "t = 0.9." in page and "t = 0.05, 0.5." in page


def test_combined_table_text_matches_handwritten_text(both):
    """Names have the signs of both tables, and a narrow terminal cuts no number."""
    lines = [line.rstrip() for line in render_text(format_text(both, 90), 90).splitlines()]
    assert "\n".join(line for line in lines if line.strip(" ─")) == TEXT
    narrow = render_text(format_text(both, 30), 30)  # long cells continue on the next line
    assert all(gain in narrow for gain in ("+10.7 ± 1.4", "0 by", "opposes")) and "+8.6" not in narrow
    grad = next(line.split() for line in render_text(format_text(both, 80), 80).splitlines() if " grad " in line)
    assert grad == ["grad", "-4.5", "±", "1.2", "worse", "+3.1", "±", "3.2", "+8.6", "-2.4", "not", "shown"]


def test_gains_by_level_are_estimates_in_points_in_data(both):
    """By hand: `grad` gains 8.6 points at t = .05 and loses 2.4 at .5; ROAR at one level has no such column."""
    rows = {row["estimator"]: row for row in json.loads(render(both, "json"))["rows"]}
    assert rows["grad"]["own_network"]["gains"] == pytest.approx({"0.05": 8.6, "0.5": -2.4})
    assert (
        rows["grad"]["own_network"]["gains_low"] == {"0.05": None, "0.5": None} and "gains" not in rows["grad"]["roar"]
    )
    (line,) = (row for row in csv.DictReader(StringIO(render(both, "csv"))) if row["estimator"] == "grad")
    assert float(line["own_network_gains_0.5"]) == pytest.approx(-2.4) and line["own_network_gains_high_0.5"] == ""


def test_roar_with_several_levels_has_gain_at_each_level():
    """By hand: var-grad loses .2 of accuracy more than Random at t = 1, so 6 points at .3 and 18 at .9, up to noise."""
    table = make_table(make_suite_results(), rows=["random", "var-grad"])
    gains = {row["estimator"]: row["gains"] for row in json.loads(render(table, "json"))["rows"]}
    assert gains["var-grad"] == pytest.approx({"0.3": 6, "0.9": 18}, abs=3) and gains["random"] == {"0.3": 0, "0.9": 0}
    assert "| gain [95%] | gain at 0.3 | gain at 0.9 | " in render(table, "markdown")


def test_doubt_about_roar_stands_beside_roar_gain(both):
    """Sobel's strong mark is about ROAR's gain, not about its own-network gain of 0."""
    rows = {row["estimator"]: row for row in json.loads(render(both, "json"))["rows"]}
    assert rows["sobel"]["roar"]["flag"] == "Its mask alone has it." and rows["sobel"]["own_network"]["flag"] is None
    assert both.list_row_signs("sobel") == () and both.roar.format_row_signs("sobel") == "(!!)"
    assert not do_marks_apply_to(OWN_NETWORK) and do_marks_apply_to(ROAR)


def test_combined_table_distinguishes_not_run_from_missing(both):
    rows = {row["estimator"]: row for row in json.loads(render(both, "json"))["rows"]}
    assert list(rows) == ["grad", "ig", "gb", "random-blurred", "sobel", "random"]
    assert (rows["ig"]["roar"], rows["gb"]["roar"]["gain"], rows["grad"]["roar"]["gain"]) == (None, None, -4.5)
    assert rows["gb"]["own_network"]["verdict"] == "opposes it"
    lines = {row["estimator"]: row for row in csv.DictReader(StringIO(render(both, "csv")))}
    assert [lines[name]["roar"] for name in ("grad", "ig", "gb")] == ["run", "not run", "run"]
    assert [lines[name]["roar_gain"] for name in ("grad", "ig", "gb")] == ["-4.5", "", ""]
    assert lines["ig"]["own_network_gain_high"] == "1.5"
    assert "own_network_kept_0.05" in lines["ig"] and "own_network_accuracy_0.05" not in lines["ig"]
    page = format_html(both)
    assert page.count("not run") == 1 and page.count("<tr>") == 1 + len(rows)
    words = [text.get_text().strip() for axes in plot_gains(both.bars_by_axis_label).axes for text in axes.texts]
    empty = {"ROAR gain": {"ig": None, "gb": Bar(Estimate())}}
    (shown,) = plot_gains(empty | {"gain": {"ig": Bar(Estimate(1.0)), "gb": None}}).axes
    assert shown.get_xlabel() == "gain" and [text.get_text() for text in shown.get_yticklabels()] == ["ig", "gb"]
    with pytest.raises(CallerError, match="nothing to draw"):
        plot_gains(empty)
    assert words == ["not run", "–", "(!!)", "0", "0", "0", "0"]


def test_verdict_of_table_and_not_interval_colours_bar():
    """An interval above 0 is not adjusted for the other rows of its column."""
    above = Estimate(2.0, 0.1, 3.9)
    verdicts = (Verdict.BETTER, OwnNetworkVerdict.EXPLAINS, Verdict.SAME, OwnNetworkVerdict.OPEN, None, Verdict.WORSE)
    bars = {f"row {number}": Bar(above, verdict) for number, verdict in enumerate(verdicts)}
    figure = plot_gains({"gain": bars})
    colours = [patch.get_facecolor() for patch in figure.axes[0].patches]
    better, worse, unclear = (handle.get_facecolor() for handle in figure.legends[0].legend_handles[:3])
    assert colours == [better, better, unclear, unclear, unclear, worse] and len({better, worse, unclear}) == 3


def test_labels_of_gains_against_passes_cover_nothing():
    """Some of 30 rows have nearly the same gain, and one has a long name."""
    names = [*(f"estimator-{n}" for n in range(28)), r"$\x$", "a-long-name" * 4]  # a name is no formula
    gains = {name: 0.4 * (n // 5) * (n % 5) for n, name in enumerate(names)}
    bars = {name: Bar(Estimate(gain, gain - 2, gain + 2), OwnNetworkVerdict.OPEN) for name, gain in gains.items()}
    bars |= {f"search-{n}": Bar(Estimate(n, n - 1, n + 1), OwnNetworkVerdict.CONTROL) for n in (2, 8)}
    passes = {name: (2, 4, 30, 50, 750)[n % 5] for n, name in enumerate(names)} | {"search-2": 2, "search-8": 128}
    figure = plot_gains({"gain": bars}, passes=passes)
    figure.draw_without_rendering()
    cost = figure.axes[-1]
    labels = [text for text in cost.texts if text.get_visible()]
    assert len(labels) > 25 and {"blind search", "a-long-namea-long-namea…"} <= {text.get_text() for text in labels}
    boxes = {text.get_text(): Text.get_window_extent(text).padded(-2) for text in labels}
    lines = [line.get_window_extent() for line in cost.lines if len({*line.get_xdata()}) == 1 < len(line.get_xdata())]
    ticks = {text.get_text(): text.get_window_extent() for text in cost.get_xticklabels()}
    for (one, a), (other, b) in chain(combinations(boxes.items(), 2), combinations(ticks.items(), 2)):
        assert not a.overlaps(b), f"'{one}' overlaps '{other}'"
    for name, box in boxes.items():
        assert cost.bbox.fully_contains(*box.min) and cost.bbox.fully_contains(*box.max), name
        assert [line for line in lines if box.overlaps(line)] == [], name


def test_label_is_left_of_its_point_if_an_interval_would_run_through_it():
    gains = {"sgsq-grad": (4.4, 3.0, 5.8), "occlusion": (5.9, 4.5, 7.3), "search": (2.8, 2.2, 3.4)}
    verdicts = (OwnNetworkVerdict.SEARCHED, OwnNetworkVerdict.SEARCHED, OwnNetworkVerdict.CONTROL)
    bars = {name: Bar(Estimate(*gain), verdict) for (name, gain), verdict in zip(gains.items(), verdicts, strict=True)}
    cost = plot_gains({"gain": bars}, passes={"sgsq-grad": 30, "occlusion": 50, "search": 2}).axes[-1]
    places = {text.get_text(): text.get_position()[0] for text in cost.texts}
    assert places["sgsq-grad"] < 0 < min(places["occlusion"], places["blind search"])


def test_blind_searches_are_controls_of_table_and_picture(both):
    """Searches stand between the estimators and the other controls, and neither explain nor fail to."""
    searches = [
        make_own_row("search(passes=2)", (2.8, 2.1, 3.5), OwnNetworkVerdict.CONTROL, 2.0, 3.6),
        make_own_row("search(passes=65)", (21.9, 20.6, 23.2), OwnNetworkVerdict.CONTROL, 30.0, 13.8),
    ]
    board = both.own_network.board
    judged = [
        replace(row, network=OwnNetworkTest(OwnNetworkVerdict.SEARCHED)) if row.estimator == "grad" else row
        for row in board.rows
    ]
    nothing = (Estimate(),) * len(board.levels)
    rows = (*judged, *(replace(row, accuracies=nothing) for row in searches))
    both = replace(both, own_network=replace(both.own_network, board=replace(board, rows=rows)))
    lines = [line.split(" | ") for line in render(both, "markdown").splitlines() if line.startswith("| `")]
    assert {line[0].strip("|` "): line[-1].strip(" |") for line in lines} == {
        "grad": "as a search",
        "ig": "yes",
        "gb": "opposes it",
        "search(passes=65)": "control",
        "search(passes=2)": "control",
        **dict.fromkeys(("random-blurred", "sobel", "random"), ""),
    }
    shown = json.loads(render(both, "json"))["rows"]
    assert [row["estimator"] for row in shown] == [line[0].strip("|` ") for line in lines]
    assert [row["control"] for row in shown] == [False] * 3 + [True] * 5
    assert [row["own_network"]["verdict"] for row in shown[3:5]] == ["control"] * 2
    figure = plot_gains(both.bars_by_axis_label)
    colours, legend = [patch.get_facecolor() for patch in figure.axes[1].patches], figure.legends[0]
    unclear, search = (handle.get_facecolor() for handle in legend.legend_handles[2:4])
    assert colours[0] == unclear and colours[3] == colours[4] == search == (1.0, 1.0, 1.0, 1.0)
    assert legend.get_texts()[3].get_text() == "blind search, a control"
    assert len(figure.axes) == 2, "without passes, gains stand in bars alone"
    names = ("search(passes=2)", "search(passes=65)", "grad", "ig")
    cost = plot_gains(both.bars_by_axis_label, passes=dict(zip(names, (2.0, 65.0, 2.0, 50.0), strict=True))).axes[2]
    assert [text.get_text() for text in cost.texts] == ["grad", "ig", "blind search"]
    (search,) = [line.get_xydata().tolist() for line in cost.lines if line.get_linestyle() == "--"]
    assert search == [[2.0, 2.8], [65.0, 21.9]] and cost.texts[1].xy == (50.0, 1.0)
    dots = {(dot.get_marker(), dot.get_markerfacecolor(), dot.get_zorder()) for dot in cost.lines}
    assert {("o", "#0072B2", 2), ("o", "#999999", 2), ("D", "white", 1.5)} < dots, "a search covers no estimator"


def test_plot_gains_draws_interval_of_measured_zero_gain():
    """`gb-sq` on Imagenette has 0.0 [-1.6, 1.6]; a gain of 0 by construction has no interval."""
    rows = {"gb-sq": Bar(Estimate(0.0, -1.6, 1.6)), "random": Bar(Estimate(0.0, 0.0, 0.0))}
    (axes,) = plot_gains({"gain": rows}).axes
    assert [text.get_text().strip() for text in axes.texts] == ["0"]
    intervals = [[float(x) for x in line.get_xdata()] for line in axes.lines if len(set(line.get_ydata())) == 1]
    assert intervals == [[-1.6, 1.6]]


def test_plot_has_no_number_of_passes_and_no_sign_that_no_row_shows():
    gains, verdicts = (Estimate(5.0, 4.0, 6.0), Estimate(), Estimate(1.0, 0.0, 2.0)), OwnNetworkVerdict
    bars = dict(zip(("grad", "ig", "search"), map(Bar, gains, (verdicts.OPEN, None, verdicts.CONTROL)), strict=True))
    figure = plot_gains({"": bars}, "", ["Unfinished (‡): 1 run."], {"grad": 2.0, "ig": 50.0, "search": 8.0})
    assert figure.axes[1].get_xticks().tolist() == [2.0, 8.0], "ig failed"
    assert figure.legends[0].get_title().get_text() == "Unfinished: 1 run."


def test_doubts_about_a_gain_stand_beside_its_bar():
    """Signs stand behind the interval, or behind 0 if the gain is below; doubts about a row stand after its name."""
    bars = {
        "sobel": Bar(Estimate(5.0, 4.0, 6.0), Verdict.BETTER, "(!!)"),
        "grad": Bar(Estimate(-4.0, -7.0, -1.0), Verdict.WORSE, "(!)"),
        "ig": Bar(Estimate(1.0, 0.5, 1.5)),
    }
    (axes,) = (figure := plot_gains({"gain": bars})).axes
    assert figure.legends[0].get_texts()[-1].get_text() == "(!!), (!): doubts about a gain"
    figure.draw_without_rendering()
    assert figure.legends[0].get_window_extent().x1 <= figure.bbox.x1, "one panel is narrow"
    assert [(text.get_text().strip(), *text.get_position()) for text in axes.texts] == [("(!!)", 6.0, 0), ("(!)", 0, 1)]
    published = load_published_results("quick")
    assert "own map - others, t = 0.05, 0.5.\n" in published.plot().legends[0].get_title().get_text()
    quick = make_combined_table(published.stored).bars_by_axis_label
    (figure := published.plot()).draw_without_rendering()
    assert figure.axes[2].get_xlabel() == "passes for an image's map"
    numbers = [label.get_window_extent() for label in figure.axes[2].get_xticklabels()]
    assert len(numbers) > 2 and all(one.x1 + 3 < other.x0 for one, other in pairwise(numbers)), "apart"
    signs = {axis: {name: bar.signs for name, bar in bars.items() if bar and bar.signs} for axis, bars in quick.items()}
    doubted = dict.fromkeys(("sgsq-grad †", "var-grad †", "sobel"), "(!!)")  # as README.md
    assert signs == {"ROAR gain, points": doubted, "own-network gain, points": {}}


def test_combined_table_notes_state_interval_scope(both):
    once = replace(both, roar=replace(both.roar, board=replace(both.roar.board, covers=IntervalScope.NOTHING)))
    assert once.summarize_notes()[-1].startswith("One training per cell: no intervals for ROAR;")
    assert len(both.summarize_notes()) == 4 and max(map(len, both.summarize_notes())) <= 80
    unrun = replace(once, roar=replace(once.roar, board=replace(once.roar.board, rows=())))
    assert unrun.summarize_notes()[-1].startswith("95% intervals")
    single = replace(both, roar=replace(both.roar, board=replace(both.roar.board, references=1)))  # as in a first run
    assert single.summarize_notes()[-1].startswith(
        "95% intervals (images, networks, seeds; ROAR for this network only)"
    )
    assert [note.partition(" on ")[0] for note in both.all_notes[3:]] == ["ROAR", "Own-network gain"]


def test_make_combined_table_rejects_unknown_rows():
    suite = replace(SUITE, blocks=(SUITE.blocks[0], replace(SUITE.blocks[0], protocol=OWN_NETWORK)))
    said = "suite 'made-up' has no roar or own-network rows of lrp; leave these rows out"
    with pytest.raises(CallerError, match=said):
        make_combined_table(SuiteResults(suite, "", None, {}), ["lrp"])
