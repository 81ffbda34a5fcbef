"""Images read from files while the network computes: the same as those held in memory, in little memory, ahead."""

import threading

import pytest
import torch

from roarbench.execution import placed_inputs as inputs
from roarbench.kernels import streaming
from roarbench.kernels.inputs import Normalisation, Streamed
from roarbench.kernels.scoring import predict
from roarbench.kernels.streaming import RING, StreamedImages
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.recipe import Augmentation, Decay, Recipe
from roarbench.terms import Order, Precision, Unit
from tests.helpers.streamed import both, seeded


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("t", [0.1, 0.5])
def test_streamed_images_are_those_held_in_memory(t, order, unit):
    streamed, held = both(t, order, unit)
    assert len(streamed) == len(held)
    for index in torch.randperm(20, generator=seeded(3)).split(6):  # the last one is smaller
        torch.testing.assert_close(streamed.batch(index), held.batch(index), rtol=0, atol=0)


def test_batches_are_read_ahead_in_other_threads_and_once_each(monkeypatch):
    streamed, _ = both()
    read, here = [], threading.get_ident()
    real = streaming.StreamedImages._read
    monkeypatch.setattr(
        streaming.StreamedImages,
        "_read",
        lambda self, index, buffer: read.append((index.tolist(), threading.get_ident())) or real(self, index, buffer),
    )
    batches = torch.arange(20).split(2)
    streamed.expect(batches)
    streamed.batch(batches[0])
    assert all(index in [batch.tolist() for batch in batches[:RING]] for index, _ in read)
    for number in range(1, 10):
        streamed.expect(batches[number:])
        assert len(streamed._reading) <= RING
        streamed.batch(batches[number])
    assert sorted(index for index, _ in read) == [index.tolist() for index in batches]
    assert here not in {thread for _, thread in read}


def test_a_network_trained_on_streamed_images_is_the_same():
    recipe = Recipe("test", 1, 4, 8, 0.1, 1, Decay.LINEAR, Augmentation.SHIFT_FLIP, Precision.FLOAT32, micro_batch=3)
    norm, labels = Normalisation((120.0,) * 3, (60.0,) * 3), torch.arange(20) % 4
    models = []
    for images in both():
        model = build("resnet-planted", 4, 3, 8, seeded(0))
        loss = fit(model, images, labels, norm, recipe, seed=3)
        models.append((model.state_dict(), loss, predict(model, images, norm, batch=6)))
    assert [isinstance(images, Streamed) for images in both()] == [True, False]
    torch.testing.assert_close(models[0], models[1], rtol=0, atol=0)


@pytest.mark.slow
def test_what_is_larger_than_its_share_of_memory_is_streamed(tmp_path, monkeypatch):
    from roarbench.estimators.catalogue import find_estimator
    from roarbench.execution import shards
    from roarbench.terms import Split
    from tests.helpers.tiny_suite import TEST, TRAIN, make_runs, make_work, score

    work = make_work(tmp_path)
    spec = work.ranking_spec(find_estimator("random"), Unit.SCALAR)
    for split, count in ((Split.TRAIN, TRAIN), (Split.TEST, TEST)):
        shards.rank_shard(work.explained, [spec], split, 0, count)
    shards.seal(work.place, spec)
    runs = [run for run in make_runs(work) if (run.cell.estimator, run.cell.t, run.seed) == ("random", 0.9, 0)]
    runs = [run for run in runs if run.reference == ""]  # ROAR, KAR and masks alone
    expected = [score(work, run).bits for run in runs]
    bits = (TRAIN + TEST) * 24  # bytes: 192 features each
    for memory, streams in ((bits / inputs.SHARE, False), (bits / inputs.SHARE - 1, True)):
        monkeypatch.setattr(inputs, "_memory", lambda memory=memory: memory)
        assert inputs.fits(work.images, 24) is not streams
        assert inputs.fits(work.images, 0)  # pixels stay in their file
    monkeypatch.setattr(inputs, "_memory", lambda: -1.0)
    made = []
    monkeypatch.setattr(inputs, "StreamedImages", lambda *rest: made.append(rest) or StreamedImages(*rest))
    assert [score(work, run).bits for run in runs] == expected
    assert len(made) == 2 * (len(runs) - 1) == 4  # training and test images of ROAR and KAR; mask-only has none


def test_whatever_was_expected_what_is_asked_for_comes():
    batches = torch.randperm(20, generator=seeded(3)).split(3)
    for wanted in (batches, batches[::-1]):
        streamed, held = both()
        for number, index in enumerate(wanted):
            streamed.expect(batches[number:])
            torch.testing.assert_close(streamed.batch(index), held.batch(index), rtol=0, atol=0)
