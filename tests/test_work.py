"""The jobs of a worker, each derived again without its shortcuts."""

import json
import shutil
import weakref
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from tiny_bench import SUITE, TEST, TRAIN, make_bench, make_runs

from roarbench import devices, train, work
from roarbench.augment import Augmentation
from roarbench.errors import CallerError, Diverged, StoreError
from roarbench.estimators import engine, find_estimator
from roarbench.plan import CLEAN
from roarbench.ranking import removed_bits, removed_count, tie_order
from roarbench.recipes import RECIPES, Decay, Recipe, find_recipe
from roarbench.store.planes import read_planes
from roarbench.store.references import ReferenceStore, checksum
from roarbench.terms import Order, Precision, Retrain, Split, Unit
from roarbench.train import fit, predict

COUNTS = {Split.TRAIN: TRAIN, Split.TEST: TEST}
SCALAR = ("random", "truth", "grad", "grad~untrained", "grad~other-target")
PIXEL = ("random", "grad")


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """With its reference, and with all rankings that are asked for here."""
    bench = make_bench(tmp_path_factory.mktemp("bench"))
    work.train_reference(bench)
    specs = [spec_of(bench, name, Unit.SCALAR) for name in SCALAR] + [
        spec_of(bench, name, Unit.PIXEL) for name in PIXEL
    ]
    for split, count in COUNTS.items():
        work.rank_shard(bench, specs, split, 0, count)
    for spec in specs:
        work.seal(bench, spec)
    return bench


def spec_of(bench, name, unit):
    return bench.ranking_spec(find_estimator(name), unit)


def pixels_of(bench, split):
    return bench.images(split).pixels.astype(np.float64)


def normalised(bench, split):
    """Images minus mean over std, float64, from the pixels alone."""
    train = pixels_of(bench, Split.TRAIN)
    mean, std = (np.reshape(getattr(train, name)(axis=(0, 2, 3)), (3, 1, 1)) for name in ("mean", "std"))
    return torch.from_numpy((pixels_of(bench, split) - mean) / std)


def gradients(model, images, targets):
    """One image after the other, in float64."""
    maps = []
    for image, target in zip(images, targets, strict=True):
        image = image[None].requires_grad_()
        maps.append(torch.autograd.grad(model.double()(image)[0, target], image)[0][0])
    return torch.stack(maps).numpy()


def removed_by_hand(importance, split, t):
    """The round(t d) most important features of each image, bool (n, d), by Python's sort."""
    flat = importance.reshape(len(importance), -1)
    d = flat.shape[1]
    ties = tie_order(work.image_ids(split, 0, len(flat)).numpy(), d)
    removed = np.zeros(flat.shape, bool)
    for row, values, places in zip(removed, flat.tolist(), ties.tolist(), strict=True):
        ranking = sorted(range(d), key=lambda feature: (values[feature], places[feature]), reverse=True)
        row[ranking[: round(t * d)]] = True
    return removed


def removed_in_store(bench, name, unit, split, t, order=Order.MORF):
    rankings = bench.rankings.open(spec_of(bench, name, unit))
    bits = removed_bits(rankings.planes(split), t, order, rankings.layout)
    return np.unpackbits(bits, axis=1, count=rankings.layout.features).astype(bool)


# --- the reference


