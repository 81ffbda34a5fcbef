"""Contents of boards and comparisons of two rows equal the statistics; pages name orders and levels."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from leaderboard.board_contents import make_linear_axis
from leaderboard.build_board_contents import make_board_contents
from leaderboard.links import PageNotFound, Site, make_address
from leaderboard.render import list_addresses, render_page
from leaderboard.views import sort_for_display
from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.row_comparison import compare_rows
from roarbench.common.enums import Order, ScoredNetwork, Unit
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import KAR, OWN_NETWORK, OWN_NETWORK_LERF, ROAR, SHOWN
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, Block
from roarbench.plan.suites import SUITES
from roarbench.report.table import make_table
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from roarbench.store.results import UNVERIFIED, Origin
from tests.helpers.board_store import make_store, open_views
from tests.helpers.command_line import publish
from tests.helpers.made_up import LEVELS, SUITE, limit_to_one_seed, make_suite_results
from tests.helpers.store_rows import change_rows, remove_rows, set_checksums, set_correctness


def make_contents(results, protocol=ROAR, levels=()):
    draws = SuiteDraws.of(results, Bootstrap(200))
    table = make_table(draws, protocol, results.suite.estimators_with_own_row, levels=levels)
    return make_board_contents(draws, table)


@pytest.fixture(scope="module")
def quick(views):
    return views["quick-v1"].results


@pytest.mark.parametrize(("protocol", "levels"), [("roar", (0.9,)), ("kar", ()), ("lerf", ()), ("diffroar", ())])
def test_board_contents_equal_numbers_of_statistics(quick, protocol, levels):
    draws, rows = SuiteDraws.of(quick, Bootstrap(200)), quick.suite.estimators_with_own_row
    board = draws.make_board(SHOWN[protocol], Unit.SCALAR, rows, levels)
    shown = make_contents(quick, SHOWN[protocol], levels)
    assert board is not None and shown.levels == board.levels
    expected = {row.estimator: (row.gain, row.place, row.beating) for row in board.rows}
    assert {row.id: (row.value, row.place, row.beating) for row in shown.rows} == expected
    gains = [row.value.value for row in shown.rows]
    assert gains == sorted(gains, reverse=True)


def test_board_states_shared_origin_once():
    """If all rows were imported, or computed by changed code, the facts say so instead of each row."""
    found = make_suite_results()
    names, own = {point.cell.estimator for point in found.results}, make_contents(found)

    def change_code(among):
        def mark(point, row):
            changed = replace(row.provenance, code_version="0.2.0 1a2b3c4d+dirty")
            return replace(row, provenance=changed) if point.cell.estimator in among else row

        return make_contents(change_rows(found, mark))

    def list_marked(board, short):
        return {row.id for row in board.rows if short in (doubt.short for doubt in row.doubts)}

    imported = dict.fromkeys(names, UNVERIFIED[Origin.SELF_REPORTED])
    for board, fact in (
        (make_contents(replace(found, doubts=imported)), "imported, not reproduced here"),
        (change_code(names), "by code with uncommitted changes"),
    ):
        assert board.facts == (*own.facts, fact) and [row.doubts for row in board.rows] == [r.doubts for r in own.rows]
    mixed, some = make_contents(replace(found, doubts={**imported, "grad": ""})), change_code(names - {"grad"})
    assert mixed.facts == some.facts == own.facts
    assert "random" in list_marked(mixed, "run elsewhere") and "grad" not in list_marked(mixed, "run elsewhere")
    assert list_marked(some, "changed code") == {row.id for row in own.rows if row.started} - {"grad"}


def test_board_rows_exclude_variants_and_compare_with_every_control(quick):
    controls = {"random", "sobel", "random-blurred"}
    roar = make_contents(quick)
    beating = {row.id: row.beating for row in roar.rows if not row.control}
    assert beating.keys() == {"grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb"}
    assert {row.id for row in roar.rows if row.control} == controls and "6 estimators, 3 controls" in roar.facts
    assert roar.best_control and roar.best_control.id == "sobel" and roar.rows_by_id["sobel"].beating is None
    gb, sobel = roar.rows_by_id["gb"].value.value, roar.rows_by_id["sobel"].value.value
    assert beating["gb"].against["sobel"].difference.value == pytest.approx(gb - sobel)
    for word in ("levels 0.5, 0.9", "2 seeds", "300 test images", "unit scalar", "fill mean"):
        assert word in roar.caption


def test_board_has_no_gains_for_mask_only_and_no_intervals_for_one_seed(quick):
    shown = make_contents(quick, SHOWN["mask-only"])
    assert not shown.has_gains and not shown.best_control and shown.value_label == "accuracy at t = 0.9, %"
    assert {(row.place, 0 < row.value.value < 100) for row in shown.rows} == {(None, True)}
    shown = make_contents(make_suite_results(limit_to_one_seed(SUITE)))
    assert shown.headline == "" and all(row.value.low is None and row.beating is None for row in shown.rows)


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
    said = "made from a different reference than the other rows; compute the row again in a new --store"
    assert [row.id for row in gone] == ["grad"] and find_reasons(gone) == {said}
    guess = np.arange(300) < 30  # ten classes
    void = change_rows(quick, lambda point, row: set_correctness(row, guess) if point.cell.estimator == CLEAN else row)
    shown, gap = make_contents(void), "at chance, tests the installation only"
    assert shown.headline == "" and gap.split(", ")[1] in shown.title
    assert {(row.place, row.beating) for row in shown.rows} == {(None, None)} and find_reasons(shown.rows) == {gap}
    alone = make_contents(remove_rows(void, estimator="random"))
    assert find_reasons(alone.rows) == {gap}, "a further run would give no rank"


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
    "augmented": ("right with Random’s mask alone", OWN),
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

    found = compare_rows(SuiteDraws.of(results, Bootstrap(200)), protocol, Unit.SCALAR, "var-grad", "grad")
    assert tuple(level.t for level in found.levels) == LEVELS and found.gain.low is not None
    assert found.counted == COUNTED[name]
    for level in found.levels:
        for estimator, count in (("var-grad", level.first), ("grad", level.second)):
            own = answers(estimator, level.t)
            second = f"{estimator}~{protocol.twin_kind}" if protocol.compares_with_other_image else "random"
            removed_first = protocol.order is Order.MORF
            other = answers(second, level.t) if protocol.has_gain_at_each_level else [removed_first] * len(own)
            taken = sum(before and not right for right, before in zip(own, other, strict=True))
            given = sum(right and not before for right, before in zip(own, other, strict=True))
            assert (count.gained, count.against) == ((taken, given) if removed_first else (given, taken))
        assert level.difference.value == pytest.approx(level.first.net_points - level.second.net_points)


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
    draws = SuiteDraws.of(results, Bootstrap(200))
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
    assert found.gain.value == pytest.approx(gains["var-grad"] - gains["grad"]) and found.comparison is None


def test_compare_page_shows_any_pair_and_rejects_unknown_row(views, monkeypatch):
    at = make_address("compare", suite="quick-v2", first="sobel", second="grad")
    site = Site(views, list_addresses(views))
    page, view = render_page(site, at).html, views["quick-v2"]
    found = view.suite_draws.compare(view.headline_protocol, view.suite_draws.unit, "sobel", "grad")
    assert f"the first is {found.verdict}" in page and "The verdict is the same as in every table" in page
    assert "Difference in augmented gain over Random: " in page
    assert "Predictions of each row’s own tuned copies of the same networks on the same images." in page
    assert "Right with Random’s mask alone" in page and page.count('class="pair"') == 1
    with pytest.raises(PageNotFound, match="no row '<i>x</i>'"):
        render_page(site, at._replace(choices=(("first", "<i>x</i>"),)))
    monkeypatch.setattr(SuiteDraws, "compare", lambda *_: None)  # as for networks at chance
    page = render_page(site, at).html
    assert "The verdict is" not in page and " These pairs have no verdict. " in page


MOST, LEAST = "most important first", "least important first"
ROWS = ("random", "random-blurred", "grad", "sgsq-grad", "ig")
PROTOCOLS = (ROAR, OWN_NETWORK, KAR, OWN_NETWORK_LERF)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A suite with both orders, and a smaller suite on the same images with another level."""
    folder = tmp_path_factory.mktemp("orders")
    with pytest.MonkeyPatch.context() as patch:
        for name, rows, levels in (("few", ROWS[:3], (0.9,)), ("many", ROWS, (0.1, 0.5, 0.9))):
            blocks = tuple(Block(protocol, rows, levels, 2) for protocol in PROTOCOLS)
            publish(patch, suite := replace(SUITES["quick"], name=name, blocks=blocks))
            make_store(folder, suite, images=60)
        yield folder


