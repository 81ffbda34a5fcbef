from dataclasses import replace

import pytest

from roarbench.protocols.roar import KAR, ROAR
from roarbench.stats.board import Board, Covers, Row
from roarbench.stats.bootstrap import Bootstrap, Estimate
from roarbench.stats.replication import replication
from roarbench.stats.verdicts import Comparison, Verdict

BETTER, WORSE, SAME = Verdict.BETTER, Verdict.WORSE, Verdict.SAME


def row(name: str, gain: float | None, half: float | None, *words: Verdict | None) -> Row:
    """With verdicts against Random and Sobel."""
    random, sobel = (word and Comparison(word, 0.5, 0.5) for word in (*words, None, None)[:2])
    predicted = Estimate() if gain is None or half is None else Estimate(gain, gain - half, gain + half)
    empty = Estimate()
    return Row(name, 3, empty, (), (), Estimate(gain), empty, random, sobel, None, None, predicted=predicted)


def board(*rows: Row) -> Board:
    return Board(ROAR, (0.5, 0.9), rows, 3925, Bootstrap(), Covers.REFERENCES, 1.0, 0.5, 6)


ONE = board(
    row("random", 0.0, 0.0),
    row("a", 5.0, 1.0, BETTER, BETTER),
    row("b", 2.0, 2.0, BETTER, SAME),
    row("c", -1.0, 1.0, WORSE, WORSE),
    row("gone", 9.0, 1.0, BETTER, BETTER),
)
OTHER = board(
    row("new", 3.0, 1.0, BETTER, BETTER),
    row("c", 0.5, 2.0, SAME, WORSE),
    row("b", 3.5, 1.0, WORSE, BETTER),
    row("a", 4.0, 1.0, BETTER, BETTER),
    row("random", 0.0, 0.0),
    row("gone", None, None),
)


def test_counts_by_hand() -> None:
    """a: 4 in 5 ± 1 and 5 in 4 ± 1. b: 3.5 in 2 ± 2, 2 not in 3.5 ± 1. c: .5 not in -1 ± 1, -1 in .5 ± 2."""
    found = replication(ONE, OTHER)
    assert [one.estimator for one in found.rows] == ["random", "a", "b", "c"]
    assert [(one.inside, one.inside_again) for one in found.rows] == [
        (None, None),
        (True, True),
        (True, False),
        (False, True),
    ]
    assert (found.gains, found.inside, found.inside_share) == (6, 4, 4 / 6)
    # a and a, b opposed against Random, b beyond Sobel on one alone, c lost against Random, c and c
    assert (found.verdicts, found.equal, found.opposed) == (6, 3, 1)
    assert (found.equal_share, found.opposed_share) == (3 / 6, 1 / 6)
    assert found.rows[2].verdicts == (("random", BETTER, WORSE), ("sobel", SAME, BETTER))
    # random, a, b, c: 0, 5, 2, -1 and 0, 4, 3.5, .5: of six pairs random and c alone are turned
    assert found.tau == pytest.approx(4 / 6)


def test_where_there_is_nothing_to_count_or_the_questions_differ() -> None:
    values = board(row("a", 1.0, None), row("b", 2.0, None))
    found = replication(values, values)
    assert (found.equal_share, found.opposed_share, found.inside_share, found.tau) == (None, None, None, None)
    level = board(row("a", 1.0, None), row("b", 1.0, None), row("c", 1.0, None))
    assert replication(level, level).tau is None
    for other in (replace(ONE, protocol=KAR), replace(ONE, levels=(0.9,)), replace(ONE, images=100)):
        with pytest.raises(ValueError, match="must be equal"):
            replication(ONE, other)
