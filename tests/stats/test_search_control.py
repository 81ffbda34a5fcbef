"""Verdicts beside blind searches: simulated rows whose true gains are known."""

import numpy as np
import pytest

from roarbench.common.enums import Order
from roarbench.estimators.estimator import Search
from roarbench.plan.protocols import OWN_NETWORK
from roarbench.stats.board_records import RANDOM
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import Correctness
from roarbench.stats.own_network_gain import choose_search, compare_with_searches, compute_own_network_gains
from roarbench.stats.verdicts import Verdict

LENGTHS = {"search(passes=2)": 2, "search(passes=50)": 50}
SEARCHES = {name: Search(length, Order.MORF) for name, length in LENGTHS.items()}


def draw_kept(chance, own, images=400):
    """Draw predictions of five networks, kept with probability `own` under the own map, and .9 under the others."""
    share = np.where(np.eye(5, dtype=bool), own, 0.9)[:, :, None, None]
    return chance.random((5, 5, 2, images)) < share


@pytest.fixture(scope="module")
def kept():
    """True gains are about 90 - 100 own: good 40, as the searches 5 and 20, between 12, none 0, below -8."""
    chance = np.random.default_rng(4)
    own = {"search(passes=2)": 0.85, "search(passes=50)": 0.7, "good": 0.5, "between": 0.78, "none": 0.9, "below": 0.98}
    rows = {name: draw_kept(chance, share) for name, share in own.items()}
    rows["copy"] = rows["search(passes=50)"].copy()
    return rows


@pytest.fixture(scope="module")
def gains(kept):
    return {name: gain.gain for name, gain in compute_own_network_gains(kept, Order.MORF).items()}


def judge_rows(kept, passes, searches, added=()):
    scores = Correctness(tuple(kept), (0.05, 0.5), {}, submitted=frozenset(added), searches=searches)
    return Judge.from_kept(scores, OWN_NETWORK, kept, frozenset(), passes)


def find_verdicts(kept, passes, searches):
    judge = judge_rows(kept, passes, searches)
    return {name: judge.find_own_network_verdict(name) for name in kept}


@pytest.mark.parametrize(
    ("passes", "expected"),
    [
        (0, ("search(passes=2)", True)),
        (2, ("search(passes=2)", True)),
        (2.1, ("search(passes=50)", True)),
        (50, ("search(passes=50)", True)),
        (51, ("search(passes=50)", False)),
        (None, ("search(passes=50)", False)),
    ],
)
def test_row_is_compared_with_shortest_search_that_is_long_enough(passes, expected):
    assert choose_search(passes, LENGTHS) == choose_search(passes, dict(reversed(LENGTHS.items()))) == expected


def test_verdict_depends_on_passes_of_row(kept):
    """The same gain is above a search of 2 passes, and below one of 50."""
    passes = {"good": 50.0, "between": 2.0, "none": 2.0, "below": 2.0, "copy": 50.0}
    cheap = find_verdicts(kept, passes, SEARCHES)
    assert cheap == {
        "search(passes=2)": "control",
        "search(passes=50)": "control",
        "good": "explains its network",
        "between": "explains its network",
        "none": "not shown",
        "below": "opposes it",
        "copy": "no more than a search",
    }
    dear = find_verdicts(kept, passes | {"between": 3.0, "good": 51.0}, SEARCHES)
    assert (dear["between"], dear["good"]) == ("no more than a search", "above a shorter search")
    unknown = find_verdicts(kept, dict.fromkeys(passes), SEARCHES)
    assert (unknown["between"], unknown["good"]) == ("no more than a search", "above a shorter search")


def test_search_for_another_order_is_control_without_comparisons(kept):
    """It looks for other masks, so to be above it shows nothing; a search for the table's order is longer here."""
    passes = {"good": 2.0, "between": 2.0, "none": 2.0, "below": 2.0, "copy": 2.0}
    mixed = SEARCHES | {"search(passes=2)": Search(2, Order.LERF)}
    judge = judge_rows(kept, passes, mixed)
    compared = {row.estimator: row.network.search.search for row in judge.make_board().rows if row.network.search}
    assert compared == dict.fromkeys(passes, "search(passes=50)")
    assert judge.find_own_network_verdict("search(passes=2)") == "control"
    without = find_verdicts(kept, passes, {name: Search(one.passes, Order.LERF) for name, one in mixed.items()})
    assert {without[name] for name in LENGTHS} == {"control"} and without["good"] == without["copy"] == "above 0"


