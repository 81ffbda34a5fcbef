"""Looks while trainings go on: the error is shared, the words are adjusted, the intervals are as wide as that takes."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.protocols.roar import ROAR
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.judging import board
from roarbench.stats.verdicts import Verdict, compare, holm
from tests.helpers.synthetic_boards import BOOTSTRAP, row, synthetic


def sample(value: float, seed: int = 0) -> Sample:
    return Sample(value, value + np.random.default_rng(seed).normal(size=4000))


def test_each_p_is_divided_by_its_share_and_then_holm_adjusts_them():
    found = {"a": sample(4.0), "b": sample(2.6, 1), "c": sample(-2.4, 2), "d": sample(0.3, 3)}
    shares = {"a": 0.5, "b": 1.0, "c": 0.5, "d": 0.5}
    judged = compare(found, adjust=holm, shares=shares)
    ps = {name: one.p for name, one in compare(found).items()}
    spent = {name: ps[name] / shares[name] for name in found}
    largest, slow = 0.0, {}
    for place, name in enumerate(sorted(spent, key=lambda name: spent[name])):  # step-down by hand
        largest = max(largest, (4 - place) * spent[name])
        slow[name] = min(1.0, largest)
    assert {name: one.q for name, one in judged.items()} == pytest.approx(slow, rel=1e-12)
    assert {name: one.p for name, one in judged.items()} == ps
    assert {name: one.verdict for name, one in judged.items()} == {
        "a": Verdict.BETTER,
        "b": Verdict.BETTER,
        "c": Verdict.SAME,
        "d": Verdict.SAME,
    }
    assert compare({"c": found["c"]}, adjust=holm)["c"].verdict is Verdict.WORSE
    assert compare({}, adjust=holm) == {}
    close = compare({"a": sample(2.5), "b": sample(2.45)}, adjust=holm)
    assert close["a"].q == close["b"].q == 2 * close["a"].p > close["b"].p  # a larger p never gets a smaller q


def test_a_watched_row_has_the_interval_of_its_look_and_the_others_keep_theirs():
    scores = synthetic(3)
    plain, watched = (board(each, ROAR, BOOTSTRAP) for each in (scores, replace(scores, watched={"good": 5})))
    wide = board(scores, ROAR, Bootstrap(BOOTSTRAP.resamples, BOOTSTRAP.seed, confidence=0.99))
    assert row(watched, "good").gain == row(wide, "good").gain != row(plain, "good").gain
    assert row(watched, "good").differences == row(wide, "good").differences
    assert row(watched, "good").predicted == row(wide, "good").predicted
    assert row(watched, "bad") == replace(row(plain, "bad"), place=row(watched, "bad").place)
    assert (row(watched, "good").looks, row(watched, "bad").looks) == (5, 0)
    assert (row(watched, "good").stopped, row(watched, "bad").stopped) == (True, False)
    all_seeds = board(replace(scores, watched={"good": 3}), ROAR, BOOTSTRAP)
    assert not row(all_seeds, "good").stopped


def test_places_hold_at_the_narrowest_share_of_the_rows_shown():
    scores = synthetic(3)
    watched = board(replace(scores, watched={"good": 5}), ROAR, BOOTSTRAP)
    wide = board(scores, ROAR, Bootstrap(BOOTSTRAP.resamples, BOOTSTRAP.seed, confidence=0.99))
    assert {one.estimator: one.place for one in watched.rows} == {one.estimator: one.place for one in wide.rows}
    assert watched.detectable == wide.detectable != board(scores, ROAR, BOOTSTRAP).detectable
