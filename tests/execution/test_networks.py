"""Common networks that score many runs, tuned once per row."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import PAPER_LEVELS, Order, ScoredNetwork, Split, Unit
from roarbench.compute.degraded_images import ImagesWithExchangedMasks, RankingMask
from roarbench.compute.prediction import Normalisation, predict_logits
from roarbench.compute.ranking import find_removed_bits
from roarbench.compute.train import fit
from roarbench.estimators.estimator import CONTROLS
from roarbench.execution import run_inputs
from roarbench.execution import training_and_scoring as networks
from roarbench.execution.job_graph import build_job_graph
from roarbench.execution.run_inputs import remove_features
from roarbench.execution.workload import count_missing_work, find_existing_shared_inputs
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import SharedInputs, list_planned_runs, list_shared_inputs, make_common_network_spec
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.plan.recipes import find_recipe, make_fine_tuning_recipe
from roarbench.plan.suite import Block
from roarbench.store.networks import compute_weights_checksum
from tests.helpers import tiny_suite
from tests.helpers.tiny_suite import SUITE, TEST, TRAIN, completed, open_rankings, open_rankings_of_run

pytestmark = pytest.mark.slow

ROWS = ("random", "grad", "truth")
BLOCKS = (
    Block(MATCHED, ROWS, (0.5, 0.9), seeds=2),
    Block(ROAR, ROWS[:2], (0.9,), seeds=1),
)
COMMON = replace(SUITE, name="common", blocks=BLOCKS, references=2)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with completed(tmp_path_factory.mktemp("common"), COMMON) as made:
        yield made


def test_common_networks_are_trained_once_before_their_runs(done):
    work, runs, jobs, _ = done
    shared = [name for name in jobs if name.startswith(("network", "tune"))]
    made, tuned = sorted(shared[:2]), sorted(shared[2:])
    assert made == ["network morf scalar 0", "network morf scalar 1"]
    assert tuned == sorted(f"tune {row} morf scalar {seed}" for row in ROWS for seed in (0, 1))
    steps = [step for step in build_job_graph(work, runs).steps if step.kind == "run"]
    scored = [step.job.name for step in steps if step.runs[0].cell.retrain is ScoredNetwork.COMMON]
    assert jobs.index(shared[-1]) < min(map(jobs.index, scored))


def make_ranking_masks(work, names, number=0, split=Split.TRAIN):
    """Make the masks of these rows on images of a split, in the order of the draws."""
    found = [open_rankings(work, name, number) for name in names]
    return tuple(
        RankingMask(each.splits[split], each.layout, t, Order.MORF) for each in found for t in (0.0, *PAPER_LEVELS)
    )


def train_on_exchanged_masks(work, seed, chosen, model=None, mean=None, lent=False):
    """Train a network on exchanged masks, or tune `model`, without the jobs."""
    recipe = make_fine_tuning_recipe(find_recipe("planted@1")) if model else find_recipe("planted@1")
    model, mean = model or work.build_untrained_network(seed), mean or work.images.mean
    generator = torch.Generator().manual_seed(run_inputs.EXCHANGE_SEED + seed)
    pixels, labels = torch.from_numpy(work.images.train.pixels), torch.from_numpy(work.images.train.labels)
    inputs = ImagesWithExchangedMasks(pixels, chosen, torch.tensor(mean), Unit.SCALAR, generator, from_other_set=lent)
    fit(model, inputs, labels, Normalisation.of(work.images), recipe, seed)
    return model


def assert_same_weights(found, expected):
    assert compute_weights_checksum(found) == compute_weights_checksum(expected)


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    """The suite's rows on common networks tuned on masks of test images."""
    suite = replace(COMMON, name="lent", blocks=BLOCKS[:1], tuned_on=Split.TEST)
    with completed(tmp_path_factory.mktemp("lent"), suite) as made:
        yield made


