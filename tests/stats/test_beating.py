"""The verdict that leads: a row is better than every control that asks no network."""

from dataclasses import replace

import numpy as np
import pytest

from roarbench.protocols.roar import ROAR
from roarbench.stats.beating import beatings
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import Scores
from roarbench.stats.judging import board
from roarbench.stats.verdicts import Comparison, Verdict

ROWS = {  # by row and control: p and difference
    ("good", "one"): (0.001, 5.0),
    ("good", "two"): (0.010, 3.0),
    ("level", "one"): (0.001, 4.0),
    ("level", "two"): (0.600, 0.5),
    ("below", "one"): (0.001, -6.0),
    ("below", "two"): (0.001, 2.0),
    ("close", "one"): (0.030, 3.0),
    ("close", "two"): (0.020, 3.0),
}


def compared(rows: dict[tuple[str, str], tuple[float, float]]) -> dict[tuple[str, str], Comparison]:
    return {key: Comparison(Verdict.SAME, p, p, Estimate(gain, gain - 1, gain + 1)) for key, (p, gain) in rows.items()}


@pytest.mark.parametrize(
    ("row", "beats", "q", "nearest", "words"),
    [
        ("good", True, 0.04, "two", "yes"),  # 4 rows: .010 x 4
        ("close", False, 0.09, "one", "≈ one"),  # .030 x 3, the second smallest
        ("level", False, 1.0, "two", "≈ two"),  # .6 x 2 is above 1
        ("below", False, 1.0, "one", "< one"),  # significant, and in the wrong direction
    ],
)
def test_by_hand(row: str, beats: bool, q: float, nearest: str, words: str) -> None:
    found = beatings(compared(ROWS))[row]
    assert (found.verdict, found.nearest, found.words) == (beats, nearest, words)
    assert found.q == pytest.approx(q)


def test_a_stranger_joins_alone_and_moves_no_row() -> None:
    rows = compared(ROWS | {("new", "one"): (0.011, 2.0), ("other", "one"): (0.011, 2.0)})
    found = beatings(rows, strangers={"new", "other"})
    assert {name: found[name] for name in beatings(compared(ROWS))} == beatings(compared(ROWS))
    assert found["new"].q == found["other"].q == pytest.approx(0.05)  # five rows: .010 x 5, and .011 x 4 is no less


def scores(rates: dict[str, float]) -> Scores:
    """Bits of one level of 300 images and three trainings; a lower rate of right answers is the better map."""
    generator = np.random.default_rng(6)
    correct = {(name, 0.9): generator.random((3, 300)) < rate for name, rate in rates.items()}
    correct["none", 0.0] = generator.random((3, 300)) < 0.9
    silent = frozenset(rates) - {"grad", "truth"}
    return Scores(tuple(rates), (0.9,), correct, silent=silent)


def test_controls_and_rows_beside_unfinished_ones_have_no_verdict() -> None:
    whole = scores({"random": 0.7, "contrast": 0.6, "grad": 0.2})
    part = replace(whole, correct={at: bits for at, bits in whole.correct.items() if at[0] != "contrast"})
    assert [row.beating for row in board(part, ROAR).rows] == [None] * 3
    rates = {"random": 0.7, "contrast": 0.6, "grad": 0.2, "truth": 0.1}
    rows = {row.estimator: row for row in board(scores(rates), ROAR).rows}
    assert [name for name, row in rows.items() if row.beating is None] == ["random", "contrast"]
    assert rows["grad"].beating.verdict and rows["grad"].beating.nearest == "contrast"  # no row has to beat the truth
