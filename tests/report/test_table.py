"""Formats of the table, from a handwritten board."""

import json
from dataclasses import replace
from functools import partial
from html import unescape

import pytest

import roarbench.cli.main  # noqa: F401  # registers the commands that proposed lines are made from
from roarbench.analysis.row_warnings import Grade, Mark, RowWarning
from roarbench.analysis.suite_results import SuiteResults
from roarbench.cli.terminal import print_table
from roarbench.common.enums import Unit
from roarbench.common.text import format_interval, format_percent_number, format_rank
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import SHOWN
from roarbench.plan.read_suite_file import read_suite
from roarbench.report.table import SuiteTable
from roarbench.report.table_formats import format_html, format_text, render
from roarbench.report.table_notes import list_table_doubts, suggest_diagnose, summarize_notes, write_all_notes
from roarbench.stats.board_records import Board, IntervalScope, Row
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from roarbench.stats.rank_intervals import RankInterval
from roarbench.stats.verdicts import Comparison, ControlComparison, Verdict
from roarbench.store.results import UNVERIFIED, Origin
from tests.helpers.made_up import SUITE, TWINS, make_suite_results
from tests.helpers.own_photos import TEXT, write_suite
from tests.helpers.tables import make_table, parse_rows, render_text, render_words

NONE = Estimate()
BETTER, SAME = Comparison(Verdict.BETTER, 0.001, 0.002), Comparison(Verdict.SAME, 0.4, 0.4)
FLAG = RowWarning(Grade.SOME, "Its mask alone has most of it.")


def make_row(name, accuracies, gain, position=None, random=None, sobel=None, blurred=None, seeds=2, check=False):
    against = {"random": random, "sobel": sobel, "random-blurred": blurred}
    against |= {"var-grad~other-image": BETTER} if name == "var-grad" else {}
    against = {rival: found for rival, found in against.items() if found}
    clean = Estimate(0.9, 0.88, 0.92)
    made = Row(name, seeds, clean, accuracies, (NONE, NONE), gain, position, check, against=against)
    return replace(made, delta_other_image=Estimate(2.5, 1.0, 4.0)) if name == "var-grad" else made


LOW = (Estimate(0.7, 0.6, 0.8), Estimate(0.5, 0.4, 0.6))
ROWS = (
    make_row(
        "random", (Estimate(0.8, 0.78, 0.82), Estimate(0.6, 0.5, 0.7)), Estimate(0.0, 0.0, 0.0), RankInterval(3, 3, 4)
    ),
    make_row("grad", (Estimate(0.75), NONE), NONE, seeds=0),
    make_row("ig", (LOW[0], Estimate(0.45678, 0.4, 0.5)), Estimate(-1.25, -3.0, 0.5), RankInterval(4, 3, 4), SAME),
    make_row("var-grad", LOW, Estimate(12.345, 10.0, 14.0), RankInterval(1, 1, 1), BETTER, BETTER, SAME),
    make_row("sobel", LOW, Estimate(3.0, 1.0, 5.0), RankInterval(2, 2, 2), BETTER),
)
CHECK = make_row("ig~blurred", (Estimate(0.7), Estimate(0.4)), Estimate(20.0, 18.0, 22.0), check=True)
BOARD = Board(SHOWN["roar"], (0.5, 0.9), ROWS, 2000, Bootstrap(), IntervalScope.BOTH, detectable=2.25, family=12)
TABLE = SuiteTable(
    SuiteResults(SUITE, "da7a", None, {}),
    BOARD,
    Unit.SCALAR,
    row_warnings={"var-grad": FLAG},
    marks={"var-grad": (Mark("masks", Estimate(0.8, 0.7, 0.9), Grade.SOME),)},
    above_masks={"var-grad": {0.9: Estimate(0.012, -0.01, 0.034)}},
    levels_not_above_mask_only={"var-grad": (0.9,), "not shown": (0.5,)},
)


def make_table_with_board(suite=SUITE, **changes):
    results = replace(TABLE.suite_results, suite=suite)
    return replace(TABLE, suite_results=results, board=replace(BOARD, **changes))


def format_printed(table, width=80, notes=True):
    return render_text(format_text(table, width, notes), width)


def find_line(shown, name):
    return next(line for line in shown.splitlines() if f" {name} " in line and "gain [95%]" not in line)


JSON = """{
    "suite": "made-up", "version": 1, "levels": [0.5, 0.9], "protocol": "roar", "unit": "scalar", "fill": "mean",
    "images": 2000, "limit": null, "data": "da7a", "reference": null, "reference_accuracy": null, "complete": false,
    "at_chance": false, "confidence": 0.95, "resamples": 2000, "bootstrap_seed": 0,
    "intervals_cover": "images and seeds", "one_network": false, "references": 0, "reference_deviation": null,
    "reference_rows": 0, "reference_freedom": null, "family": 12, "detectable": 2.25, "chance": 0.25}"""
