from dataclasses import replace

import numpy as np
import pytest

from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.stats.board import Board, Covers, unjudged
from roarbench.stats.curves import UNTOUCHED, Point, Scores
from roarbench.stats.judging import board
from roarbench.stats.spread import spread_of
from roarbench.stats.verdicts import Verdict
from tests.helpers.synthetic_boards import BOOTSTRAP, IMAGES, MAIN, row, synthetic


def without(scores: Scores, *points: Point) -> Scores:
    return replace(scores, correct={point: bits for point, bits in scores.correct.items() if point not in points})


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
    assert row(judged, "random").place.groups == row(judged, "same").place.groups
    assert row(judged, "random").gain == (0.0, 0.0, 0.0)
    assert row(judged, "sobel").sobel is None and row(judged, "random").sobel is not None
    assert judged.covers is Covers.BOTH
    assert judged.images == IMAGES
    assert 0.5 < judged.detectable < 10
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


def test_a_missing_cell_is_missing() -> None:
    judged = board(without(synthetic(2), ("good", 0.9)), ROAR, BOOTSTRAP)
    good = row(judged, "good")
    assert good.gain == good.over_sobel == good.accuracies[1] == good.differences[1] == (None, None, None)
    assert (good.place, good.random, good.sobel, good.seeds) == (None, None, None, 0)
    assert good.accuracies[0].low is not None
    assert sorted(one.place.place for one in judged.rows if one.place) == [1, 2, 3, 4]


def test_one_training_per_cell_has_intervals_where_the_spread_is_borrowed_alone() -> None:
    judged = board(synthetic(1), ROAR, BOOTSTRAP)
    good = row(judged, "good")
    assert judged.covers is Covers.NOTHING
    assert good.gain.value is not None and good.gain.low is None and good.accuracies[0].high is None
    assert good.random is None and good.place == (1, None, None, ())
    assert judged.detectable is None
    spread = spread_of([synthetic(4)])
    judged, own = board(synthetic(1), ROAR, BOOTSTRAP, spread), board(synthetic(4), ROAR, BOOTSTRAP)
    assert judged.covers is Covers.BOTH
    one, four = row(judged, "good").gain, row(own, "good").gain
    assert one.high - one.low > four.high - four.low


def test_nothing_trained_has_no_chance_but_the_images_and_the_networks() -> None:
    judged = board(synthetic(1), MORF, BOOTSTRAP)
    assert judged.covers is Covers.IMAGES
    assert row(judged, "good").random.verdict is Verdict.BETTER
    given = board(synthetic(1), MORF, BOOTSTRAP, spread_of([synthetic(3)]))
    assert given == judged  # a spread over seeds means nothing here
    scores = synthetic(2)
    every = replace(scores, references=dict.fromkeys(scores.correct, ("r0", "r1")))
    judged = board(every, MORF, BOOTSTRAP)
    assert judged.covers is Covers.NETWORKS
    one = replace(every, correct={p: bits[:1] for p, bits in every.correct.items()}, references={})
    one = replace(one, references=dict.fromkeys(one.correct, ("r0",)))
    marked = board(one, MORF, BOOTSTRAP)
    assert marked.covers is Covers.IMAGES and marked.one_network
    assert row(marked, "good").predicted == (None, None, None)


def test_a_twin_ties_with_zero_width() -> None:
    scores = synthetic(2)
    correct = dict(scores.correct) | {("twin", t): scores.correct["sobel", t].copy() for t in scores.levels}
    judged = board(Scores((*scores.estimators, "twin"), scores.levels, correct), ROAR, BOOTSTRAP)
    twin, sobel = row(judged, "twin"), row(judged, "sobel")
    assert twin.over_sobel == (0.0, 0.0, 0.0)
    assert twin.sobel.verdict is Verdict.SAME and twin.sobel.p == 1
    assert twin.gain == sobel.gain and twin.place == sobel.place


def test_choosing_rows_changes_their_places_alone() -> None:
    scores = synthetic(2)
    whole = board(scores, ROAR, BOOTSTRAP)
    shown = board(scores, ROAR, BOOTSTRAP, shown=("bad", "good"))
    assert [one.estimator for one in shown.rows] == ["good", "bad"]
    assert [one.place and one.place[:3] for one in shown.rows] == [(1, 1, 1), (2, 2, 2)]
    for one in shown.rows:
        assert replace(one, place=None) == replace(row(whole, one.estimator), place=None)
    # 5 rows against Random and against Sobel, but no control against itself
    assert replace(shown, rows=()) == replace(whole, rows=()) and whole.family == 8


