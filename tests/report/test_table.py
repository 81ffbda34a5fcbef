"""Formats, columns and notes of the table, from a handwritten board."""

import json
import re
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

import roarbench.cli.main  # noqa: F401  # registers the commands that proposed lines are made from
from roarbench.analysis.suite_judges import Grade, Mark
from roarbench.analysis.suite_results import SuiteResults
from roarbench.api.published_results import load_published_results
from roarbench.cli.terminal import print_table
from roarbench.common.enums import Unit
from roarbench.common.text import format_interval
from roarbench.plan.protocols import KAR, OWN_NETWORK, ROAR, SHOWN
from roarbench.plan.suites import RESULTS, read_suite
from roarbench.report.combined_table import has_combined_table, make_combined_table
from roarbench.report.doubts import Doubt, Kind, Shown, find_doubts
from roarbench.report.table import SuiteTable
from roarbench.report.table import make_table as make_protocol_table
from roarbench.report.table_notes import list_table_doubts, suggest_diagnose, summarize_notes, write_all_notes
from roarbench.report.table_record import Column
from roarbench.report.table_renderers import wrap_columns
from roarbench.stats.board_records import Board, IntervalScope, Row
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkTest, OwnNetworkVerdict
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.verdicts import Comparison, ControlComparison, Verdict
from roarbench.store.published_folder import read_index_and_check_folder
from roarbench.store.results import UNVERIFIED, Origin
from tests.helpers.image_files import TEXT, write_suite
from tests.helpers.made_up_results import SUITE, make_suite_results, make_table, parse_rows, render_text, render_words
from tests.helpers.shown_tables import format_html, format_text, list_columns, render

NONE = Estimate()
BETTER, SAME = Comparison(Verdict.BETTER, 0.001, 0.002), Comparison(Verdict.SAME, 0.4, 0.4)
FLAG = Doubt("var-grad", "masks alone", "Its mask alone has most of it.", kind=Kind(shown=Shown.GAIN))
AT_MASKS = Kind(shown=Shown.NOTE, heading="At the floor, accuracy not significantly above that of masks alone")
AT_FLOOR = Doubt("var-grad", "at the floor", "", brief="(t = 0.9)", kind=AT_MASKS)


def make_row(name, accuracies, gain, position=None, random=None, sobel=None, blurred=None, seeds=2, check=False):
    against = {"random": random, "sobel": sobel, "random-blurred": blurred}
    against |= {"var-grad~other-image": BETTER} if name == "var-grad" else {}
    against = {rival: found for rival, found in against.items() if found}
    clean, twins = Estimate(0.9, 0.88, 0.92), {"other-image": Estimate(2.5, 1.0, 4.0)} if name == "var-grad" else {}
    place = position and (lambda: position)
    return Row(name, seeds, clean, accuracies, (NONE, NONE), gain, place, check, against=against, delta_twins=twins)


LOW = (Estimate(0.7, 0.6, 0.8), Estimate(0.5, 0.4, 0.6))
ROWS = (
    make_row(
        "random", (Estimate(0.8, 0.78, 0.82), Estimate(0.6, 0.5, 0.7)), Estimate(0.0, 0.0, 0.0), RankInterval(3, 3, 4)
    ),
    make_row("grad", (Estimate(0.75), NONE), NONE, seeds=0),
    make_row("ig", (LOW[0], Estimate(0.45678, 0.4, 0.5)), Estimate(-1.25, -3.0, 0.5), RankInterval(4, 3, 4), SAME),
    replace(
        make_row("var-grad", LOW, Estimate(12.345, 10.0, 14.0), RankInterval(1, 1, 1), BETTER, BETTER, SAME),
        differences=(Estimate(-0.2, -0.3, -0.1), NONE),
    ),
    make_row("sobel", LOW, Estimate(3.0, 1.0, 5.0), RankInterval(2, 2, 2), BETTER),
)
CHECK = make_row("ig~blurred", (Estimate(0.7), Estimate(0.4)), Estimate(20.0, 18.0, 22.0), check=True)
BOARD = Board(SHOWN["roar"], (0.5, 0.9), ROWS, 2000, IntervalScope.BOTH, family=12)
TABLE = SuiteTable(
    SuiteResults(SUITE, "da7a", None, {}),
    BOARD,
    Unit.SCALAR,
    doubts=(FLAG, AT_FLOOR),
    marks={"var-grad": (Mark("masks", Estimate(0.8, 0.7, 0.9), Grade.SOME),)},
    above_masks={"var-grad": {0.9: Estimate(0.012, -0.01, 0.034)}},
)


