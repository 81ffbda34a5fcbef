"""Contents of boards and comparisons of two rows: numbers equal those of the statistics."""

import csv
from dataclasses import replace
from io import StringIO
from itertools import product

import numpy as np
import pytest

from leaderboard.board_contents import CONTROL, KINDS, make_linear_axis
from leaderboard.build_board_contents import make_board_contents
from leaderboard.links import PageNotFound, Site, make_address, read_choice
from leaderboard.page.about import build_claims_context
from leaderboard.page.board import _add_download_files, write_caption
from leaderboard.render import list_addresses, render_page
from leaderboard.suite_view import SuiteView
from roarbench.analysis.suite_judges import compare_rows, describe_subtraction, judge_suite
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.estimators.catalogue import ESTIMATORS, find_display_name
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import MASK_ONLY, MATCHED, OWN_NETWORK, OWN_NETWORK_LERF, ROAR, SHOWN
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, Block
from roarbench.report.table import make_suite_table, make_table
from roarbench.stats.compute_board import Judge
from roarbench.stats.intervals import Estimate
from roarbench.store.results import UNVERIFIED, Origin
from tests.helpers.made_up_results import (
    LEVELS,
    MAIN,
    SUITE,
    choose_accuracy,
    limit_to_one_seed,
    make_leaky_accuracy,
    make_suite_results,
)
from tests.helpers.store_rows import change_rows, remove_rows, set_checksums, set_correctness


def make_contents(results, protocol=ROAR):
    table = make_table(results, protocol, results.suite.estimators_with_own_row)
    return make_board_contents(table)


@pytest.fixture(scope="module")
def quick(views):
    return views["quick-v1"].results


@pytest.mark.parametrize(("protocol", "levels"), [("roar", (0.9,)), ("kar", ()), ("lerf", ()), ("diffroar", ())])
def test_board_contents_equal_numbers_of_statistics(quick, protocol, levels):
    results = replace(quick, included_levels={(SHOWN[protocol], Unit.SCALAR): levels} if levels else {})
    board = judge_suite(results).make_board(SHOWN[protocol], Unit.SCALAR, results.suite.estimators_with_own_row)
    shown = make_contents(results, SHOWN[protocol])
    assert board is not None and shown.levels == board.levels and set(levels) in (set(), {*board.levels})
    gains = {row.estimator: row.gain for row in board.rows}
    if protocol == "roar":  # Random's gain is 0 by definition, without an interval
        gains["random"] = Estimate(0.0)
    expected = {row.estimator: (gains[row.estimator], row.place, row.beating) for row in board.rows}
    assert {row.id: (row.value, row.place, row.beating) for row in shown.rows} == expected
    gains = [row.value.value for row in shown.rows]
    assert gains == sorted(gains, reverse=True)


def import_rows(results, names):
    """Return the results with these rows imported, and the board's fact if all rows are."""
    imported = dict.fromkeys(names, UNVERIFIED[Origin.SELF_REPORTED])
    return replace(results, doubts=imported), "imported, not reproduced here"


def change_code(results, names):
    def mark(point, row):
        changed = replace(row.provenance, code_version="0.2.0 1a2b3c4d+dirty")
        return replace(row, provenance=changed) if point.cell.estimator in names else row

    return change_rows(results, mark), "by code with uncommitted changes"


@pytest.mark.parametrize(("mark", "doubt"), [(import_rows, "run elsewhere"), (change_code, "changed code")])
def test_board_states_origin_once_if_all_rows_have_it(mark, doubt):
    """A row without runs has no origin. If only some rows have the origin, each of them has a doubt."""
    found = make_suite_results()
    names, own = {point.cell.estimator for point in found.results}, make_contents(found)
    marked, fact = mark(found, names)
    every, some = make_contents(marked), make_contents(mark(found, names - {"grad"})[0])
    assert every.facts == (*own.facts, fact) and some.facts == own.facts
    assert [row.doubts for row in every.rows] == [row.doubts for row in own.rows]
    doubted = {row.id for row in some.rows if doubt in (each.short for each in row.doubts)}
    assert doubted == {row.id for row in some.rows if row.started} - {"grad"}
    begun, _ = mark(remove_rows(found, estimator="grad"), names)
    assert make_contents(begun).facts[-1] == fact


