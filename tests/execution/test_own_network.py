"""The own-network protocol on a tiny suite, from plan to table."""

import json
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest
import torch

from roarbench.analysis.collect_results import collect_results
from roarbench.analysis.correctness_of_suite import describe_total_disagreement_of_networks
from roarbench.analysis.suite_judges import judge_suite
from roarbench.common.enums import OTHER_REFERENCE, Order, Split, Unit
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.ids import make_twin_id
from roarbench.execution.training_and_scoring import hash_masks
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_splits_ranked_by
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF, ROAR
from roarbench.plan.suite import MAX_COMPARED_NETWORKS, Block
from roarbench.report.combined_table import present
from roarbench.report.table import make_suite_table
from roarbench.report.table_notes import summarize_notes, write_all_notes
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.store.ranking_files import make_ranking_spec
from roarbench.store.run_result import pack_correctness
from tests.helpers import tiny_suite
from tests.helpers.tiny_suite import InlineEngine, open_rankings, removed, run_missing

CONTROLS = ("random", "sobel", "linear-classifier")
ASKING = ("grad", make_twin_id("grad", "blurred"), make_twin_id("grad", "untrained"))
LEVELS = (0.1, 0.3)
SUITE = replace(
    tiny_suite.SUITE,
    name="own",
    references=3,
    blocks=tuple(Block(of, (*CONTROLS, *ASKING), LEVELS, seeds=1) for of in (OWN_NETWORK, OWN_NETWORK_LERF)),
)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """The completed suite: its work, runs, job names and results."""
    with tiny_suite.completed(tmp_path_factory.mktemp("own"), SUITE) as (work, runs, jobs, store):
        yield work, runs, jobs, collect_results(SUITE, store, None, work.images.fingerprint)


def predict_classes(work, number, pixels):
    """Predict classes, int64 (n,), of images, float32 (n, c, h, w) in [0, 255], by an explained network."""
    with torch.no_grad():
        return work.explained[number].load_trained()(normalise(pixels, Normalisation.of(work.images))).argmax(1)


def compute_slow_gains(work, name, order):
    """Compute the gain at each level by loops over images and pairs of networks."""
    pixels = torch.from_numpy(work.images.test.pixels).float()
    mean = torch.tensor(work.images.mean)[:, None, None]
    untouched = [predict_classes(work, number, pixels) for number in range(3)]
    same = [image for image in range(len(pixels)) if len({int(said[image]) for said in untouched}) == 1]
    assert 3 <= len(same) < len(pixels)
    for t in LEVELS:
        kept = {}
        for explained, scored in product(range(3), repeat=2):
            rankings = open_rankings(work, name, 0 if name in CONTROLS[:2] else explained)
            gone = torch.from_numpy(removed(rankings, Split.TEST, t, order)).view(pixels.shape)
            said = predict_classes(work, scored, torch.where(gone, mean, pixels))
            kept[explained, scored] = said == untouched[scored]
        sign = 1 if order is Order.MORF else -1
        each = [
            sign * (int(kept[i, j][x]) + int(kept[j, i][x]) - int(kept[i, i][x]) - int(kept[j, j][x])) / 2
            for x in same
            for i, j in combinations(range(3), 2)
        ]
        yield 100 * sum(each) / len(each)


@pytest.mark.parametrize("protocol", [OWN_NETWORK, OWN_NETWORK_LERF])
@pytest.mark.parametrize("name", ["grad", "linear-classifier", "random"])
def test_own_network_gains_match_slow_derivation(done, protocol, name):
    work, *_, results = done
    table = make_suite_table(results, protocol.name, None, None)
    (row,) = (row for row in table.board.rows if row.estimator == name)
    expected = list(compute_slow_gains(work, name, protocol.order))
    assert any(expected) == (name == "grad")
    assert [gain.in_points.value for gain in table.board.list_gains_by_level(row)] == pytest.approx(expected, abs=1e-9)
    assert row.gain.value == pytest.approx(np.mean(expected), abs=1e-9)


def test_only_rows_with_equal_maps_are_zero_by_construction(done):
    *_, results = done
    rows = {row["estimator"]: row for row in present(make_suite_table(results, OWN_NETWORK.name, None, None)).flat_rows}
    assert {name for name, row in rows.items() if row["verdict"] == OwnNetworkVerdict.BY_CONSTRUCTION} == set(CONTROLS)
    assert {rows[name]["gain"] for name in CONTROLS} == {0.0}
    assert {rows[name]["gain_low"] for name in CONTROLS} == {None}
    assert None not in {rows[name]["gain_low"] for name in ASKING}