ROW = """{
    "estimator": "var-grad", "place": 1, "place_low": 1, "place_high": 1, "added": false, "verdict": "better",
    "verdict_sobel": "better", "verdict_random_blurred": "not significantly different", "grade": "some",
    "flag": "Its mask alone has most of it.",
    "beats_controls": null, "nearest_control": null, "delta_nearest_control": null, "delta_nearest_control_low": null,
    "delta_nearest_control_high": null, "better_than": null,
    "verdict_other_image": "better", "delta_other_image": 2.5, "delta_other_image_low": 1.0,
    "delta_other_image_high": 4.0, "gain": 12.345, "gain_low": 10.0, "gain_high": 14.0, "seeds": 2,
    "prediction_stability": null, "limit": null,
    "curve": {"0.0": 0.9, "0.5": 0.7, "0.9": 0.5}, "above_masks": {"0.9": 0.012},
    "above_masks_low": {"0.9": -0.01}, "above_masks_high": {"0.9": 0.034}}"""


def test_table_json_has_documented_keys():
    """Accuracies are fractions, gains are points, and missing values are null."""
    found = json.loads(render(TABLE, "json"))
    assert len(found.pop("rows")) == len(ROWS)
    assert found == json.loads(JSON) | {"hash": TABLE.runs_hash}
    assert parse_rows(TABLE)["var-grad"] == json.loads(ROW)
    assert parse_rows(TABLE)["grad"] == dict.fromkeys(parse_rows(TABLE)["var-grad"]) | {
        "estimator": "grad",
        "added": False,
        "seeds": 0,
        "curve": {"0.0": 0.9, "0.5": 0.75, "0.9": None},
        **dict.fromkeys(("above_masks", "above_masks_low", "above_masks_high"), {"0.9": None}),
    }
    small = replace(TABLE, suite_results=replace(TABLE.suite_results, limit=40))
    assert json.loads(render(small, "json"))["limit"] == 40


def test_table_csv_matches_json_without_spreadsheet_formulas():
    rows, plain_rows = parse_rows(TABLE, "csv"), parse_rows(TABLE)
    assert list(rows) == ["var-grad", "sobel", "random", "ig", "grad"]
    for name, row in rows.items():
        plain = plain_rows[name]
        curves = {key: plain.pop(key) for key in ("curve", "above_masks", "above_masks_low", "above_masks_high")}
        flat = plain | {"chance": 0.25, "protocol": "roar", "hash": TABLE.runs_hash}
        for key, curve in curves.items():
            flat |= {f"{'accuracy' if key == 'curve' else key}_{t}": value for t, value in curve.items()}
        assert row == {key: "" if value is None else str(value) for key, value in flat.items()}
    tied = make_table_with_board(rows=(ROWS[1], replace(ROWS[1], estimator="gb"), ROWS[2]))
    assert [row.estimator for row in tied.rows] == ["ig", "grad", "gb"]
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
        "| place | estimator | gain [95%] | vs Random | vs Sobel | vs blurred random "
        "| Δ other image | vs other image | accuracy at 0.5 | accuracy at 0.9 | above masks at 0.9 |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
        "| 1 | var-grad (!) | +12.3 [+10.0, +14.0] | better | better | not significantly different | +2.5 [+1.0, +4.0] "
        "| better | 70.0 | 50.0 | +1.2 [-1.0, +3.4] |",
        "| 2 | sobel | +3.0 [+1.0, +5.0] | better | – | – | – | – | 70.0 | 50.0 | – |",
        "| 3-4 | random | 0.0 [0.0, 0.0] | – | – | – | – | – | 80.0 | 60.0 | – |",
        "| 3-4 | ig | -1.2 [-3.0, +0.5] | not significantly different | – | – | – | – | 70.0 | 45.7 | – |",
        "| – | grad | – | – | – | – | – | – | 75.0 | – | – |",
        "",
        f"{TABLE.caption}. {write_all_notes(TABLE)}",
    ]


def test_table_shows_sample_counts_below_default():
    """A shown name states its sample count where this is below the method's default; JSON keeps the id."""
    names = {name: name.replace("(", "(samples=256,") for name in ("kernel-shap(patches=4)~blurred", "rise@1a2b3c4d")}
    names["rise"] = "rise(samples=256)"
    table = make_table_with_board(rows=tuple(replace(ROWS[0], estimator=name) for name in names))
    assert set(parse_rows(table)) == set(names)
    for name, shown in names.items():
        assert f"| {shown} |" in render(table, "markdown") and f" {shown} " in format_printed(table, 140)
        assert find_estimator(shown) == find_estimator(name)