def make_table_with_board(suite=SUITE, **changes):
    results = replace(TABLE.suite_results, suite=suite)
    table = replace(TABLE, suite_results=results, board=replace(BOARD, **changes))
    return replace(table, doubts=(*TABLE.doubts, *find_doubts(table)))


def format_printed(table, width=80, notes=True):
    return render_text(format_text(table, width, notes), width)


JSON = """{
    "suite": "made-up", "version": 1, "levels": [0.5, 0.9], "protocol": "roar", "unit": "scalar", "fill": "mean",
    "images": 2000, "limit": null, "data": "da7a", "reference": null, "reference_accuracy": null, "complete": false,
    "missing_runs": 0, "planned_runs": 0,
    "at_chance": false, "confidence": 0.95,
    "intervals_cover": "images and seeds", "one_network": false, "references": 0, "reference_deviation": null,
    "reference_rows": 0, "reference_freedom": null, "family": 12, "chance": null}"""
ROW = """{
    "estimator": "var-grad", "place": 1, "place_low": 1, "place_high": 1, "added": false, "verdict": "better",
    "verdict_sobel": "better", "verdict_random_blurred": "not significantly different", "grade": "some",
    "flag": "Its mask alone has most of it.",
    "beats_controls": null, "nearest_control": null, "delta_nearest_control": null, "delta_nearest_control_low": null,
    "delta_nearest_control_high": null, "unfinished": false, "failed": false, "better_than": null,
    "gain": 12.345, "gain_low": 10.0, "gain_high": 14.0,
    "gains": {"0.5": 20.0, "0.9": null}, "gains_low": {"0.5": 10.0, "0.9": null},
    "gains_high": {"0.5": 30.0, "0.9": null}, "seeds": 2, "prediction_stability": null,
    "forward_passes": 15.0, "backward_passes": 15.0,
    "curve": {"0.0": 0.9, "0.5": 0.7, "0.9": 0.5}, "above_masks": {"0.9": 0.012},
    "above_masks_low": {"0.9": -0.01}, "above_masks_high": {"0.9": 0.034},
    "delta_twins": {"other-image": 2.5, "other-image_low": 1.0, "other-image_high": 4.0,
        "other-image_verdict": "better"}}"""


def test_table_json_has_documented_keys():
    """Accuracies are fractions, gains are points, and missing values are null."""
    found = json.loads(render(TABLE, "json"))
    assert len(found.pop("rows")) == len(ROWS)
    assert found == json.loads(JSON) | {"hash": TABLE.runs_hash}
    full, empty = parse_rows(TABLE)["var-grad"], parse_rows(TABLE)["grad"]
    assert full == json.loads(ROW)
    values = {name: value for name, value in empty.items() if not isinstance(value, dict)}
    missing = dict.fromkeys(name for name, value in full.items() if not isinstance(value, dict))
    declared = {"forward_passes": 1.0, "backward_passes": 1.0}
    assert values == missing | declared | {
        "estimator": "grad",
        "added": False,
        "unfinished": False,
        "failed": False,
        "seeds": 0,
    }
    assert empty["curve"] == {"0.0": 0.9, "0.5": 0.75, "0.9": None} and empty["above_masks_low"] == {"0.9": None}
    assert {*empty["delta_twins"].values()} == {None}


def test_table_csv_matches_json_without_spreadsheet_formulas():
    rows, plain_rows = parse_rows(TABLE, "csv"), parse_rows(TABLE)
    assert list(rows) == ["var-grad", "sobel", "random", "ig", "grad"]
    for name, row in rows.items():
        flat = {"limit": None, "chance": None, "protocol": "roar", "hash": TABLE.runs_hash}
        flat |= {"missing_runs": 0, "planned_runs": 0}
        for key, value in plain_rows[name].items():
            group = "accuracy" if key == "curve" else key
            flat |= {f"{group}_{t}": v for t, v in value.items()} if isinstance(value, dict) else {key: value}
        assert row == {key: "" if value is None else str(value) for key, value in flat.items()}
    formula = make_table_with_board(rows=(replace(ROWS[3], estimator="-2@0123abcd"),))
    assert list(parse_rows(formula, "csv")) == ["'-2@0123abcd"]


