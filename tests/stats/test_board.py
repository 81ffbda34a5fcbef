from dataclasses import replace

import numpy as np
import pytest

from roarbench.stats.board import Board, Covers, Row, board
from roarbench.stats.bootstrap import Bootstrap, seed_spread
from roarbench.stats.curves import UNTOUCHED, Bits, Point, Scores
from roarbench.stats.verdicts import Verdict
from roarbench.terms import KAR, MASK_ONLY, MORF, ROAR

IMAGES = 600
BOOTSTRAP = Bootstrap(400, seed=3)
STRENGTHS = {"random": 0.0, "sobel": 0.4, "good": 1.5, "bad": -1.2, "same": 0.0}


def synthetic(seeds: int, names: tuple[str, ...] = tuple(STRENGTHS), levels: tuple[float, ...] = (0.5, 0.9)) -> Scores:
    """A board on which `good` falls fastest and `bad` slowest; every cell has its own luck."""
    difficulty = np.random.default_rng(0).normal(size=IMAGES)
    correct: dict[Point, Bits] = {}
    for point in (UNTOUCHED, *((name, t) for name in names for t in levels)):
        name, t = point
        generator = np.random.default_rng([ord(letter) for letter in name] + [round(100 * t)])
        hidden = difficulty + 0.5 * generator.normal(size=(seeds, IMAGES)) + 0.03 * generator.normal(size=(seeds, 1))
        correct[point] = hidden > -1.0 + t * (1 + STRENGTHS.get(name, 0.0))
    return Scores(names, levels, correct)


def without(scores: Scores, *points: Point) -> Scores:
    return replace(scores, correct={point: bits for point, bits in scores.correct.items() if point not in points})


def row(judged: Board, name: str) -> Row:
    return next(one for one in judged.rows if one.estimator == name)


def test_verdicts_places_and_gains_come_out_as_built() -> None:
    judged = board(synthetic(3), ROAR, BOOTSTRAP)
    verdicts = {one.estimator: one.random.verdict if one.random else None for one in judged.rows}
    assert verdicts == {
        "random": None,
        "sobel": Verdict.BETTER,
        "good": Verdict.BETTER,
        "bad": Verdict.WORSE,
        "same": Verdict.SAME,
    }
    places = {one.estimator: one.place and one.place[:3] for one in judged.rows}
    assert (places["good"], places["sobel"], places["bad"]) == ((1, 1, 1), (2, 2, 2), (5, 5, 5))
    assert {places["random"], places["same"]} == {(3, 3, 4), (4, 3, 4)}
    assert row(judged, "random").place.groups == row(judged, "same").place.groups  # type: ignore[union-attr]
    assert row(judged, "random").gain == (0.0, 0.0, 0.0)
    assert row(judged, "sobel").sobel is None and row(judged, "random").sobel is not None
    assert judged.covers is Covers.BOTH
    assert (judged.images, judged.seed_freedom) == (IMAGES, 11 * 2)
    assert judged.detectable is not None and 0.5 < judged.detectable < 10
    assert judged.bootstrap == BOOTSTRAP


def test_numbers_of_a_row_by_loops() -> None:
    scores = synthetic(2)
    good = row(board(scores, ROAR, BOOTSTRAP), "good")
    mean = {point: sum(float(bit) for bit in bits.ravel()) / bits.size for point, bits in scores.correct.items()}
    assert good.seeds == 2
    assert good.clean.value == pytest.approx(mean[UNTOUCHED], rel=1e-12)
    area = {"good": 0.0, "random": 0.0}
    for name in area:
        curve = [mean[UNTOUCHED], mean[name, 0.5], mean[name, 0.9]]
        area[name] = (0.5 * (curve[0] + curve[1]) / 2 + 0.4 * (curve[1] + curve[2]) / 2) / 0.9
    assert good.gain.value == pytest.approx(100 * (area["random"] - area["good"]), rel=1e-9)
    for accuracy, difference, t in zip(good.accuracies, good.differences, scores.levels, strict=True):
        assert accuracy.value == pytest.approx(mean["good", t], rel=1e-12)
        assert difference.value == pytest.approx(mean["good", t] - mean["random", t], rel=1e-9)