def test_table_text_shows_checks_below_ranked_rows():
    checked = make_table_with_board(rows=(CHECK, *ROWS))
    assert [*parse_rows(checked)] == [*parse_rows(TABLE), "ig~blurred"]
    assert "The last row is a twin" in write_all_notes(checked) and "is a twin" not in write_all_notes(TABLE)
    whole = format_printed(checked, 160)
    assert not whole.partition(" ig~blurred ")[0].splitlines()[-2].strip()
    for row in TABLE.rows:
        line = find_line(whole, row.estimator)
        assert [cell for cell in (format_rank(row.place), format_interval(row.gain)) if cell not in line] == []
        assert [cell for each in row.accuracies if (cell := format_percent_number(each.value)) not in line] == []
        assert ("≈" in line) == (SAME in (row.vs_random, row.vs_random_blurred))


@pytest.mark.parametrize("style", ["text", "markdown", "html", "json", "csv"])
def test_table_shows_rank_of_added_row_in_brackets(style):
    added = replace(ROWS[3], place=RankInterval(3, 2, 4, added=True))
    suite = replace(SUITE, added=frozenset({"var-grad"}))
    shown = make_table_with_board(suite, rows=(*ROWS[:3], added, ROWS[4]))
    if style in ("json", "csv"):
        places = {name: (row["place"], str(row["added"])) for name, row in parse_rows(shown, style).items()}
        assert [str(each) for each in places["var-grad"]] == ["3", "True"] and places["sobel"][1] == "False"
        return
    formats = {"text": format_printed, "html": format_html, "markdown": partial(render, style="markdown", notes=True)}
    words = formats[style](shown)
    assert words.count("(2-4)") == 1 and "(3-4)" not in words and "3-4" in words
    note = "Rows in brackets are judged as if each alone were added to the suite: var-grad."
    below = unescape(" ".join(words.split()))
    assert note in below if style != "html" else "var-grad (added) " in below, "a page has three lines"


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
    for words, row in told:
        assert f" {words.removeprefix('controls, ')} " in find_line(format_printed(table, 200), row.estimator)
        assert rows[row.estimator] == (words if "controls" in words else None)
    assert "Better than controls: better than Random" in render_words(table)


@pytest.mark.parametrize(("gain", "word"), [(9.9, "controls"), (10.1, "Random")])
def test_row_below_zero_gain_control_is_not_better_than_controls(gain, word):
    """Blurred noise with a gain in [-1, +21] is not significantly off 0, and still may rank above the row."""
    noise = replace(ROWS[1], estimator="random-blurred", gain=Estimate(gain, -1.0, 21.0), against={"random": SAME})
    row = replace(ROWS[3], gain=Estimate(10.0, 4.0, 16.0))
    table = make_table_with_board(protocol=SHOWN["matched"], rows=(noise, row))
    assert f" {word} " in find_line(format_printed(table, 200), row.estimator)
    assert table.list_beaten_control_groups(row) == (("controls",) if word == "controls" else ())


def test_strong_warning_has_own_sign_with_diagnose_command(monkeypatch, capsys):
    strong = replace(TABLE, row_warnings={"var-grad": RowWarning(Grade.STRONG, "All of it."), "ig": FLAG, "gb": FLAG})
    assert suggest_diagnose(strong).text == "(!!), (!): `{}` explains the doubts."
    assert "| 1 | var-grad (!!) |" in render(strong, "markdown")
    assert [row["grade"] for row in parse_rows(strong).values()] == ["strong", None, None, None, None]
    monkeypatch.setattr("sys.argv", ["roarbench", "table", "--suite", "made-up", "--store", f"{'long ' * 20}name"])
    command = f"`roarbench diagnose --suite made-up --store '{'long ' * 20}name'`"
    print_table(TABLE, "text", notes=True)
    assert f"(!): {command} explains the doubts." in capsys.readouterr().out.splitlines()


def test_notes_name_rows_with_gains_of_opposite_sign():
    """The rule itself is tested with the doubts of pages."""
    row = replace(ROWS[3], differences=(Estimate(-0.1, -0.15, -0.05), Estimate(0.2, 0.1, 0.3)))
    shown, others = make_table_with_board(rows=(row,)), make_table_with_board(rows=ROWS)
    note = "opposite sign at two levels: var-grad (+10.0 [+5.0, +15.0] at t = 0.5, -20.0 [-30.0, -10.0] at t = 0.9)"
    assert note in write_all_notes(shown) and "opposite" not in write_all_notes(others)
    assert "2 warnings" in summarize_notes(shown)[-1] and "1 warning " in summarize_notes(others)[-1]