def test_board_rows_exclude_variants_and_compare_with_every_control(quick):
    controls = {"random", "sobel", "random-blurred"}
    roar = make_contents(quick)
    beating = {row.id: row.beating for row in roar.rows if not row.control}
    assert beating.keys() == {"grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb"}
    assert {row.id for row in roar.rows if row.control} == controls
    assert roar.best_control and roar.best_control.id == "sobel" and roar.rows_by_id["sobel"].beating is None
    for each in beating.values():
        assert each.against.keys() == controls
        assert each.against[each.hardest_control].difference == each.margin_over_hardest
    gb, sobel = roar.rows_by_id["gb"].value.value, roar.rows_by_id["sobel"].value.value
    assert beating["gb"].against["sobel"].difference.value == pytest.approx(gb - sobel)
    assert "6 estimators, 3 controls" in roar.facts
    table = make_table(quick, ROAR, quick.suite.estimators_with_own_row)
    for word in ("levels 0.5, 0.9", "2 seeds", "300 test images", "unit scalar", "fill mean"):
        assert word in write_caption(table)


def test_board_has_no_gains_for_mask_only_and_no_intervals_for_one_seed(quick):
    shown = make_contents(quick, SHOWN["mask-only"])
    assert not shown.has_gains and not shown.best_control and shown.value_label == "accuracy at t = 0.9, %"
    assert {(row.place, 0 < row.value.value < 100) for row in shown.rows} == {(None, True)}
    shown = make_contents(make_suite_results(limit_to_one_seed(SUITE)))
    assert shown.headline == "" and all(row.value.low is None and row.beating is None for row in shown.rows)


def test_board_of_another_unit_has_marks_and_masks_of_its_unit(tmp_path):
    """Regression: in the pixel unit, masks of var-grad leak the class; the board had the marks of the scalar unit."""

    def accuracy(cell):
        return make_leaky_accuracy(0.58)(cell) if cell.unit is Unit.PIXEL else choose_accuracy(cell)

    pixel = tuple(replace(block, seeds=2, unit=Unit.PIXEL) for block in SUITE.blocks if block.protocol is MASK_ONLY)
    results = make_suite_results(replace(SUITE, blocks=(*SUITE.blocks, *pixel)), accuracy)
    view = SuiteView(results, tmp_path)
    marked = {}
    for unit in (Unit.SCALAR, Unit.PIXEL):
        table, alone = view.table(ROAR, unit), make_suite_table(results, "roar", unit, None)
        assert (table.marks, table.doubts, table.above_masks) == (alone.marks, alone.doubts, alone.above_masks)
        doubts = view.get_board(ROAR, unit).rows_by_id["var-grad"].doubts
        marked[unit] = any(doubt.short.startswith("masks alone") for doubt in doubts)
    assert marked == {Unit.SCALAR: False, Unit.PIXEL: True}


def test_downloaded_rows_of_two_units_name_their_unit(tmp_path):
    suite = replace(SUITE, blocks=tuple(Block(ROAR, MAIN, (0.9,), seeds=2, unit=unit) for unit in Unit))
    for results, units in ((make_suite_results(suite), {"scalar", "pixel"}), (make_suite_results(SUITE), None)):
        view = SuiteView(results, tmp_path)
        site = Site({view.slug: view}, list_addresses({view.slug: view}))
        tables = view.tables if units else view.tables[:1]
        _add_download_files(site, view, "rows", tables)
        rows = list(csv.DictReader(StringIO(site.files["rows.csv"]().decode())))
        assert len({(row["estimator"], row["protocol"], row.get("unit")) for row in rows}) == len(rows)
        assert ({row["unit"] for row in rows} if units else rows[0].get("unit")) == units


def test_claims_are_tested_on_roar_in_its_own_unit(tmp_path):
    """Regression: the page tested the claims in the unit of the first board, here without any result of ROAR."""
    blocks = (Block(MATCHED, MAIN, (0.9,), seeds=2), Block(ROAR, MAIN, LEVELS, seeds=3, unit=Unit.PIXEL))
    view = SuiteView(make_suite_results(replace(SUITE, blocks=blocks)), tmp_path)
    context = build_claims_context(Site({view.slug: view}), make_address("claims"))
    assert [title for title, _ in context["tables"]] == ["the paper’s Table 2", view.title]


