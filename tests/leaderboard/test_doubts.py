"""Doubts name the rival and the size, and each opens a sentence, under every protocol."""

import re
from dataclasses import replace

import pytest

from leaderboard.doubts import doubts_of
from roarbench.analysis.evidence import Evidence
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.roar import ROAR
from roarbench.stats.beating import Beating
from roarbench.stats.board import Row
from roarbench.stats.bootstrap import Bootstrap, Estimate
from tests.helpers.made_up import SUITE, held, leaky, one_seed

NONE = Estimate()
BARE = Row("var-grad", 3, NONE, (), (), NONE, NONE, None, None, None, None)


def texts(results, protocol: Protocol = MATCHED, **row) -> list[tuple[str, str, bool]]:
    """With plain spaces, as they are read."""
    found = doubts_of(Evidence.of(results, Bootstrap(200)), protocol, replace(BARE, **row))
    return [
        (*(text.replace("\u202f", " ").replace("−", "-") for text in (d.short, d.sentence)), d.grave) for d in found
    ]


@pytest.mark.parametrize(
    ("over", "short", "side"),
    [
        (Estimate(1.1, -0.3, 2.5), "≈ Local contrast", "Not told apart from"),
        (Estimate(-8.0, -9.0, -7.0), "< Local contrast", "Below"),
    ],
)
def test_the_rival_is_named_with_the_size(over: Estimate, short: str, side: str) -> None:
    ((said, sentence, grave),) = texts(held(), beating=Beating(False, 1.0, 1.0, "contrast", over))
    assert said == short and grave and f"{over.value:+.1f} [" in sentence
    assert sentence.startswith(f"{side} Local contrast, which asks no network: its matched gain minus that")
    assert texts(held()) == [], "nothing speaks against a row without a rival"


def test_a_twin_that_has_as_much_is_a_doubt_and_another_reference_is_none() -> None:
    twins = {"shuffled": Estimate(0.2, -0.4, 0.8), "other-target": Estimate(9.0, 8.0, 9.9)}
    ((short, sentence, grave),) = texts(held(), over_twins=twins | {"other-reference": Estimate(0.1, -0.2, 0.4)})
    assert (short, grave) == ("≈ shuffled network", True) and "+0.2 [-0.4, +0.8] points" in sentence
    ((short, _, _),) = texts(held(), over_twins={"untrained": Estimate(-3.3, -4.6, -1.9)})
    assert short == "< untrained network"


@pytest.mark.parametrize("protocol", [ROAR, MATCHED])
def test_noise_shows_under_every_protocol(protocol: Protocol) -> None:
    ((short, sentence, _),) = texts(replace(held(), kept={"var-grad": 0.684}), protocol)
    assert short == "68 % of noisy copies keep their class" and "another class" in sentence


@pytest.mark.parametrize("suite", [SUITE, one_seed(SUITE)])
def test_masks_that_tell_the_class_have_their_size(suite) -> None:
    """Also of a single training, which has no interval; they take success away under ROAR alone."""

    def said(protocol: Protocol, share: float = 0.53) -> list[tuple[str, str, bool]]:
        return [found for found in texts(held(suite, leaky(share)), protocol) if "masks" in found[0]]

    ((short, sentence, grave),) = said(ROAR)
    assert (
        re.fullmatch(r"masks alone 5[34] %", short)
        and "at t = 0.9" in sentence
        and "a guess is right on 25 %" in sentence
    )
    assert ("[" in sentence) is (suite is SUITE) and not grave and "counts under ROAR" not in sentence
    ((_, elsewhere, grave),) = said(MATCHED)
    assert "This counts under ROAR; matched gain rewards neither" in elsewhere and not grave
    assert not said(ROAR, 0.3), "masks that tell nothing"


def test_what_comes_from_outside_is_one_line_of_text() -> None:
    hostile, said = {"var-grad": "<b>no</b>\n" * 200}, {"var-grad": "`validate` found: slow"}
    found = texts(replace(held(), doubts=hostile, findings=said))
    assert [short for short, _, _ in found] == ["see validate", "run elsewhere"]
    assert "\n" not in found[1][1] and len(found[1][1]) < 510
