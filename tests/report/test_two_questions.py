"""One table for two questions, by hand."""

from types import SimpleNamespace

import pytest

from roarbench.plan.suites import SUITES
from roarbench.report.two_questions import TwoQuestions, as_markdown, asks_two_questions
from roarbench.stats.board import Estimate
from roarbench.stats.own_network import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict

MARKDOWN = """\
| estimator | ROAR gain [95%] | Random | own-network gain | explains? |
| --- | --- | --- | --- | --- |
| `grad` | -4.5 [-5.7, -3.2] | worse | +3.1 [-0.1, +6.3] | not shown |
| `ig` | not run |  | +1.0 [+0.5, +1.5] | yes |
| `gb` | – | – | -2.0 [-3.0, -1.0] | opposes it |
| `random-blurred` | +10.7 [+9.3, +12.2] | better | 0 by construction |  |
| `sobel` | +5.0 [+4.0, +6.0] | ≈ | 0 by construction |  |
| `random` | 0.0 | control | 0 by construction |  |
"""


def table(levels, *rows):
    title = SimpleNamespace(title="quick v7")
    return SimpleNamespace(suite_results=title, board=SimpleNamespace(levels=levels), rows=rows)


def roar(name, gain=(None, None, None), verdict=None):
    random = verdict and SimpleNamespace(verdict=verdict)
    return SimpleNamespace(estimator=name, gain=Estimate(*gain), random=random)


def own(name, gain, verdict):
    return SimpleNamespace(estimator=name, gain=Estimate(*gain), network=SimpleNamespace(verdict=verdict))


@pytest.fixture
def both():
    zero = OwnNetworkVerdict.BY_CONSTRUCTION
    return TwoQuestions(
        table(
            (0.9,),
            roar("random", (0.0, 0.0, 0.0)),
            roar("sobel", (5.0, 4.0, 6.0), Verdict.SAME),
            roar("random-blurred", (10.7, 9.3, 12.2), Verdict.BETTER),
            roar("grad", (-4.5, -5.7, -3.2), Verdict.WORSE),
            roar("gb"),
        ),
        table(
            (0.05, 0.5),
            *(own(name, (0.0, None, None), zero) for name in ("random", "sobel", "random-blurred")),
            own("gb", (-2.0, -3.0, -1.0), OwnNetworkVerdict.OPPOSES),
            own("grad", (3.1, -0.1, 6.3), OwnNetworkVerdict.OPEN),
            own("ig", (1.0, 0.5, 1.5), OwnNetworkVerdict.EXPLAINS),
        ),
    )


def test_rows_by_hand(both):
    """What is not run is no dash; controls come last, by ROAR gain."""
    page = as_markdown(both)
    assert MARKDOWN in page + "\n" and page.startswith("**quick v7**")
    assert "t = 0.9." in page and "t = 0.05, 0.5." in page


def test_notes_fit_into_eighty_columns(both):
    assert len(both.notes) == 3
    assert max(map(len, both.notes)) <= 80


def test_suites_that_ask_both_questions_first():
    assert [name for name, suite in SUITES.items() if asks_two_questions(suite)] == ["quick"]
