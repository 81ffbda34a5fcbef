"""Claims beside published ones, boards beside their replication, and the validity panel."""

import re
from dataclasses import replace

import numpy as np
import pytest

from roarbench.analysis import own_network_gain_of_suite
from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.own_network_gain_of_suite import KeptPredictions
from roarbench.analysis.row_warnings import find_row_warning
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.change_suite import select_part_of_suite
from roarbench.plan.protocols import OWN_NETWORK, ROAR, SHOWN
from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.suite import Block
from roarbench.report.claim_table import format_claims, list_claims_with_findings
from roarbench.report.replication_comparison import (
    compare_replication,
    compare_under_protocol,
    format_replication,
    make_replication_record,
)
from roarbench.report.validity_panel import compute_validity_panel, format_text, list_sections
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate
from roarbench.stats.sampled_gains import SampledGains
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.transfer import import_results
from tests.helpers.elsewhere import ROOT
from tests.helpers.made_up import DATA, LEVELS, MAIN, SUITE, choose_accuracy, make_leaky_accuracy, make_suite_results
from tests.helpers.tables import render_text

REPLICATION = replace(SUITE, replication=1)


def make_draws(truth=choose_accuracy, suite=SUITE):
    return SuiteDraws(make_suite_results(suite, truth), Unit.SCALAR, Bootstrap(500))


def count_significant_cells(draws):
    found = {row["claim"]: row["ours"].significant for row in list_claims_with_findings(draws)}
    return {claim: counts for claim, counts in found.items() if counts}


def find_claim(draws, name):
    return next(row for row in list_claims_with_findings(draws) if row["claim"] == name)


def test_claim_table_shows_measured_beside_published_verdicts():
    """GRAD is above Random at t = .5 and below at t = .9; a single training has no intervals, so the claim is open."""
    true = {CLEAN: (0.7, 0.7), "random": (0.5, 0.4), "grad": (0.6, 0.3)}
    little = replace(SUITE, blocks=(Block(SHOWN["roar"], ("random", "grad"), (0.5, 0.9), seeds=1),))
    draws = make_draws(lambda cell: true[cell.estimator][cell.t == 0.9], little)
    row = find_claim(draws, "grad-worse-than-random")
    assert row["published"] == ("holds", 15, 15, (), None, ())
    assert row["ours"] == ("open", 1, 2, ("grad at t = 0.9 on planted",), {"agree": 0, "differ": 0}, ())
    text = format_claims(list_claims_with_findings(draws), "quick v1")
    assert text.startswith("ours: quick v1\n")
    assert "  published  holds in 90 of 90 cells\n" in text and "  ours       no data" in text


def test_claim_cells_are_significant_when_interval_excludes_0():
    """With `usual`, grad's accuracy is .03 and .09 above Random's at t = .3 and .9, var-grad's .06 and .18 below."""
    made = make_draws()
    clear = count_significant_cells(made)
    assert clear["grad-worse-than-random"] == clear["strong-ensembles-beat-random"] == {"agree": 2, "differ": 0}
    assert not {"best-ensemble-base", "ig-worse-than-random"} & set(clear)  # no cells
    row = find_claim(made, "grad-worse-than-random")
    assert row["ours"].significant == {"agree": 2, "differ": 0} and row["published"].significant is None
    against = make_draws(lambda cell: {"grad": 0.4, "random": 0.6}.get(cell.estimator, 0.5))
    assert count_significant_cells(against)["grad-worse-than-random"] == {"agree": 0, "differ": 2}
    close = make_draws(lambda cell: 0.5005 if cell.estimator == "grad" else 0.5)  # differs by .05 points
    for each, verdict in ((made, "holds"), (against, "fails"), (close, "open")):
        assert find_claim(each, "grad-worse-than-random")["ours"].verdict == verdict
    # one of six cells differs by 1.6 points; its own interval excludes 0, the adjusted one does not
    nearly = make_draws(lambda cell: 0.526 if (cell.estimator, cell.t) == ("grad", 0.9) else 0.5)
    grad, random = (nearly.roar.draws.get_accuracy((name, 0.9)) for name in ("grad", "random"))
    assert nearly.roar.estimate(grad.subtract(random)).low > 0
    assert count_significant_cells(nearly)["grad-worse-than-random"] == {"agree": 0, "differ": 0}


