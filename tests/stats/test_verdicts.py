"""P values, adjusted verdicts, comparisons with all controls, and agreement of a board with its replication."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import false_discovery_control, norm

from roarbench.plan.protocols import KAR, ROAR
from roarbench.stats.board_agreement import compare_boards
from roarbench.stats.board_records import Board, IntervalScope, Row
from roarbench.stats.intervals import Estimate
from roarbench.stats.verdicts import (
    Comparison,
    ControlComparison,
    Verdict,
    adjust_by_benjamini_hochberg,
    choose_verdict,
    decide_verdicts,
    judge_comparisons,
)
from tests.helpers.known_contrasts import make_contrasts


def test_p_values_verdicts_and_intervals_follow_one_distribution():
    """A deviation of 1.96 standard errors has p = .05, and the interval then ends at 0."""
    edge = norm.ppf(0.975)
    for value in (edge - 1e-9, edge + 1e-9, -edge - 1e-9):
        (contrast,) = make_contrasts([value])
        found = judge_comparisons({"": contrast})[""]
        low, high = found.difference[1:]
        assert found.p == found.q == pytest.approx(0.05, rel=1e-7)
        assert (found.p <= 0.05) == (low > 0 or high < 0) == (found.verdict is not Verdict.SAME)
    assert judge_comparisons({"": make_contrasts([0.0], 0.0)[0]})[""].p == 1


def test_verdict_among_200_rows_requires_adjusted_significance():
    contrasts = make_contrasts([12.0] + [0.0] * 199)
    words = [found.verdict for found in judge_comparisons(dict(enumerate(contrasts))).values()]
    assert words == [Verdict.BETTER] + [Verdict.SAME] * 199
    alone, *others = make_contrasts([2.06, *[0.0] * 199])
    assert judge_comparisons({0: alone})[0].verdict is Verdict.BETTER
    many = dict(enumerate([alone, *others]))
    assert judge_comparisons(many)[0].verdict is decide_verdicts(many)[0] is Verdict.SAME


def test_added_rows_change_no_other_row_and_ignore_each_other():
    contrasts = dict(enumerate(make_contrasts([3.0, 2.3, 0.5, 2.2, 9.0])))
    own = {key: contrasts[key] for key in (0, 1, 2)}
    found = judge_comparisons(contrasts, added_rows=[3, 4])
    assert {key: found[key] for key in own} == judge_comparisons(own)
    assert decide_verdicts(contrasts, added_rows=[3, 4]) == {key: one.verdict for key, one in found.items()}
    for key in (3, 4):
        assert found[key] == judge_comparisons({**own, key: contrasts[key]})[key]


def test_q_values_equal_scipy_and_verdict_accepts_5_percent():
    for count in (1, 2, 7, 200):
        ps = np.random.default_rng(count).random(count) ** 3
        ps[-1] = ps[0]  # a tie
        np.testing.assert_array_equal(adjust_by_benjamini_hochberg(ps), false_discovery_control(ps))
    found = [choose_verdict(difference, q) for difference, q in [(1.0, 0.05), (-1.0, 0.05), (1.0, 0.0501)]]
    assert found == [Verdict.BETTER, Verdict.WORSE, Verdict.SAME]


BETTER, WORSE, SAME = Verdict.BETTER, Verdict.WORSE, Verdict.SAME
BESIDE = {  # by row, its verdicts on two controls, with p and difference
    "yes": (True, "two", {"one": (BETTER, 0.001, 5.0), "two": (BETTER, 0.01, 3.0)}),
    "≈ two": (False, "two", {"one": (BETTER, 0.001, 4.0), "two": (SAME, 0.6, 0.5)}),
    # not shown to be above either, and below one
    "≈ one": (False, "one", {"one": (SAME, 0.3, -1.0), "two": (SAME, 0.8, 1.0)}),
    "< one": (False, "one", {"one": (WORSE, 0.001, -6.0), "two": (BETTER, 0.001, 2.0)}),
    "< two": (False, "two", {"one": (SAME, 0.4, -7.0), "two": (WORSE, 0.001, -2.0)}),  # worse than one is said first
    "≈ three": (False, "three", {"one": (SAME, 0.3, 0.5), "three": (SAME, 0.95, 2.0)}),  # p counts, not the difference
    "< three": (False, "three", {"one": (WORSE, 0.001, -2.0), "three": (WORSE, 0.001, -5.0)}),
}


@pytest.mark.parametrize("words", BESIDE)
def test_control_comparison_beats_all_only_if_better_than_each(words):
    """Verdicts do not follow from single-pair intervals: all of these exclude 0."""
    verdict, nearest, held = BESIDE[words]
    made = {name: Comparison(word, p, p, Estimate(d, d - 0.1, d + 0.1)) for name, (word, p, d) in held.items()}
    found = ControlComparison(made)
    assert (found.verdict_text, found.beats_all, found.hardest_control) == (words, verdict, nearest)
    assert found.margin_over_hardest == made[nearest].difference
    assert found.loses_to_a_control is words.startswith("<")


def make_row(name, gain, half, *words):
    """Return a row with verdicts against Random and Sobel."""
    random, sobel = (word and Comparison(word, 0.5, 0.5) for word in (*words, None, None)[:2])
    predicted = Estimate() if gain is None or half is None else Estimate(gain, gain - half, gain + half)
    empty = Estimate()
    against = {rival: found for rival, found in (("random", random), ("sobel", sobel)) if found}
    return Row(name, 3, empty, (), (), Estimate(gain), None, predict_gain=lambda: predicted, against=against)


def make_board(*rows):
    return Board(ROAR, (0.5, 0.9), rows, 3925, IntervalScope.REFERENCES)


ONE = make_board(
    make_row("random", 0.0, 0.0),
    make_row("a", 5.0, 1.0, BETTER, BETTER),
    make_row("b", 2.0, 2.0, BETTER, SAME),
    make_row("c", -1.0, 1.0, WORSE, WORSE),
    make_row("gone", 9.0, 1.0, BETTER, BETTER),
)
OTHER = make_board(
    make_row("new", 3.0, 1.0, BETTER, BETTER),
    make_row("c", 0.5, 2.0, SAME, WORSE),
    make_row("b", 3.5, 1.0, WORSE, BETTER),
    make_row("a", 4.0, 1.0, BETTER, BETTER),
    make_row("random", 0.0, 0.0),
    make_row("gone", None, None),
)


def test_compare_boards_matches_manual_counts():
    """a: 4 in 5 ± 1 and 5 in 4 ± 1. b: 3.5 in 2 ± 2, 2 not in 3.5 ± 1. c: .5 not in -1 ± 1, -1 in .5 ± 2."""
    found = compare_boards(ONE, OTHER)
    assert [one.estimator for one in found.rows] == ["random", "a", "b", "c"]
    inside = [(one.inside, one.inside_again) for one in found.rows]
    assert inside == [(None, None), (True, True), (True, False), (False, True)]
    assert (found.gains, found.inside) == (6, 4)
    # a and a, b opposed against Random, b beyond Sobel on one alone, c lost against Random, c and c
    assert (found.verdicts, found.equal, found.opposed) == (6, 3, 1)
    assert found.rows[2].verdicts == (("random", BETTER, WORSE), ("sobel", SAME, BETTER))
    # random, a, b, c: 0, 5, 2, -1 and 0, 4, 3.5, .5: of six pairs random and c alone are turned
    assert found.tau == pytest.approx(4 / 6)


def test_compare_boards_has_no_tau_of_equal_gains_and_rejects_other_settings():
    level = make_board(*(make_row(name, 1.0, None) for name in "abc"))
    assert compare_boards(level, level).tau is None
    for other in (replace(ONE, protocol=KAR), replace(ONE, levels=(0.9,)), replace(ONE, images=100)):
        with pytest.raises(ValueError, match="must be equal"):
            compare_boards(ONE, other)