def find_reasons(rows):
    """Return why rows have no rank, from their first doubts."""
    return {row.doubts[0].sentence.removeprefix("No rank: ").removesuffix(".") for row in rows}


def test_row_without_rank_states_reason(quick):
    for lacking, names, said in (
        ({"estimator": "gb", "retrain": ScoredNetwork.IMAGES, "t": 0.9}, {"gb"}, "gb at t = 0.9"),
        ({"estimator": "random"}, None, "random at t = 0.5, 0.9"),
        ({"estimator": CLEAN}, None, "the untouched images at t = 0"),
    ):
        rows = make_contents(remove_rows(quick, **lacking)).rows
        gone = [row for row in rows if not row.place]
        assert {row.id for row in gone} == (names or {row.id for row in rows})
        assert find_reasons(gone) == {f"no result yet of {said}"}
        assert all(row.value == Estimate() for row in gone) and rows[-1] in gone
    mixed = set_checksums(quick, lambda point: ("b" if point.cell.estimator == "grad" else "a") * 64)
    gone = [row for row in make_contents(mixed).rows if not row.place]
    said = (
        "made from a different explained network than the other rows,"
        " or one without a recorded checksum; compute the row again in a new --store"
    )
    assert [row.id for row in gone] == ["grad"] and find_reasons(gone) == {said}
    guess = np.arange(300) < 30  # ten classes
    void = change_rows(quick, lambda point, row: set_correctness(row, guess) if point.cell.estimator == CLEAN else row)
    shown, gap = make_contents(void), "at chance, tests the installation only"
    assert shown.headline == "" and gap.split(", ")[1] in shown.title
    assert {(row.place, row.beating) for row in shown.rows} == {(None, None)} and find_reasons(shown.rows) == {gap}
    alone = make_contents(remove_rows(void, estimator="random"))
    assert find_reasons(alone.rows) == {gap}, "a further run would give no rank"


def test_display_names_are_unique():
    """Those of submissions differ from built-in estimators, other versions of the file, and other parameters."""
    names = [name for name, row in ESTIMATORS.items() if row.has_own_row]
    names += ["ig(baseline=mean)", "rise(samples=8000)", "grad@89abcdef"]
    names += [f"grad@0123abcd{tail}" for tail in ("", "~trusted", "(a=1)", "(a=2)", "(a=1,b=x)~trusted~cuda")]
    found = {name: find_display_name(name) for name in names}
    assert len(set(found.values())) == len(found)
    assert found["grad@0123abcd(a=1)"] == ("grad", "submission 0123abcd, a 1")
    assert found[names[-1]].detail == "submission 0123abcd, a 1, b x, trusted, cuda"
    assert find_display_name("ig(baseline=mean)") == ("Integrated Gradients", "from the mean")
    assert find_display_name("input-x-grad@0123abcd") == ("input-x-grad", "submission 0123abcd")
    assert find_display_name("nobody <b>") == ("nobody <b>", "")


@pytest.mark.parametrize("values", [[], [0.0], [-3.2, 25.1], [0.001, 0.002], [-80.0, 4.0], [12.0, 12.0]])
def test_axis_contains_every_value_and_zero_with_few_ticks(values):
    axis = make_linear_axis(values)
    assert all(0 <= axis.to_percent(value) <= 100 for value in [*values, 0.0]) and 1 <= len(axis.ticks) <= 8
    assert axis.low <= min([*values, 0.0]) and axis.high >= max([*values, 0.0]) and 0.0 in axis.ticks


OTHER, OWN = "right with the other mask alone", "right with its own mask alone"
COUNTED = {
    "roar": ("wrong answers", ""),
    "kar": ("right answers", ""),
    "matched": (OTHER, OWN),
}