def test_the_reference_is_the_network_that_its_record_describes(bench):
    model = bench.network("resnet-planted", 1000)
    labels = torch.from_numpy(bench.data.train.labels)
    untouched = Ready(torch.from_numpy(pixels_of(bench, Split.TRAIN)).float())
    fit(model, untouched, labels, bench.norm, find_recipe("planted@1"), 1000)
    torch.testing.assert_close(bench.trained_reference().state_dict(), model.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("split", Split)
def test_its_predictions_are_its_most_probable_classes(bench, split):
    with torch.no_grad():
        chances = bench.trained_reference().double()(normalised(bench, split)).softmax(1).numpy()
    said = bench.references.predictions(bench.reference, split)
    np.testing.assert_array_equal(said.targets, chances.argmax(1))
    np.testing.assert_allclose(said.probability, chances.max(1), rtol=1e-4)  # float32 through a network


def test_a_reference_is_trained_once(bench, monkeypatch):
    before = bench.references.checksum(bench.reference)
    monkeypatch.setattr(work, "fit", None)  # a training would fail
    work.train_reference(bench)
    assert bench.references.checksum(bench.reference) == before


def test_a_reference_that_diverges_is_not_kept(tmp_path, monkeypatch):
    wild = Recipe("wild", 1, 8, 8, 1e30, 0, Decay.LINEAR, Augmentation.NONE)
    monkeypatch.setitem(RECIPES, wild.title, wild)
    bench = make_bench(tmp_path, replace(SUITE, reference_recipe=wild.title))
    with pytest.raises(Diverged):
        work.train_reference(bench)
    assert not bench.references.has(bench.reference)


# --- rankings


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_truth_is_ranked_by_the_strength_of_its_features(bench, split, t):
    expected = removed_by_hand(bench.images(split).truth, split, t)
    np.testing.assert_array_equal(removed_in_store(bench, "truth", Unit.SCALAR, split, t), expected)


# In float32 and in batches the maps differ in their last digits, which moves features that lie next to a boundary.
@pytest.mark.parametrize("split", Split)
def test_gradients_are_those_of_the_predicted_logit(bench, split):
    targets = bench.references.predictions(bench.reference, split).targets
    maps = gradients(bench.trained_reference(), normalised(bench, split), targets)
    for unit, importance in ((Unit.SCALAR, maps), (Unit.PIXEL, maps.sum(1))):
        found = removed_in_store(bench, "grad", unit, split, 0.5)
        assert (found == removed_by_hand(importance, split, 0.5)).mean() > 0.995


def test_the_untrained_twin_explains_other_weights_by_the_references_targets(bench):
    model = bench.network("resnet-planted", 1001)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            module.weight.data[:] = 1
    targets = bench.references.predictions(bench.reference, Split.TEST).targets
    maps = gradients(model.eval(), normalised(bench, Split.TEST), targets)
    found = removed_in_store(bench, "grad~untrained", Unit.SCALAR, Split.TEST, 0.5)
    assert (found == removed_by_hand(maps, Split.TEST, 0.5)).mean() > 0.995
    assert (found == removed_in_store(bench, "grad", Unit.SCALAR, Split.TEST, 0.5)).mean() < 0.9


def test_the_other_target_twin_explains_a_class_that_is_not_predicted(bench):
    images, targets = normalised(bench, Split.TEST), bench.references.predictions(bench.reference, Split.TEST).targets
    found = removed_in_store(bench, "grad~other-target", Unit.SCALAR, Split.TEST, 0.5)
    by_class = [
        removed_by_hand(gradients(bench.trained_reference(), images, [label] * TEST), Split.TEST, 0.5)
        for label in range(4)
    ]
    agreement = (np.stack(by_class) == found).mean(2)
    assert (agreement.max(0) > 0.99).all()
    explained = agreement.argmax(0)
    assert (explained != targets).all()
    assert len(set(explained)) == 4


def test_training_and_test_images_have_ids_of_their_own(bench):
    train, test = work.image_ids(Split.TRAIN, 0, 1_300_000), work.image_ids(Split.TEST, 0, 50_000)
    assert train.max() < test.min()
    assert work.image_ids(Split.TEST, 512, 514).tolist() == test[512:514].tolist()
    random = [removed_in_store(bench, "random", Unit.SCALAR, split, 0.5)[:TEST] for split in Split]
    assert 0.4 < (random[0] == random[1]).mean() < 0.6  # 24 * 192 fair coins: 0.5 within 0.008


def test_a_random_ranking_is_exact_and_its_own_for_every_image(bench):
    removed = removed_in_store(bench, "random", Unit.SCALAR, Split.TEST, 0.3)
    assert set(removed.sum(1)) == {removed_count(0.3, 192)} == {58}
    assert len({row.tobytes() for row in removed}) == TEST


def test_shards_give_the_same_rankings_as_one_piece(bench, tmp_path):
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path))
    specs = [spec_of(other, name, Unit.SCALAR) for name in ("random", "truth")]
    for split, count in COUNTS.items():
        for start, stop in ((0, 7), (7, count)):
            work.rank_shard(other, specs, split, start, stop)
    for spec in specs:
        work.seal(other, spec)
        assert other.rankings.open(spec).checksum == bench.rankings.open(spec).checksum