def references(scores: Scores, names: tuple[str, ...]) -> Scores:
    points = [point for point in scores.correct if point[0] not in (UNTOUCHED[0], "random", "sobel")]
    return replace(scores, references=dict.fromkeys(points, names))


def test_references_are_a_factor_of_every_interval() -> None:
    judged = board(references(synthetic(3), ("r0", "r1", "r2")), ROAR, BOOTSTRAP)
    assert judged.covers is Covers.REFERENCES and not judged.one_network
    assert (judged.references, judged.reference_rows) == (3, 3)
    assert judged.reference_deviation is not None
    assert 2 <= judged.reference_freedom <= 3 * 2
    assert row(judged, "good").random.verdict is Verdict.BETTER


def test_accuracies_stay_between_0_and_1() -> None:
    scores = synthetic(2)
    all_right = {point: np.ones_like(bits) for point, bits in scores.correct.items()}
    nearly = dict(all_right) | {("good", 0.5): scores.correct["good", 0.5], ("bad", 0.5): np.ones((2, IMAGES), bool)}
    nearly["bad", 0.5][0, :3] = False
    judged = board(replace(scores, correct=nearly), ROAR, BOOTSTRAP)
    assert row(judged, "bad").accuracies[0].high == 1.0


def test_checks_have_gains_and_change_nothing_of_the_rows_that_are_compared() -> None:
    scores = synthetic(2, (*MAIN, "best~blurred", "another~blurred"))
    spread = spread_of([scores])
    checks = frozenset({"best~blurred", "another~blurred"})
    judged = board(replace(scores, checks=checks), ROAR, BOOTSTRAP, spread)
    alone = board(replace(scores, estimators=MAIN), ROAR, BOOTSTRAP, spread)
    assert judged.rows[: len(MAIN)] == alone.rows
    assert judged.detectable == alone.detectable
    for check in judged.rows[len(MAIN) :]:
        assert check.check and check.gain.low is not None
        assert (check.place, check.random, check.sobel, check.random_blurred) == (None, None, None, None)
    together = board(scores, ROAR, BOOTSTRAP, spread)
    assert row(together, "same").place != row(alone, "same").place  # as rows they would have changed it


def test_a_row_is_held_against_its_maps_of_other_images() -> None:
    twin = "good~other-image"
    scores = replace(synthetic(2, (*MAIN, twin)), checks=frozenset({twin}))
    judged = board(scores, ROAR, BOOTSTRAP)
    good = row(judged, "good")
    assert good.over_other_image.value == pytest.approx(good.gain.value - row(judged, twin).gain.value)
    assert good.over_other_image.low > 0 and good.other_image.verdict is Verdict.BETTER
    for name in ("random", "sobel", "bad", twin):
        assert (row(judged, name).over_other_image, row(judged, name).other_image) == ((None, None, None), None)
    alone = board(replace(scores, estimators=MAIN), ROAR, BOOTSTRAP, spread_of([scores]))
    assert judged.family == alone.family + 1 and row(alone, "good").other_image is None
    assert {one.other_image for one in unjudged(judged).rows} == {None}


@pytest.mark.parametrize("watched", [{}, {"stranger-1": 5}])
def test_no_stranger_moves_a_row_of_the_suite_or_another_stranger(watched: dict[str, int]) -> None:
    """A row like Random, a strong one and twenty that never vary: the numbers are those without them, to the bit."""
    names = tuple(f"stranger-{number}" for number in range(22))

    def judged(strangers: tuple[str, ...]) -> Board:
        scores = synthetic(3, (*MAIN, *strangers))
        fixed = {at: np.repeat(bits[:1], 3, 0) for at, bits in scores.correct.items() if at[0] in names[2:]}
        scores = replace(
            scores, correct=scores.correct | fixed, watched={n: watched[n] for n in strangers if n in watched}
        )
        known = references(scores, ("r0", "r1", "r2"))
        return board(replace(known, strangers=frozenset(strangers)), ROAR, BOOTSTRAP)

    alone, one, all_of_them = judged(()), judged(names[1:2]), judged(names)
    tied = [replace(each, place=each.place and each.place._replace(groups=())) for each in all_of_them.rows]
    for before in (alone, one):
        expected = [replace(each, place=each.place and each.place._replace(groups=())) for each in before.rows]
        assert tied[: len(MAIN)] == expected[: len(MAIN)]
    assert row(one, names[1]).random == row(all_of_them, names[1]).random
    assert row(one, names[1]).gain == row(all_of_them, names[1]).gain
    places = [row(each, names[1]).place for each in (one, all_of_them)]
    assert places[0] and places[1] and places[0][:3] == places[1][:3]
    assert (alone.family, alone.detectable) == (all_of_them.family, all_of_them.detectable)
    assert alone.reference_rows == all_of_them.reference_rows
