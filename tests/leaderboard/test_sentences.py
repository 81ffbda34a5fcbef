"""What is said of rows: the headline no more than the adjusted verdicts do, doubts with the rival and the size."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from leaderboard.board_contents import BoardRow
from leaderboard.headline import describe_winners, write_combined_headline
from leaderboard.page.board import list_explanations
from leaderboard.page.estimator import (
    choose_evenly_spaced_images,
    collect_doubts,
    explain_disagreement,
    write_verdict_sentence,
)
from leaderboard.render import load_templates
from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.common.enums import Order
from roarbench.plan.protocols import SHOWN
from roarbench.report.row_doubts import Doubt, list_row_doubts
from roarbench.report.table import CONTROLS, UNTRAINED
from roarbench.stats.board import Row
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.verdicts import Comparison, ControlComparison, Verdict
from roarbench.store.software_and_hardware import Provenance
from tests.helpers.made_up import SUITE, held, leaky, one_seed

MATCHED, ROAR = SHOWN["matched"], SHOWN["roar"]
OVER = {"yes": Estimate(2.0, 1.0, 3.0), "<": Estimate(-2.0, -3.0, -1.0), "≈": Estimate(0.5, -1.0, 2.0)}

WORDS = {"yes": Verdict.BETTER, "<": Verdict.WORSE, "≈": Verdict.SAME}


def beside(over, verdict):
    return ControlComparison({"contrast": Comparison(verdict, 0.01, 0.01, over)})


def row(word, name="e", **more):
    """A row that beats all controls, is below one or level with it; a control; or one without gain or verdict.

    After a slash its best place under ROAR.
    """
    word, _, low = word.partition("/")
    found = beside(OVER[word], WORDS[word]) if word in OVER else None
    control = word.startswith("control")
    value = Estimate() if word.endswith("missing") else Estimate(1.0, 0.0, 2.0)
    roar = RankInterval(int(low), int(low), 9, (int(low),)) if low else None
    made = BoardRow(name, name.upper(), "", "", control, None, value, found, (), roar, (), (), None)
    return replace(made, **more)


EVERY = "the one control, which does not use the network"
JOINED = "rows added to the suite, each judged alone,"
CASES = {  # after a plus: of a row that the suite does not name; after an @: of a submission
    "control yes yes ≈": f"2 of 3 estimators beat {EVERY}.",
    "control control yes ≈": "1 of 2 estimators beats all 2 controls that do not use the network.",
    "control yes yes": f"All 2 estimators beat {EVERY}.",
    "control ≈ <": f"None of 2 estimators beats {EVERY}.",
    "control yes": f"The one estimator beats {EVERY}.",
    "control yes +yes": f"The suite’s one estimator beats {EVERY}. E2, added to the suite, beats every control.",
    "control yes yes +≈": f"2 of the suite’s 2 estimators beat {EVERY}.",
    "control < +≈ +yes": f"Of 2 {JOINED} E3 beats {EVERY}. The suite’s one estimator does not beat it.",
    "control < @yes": f"E2, a submission, beats {EVERY}. The suite’s one estimator does not beat it.",
    "control < ≈ +yes": f"E3, added to the suite, beats {EVERY}. None of the suite’s 2 estimators beats it.",
    "+control yes": "",  # no verdict is about a control that joined later
    "control-missing yes": "",
    "control yes unjudged": "",  # at chance, without intervals, or missing
    "control": "",
    "control/2 yes/3 ≈/1": f"1 of 2 estimators beats {EVERY}. ROAR’s best, E2, is not among them.",
    "control yes/3 ≈/1 </1": f"1 of 3 estimators beats {EVERY}. ROAR’s best, E2 and E3, are not among them.",
    "control yes/1 ≈/1 </3": f"1 of 3 estimators beats {EVERY}.",  # one of ROAR's best does
    "control yes/1 ≈/1": f"1 of 2 estimators beats {EVERY}.",  # ROAR tells none apart
    "control ≈/1 </2": f"None of 2 estimators beats {EVERY}.",  # nobody does
}


@pytest.mark.parametrize("words", CASES)
def test_the_headline_says_no_more_than_the_verdicts(words):
    rows = [
        row(word.strip("+@"), f"e{n}", added=word[0] in "+@", detail="submission" * (word[0] == "@"))
        for n, word in enumerate(words.split())
    ]
    assert describe_winners(rows) == CASES[words]
    told = [replace(one, id="linear-classifier") if one.control else one for one in rows]
    most = "use at most the network’s predicted class", "uses at most the network’s predicted class"
    assert describe_winners(told) == CASES[words].replace("do not use the network", most[0]).replace(
        "does not use the network", most[1]
    )
    alone = CASES[words].replace("the network", "the network, for this network only")
    assert describe_winners(rows, one_network=True) == alone


def two_rows(explains, better):
    """Rows by name: under own-network gain those that explain, or not, their network; under ROAR those above Random."""
    nothing = Estimate()
    bare = {name: Row(name, 3, nothing, (), (), nothing, None) for name in {**explains, **better}}
    verdicts = {
        True: OwnNetworkVerdict.EXPLAINS,
        False: OwnNetworkVerdict.OPEN,
        None: OwnNetworkVerdict.BY_CONSTRUCTION,
    }
    network = [replace(bare[name], network=OwnNetworkTest(verdicts[word])) for name, word in explains.items()]
    found = {name: Verdict.BETTER if word else Verdict.SAME for name, word in better.items()}
    roar = [replace(bare[name], against={"random": Comparison(word, 0.1, 0.1)}) for name, word in found.items()]
    return network, roar


def test_a_headline_of_two_questions_counts_estimators_and_names_blurred_noise():
    explains = {"grad": True, "ig": True, "gb-sq": False, "random-blurred": None}
    for better, blurred, said in (
        (True, True, "1 of 2 beats Random, and so does blurred noise."),
        (False, True, "none of 2 beats Random, but blurred noise does."),
        (True, False, "1 of 2 beats Random."),
    ):
        found = write_combined_headline(
            *two_rows(explains, {"grad": better, "gb-sq": False, "random-blurred": blurred})
        )
        assert found == f"2 of 3 estimators explain their network; under ROAR {said}"
    network, roar = two_rows(explains, {"grad": True})
    more, again = two_rows(explains | {"sg-grad": True}, {"grad": True, "sg-grad": True})
    assert write_combined_headline(more, again, added={"sg-grad"}) == (
        "2 of the suite’s 3 estimators explain their network; under ROAR 1 of its 1 beats Random."
    ), "the page has rows that are not counted"
    measured = [replace(again[0], gain=Estimate(1.0)), again[1]]
    assert write_combined_headline(more, measured, incomplete_levels_text="at 90 %") == (
        "3 of 4 estimators explain their network; under ROAR at 90 % 1 of 1 beats Random."
    ), "a row without the levels that were run is not counted"
    assert write_combined_headline([replace(row, network=None) for row in network], roar) == "", (
        "no verdict, nothing said"
    )
    assert write_combined_headline(network, [replace(row, against={}) for row in roar]) == ""


def test_a_page_says_what_an_estimator_is_shown_to_know():
    board = SimpleNamespace(rows=(), title="quick", gained=True)
    beats = "It beats every control: +1.0 [0.0, +2.0] points on quick."
    for beaten, said in (
        ((), ""),
        ((CONTROLS,), " It depends on the image:"),
        ((CONTROLS, UNTRAINED), " It depends on the"),
    ):
        found = write_verdict_sentence(board, row("yes", better_than=beaten))
        assert found.startswith(f"{beats}{said}") and bool(said) is (found != beats)


def test_a_page_counts_places_among_the_rows_of_the_suite():
    """Of four rows one has no place and one is added: it alone joins the other two."""
    second, third = row("≈", place=RankInterval(2, 2, 3)), row("control", place=RankInterval(2, 2, 2))
    added = row("yes", place=RankInterval(1, 1, 2, added=True), added=True)
    board = SimpleNamespace(rows=(second, third, added, row("unjudged")), title="quick", gained=True)
    for asked, words in (
        (second, "2–3 of 2 on quick"),
        (third, "2 of 2 on quick"),
        (added, "1–2 if it alone were added to the suite’s 2 rows, on quick"),
    ):
        assert f", place {words}" in write_verdict_sentence(board, asked)


def test_a_page_says_why_a_row_may_win_on_one_board_and_lose_under_roar():
    def said(**words):
        boards = ((SimpleNamespace(protocol=SHOWN[name], title="digits"), row(word)) for name, word in words.items())
        return explain_disagreement([(None, *each) for each in boards])

    why = said(matched="yes", roar="<")
    assert why.startswith("On digits it beats every control under Matched gain and is below Local contrast under ROAR.")
    assert MATCHED.question in why and ROAR.question in why
    assert said(matched="<", roar="yes").startswith("On digits it beats every control under ROAR and is ")
    assert said(matched="yes", roar="≈") == said(matched="yes", augmented="<") == ""


def test_the_key_says_what_a_range_of_places_and_masks_alone_are():
    found = (Doubt("≈ contrast", ""), Doubt("masks alone 66 %", ""))
    first, ranged = (
        row("yes", "e1", place=RankInterval(1, 1, 1)),
        row("≈", "e2", place=RankInterval(2, 2, 4), doubts=found),
    )
    place, masks = list_explanations(SimpleNamespace(rows=[first, ranged]))
    assert place.startswith("Place 2–4: ")
    assert masks.startswith("masks alone 66 %: ") and masks.endswith(" have an accuracy of 66 %.")
    more = [replace(first, added=True), replace(ranged, reversed_by=("e1",))]
    _, added, roar, _ = list_explanations(SimpleNamespace(rows=more))
    assert added.startswith("In brackets: ") and roar.startswith("ROAR place: ")
    assert list(list_explanations(SimpleNamespace(rows=[replace(first, place=None), first]))) == []


def test_a_page_says_a_doubt_once_with_all_boards_that_have_it():
    suite = SimpleNamespace(title="quick")
    here, there = (SimpleNamespace(tab_label=protocol.tab) for protocol in (MATCHED, ROAR))
    aside = (Doubt("m", "Masks tell. This counts under ROAR."), Doubt("≈ c", "Level with contrast.", grave=True))
    rows = [(here, aside), (there, (Doubt("m", "Masks tell.", grave=True), Doubt("x", "Else.")))]
    both = ["quick, What can only a network know?", "quick, ROAR (2019)"]
    assert collect_doubts((suite, board, row("≈", doubts=found)) for board, found in rows) == [
        ("Masks tell. This counts under ROAR.", True, both),
        ("Level with contrast.", True, both[:1]),
        ("Else.", False, both[1:]),
    ]


NONE = Estimate()
BARE = Row("var-grad", 3, NONE, (), (), NONE, None)


def texts(results, protocol=MATCHED, **row):
    """Doubts in short, in full and whether grave, with plain spaces, as they are read."""
    found = list_row_doubts(SuiteDraws.of(results, Bootstrap(200)), protocol, replace(BARE, **row))
    return [
        (*(text.replace("\u202f", " ").replace("−", "-") for text in (d.short, d.sentence)), d.grave) for d in found
    ]


def test_rivals_and_twins_that_have_as_much_are_doubts_with_their_size():
    for over, short, side in (
        (Estimate(1.1, -0.3, 2.5), "≈ Local contrast", "Not significantly different from"),
        (Estimate(-8.0, -9.0, -7.0), "< Local contrast", "Significantly worse than"),
    ):
        ((said, sentence, grave),) = texts(held(), beating=beside(over, WORDS[short[0]]))
        assert said == short and grave and f"{over.value:+.1f} [" in sentence
        start = f"{side} Local contrast, which does not use the network: the row’s matched gain minus the control’s is "
        assert sentence.startswith(start)
    assert texts(held()) == [], "nothing speaks against a row without a rival"
    twins = {"shuffled": Estimate(0.2, -0.4, 0.8), "other-target": Estimate(9.0, 8.0, 9.9)}
    twins |= {"other-reference": Estimate(0.1, -0.2, 0.4)}
    against = {
        f"var-grad~{kind}": Comparison(Verdict.BETTER if over.low > 0 else Verdict.SAME, 0.1, 0.1, over)
        for kind, over in twins.items()
    }
    ((short, sentence, grave),) = texts(held(), delta_twins=twins, against=against)
    assert (short, grave) == ("≈ shuffled network", True) and "+0.2 [-0.4, +0.8] points" in sentence
    below = {"untrained": Estimate(-3.3, -4.6, -1.9)}
    against = {"var-grad~untrained": Comparison(Verdict.WORSE, 0.01, 0.01)}
    ((short, _, _),) = texts(held(), delta_twins=below, against=against)
    assert short == "< untrained network"


@pytest.mark.parametrize("suite", [SUITE, one_seed(SUITE)])
def test_masks_that_tell_the_class_have_their_size(suite):
    """Also of a single training, which has no interval; they take success away under ROAR alone."""

    def said(protocol, share=0.53):
        return [found for found in texts(held(suite, leaky(share)), protocol) if "masks" in found[0]]

    ((short, sentence, grave),) = said(ROAR)
    assert short in ("masks alone 53 %", "masks alone 54 %") and "At t = 0.9" in sentence
    assert "chance is 25 %" in sentence and "results of ROAR" not in sentence
    assert ("[" in sentence) is (suite is SUITE) and not grave
    ((_, elsewhere, grave),) = said(MATCHED)
    assert "This mark was computed from results of ROAR, not of matched." in elsewhere and not grave
    assert not said(ROAR, 0.3), "masks that tell nothing"


def test_only_runs_of_a_protocol_or_of_the_two_that_it_is_made_of_count_as_runs_of_changed_code():
    """ROAR has two levels of three trainings in scalar and of one in pixel unit, KAR two of one training."""
    found = held()
    changed = Provenance("0.2.0 1a2b3c4d+dirty", {}, {})
    runs = {p: replace(r, provenance=changed) if p.cell.order is Order.LERF else r for p, r in found.results.items()}
    results = replace(found, results=runs)
    assert texts(results, ROAR) == []
    for protocol, number in (("kar", 2), ("diffroar", 10)):
        (short, said, _), *_ = texts(results, SHOWN[protocol])
        assert short == "changed code"
        assert said == f"2 of its {number} runs were computed by code with uncommitted changes."


@pytest.mark.parametrize("protocol", [ROAR, MATCHED])
def test_noise_shows_under_every_protocol_and_what_comes_from_outside_is_one_line_of_text(protocol):
    outside = {"doubts": {"var-grad": "<b>no</b>\n" * 200}, "findings": {"var-grad": "`validate` found: slow"}}
    found, elsewhere, noise = texts(replace(held(), prediction_stability={"var-grad": 0.684}, **outside), protocol)
    assert (found[0], elsewhere[0]) == ("see validate", "run elsewhere")
    assert noise[0] == "prediction stability 68 %" and "another class" in noise[1]
    assert "\n" not in elsewhere[1] and len(elsewhere[1]) < 510


def test_a_page_shows_six_images_at_equal_steps_or_all_of_fewer_once():
    assert (
        choose_evenly_spaced_images(24) == [0, 4, 8, 12, 16, 20]
        and choose_evenly_spaced_images(3) == [0, 1, 2]
        and choose_evenly_spaced_images(0) == []
    )


def test_templates_capitalize_only_the_first_letter():
    template = load_templates().from_string("{{ 'DiffROAR'|capitalize }}, {{ 'own-network gain'|capitalize }}")
    assert template.render() == "DiffROAR, Own-network gain"


def test_a_disagreement_is_explained_only_within_a_suite():
    """A verdict on digits does not contradict one on photographs."""
    wins, loses = (
        (SimpleNamespace(protocol=SHOWN[name], title=""), row(kind))
        for name, kind in (("matched", "yes"), ("roar", "<"))
    )
    assert explain_disagreement([("one", *wins), ("one", *loses)])
    assert explain_disagreement([("one", *wins), ("other", *loses)]) == ""