def test_batches_are_the_same_whatever_the_range(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(work, "EXPLAINED", 8)
    folders = {"whole": [(0, 24)], "cut": [(8, 24), (0, 8)]}
    spec, seen = spec_of(bench, "grad", Unit.SCALAR), {}
    for name, ranges in folders.items():
        other = replace(bench, workspace=replace(bench.workspace, root=tmp_path / name))
        shutil.copytree(bench.workspace.references, other.workspace.references)
        for start, stop in ranges:
            work.rank_shard(other, [spec], Split.TEST, start, stop)
        parts = sorted(
            (other.rankings.folder(spec) / "parts").glob("test-*.arrow"), key=lambda p: int(p.stem.split("-")[1])
        )
        seen[name] = np.concatenate([read_planes(part).planes for part in parts])
    np.testing.assert_array_equal(seen["whole"], seen["cut"])


def test_no_more_than_one_batch_of_maps_is_kept(bench, tmp_path, monkeypatch):
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path))
    monkeypatch.setattr(work, "EXPLAINED", 8)
    living, most = [], []
    maps = work.importance_maps

    def watched(*arguments):
        found = maps(*arguments)
        living.append(weakref.ref(found["random"]))
        most.append(sum(seen() is not None for seen in living))
        return found

    monkeypatch.setattr(work, "importance_maps", watched)
    work.rank_shard(other, [spec_of(other, "random", Unit.SCALAR)], Split.TRAIN, 0, TRAIN)
    assert len(most) == 5
    assert max(most) <= 2  # the last batch, and the one that is being made


def test_rankings_and_runs_know_the_weights_that_they_depend_on(bench):
    weights = checksum(bench.trained_reference().state_dict())
    assert bench.references.checksum(bench.reference) == weights
    for name in SCALAR:
        expected = "" if find_estimator(name).control else weights
        assert bench.rankings.open(spec_of(bench, name, Unit.SCALAR)).weights == expected
    assert work.score(bench, run_of(bench, "grad")).weights == weights
    assert work.score(bench, run_of(bench, "random")).weights == ""
    assert work.score(bench, run_of(bench, "random", retrain=Retrain.NONE)).weights == weights
    assert work.score(bench, run_of(bench, CLEAN, retrain=Retrain.NONE, t=0.0)).weights == weights


def test_rankings_of_another_reference_are_refused(bench, tmp_path):
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path))
    shutil.copytree(bench.workspace.rankings, other.workspace.rankings)
    model = bench.network("resnet-planted", 5)
    said = bench.references.predictions(bench.reference, Split.TEST)
    with other.references.lock(other.reference):
        other.references.save(other.reference, model, 1.0)
        other.references.save_predictions(other.reference, Split.TEST, said)
    for retrain in (Retrain.NONE, Retrain.IMAGES):
        with pytest.raises(StoreError, match="was made from another reference than the one in .*; delete .*, or use a"):
            work.score(other, run_of(other, "grad", retrain=retrain))
    work.score(other, run_of(other, "random"))


def test_parts_that_are_there_are_not_made_again(bench, tmp_path, monkeypatch):
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path))
    random, truth = (spec_of(other, name, Unit.SCALAR) for name in ("random", "truth"))
    work.rank_shard(other, [random], Split.TEST, 0, TEST)
    asked = []
    maps = work.importance_maps
    monkeypatch.setattr(
        work, "importance_maps", lambda some, *rest: asked.extend(e.id for e in some) or maps(some, *rest)
    )
    work.rank_shard(other, [random, truth], Split.TEST, 0, TEST)
    assert asked == ["truth"]
    work.rank_shard(other, [random, truth], Split.TEST, 0, TEST)
    assert asked == ["truth"]


