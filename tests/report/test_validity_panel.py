"""The validity panel, its agreements of orders, and boards beside their replication."""

import re
from dataclasses import replace

import pytest

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.suite_judges import judge_suite
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.plan.protocols import KAR, LERF, MORF, ROAR, SHOWN
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import select_part_of_suite
from roarbench.plan.suites import read_suite
from roarbench.report.replication_comparison import (
    compare_replication,
    compare_under_protocol,
    format_replication,
    list_uncompared_protocols,
    make_replication_record,
)
from roarbench.report.validity_panel import compare_orders, describe_rank_agreements, format_text, list_sections
from roarbench.stats.compute_board import Judge
from roarbench.stats.intervals import Estimate
from roarbench.store.export_and_import import import_results
from roarbench.store.results import ResultsStore, make_default_url
from tests.helpers.made_up_results import (
    LEVELS,
    MAIN,
    SUITE,
    choose_accuracy,
    limit_to_one_seed,
    make_leaky_accuracy,
    make_suite_results,
    render_text,
)
from tests.helpers.processes import ROOT
from tests.helpers.store_rows import keep_rows

REPLICATION = replace(SUITE, replication=1)


@pytest.fixture(scope="module")
def made():
    return judge_suite(make_suite_results(accuracy=make_leaky_accuracy(0.5)))


def format_printed(panel, width=300):
    return render_text(format_text(panel, width), width)


def find_cells(panel, title, estimator):
    (found,) = (section for section in list_sections(panel) if section.title == title)
    (line,) = (line for line in found.lines if line[0] == estimator)
    return dict(zip((column.heading for column in found.columns), line, strict=True))


def test_validity_panel_shows_each_number_in_its_column(made, monkeypatch):
    areas, gaps = find_cells(made, "Gains", "grad"), ("LeRF - MoRF, retrained", "LeRF - MoRF, not retrained")
    assert list(areas) == ["estimator", "gain", "gain, scalar", "gain, pixel", *gaps]
    assert areas["gain"] == areas["gain, scalar"] != areas["gain, pixel"]
    # KAR has one seed, hence no interval
    retrained = made.judge_areas_between_orders(ROAR, KAR)
    assert areas[gaps[0]] == f"{retrained.estimate_gain('grad').value:+.1f}"
    gains = made.main_gains
    twins = find_cells(made, "Twins", "grad")
    assert twins["blurred"] == f"{gains.estimate_gain('grad~blurred').value:+.1f}"
    assert twins["Δ blurred"].startswith(f"{gains.subtract_gain('grad', 'grad~blurred').value:+.1f} [")
    assert set(find_cells(made, "Twins", "var-grad").values()) == {"var-grad", "–"}
    monkeypatch.setattr(Judge, "estimate_accuracy", lambda *_: Estimate(0.5234, 0.5, 0.55))
    monkeypatch.setattr(Judge, "estimate_difference_from_counterpart", lambda *_: Estimate(-0.031, -0.043, -0.019))
    assert find_cells(made, "Removal masks", "grad")["mask-only at 0.9"] == "52.3 (-3.1 ± 1.2)"


def test_validity_text_is_complete_with_doubts_last(made):
    lines = format_printed(made).splitlines()
    assert lines[0] == "made-up v1" and not any("…" in line for line in lines)
    narrow = format_printed(made, 60)  # columns that do not fit stand below
    assert all(cell in narrow for section in list_sections(made) for line in section.lines for cell in line)
    assert any(line.startswith("Rows without any value are left out: ") for line in lines)
    filled = [line for section in list_sections(made) for line in section.lines if {*line[1:]} != {"–"}]
    assert all(any(all(cell in shown for cell in line) for shown in lines) for line in filled)
    assert re.fullmatch(r"\(!\) var-grad: Its mask alone reaches \d+% .+ above chance \(some\)\.", lines[-1])


def test_validity_text_counts_no_rows_of_a_table_that_it_leaves_out():
    """One training run per cell gives no marks."""
    shown = format_printed(judge_suite(make_suite_results(limit_to_one_seed(SUITE))))
    assert "Marks" not in shown and "are left out: 1 of Removal masks, 3 of Twins\n" in shown


@pytest.mark.parametrize(
    ("kinds", "column"), [(("morf", "lerf"), "LeRF - MoRF, not retrained"), (("matched",), "gain")]
)
def test_validity_text_says_that_suite_lacks_roar(kinds, column):
    scored = replace(SUITE, blocks=tuple(Block(SHOWN[kind], MAIN, LEVELS, seeds=2) for kind in kinds))
    found = judge_suite(make_suite_results(scored))
    columns = {column.heading: column.texts for part in list_sections(found) for column in part.columns}
    assert column in columns and not any(set(cells) <= {"–"} for cells in columns.values())
    assert format_printed(found).rstrip().endswith("which made-up does not have.")
    planned = replace(scored, blocks=(*scored.blocks, Block(SHOWN["roar"], MAIN, LEVELS, seeds=2)))
    found = judge_suite(replace(make_suite_results(scored), suite=planned))
    assert "need ROAR, which was not run." in " ".join(format_printed(found).split())


@pytest.mark.parametrize("protocol", [ROAR, LERF])
def test_validity_panel_of_a_suite_of_which_one_protocol_was_run(made, protocol):
    kind, results = (protocol.order, protocol.retrain), made.suite_results
    run = {at: one for at, one in results.results.items() if (at.cell.order, at.cell.retrain) == kind}
    alone = judge_suite(replace(results, results=run))
    if protocol == LERF:
        assert "need ROAR, which was not run." in " ".join(format_printed(alone).split())
        return
    gains = find_cells(alone, "Gains", "grad")
    assert gains["gain"] == find_cells(made, "Gains", "grad")["gain"]
    assert gains["LeRF - MoRF, retrained"] == gains["LeRF - MoRF, not retrained"] == "–"


