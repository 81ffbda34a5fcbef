"""Tables, charts and boards of unfinished protocols: marks on verdicts, and numbers of missing runs."""

import json
import re
from base64 import b64encode
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import ttest_1samp

from leaderboard.build_board_contents import add_missing_runs_to_headline, make_combined_board
from roarbench.analysis.incomplete_results import ProtocolRuns, RunCounts
from roarbench.analysis.suite_judges import compare_rows, judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.api.evaluated_rows import EvaluatedRows
from roarbench.common.enums import Unit
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import KAR, MORF, OWN_NETWORK, ROAR
from roarbench.plan.settings import Settings
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, Block
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.report.combined_table import make_combined_table
from roarbench.report.paper_claims import (
    CLAIMS,
    format_claims,
)
from roarbench.report.replication_comparison import compare_replication, format_replication, make_replication_record
from roarbench.report.suite_charts import make_chart
from roarbench.report.table_notes import summarize_notes, write_all_notes
from roarbench.report.validity_panel import format_text
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from tests.helpers.made_up_results import (
    DATA,
    IMAGES,
    MAIN,
    SUITE,
    make_suite_results,
    make_table,
    parse_rows,
    render_text,
    render_words,
    result,
)
from tests.helpers.shown_tables import format_html, render

OWN = replace(SUITE, references=3, blocks=(Block(OWN_NETWORK, ("random", "grad", "ig"), (0.3,), seeds=1),))
BOTH = replace(OWN, blocks=(Block(ROAR, ("random", "grad", "ig"), (0.9,), seeds=3), *OWN.blocks))
# share of images of which a network's prediction changes under its own map and not under others
LOST = {"grad": (0.09, 0.13, 0.18), "ig": (0.02, 0.6, 0.02)}


def make_own_network_results(suite=OWN):
    """`grad` changes more predictions of each map's own network; `ig` does so for one network only."""
    results = make_suite_results(suite).results
    for point in results:
        if point.cell.retrain is OWN_NETWORK.retrain:
            explained, scored = divmod(point.seed, MAX_COMPARED_NETWORKS)
            lost = LOST.get(point.cell.estimator, (0, 0, 0))[scored] if explained == scored else 0
            results[point] = result(suite, point, np.arange(IMAGES) >= lost * IMAGES)
    return SuiteResults(suite, DATA, None, results)


def remove(results, forget):
    return replace(results, results={point: found for point, found in results.results.items() if not forget(point)})


def is_last_map_of_ig(point):
    return (
        point.cell.retrain is OWN_NETWORK.retrain
        and point.cell.estimator == "ig"
        and point.seed >= 2 * MAX_COMPARED_NETWORKS
    )


@pytest.fixture(scope="module")
def complete():
    return make_own_network_results(BOTH)


@pytest.fixture(scope="module")
def unfinished(complete):
    """Own-network gain lacks 3 of 30 runs: 9 untouched, 9 of grad, 9 of ig and 3 of random, one for each network."""
    return remove(complete, is_last_map_of_ig)


def test_verdict_of_unfinished_table_is_marked(complete, unfinished):
    """With ig, the verdict on grad is adjusted for two rows, and is not significant; without ig, grad stands alone."""
    done, waiting = (make_table(results, "own-network") for results in (complete, unfinished))
    line = "Unfinished (‡): 3 of 30 runs are missing; verdicts may change."
    assert "not shown" in render_words(done) and "above 0‡" in render_words(waiting)
    for words in (render_words(waiting), "\n".join(summarize_notes(waiting)), render(waiting, "markdown")):
        assert line in words
    assert line in format_html(waiting) and line.replace(" (‡)", "") in make_chart(waiting).caption
    assert line.replace(" (‡)", "") in write_all_notes(waiting, signs=False)
    for words in (render_words(done), format_html(done), render(done, "markdown"), make_chart(done).caption):
        assert "‡" not in words and "nfinished" not in words


def test_json_and_csv_count_missing_and_planned_runs(complete, unfinished):
    for results, missing in ((complete, 0), (unfinished, 3)):
        table = make_table(results, "own-network")
        found = json.loads(render(table, "json"))
        assert (found["missing_runs"], found["planned_runs"]) == (missing, 30)
        assert {row["unfinished"] for row in found["rows"]} == {bool(missing)}
        (row,) = [row for name, row in parse_rows(table, "csv").items() if name == "grad"]
        assert (row["missing_runs"], row["planned_runs"], row["unfinished"]) == (str(missing), "30", str(missing > 0))