def test_table_states_common_origin_of_imported_rows_once():
    plain, names = make_suite_results(), {point.cell.estimator for point in make_suite_results().results}
    imported = replace(plain, doubts=dict.fromkeys(names, UNVERIFIED[Origin.SELF_REPORTED]))
    own, table = make_table(plain), make_table(imported)
    signs = {name: own.format_row_signs(name) for name in own.names}
    assert {name: table.format_row_signs(name) for name in table.names} == signs
    assert suggest_diagnose(table) == suggest_diagnose(own)
    said = "All rows are self-reported: imported, and not reproduced here."
    assert summarize_notes(table).count(said) == 1 == write_all_notes(table).count("self-reported")
    assert said not in summarize_notes(own)
    assert all("Self-reported: imported" in row["flag"] for row in parse_rows(table).values())
    mixed = make_table(replace(imported, doubts={name: said for name in names - {"grad"}}))
    assert said not in summarize_notes(mixed)
    assert {name for name in mixed.names if not mixed.format_row_signs(name)} == {"grad"} - {*filter(signs.get, signs)}


def test_table_markdown_matches_handwritten_lines():
    lines = render(TABLE, "markdown", notes=True).splitlines()
    assert render(TABLE, "markdown").splitlines() == [*lines[:-1], " ".join(summarize_notes(TABLE))]
    assert lines == [
        "**made-up v1: ROAR**",
        "",
        "| place | estimator | gain [95%] | gain at 0.5 | gain at 0.9 | vs Random | vs Sobel | vs blurred random "
        "| Δ other image | vs other image | accuracy at 0.5 | accuracy at 0.9 | above masks at 0.9 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| 1 | var-grad (!) | +12.3 [+10.0, +14.0] | +20.0 | – | better | better | not significantly different "
        "| +2.5 [+1.0, +4.0] | better | 70.0 | 50.0 | +1.2 [-1.0, +3.4] |",
        "| 2 | sobel | +3.0 [+1.0, +5.0] | – | – | better | – | – | – | – | 70.0 | 50.0 | – |",
        "| 3-4 | random | 0.0 [0.0, 0.0] | – | – | – | – | – | – | – | 80.0 | 60.0 | – |",
        "| 3-4 | ig | -1.2 [-3.0, +0.5] | – | – | not significantly different | – | – | – | – | 70.0 | 45.7 | – |",
        "| – | grad | – | – | – | – | – | – | – | – | 75.0 | – | – |",
        "",
        f"{TABLE.caption}. {write_all_notes(TABLE)}",
    ]


def test_table_shows_sample_counts_below_default():
    """A shown name states its sample count where this is below the method's default; JSON keeps the id."""
    table = make_table_with_board(rows=(replace(ROWS[0], estimator="rise"),))
    assert set(parse_rows(table)) == {"rise"} and "| rise(samples=256) |" in render(table, "markdown")


def test_table_text_shows_checks_below_ranked_rows():
    whole = format_printed(make_table_with_board(rows=(CHECK, *ROWS)), 160)
    above, _, below = whole.partition(" ig~blurred ")
    assert not above.splitlines()[-2].strip() and " grad " in above and " grad " not in below
    assert f" {format_interval(ROWS[3].gain)} " in whole and "≈" in whole


@pytest.mark.parametrize("style", ["text", "markdown", "html", "json"])
def test_table_shows_rank_of_added_row_in_brackets(style):
    added = replace(ROWS[3], estimator="mine@0123abcd", find_place=lambda: RankInterval(3, 2, 4, added=True))
    suite = replace(SUITE, added=frozenset({"mine@0123abcd"}))
    shown = make_table_with_board(suite, rows=(*ROWS[:3], added, ROWS[4]))
    if style == "json":
        assert [row["added"] for row in parse_rows(shown).values()] == [True, False, False, False, False]
        return
    formats = {"text": format_printed, "html": format_html, "markdown": partial(render, style="markdown", notes=True)}
    words = " ".join(formats[style](shown).split())
    assert words.count("(2-4)") == 1 and "(3-4)" not in words and "mine (added)" in words  # without the file's hash
    note = "Rows in brackets are judged as if each alone were added to the suite: mine@0123abcd."
    assert (note in words) is (style != "html")


