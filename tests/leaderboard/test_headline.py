"""The headline says no more than the adjusted verdicts do."""

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from leaderboard.headline import headline
from leaderboard.judged import reversed_by
from leaderboard.page.board import key_of
from leaderboard.page.method import both_true, doubts_of, sentence
from leaderboard.records import BEATS, BELOW, CONTROL, OPEN, UNJUDGED, BoardRecord, BoardRow, Doubt
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.stats.beating import Beating
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.places import Place

OVER = {"yes": Estimate(2.0, 1.0, 3.0), "<": Estimate(-2.0, -3.0, -1.0), "≈": Estimate(0.5, -1.0, 2.0)}


def row(word: str, name: str) -> BoardRow:
    """A row that beats all controls, is below one or level with it; a control; or one without gain or verdict.

    After a slash its best place under ROAR.
    """
    word, _, low = word.partition("/")
    found = Beating(word == "yes", 0.01, 0.01, "contrast", OVER[word]) if word in OVER else None
    control = word.startswith("control")
    value = Estimate() if word.endswith("missing") else Estimate(1.0, 0.0, 2.0)
    roar = Place(int(low), int(low), 9, (int(low),)) if low else None
    return BoardRow(
        "contrast" if control else name, name.upper(), "", "", control, None, value, found, (), roar, (), (), None,
    )  # fmt: skip


BEST = "ROAR’s best, E2 and E3, are not among them."
ONE = "E2, added to the suite, beats every control."
EVERY = "the one control, which asks no network"
TWO = f"Of 2 rows added to the suite, each judged alone, E3 beats {EVERY}. The suite’s one estimator does not."
BOTH = f"Of 2 rows added to the suite, each judged alone, E2 and E3 beat {EVERY}. The suite’s one estimator does not."
NONE = f"E3, added to the suite, beats {EVERY}. None of the suite’s 2 estimators does."


@pytest.mark.parametrize(
    ("words", "strangers", "one", "said"),
    [
        ("control yes yes ≈", "", False, f"2 of 3 estimators beat {EVERY}."),
        ("control control yes ≈", "", False, "1 of 2 estimators beats each of 2 controls that ask no network."),
        ("control yes < ≈", "", False, f"1 of 3 estimators beats {EVERY}."),
        ("control yes yes", "", False, f"All 2 estimators beat {EVERY}."),
        ("control ≈ ≈", "", False, f"None of 2 estimators beats {EVERY}."),  # ties
        ("control < <", "", False, f"None of 2 estimators beats {EVERY}."),  # all worse
        ("control yes", "", False, f"The one estimator beats {EVERY}."),
        ("control <", "", False, f"The one estimator does not beat {EVERY}."),
        ("control yes ≈", "", True, f"1 of 2 estimators beats {EVERY}, for this network only."),
        ("control yes yes", "e2", False, f"The suite’s one estimator beats {EVERY}. {ONE}"),
        ("control yes yes ≈", "e3", False, f"2 of the suite’s 2 estimators beat {EVERY}."),
        ("control < ≈ yes", "e2 e3", False, TWO),
        ("control < yes yes", "e2 e3", False, BOTH),
        ("control < ≈ yes", "e3", False, NONE),
        ("control yes", "contrast", False, ""),  # no verdict is about a control that joined later
        ("control yes missing", "", False, ""),  # a row is missing
        ("control-missing yes", "", False, ""),
        ("control unjudged unjudged", "", False, ""),  # at chance, or without intervals
        ("control yes unjudged", "", False, ""),
        ("unjudged", "", False, ""),  # nothing to beat
        ("control", "", False, ""),
        ("control/2 yes/3 ≈/1", "", False, f"1 of 2 estimators beats {EVERY}. ROAR’s best, E2, is not among them."),
        ("control yes/3 ≈/1 </1", "", False, f"1 of 3 estimators beats {EVERY}. {BEST}"),
        ("control yes/1 ≈/1 </3", "", False, f"1 of 3 estimators beats {EVERY}."),  # one of ROAR's best does
        ("control yes/1 ≈/1", "", False, f"1 of 2 estimators beats {EVERY}."),  # ROAR tells none apart
        ("control ≈/1 </2", "", False, f"None of 2 estimators beats {EVERY}."),  # nobody does
    ],
)  # fmt: skip
def test_the_headline_says_no_more_than_the_verdicts(words: str, strangers: str, one: bool, said: str) -> None:
    rows = [row(word, f"e{n}") for n, word in enumerate(words.split())]
    assert headline(rows, strangers.split(), one) == said


