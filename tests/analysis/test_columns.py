"""Columns beside gains: probability of the predicted class, Quantus scores, prediction stability, ties."""

import json
from dataclasses import replace

import numpy as np
import pytest

from roarbench.analysis.collect_results import add_facts_of_store_folder, collect_results
from roarbench.analysis.faithfulness_scores import METRICS, compute_probability_drops, list_score_specs
from roarbench.analysis.suite_judges import judge_suite
from roarbench.common.enums import PAPER_LEVELS, MapNumerics, Order, ScoredNetwork, Split, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import LERF, MORF, ROAR
from roarbench.report.validity_panel import list_sections
from roarbench.stats.intervals import Estimate
from roarbench.stats.probability_drop import compute_probability_drop
from roarbench.store.annotations_and_scores import Score, store_scores
from roarbench.store.ranking_files import MapProvenance, RankingSpec
from roarbench.store.rankings import RankingsStore
from roarbench.store.run_result import pack_probabilities
from roarbench.store.workspace import Workspace
from tests.helpers.made_up_results import (
    IMAGES,
    LEVELS,
    MAIN,
    SUITE,
    make_suite_results,
    make_table,
    make_table_of_both_gains,
    parse_rows,
    render_words,
)
from tests.helpers.shown_tables import render
from tests.helpers.store_rows import set_checksums


def make_results_with_probabilities(without=()):
    """Make results whose probabilities fall with the level, at another rate for each estimator; some may lack them."""
    whole, untouched = make_suite_results(), np.random.default_rng(0).uniform(0.3, 1.0, IMAGES).astype(np.float32)
    for point, result in whole.results.items():
        cell = point.cell
        if cell.retrain is ScoredNetwork.NONE and (cell.estimator, cell.order, cell.t) not in without:
            steep = 0.3 + 0.1 * MAIN.index(cell.estimator) if cell.estimator != CLEAN else 0.0
            kept = untouched ** (1 + steep * cell.t if cell.order is Order.MORF else 1 + steep * cell.t**2)
            whole.results[point] = replace(result, probability=pack_probabilities(kept))
    return whole


def compute_drops(results, protocol=MORF):
    return compute_probability_drops(results, protocol, Unit.SCALAR, LEVELS)


@pytest.mark.parametrize("protocol", [MORF, LERF])
def test_compute_probability_drops_matches_stored_probabilities(protocol):
    whole, stored = make_results_with_probabilities(), {}
    for point, result in whole.results.items():
        cell = point.cell
        if cell.retrain is ScoredNetwork.NONE and (cell.order is protocol.order or cell.estimator == CLEAN):
            stored[cell.estimator, cell.t] = result.probabilities.astype(float)
    rows = {name: [stored[name, t] for t in LEVELS] for name in MAIN}
    found = compute_drops(whole, protocol)
    assert found == {name: compute_probability_drop(stored[CLEAN, 0.0], row) for name, row in rows.items()}


def test_compute_probability_drops_skips_missing_values():
    part = make_results_with_probabilities({("grad", Order.MORF, 0.9)})
    grad = compute_drops(part)["grad"]
    assert (grad.aopc, grad.probabilities[1].value) == (Estimate(), None) and grad.probabilities[0].value > 0
    assert compute_drops(part, LERF)["grad"].aopc.value > 0
    assert compute_drops(make_results_with_probabilities({(CLEAN, Order.MORF, 0.0)})) == {}
    assert compute_drops(make_suite_results()) == compute_drops(make_results_with_probabilities(), ROAR) == {}


def test_table_shows_probabilities_without_retraining():
    whole = make_results_with_probabilities()
    shown, fall = make_table(whole, "morf"), compute_drops(whole)["var-grad"]
    row = parse_rows(shown)["var-grad"]
    assert (row["aopc"], row["aopc_low"], row["aopc_high"]) == fall.aopc
    assert list(row["probability"].values()) == [each.value for each in (fall.untouched, *fall.probabilities)]
    assert list(row["relative_change"].values()) == [each.value for each in fall.changes]
    assert f"{fall.aopc.value:.3f} [{fall.aopc.low:.3f}, {fall.aopc.high:.3f}]" in render(shown, "markdown")


VALUES = {"pixel-flipping": 0.23456, "region-perturbation": -0.5, "faithfulness-correlation": None}


def test_list_score_specs_covers_every_estimator_with_maps(store):
    exact, short = list_score_specs(SUITE, "da7a"), list_score_specs(replace(SUITE, maps=MapNumerics.BF16), "da7a")
    mapped = [name for name in SUITE.estimators if name != "random-redrawn"]
    assert list(exact) == [(name, metric.id) for name in mapped for metric in METRICS]
    assert len({spec.key for spec in exact.values()}) == len(exact)
    same = {name for name, metric in exact if exact[name, metric].key == short[name, metric].key}
    assert same == {name for name, _ in exact if not find_estimator(name).uses_shared_pass}
    store_scores(store.database, [Score(exact["grad", name], "grad", value, 64, {}) for name, value in VALUES.items()])
    elsewhere = list_score_specs(SUITE, "0ther")
    store_scores(store.database, [Score(elsewhere["sobel", "pixel-flipping"], "sobel", 1.0, 64, {})])
    assert collect_results(SUITE, store, data="da7a").quantus == {"grad": VALUES}