@pytest.mark.parametrize("tuned_on", Split)
def test_common_network_trains_on_controls_and_tunes_on_its_row(request, tuned_on):
    is_lent = tuned_on is Split.TEST
    work, runs, jobs, _ = request.getfixturevalue("lent" if is_lent else "done")
    run = next(run for run in runs if (run.cell.estimator, run.cell.retrain, run.seed) == ("grad", "common", 1))
    common = train_on_exchanged_masks(work, 1, make_ranking_masks(work, CONTROLS))
    key = make_common_network_spec(work.suite, work.images.fingerprint, Order.MORF, Unit.SCALAR, 1).key
    assert_same_weights(work.get_stored_network(key).load_weights(), common.state_dict())
    masks = make_ranking_masks(work, ["grad"], 1, tuned_on)
    tuned = train_on_exchanged_masks(work, 1_000_001, masks, common, lent=is_lent)
    judge = networks.load_stored_common_network(work, run.network, open_rankings_of_run(work, run))
    assert_same_weights(judge.state_dict(), tuned.state_dict())
    explained = [name for name in jobs if name.startswith("rank trained")]  # jobs of the splits whose masks are used
    assert explained == [f"rank trained {split} 0" for split in Split if split is Split.TEST or not is_lent]


def compute_correctness(work, run):
    rankings = open_rankings_of_run(work, run)
    bits = find_removed_bits(rankings.splits[Split.TEST], run.cell.t, Order.MORF, rankings.layout)
    images = remove_features(work.images, Split.TEST, bits, run.cell)
    model = networks.load_stored_common_network(work, run.network, rankings)
    return predict_logits(model, images, Normalisation.of(work.images), 64).argmax(1).numpy() == work.images.test.labels


def test_common_network_scores_each_image_under_its_own_map(done):
    work, runs, _, store = done
    for run in runs:
        if run.cell.retrain is ScoredNetwork.COMMON and run.cell.estimator in ROWS:
            expected = compute_correctness(work, run)
            found = store.read_results([run.key])[run.key].correctness
            np.testing.assert_array_equal(found, expected, err_msg=str(run.cell))


def test_common_network_trains_with_fill_of_its_runs(tmp_path):
    """The reference replaces the mean by black, so that the mean fill is black."""
    filled, black = (Block(MATCHED, ROWS[:2], (0.5,), 1, fill=fill) for fill in ("zero", "mean")), (0.0, 0.0, 0.0)
    suite = replace(COMMON, name="black", blocks=tuple(filled), references=1)
    with completed(tmp_path, suite) as (work, runs, jobs, _):
        made = [name for name in jobs if name.startswith("network")]
        assert made == ["network morf scalar zero 0", "network morf scalar 0"]
        common, untouched = train_on_exchanged_masks(work, 0, make_ranking_masks(work, CONTROLS), mean=black), runs[0]
        assert (untouched.cell.estimator, untouched.cell.fill) == (CLEAN, "zero")
        assert_same_weights(work.get_stored_network(untouched.network).load_weights(), common.state_dict())
        tuned = train_on_exchanged_masks(work, 1_000_000, make_ranking_masks(work, ["grad"]), common, black)
        run = next(run for run in runs if (run.cell.estimator, run.cell.fill) == ("grad", "zero"))
        own = networks.load_stored_common_network(work, run.network, open_rankings_of_run(work, run))
        assert_same_weights(own.state_dict(), tuned.state_dict())


def test_count_missing_work_skips_existing_artifacts(done, monkeypatch):
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: tiny_suite.RECORD)
    work, points, data = done[0], list_planned_runs(COMMON), done[0].images.fingerprint
    needed = list_shared_inputs(COMMON, points)
    assert find_existing_shared_inputs(work.workspace, COMMON, data, needed) == needed
    plan, _ = count_missing_work(SuiteResults(COMMON, data, None, {}), work.workspace)
    own = sum(point.cell.retrain is ScoredNetwork.IMAGES for point in points)
    assert (plan.trainings, plan.references, plan.images_ranked, plan.images_explained) == (own, 0, 0, 0)
    assert plan.images_decoded == 0
    decoded_elsewhere, _ = count_missing_work(SuiteResults(COMMON, data, None, {}), work.workspace, decode_again=True)
    assert decoded_elsewhere.images_decoded == TRAIN + TEST
    assert plan.images_retrained == own * TRAIN * find_recipe(COMMON.recipe).epochs  # and no tuning
    assert plan.images_scored == len(points) * TEST
    assert find_existing_shared_inputs(work.workspace, COMMON, "other", needed) == SharedInputs()