def test_success_is_to_beat_every_control() -> None:
    kinds = {word: row(word, "e").kind for word in (*OVER, "unjudged", "control")}
    assert kinds == {"yes": BEATS, "<": BELOW, "≈": OPEN, "unjudged": UNJUDGED, "control": CONTROL}
    assert replace(row("yes", "e"), control=True).kind == CONTROL


def test_two_boards_disagree_where_both_tell_a_pair_apart_the_other_way_round() -> None:
    here = {"a": Place(1, 1, 1, (1,)), "b": Place(2, 2, 3, (2,)), "c": Place(3, 2, 3, (2,))}
    there = {"a": Place(3, 3, 3, (2,)), "b": Place(1, 1, 2, (1,)), "c": Place(2, 1, 2, (1,)), "d": Place(4, 4, 4, (3,))}
    assert reversed_by("a", here, there) == ("b", "c")
    assert reversed_by("b", here, there) == ("a",)
    assert reversed_by("d", here, there) == reversed_by("a", here, {}) == ()
    level = {name: Place(n, 1, 3, (1,)) for n, name in enumerate("abc", 1)}
    assert reversed_by("a", here, level) == reversed_by("a", level, there) == ()


def test_a_page_says_what_an_estimator_is_shown_to_know() -> None:
    board = cast(BoardRecord, SimpleNamespace(rows=(), title="quick", gained=True))
    said = {
        knows: sentence(board, replace(row("yes", "e1"), knows=knows)).removeprefix(
            "It beats every control that asks no network: +1.0 [0.0, +2.0] points on quick."
        )
        for knows in ((), ("image",), ("image", "network"))
    }
    assert [*said.values()] == [
        "",
        " It knows the image: its gain is above Random’s.",
        " It knows the image and the network: its gain is above Random’s and its untrained twin’s.",
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({MATCHED: "yes", ROAR: "<"}, "It beats every control under Matched gain and is below one under ROAR."),
        ({MATCHED: "<", ROAR: "yes"}, "It beats every control under ROAR and is below one under Matched gain."),
        ({MATCHED: "yes", ROAR: "≈"}, ""),
        ({MATCHED: "yes", SPECIFIC: "<"}, ""),
    ],
)
def test_a_page_says_why_a_row_may_win_on_one_board_and_lose_under_roar(words: dict, said: str) -> None:
    found = [(None, SimpleNamespace(protocol=protocol), row(word, "e")) for protocol, word in words.items()]
    whole = both_true(found)
    assert whole.startswith(said) and bool(whole) is bool(said)
    assert not said or MATCHED.question in whole and ROAR.question in whole


def test_the_key_says_what_a_range_of_places_and_masks_alone_are() -> None:
    doubts = (Doubt("≈ contrast", ""), Doubt("masks alone 66 %", ""))
    rows = [
        replace(row("yes", "e1"), place=Place(1, 1, 1)),
        replace(row("≈", "e2"), place=Place(2, 2, 4), doubts=doubts),
    ]
    place, masks = key_of(SimpleNamespace(rows=rows), ())
    assert place.startswith("Place 2–4: ") and "added" not in place
    assert masks.startswith("masks alone 66 %: ") and masks.endswith(" answer 66 % right")
    assert "an added row changes no other" in next(key_of(SimpleNamespace(rows=rows), {"e1"}))
    assert list(key_of(SimpleNamespace(rows=[replace(rows[0], place=None), rows[0]]), {"e1"})) == []


def test_a_page_says_a_doubt_once_with_all_boards_that_have_it() -> None:
    suite = SimpleNamespace(title="quick")
    here, there = (SimpleNamespace(protocol=protocol) for protocol in (MATCHED, ROAR))
    aside = (Doubt("m", "Masks tell. This counts under ROAR."), Doubt("≈ c", "Level with contrast.", grave=True))
    rows = [(here, aside), (there, (Doubt("m", "Masks tell.", grave=True), Doubt("x", "Else.")))]
    found = doubts_of((suite, board, replace(row("≈", "e"), doubts=doubts)) for board, doubts in rows)
    both = ["quick, What can only a network know?", "quick, ROAR (2019)"]
    assert found == [
        ("Masks tell. This counts under ROAR.", True, both),
        ("Level with contrast.", True, both[:1]),
        ("Else.", False, both[1:]),
    ]