def test_combined_table_marks_the_unfinished_protocol_only(complete, unfinished):
    """ROAR is finished, with 3 untouched runs and 3 of each of three rows."""
    table = make_combined_table(unfinished)
    without_roar = remove(complete, lambda point: point.cell.estimator == "ig" and point.cell.retrain is ROAR.retrain)
    assert (table.roar.runs.own, table.own_network.runs.own) == (RunCounts(0, 12), RunCounts(3, 30))
    page = render(table, "markdown")
    assert "Own-network gain: Unfinished (‡): 3 of 30 runs are missing; verdicts may change." in page
    assert " above 0‡ |" in page and page.count("‡") == 2
    caption = " ".join(make_combined_board(table).caption)  # of a page whose rows have no sign
    assert "Unfinished: 3 of 30 runs are missing; verdicts may change." in caption and "‡" not in caption
    facts = [make_combined_board(make_combined_table(results)).facts for results in (unfinished, without_roar)]
    assert "unfinished: Own-network gain: 3 of 30 runs are missing" in facts[0]
    assert "unfinished: ROAR: 3 of 12 runs are missing" in facts[1], "the facts counted runs of own-network gain alone"
    assert "‡" not in render(make_combined_table(complete), "markdown")
    record = json.loads(render(table, "json"))
    assert [record[name]["missing_runs"] for name in ("roar", "own_network")] == [0, 3]


@pytest.mark.parametrize("protocol", ["roar", "kar", "morf", "lerf"])
def test_missing_seed_marks_every_verdict_of_the_protocol(protocol):
    whole = make_suite_results()
    done = make_table(whole, protocol)
    of_protocol = [point for point in whole.results if point.cell.estimator == "grad"]
    of_protocol = [
        point
        for point in of_protocol
        if (point.cell.order, point.cell.retrain) == (done.board.protocol.order, done.board.protocol.retrain)
    ]
    waiting = make_table(remove(whole, lambda point: point == of_protocol[-1]), protocol)
    assert (done.runs.own.missing, waiting.runs.own.missing) == (0, 1) and "‡" not in render(done, "markdown")
    page = render(waiting, "markdown")
    assert f"1 of {done.runs.own.planned} runs is missing" in page
    compared = sum(len(row.against) > 0 and row.estimator != "random" for row in waiting.rows)
    judged = any(row.against or row.network for row in waiting.rows)
    assert page.count("‡") >= compared * judged and ("‡" in page) == judged


def test_runs_of_other_units_count_because_variances_are_pooled():
    """ROAR by pixels is one more training of each of four rows at two levels."""
    whole = make_suite_results()
    waiting = make_table(remove(whole, lambda point: point.cell.unit is Unit.PIXEL), "roar")
    assert waiting.runs.own.missing == len(MAIN) * 2


def test_added_row_counts_for_itself_and_left_out_levels_do_not_count():
    suite = add_estimators_with_twins(replace(SUITE, blocks=SUITE.blocks[:1]), ["ig"])
    whole = make_suite_results(suite)
    waiting = make_table(remove(whole, lambda point: point.cell.estimator == "ig" and point.seed == 2), "roar")
    assert waiting.runs.own == RunCounts(0, 27) and waiting.runs.added == {"ig": RunCounts(2, 6)}
    signs = {name: row["unfinished"] for name, row in parse_rows(waiting).items()}
    assert signs == {"random": False, "sobel": False, "grad": False, "var-grad": False, "ig": True}
    assert "Unfinished (‡): 2 of 6 runs of ig are missing; verdicts may change." in render(waiting, "markdown")
    low = remove(whole, lambda point: point.cell.t == 0.3)
    headlines = [add_missing_runs_to_headline("1 of 1.", [found]) for found in (waiting, make_table(low, "roar"))]
    unfinished = "1 of 1. Unfinished: runs are missing."
    assert headlines == ["1 of 1.", unfinished], "added rows are not counted"
    panel = render_text(format_text(judge_suite(waiting.suite_results), 200), 200)
    assert "Unfinished (‡): ROAR: 2 of 6 runs of ig are missing; numbers and marks may change." in panel
    assert make_table(low, "roar").runs.own == RunCounts(12, 27)
    chosen = make_table(replace(low, included_levels={(ROAR, Unit.SCALAR): (0.9,)}), "roar")
    assert chosen.runs.own == RunCounts(0, 15)  # and the three untouched runs
    assert not any(point.cell.t == 0 and point.cell.estimator != CLEAN for point in whole.results)


def test_added_rows_with_equal_counts_are_told_together():
    """A published table of 33 added rows had a sentence of 33 equal parts, fifteen lines long."""
    counts = dict.fromkeys(("ig", "gb", "lrp", "gradcam"), RunCounts(18, 36))
    runs = ProtocolRuns(RunCounts(1, 9), counts | {"grad": RunCounts(1, 36, 1), "sobel": RunCounts(0, 36)})
    said = (
        "1 of 9 runs is missing, 18 of 36 runs of each of ig, gb, lrp and 1 more are missing, "
        "1 of 36 runs of grad is missing (1 failed)"
    )
    assert runs.describe_missing({name: name for name in runs.added}) == said