def test_the_reference_is_read_once_for_all_batches_and_again_when_it_changed(bench, tmp_path, monkeypatch):
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path))
    read, weights = [], ReferenceStore.weights
    monkeypatch.setattr(ReferenceStore, "weights", lambda *asked: read.append(asked) or weights(*asked))
    maps = []
    for seed in (5, 6):
        shutil.rmtree(other.workspace.references, ignore_errors=True)
        with other.references.lock(other.reference):
            other.references.save(other.reference, bench.network("resnet-planted", seed), 1.0)
        for start in (0, 8):
            made = work.timed_maps(other, ["grad"], Split.TEST, start, start + 8)["grad"].importance
        maps.append(made)
    assert len(read) == 2
    assert not torch.equal(*maps)


def made_by(bench, spec, split):
    parts = bench.rankings.open(spec).files[split]["made"]
    return [(part["images"], part["at_once"], part["precision"]) for part in parts]


@pytest.mark.parametrize("hardware", [True, False])
def test_maps_in_bf16_are_other_rankings_that_say_what_was_computed(bench, tmp_path, monkeypatch, hardware):
    asked = []
    monkeypatch.setattr(devices, "uses_bf16", lambda *question: asked.append(question) or hardware)
    suite = replace(bench.suite, maps=Precision.BF16)
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path), suite=suite)
    shutil.copytree(bench.workspace.references, other.workspace.references)
    specs = [spec_of(other, name, Unit.SCALAR) for name in ("grad", "random")]
    for name, spec in zip(("grad", "random"), specs, strict=True):
        assert (spec == spec_of(bench, name, Unit.SCALAR)) == (name == "random")
        for split, count in COUNTS.items():
            work.rank_shard(other, [spec], split, 0, count)
        work.seal(other, spec)
    assert set(asked) == {(Precision.BF16, torch.device("cpu"))}
    assert made_by(other, specs[0], Split.TEST) == [(TEST, TEST, "bf16" if hardware else "float32")]
    assert made_by(other, specs[1], Split.TEST) == [(TEST, TEST, "float32")]
    manifest = json.loads((other.rankings.folder(specs[0]) / "manifest.json").read_text())
    assert manifest["maps"] == "bf16"
    exact, found = (removed_in_store(each, "grad", Unit.SCALAR, Split.TEST, 0.5) for each in (bench, other))
    same = (exact == found).mean()
    assert 0.9 < same < 1 if hardware else same == 1


def test_the_manifest_says_how_many_were_explained_at_once(bench, tmp_path, monkeypatch):
    """A worker with room for 16, cut off, and one with room for 4 that goes on."""
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path))
    shutil.copytree(bench.workspace.references, other.workspace.references)
    spec = spec_of(other, "grad", Unit.SCALAR)
    for size, ranges in ((16, [(0, 20)]), (4, [(20, TRAIN), (0, TEST)])):
        monkeypatch.setattr(work, "images_at_once", lambda bench, estimators, size=size: size)
        for start, stop in ranges:
            split = Split.TRAIN if (start, stop) != (0, TEST) else Split.TEST
            work.rank_shard(other, [spec], split, start, stop)
    work.seal(other, spec)
    assert made_by(other, spec, Split.TRAIN) == [(16, 16, "float32"), (24, 4, "float32")]
    assert made_by(other, spec, Split.TEST) == [(24, 4, "float32")]


def test_a_batch_that_did_not_fit_is_not_said_to_have_been_explained_at_once(bench, tmp_path, monkeypatch):
    other = replace(bench, workspace=replace(bench.workspace, root=tmp_path))
    shutil.copytree(bench.workspace.references, other.workspace.references)
    spec, maps = spec_of(other, "grad", Unit.SCALAR), engine.model_maps

    def narrow(wanted, model, batch, black):
        if len(batch.ids) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return maps(wanted, model, batch, black)

    monkeypatch.setattr(engine, "model_maps", narrow)
    for split, count in COUNTS.items():
        work.rank_shard(other, [spec], split, 0, count)
    work.seal(other, spec)
    assert made_by(other, spec, Split.TRAIN) == [(40, 10, "float32")]
    assert made_by(other, spec, Split.TEST) == [(24, 6, "float32")]