def test_narrow_table_drops_whole_columns():
    levels = tuple(n / 20 for n in range(1, 20))
    accuracies, differences = ((value,) * len(levels) for value in (Estimate(0.98765), NONE))
    kept = replace(ROWS[3], delta_other_image=NONE, against={})
    row = replace(kept, accuracies=accuracies, differences=differences)
    table = replace(make_table_with_board(levels=levels, rows=(row,)), above_masks={})
    narrow = format_printed(table, 100)
    assert max(map(len, narrow.splitlines())) <= 100
    shown = [t for t in levels if f" at {t:g} " in narrow.splitlines()[3]]
    assert len(shown) >= 2 and shown == list(levels[-len(shown) :])  # the highest levels are kept
    left = "".join(narrow.split()).partition("Columnsnotshown:")[2].partition("(")[0]
    assert left == ",".join(f"accuracyat{t:g}" for t in levels[: -len(shown)])
    assert format_printed(table, width=400).count("98.8") == len(levels)


def test_caption_states_seeds_levels_interval_scope():
    def said(**board):
        return write_all_notes(replace(make_table_with_board(**board), row_warnings={}, levels_not_above_mask_only={}))

    assert "95% intervals over images and seeds (2000 paired resamples, seed 0)" in said()
    floor = "At the floor, accuracy not significantly above that of masks alone: var-grad (t = 0.9)"
    assert floor in write_all_notes(TABLE)
    assert "no intervals, no verdicts" in said(covers=IntervalScope.NOTHING)
    assert said(covers=IntervalScope.NOTHING, images=0) == "Nothing has been run yet."
    assert "intervals over images (2000" in said(covers=IntervalScope.IMAGES, detectable=None)
    three = said(covers=IntervalScope.REFERENCES, references=3, reference_rows=5, reference_freedom=8.09)
    assert "over images, references and seeds" in three and "5 rows (8.1 degrees of freedom)" in three
    assert TABLE.caption == (
        "ROAR on planted with resnet-planted; levels 0.5, 0.9, without 0.3 of the suite; 2 seeds of 3; "
        "2000 test images; unit scalar; fill mean; scoring networks: 90.0% correct on untouched images (t=0); "
        "chance 25.0%"
    )
    assert "; 1 test image; " in make_table_with_board(images=1).caption
    one, whole = (tuple(replace(row, seeds=seeds) for row in ROWS) for seeds in (1, 3))
    for rows, said in (
        (one, "1 seed of 3"),
        ((*one, *ROWS), "1 or 2 seeds, some rows only 1 of 3"),
        ((*whole, replace(ROWS[0], estimator=TWINS[0], seeds=1)), "1 or 3 seeds"),  # a twin has one planned seed
        ((*whole, replace(ROWS[0], seeds=0)), "3 seeds"),  # rows without results do not count
        ((), "no seeds"),
    ):
        assert f"; {said}; " in make_table_with_board(rows=rows).caption
    assert "; the reference, not retrained; " in make_table_with_board(protocol=SHOWN["morf"]).caption


def test_table_is_doubtful_when_zero_gain_control_differs_from_0():
    off = replace(ROWS[4], estimator="random-blurred", against={"random": BETTER})
    rows = (off, replace(ROWS[3], against={"random": BETTER, "random-blurred": SAME}))
    table = make_table_with_board(protocol=SHOWN["matched"], rows=rows)
    assert write_all_notes(table).startswith(
        "This table is doubtful, because gains that should be 0 differ significantly: random-blurred +3.0 [+1.0, +5.0]."
    )
    assert len(summarize_notes(table)) == 4 and summarize_notes(table)[2].startswith("This table is doubtful, because ")
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
    assert sure == "95% intervals over images, references and seeds; ≈: not significant."
    assert more == "(!), 1 warning and more are explained by table --notes and docs/how-it-works.md."
    bare = replace(TABLE, row_warnings={}, levels_not_above_mask_only={})
    assert summarize_notes(bare)[-1] == "More is explained by table --notes and docs/how-it-works.md."


def test_table_labels_added_rows():
    rows = (replace(ROWS[3], estimator="gb"), replace(ROWS[3], estimator="mine@0123abcd"), ROWS[2])
    suite = replace(SUITE, added=frozenset({"gb", "mine@0123abcd"}))
    table = make_table_with_board(suite, rows=rows)
    for shown in (format_printed(table, 140), render(table, "markdown")):
        assert " gb (added) " in shown and " mine (added) " in shown  # only the notes show the hash of a submission
