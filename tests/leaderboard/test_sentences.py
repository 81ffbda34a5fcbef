"""Sentences about rows: the headline follows adjusted verdicts, and doubts name the control and the difference."""

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from leaderboard.board_contents import BEATS, OPEN, UNJUDGED, BoardRow
from leaderboard.build_board_contents import (
    write_beats_controls_headline,
    write_combined_headline,
    write_own_network_headline,
)
from leaderboard.page.estimator import (
    choose_evenly_spaced_images,
    collect_doubts,
)
from leaderboard.render import load_templates
from roarbench.analysis.suite_judges import Grade
from roarbench.common.enums import Order, Unit
from roarbench.plan.protocols import KAR, OWN_NETWORK, OWN_NETWORK_LERF, SHOWN
from roarbench.report.doubts import Doubt, find_doubts
from roarbench.report.table import SuiteTable
from roarbench.stats.board_records import Board, IntervalScope, Row
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.verdicts import Comparison, ControlComparison, Verdict
from roarbench.store.run_result import Provenance
from tests.helpers.made_up_results import SUITE, limit_to_one_seed, make_leaky_accuracy, make_suite_results
from tests.helpers.store_rows import change_rows

MATCHED, ROAR = SHOWN["matched"], SHOWN["roar"]
OVER = {"yes": Estimate(2.0, 1.0, 3.0), "<": Estimate(-2.0, -3.0, -1.0), "≈": Estimate(0.5, -1.0, 2.0)}

NONE = Estimate()
WORDS = {"yes": Verdict.BETTER, "<": Verdict.WORSE, "≈": Verdict.SAME}


def compare_with_control(over, verdict):
    return ControlComparison({"contrast": Comparison(verdict, 0.01, 0.01, over)})


def make_row(word, name="e", **more):
    """Return a row that beats, equals or loses to the control; a control; or a row without gain or verdict."""
    found = compare_with_control(OVER[word], WORDS[word]) if word in OVER else None
    control = word.startswith("control")
    value = Estimate() if word.endswith("missing") else Estimate(1.0, 0.0, 2.0)
    return replace(BoardRow(name, name.upper(), "", "", control, None, value, found), **more)


CASES = {  # + marks a row added to the suite, @ a submission
    "control yes yes ≈": "2 of 3 estimators are shown to beat every control.",
    "control control yes ≈": "1 of 2 estimators is shown to beat every control.",
    "control ≈ <": "None of 2 estimators is shown to beat every control.",
    "control yes": "1 of 1 estimator is shown to beat every control.",
    "control yes +yes": "1 of the suite’s 1 estimator is shown to beat every control. "
    "Added rows that beat every control: E2.",
    "control yes yes +≈": "2 of the suite’s 2 estimators are shown to beat every control.",
    "control < +yes @yes": "None of the suite’s 1 estimator is shown to beat every control. "
    "Added rows that beat every control: E2 and E3 0123abcd.",
    "+control yes": "",  # verdicts ignore an added control
    "control-missing yes": "",
    "control yes unjudged": "",  # at chance, without intervals, or missing
    "control": "",
}


@pytest.mark.parametrize("words", CASES)
def test_describe_winners_matches_verdicts(words):
    rows = [
        make_row(word.strip("+@"), f"e{n}", added=word[0] in "+@", detail="submission 0123abcd" * (word[0] == "@"))
        for n, word in enumerate(words.split())
    ]
    said = CASES[words]
    assert write_beats_controls_headline(rows, MATCHED) == said, "no protocol has the opposite order"
    unfinished = [replace(row, unfinished=row.added) for row in rows]
    assert write_beats_controls_headline(unfinished, MATCHED) == re.sub(r"(E2|E3 0123abcd)", r"\1 (unfinished)", said)
    alone = said.replace("beat every control", "beat every control, for this network only", 1)
    assert write_beats_controls_headline(rows, MATCHED, one_network=True) == alone
    for protocol in (ROAR, KAR):
        named = said and f"Under {protocol.title}, {said[0].lower()}{said[1:]}"
        assert write_beats_controls_headline(rows, protocol) == named