def test_controls_are_ranked_before_there_is_a_reference(tmp_path):
    bench = make_bench(tmp_path)
    work.rank_shard(bench, [spec_of(bench, "random", Unit.SCALAR)], Split.TEST, 0, TEST)
    assert bench.rankings.has_part(spec_of(bench, "random", Unit.SCALAR), Split.TEST, 0, TEST)


# --- scoring


@dataclass(frozen=True)
class Ready:
    """Inputs that were made beforehand, float32 (n, c, h, w)."""

    images: torch.Tensor

    def __len__(self):
        return len(self.images)

    def batch(self, index):
        return self.images[index]


def run_of(bench, estimator, order=Order.MORF, retrain=Retrain.IMAGES, t=0.9, unit=Unit.SCALAR, seed=0):
    found = make_runs(bench)[0]
    cell = replace(found.cell, estimator=estimator, order=order, retrain=retrain, t=t, unit=unit)
    return replace(found, cell=cell, seed=seed)


def removed_maps(bench, run, split):
    """Removed features over the image, bool (n, c, h, w), LeRF as what MoRF leaves at 1 - t."""
    cell = run.cell
    lerf = cell.order is Order.LERF
    removed = removed_in_store(bench, cell.estimator, cell.unit, split, round(1 - cell.t, 9) if lerf else cell.t)
    removed = ~removed if lerf else removed
    return np.broadcast_to(removed.reshape(len(removed), -1, 8, 8), pixels_of(bench, split).shape)


def degraded(bench, run, split):
    """Degraded images in float64: the training mean wherever a feature is removed."""
    fill = pixels_of(bench, Split.TRAIN).mean(axis=(0, 2, 3)).astype(np.float32)[:, None, None]
    return np.where(removed_maps(bench, run, split), fill, pixels_of(bench, split))


def retrained_by_hand(bench, run, inputs, norm):
    model = bench.network("resnet-planted", run.seed)
    labels = torch.from_numpy(bench.data.train.labels)
    train, test = (Ready(torch.from_numpy(inputs[split]).float()) for split in Split)
    fit(model, train, labels, norm, find_recipe(run.recipe), run.seed)
    return predict(model, test, norm, batch=128).argmax(1).numpy() == bench.data.test.labels


@pytest.mark.parametrize(
    "estimator, order, t, unit, seed",
    [
        ("grad", Order.MORF, 0.9, Unit.SCALAR, 0),
        ("grad", Order.LERF, 0.9, Unit.SCALAR, 1),
        ("truth", Order.MORF, 0.5, Unit.SCALAR, 1),
        ("grad", Order.MORF, 0.5, Unit.PIXEL, 0),
    ],
)
def test_a_network_is_trained_and_tested_on_degraded_images(bench, estimator, order, t, unit, seed):
    run = run_of(bench, estimator, order, t=t, unit=unit, seed=seed)
    scored = work.score(bench, run)
    inputs = {split: degraded(bench, run, split) for split in Split}
    np.testing.assert_array_equal(scored.correct, retrained_by_hand(bench, run, inputs, bench.norm))
    assert scored.probability is None
    assert scored.rankings == bench.rankings.open(spec_of(bench, estimator, unit)).checksum
    assert scored.seconds > 0
    assert 0 < scored.loss < 2  # log 4 is a guess among the four classes


def test_a_checkpoint_belongs_to_the_rankings_that_are_trained_on(bench, monkeypatch):
    run = run_of(bench, "grad", seed=5)
    monkeypatch.setattr(train, "CHECKPOINT_EVERY", -1.0)  # after every step
    scored = work.score(bench, run)
    assert bench.checkpoint(run.key, scored.rankings).load()["step"] > 0
    assert bench.checkpoint(run.key, "0ther").load() is None