@pytest.fixture(scope="module")
def suites_of_both_orders(folder):
    with open_views(folder) as found:
        yield dict(found)


def render(views, *at, **choices):
    """Return the text of a page between its tags, with plain spaces before percent signs."""
    page = render_page(Site(views, list_addresses(views)), make_address(*at, **choices)).html
    return re.sub("<[^>]+>", "|", page).replace("\N{NARROW NO-BREAK SPACE}%", " %")


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.name)
def test_board_headline_facts_and_caption_name_order(suites_of_both_orders, protocol):
    board = suites_of_both_orders["many-v7"].get_board(protocol)
    order = LEAST if protocol in (KAR, OWN_NETWORK_LERF) else MOST
    name = protocol.gain_name[0].upper() + protocol.gain_name[1:]
    assert board.facts[0] == f"{name}, 10, 50 and 90 % removed, {order}"
    assert order.removesuffix(" first") in board.caption
    if protocol.scores_all_network_pairs:
        assert f"({order.removesuffix(' first')} features removed first)." in board.headline
    else:
        assert board.headline.startswith(f"Under {protocol.title}, ")
    page = render(suites_of_both_orders, "board", "many-v7", protocol=protocol.name)
    assert board.facts[0] in page and f"|{board.headline}|" in page


def test_columns_and_legends_name_levels_and_order(suites_of_both_orders):
    page, overview = render(suites_of_both_orders, "board", "many-v7"), render(suites_of_both_orders, "suites")
    legends = "ROAR gain", "Own-network gain (MoRF)"
    assert all(f"|{legend}|" in text for text in (page, overview) for legend in legends)
    for asks in ("Do the pixels matter in the data?", "Does the map explain this network?"):
        assert f"|{asks} 10, 50 and 90 % removed, {MOST}|" in page
    assert overview.count("gain| |10, 50 and 90 % removed|") == 2, "a column of ROAR and one of own-network gain"
    assert f"ROAR gain: 10, 50 and 90 % removed, {MOST}; Own-network gain: 10, 50 and 90 % removed, {MOST}." in page


def test_estimator_page_names_levels_and_leads_with_larger_suite(suites_of_both_orders):
    assert [view.slug for view in sort_for_display(suites_of_both_orders.values())] == ["many-v7", "few-v7"]
    page = render(suites_of_both_orders, "estimator", estimator="grad")
    assert page.count(f"|ROAR gain (10, 50 and 90 % removed, {MOST}): ") == 1 and "(many v7).|" in page
    for text in ("ROAR, 10, 50 and 90 % removed", "ROAR, 90 % removed", "Own-network gain, 90 % removed"):
        assert page.count(f"|{text}|") == 1, text
    assert f"|many v7, ROAR, 10, 50 and 90 % removed, {MOST}: its gain minus each control’s, in points" in page
