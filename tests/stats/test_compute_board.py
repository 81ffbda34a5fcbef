"""Boards: completeness of curves, signs of gains, comparisons of rows, and independence of rows from submissions."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.plan.protocols import KAR, MATCHED, MORF, ROAR
from roarbench.report.paper_claims import compute_curve_gain
from roarbench.stats.board_records import RANDOM, IntervalScope, drop_ranks_and_verdicts
from roarbench.stats.compute_board import Judge
from roarbench.stats.correctness_and_gain import (
    UNTOUCHED,
    Correctness,
    compute_trapezoid_weights,
    list_trapezoid_weights,
)
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.variance_components import estimate_variance_components
from roarbench.stats.verdicts import Verdict, judge_comparisons
from tests.helpers.boards import compute_board

IMAGES = 600
STRENGTHS = {"random": 0.0, "sobel": 0.4, "good": 1.5, "bad": -1.2, "same": 0.0, "weak": 0.15}
MAIN = ("random", "sobel", "good", "bad", "same")


def synthetic(seeds, names=MAIN, levels=(0.5, 0.9)):
    """A board on which `good` falls fastest and `bad` slowest; every cell has its own luck."""
    difficulty = np.random.default_rng(0).normal(size=IMAGES)
    correct = {}
    for point in (UNTOUCHED, *((name, t) for name in names for t in levels)):
        name, t = point
        generator = np.random.default_rng([ord(letter) for letter in name] + [round(100 * t)])
        hidden = difficulty + 0.5 * generator.normal(size=(seeds, IMAGES)) + 0.03 * generator.normal(size=(seeds, 1))
        correct[point] = hidden > -1.0 + t * (1 + STRENGTHS.get(name, 0.0))
    return Correctness(names, levels, correct)


def row(judged, name):
    return next(one for one in judged.rows if one.estimator == name)


def explain_one_network(scores):
    """Let all rows but the controls explain one network."""
    points = [point for point in scores.correct if point[0] not in (UNTOUCHED[0], "random", "sobel")]
    return replace(scores, references={point: ("r0",) * len(scores.correct[point]) for point in points})


def test_board_recovers_verdicts_ranks_and_gains_of_synthetic_rows():
    judged = compute_board(synthetic(3), ROAR)
    words = {one.estimator: one.vs_random.verdict for one in judged.rows if one.vs_random}
    assert words == {"sobel": Verdict.BETTER, "good": Verdict.BETTER, "bad": Verdict.WORSE, "same": Verdict.SAME}
    places = {one.estimator: one.place[:3] for one in judged.rows}
    assert (places["good"], places["sobel"], places["bad"]) == ((1, 1, 1), (2, 2, 2), (5, 5, 5))
    assert {places["random"], places["same"]} == {(3, 3, 4), (4, 3, 4)}
    assert row(judged, "random").gain == (0.0, None, None)  # by definition
    assert "sobel" not in row(judged, "sobel").against and "sobel" in row(judged, "random").against
    assert (judged.covers, judged.images) == (IntervalScope.BOTH, IMAGES)


def test_row_numbers_match_loops_with_upper_bounds_at_most_1():
    scores = synthetic(2)
    good = row(compute_board(scores, ROAR), "good")
    mean = {point: sum(float(bit) for bit in bits.ravel()) / bits.size for point, bits in scores.correct.items()}
    assert (good.seeds, good.clean.value) == (2, pytest.approx(mean[UNTOUCHED], rel=1e-12))
    good_area, random_area = (
        (0.5 * (mean[UNTOUCHED] + mean[name, 0.5]) / 2 + 0.4 * (mean[name, 0.5] + mean[name, 0.9]) / 2) / 0.9
        for name in ("good", "random")
    )
    assert good.gain.value == pytest.approx(100 * (random_area - good_area), rel=1e-9)
    for accuracy, difference, t in zip(good.accuracies, good.differences, scores.levels, strict=True):
        assert accuracy.value == pytest.approx(mean["good", t], rel=1e-12)
        assert difference.value == pytest.approx(mean["good", t] - mean["random", t], rel=1e-9)
    nearly = {point: np.ones_like(bits) for point, bits in scores.correct.items()}
    nearly["good", 0.5] = scores.correct["good", 0.5]
    nearly["bad", 0.5][0, :3] = False
    high = row(compute_board(replace(scores, correct=nearly), ROAR), "bad").accuracies[0].high
    assert nearly["bad", 0.5].mean() < high < 1.0


def test_missing_cell_leaves_gain_rank_and_verdicts_empty():
    scores, exchanged = synthetic(2), make_paired_scores()
    del scores.correct["good", 0.9]
    judged = compute_board(scores, ROAR)
    good = row(judged, "good")
    assert good.gain == good.accuracies[1] == good.differences[1] == (None, None, None)
    assert (good.place, good.against, good.seeds) == (None, {}, 0)
    assert good.accuracies[0].low is not None
    assert sorted(one.place.place for one in judged.rows if one.place) == [1, 2, 3, 4]
    for left in (exchanged.differences.correct, exchanged.differences.references):
        del left["good", 0.9]  # its paired answers
    judged = compute_board(exchanged, MATCHED)
    assert row(judged, "good").gain.value is None and row(judged, "good").accuracies[1].value is not None
    assert row(judged, "bad").gain.value is not None


def test_single_training_row_has_intervals_from_pooled_variance_only():
    judged = compute_board(synthetic(1), ROAR)
    good = row(judged, "good")
    assert judged.covers is IntervalScope.NOTHING
    assert good.gain.value is not None and good.gain.low is None and good.accuracies[0].high is None
    assert good.vs_random is None and good.place == RankInterval(1)
    judged = compute_board(synthetic(1), ROAR, estimate_variance_components([synthetic(4)]))
    one, four = row(judged, "good").gain, row(compute_board(synthetic(4), ROAR), "good").gain
    assert judged.covers is IntervalScope.BOTH and one.high - one.low > four.high - four.low


@pytest.mark.parametrize(
    ("networks", "covers"), [(("r0", "r1"), IntervalScope.NETWORKS), (("r0",), IntervalScope.IMAGES)]
)
def test_intervals_without_training_cover_images_and_networks(networks, covers):
    scores = synthetic(len(networks))
    judged = compute_board(replace(scores, references=dict.fromkeys(scores.correct, networks)), MORF)
    assert (judged.covers, judged.one_network) == (covers, len(networks) == 1)
    assert row(judged, "good").vs_random.verdict is Verdict.BETTER
    assert (row(judged, "good").predicted.low is None) is (covers is IntervalScope.IMAGES)


def test_shown_rows_filter_keeps_row_numbers():
    scores = synthetic(2)
    whole = compute_board(scores, ROAR)
    shown = compute_board(scores, ROAR, shown_rows=("bad", "good"))
    assert shown.rows == (row(whole, "good"), row(whole, "bad")) and row(whole, "bad").place.place == 5
    # three rows against Random; Sobel, a control, is in a column of its own
    assert replace(shown, rows=()) == replace(whole, rows=()) and whole.family == 3


@pytest.mark.parametrize("seeds", [1, 2])
def test_submitted_row_rank_is_flagged_and_moves_no_suite_row(seeds):
    """Two submitted copies of the best row share rank 1; the last row of the suite keeps its rank."""
    names = (*MAIN, "added-1", "added-2")
    scores = synthetic(seeds, names)
    copies = {(name, t): scores.correct["good", t] for name in names[-2:] for t in scores.levels}
    scores = replace(scores, correct={**scores.correct, **copies}, submitted=frozenset(names[-2:]))
    found = {each.estimator: each.place for each in compute_board(scores, ROAR).rows}
    assert {name for name, place in found.items() if place.added} == {"added-1", "added-2"}
    assert (found["added-1"].place, found["added-2"].place, found["bad"].place) == (1, 1, len(MAIN))


def test_rows_are_adjusted_together_beside_an_added_control():
    """An added control joins with its whole column: q is that of a suite with this control; it was p of each row."""
    scores = synthetic(3, (*MAIN, "weak"))
    own, spread = compute_board(scores, ROAR), estimate_variance_components([scores])
    assert row(own, "weak").vs_random.q == row(own, "weak").vs_random.p * 4 / 3  # third of four rows
    for control in ("sobel", RANDOM):
        added = compute_board(replace(scores, submitted=frozenset({control})), ROAR, spread)
        assert added.family == own.family
        for name in ("good", "bad", "same", "weak"):
            assert row(added, name).against[control] == row(own, name).against[control]


def test_sanity_check_rows_have_gains_and_leave_other_rows_unchanged():
    scores = explain_one_network(synthetic(2, (*MAIN, "best~blurred", "another~blurred")))
    spread = estimate_variance_components([scores])
    judged = compute_board(replace(scores, checks=frozenset(scores.estimators) - {*MAIN}), ROAR, spread)
    alone = compute_board(replace(scores, estimators=MAIN), ROAR, spread)
    assert judged.rows[: len(MAIN)] == alone.rows
    for check in judged.rows[len(MAIN) :]:
        assert check.check and check.gain.low is not None
        assert (check.place, check.against) == (None, {})
    together = compute_board(scores, ROAR, spread)
    assert row(together, "same").place != row(alone, "same").place  # as rows they would have changed it


def test_row_is_compared_with_other_image_variant():
    twin = "good~other-image"
    scores = replace(synthetic(2, (*MAIN, twin)), checks=frozenset({twin}))
    judged = compute_board(scores, ROAR)
    good = row(judged, "good")
    difference = good.delta_twins["other-image"]
    assert difference.value == pytest.approx(good.gain.value - row(judged, twin).gain.value) and difference.low > 0
    assert good.get_twin_comparison("other-image").verdict is Verdict.BETTER
    for name in ("random", "sobel", "bad", twin):
        assert (row(judged, name).delta_twins, row(judged, name).get_twin_comparison("other-image")) == ({}, None)
    alone = compute_board(replace(scores, estimators=MAIN), ROAR, estimate_variance_components([scores]))
    assert judged.family == alone.family
    assert not any(one.against for one in drop_ranks_and_verdicts(judged).rows)


def make_judge(scores, protocol=ROAR):
    spread = estimate_variance_components([scores.differences or scores])
    return Judge.from_scores(scores, protocol, spread)


@pytest.mark.parametrize(("scores", "protocol"), [(synthetic(3, (*MAIN, "good~untrained")), ROAR), (None, MATCHED)])
def test_judge_compare_matches_board_verdict_in_both_directions(scores, protocol):
    """A board holds verdicts against controls and variants; any other pair was planned alone."""
    scores = replace(scores or make_paired_scores(), model_free_controls=frozenset({"random", "sobel", "bad"}))
    scores = replace(scores, checks=frozenset(name for name in scores.estimators if "~" in name))
    judged, judging = compute_board(scores, protocol), make_judge(scores, protocol)
    for one in judged.rows:
        for rival, found in one.against.items():
            assert judging.compare(one.estimator, rival) == found, (one.estimator, rival)
            again = judging.compare(rival, one.estimator)
            # two controls are compared in the columns of both, beside other rows
            if again.q == found.q:
                assert again == found.reversed
            else:
                assert {one.estimator, rival} <= scores.model_free_controls and again.p == found.p
            assert again.difference.value == -found.difference.value
        for control, found in one.beating.against.items() if one.beating else ():
            assert one.against[control] == found
    against = {one.estimator: one.against[RANDOM].verdict for one in judged.rows if RANDOM in one.against}
    decided = {name: one.verdict for name, one in judging.list_gains().items() if one.verdict}
    assert decided == against and {*decided.values()} > {Verdict.SAME}
    other = "same" if protocol is ROAR else "idle"
    expected = judge_comparisons({"": judging.subtract_gain("good", other)})[""]
    assert judging.compare("good", other) == expected and expected.p == expected.q
    assert judging.compare(other, "good") == judging.compare("good", other).reversed
    assert judging.compare("good", "good") is None and judging.compare("good", "nobody") is None


def test_submitted_rows_leave_numbers_of_all_other_rows_unchanged():
    """A strong row and twenty constant rows leave the other numbers equal, to the bit."""
    names = tuple(f"stranger-{number}" for number in range(21))

    def judged(*strangers):
        scores = synthetic(3, (*MAIN, *strangers))
        fixed = {at: np.repeat(bits[:1], 3, 0) for at, bits in scores.correct.items() if at[0] in names[1:]}
        scores = replace(scores, correct=scores.correct | fixed, submitted=frozenset(strangers))
        explained = [point for point in scores.correct if point[0] not in (UNTOUCHED[0], "random", "sobel")]
        scores = replace(scores, references=dict.fromkeys(explained, ("r0", "r1", "r2")))
        return compute_board(scores, ROAR)

    alone, one, every = judged(), judged(names[0]), judged(*names)
    assert alone.rows == one.rows[: len(MAIN)] == every.rows[: len(MAIN)]
    ranks = [[each.place for each in found.rows[: len(MAIN)]] for found in (alone, one, every)]
    assert ranks[0] == ranks[1] == ranks[2]
    before, after = (row(found, names[0]) for found in (one, every))
    assert (before.vs_random, before.gain, before.place) == (after.vs_random, after.gain, after.place)
    assert alone.family == every.family == 3
    assert (alone.covers, alone.one_network) == (IntervalScope.REFERENCES, False)
    assert (alone.references, alone.reference_rows) == (3, 3) and every.reference_rows == 3
    assert alone.reference_deviation is not None and 2 <= alone.reference_freedom <= 3 * 2


def test_verdict_over_all_controls_requires_complete_controls():
    scores = replace(synthetic(3, (*MAIN, "weak")), model_free_controls=frozenset({"random", "bad", "weak"}))
    found = {one.estimator: one.beating for one in compute_board(scores, ROAR).rows}
    assert {name for name, beating in found.items() if beating is None} == scores.model_free_controls
    assert found["sobel"].beats_all and found["sobel"].hardest_control == "weak"  # Sobel is no control here
    del scores.correct["weak", 0.9]
    assert {one.beating for one in compute_board(scores, ROAR).rows} == {None}


SEEDS, LEVELS = 3, (0.5, 0.9)
KNOWS = {"random": 0.0, "sobel": -0.05, "good": 0.06, "bad": -0.08, "idle": 0.0}  # accuracy that the map costs


def make_paired_scores(luck=0.05, random_luck=0.0):
    """Return correctness with a row's own removal mask and with another image's; all share a network's luck.

    `random_luck` is the accuracy that Random's own map costs by chance.
    """
    generator = np.random.default_rng(1)
    difficulty = generator.uniform(size=IMAGES)
    networks = luck * generator.normal(size=(SEEDS, 1))
    own, differences = {UNTOUCHED: difficulty < 0.9 + networks}, {UNTOUCHED: np.zeros((SEEDS, IMAGES), np.int8)}
    for name, knows in KNOWS.items():
        costs = knows + (random_luck if name == RANDOM else 0.0)
        for t in LEVELS:
            noise = 0.03 * generator.normal(size=(2, SEEDS, IMAGES))
            other = difficulty < 0.8 - t / 2 + networks + noise[0]
            own[name, t] = difficulty < 0.8 - t / 2 - costs + networks + noise[1]
            differences[name, t] = own[name, t].astype(np.int8) - other
    explained = {(name, t): ("A", "B", "C") for name in ("good", "bad", "idle") for t in LEVELS}
    held, against = (Correctness(tuple(KNOWS), LEVELS, cells, references={**explained}) for cells in (own, differences))
    return replace(held, differences=against)


def test_matched_gain_equals_area_of_differences():
    scores = make_paired_scores()
    judged = compute_board(scores, MATCHED)
    for name in KNOWS:
        at = [float(scores.differences.correct[name, t].mean()) for t in LEVELS]
        area = -100 * (0.5 * (0 + at[0]) / 2 + 0.4 * (at[0] + at[1]) / 2) / 0.9
        assert row(judged, name).gain.value == pytest.approx(area, abs=1e-12)
        assert [one.value for one in row(judged, name).differences] == pytest.approx(at)
        own = [float(scores.correct[name, t].mean()) for t in LEVELS]
        assert [one.value for one in row(judged, name).accuracies] == pytest.approx(own)


def test_matched_verdict_ignores_training_noise_and_gain_of_random():
    """Training noise widens intervals of accuracies but not of differences between one network's answers.

    Random's matched gain is 0 by construction: its measured gain is shown and enters no comparison.
    """
    calm, lucky = (compute_board(make_paired_scores(luck), MATCHED) for luck in (0.0, 0.08))
    for name in ("good", "bad", "idle"):
        wide, narrow = (row(judged, name).gain for judged in (lucky, calm))
        assert wide.high - wide.low < 1.6 * (narrow.high - narrow.low)
        wide, narrow = (row(judged, name).accuracies[0] for judged in (lucky, calm))
        assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    lucky = compute_board(make_paired_scores(random_luck=0.05), MATCHED)
    calm = compute_board(make_paired_scores(), MATCHED)
    assert row(lucky, RANDOM).gain.value == pytest.approx(row(calm, RANDOM).gain.value + 3.6, abs=1.0)
    for one, other in ((row(calm, name), row(lucky, name)) for name in ("good", "bad", "idle")):
        assert (one.vs_random.verdict, one.gain.value) == (other.vs_random.verdict, other.gain.value)
    # a gain of Random that differs from 0 is found, because it makes the table doubtful
    verdicts = [row(judged, RANDOM).against["0"].verdict for judged in (calm, lucky)]
    assert verdicts == [Verdict.SAME, Verdict.BETTER]
    assert row(lucky, RANDOM).against["0"].difference == row(lucky, RANDOM).gain


@pytest.mark.parametrize("protocol", [ROAR, MATCHED])
def test_board_of_a_single_image_has_values_without_evidence(protocol):
    """One image has no noise of single images to subtract; a division by 0 ended every command."""
    scores = make_paired_scores()

    def take_first(part):
        return replace(part, correct={at: bits[:, :1] for at, bits in part.correct.items()}, differences=None)

    scores = replace(take_first(scores), differences=protocol is MATCHED and take_first(scores.differences) or None)
    judged = compute_board(scores, protocol)
    random, good = (float((scores.differences or scores).correct[name, 0.9].mean()) for name in (RANDOM, "good"))
    assert row(judged, "good").differences[1] == (
        pytest.approx(good - (0 if protocol is MATCHED else random)),
        None,
        None,
    )
    assert {c.verdict for each in judged.rows for c in each.against.values()} == {Verdict.SAME}
    assert {each.place[1:3] for each in judged.rows if each.place} == {(1, len(judged.rows))}


def test_row_compared_with_itself_is_left_out_of_training_variance():
    """A row whose two masks are equal differs by 0 in every draw, which is no sign of a small variance."""
    scores = make_paired_scores()
    zeros = {(RANDOM, t): np.zeros((SEEDS, IMAGES), np.int8) for t in LEVELS}
    itself = replace(scores.differences, correct={**scores.differences.correct, **zeros})
    assert row(compute_board(replace(scores, differences=itself), MATCHED), RANDOM).gain == (0.0, None, None)
    without = {at: bits for at, bits in itself.correct.items() if at[0] not in (RANDOM, "none")}
    part = replace(itself, correct=without)
    kept, fewer = (estimate_variance_components([each]).trainings for each in (itself, part))
    assert kept.variance == fewer.variance
    assert kept.freedom == fewer.freedom == (SEEDS - 1) * len(LEVELS)  # Sobel's


def test_gain_needs_a_cell_for_every_level():
    bits = np.ones((2, 5), dtype=bool)
    cells = {UNTOUCHED: bits, **{(name, t): bits for name in (RANDOM, "grad") for t in (0.5, 0.9)}}

    def compute_value(correct):
        return compute_board(Correctness((RANDOM, "grad"), (0.5, 0.9), correct), ROAR).rows[1].gain.value

    assert compute_value(cells) == 0
    for missing in cells:
        assert compute_value({point: bits for point in cells if point != missing}) is None
    assert Correctness((), (0.5,), {}).images == 0


@pytest.mark.parametrize(("protocol", "sign"), [(ROAR, 1), (KAR, -1)])
def test_gain_matches_manual_trapezoids_with_sign_of_order(protocol, sign):
    """Leads of 0, 20 and 10 points at t = 0, .5 and .9: (.5 * (0 + 20) / 2 + .4 * (20 + 10) / 2) / .9 = 11 / .9."""
    shares = {UNTOUCHED: 8, ("grad", 0.5): 4, ("grad", 0.9): 2, (RANDOM, 0.5): 6, (RANDOM, 0.9): 3}
    correct = {point: np.arange(10)[None] < share for point, share in shares.items()}
    board = compute_board(Correctness((RANDOM, "grad"), (0.5, 0.9), correct), protocol)
    assert [one.gain.value for one in board.rows] == pytest.approx([0, sign * 11 / 0.9])
    if protocol is ROAR:
        curve, random = ({0.0: 0.8} | {t: shares[name, t] / 10 for t in (0.5, 0.9)} for name in ("grad", RANDOM))
        assert compute_curve_gain(curve, random) == pytest.approx(11 / 0.9)


def test_equal_gains_share_a_rank():
    """Two rows lose the same answers in another order: floats of their areas would differ in the last bit."""
    levels = (0.1, 0.3, 0.5, 0.7, 0.9)
    right = {"random": (0, 0, 0, 0, 0), "one": (0, 0, 0, 0, 2), "other": (0, 0, 0, 1, 0)}
    weights = list_trapezoid_weights((0.0, *levels))[1:]
    assert [float(w) for w in weights] == compute_trapezoid_weights((0.0, *levels)).tolist()[1:]
    assert sum(w * n for w, n in zip(weights, right["one"], strict=True)) == sum(
        w * n for w, n in zip(weights, right["other"], strict=True)
    )
    correct = {UNTOUCHED: np.ones((1, 11), bool)}
    for name, counts in right.items():
        correct |= {(name, t): np.arange(11)[None] >= count for t, count in zip(levels, counts, strict=True)}
    found = {
        one.estimator: one.place.place for one in compute_board(Correctness(tuple(right), levels, correct), ROAR).rows
    }
    assert found == {"one": 1, "other": 1, "random": 3}


def test_certain_controls_change_no_verdict_of_rows():
    """Controls that surely differ from Random would otherwise raise the threshold of all rows."""
    scores = replace(synthetic(3, (*MAIN, "weak")), model_free_controls=frozenset({"random", "sobel"}))
    sure = {(f"sure-{n}", t): np.zeros_like(scores.correct["good", t]) for n in range(8) for t in scores.levels}
    names = {name for name, _ in sure}
    many = replace(
        scores,
        estimators=(*scores.estimators, *sorted(names)),
        correct={**scores.correct, **sure},
        model_free_controls=scores.model_free_controls | names,
    )
    spread = estimate_variance_components([scores])
    one, other = (compute_board(each, ROAR, spread) for each in (scores, many))
    for name in ("good", "bad", "same", "weak"):
        assert row(one, name).vs_random == row(other, name).vs_random
    assert all(row(other, name).vs_random.verdict is Verdict.BETTER for name in names)