@pytest.mark.parametrize("name", COUNTED)
def test_compare_rows_matches_counts_by_loops(name):
    """The differences between counts equal those of gains or accuracies at each level."""
    protocol = SHOWN[name]
    rows = ("random", "sobel", "random-blurred", "grad", "var-grad")
    results = make_suite_results(replace(SUITE, blocks=(Block(protocol, rows, LEVELS, seeds=2),)))

    def answers(estimator, t):
        """Return the correctness of all networks, one after the other."""
        made = results.results.items()
        return [bit for at, row in made if (at.cell.estimator, at.cell.t) == (estimator, t) for bit in row.correctness]

    found = compare_rows(judge_suite(results), protocol, Unit.SCALAR, "var-grad", "grad")
    assert tuple(level.t for level in found.levels) == LEVELS and found.gain.low is not None
    assert found.counted == COUNTED[name]
    for level in found.levels:
        for estimator, count in (("var-grad", level.first), ("grad", level.second)):
            own = answers(estimator, level.t)
            second = f"{estimator}~{protocol.twin_kind}" if protocol.compares_with_other_image else "random"
            removed_first = protocol.order is Order.MORF
            other = answers(second, level.t) if protocol.random_is_zero else [removed_first] * len(own)
            taken = sum(before and not right for right, before in zip(own, other, strict=True))
            given = sum(right and not before for right, before in zip(own, other, strict=True))
            assert (count.gained, count.against) == ((taken, given) if removed_first else (given, taken))
        assert level.difference.value == pytest.approx(level.first.net_points - level.second.net_points)


def test_compare_rows_subtracts_0_where_random_gain_is_0_by_construction(monkeypatch):
    rows = ("random", "sobel", "random-blurred", "grad")
    results = make_suite_results(replace(SUITE, blocks=(Block(SHOWN["matched"], rows, LEVELS, seeds=2),)))
    draws = judge_suite(results)
    gains = {name: area.value for name, area in draws.main_gains.gains.items()}
    assert gains["random"] != 0
    compared = compare_rows(draws, SHOWN["matched"], Unit.SCALAR, "random", "grad")
    monkeypatch.setattr(Judge, "compare", lambda *_: None)  # as for networks at chance
    without_verdict = compare_rows(draws, SHOWN["matched"], Unit.SCALAR, "random", "grad")
    assert compared.gain.value == without_verdict.gain.value == -gains["grad"]
    names = {"random": "Random", "grad": "grad"}
    assert describe_subtraction(SHOWN["matched"], names) == "0 (Random's gain by construction) - grad"
    assert describe_subtraction(SHOWN["roar"], names) == "Random - grad"


@pytest.mark.parametrize("protocol", [OWN_NETWORK, OWN_NETWORK_LERF], ids=lambda each: each.name)
def test_compare_rows_matches_counts_by_loops_for_own_network_gain(protocol):
    """Counts compare a network's own map with every other network's map, on images that all networks agree on."""
    suite = replace(SUITE, references=3, blocks=(Block(protocol, ("random", "grad", "var-grad"), LEVELS, seeds=1),))
    results = make_suite_results(suite)
    made = {
        (at.cell.estimator, at.cell.t, *divmod(at.seed, MAX_COMPARED_NETWORKS)): row.correctness
        for at, row in results.results.items()
    }
    numbers = range(3)
    agreed = np.all([made[CLEAN, 0.0, i, j] for i in numbers for j in numbers], axis=0)
    assert 0 < agreed.sum() < len(agreed)
    draws = judge_suite(results)
    found = compare_rows(draws, protocol, Unit.SCALAR, "var-grad", "grad")
    own, other = "kept with its own mask alone", "kept with another network’s mask alone"
    removed_first = protocol.order is Order.MORF
    assert found.counted == ((other, own) if removed_first else (own, other))
    assert tuple(level.t for level in found.levels) == LEVELS
    board = draws.make_board(protocol, Unit.SCALAR, suite.estimators_with_own_row)
    gains = {row.estimator: row.gain.value for row in board.rows}
    for name, counts in (("var-grad", [x.first for x in found.levels]), ("grad", [x.second for x in found.levels])):
        for t, count in zip(LEVELS, counts, strict=True):
            by_other = by_own = 0
            for i, j in product(numbers, numbers):
                if i != j:
                    under, kept = made[name, t, i, j][agreed], made[name, t, j, j][agreed]
                    by_other += sum(a and not b for a, b in zip(under, kept, strict=True))
                    by_own += sum(b and not a for a, b in zip(under, kept, strict=True))
            assert (count.gained, count.against) == ((by_other, by_own) if removed_first else (by_own, by_other))
            assert count.of == 6 * agreed.sum()
        assert gains[name] == pytest.approx(np.mean([count.net_points for count in counts]))
    for level in found.levels:
        assert level.difference.value == pytest.approx(level.first.net_points - level.second.net_points)
    assert found.gain.value == pytest.approx(gains["var-grad"] - gains["grad"])
    excludes_zero = not found.gain.low <= 0 <= found.gain.high
    assert (found.comparison.p <= 0.05) == excludes_zero and found.comparison.q == found.comparison.p