def test_two_estimators_are_compared_by_own_network_gain():
    """A pair of estimators is one planned comparison; a pair with 0 has the verdict of the table's column."""
    results = make_own_network_results()
    judges = judge_suite(results, Unit.SCALAR)
    pair, turned = (
        compare_rows(judges, OWN_NETWORK, Unit.SCALAR, *names) for names in (("grad", "ig"), ("ig", "grad"))
    )
    assert pair.planned and pair.comparison.p == pair.comparison.q == turned.comparison.p
    # by network, the gain of grad minus that of ig is 7, -47 and 16 points: mean -8, standard error 19.66, two degrees
    gains = np.array([0.09, 0.13, 0.18]) - np.array([0.02, 0.6, 0.02])
    expected = ttest_1samp(100 * gains, 0)
    assert pair.gain.value == pytest.approx(100 * gains.mean()) and pair.gain == turned.gain.negative
    assert pair.comparison.p == pytest.approx(expected.pvalue, abs=0.01)
    # Random has one mask for all networks, whose hashes are stored with its results
    masks = b64encode(bytes(IMAGES)).decode()
    stored = {found.run.key: masks for point, found in results.results.items() if point.cell.estimator == "random"}
    fixed = replace(results, masks=stored)
    table = {row.estimator: row for row in make_table(fixed, "own-network").rows}
    beside_zero = compare_rows(judge_suite(fixed, Unit.SCALAR), OWN_NETWORK, Unit.SCALAR, "random", "grad")
    assert table["random"].network.verdict is OwnNetworkVerdict.BY_CONSTRUCTION and not beside_zero.planned
    assert beside_zero.comparison == table["grad"].vs_random.reversed
    assert beside_zero.comparison.q == pytest.approx(2 * beside_zero.comparison.p)


def test_findings_on_claims_are_marked_by_missing_runs(complete):
    missing = next(point for point in complete.results if point.cell.retrain is ROAR.retrain)
    for results, lacks in ((complete, False), (remove(complete, lambda point: point == missing), True)):
        text = format_claims(results)
        assert text.endswith("Unfinished (‡): ROAR: 1 of 12 runs is missing; findings may change.") is lacks
        assert ("  ours‡ " in text) is lacks and text.count("‡") == (len(CLAIMS) + 1) * lacks


def test_panel_of_diagnose_is_marked_by_missing_runs_of_its_protocols():
    whole = make_suite_results()
    for retrain, order, title in ((ROAR.retrain, ROAR.order, "ROAR"), (KAR.retrain, KAR.order, "KAR")):
        missing = next(at for at in whole.results if (at.cell.retrain, at.cell.order) == (retrain, order))
        found = remove(whole, lambda point, missing=missing: point == missing)
        text = render_text(format_text(judge_suite(found), 300), 300)
        assert text.startswith(f"{whole.title}‡")
        assert re.search(
            rf"Unfinished \(‡\): .*{title}: 1 of \d+ runs is missing.*; numbers and marks may change\.", text
        )
    assert "‡" not in render_text(format_text(judge_suite(whole), 300), 300)


def test_replication_is_marked_by_missing_runs_of_either_result(complete, unfinished):
    again = replace(OWN, replication=1)
    whole = make_suite_results(again)
    lacking = remove(whole, lambda point: point.cell.estimator == "ig")
    for second, missing in ((whole, {"first": 0, "again": 0}), (lacking, {"first": 0, "again": 9})):
        first = make_own_network_results()
        found = compare_replication(first, second, OWN)
        text = render_text(format_replication(found, first, second), 200)
        record = make_replication_record(found, first, second)["own_network"]
        assert record["missing_runs"] == missing and record["planned_runs"] == {"first": 30, "again": 30}
        line = f"Unfinished (‡): {second.title}: 9 of 30 runs are missing; verdicts may change."
        assert (line in text) is (second is lacking)
        (row,) = (part for part in text.splitlines() if part.strip().startswith("grad "))
        assert row.rstrip().endswith("‡") is (second is lacking)


def test_default_table_is_that_of_the_first_protocol_with_results():
    """Beside results of MoRF alone, the table of ROAR and own-network gain is empty, and was shown."""
    suite = replace(BOTH, blocks=(*BOTH.blocks, Block(MORF, ("random", "grad"), (0.3,), seeds=1)))
    whole = make_suite_results(suite)
    for kinds, protocol in (((MORF,), MORF), ((MORF, ROAR), None), ((OWN_NETWORK,), None), ((), None)):
        kept = {kind.retrain for kind in kinds}
        stored = remove(whole, lambda point, kept=kept: point.cell.retrain not in kept)
        table = EvaluatedRows(suite, Settings(), stored).table()
        assert len(table.tables) == (1 if protocol else 2)
        assert protocol in (None, table.tables[0].board.protocol)