def test_keeping_turns_the_sign() -> None:
    scores = synthetic(2)
    removed, kept = board(scores, ROAR, BOOTSTRAP), board(scores, KAR, BOOTSTRAP)
    assert [one.gain.value for one in kept.rows] == [
        -one.gain.value for one in removed.rows if one.gain.value is not None
    ]
    assert row(kept, "good").random.verdict is Verdict.WORSE  # type: ignore[union-attr]
    assert [one.accuracies for one in kept.rows] == [one.accuracies for one in removed.rows]


def test_a_missing_cell_is_missing() -> None:
    judged = board(without(synthetic(2), ("good", 0.9)), ROAR, BOOTSTRAP)
    good = row(judged, "good")
    assert good.gain == good.over_sobel == good.accuracies[1] == good.differences[1] == (None, None, None)
    assert (good.place, good.random, good.sobel, good.seeds) == (None, None, None, 0)
    assert good.accuracies[0].low is not None
    assert sorted(one.place.place for one in judged.rows if one.place) == [1, 2, 3, 4]


@pytest.mark.parametrize("gone", [UNTOUCHED, ("random", 0.5)])
def test_without_randoms_whole_curve_there_is_no_gain_at_all(gone: Point) -> None:
    judged = board(without(synthetic(2), gone), ROAR, BOOTSTRAP)
    for one in judged.rows:
        assert one.gain == (None, None, None)
        assert (one.place, one.random, one.sobel) == (None, None, None)
        assert one.accuracies[1].low is not None
    assert judged.detectable is None


def test_mask_only_needs_no_untouched_images_to_compare_levels() -> None:
    judged = board(without(synthetic(2), UNTOUCHED), MASK_ONLY, BOOTSTRAP)
    difference = row(judged, "good").differences[1]
    assert difference.high is not None and difference.high < 0


def test_an_empty_board_has_rows_without_numbers() -> None:
    judged = board(Scores(("random", "grad"), (0.5,), {}), ROAR, BOOTSTRAP)
    assert [one.clean for one in judged.rows] == [(None, None, None)] * 2
    assert (judged.images, judged.covers) == (0, Covers.NOTHING)


def test_one_training_per_cell_gives_values_and_no_intervals() -> None:
    judged = board(synthetic(1), ROAR, BOOTSTRAP)
    good = row(judged, "good")
    assert judged.covers is Covers.NOTHING
    assert good.gain.value is not None and good.gain.low is None and good.accuracies[0].high is None
    assert good.random is None and good.place == (1, None, None, ())
    assert (judged.detectable, judged.seed_deviation) == (None, None)


def test_one_training_per_cell_can_borrow_the_spread_of_another_protocol() -> None:
    spread = seed_spread([synthetic(4)])
    judged, own = board(synthetic(1), ROAR, BOOTSTRAP, spread), board(synthetic(4), ROAR, BOOTSTRAP)
    assert judged.covers is Covers.BOTH and judged.seed_freedom == own.seed_freedom
    one, four = row(judged, "good").gain, row(own, "good").gain
    assert one.high is not None and one.low is not None and four.high is not None and four.low is not None
    assert one.high - one.low > four.high - four.low


def test_nothing_trained_has_no_chance_but_the_images() -> None:
    judged = board(synthetic(1), MORF, BOOTSTRAP)
    assert judged.covers is Covers.IMAGES
    assert (judged.seed_deviation, judged.seed_freedom) == (None, 0)
    assert row(judged, "good").random.verdict is Verdict.BETTER  # type: ignore[union-attr]
    given = board(synthetic(1), MORF, BOOTSTRAP, seed_spread([synthetic(3)]))
    assert given == judged  # a spread over seeds means nothing here
    assert board(synthetic(3), MORF, BOOTSTRAP).seed_deviation is None


def test_a_twin_ties_with_zero_width() -> None:
    scores = synthetic(2)
    correct = dict(scores.correct) | {("twin", t): scores.correct["sobel", t].copy() for t in scores.levels}
    judged = board(Scores((*scores.estimators, "twin"), scores.levels, correct), ROAR, BOOTSTRAP)
    twin, sobel = row(judged, "twin"), row(judged, "sobel")
    assert twin.over_sobel == (0.0, 0.0, 0.0)
    assert twin.sobel is not None and twin.sobel.verdict is Verdict.SAME and twin.sobel.p == 1
    assert twin.gain == sobel.gain and twin.place == sobel.place