def make_two_boards(explains, better, search=("search(passes=65)", None, True)):
    """Return rows with own-network verdicts, beside a search or None, and rows with verdicts against Random."""
    controls = {"random-blurred"}
    verdicts = {one: one for one in OwnNetworkVerdict}
    verdicts |= {True: OwnNetworkVerdict.EXPLAINS, False: OwnNetworkVerdict.OPEN}
    verdicts[None] = OwnNetworkVerdict.BY_CONSTRUCTION
    found = {name: verdicts[word] for name, word in explains.items()}
    controls |= {name for name, verdict in found.items() if verdict is OwnNetworkVerdict.CONTROL}
    bare = {name: make_row("control" if name in controls else "e", name) for name in {**explains, **better}}
    network = [replace(bare[name], network=OwnNetworkTest(verdict, search=search)) for name, verdict in found.items()]
    roar = [replace(bare[name], verdict_class=BEATS if word else OPEN) for name, word in better.items()]
    return network, [replace(row, value=NONE) for row in roar]


def add(rows, *names):
    """Return the rows; those with these names were added to the suite."""
    return [replace(row, added=row.id in names) for row in rows]


def test_combined_headline_counts_estimators_and_names_blurred_noise():
    explains = {"grad": True, "ig": True, "gb-sq": False, "random-blurred": None}
    for better, blurred, said in (
        (True, True, "1 of 2 is shown to beat Random, and so is blurred noise."),
        (False, True, "none of 2 is shown to beat Random, but blurred noise is."),
        (True, False, "1 of 2 is shown to beat Random."),
    ):
        boards = make_two_boards(explains, {"grad": better, "gb-sq": False, "random-blurred": blurred})
        found = write_combined_headline(*boards)
        assert found == f"2 of 3 estimators are shown to explain their network (MoRF); under ROAR {said}"
    controls = {"search(passes=65)": OwnNetworkVerdict.CONTROL, "search(passes=2)": OwnNetworkVerdict.CONTROL}
    searched = {"ig": OwnNetworkVerdict.SEARCHED, "gb-sq": OwnNetworkVerdict.ABOVE_SHORTER}
    boards = make_two_boards(explains | searched | controls, {"grad": True})
    assert write_combined_headline(*boards).startswith("1 of 3 estimators is shown to explain its network (MoRF);")
    network, roar = make_two_boards(explains, {"grad": True})
    more, again = make_two_boards(explains | {"sg-grad": True}, {"grad": True, "sg-grad": True})
    assert write_combined_headline(add(more, "sg-grad"), add(again, "sg-grad")) == (
        "2 of the suite’s 3 estimators are shown to explain their network (MoRF); "
        "under ROAR 1 of its 1 is shown to beat Random."
    ), "the page has rows that are not counted"
    measured = [replace(again[0], value=Estimate(1.0)), again[1]]
    assert write_combined_headline(more, measured, included_levels_text="at 90 %") == (
        "3 of 4 estimators are shown to explain their network (MoRF); "
        "under ROAR at 90 % 1 of 1 is shown to beat Random."
    ), "a row without the levels that were run is not counted"
    for without_verdict in (
        ([replace(row, network=None) for row in network], roar),
        (network, [replace(row, verdict_class=UNJUDGED) for row in roar]),
    ):
        assert write_combined_headline(*without_verdict) == ""
    shown_none, _ = make_two_boards({"grad": False, "ig": False}, {})
    for protocol, order in ((OWN_NETWORK, "(MoRF)"), (OWN_NETWORK_LERF, "(LeRF)")):
        found = write_own_network_headline(shown_none, protocol)
        assert found == f"None of 2 estimators is shown to explain its network {order}."
        for verdict, count in ((OwnNetworkVerdict.ABOVE_ZERO, "1"), (False, "None")):
            alone, _ = make_two_boards({"grad": verdict, "ig": False}, {}, search=None)
            found = write_own_network_headline(alone, protocol)
            assert found == f"{count} of 2 estimators gains more than 0, compared with no blind search {order}."


