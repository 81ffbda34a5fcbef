"""Curves, comparisons, runs, entries and figures as records."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from leaderboard import charts
from leaderboard.boards import board_table, main_board, other_gains_note
from leaderboard.compare import compare_pair, comparison_records
from leaderboard.curves import above_masks_table, curve_boards, curve_records, curve_tables
from leaderboard.entry import command, machines, profile, runs_of, shared
from leaderboard.pages import figure_words
from leaderboard.papers import HOOKER
from leaderboard.source import count_runs, lookup_estimator, read_runs, read_suites
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.analysis.published import hooker2019
from roarbench.estimators.catalogue import ESTIMATORS, PAPER
from roarbench.plan.points import expand
from roarbench.plan.suites import SUITES
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import LERF
from roarbench.stats.bootstrap import Bootstrap
from roarbench.store.results import ResultsStore
from roarbench.terms import Order, Unit
from tests.helpers.board_store import make_store
from tests.helpers.made_up import held as made_up_held


def test_curves_hold_the_chosen_and_the_controls(quick: SuiteResults) -> None:
    tables = curve_tables(quick, curve_boards(Evidence.of(quick)), ["gb"])
    assert [table.protocol for table in tables] == ["roar", "kar", "morf"]
    assert [table.kept for table in tables] == [False, True, False]
    for table in tables:
        blurred = {"random-blurred"} if table.protocol == "roar" else set()  # the suite has it under ROAR alone
        assert {point.estimator for point in table.points} == {"random", "sobel", "gb"} | blurred
    roar = {(point.estimator, point.t): point.value for point in tables[0].points}
    row = next(row for row in main_board(Evidence.of(quick), ROAR, Unit.SCALAR).rows if row.estimator == "gb")
    assert roar["gb", 0.0] == row.clean.value
    assert roar["gb", 0.9] == row.accuracies[1].value


def test_published_curves_are_laid_over_where_the_paper_has_them(quick: SuiteResults) -> None:
    roar, kar, morf = curve_tables(quick, curve_boards(Evidence.of(quick)), ["gb", "grad-sq"], "imagenet")
    laid = {(p.estimator, p.t): p.value for p in roar.points if p.source == "published"}
    assert {name for name, _ in laid} == {
        "random",
        "sobel-released",
        "gb",
    }  # no squares, and another Sobel
    assert laid["gb", 0.3] == hooker2019(Order.MORF)["imagenet"]["gb"][0.3]
    assert any(point.source == "published" for point in kar.points)
    assert all(point.source == "measured" for point in morf.points)


def test_curve_records_are_flat(quick: SuiteResults) -> None:
    rows = curve_records(curve_tables(quick, curve_boards(Evidence.of(quick)), ["gb"]))
    assert json.dumps(rows)
    assert {row["protocol"] for row in rows} == {"roar", "kar", "morf"}


def test_a_comparison_by_slow_loops(quick: SuiteResults) -> None:
    found = compare_pair(Evidence.of(quick), "var-grad", "grad")
    correct = quick.scores(ROAR, Unit.SCALAR).correct
    for level in found.levels:
        one, other = correct["var-grad", level.t], correct["grad", level.t]
        assert level.difference.value == pytest.approx(100 * (one.mean() - other.mean()), abs=1e-9)
        assert level.difference.low < level.difference.value < level.difference.high
        kinds = [
            (int((~a).sum()) > len(a) / 2, int((~b).sum()) > len(b) / 2) for a, b in zip(one.T, other.T, strict=True)
        ]
        assert level.only_first == kinds.count((True, False))
        assert level.only_second == kinds.count((False, True))
        assert level.both == kinds.count((True, True))
        assert level.neither == kinds.count((False, False))
        assert list(level.examples_first) == [i for i, kind in enumerate(kinds) if kind == (True, False)][:12]
    rows = {row.estimator: row.gain.value for row in main_board(Evidence.of(quick), ROAR, Unit.SCALAR).rows}
    assert found.gain.value == pytest.approx(rows["var-grad"] - rows["grad"], abs=1e-9)
    assert json.dumps(comparison_records(found))


def test_a_comparison_with_itself_differs_nowhere(quick: SuiteResults) -> None:
    found = compare_pair(Evidence.of(quick), "gb", "gb")
    assert all(level.difference == (0, 0, 0) and level.only_first == level.only_second == 0 for level in found.levels)


def test_a_comparison_under_a_protocol_with_one_training_borrows_no_spread(quick: SuiteResults) -> None:
    assert compare_pair(Evidence.of(quick), "gb", "ig", LERF).levels[0].difference.low is not None
    alone = compare_pair(Evidence.of(quick), "gb", "ig", MASK_ONLY).levels[0].difference
    assert alone.value is not None and alone.low is None
    assert compare_pair(Evidence.of(quick), "gb", "ig", ROAR, Unit.PIXEL) is None


def test_runs_are_counted_by_state(tmp_path: Path) -> None:
    suite = SUITES["planted"]
    points = expand(suite)
    url = make_store(tmp_path, suite, lambda point: point not in points[:3])
    with ResultsStore.open(url) as store:
        suite_results = read_suites(store, tmp_path)["planted-v1"]
        from roarbench.plan.keys import bind

        store.failures.add(bind(suite, points[1], suite_results.data, None), "disk \x1b[31mfull")
        runs = read_runs(suite_results, store)
    counts = {row["protocol"]: row for row in count_runs(runs)}
    assert counts["all"] == {
        "protocol": "all",
        "done": len(points) - 3,
        "running": 0,
        "failed": 1,
        "missing": 2,
    }
    assert [run.reason for run in runs if run.state == "failed"] == ["disk [31mfull"]


def test_profiles() -> None:
    assert profile("var-ig").papers[0].startswith("Mukund Sundararajan, Ankur Taly, Qiqi Yan: Axiomatic")
    assert profile("var-ig").papers[1].startswith("Julius Adebayo")
    assert profile("sg-grad-sq").authors.count("Been Kim") == 1  # of two of its papers
    explained = [row.id for row in ESTIMATORS.values() if row.form == "base" and not row.control]
    assert [name for name in explained if not profile(name).papers] == []  # a form would cite its own papers alone
    assert profile("var-ig").settings.startswith("25 steps from black; 15 noisy copies")
    assert profile("ig(steps=50,baseline=blur)").settings == "50 steps from blur"
    assert profile("gradcam").settings.startswith("layer last: block of convolutions whose output is looked at")
    assert profile("rise(samples=4000)").settings.startswith("samples 4000: ")
    assert profile("score-cam").source == "roarbench/estimators/blocks.py"
    assert profile("grad").source == "roarbench/estimators/gradients.py"
    assert profile("sobel").source == "roarbench/estimators/controls.py"
    assert profile("<b>new</b>").about == "Not in this version's table of estimators"
    assert lookup_estimator("<b>new</b>").base == ""


def test_every_estimator_of_the_paper_has_authors_and_bibtex_that_parses() -> None:
    assert profile("random-blurred").papers == ()
    for name in ("random", "sobel", *PAPER):
        found = profile(name)
        entries = re.findall(r"@(\w+)\{(\w+),\n(.*?)\n\}", found.bibtex, re.DOTALL)
        assert len(entries) == len(found.papers) > 0, name
        for kind, _, body in entries:
            fields = dict(re.findall(r"^  (\w+) += \{(.*)\},?$", body, re.MULTILINE))
            assert {"title", "author", "year"} < set(fields) and len(fields) == body.count("\n") + 1
            assert {"article": "journal", "inproceedings": "booktitle", "misc": "howpublished"}[kind] in fields
        assert all(author in found.authors for author in re.findall(r"author += \{(.*?) and", found.bibtex))
    assert "  author        = {Sara Hooker and Dumitru Erhan" in HOOKER.bibtex


@pytest.mark.parametrize("name", ["var-ig", "grad", "sobel", "truth"])
def test_sources_exist(name: str) -> None:
    assert (Path(__file__).parents[2] / profile(name).source).is_file()


def test_an_entry_in_all_suites(suites: dict[str, SuiteResults], quick: SuiteResults) -> None:
    runs = runs_of(quick, "gb")
    assert len(runs) == sum(point.cell.estimator == "gb" for point in expand(quick.suite))
    keys = {result.run.key for result in quick.results.values()}
    assert {run["command"] for run in runs} <= {f"roarbench reproduce {key[:12]} --store STORE" for key in keys}
    assert command(quick, "gb") == "roarbench run --suite quick --estimators gb --store NEW-FOLDER"
    assert "--limit 40" in command(replace(quick, limit=40), "gb")
    assert machines(quick) == [f"0.1.0 1a2b3c4 on some, 2 cores ({len(quick.results)} runs)"]


def test_what_all_runs_share_is_said_once() -> None:
    runs = [{"run": name, "code": "1a", "machine": machine} for name, machine in (("a", "x"), ("b", "y"))]
    runs = [run | {"test images": 10, "libraries": "torch", "recipe": "quick@1"} for run in runs]
    same, each = shared(runs)
    assert same == {"test images": "10", "code": "1a", "libraries": "torch", "recipe": "quick@1"}
    assert each == [{"run": "a", "machine": "x"}, {"run": "b", "machine": "y"}]
    assert shared([]) == ({}, [])


def test_the_other_gains_say_their_levels_and_seeds(quick: SuiteResults) -> None:
    text = "KAR gain: levels 0.9, 1 seed. No-retrain gain: levels 0.5, 0.9, the reference as it is."
    assert other_gains_note(quick, Unit.SCALAR, (0.5, 0.9)) == text
    assert board_table(Evidence.of(quick)).footnote.endswith(text)
    alone = "KAR gain: levels 0.9, 1 seed. No-retrain gain: levels 0.5, the reference as it is."
    assert other_gains_note(quick, Unit.SCALAR, (0.5,)) == alone
    assert other_gains_note(quick, Unit.PIXEL, (0.5,)) == ""


def test_words_of_a_figure_tell_ours_from_the_papers(quick: SuiteResults) -> None:
    roar = curve_tables(quick, curve_boards(Evidence.of(quick)), ["gb"], "imagenet")[0]
    words = figure_words(roar)
    ours = next(point for point in roar.points if (point.estimator, point.t, point.source) == ("gb", 0.9, "measured"))
    assert f"gb {100 * ours.value:.1f}%" in words
    assert f"gb published {100 * hooker2019(Order.MORF)['imagenet']['gb'][0.9]:.1f}%" in words
    assert "Dashed: the paper's means of five ResNet-50 on imagenet" in words


def test_frontier_by_slow_search(quick: SuiteResults) -> None:
    generator = np.random.default_rng(1)
    table = board_table(Evidence.of(quick))
    entries = [replace(entry, seconds=float(s)) for entry, s in zip(table.rows, generator.random(9), strict=True)]
    wanted = {
        one.estimator
        for one in entries
        if not any(
            other.seconds <= one.seconds and other.gain.value >= one.gain.value and other is not one
            for other in entries
        )
    }
    assert {entry.estimator for entry in charts.frontier(entries)} == wanted


@pytest.mark.slow
def test_every_chart_is_drawn_and_escapes_its_text(quick: SuiteResults) -> None:
    table = board_table(Evidence.of(quick), seconds={"gb": 2.0, "grad": 1.0})
    evil = replace(table.rows[0], estimator='<script>alert("1")</script>', seconds=3.0)
    table = replace(table, rows=(evil, *table.rows[1:]))
    made = [
        charts.gain_chart(table),
        charts.cost_chart(table),
        *(
            charts.curve_chart(curves)
            for curves in curve_tables(quick, curve_boards(Evidence.of(quick)), ["gb"], "imagenet")
        ),
        charts.comparison_chart(compare_pair(Evidence.of(quick), "gb", "ig")),
    ]
    for chart in made:
        drawn = charts.to_svg(chart)
        assert drawn.startswith("<svg aria-hidden")
        assert "<script" not in drawn and "http://" not in drawn.replace("http://www.w3.org/", "")
    assert "&lt;script&gt;" in charts.to_svg(made[0])


def test_accuracy_above_masks_alone_is_a_figure_where_there_are_two_levels() -> None:
    evidence = Evidence.of(made_up_held(), Bootstrap(100))
    table = above_masks_table(evidence, "of this", ["grad"])
    assert table is not None and table.quantity == "test accuracy above masks alone"
    assert {(point.estimator, point.t) for point in table.points} == {
        (name, t) for name in ("random", "sobel", "grad") for t in (0.3, 0.9)
    }  # the blurred random map has no masks here
    for point in table.points:
        assert (point.value, point.low, point.high) == evidence.above_masks(point.estimator, point.t)
    assert figure_words(table).startswith("made-up v1: ROAR above masks alone: test accuracy above masks alone against")
    drawn = charts.curve_chart(table).to_dict()
    assert drawn["layer"][1]["encoding"]["y"]["title"] == table.quantity
    assert "domain" not in drawn["layer"][1]["encoding"]["y"].get("scale", {})


def test_a_single_level_of_masks_is_no_curve(quick: SuiteResults) -> None:
    evidence = Evidence.of(quick)
    assert above_masks_table(evidence, "of this", ["grad"]) is None