def draw_kept_predictions(estimator, chance):
    """Draw predictions kept by three networks under each other's maps; grad harms the own network, ig the others."""
    own = np.eye(3, dtype=bool)[:, :, None, None]
    kept = {"grad": np.where(own, 0.3, 0.8), "ig": np.where(own, 0.8, 0.3)}.get(estimator, np.full((3, 3, 1, 1), 0.5))
    return chance.random((3, 3, 1, 400)) < kept


def test_own_network_gain_gives_claim_verdicts(monkeypatch):
    """Random and Sobel have a gain of exactly 0, so a gain above 0 is better than Random."""
    chance, rows = np.random.default_rng(0), ("random", "sobel", "grad", "ig", "gb-sq")
    kept = {name: KeptPredictions(draw_kept_predictions(name, chance), False) for name in rows[2:]}
    kept |= {name: KeptPredictions(np.ones((3, 3, 1, 400), bool), True) for name in rows[:2]}
    monkeypatch.setattr(own_network_gain_of_suite, "load_kept_predictions", lambda *_: ((0.5,), kept))
    scored = replace(SUITE, references=3, blocks=(Block(OWN_NETWORK, rows, (0.5,), seeds=1),))
    records = list_claims_with_findings(SuiteDraws(SuiteResults(scored, DATA, None, {}), Unit.SCALAR, Bootstrap(500)))
    found = {row["claim"]: (row["own_network"].verdict, row["own_network"].agree) for row in records}
    assert {name: said for name, said in found.items() if said != ("no data", 0)} == {
        "grad-worse-than-random": ("fails", 0),
        "ig-worse-than-random": ("holds", 1),
        "grad-not-better-than-sobel": ("fails", 0),
        "ig-not-better-than-sobel": ("holds", 1),
        "squares-beat-random": ("open", found["squares-beat-random"][1]),
        "sobel-worse-than-random": ("cannot say", 0),
        "retraining-matters": ("cannot say", 0),
    }
    assert all(row["ours"].verdict == "no data" for row in records)
    assert "  own-network  cannot say" in format_claims(records)


@pytest.mark.parametrize(
    ("kept", "verdict"),
    [(0.1, "holds"), (0.4499, "open"), (0.8, "fails")],  # .4499 is .01 points below half of .9
)
def test_retraining_claim_compares_random_with_half_untouched_accuracy(kept, verdict):
    """Random retrained is .6 at t = .9, well above half of .9."""
    true = {ScoredNetwork.IMAGES: 0.6, ScoredNetwork.NONE: kept}
    made = make_draws(lambda cell: 0.9 if cell.estimator == CLEAN else true.get(cell.retrain, 0.25))
    record = find_claim(made, "retraining-matters")
    assert record["ours"].verdict == verdict
    assert sum(record["ours"].significant.values()) == (verdict != "open")


def test_compare_replication_counts_equal_verdicts():
    """In the replication, grad is better than Random, and var-grad worse."""
    swapped = {"grad": "var-grad", "var-grad": "grad"}
    first = make_suite_results()
    again = make_suite_results(
        REPLICATION, lambda cell: choose_accuracy(replace(cell, estimator=swapped.get(cell.estimator, cell.estimator)))
    )
    assert not set(first.results) & set(again.results)  # no seed is shared
    both = compare_replication(first, again, SUITE)
    ((_, found),) = both.items()
    words = {row.estimator: {said.control: said[1:] for said in row.verdicts} for row in found.rows}
    assert words["grad"]["random"] == ("worse", "better")
    record = make_replication_record(both, first, again)
    assert (record["suite"], record["replication"]) == ("made-up v1", "made-up v1, replication 1")
    lines = render_text(format_replication(both, first, again), 120).splitlines()
    assert next(line for line in lines if line.startswith(" grad ")).rstrip().endswith("(!) worse → better")
    assert any(f"{found.equal} of {found.verdicts} equal, {found.opposed} opposed" in line for line in lines)


def test_compare_under_protocol_returns_none_without_results():
    first, again = make_suite_results(), make_suite_results(REPLICATION)
    kept = {point: result for point, result in again.results.items() if point.cell.retrain is ScoredNetwork.NONE}
    assert kept
    assert compare_under_protocol(ROAR, first, replace(again, results=kept), SUITE) is None
    assert compare_under_protocol(ROAR, first, again, SUITE)


