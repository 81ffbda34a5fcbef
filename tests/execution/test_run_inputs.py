"""Network inputs with other fills than the mean."""

from dataclasses import replace
from unittest.mock import Mock

import pytest
import torch

from roarbench.common.enums import Split
from roarbench.common.errors import CallerError
from roarbench.compute.degraded_images import apply_non_mean_fill, unpack_removal_masks
from roarbench.compute.fills import FILLS
from roarbench.estimators.estimator import make_image_ids
from roarbench.execution import run_inputs as inputs
from roarbench.execution.rate_measurement import measure_worker_rates
from roarbench.execution.workload import count_work
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite import Block
from tests.helpers.tiny_suite import SUITE, make_runs, make_work, open_rankings_of_run, rank_all

FILLED = replace(SUITE, blocks=tuple(Block(ROAR, ("random",), (0.5,), 1, fill=fill) for fill in FILLS))


@pytest.fixture(scope="module")
def by_fill(tmp_path_factory):
    """A work, and its Random runs by fill."""
    work = make_work(tmp_path_factory.mktemp("fills"), FILLED)
    rank_all(work, "random")
    return work, {run.cell.fill: run for run in make_runs(work, FILLED) if run.cell.estimator == "random"}


@pytest.mark.parametrize("split", Split)
@pytest.mark.parametrize("fill", sorted({*FILLS} - {"mean"}))  # test_slow_pipeline has the mean
def test_make_run_inputs_applies_fill(fill, split, by_fill):
    work, run = by_fill[0], by_fill[1][fill]
    rankings, images = open_rankings_of_run(work, run), torch.from_numpy(work.images[split].pixels)
    before, everything = images.clone(), torch.arange(len(images))
    seen = inputs.make_run_inputs(work.images, run, rankings, split).batch(everything)
    masks = inputs.load_packed_masks(work.images, rankings, split, run.cell)
    gone = unpack_removal_masks(masks, rankings.layout.shape, run.cell.unit)
    mean, ids = torch.tensor(work.images.mean), make_image_ids(split, 0, len(images))
    expected = apply_non_mean_fill(images, gone, fill, mean, ids)
    torch.testing.assert_close(seen, expected.float(), rtol=0, atol=0)
    assert torch.equal(images, before)


def test_make_run_inputs_rejects_fills_that_exceed_memory(by_fill, monkeypatch):
    """No pixel is sent to the GPU before the error."""
    work, run = by_fill[0], by_fill[1]["blur"]
    monkeypatch.setattr(inputs, "MEMORY_SHARE", 0.0)
    monkeypatch.setattr(inputs, "get_device_pixels", Mock(side_effect=AssertionError("sent whole")))
    with pytest.raises(CallerError, match="fill 'blur' keeps all images in memory, .*; use fill 'mean'$"):
        inputs.make_run_inputs(work.images, run, open_rankings_of_run(work, run), Split.TEST)


@pytest.mark.parametrize(("on_gpu", "copies"), [(False, 1), (True, 2)])
def test_measure_worker_rates_rejects_fills_that_exceed_memory(on_gpu, copies, monkeypatch):
    """Filled images must fit in memory, and on a GPU, here a mock, the original images, too."""
    work = count_work(FILLED, list_planned_runs(FILLED))
    monkeypatch.setattr(inputs, "choose_device", lambda: torch.device("cuda" if on_gpu else "cpu"))
    memory = (copies * work.images - 1) / inputs.MEMORY_SHARE
    monkeypatch.setattr(inputs, "_count_device_bytes_per_worker", lambda: memory)
    with pytest.raises(CallerError, match="keeps all images in memory"):
        measure_worker_rates(FILLED, work)
    monkeypatch.setattr(inputs, "_count_device_bytes_per_worker", lambda: copies * work.images / inputs.MEMORY_SHARE)
    for fill in FILLS:
        inputs.refuse_too_large_filled_images(fill, work.images)
    monkeypatch.setattr(inputs, "_count_device_bytes_per_worker", lambda: 0.0)
    inputs.refuse_too_large_filled_images("mean", work.images)
