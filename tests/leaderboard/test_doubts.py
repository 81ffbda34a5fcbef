"""Doubts name the rival and the size, and each opens a sentence, under every protocol."""

import re
from dataclasses import replace

import pytest

from leaderboard.doubts import doubts_of
from leaderboard.judged import board_record
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.roar import ROAR
from roarbench.report.table import table_of
from roarbench.stats.beating import Beating
from roarbench.stats.board import Row
from roarbench.stats.bootstrap import Bootstrap, Estimate
from roarbench.terms import Unit
from tests.helpers.made_up import SUITE, held, leaky, one_seed

NONE = Estimate()


def row(
    name: str = "var-grad", over: Estimate = NONE, below: str = "", twins: dict[str, Estimate] | None = None
) -> Row:
    beating = Beating(False, 1.0, 1.0, below, over) if below else None
    return Row(name, 3, NONE, (), (), NONE, NONE, None, None, None, None, beating=beating, over_twins=twins or {})


@pytest.fixture(scope="module")
def evidence() -> Evidence:
    return Evidence.of(held(), Bootstrap(200))


def texts(evidence: Evidence, protocol: Protocol, of: Row) -> list[tuple[str, str, bool]]:
    """With plain spaces, as they are read."""
    found = doubts_of(evidence, protocol, of)
    return [(d.short.replace("\u202f", " "), d.sentence.replace("\u202f", " "), d.grave) for d in found]


def test_a_row_of_which_nothing_speaks_against_has_none(evidence: Evidence) -> None:
    assert texts(evidence, MATCHED, row()) == []


@pytest.mark.parametrize(
    ("over", "short", "side"),
    [
        (Estimate(1.1, -0.3, 2.5), "≈ Local contrast", "Not told apart from"),
        (Estimate(-8.0, -9.0, -7.0), "< Local contrast", "Below"),
    ],
)
def test_the_rival_is_named_with_the_size(evidence: Evidence, over: Estimate, short: str, side: str) -> None:
    ((said, sentence, grave),) = texts(evidence, MATCHED, row(over=over, below="contrast"))
    assert said == short and grave
    assert sentence.startswith(f"{side} Local contrast, which asks no network: its matched gain minus that")
    assert f"{over.value:+.1f} [" in sentence


def test_a_twin_that_has_as_much_is_a_doubt_and_another_reference_is_none(evidence: Evidence) -> None:
    twins = {"shuffled": Estimate(0.2, -0.4, 0.8), "other-target": Estimate(9.0, 8.0, 9.9), "other-reference": NONE}
    twins["other-reference"] = Estimate(0.1, -0.2, 0.4)
    ((short, sentence, grave),) = texts(evidence, MATCHED, row(twins=twins))
    assert (short, grave) == ("≈ shuffled network", True) and "+0.2 [-0.4, +0.8] points" in sentence


def test_noise_shows_under_every_protocol() -> None:
    evidence = Evidence.of(replace(held(), kept={"var-grad": 0.684}), Bootstrap(200))
    for protocol in (ROAR, MATCHED):
        ((short, sentence, _),) = texts(evidence, protocol, row())
        assert short == "68 % of noisy copies keep their class" and "another class" in sentence


@pytest.mark.parametrize("one_training", [False, True])
def test_masks_that_tell_the_class_have_their_size(one_training: bool) -> None:
    """Also of a single training, which has no interval; they take success away under ROAR alone."""
    suite = one_seed(SUITE) if one_training else SUITE
    evidence = Evidence.of(held(suite, leaky(0.53)), Bootstrap(200))
    ((short, sentence, grave),) = [found for found in texts(evidence, ROAR, row()) if "masks" in found[0]]
    assert (
        re.fullmatch(r"masks alone 5[34] %", short)
        and "at t = 0.9" in sentence
        and "a guess is right on 25 %" in sentence
    )
    assert ("[" in sentence) is (not one_training) and not grave and "counts under ROAR" not in sentence
    ((_, elsewhere, grave),) = [found for found in texts(evidence, MATCHED, row()) if "masks" in found[0]]
    assert "This counts under ROAR; matched gain rewards neither" in elsewhere and not grave


def test_masks_that_tell_nothing_are_no_doubt() -> None:
    evidence = Evidence.of(held(accuracy=leaky(0.3)), Bootstrap(200))
    assert not [found for found in texts(evidence, ROAR, row()) if "masks" in found[0]]


def test_what_comes_from_outside_is_one_line_of_text(evidence: Evidence) -> None:
    hostile = "<b>no</b>\n" * 200
    results: SuiteResults = replace(
        evidence.suite_results, doubts={"var-grad": hostile}, findings={"var-grad": "`validate` found: slow"}
    )
    found = texts(Evidence.of(results, Bootstrap(200)), MATCHED, row())
    assert [short for short, _, _ in found] == ["see validate", "run elsewhere"]
    assert "\n" not in found[1][1] and len(found[1][1]) < 510


def test_a_board_has_them_under_every_protocol() -> None:
    evidence = Evidence.of(replace(held(accuracy=leaky(0.53)), kept={"var-grad": 0.5}), Bootstrap(200))
    for name in ("roar", "morf"):
        protocol = next(block.protocol for block in SUITE.blocks if block.protocol.name == name)
        table = table_of(evidence, protocol, SUITE.placed, Unit.SCALAR)
        assert table
        shown = board_record(evidence, table).by_id["var-grad"].doubts
        assert len(shown) >= 2 and all(doubt.short and doubt.sentence.endswith(".") for doubt in shown)