def test_note_gives_counts_of_quantus_means_over_fewer_images():
    counts = {("grad", "pixel-flipping"): 40, ("grad", "faithfulness-correlation"): 14}
    for shown, words in ((counts, "Images in each mean of Quantus: 40, but FC of grad 14 ("), ({}, "")):
        table = make_table(replace(make_suite_results(), quantus={"grad": VALUES}, quantus_counts=shown))
        text = render(table, "markdown")
        assert words in text and ("Images in each mean" in text) == bool(words)


def test_quantus_columns_leave_other_table_cells_unchanged():
    """Gain, rank, verdict and warning ignore Quantus scores, even if these contradict them."""
    whole = make_suite_results()
    plain = make_table(whole)
    scored = make_table(replace(whole, quantus={"grad": VALUES, "random": {"pixel-flipping": 0.5}}))
    before, after = (json.loads(render(shown, "json")) for shown in (plain, scored))
    kept = {row["estimator"]: row.pop("quantus") for row in after["rows"]}
    assert (after, scored.doubts) == (before, plain.doubts)
    assert (kept["grad"], kept["sobel"]) == (VALUES, dict.fromkeys(VALUES))
    lines = render(scored, "markdown").splitlines()
    assert lines[2].endswith("| above masks at 0.9 | PF ↓ | RP ↑ | FC ↑ |")
    assert any(line.endswith("| 0.235 | -0.500 | – |") for line in lines)
    own = make_table_of_both_gains().own_network
    own = replace(own, suite_results=replace(own.suite_results, quantus={"grad": VALUES}))
    heading, _, *rows = render(own, "markdown").splitlines()[2:]
    assert heading.endswith("| PF ↓ | RP ↑ | FC ↑ |") and rows[0].endswith("| 0.235 | -0.500 | – |")


def write_sealed_ranking(folder, name, number, parts):
    """Write rankings of test images in parts of so many images each, told apart by a number; return their checksum."""
    store, total = RankingsStore(Workspace(folder).rankings), sum(images for images, _ in parts)
    layout = (Unit.SCALAR, PAPER_LEVELS, (1, 2, 2), (Split.TEST,))
    spec, start = RankingSpec("d" * 32, f"{number:0>32}", "e" * 32, name, *layout), 0
    for images, provenance in parts:
        planes = np.full((images, spec.layout.planes, spec.layout.bytes_per_plane), number % 251, np.uint8)
        store.write_part(spec, Split.TEST, start, start + images, planes, provenance)
        start += images
    store.join_parts_and_finish(spec, {Split.TEST: total})
    return store.open(spec).checksum


def test_table_marks_rows_with_low_prediction_stability(tmp_path):
    """`var-grad` has two rankings with 40 and 44 of 60 copies kept, `grad` has no copies, `sobel` no rankings here."""
    copies = ("var-grad", [15, 15, 10, 0]), ("var-grad", [15, 15, 14, 0]), ("grad", [])
    low, high, other = (
        write_sealed_ranking(tmp_path, name, sum(kept), [(4, MapProvenance(0.0, stable_copies=kept))])
        for name, kept in copies
    )
    rankings = {"var-grad": (low, high), "grad": (other, other), "sobel": ("gone", "gone")}
    ranked = set_checksums(
        make_suite_results(), rankings=lambda point: rankings.get(point.cell.estimator, ("", ""))[point.seed % 2]
    )
    stored = add_facts_of_store_folder(ranked, tmp_path)
    assert stored.prediction_stability == {"var-grad": pytest.approx((40 + 44) / 120)}
    shown = make_table(stored)
    text, rows = render_words(shown), parse_rows(shown)
    said = "† The explained network keeps its prediction on fewer than 80% of the noisy copies: var-grad 70%."
    assert said in text and "var-grad †" in text and text.count("†") == 2
    assert rows["var-grad"]["prediction_stability"] == pytest.approx(0.7)
    assert rows["grad"]["prediction_stability"] is None
    assert "†" not in render_words(make_table(replace(stored, prediction_stability={"var-grad": 0.8})))


def test_row_warning_states_share_of_tied_features(tmp_path):
    checksums = {}
    ties_by_name = {"var-grad": [0.5, 1.0], "grad": [0.4, 0.6], "sobel": [1.0, 1.0], "gb": []}
    for number, (name, ties) in enumerate(ties_by_name.items()):
        parts = [(1, MapProvenance(0.0, ties=part)) for part in (ties[:1], ties[1:])]
        checksums[name] = write_sealed_ranking(tmp_path, name, number, parts)
    whole = make_suite_results()
    ranked = set_checksums(whole, rankings=lambda point: checksums.get(point.cell.estimator, ""))
    stored = add_facts_of_store_folder(ranked, tmp_path)
    assert stored.ties == {"var-grad": pytest.approx(0.75), "grad": 0.5, "sobel": 1.0}
    tied = [doubt for doubt in make_table(stored).doubts if "same value" in doubt.sentence]
    doubt = "75% of the features in its maps have the same value, so their order is random"
    assert [(each.row, each.sentence, each.sign) for each in tied] == [("var-grad", f"{doubt}.", "(!)")]
    shown = judge_suite(stored)
    (masks,) = (section.columns for section in list_sections(shown) if section.title == "Removal masks")
    texts = {column.heading: column.texts for column in masks}
    found = dict(zip(texts["estimator"], texts["ties, %"], strict=True))
    assert found == dict.fromkeys(stored.suite.estimators_with_own_row, "–") | {
        "var-grad": "75.0",
        "grad": "50.0",
        "sobel": "100.0",
    }