def test_compare_page_states_totals_of_rows_with_different_numbers_of_runs(tmp_path):
    """One of `grad`'s training runs is missing, so its predictions are fewer than those of `var-grad`."""
    for lacking, marked in (({"seed": 1}, True), ({"seed": 9}, False)):
        results = remove_rows(make_suite_results(), estimator="grad", **lacking)
        view = SuiteView(results, tmp_path)
        site = Site({view.slug: view}, list_addresses({view.slug: view}), live=True)
        page = render_page(site, make_address("compare", view.slug, first="grad", second="var-grad")).html
        levels = compare_rows(judge_suite(results), ROAR, Unit.SCALAR, "grad", "var-grad").levels
        assert {level.first.of < level.second.of for level in levels} == {marked}
        for count in (count for level in levels for count in (level.first, level.second)):
            assert (f"{count.gained:,} of {count.of:,} <small>= {count.net_points:.1f}" in page) is marked
        assert (f"Wrong answers, of {levels[0].first.of:,} predictions" in page) is not marked


def test_compare_page_shows_any_pair_and_rejects_unknown_row(views, monkeypatch):
    at = make_address("compare", suite="quick-v2", first="sobel", second="grad")
    site = Site(views, list_addresses(views))
    page, view = render_page(site, at).html, views["quick-v2"]
    judges = judge_suite(view.results)
    found = compare_rows(judges, view.headline_protocol, judges.unit, "sobel", "grad").comparison
    assert f"points: {found.verdict}." in page and "Verdicts on a row and a control are those of the tables" in page
    assert "Difference in matched gain: " in page
    assert "Predictions of each row’s own tuned copies of the same networks on the same images." in page
    assert "Right with the other mask alone" in page and page.count('class="pair"') == 1
    with pytest.raises(PageNotFound, match="no row '<i>x</i>'"):
        render_page(site, at._replace(choices=(("first", "<i>x</i>"),)))
    monkeypatch.setattr(Judge, "compare", lambda *_: None)  # as for networks at chance
    page = render_page(site, at).html
    assert "Verdicts on a row" not in page and " These pairs have no verdict. " in page


def test_ground_truth_is_judged_but_is_neither_control_nor_estimator(views):
    board = views["planted-v1"].board
    row = board.rows_by_id["truth"]
    assert row.beating and not (row.control or row.is_estimator)
    assert row.colour_class != CONTROL and row.verdict_text != KINDS[CONTROL]
    assert "2 known rankings" in " ".join(board.facts)
    page = render_page(Site(views, list_addresses(views)), make_address("board", "planted-v1")).html
    assert page.count('<small class="tag">known ranking</small>') == 2


def test_choice_is_first_option_unless_address_has_another(views):
    view = views["quick-v1"]
    assert read_choice(view, make_address("compare"), "protocol", ["roar", "kar"]) == "roar"
    assert read_choice(view, make_address("compare", protocol="kar"), "protocol", ["roar", "kar"]) == "kar"
    with pytest.raises(PageNotFound, match=r"There is no protocol 'x' in quick v1\."):
        read_choice(view, make_address("compare", protocol="x"), "protocol", ["roar"])
    with pytest.raises(PageNotFound, match=r"There is no protocol in quick v1\."):
        read_choice(view, make_address("compare"), "protocol", [])
