"""Commands on a suite that leads with ROAR and own-network gain."""

import json
import shutil

import pytest

from roarbench.api.gain_tables import Difference, TwoDifferences
from roarbench.api.suites import load_suite
from roarbench.cli.show_results import _format_difference
from roarbench.plan.protocols import OWN_NETWORK, ROAR
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.report.combined_table import CombinedTable
from roarbench.stats.intervals import Estimate
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Verdict
from tests.helpers.command_line import command, record

BLOCKS = (
    Block(ROAR, ("random", "grad"), (0.9,), seeds=2),
    Block(OWN_NETWORK, ("random", "grad", "input-x-grad"), (0.3,), seeds=1),
)
PUBLISHED = SuiteSpec("both", 1, "", "planted", "resnet-planted", "planted@1", "planted@1", BLOCKS, references=3)
SUITE_OPTIONS = ("--suite", "both", "--max-images", "16")


@pytest.fixture(scope="module")
def run(published, tmp_path_factory):
    """Fill a store; return its path and the printed messages."""
    store = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roarbench.execution.progress._LINE_EVERY", 0.0)
        said = []
        patch.setattr("roarbench.cli.terminal.err.print", lambda *text, **_: said.append(text[0]))
        assert command("run", *SUITE_OPTIONS, "--store", store) == 0
    return store, said


@pytest.fixture
def asked(run):
    return (*SUITE_OPTIONS, "--store", run[0])


def test_run_prints_roar_table_before_own_network_scoring(run):
    """The progress line names the protocol; the table is printed once, after the last training."""
    _, said = run
    lines = [each if isinstance(each, str) else each.caption for each in said]
    (table,) = (number for number, each in enumerate(said) if not isinstance(each, str))
    said_of_both = ("left  ROAR: ", "left  Own-network gain: ")
    roar, own = ([number for number, line in enumerate(lines) if words in line] for words in said_of_both)
    assert len(roar) == 2 * 3  # untouched images and two rows, by two seeds
    assert max(roar) < table < max(own)
    assert [column.header for column in said[table].columns][:3] == ["place", "estimator", "gain [95%]"]


def test_table_formats_show_both_protocols_by_default(asked, call):
    for style in ("text", "markdown"):
        shown = call("table", *asked, "--format", style).out
        assert "own-network gain" in shown and "ROAR gain" in shown and "not run" in shown
    both, single = record(call, "table", *asked), record(call, "table", *asked, "--protocol", "roar")
    gains = {row["estimator"]: row["gain"] for row in single["rows"]} | {"input-x-grad": None}
    assert {row["estimator"]: row["roar"] and row["roar"]["gain"] for row in both["rows"]} == gains
    assert both["roar"] == {key: value for key, value in single.items() if key != "rows"}
    assert "ROAR gain" not in call("table", *asked, "--protocol", "own-network").out


def test_table_shows_row_of_single_protocol_with_all_notes(asked, call):
    shown = call("table", *asked, "--estimators", "input-x-grad", "--notes")
    assert shown.code == 0 and " input-x-grad " in shown.out and " grad " not in shown.out.partition("ROAR gain:")[0]
    assert "ROAR on planted" in shown.out and "Own-network gain on planted" in shown.out


def test_suite_result_has_combined_table(run):
    result = load_suite("both", store=run[0], limit=16).result()
    frame = result.to_dataframe().set_index("name")
    assert dict(frame["roar"]) == {"grad": "run", "input-x-grad": "not run", "random": "run"}
    assert "own-network gain" in repr(result) and "not run" in result._repr_html_()
    assert isinstance(result.table(), CombinedTable)
    roar = {row.estimator: row.gain.value for row in result.table("roar").rows}
    found = result.compare("grad", "random")
    assert found.roar.points == pytest.approx(roar["grad"] - roar["random"])
    assert found.roar == result.compare("grad", "random", "roar")


def test_compare_uses_both_protocols(asked, call):
    """A protocol that is not run for both rows gives no comparison."""
    found = record(call, "compare", "input-x-grad", "grad", *asked)
    assert found["roar"] is None and found["own_network"]["protocol"] == "own-network"
    both = call("compare", "grad", "random", *asked).out
    assert both.count("grad - random: ") == 2 and ": ROAR\n" in both and ": Own-network gain\n" in both
    code, _, err = call("compare", "input-x-grad", "grad", *asked, "--protocol", "roar")
    assert code == 2 and err.startswith("roarbench: roar is not run for both")


