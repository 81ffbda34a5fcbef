"""A kind of doubt is one entry of `KINDS`: tables, notes, data, `diagnose`, pages and reports show its doubts."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from leaderboard.links import Site, make_address
from leaderboard.render import list_addresses, render_page
from leaderboard.suite_report import render_report
from leaderboard.suite_view import SuiteView
from roarbench.analysis.suite_judges import Grade, judge_suite
from roarbench.api.evaluated_rows import EvaluatedRows
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import Block
from roarbench.report import doubts
from roarbench.report.combined_table import make_combined_table
from roarbench.report.doubts import KINDS, Doubt, Kind, Shown, describe_doubts, join_signs
from roarbench.report.table_notes import suggest_diagnose, write_all_notes
from roarbench.report.validity_panel import format_text
from tests.helpers.made_up_results import LEVELS, MAIN, SUITE, make_suite_results, make_table, render_text, render_words
from tests.helpers.shown_tables import format_html, render

BOTH = replace(SUITE, references=3, blocks=tuple(Block(each, MAIN, LEVELS, seeds=3) for each in (ROAR, OWN_NETWORK)))
SENTENCE = "Its maps were drawn by hand."


@pytest.fixture(scope="module")
def results():
    return make_suite_results(BOTH)


@pytest.mark.parametrize(("severity", "sign"), [(Grade.SOME, "(!)"), (Grade.STRONG, "(!!)")])
def test_new_kind_of_doubt_is_one_entry_and_appears_everywhere(results, monkeypatch, tmp_path, severity, sign):
    def find(table):
        yield Doubt("grad", "drawn by hand", SENTENCE, severity)

    monkeypatch.setattr(doubts, "KINDS", (*KINDS, Kind(find)))
    table, both = make_table(results), make_combined_table(results)
    called, note = f"grad {sign}", f"{sign} grad: {SENTENCE}"
    for shown in (table, both):
        cell = called if shown is table else f"`grad` {sign}"
        assert called in render_words(shown) and f"| {cell} |" in render(shown, "markdown")
        assert called in format_html(shown) and note in render(shown, "markdown", notes=True)
        assert SENTENCE in render(shown, "csv") and sign in render(shown, "markdown").splitlines()[-1]
    assert note in write_all_notes(table) and suggest_diagnose(table).text.startswith(sign)
    rows = {row["estimator"]: row for row in json.loads(render(both, "json"))["rows"]}
    for part in ("roar", "own_network"):
        assert [name for name, row in rows.items() if row[part]["flag"]] == ["grad"]
        assert rows["grad"][part]["flag"] == SENTENCE and rows["grad"][part]["grade"] in (None, "none")
    frame = EvaluatedRows(BOTH, Settings(tmp_path), results).to_dataframe()
    assert [*frame["own_network_flag"].dropna()] == [SENTENCE], "rb"
    assert note in render_text(format_text(judge_suite(results), 200), 200)
    monkeypatch.setattr(SuiteView, "run_states", (Counter(), []))
    view = SuiteView(results, tmp_path)
    site = Site({view.slug: view}, list_addresses({view.slug: view}))
    pages = (make_address("board", view.slug, protocol="own-network"), make_address("estimator", estimator="grad"))
    for page in pages:
        assert SENTENCE in render_page(site, page).html
    assert sign in render_page(site, make_address("board", view.slug)).html, "the board of both gains"
    assert SENTENCE in render_report(view)


def test_doubt_about_a_gain_stands_beside_the_gain_alone(results, monkeypatch):
    def find(table):
        yield from (Doubt("grad", "", SENTENCE, Grade.STRONG),) if table.board.protocol == ROAR else ()

    monkeypatch.setattr(doubts, "KINDS", (Kind(find, Shown.GAIN),))
    both = make_combined_table(results)
    assert both.list_row_signs("grad") == () and both.roar.format_row_signs("grad") == "(!!)"
    line = next(line for line in render(both, "markdown").splitlines() if line.startswith("| `grad` |"))
    assert "(!!) |" in line and SENTENCE not in write_all_notes(both.roar)


def test_signs_and_notes_of_several_doubts():
    """Of `(!!)` and `(!)`, a row has the more severe one; a note lists evidence by row, or rows by sentence."""
    noise = Kind(sign="†", heading="Few copies agree")
    found = [
        Doubt("a", "", "Slow.", Grade.SOME),
        Doubt("b", "", "Slow.", Grade.SOME),
        Doubt("a", "", "Wrong.", Grade.STRONG),
        Doubt("a", "", "", brief="50%", kind=noise),
        Doubt("b", "", "", brief="60%", kind=noise),
        Doubt("a", "", "Shared.", fact="by all"),
    ]
    assert join_signs(found) == "† (!!)" and join_signs(found[:2]) == "(!)" and join_signs(found[-1:]) == ""
    said = ["(!) a, b: Slow.", "(!!) a: Wrong.", "† Few copies agree: a 50%, b 60%.", "a: Shared."]
    assert describe_doubts(found) == said
    assert describe_doubts(found[:5], signs=False) == ["a, b: Slow.", "a: Wrong.", "Few copies agree: a 50%, b 60%."]