def test_compare_replication_of_part_adjusts_over_all_rows():
    """With fewer rows, the adjusted p of the others would change."""
    part = select_part_of_suite(SUITE, ("random", "grad"))
    first, again = make_suite_results(), make_suite_results(REPLICATION)
    (found,), (parted,) = (compare_replication(first, again, which).values() for which in (SUITE, part))
    whole = {row.estimator: row for row in found.rows}
    assert parted.rows == (whole["random"], whole["grad"])


BOOTSTRAP = Bootstrap(200)


@pytest.fixture(scope="module")
def made():
    return compute_validity_panel(make_suite_results(accuracy=make_leaky_accuracy(0.5)), BOOTSTRAP)


def format_printed(panel, width=300):
    return render_text(format_text(panel, width), width)


def find_cells(panel, title, estimator):
    (found,) = (section for section in list_sections(panel) if section.title == title)
    (line,) = (line for line in found.rows if line[0] == estimator)
    return dict(zip(found.columns, line, strict=True))


def test_validity_panel_shows_each_number_in_its_column(made, monkeypatch):
    monkeypatch.setattr(SampledGains, "estimate_accuracy", lambda *_: Estimate(0.5234, 0.5, 0.55))
    monkeypatch.setattr(SampledGains, "compare_with_counterpart", lambda *_: Estimate(-0.031, -0.043, -0.019))
    assert find_cells(made, "Removal masks", "grad")["mask-only at 0.9"] == "52.3 (-3.1 ± 1.2)"
    areas, gaps = find_cells(made, "Orders, units, fills", "grad"), ("LeRF - MoRF, retrained", "LeRF - MoRF, reference")
    assert list(areas) == ["estimator", "gain", "gain, scalar", "gain, pixel", *gaps]
    assert areas["gain"] == areas["gain, scalar"] != areas["gain, pixel"]
    # KAR has one seed, hence no interval
    assert areas[gaps[0]] == f"{made.suite_draws.lerf_morf_gap_retrained.estimate_area('grad').value:+.1f}"
    assert areas[gaps[1]].startswith(f"{made.suite_draws.lerf_morf_gap_unretrained.estimate_area('grad').value:+.1f} [")


def test_validity_panel_shows_dash_for_missing_values(made):
    assert set(find_cells(made, "Twins", "var-grad").values()) == {"var-grad", "–"}
    assert find_cells(made, "Removal masks", "grad")["smoothness at 0.9"] == "–"
    empty = compute_validity_panel(SuiteResults(SUITE, "", None, {}), BOOTSTRAP)
    for section in list_sections(empty):
        assert {cell for line in section.rows for cell in line[1:]} == {"–"}


def test_validity_text_is_complete_with_doubts_last(made):
    lines = format_printed(made).splitlines()
    assert lines[0] == "made-up v1" and not any("…" in line for line in lines)
    narrow = format_printed(made, 60)  # columns that do not fit stand below
    assert all(cell in narrow for section in list_sections(made) for line in section.rows for cell in line)
    assert lines[-1] == f"var-grad (!) {find_row_warning(made.suite_draws, 'var-grad').reason}"
    assert " (!" not in lines[-2]


def test_validity_text_says_that_suite_lacks_roar():
    less = "which made-up does not have."
    for kinds, checks in ((("morf", "lerf"), "LeRF - MoRF, reference"), (("matched",), "gain")):
        scored = replace(SUITE, blocks=tuple(Block(SHOWN[kind], MAIN, LEVELS, seeds=2) for kind in kinds))
        found = compute_validity_panel(make_suite_results(scored), Bootstrap(resamples=50))
        columns = {heading: cells for part in list_sections(found) for heading, cells in part.columns.items()}
        assert checks in columns and not any(set(cells) <= {"–"} for cells in columns.values())
        assert format_printed(found).rstrip().endswith(less)


@pytest.mark.slow
def test_documented_validity_panel_matches_published_rows(tmp_path):
    """The page shows the first lines of a table, and a sentence."""
    study = ROOT / "studies" / "replication"
    with ResultsStore.open(make_default_url(tmp_path)) as results:
        import_results(results, study / "quick-2.parquet")
        found = compute_validity_panel(collect_results(read_suite(study / "quick-2.toml"), results))
    whole = "\n".join(f"    {line}".rstrip() for line in format_printed(found, 80).splitlines())
    page = (ROOT / "docs" / "validity.md").read_text("utf-8")
    (shown,) = re.findall(r"prints among others:\n\n(.+?)\n\n\S", page, re.S)
    parts = shown.split("\n\n")
    assert len(parts) == 2
    assert [part for part in parts if part not in whole] == []