ZERO, EXPLAINS, FIXED = Estimate(0.0), OwnNetworkVerdict.EXPLAINS, OwnNetworkVerdict.BY_CONSTRUCTION


@pytest.mark.parametrize(
    ("beside_zero", "last"),
    [((FIXED, FIXED), "no verdict: both gains are 0 by construction"), ((None, None), "no verdict")],
)
def test_compare_explains_missing_verdict_on_own_network_gains(beside_zero, last):
    found = Difference(2.0, 1.0, 3.0, None, None, None, (ZERO, ZERO), "own-network", "scalar", beside_zero, "a - b")
    found = found._replace(names=("a", "b"))
    _, first, second, difference = _format_difference("s v1", found).splitlines()
    assert [line.endswith(", 0 by construction") for line in (first, second)] == [one is FIXED for one in beside_zero]
    assert difference == f"  a - b: +2.0 [+1.0, +3.0] points: {last}"
    if FIXED not in beside_zero:  # after a single training
        assert str(found._replace(low=None, high=None)) == "a - b: +2.0 points: no verdict: there is no interval"


def test_compare_words_the_verdict_on_two_own_network_gains():
    """A larger gain alone does not explain a network; a single planned p value is not called adjusted."""
    board = ("own-network", "scalar", (EXPLAINS, EXPLAINS), "a - b")
    found = Difference(
        -2.0, -3.0, -1.0, 0.01, None, Verdict.WORSE, (ZERO, ZERO), *board, True, "6 of 99 runs are missing"
    )
    found = found._replace(names=("a", "b"))
    sentence = "a - b: -2.0 [-3.0, -1.0] points, p 0.0100: b has a larger gain than a"
    assert repr(found) == str(found) == sentence  # as in a notebook
    assert repr(TwoDifferences(found._replace(protocol="roar"), found)) == f"roar, {sentence}\nown-network, {sentence}"
    assert repr(TwoDifferences(None, found)) == f"own-network, {sentence}"
    assert _format_difference("s v1", found).splitlines()[3:] == [
        f"  {sentence}",
        "  This is one planned comparison: p is not adjusted. The table's place intervals hold for all pairs at once.",
        "  Unfinished: 6 of 99 runs are missing; the verdict may change.",
    ]
    adjusted = found._replace(p=0.005, p_adjusted=0.01, verdict=Verdict.SAME, planned=False, unfinished="")
    (line,) = _format_difference("s v1", adjusted).splitlines()[3:]
    assert line.endswith(", adjusted p 0.0100: not significantly different")


def test_replicate_reports_protocols_that_are_not_compared(asked, call):
    """Three barely trained networks agree on no image, so no row has an own-network gain."""
    shown = call("replicate", *asked)
    assert shown.out.strip().startswith("ROAR, both v1") and "Own-network gain: not compared" in shown.out
    found = record(call, "replicate", *asked)
    assert found["own_network"] is None and {row["estimator"] for row in found["roar"]["rows"]} == {"random", "grad"}


def test_run_table_judges_all_rows_but_shows_selected(asked, call, monkeypatch):
    # at chance, no row would have a verdict
    monkeypatch.setattr("roarbench.analysis.suite_results.SuiteResults.at_chance_warning", "")
    whole = record(call, "table", *asked)
    ran = record(call, "run", *asked, "--estimators", "grad")
    assert ran.pop("rows") == [row for row in whole.pop("rows") if row["estimator"] in ("grad", "random")]
    assert ran == whole


def test_fill_option_selects_rows_in_every_command(run, call, tmp_path):
    store = shutil.copytree(run[0], tmp_path / "store")
    asked, part = (*SUITE_OPTIONS, "--store", store), ("--protocol", "own-network", "--fill", "black")
    answer = call("run", *asked, *part, "--estimators", "grad", "--format", "json")
    assert answer.code == 0 and json.loads(answer.out)["fill"] == "zero"
    assert record(call, "table", *asked, "--protocol", "own-network")["fill"] == "mean"
    assert "both v1, fill black (small version" in call("table", *asked, "--fill", "zero").out
    counts = [record(call, "status", *asked, *words)["done"] for words in ((), ("--fill", "black"))]
    assert counts[0] > counts[1] > 0
    assert load_suite("both", store=store, limit=16, fill="black").result().table("own-network").fill == "zero"
