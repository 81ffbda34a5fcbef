"""Cells with other fills than the mean: what networks see, and where there is none."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from roarbench.errors import CallerError
from roarbench.execution import placed_inputs as inputs
from roarbench.execution.importance import image_ids
from roarbench.kernels.degrade import unpack
from roarbench.kernels.fill import filled
from roarbench.plan.suite import Block
from roarbench.protocols.roar import ROAR
from roarbench.terms import FILLS, Split
from tests.helpers.tiny_suite import SUITE, TEST, TRAIN, make_runs, make_work, rank_all, rankings_of

FILLED = replace(SUITE, blocks=tuple(Block(ROAR, ("random",), (0.5,), 1, fill=fill) for fill in FILLS))
COUNTS = {Split.TRAIN: TRAIN, Split.TEST: TEST}


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    found = make_work(tmp_path_factory.mktemp("fills"), FILLED)
    rank_all(found, "random")
    return found


@pytest.fixture(scope="module")
def runs(work):
    return {run.cell.fill: run for run in make_runs(work, FILLED) if run.cell.estimator == "random"}


@pytest.mark.parametrize("fill", FILLS)
def test_a_network_sees_images_with_the_fill(fill, work, runs):
    cell = runs[fill].cell
    rankings = rankings_of(work, runs[fill])
    for split, count in COUNTS.items():
        before = work.images[split].pixels.copy()
        seen = inputs.degraded(work.images, split, rankings, cell).batch(torch.arange(count))
        images = torch.from_numpy(work.images[split].pixels)
        removed = unpack(inputs.removed_on_device(rankings, split, cell), rankings.layout.shape, cell.unit)
        if fill == "mean":
            expected = torch.where(removed, torch.tensor(work.images.mean)[:, None, None], images.float())
        else:
            expected = filled(images, removed, fill, torch.tensor(work.images.mean), image_ids(split, 0, count)).float()
        torch.testing.assert_close(seen, expected, rtol=0, atol=0)
        np.testing.assert_array_equal(work.images[split].pixels, before)


def test_images_that_do_not_fit_have_the_mean_alone(work, runs, monkeypatch):
    monkeypatch.setattr(inputs, "SHARE", 0.0)
    with pytest.raises(CallerError, match="fill 'blur' keeps all images in memory"):
        inputs.degraded(work.images, Split.TEST, rankings_of(work, runs["blur"]), runs["blur"].cell)