def test_collect_doubts_merges_equal_doubts_of_boards():
    suite = SimpleNamespace(title="quick")
    here, there = (SimpleNamespace(tab_label=protocol.title) for protocol in (MATCHED, ROAR))
    level = Doubt("e", "≈ c", "Level with contrast.", Grade.STRONG)
    aside = (Doubt("e", "m", "Masks tell. This counts under ROAR."), level)
    rows = [(here, aside), (there, (Doubt("e", "m", "Masks tell.", Grade.STRONG), Doubt("e", "x", "Else.")))]
    both = ["quick, Matched gain", "quick, ROAR"]
    assert collect_doubts((suite, board, make_row("≈", doubts=found)) for board, found in rows) == [
        ("Masks tell. This counts under ROAR.", True, both),
        ("Level with contrast.", True, both[:1]),
        ("Else.", False, both[1:]),
    ]


BARE = Row("var-grad", 3, NONE, (), (), NONE, None)


def list_doubts(results, protocol=MATCHED, **row):
    """Return short text, sentence and severity of each doubt, with plain spaces and minus signs."""
    levels = tuple(0.1 * (1 + i) for i in range(len(row.get("differences", ()))))
    board = Board(protocol, levels, (replace(BARE, **row),), 0, IntervalScope.NETWORKS)
    found = find_doubts(SuiteTable(results, board, Unit.SCALAR))
    shown = [doubt.typeset() for doubt in found if doubt.short not in ("no rank", "at the floor, t = 0.9")]
    return [
        (*(text.replace("\u202f", " ").replace("−", "-") for text in (d.short, d.sentence)), d.grave) for d in shown
    ]


def test_doubts_name_levels_with_gains_of_opposite_sign():
    """Under ROAR and MoRF a gain is a fall of accuracy, under KAR a rise."""
    falls, rises, same = Estimate(-0.2, -0.3, -0.1), Estimate(0.1, 0.05, 0.15), Estimate(0.1, -0.05, 0.25)
    ranked, signs = {"find_place": lambda: RankInterval(1, 1, 1)}, "sign differs by level"
    by_level = "Its gain is +20.0 [+10.0, +30.0] points at t = 0.1 and -10.0 [-15.0, -5.0] points at t = 0.3"
    sentence = f"{by_level}; the row’s gain is over all levels."
    results = make_suite_results()
    assert list_doubts(results, ROAR, differences=(falls, same, rises), **ranked) == [(signs, sentence, False)]
    ((_, reversed_sentence, _),) = list_doubts(results, KAR, differences=(falls, rises), **ranked)
    assert reversed_sentence.startswith("Its gain is -20.0 [-30.0, -10.0] points at t = 0.1 and +10.0 [")
    for differences in ((falls, same), (falls, Estimate(0.1)), (rises, rises)):
        assert list_doubts(results, differences=differences, **ranked) == []
    assert list_doubts(results, differences=(falls, rises)) == [], "at chance, a row has no rank"