def test_masks_that_differ_on_shared_images_are_not_zero_by_construction(done):
    """Maps of the linear classifier differ only on images on which networks disagree."""
    work, *_, results = done
    assert len({open_rankings(work, "linear-classifier", number).checksum for number in range(3)}) > 1
    sobel = {row.run.key for row in results.find_results(OWN_NETWORK, Unit.SCALAR)["sobel", 0.3].values()}
    other = hash_masks(np.zeros((tiny_suite.TEST, 1), np.uint8))
    altered = replace(results, masks={**results.masks, min(sobel): other})
    board = judge_suite(altered).make_board(OWN_NETWORK, Unit.SCALAR)
    words = {row.estimator: row.network.verdict for row in board.rows if row.network}
    assert words["sobel"] != OwnNetworkVerdict.BY_CONSTRUCTION == words["random"]


def test_notes_explain_missing_gain_when_networks_agree_on_no_image(done):
    *_, results = done
    apart = replace(results, results=dict(results.results))
    for point, result in results.results.items():
        if point.cell.estimator == CLEAN and point.cell.retrain is OWN_NETWORK.retrain:
            explained, scored = divmod(point.seed, MAX_COMPARED_NETWORKS)
            none = pack_correctness(np.zeros(result.total, np.bool_))
            apart.results[point] = result if explained == scored else replace(result, correct=0, bits=none)
    why = f"The 3 networks predict the same class for none of the {tiny_suite.TEST} test images"
    table = make_suite_table(apart, OWN_NETWORK.name, None, None)
    assert {row.gain.value for row in table.rows} == {None}
    assert why in write_all_notes(table) and any(why in note for note in summarize_notes(table))
    assert describe_total_disagreement_of_networks(results, OWN_NETWORK, Unit.SCALAR) == ""


def test_one_job_scores_all_networks_and_levels_under_maps_of_one_network(done):
    _, runs, jobs, _ = done
    each, shared = 4, 2  # rows that depend on the explained network; rows that do not, scored once by every network
    assert len(runs) == 9 + 2 * len(LEVELS) * (each * 9 + shared * 3)
    made = [name for name in jobs if not name.startswith(("explained", "rank", "seal"))]
    assert len(made) == 3 + 2 * 3 * (each + shared)


def test_run_missing_skips_runs_stored_meanwhile_by_another_command(store, done):
    """The other command had other networks or levels, so it stored some runs of a job."""
    work, runs, _, results = done
    stored = {row.run.key: row for row in results.results.values()}
    engine = InlineEngine()
    events = run_missing(work, runs, store, engine)
    first = next(events)
    others = [run.key for run in runs if run not in first.step.runs][::3]
    store.add_results(stored[key] for key in others)
    ended = [first, *events]
    assert [event.failure for event in ended if event.failure] == []
    found = store.read_results(list(stored))
    assert {key: row.bits for key, row in found.items()} == {key: row.bits for key, row in stored.items()}
    did = [run.key for event in ended if not event.elsewhere for run in event.step.runs]
    assert sorted(did) == sorted(stored.keys() - set(others))


def test_training_images_are_ranked_only_for_networks_of_retraining_runs():
    suite = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, ("random", "grad"), (0.3,), seeds=1)))
    grad, both = find_estimator("grad"), (Split.TRAIN, Split.TEST)
    assert [list_splits_ranked_by(suite, grad, number) for number in range(3)] == [both, (Split.TEST,), (Split.TEST,)]
    twin = replace(suite.blocks[-1], estimators=("random", make_twin_id("grad", OTHER_REFERENCE)))
    lent = replace(suite, blocks=(*SUITE.blocks, twin))
    assert [list_splits_ranked_by(lent, grad, number) for number in range(3)] == [(Split.TEST,), both, (Split.TEST,)]


def test_estimator_without_network_has_the_same_rankings_for_networks_beyond_the_seeds_of_roar():
    suite = replace(SUITE, blocks=(*SUITE.blocks, Block(ROAR, ("random", "deviation"), (0.3,), seeds=1)))
    deviation, shape = find_estimator("deviation"), suite.dataset_record.shape
    specs = [make_ranking_spec(suite, "da7a", shape, deviation, Unit.SCALAR, number) for number in range(3)]
    assert specs[0] == specs[1] == specs[2] and specs[0].splits == (Split.TRAIN, Split.TEST)


@pytest.mark.soak
def test_own_network_gain_orders_planted_corner_maps(call, tmp_path):
    """Takes two core-minutes. Gains: own corner +35 points, half of another corner +9, another corner -12."""
    maps = ("corner-own", "corner-mixed-50", "corner-next", "corner-all")
    asked = ("--suite", "planted-corners", "--max-images", "1500", "--protocol", "own-network", "--format", "json")
    answer = call("run", *asked, "--estimators", ",".join(maps), "--store", tmp_path)
    assert answer.code == 0, answer.err
    rows = {row["estimator"]: row for row in json.loads(answer.out)["rows"]}
    own, half, other, every = (rows[name] for name in maps)
    assert own["gain"] > 2 * half["gain"] > 0 > other["gain"]
    assert every["verdict"] == OwnNetworkVerdict.BY_CONSTRUCTION