def test_the_order_of_estimators_changes_nothing() -> None:
    scores = synthetic(2)
    turned = Scores(scores.estimators[::-1], scores.levels, dict(reversed(scores.correct.items())))
    before, after = board(scores, ROAR, BOOTSTRAP), board(turned, ROAR, BOOTSTRAP)
    assert before.rows == after.rows[::-1]
    # levels, protocol, draws and all else are the same
    assert replace(before, rows=()) == replace(after, rows=())


def test_the_order_of_images_changes_no_value_and_hardly_an_interval() -> None:
    scores = synthetic(2)
    turn = np.random.default_rng(0).permutation(IMAGES)
    turned = replace(scores, correct={point: bits[:, turn] for point, bits in scores.correct.items()})
    many = Bootstrap(4000)
    for one, other in zip(board(scores, ROAR, many).rows, board(turned, ROAR, many).rows, strict=True):
        assert one.gain.value == other.gain.value and one.clean.value == other.clean.value
        assert one.gain.low is not None and other.gain.low is not None and one.gain.value is not None
        # each half width is known to about 1.5%
        assert one.gain.value - one.gain.low == pytest.approx(other.gain.value - other.gain.low, rel=0.08)


def test_places_are_those_of_the_rows_shown_and_all_else_stays() -> None:
    scores = synthetic(2)
    spread = seed_spread([scores])
    whole = board(scores, ROAR, BOOTSTRAP, spread)
    shown = board(replace(scores, estimators=("bad", "good")), ROAR, BOOTSTRAP, spread)
    assert [one.place and one.place[:3] for one in shown.rows] == [(2, 2, 2), (1, 1, 1)]
    for one in shown.rows:
        assert one.gain == row(whole, one.estimator).gain
        assert one.over_sobel == row(whole, one.estimator).over_sobel
        assert one.random is not None and one.random.p == row(whole, one.estimator).random.p  # type: ignore[union-attr]


def test_accuracies_stay_between_0_and_1() -> None:
    scores = synthetic(2)
    all_right = {point: np.ones_like(bits) for point, bits in scores.correct.items()}
    nearly = dict(all_right) | {("good", 0.5): scores.correct["good", 0.5], ("bad", 0.5): np.ones((2, IMAGES), bool)}
    nearly["bad", 0.5][0, :3] = False
    judged = board(replace(scores, correct=nearly), ROAR, BOOTSTRAP)
    assert row(judged, "bad").accuracies[0].high == 1.0


def test_checks_have_gains_and_change_nothing_of_the_rows_that_are_compared() -> None:
    scores = synthetic(2, (*STRENGTHS, "best~blurred", "another~blurred"))
    spread = seed_spread([scores])
    checks = frozenset({"best~blurred", "another~blurred"})
    judged = board(replace(scores, checks=checks), ROAR, BOOTSTRAP, spread)
    alone = board(replace(scores, estimators=tuple(STRENGTHS)), ROAR, BOOTSTRAP, spread)
    assert judged.rows[: len(STRENGTHS)] == alone.rows
    assert judged.detectable == alone.detectable
    for check in judged.rows[len(STRENGTHS) :]:
        assert check.check and check.gain.low is not None
        assert (check.place, check.random, check.sobel, check.random_blurred) == (None, None, None, None)
    together = board(scores, ROAR, BOOTSTRAP, spread)
    assert row(together, "same").place != row(alone, "same").place  # as rows they would have changed it


def test_rows_are_held_against_a_blurred_random_map_where_there_is_one() -> None:
    judged = board(synthetic(2, (*STRENGTHS, "random-blurred")), ROAR, BOOTSTRAP)
    assert row(judged, "bad").random_blurred.verdict is Verdict.WORSE  # type: ignore[union-attr]
    assert row(judged, "good").random_blurred.verdict is Verdict.BETTER  # type: ignore[union-attr]
    assert row(judged, "random-blurred").random_blurred is None
    assert row(judged, "random-blurred").place is not None
    assert {one.random_blurred for one in board(synthetic(2), ROAR, BOOTSTRAP).rows} == {None}