def test_doubts_name_controls_and_variants_with_equal_gain():
    for over, short, side in (
        (Estimate(1.1, -0.3, 2.5), "≈ Local contrast", "Not significantly different from"),
        (Estimate(-8.0, -9.0, -7.0), "< Local contrast", "Significantly worse than"),
    ):
        beating = compare_with_control(over, WORDS[short[0]])
        ((said, sentence, grave),) = list_doubts(make_suite_results(), beating=beating)
        assert said == short and grave and f"{over.value:+.1f} [" in sentence
        start = f"{side} Local contrast, which does not use the network: the row’s matched gain minus the control’s is "
        assert sentence.startswith(start)
    assert list_doubts(make_suite_results()) == [], "nothing speaks against a row without a rival"
    twins = {"shuffled": Estimate(0.2, -0.4, 0.8), "other-target": Estimate(9.0, 8.0, 9.9)}
    twins |= {"other-reference": Estimate(0.1, -0.2, 0.4)}
    against = {
        f"var-grad~{kind}": Comparison(Verdict.BETTER if over.low > 0 else Verdict.SAME, 0.1, 0.1, over)
        for kind, over in twins.items()
    }
    ((short, sentence, grave),) = list_doubts(make_suite_results(), delta_twins=twins, against=against)
    assert (short, grave) == ("≈ shuffled network", True) and "+0.2 [-0.4, +0.8] points" in sentence
    below = {"untrained": Estimate(-3.3, -4.6, -1.9)}
    against = {"var-grad~untrained": Comparison(Verdict.WORSE, 0.01, 0.01)}
    ((short, _, _),) = list_doubts(make_suite_results(), delta_twins=below, against=against)
    assert short == "< untrained network"


@pytest.mark.parametrize("suite", [SUITE, limit_to_one_seed(SUITE)])
def test_mask_only_doubt_states_accuracy(suite):
    """A single training has no interval."""

    def said(protocol, share=0.53):
        doubts = list_doubts(make_suite_results(suite, make_leaky_accuracy(share)), protocol)
        return [doubt for doubt in doubts if "masks" in doubt[0]]

    ((short, sentence, grave),) = said(ROAR)
    assert short in ("masks alone 53 %", "masks alone 54 %") and "At t = 0.9" in sentence
    assert "chance is at least 25.0 % (labels unknown)" in sentence and "results of ROAR" not in sentence
    assert ("[" in sentence) is (suite is SUITE) and not grave
    ((_, elsewhere, grave),) = said(MATCHED)
    assert "This mark was computed from results of ROAR, not of Matched gain." in elsewhere and not grave
    assert not said(ROAR, 0.3), "masks that tell nothing"


def test_changed_code_doubt_counts_runs_of_protocol_and_its_parts():
    """ROAR has two levels with three trainings (scalar unit) and one (pixel unit), KAR two levels with one training."""

    def change(point, row):
        changed = Provenance("0.2.0 1a2b3c4d+dirty", {}, {})
        return replace(row, provenance=changed) if point.cell.order is Order.LERF else row

    results = change_rows(make_suite_results(), change)
    assert list_doubts(results, ROAR) == []
    for protocol, number in (("kar", 2), ("diffroar", 10)):
        (short, said, _), *_ = list_doubts(results, SHOWN[protocol])
        assert short == "changed code"
        assert said == f"2 of its {number} runs were computed by code with uncommitted changes."


@pytest.mark.parametrize("protocol", [ROAR, MATCHED])
def test_stability_doubt_is_in_all_protocols_and_imported_text_is_one_line(protocol):
    outside = {"doubts": {"var-grad": "<b>no</b>\n" * 200}, "findings": {"var-grad": "Validation found: slow"}}
    results = replace(make_suite_results(), prediction_stability={"var-grad": 0.684}, **outside)
    elsewhere, found, noise = list_doubts(results, protocol)
    assert (found[0], elsewhere[0]) == ("see validate", "run elsewhere")
    assert noise[0] == "prediction stability 68 %" and "another class" in noise[1]
    assert "\n" not in elsewhere[1] and len(elsewhere[1]) < 510


def test_choose_evenly_spaced_images_returns_six_or_all():
    for count, chosen in ((24, [0, 4, 8, 12, 16, 20]), (3, [0, 1, 2]), (0, [])):
        assert choose_evenly_spaced_images(count) == chosen


def test_template_capitalize_changes_only_first_letter():
    template = load_templates().from_string("{{ 'DiffROAR'|capitalize }}, {{ 'own-network gain'|capitalize }}")
    assert template.render() == "DiffROAR, Own-network gain"
