"""Gains of rows that one network answers for: counted on differences of its own answers, image by image."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.specific import SPECIFIC, SPECIFIC_LERF
from roarbench.stats.board import RANDOM
from roarbench.stats.curves import UNTOUCHED, Scores
from roarbench.stats.judging import board
from roarbench.stats.spread import spread_of
from tests.helpers.synthetic_boards import BOOTSTRAP, row

IMAGES, SEEDS = 800, 3
LEVELS = (0.5, 0.9)
KNOWS = {"random": 0.0, "sobel": -0.05, "good": 0.06, "bad": -0.08, "idle": 0.0}  # of the image, in accuracy


def paired(luck: float = 0.05, random_luck: float = 0.0) -> Scores:
    """Answers with a row's own removal mask and with another image's; a network's luck is the same in all of them.

    `random_luck` is what Random's own map costs by mere chance.
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
    held, against = (Scores(tuple(KNOWS), LEVELS, cells, references={**explained}) for cells in (own, differences))
    return replace(held, differences=against)


@pytest.mark.parametrize(("protocol", "sign"), [(SPECIFIC, -1), (SPECIFIC_LERF, 1)])
def test_a_gain_is_the_area_of_the_differences_by_hand(protocol, sign):
    scores = paired()
    judged = board(scores, protocol, BOOTSTRAP)
    for name in KNOWS:
        at = [float(scores.differences.correct[name, t].mean()) for t in LEVELS]
        area = sign * 100 * (0.5 * (0 + at[0]) / 2 + 0.4 * (at[0] + at[1]) / 2) / 0.9
        assert row(judged, name).gain.value == pytest.approx(area, abs=1e-12)
        assert [one.value for one in row(judged, name).differences] == pytest.approx(at)
        own = [float(scores.correct[name, t].mean()) for t in LEVELS]
        assert [one.value for one in row(judged, name).accuracies] == pytest.approx(own)


def test_the_luck_of_a_network_that_answers_for_all_rows_widens_no_gain():
    """Accuracies vary by it, differences of one network's answers do not."""
    calm, lucky = (board(paired(luck), SPECIFIC, BOOTSTRAP) for luck in (0.0, 0.08))
    for name in ("good", "bad", "idle"):
        wide, narrow = (row(judged, name).gain for judged in (lucky, calm))
        assert wide.high - wide.low < 1.6 * (narrow.high - narrow.low)
        wide, narrow = (row(judged, name).accuracies[0] for judged in (lucky, calm))
        assert wide.high - wide.low > 2 * (narrow.high - narrow.low)


def test_randoms_own_chance_decides_no_specific_verdict():
    """Its specific gain is 0 by construction: what was measured of it is shown and held against nobody."""
    calm, lucky = (board(paired(random_luck=chance), SPECIFIC, BOOTSTRAP) for chance in (0.0, 0.05))
    assert row(lucky, RANDOM).gain.value == pytest.approx(row(calm, RANDOM).gain.value + 3.6, abs=1.0)
    for name in ("good", "bad", "idle"):
        one, other = row(calm, name), row(lucky, name)
        assert (one.random.verdict, one.gain.value) == (other.random.verdict, other.gain.value)


def test_what_is_held_against_itself_cannot_vary_and_says_nothing_about_spread():
    """Under the augmented protocol Random is held against itself: 0 in every draw, and no sign of a small spread."""
    scores = paired()
    zeros = {(RANDOM, t): np.zeros((SEEDS, IMAGES), np.int8) for t in LEVELS}
    itself = replace(scores.differences, correct={**scores.differences.correct, **zeros})
    assert row(board(replace(scores, differences=itself), AUGMENTED, BOOTSTRAP), RANDOM).gain == (0.0, 0.0, 0.0)
    without = {at: bits for at, bits in itself.correct.items() if at[0] not in (RANDOM, "none")}
    kept, fewer = (spread_of([each]).trainings for each in (itself, replace(itself, correct=without)))
    assert kept.variance == fewer.variance
    assert kept.freedom == fewer.freedom == (SEEDS - 1) * len(LEVELS)  # Sobel's


def test_a_row_without_answers_to_hold_it_against_has_no_gain():
    scores = paired()
    for left in (scores.differences.correct, scores.differences.references):
        del left["good", 0.9]
    judged = board(scores, AUGMENTED, BOOTSTRAP)
    assert row(judged, "good").gain.value is None and row(judged, "good").accuracies[1].value is not None
    assert row(judged, "bad").gain.value is not None