def test_a_run_can_be_repeated_bit_for_bit_and_its_seed_matters(bench):
    first, again, other = (work.score(bench, run_of(bench, "random", seed=seed)).correct for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_mask_only_sees_the_removed_maps_and_nothing_else(bench):
    run = run_of(bench, "grad", retrain=Retrain.MASKS)
    inputs = {split: removed_maps(bench, run, split).astype(np.float64) for split in Split}
    norm = bench.norm._replace(mean=(0.9,) * 3, std=(0.3,) * 3)  # of a bit that is 1 nine times in ten
    torch.testing.assert_close(torch.tensor(work._map_norm(bench, run)), torch.tensor(norm))
    expected = retrained_by_hand(bench, run, inputs, work._map_norm(bench, run))
    np.testing.assert_array_equal(work.score(bench, run).correct, expected)


def test_untouched_images_go_the_same_way(bench):
    run = run_of(bench, CLEAN, t=0.0)
    scored = work.score(bench, run)
    inputs = {split: pixels_of(bench, split) for split in Split}
    np.testing.assert_array_equal(scored.correct, retrained_by_hand(bench, run, inputs, bench.norm))
    assert (scored.rankings, scored.smoothness) == ("", None)


@pytest.mark.parametrize("estimator, order", [("grad", Order.MORF), ("random", Order.LERF)])
def test_without_retraining_the_reference_answers(bench, estimator, order):
    run = run_of(bench, estimator, order, Retrain.NONE)
    std = pixels_of(bench, Split.TRAIN).std(axis=(0, 2, 3))[:, None, None]
    mean = pixels_of(bench, Split.TRAIN).mean(axis=(0, 2, 3))[:, None, None]
    images = torch.from_numpy((degraded(bench, run, Split.TEST) - mean) / std)
    with torch.no_grad():
        logits = bench.trained_reference().double()(images)
    targets = bench.references.predictions(bench.reference, Split.TEST).targets
    chances = logits.exp() / logits.exp().sum(1, keepdim=True)
    expected = [float(chance[target]) for chance, target in zip(chances, targets, strict=True)]
    scored = work.score(bench, run)
    np.testing.assert_array_equal(scored.correct, logits.argmax(1).numpy() == bench.data.test.labels)
    np.testing.assert_allclose(scored.probability, expected, rtol=1e-4)  # float32 through a network
    assert scored.probability.dtype == np.float32
    assert scored.loss is None


def test_without_retraining_at_level_0_the_reference_is_itself(bench):
    scored = work.score(bench, run_of(bench, CLEAN, retrain=Retrain.NONE, t=0.0))
    said = bench.references.predictions(bench.reference, Split.TEST)
    np.testing.assert_array_equal(scored.correct, said.targets == bench.data.test.labels)
    np.testing.assert_array_equal(scored.probability, said.probability)


def test_a_redrawn_random_ranking_is_drawn_while_training(bench):
    run = run_of(bench, "random-redrawn", t=0.5)
    inputs = {split: work._inputs(bench, run, split) for split in Split}
    everything = torch.arange(TEST)
    one, two = (inputs[Split.TEST].batch(everything) for _ in range(2))
    share = (one != bench.pixels(Split.TEST)).double().mean()
    assert abs(share - 0.5) < 0.05  # 24 * 192 fair coins: 0.5 within 0.008
    assert (one != two).any()
    assert inputs[Split.TRAIN].generator.initial_seed() != inputs[Split.TEST].generator.initial_seed()
    first, again, other = (work.score(bench, replace(run, seed=seed)) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.correct, again.correct)
    assert (first.correct != other.correct).any()
    assert (first.rankings, first.smoothness) == ("", None)


def test_nothing_is_changed_in_the_decoded_images(bench):
    before = bench.pixels(Split.TEST).clone()
    work.score(bench, run_of(bench, "grad"))
    assert torch.equal(bench.pixels(Split.TEST), before)


def test_a_fill_that_there_is_not_is_refused(bench):
    run = run_of(bench, "random")
    with pytest.raises(CallerError, match="no fill 'zero'; write mean"):
        work.score(bench, replace(run, cell=replace(run.cell, fill="zero")))
