"""Two rows compared: the counts are what the gains are made of, by slow loops."""

from dataclasses import replace

import numpy as np
import pytest

from leaderboard.links import NotThere, Site, address
from leaderboard.page.compare import pair
from leaderboard.render import known, render
from leaderboard.views import SuiteView
from roarbench.analysis.evidence import Evidence
from roarbench.plan.suite import Block, Suite
from roarbench.protocols import SHOWN, Protocol
from roarbench.stats.bootstrap import Bootstrap
from roarbench.terms import Order, Unit
from tests.helpers.made_up import SUITE, held

ROWS = ("random", "sobel", "random-blurred", "grad", "var-grad")


def made(protocol: Protocol) -> Evidence:
    suite: Suite = replace(SUITE, blocks=(Block(protocol, ROWS, (0.3, 0.9), seeds=2),))
    return Evidence.of(held(suite), Bootstrap(200))


@pytest.mark.parametrize("name", ["roar", "kar", "matched", "specific-lerf", "augmented"])
def test_counts_by_loops(name: str) -> None:
    """At each level; their difference is that of the gains there, or of the accuracies."""
    protocol = SHOWN[name]
    evidence = made(protocol)
    held_ = evidence.suite_results.results

    def answers(estimator: str, t: float) -> dict[int, np.ndarray]:
        return {p.seed: r.answers for p, r in held_.items() if (p.cell.estimator, p.cell.t) == (estimator, t)}

    found = pair(evidence, protocol, Unit.SCALAR, "var-grad", "grad")
    assert [level.t for level in found.levels] == [0.3, 0.9] and found.gain.low is not None
    for level in found.levels:
        for estimator, count in (("var-grad", level.first), ("grad", level.second)):
            own = answers(estimator, level.t)
            second = f"{estimator}~{protocol.against}" if protocol.paired else "random"
            other = answers(second, level.t) if protocol.by_difference else None
            taken = given = 0
            for seed, bits in own.items():
                for at, right in enumerate(bits):
                    before = other[seed][at] if other else True
                    taken += before and not right
                    given += right and not before
            for_it, against = (taken, given) if protocol.order is Order.MORF else (given, taken)
            if not protocol.by_difference and protocol.order is Order.LERF:
                for_it, against = sum(int(bits.sum()) for bits in own.values()), 0
            assert (count.gained, count.against) == (for_it, against)
        assert level.difference.value == pytest.approx(level.first.points - level.second.points)


def test_what_is_counted_is_said() -> None:
    assert pair(made(SHOWN["roar"]), SHOWN["roar"], Unit.SCALAR, "grad", "sobel").counted == ("wrong answers", "")
    found = pair(made(SHOWN["matched"]), SHOWN["matched"], Unit.SCALAR, "grad", "sobel")
    assert found.counted == ("right with the other mask alone", "right with its own mask alone")


def test_any_pair_is_shown_and_an_unknown_row_is_said(views: dict[str, SuiteView]) -> None:
    at = address("compare", suite="quick-v2", first="sobel", second="grad")
    site = Site(views, known(views))
    page = render(site, at).html
    assert "Right with the other mask alone" in page and page.count('class="pair"') == 1
    with pytest.raises(NotThere, match="no row '<i>x</i>'"):
        render(site, at._replace(choices=(("first", "<i>x</i>"),)))