def test_table_doubts_name_missing_controls(tmp_path):
    suite = read_suite(write_suite(tmp_path, TEXT.replace('["roar"]', '["matched", "roar"]')))
    found = Comparison(Verdict.BETTER, 0.01, 0.01, Estimate(1.0, 0.5, 1.5))
    beats = replace(ROWS[3], beating=ControlComparison({"random": found}))
    for name, row, faults in (("matched", beats, 1), ("matched", ROWS[3], 0), ("roar", beats, 0)):
        doubts = list_table_doubts(make_table_with_board(suite, protocol=SHOWN[name], rows=(row,)))
        assert [words.startswith("only 3 controls for matched") for words in doubts] == [True] * faults


def test_better_than_column_names_controls_before_untrained_twin():
    def beside(row, found):
        return replace(row, against=row.against | {f"{row.estimator}~untrained": found})

    told = (
        ("controls", beside(ROWS[3], SAME)),
        ("controls, untrained twin", beside(replace(ROWS[3], estimator="gb"), BETTER)),
        ("≈ Random", beside(ROWS[2], BETTER)),  # no better than Random, so its twin is not shown
        ("–", ROWS[4]),  # Sobel's filter uses no network
    )
    table = make_table_with_board(protocol=SHOWN["matched"], rows=tuple(row for _, row in told))
    rows = {row["estimator"]: row["better_than"] for row in json.loads(render(table, "json"))["rows"]}
    shown = render(table, "markdown")
    for words, row in told:
        assert f"| {words.removeprefix('controls, ')} |" in shown
        assert rows[row.estimator] == (words if "controls" in words else None)
    assert "Better than controls: better than Random" in render_words(table)


@pytest.mark.parametrize(("gain", "beaten"), [(9.9, ("controls",)), (10.1, ())])
def test_row_below_zero_gain_control_is_not_better_than_controls(gain, beaten):
    """Blurred noise with a gain in [-1, +21] is not significantly off 0, and still may rank above the row."""
    noise = replace(ROWS[1], estimator="random-blurred", gain=Estimate(gain, -1.0, 21.0), against={"random": SAME})
    row = replace(ROWS[3], gain=Estimate(10.0, 4.0, 16.0))
    table = make_table_with_board(protocol=SHOWN["matched"], rows=(noise, row))
    assert table.list_beaten_control_groups(row) == beaten


def test_strong_warning_has_own_sign_with_diagnose_command(monkeypatch, capsys):
    doubts = FLAG._replace(severity=Grade.STRONG, sentence="All of it."), FLAG._replace(row="ig")
    worst = {"var-grad": (*TABLE.marks["var-grad"], Mark("blurred", Estimate(1.2, 1.0, 1.4), Grade.STRONG))}
    strong = replace(TABLE, doubts=doubts, marks=worst)
    assert suggest_diagnose(strong).text == "(!!), (!): `{}` explains the doubts."
    assert "| 1 | var-grad (!!) |" in render(strong, "markdown")
    assert [row["grade"] for row in parse_rows(strong).values()] == ["strong", None, None, None, None]
    monkeypatch.setattr("sys.argv", ["roarbench", "table", "--suite", "made-up", "--store", "a name"])
    print_table(TABLE, "text", notes=True)
    assert "(!): `roarbench diagnose --suite made-up --store 'a name'` explains" in capsys.readouterr().out


def test_notes_name_rows_with_gains_of_opposite_sign():
    row = replace(ROWS[3], differences=(Estimate(-0.1, -0.15, -0.05), Estimate(0.2, 0.1, 0.3)))
    note = "opposite sign at two levels: var-grad (+10.0 [+5.0, +15.0] at t = 0.5, -20.0 [-30.0, -10.0] at t = 0.9)"
    shown, others = make_table_with_board(rows=(row,)), make_table_with_board(rows=ROWS)
    assert note in write_all_notes(shown) and "opposite" not in write_all_notes(others)
    assert "warnings" in summarize_notes(shown)[-1]