def test_searches_do_not_change_comparison_with_0(kept):
    """Searches have small p values, beside which a larger p value of a row would be called significant."""
    rows = {name: bits for name, bits in kept.items() if name not in LENGTHS}
    alone, beside = find_verdicts(rows, {}, {}), find_verdicts(kept, {}, SEARCHES)
    for name, verdict in alone.items():
        assert (beside[name] in ("not shown", "opposes it")) == (verdict in ("not shown", "opposes it"))
    assert alone["copy"] == "above 0"  # without a search, no row is shown to explain its network


def test_gain_over_search_is_paired(gains):
    """A copy of the search has a difference of exactly 0, without spread and so without interval."""
    found = compare_with_searches(gains, {"copy": 50.0, "good": 50.0}, LENGTHS)
    assert found["copy"].comparison == (Verdict.SAME, 1.0, 1.0, (0.0, None, None))
    expected = gains["good"].value - gains["search(passes=50)"].value
    assert found["good"].comparison.difference.value == pytest.approx(expected)
    assert compare_with_searches(gains, {"copy": 50.0}, {}) == {}


@pytest.mark.parametrize("added", [(), ("search(passes=50)",)])
def test_added_search_is_control_of_all_rows(kept, gains, added):
    """A search that was added to a suite is a control of all rows, which are adjusted as beside the suite's own."""
    passes = {"good": 50.0, "between": 2.0, "none": 2.0, "below": None, "copy": 50.0}
    rows = judge_rows(kept, passes, SEARCHES, added).make_board().rows
    assert {row.estimator: row.network.verdict for row in rows} == find_verdicts(kept, passes, SEARCHES)
    compared = compare_with_searches(gains, passes, LENGTHS)
    for row in rows:
        assert row.network.search == compared.get(row.estimator)
        if row.network.search:
            assert row.against[row.network.search.search] == row.network.search.comparison


def test_row_compares_with_0_if_search_is_incomplete(kept):
    """A suite lists a search whose results are missing."""
    complete = {"good": kept["good"]}
    scores = Correctness(("good", *LENGTHS), (0.05, 0.5), {}, searches=SEARCHES)
    board = Judge.from_kept(scores, OWN_NETWORK, complete, frozenset(), {"good": 2.0}).make_board()
    good, *searches = board.rows
    assert (good.network.verdict, good.network.search) == ("above 0", None)
    assert [row.network for row in searches] == [None, None]


def test_searches_do_not_change_p_values_beside_0(kept):
    """Beside the small p values of searches, a larger p value of a row would be called significant."""
    alone, beside = (
        judge_rows(rows, {}, SEARCHES)
        for rows in ({name: bits for name, bits in kept.items() if name not in LENGTHS}, kept)
    )
    for name in ("good", "between", "none"):
        assert beside.comparisons[name, RANDOM].q == alone.comparisons[name, RANDOM].q


def test_comparison_with_own_search_is_adjusted_and_no_planned_one(kept):
    """The pair is in the column of rows minus searches; any other pair of rows was planned alone."""
    scores, passes = Correctness(tuple(kept), (0.05, 0.5), {}, searches=SEARCHES), {"good": 50.0, "none": 2.0}
    judge = Judge.from_kept(scores, OWN_NETWORK, kept, frozenset({"none"}), passes)
    long, short = reversed(LENGTHS)
    assert judge.compare("good", long) == judge.comparisons["good", long]
    assert judge.compare(long, "good").difference == judge.comparisons["good", long].difference.negative
    planned = [judge.is_planned_alone("good", other) for other in (long, short, "copy", "none")]
    assert planned == [False, True, True, False], "a row of gain 0 by construction is compared as Random"
