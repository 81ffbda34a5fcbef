"""Jobs of a worker match derivations without shortcuts."""

import copy
import json
import shutil
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from roarbench.common import device_settings
from roarbench.common.enums import MapNumerics, Order, Precision, ScoredNetwork, Split, Unit
from roarbench.common.errors import CallerError, StoreError
from roarbench.compute import train
from roarbench.compute.networks import build_network
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.random_draws import make_noisy_copies
from roarbench.execution import (
    ranking_jobs,
    run_inputs,
    training_and_scoring,
)
from roarbench.execution.job_context import make_inference_copy
from tests.helpers import slow_pipeline as slow
from tests.helpers.networks import randomise_weights
from tests.helpers.tiny_suite import (
    TEST,
    TRAIN,
    make_runs,
    make_scalar_spec,
    make_work,
    open_rankings,
    rank_all,
    removed,
    score,
)
from tests.helpers.trainings import seeded

COUNTS = {Split.TRAIN: TRAIN, Split.TEST: TEST}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A work with its explained network and the rankings of this module."""
    work = make_work(tmp_path_factory.mktemp("work"))
    training_and_scoring.train_or_read_reference(work.explained[0])
    rank_all(work, "random", "grad", "grad~untrained", "grad~other-target")
    return work


@pytest.fixture
def other(work, tmp_path):
    """The same work in a new store that has the explained network only."""
    made = replace(work, workspace=replace(work.workspace, root=tmp_path))
    shutil.copytree(work.workspace.references, made.workspace.references)
    return made


def compute_removed_features(work, model, targets):
    """Compute the removed half of the features of each test image by gradient maps."""
    train, test = (work.images[split].pixels for split in Split)
    images = slow.normalised(test.astype(np.float32), *slow.moments(train))
    maps = slow.gradient_maps(model.state_dict(), images, np.array(targets))
    return slow.removed_features(maps, 2**32, 0.5, "morf", "scalar").reshape(TEST, -1)


def test_twins_explain_untrained_weights_and_other_classes(work):
    """The untrained twin uses the targets of the explained network."""
    model = work.build_untrained_network(1001)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.weight.data[:] = 1
    targets = work.explained[0].store.load_predictions(Split.TEST).targets
    found, reference = (removed(open_rankings(work, name), Split.TEST, 0.5) for name in ("grad~untrained", "grad"))
    assert (found == compute_removed_features(work, model, targets)).mean() > 0.995
    assert (found == reference).mean() < 0.9
    found = removed(open_rankings(work, "grad~other-target"), Split.TEST, 0.5)
    by_class = [compute_removed_features(work, work.explained[0].load_trained(), [label] * TEST) for label in range(4)]
    agreement = (np.stack(by_class) == found).mean(2)
    assert (agreement.max(0) > 0.99).all()
    explained = agreement.argmax(0)
    assert (explained != targets).all() and len(set(explained)) == 4


def test_rank_shard_rejects_ranking_begun_on_another_kind_of_device(work, other, monkeypatch):
    spec = make_scalar_spec(other, "random")
    ranking_jobs.rank_shard(other, [spec], Split.TRAIN, 0, 16)
    monkeypatch.setattr(ranking_jobs, "name_device", lambda device: "NVIDIA H200")
    monkeypatch.delattr(ranking_jobs, "make_maps_for_networks")  # no map can be computed
    with pytest.raises(StoreError, match="has maps with different device .NVIDIA H200 and cpu"):
        ranking_jobs.rank_shard(other, [spec], Split.TRAIN, 16, TRAIN)


def test_run_rejects_rankings_of_another_network(work, other):
    shutil.copytree(work.workspace.rankings, other.workspace.rankings)
    shutil.rmtree(other.workspace.references)
    model = work.build_untrained_network(5)
    said = work.explained[0].store.load_predictions(Split.TEST)
    with other.explained[0].store.lock():
        other.explained[0].store.save_trained(model, 1.0)
        other.explained[0].store.save_predictions(Split.TEST, said)
    for retrain in (ScoredNetwork.NONE, ScoredNetwork.IMAGES):
        with pytest.raises(StoreError, match="was made for a different network than that in .*; delete .*, or use a"):
            score(other, make_run(other, "grad", retrain=retrain))
    score(other, make_run(other, "random"))


@pytest.mark.parametrize(
    ("maps", "hardware", "done"),
    [
        (MapNumerics.BF16, True, "bf16"),
        (MapNumerics.BF16, False, "float32-stem"),
        (MapNumerics.FLOAT32_STEM, True, "float32-stem"),
        (MapNumerics.BF16_STEM, False, "float32-stem"),
    ],
)
def test_map_numerics_change_rankings_and_are_recorded(work, other, monkeypatch, maps, hardware, done):
    asked = []
    monkeypatch.setattr(
        device_settings, "can_use_bf16", lambda wanted, _: asked.append(wanted) or wanted == "bf16" and hardware
    )
    other = replace(other, suite=replace(work.suite, maps=maps))
    rank_all(other, "grad", "random")
    assert set(asked) == {maps.precision, Precision.FLOAT32}  # of the estimator and of the control
    for name, precision in (("grad", done), ("random", "float32")):
        assert (make_scalar_spec(other, name) == make_scalar_spec(work, name)) == (name == "random")
        (part,) = open_rankings(other, name).files[Split.TEST]["made"]
        assert part["precision"] == precision
    assert json.loads((open_rankings(other, "grad").folder / "manifest.json").read_text())["maps"] == maps
    exact, found = (removed(open_rankings(each, "grad"), Split.TEST, 0.5) for each in (work, other))
    same = (exact == found).mean()
    assert 0.9 < same < 1 if "bf16" in done else same > 0.999


@pytest.mark.slow
def test_manifest_records_prediction_stability_of_noisy_copies(work, other):
    counted, others = ("var-grad", "sg-grad(noise=0.5)~blurred"), ("grad", "var-grad~untrained", "sg-grad~other-target")
    rank_all(other, *counted, *others)
    assert [open_rankings(other, name).prediction_stability for name in others] == [None] * 3
    explained, model = other.explained[0], other.explained[0].load_trained()
    for name in counted:
        found, noise, kept = open_rankings(other, name), find_estimator(name).get_value("noise"), []
        for split, count in COUNTS.items():
            batch = ranking_jobs.load_batch(explained, split, 0, count, explained.norm)
            copies = (make_noisy_copies(batch.images, batch.ids, j, 0, noise) for j in range(15))
            kept += [model(copy).argmax(1) == model(batch.images).argmax(1) for copy in copies]
        assert found.prediction_stability == int(torch.cat(kept).sum()) / (15 * (TRAIN + TEST))
        assert 0 < found.prediction_stability < 1


def make_run(work, estimator, retrain=ScoredNetwork.IMAGES, t=0.9, seed=0):
    found = make_runs(work)[0]
    cell = replace(found.cell, estimator=estimator, order=Order.MORF, retrain=retrain, t=t, unit=Unit.SCALAR)
    return replace(found, cell=cell, seed=seed)


def test_results_carry_what_doubts_need_to_know_of_maps_and_images(work):
    """A database is read without the folder of its rankings: ties were known to that folder alone."""
    counts = np.bincount(work.images.test.labels)
    for name in ("grad", "random"):
        files = open_rankings(work, name).files.values()
        ties = sum(file["ties"] for file in files) / (TRAIN + TEST)
        annotations = training_and_scoring.execute_runs(work, (run := make_run(work, name),)).annotations
        expected = {f"largest-class {run.data}": counts.max() / TEST}
        assert annotations == expected | {f"ties {open_rankings(work, name).checksum}": ties}


def test_job_holds_degraded_images_of_one_level_at_a_time(work, monkeypatch):
    """With most fills, the degraded images of a level are a copy of all test images: 7.5 GB for ImageNet."""
    made, make_test_inputs = [], training_and_scoring.make_test_inputs

    def count_living(*given):
        assert [reference for reference in made if reference()] == []
        inputs, masks = make_test_inputs(*given)
        made.append(weakref.ref(inputs))
        return inputs, masks

    monkeypatch.setattr(training_and_scoring, "make_test_inputs", count_living)
    runs = tuple(make_run(work, "grad", ScoredNetwork.NONE, t) for t in (0.3, 0.5, 0.9))
    assert len(training_and_scoring.execute_runs(work, runs).results) == len(made) == 3


def test_checkpoint_is_keyed_by_rankings(work, monkeypatch):
    run = make_run(work, "grad", seed=5)
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)  # after every step
    assert work.get_checkpoint(run.key, score(work, run).rankings).load()["step"] > 0
    assert work.get_checkpoint(run.key, "0ther").load() is None


def find_lenders(work, handed, split):
    """Find the image whose mask each image receives."""
    mine = removed(open_rankings(work, "grad"), split, 0.9)
    theirs = removed(run_inputs.exchange_rankings_if_twin(work.images, handed, open_rankings(work, "grad")), split, 0.9)
    return np.array([np.flatnonzero((mine == image).all(axis=1))[0] for image in theirs])


def test_other_image_twin_uses_parent_rankings_of_other_images(work):
    """Each image receives the mask of another image of its split; no two images share one."""
    own, handed = (make_run(work, name) for name in ("grad", "grad~other-image"))
    for split, count in COUNTS.items():
        given = find_lenders(work, handed, split)
        assert sorted(given) == list(range(count)) and (given != np.arange(count)).all()
    shared = (make_run(work, "grad~other-image", ScoredNetwork.COMMON, seed=seed) for seed in (1, 2))
    assert len({tuple(find_lenders(work, run, Split.TEST)) for run in shared}) == 2  # one network scores all
    one, other = score(work, own), score(work, handed)
    assert one.rankings == other.rankings
    assert one.bits != other.bits


@pytest.mark.slow
def test_random_redrawn_draws_masks_during_training(work):
    """Splits have different draws; tests/compute/test_inputs.py checks the draws."""
    run = make_run(work, "random-redrawn", t=0.5)
    train, test = (run_inputs.make_run_inputs(work.images, run, None, split) for split in Split)
    assert (train.t, test.t) == (0.5, 0.5) and train.generator.initial_seed() != test.generator.initial_seed()
    first, again, other = (score(work, replace(run, seed=seed)) for seed in (0, 0, 1))
    assert first.bits == again.bits != other.bits
    assert (first.rankings, first.smoothness) == ("", None)
    with pytest.raises(CallerError, match="^fill 'blur' is .* once per image, but random-redrawn .*; use fill 'mean'$"):
        score(work, replace(run, cell=replace(run.cell, fill="blur")))


@pytest.mark.parametrize("name", ["resnet-quick", "resnet8", "resnet-planted", "mlp"])
def test_inference_copy_has_same_logits_and_changes_nothing(name):
    network = build_network(name, 5, 3, 16, seeded(0))
    network = randomise_weights(network, seeded(1)).double()
    before, images = copy.deepcopy(network.state_dict()), torch.randn(4, 3, 16, 16, generator=seeded(2)).double()
    kept, expected, faster = images.clone(), network(images), make_inference_copy(network)
    with torch.inference_mode():
        for _ in range(2):
            torch.testing.assert_close(faster(images), expected)
    assert torch.equal(images, kept) and torch.equal(network(images), expected)
    assert all(torch.equal(before[key], value) for key, value in network.state_dict().items())
    assert (faster is network) == (name == "mlp")
    assert not any(isinstance(module, nn.BatchNorm2d) for module in faster.modules())