def test_narrow_table_drops_whole_columns():
    levels = tuple(n / 20 for n in range(1, 20))
    accuracies, differences = ((value,) * len(levels) for value in (Estimate(0.98765), NONE))
    kept = replace(ROWS[3], delta_twins={}, against={})
    row = replace(kept, accuracies=accuracies, differences=differences)
    table = replace(make_table_with_board(levels=levels, rows=(row,)), above_masks={})
    narrow = format_printed(table, 100)
    assert max(map(len, narrow.splitlines())) <= 100
    shown = [t for t in levels if f" at {t:g} " in narrow.splitlines()[3]]
    assert len(shown) >= 2 and shown == list(levels[-len(shown) :])  # the highest levels are kept
    assert "Columns not shown: gain at 0.05, " in " ".join(narrow.split())
    assert format_printed(table, width=700).count("98.8") == len(levels)


@pytest.mark.parametrize(
    ("board", "said"),
    [
        ({}, "95% intervals over images and seeds; place intervals hold jointly"),
        ({"family": 12}, "Verdicts of a column are adjusted for the suite's 12 rows, shown or not."),
        ({"family": 0}, "Verdicts of a column are adjusted for no other row."),
        ({"covers": IntervalScope.NOTHING}, "no intervals, no verdicts"),
        ({"covers": IntervalScope.NOTHING, "images": 0}, "0 of "),
        ({"reference_rows": 5, "reference_freedom": 8.09}, "5 rows (8.1 degrees of freedom)"),
        (
            {"covers": IntervalScope.REFERENCES, "references": 1},
            "images, explained networks and seeds, for this network only",
        ),
    ],
)
def test_notes_state_scope_of_intervals(board, said):
    notes = write_all_notes(make_table_with_board(**board))
    assert said in notes
    assert "At the floor, accuracy not significantly above that of masks alone: var-grad (t = 0.9)" in notes


def test_caption_states_levels_seeds_and_images():
    assert TABLE.caption == (
        "ROAR on planted with resnet-planted; levels 0.5, 0.9, without 0.3 of the suite; 2 seeds of 3; "
        "2000 test images; unit scalar; fill mean; scoring networks: 90.0% correct on untouched images (t=0); "
        "chance at least 25.0% (labels unknown)"
    )
    one, whole = (tuple(replace(row, seeds=seeds) for row in ROWS) for seeds in (1, 3))
    for rows, said in ((one, "1 seed of 3"), ((*one, *whole), "1 or 3 seeds"), (whole, "3 seeds"), ((), "no seeds")):
        assert f"; {said}" in make_table_with_board(rows=rows).caption
    assert "; the explained network, not retrained; " in make_table_with_board(protocol=SHOWN["morf"]).caption


def test_caption_counts_references_that_table_uses(monkeypatch):
    """`quick` trains five references, and its ROAR has three seeds: the caption said that it had five."""
    monkeypatch.setattr(SuiteResults, "reference_accuracy_text", "5 explained networks 73.1%, … correct")
    for used, said in (
        (3, "; 3 of 5 explained networks 73.1%"),
        (5, "; 5 explained networks 73.1%"),
        (0, "; 5 explained networks 73.1%"),
    ):
        table = make_table_with_board(references=used)
        results = replace(table.suite_results, references=dict.fromkeys(range(5)))
        assert said in replace(table, suite_results=results).caption


def test_table_is_doubtful_when_zero_gain_control_differs_from_0():
    off = replace(ROWS[4], estimator="random-blurred", against={"random": BETTER})
    rows = (off, replace(ROWS[3], against={"random": BETTER, "random-blurred": SAME}))
    table = make_table_with_board(protocol=SHOWN["matched"], rows=rows)
    assert write_all_notes(table).startswith(
        "This table is doubtful: gains that should be 0 differ significantly, and a gain of that size may mean "
        "nothing: random-blurred +3.0 [+1.0, +5.0]."
    )
    assert len(summarize_notes(table)) == 4 and summarize_notes(table)[2].startswith("This table is doubtful: ")
    assert table.list_beaten_control_groups(rows[1]) == (), "no better than a blurred random map"
    calm = make_table_with_board(protocol=SHOWN["matched"], rows=(replace(off, against={"random": SAME}), rows[1]))
    assert "Doubt on" not in write_all_notes(calm) and calm.list_beaten_control_groups(rows[1]) == ("controls",)