@pytest.mark.parametrize(("data", "shows"), [("planted", True), ("digits", False)])
def test_panel_of_a_table_has_no_smoothness_of_masks(data, shows):
    """The columns of a table have no neighbours."""
    suite = replace(SUITE, dataset=data, blocks=(Block(ROAR, ("random", "grad"), LEVELS, seeds=2),))
    panel = judge_suite(make_suite_results(suite))
    headings = {column.heading for section in list_sections(panel) for column in section.columns}
    assert "gain" in headings and ("smoothness at 0.9" in headings) is shows


@pytest.mark.slow
def test_documented_validity_panel_matches_published_rows(tmp_path):
    """The page shows the first lines of a table, and a sentence."""
    study = ROOT / "studies" / "replication"
    with ResultsStore.open(make_default_url(tmp_path)) as results:
        import_results(results, study / "quick-2.parquet")
        found = judge_suite(collect_results(read_suite(study / "quick-2.toml"), results))
    whole = "\n".join(f"    {line}".rstrip() for line in format_printed(found, 80).splitlines())
    page = (ROOT / "docs" / "validity.md").read_text("utf-8")
    (shown,) = re.findall(r"prints among others:\n\n(.+?)\n\n\S", page, re.S)
    assert [part for part in shown.split("\n\n") if part not in whole] == []


PLAIN = Block(ROAR, MAIN, LEVELS, seeds=2)
STEEP = {"grad": -0.1, "sobel": 0.1, "var-grad": 0.2}  # four rows with significant differences under every protocol
ORDERS = tuple(replace(PLAIN, protocol=protocol) for protocol in (ROAR, KAR, MORF, LERF))
ORDERED = replace(SUITE, blocks=(*ORDERS, replace(PLAIN, unit=Unit.PIXEL)))


def turned(cell):
    """Give KAR, LeRF and the pixel unit the reverse order of estimators; MoRF agrees with ROAR."""
    falls = STEEP.get(cell.estimator, 0.0) * (-1 if cell.unit is Unit.PIXEL else 1)
    return 0.9 - cell.t * (0.4 + falls)


def test_rank_agreements_have_sign_of_true_order():
    made = judge_suite(make_suite_results(ORDERED, turned))
    assert [*compare_orders(made)] == ["KAR", "MoRF", "LeRF", "unit pixel"]
    for (other, alike), tau in zip(compare_orders(made).items(), (-1, 1, -1, -1), strict=True):
        assert (alike.rows, alike.tau.value) == (4, tau), other
        assert alike.opposed == (alike.settled if tau < 0 else 0), "every significant pair is opposed or none"
        assert alike.tau.low <= tau <= alike.tau.high
    few = tuple(replace(block, estimators=MAIN[:2]) for block in ORDERED.blocks)
    short = judge_suite(make_suite_results(replace(ORDERED, blocks=few), turned))
    assert {*compare_orders(short).values()} == {None} and "fewer than 3 rows" in describe_rank_agreements(short)[0]


def test_compare_replication_counts_equal_verdicts():
    """In the replication, grad is better than Random, and var-grad worse."""
    swapped = {"grad": "var-grad", "var-grad": "grad"}
    first = make_suite_results()
    again = make_suite_results(
        REPLICATION, lambda cell: choose_accuracy(replace(cell, estimator=swapped.get(cell.estimator, cell.estimator)))
    )
    assert not set(first.results) & set(again.results)  # no seed is shared
    both = compare_replication(first, again, SUITE)
    assert list_uncompared_protocols(both, SUITE) == ["kar", "morf", "lerf", "mask-only"]
    ((_, found),) = both.items()
    words = {row.estimator: {said.control: said[1:] for said in row.verdicts} for row in found.rows}
    assert words["grad"]["random"] == ("worse", "better")
    record = make_replication_record(both, first, again)
    assert (record["suite"], record["replication"]) == ("made-up v1", "made-up v1, replication 1")
    assert (record["roar"]["beats_asked"], record["roar"]["beats_equal"]) == (2, 0)
    assert record["roar"]["opposed_share"] == found.opposed / found.verdicts > 0
    rows = {row["estimator"]: row for row in record["roar"]["rows"]}
    assert rows["grad"]["beats_controls"] == {"first": False, "again": True}
    text = render_text(format_replication(both, first, again), 120)
    assert next(line for line in text.splitlines() if line.startswith(" grad ")).rstrip().endswith("(!) no → yes")
    assert "beats all" in text and "Beats every control: 0 of 2 verdicts equal" in " ".join(text.split())
    assert f"{found.equal} of {found.verdicts} equal, {found.opposed} opposed" in " ".join(text.split())
    # rows of own-network gain are compared with 0 alone
    alone = replace(found, beats_asked=0)
    assert "(!) worse → better" in render_text(format_replication(dict.fromkeys(both, alone), first, again), 120)
    # a part is judged among all rows of the suite
    (parted,) = compare_replication(first, again, select_part_of_suite(SUITE, ("random", "grad"))).values()
    assert parted.rows == tuple(row for row in found.rows if row.estimator in ("random", "grad"))
    kept = keep_rows(again, lambda point: point.cell.retrain is ScoredNetwork.NONE)
    assert compare_under_protocol(ROAR, first, kept, SUITE) is None