@pytest.mark.parametrize("protocol", SHOWN.values(), ids=SHOWN)
def test_table_text_ends_with_three_notes(protocol):
    """Each line fits into 80 columns; the notes explain every sign."""
    for covers, references in ((IntervalScope.REFERENCES, 3), (IntervalScope.BOTH, 1), (IntervalScope.NOTHING, 0)):
        table = make_table_with_board(protocol=protocol, covers=covers, references=references)
        below = format_printed(table, notes=False).rstrip().splitlines()[-3:]
        assert [line.rstrip() for line in below] == summarize_notes(table)
        assert [len(line) <= 80 for line in summarize_notes(table)] == [True] * 3
    gain, sure, more = summarize_notes(make_table_with_board(covers=IntervalScope.REFERENCES))
    assert gain == "Gain: area between Random's accuracy curve and the row's, most important first."
    assert sure == "95% intervals over images, explained networks and seeds; ≈: not significant."
    assert more == "(!), warnings and more are explained by table --notes and docs/how-it-works.md."


@pytest.mark.parametrize(
    ("width", "name", "words"),
    [  # the broken name, and the last of the words; numbers take 17 columns, margins 4
        (67, "grad(steps=5,noise=0.1)~blurred (!)", "≈ a control"),
        (66, "grad(steps=5,noise=0.1)~blurred\n(!)", "≈ a control"),
        (62, "grad(steps=5,noise=0.1)\n~blurred (!)", "≈ a control"),
        (54, "grad\n(steps=5,noise=0.1)\n~blurred (!)", "≈ a control"),
        (50, "grad\n(steps=5,noise=0.1)\n~blurred (!)", "≈ a\ncontrol"),
        (1, "grad\n(steps=5,\nnoise=0.1)\n~blurred\n(!)", "≈ a\ncontrol"),
    ],
)
def test_wrap_columns_breaks_names_before_words(width, name, words):
    numbers = ("gain [95%]", "+1.0 [+0.5, +1.5]")
    names = Column("estimator", (), "name", ("grad(steps=5,noise=0.1)~blurred (!)",), side="left")
    beats = Column("", (), "beats", ("≈ a control",), side="left")
    found = wrap_columns([names, Column("", (), numbers[0], numbers[1:]), beats], width)
    assert (found[0][1], found[1], found[2][1]) == (name, numbers, words)


@pytest.mark.slow
@pytest.mark.parametrize("suite", sorted({file.versioned_suite for file in read_index_and_check_folder(RESULTS)}))
def test_published_tables_have_whole_words_on_80_columns(suite):
    results = load_published_results(suite).stored
    for protocol in dict.fromkeys(block.protocol for block in results.suite.blocks):
        if not (table := make_protocol_table(results, protocol, results.suite.estimators)):
            continue
        shown = format_printed(table, notes=False)
        assert max(map(len, shown.splitlines())) <= 80
        words = set(re.split(r"\s+|(?=~)", shown))
        cells = (cell for column in list_columns(table) if not column.worth for cell in column.texts)
        for word in re.split(r"\s+|(?=~)", " ".join(cells).replace(Verdict.SAME, "≈")):
            name, *parameters = re.split(r"(?<=\w)(?=\()", word)
            assert word in words or {name, *parameters} <= words, word
    if has_combined_table(results.suite):
        shown = render_text(format_text(make_combined_table(results), 80), 80)
        assert max(map(len, shown.splitlines())) <= 80
        assert re.search(r"own-network +at +at +\n.* gain +0\.05 +0\.5 explains\?", shown)


def test_verdict_of_roar_compares_with_random_and_other_verdicts_with_every_control():
    """A row that is better than Random and worse than Sobel has both verdicts."""
    better, worse = (Comparison(verdict, 0.01, 0.01, Estimate()) for verdict in (Verdict.BETTER, Verdict.WORSE))
    against = {"random": better, "sobel": worse}
    row = Row("grad", 3, Estimate(), (), (), Estimate(1.0), None, against=against, beating=ControlComparison(against))
    network = OwnNetworkTest(OwnNetworkVerdict.EXPLAINS)
    for protocol, verdict in ((ROAR, Verdict.BETTER), (KAR, Verdict.WORSE), (OWN_NETWORK, OwnNetworkVerdict.EXPLAINS)):
        table = SimpleNamespace(board=SimpleNamespace(protocol=protocol))
        assert SuiteTable.find_verdict(table, replace(row, network=network)) is verdict
        assert SuiteTable.find_verdict(table, replace(row, against={}, beating=None)) is None
