"""Input images of networks: degraded, redrawn, with masks of other images, and streamed from files."""

import mmap
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from roarbench.common.enums import Order, ScoredNetwork, Split, Unit
from roarbench.compute import degraded_images
from roarbench.compute.degraded_images import (
    DegradedImages,
    ImagesWithExchangedMasks,
    RandomlyDegradedImages,
    RankingMask,
    RemovalMasks,
    StreamedChangingImages,
    StreamedImages,
    _find_memory_map,
    degrade,
    unpack_removal_masks,
)
from roarbench.compute.ranking import Layout
from roarbench.datasets.open_decoded import _map_file
from roarbench.execution import run_inputs as inputs
from roarbench.plan.cells_and_runs import Cell
from tests.helpers.slow_pipeline import removed_features
from tests.helpers.trainings import CPU, both, encoded, seeded

FILL = torch.tensor([120.25, 1 / 3, 255.0])


def pack_bits(removed):
    return torch.from_numpy(np.packbits(removed.flatten(1).numpy(), axis=1))


@pytest.mark.parametrize("shape", [(3, 16, 24), (3, 20, 13), (1, 5, 3)])
@pytest.mark.parametrize("unit", Unit)
def test_degraded_images_remove_whole_features_and_keep_pixels(shape, unit):
    """Some shapes have features that do not fill the last byte of a mask."""
    channels, height, width = shape[0] if unit is Unit.SCALAR else 1, *shape[1:]
    pixels = torch.randint(0, 256, (3, *shape), dtype=torch.uint8, generator=seeded(0))
    bits, degraded = torch.rand((3, channels, height, width), generator=seeded(3)) < 0.4, pixels.float()
    for i, c, y, x in np.ndindex(3, *shape):
        if bits[i, c % channels, y, x]:
            degraded[i, c, y, x] = FILL[c]
    assert torch.equal(unpack_removal_masks(pack_bits(bits), shape, unit), bits)
    index, fill, before = torch.tensor([2, 0, 0]), FILL[: shape[0]], pixels.clone()
    torch.testing.assert_close(degrade(pixels, bits, fill), degraded, rtol=0, atol=0)
    for made, expected in (
        (DegradedImages(pixels, pack_bits(bits), fill, unit), degraded),
        (DegradedImages(pixels, None, fill, unit), pixels.float()),
        (RemovalMasks(shape, pack_bits(bits), unit), bits.float().expand(3, *shape)),
    ):
        assert len(made) == 3
        for _ in range(2):  # a batch may be changed without changing the images
            batch = made.batch(index)
            torch.testing.assert_close(batch, expected[index], rtol=0, atol=0)
            batch.mul_(0).add_(7)
    assert torch.equal(pixels, before)


@pytest.mark.parametrize("unit", Unit)
def test_randomly_degraded_images_follow_generator_draws_in_order(unit):
    """Stored rows depend on the draws: one uniform number for each feature of each image, batch after batch."""
    pixels = torch.randint(0, 256, (3, 3, 8, 16), dtype=torch.uint8, generator=seeded(0))
    images, generator = RandomlyDegradedImages(pixels, 0.3, FILL, unit, seeded(3)), seeded(3)
    grid = (3 if unit is Unit.SCALAR else 1, 8, 16)
    for index in ([2, 0], [1, 0, 2]):
        gone = torch.rand(len(index), *grid, generator=generator) < 0.3
        expected = torch.where(gone, FILL[:, None, None], pixels[index].float())
        torch.testing.assert_close(images.batch(torch.tensor(index)), expected, rtol=0, atol=0)


N, SHAPE = 12, (3, 4, 5)
LEVELS = (0.3, 0.5)  # of 20 pixels so many are removed that no two images lose the same ones


def draw_maps(seed):
    return np.random.default_rng(seed).normal(size=(N, *SHAPE)).astype(np.float32)


def make_exchanged_images(unit, seed, order=Order.MORF, kinds=(1,)):
    """Images with the masks of both levels of each kind of map."""
    pixels = torch.from_numpy(np.random.default_rng(9).integers(0, 256, (N, *SHAPE), dtype=np.uint8))
    layout = Layout(SHAPE, unit, LEVELS)
    cuts = tuple(RankingMask(encoded(draw_maps(kind), layout), layout, t, order) for kind in kinds for t in LEVELS)
    return ImagesWithExchangedMasks(pixels, cuts, FILL, unit, seeded(seed))


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("order", Order)
def test_exchanged_masks_come_from_another_image(unit, order):
    """The test finds the mask of each image by comparison with the masks of all images."""
    images = make_exchanged_images(unit, 3, order, kinds=(1, 2))
    lent = list(product((1, 2), LEVELS, range(N)))
    gone = [removed_features(draw_maps(kind), 0, t, str(order), str(unit)) for kind, t in product((1, 2), LEVELS)]
    removed = torch.from_numpy(np.concatenate(gone))
    seen, batches = set(), [images.batch(torch.arange(N)) for _ in range(40)]
    for image in range(N):
        possible = degrade(images.pixels[image].expand(len(lent), *SHAPE), removed, FILL)
        for batch in batches:
            kind, t, other = lent[int((possible == batch[image]).flatten(1).all(1).nonzero())]
            assert other != image
            seen.add((kind, t, other))
    assert seen == set(lent)


@pytest.mark.parametrize("lenders", (0, 5, 40))
def test_exchanged_masks_draw_lenders_and_masks_uniformly(lenders):
    """Lenders are the eleven other images, or all images of another set."""
    images = make_exchanged_images(Unit.SCALAR, 0)
    if lenders:
        cuts = tuple(cut._replace(planes=np.repeat(cut.planes, 4, axis=0)[:lenders]) for cut in images.ranking_masks)
        images = replace(images, ranking_masks=cuts, from_other_set=True)
        assert images.batch(torch.arange(N)).shape == (N, *SHAPE)
    first = torch.zeros(1000, dtype=torch.int64)
    others, cuts = zip(*(images._draw_lenders_and_masks(first) for _ in range(20)), strict=True)
    counts = np.bincount(np.concatenate(others), minlength=lenders or N)
    if not lenders:
        assert counts[0] == 0
        counts = counts[1:]
    assert len(counts) == (lenders or N - 1)
    expected = 20_000 / len(counts)
    assert np.abs(counts - expected).max() < 5 * np.sqrt(expected)
    assert abs(np.mean(np.concatenate(cuts)) - 0.5) < 0.02


@pytest.mark.parametrize("unit", Unit)
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("t", [0.1, 0.5])
def test_streamed_images_equal_images_in_memory(t, order, unit, tmp_path):
    batches = torch.randperm(20, generator=seeded(3)).split(3)  # the last one is smaller
    streamed, held = both(t, order, unit)
    for array, path in ((streamed._pixels, tmp_path / "pixels"), (streamed._removed, tmp_path / "removed")):
        array.tofile(path)
    pixels = _map_file(tmp_path / "pixels", np.uint8, streamed._pixels.shape)
    removed = np.memmap(tmp_path / "removed", np.uint8, "r", shape=streamed._removed.shape)
    assert _find_memory_map(pixels) and _find_memory_map(removed) and not _find_memory_map(streamed._pixels)
    for images in (streamed, StreamedImages(pixels, removed, held.fill, unit, CPU)):
        assert len(images) == len(held)
        for index, read in zip(batches, images.read(batches), strict=True):
            torch.testing.assert_close(read, held.batch(index), rtol=0, atol=0)
            torch.testing.assert_close(images.batch(index), held.batch(index), rtol=0, atol=0)


@pytest.mark.parametrize("side", [8, 64])
def test_streamed_images_request_all_pages_before_first_copy(side, tmp_path, monkeypatch):
    """Images take a fraction of a page, or three pages."""
    monkeypatch.setattr(degraded_images, "READERS", 1)
    pixels, asked = np.random.default_rng(0).integers(256, size=(50, 3, side, side), dtype=np.uint8), []
    pixels.tofile(tmp_path / "pixels")
    mapped = _map_file(tmp_path / "pixels", np.uint8, pixels.shape)
    monkeypatch.setattr(degraded_images, "_find_memory_map", lambda array: SimpleNamespace(madvise=ask))
    monkeypatch.setattr(degraded_images.np, "take", lambda *arguments, **options: asked.append("copies"))

    def ask(advice, start, length):
        assert advice == mmap.MADV_WILLNEED and start % mmap.PAGESIZE == 0
        asked.append(range(start, start + length))

    rows, length = [7, 49, 0], 3 * side**2
    StreamedImages(mapped, None, FILL, Unit.SCALAR, CPU).batch(torch.tensor(rows))
    assert asked.pop() == "copies"
    for row, pages in zip(rows, asked, strict=True):
        assert pages[-1] == (row + 1) * length - 1 and row * length - mmap.PAGESIZE < pages[0] <= row * length


@pytest.mark.parametrize("wrong", [-1, 20])
def test_streamed_images_raise_index_error_for_index_out_of_range(wrong):
    with pytest.raises(IndexError, match=f"there is no image {wrong}, only 0 to 19"):
        both()[0].batch(torch.tensor([3, wrong]))


@pytest.mark.parametrize("fill", ["mean", "noise"])
def test_streamed_changing_images_read_ahead_without_drawing_ahead(fill, tmp_path):
    """Masks drawn ahead would be missing from a checkpoint, so only pixels are read ahead."""
    batches = torch.randperm(N, generator=seeded(5)).split(1)
    for make in (
        lambda: RandomlyDegradedImages(make_exchanged_images(Unit.PIXEL, 4).pixels, 0.5, FILL, Unit.PIXEL, seeded(4)),
        lambda: replace(make_exchanged_images(Unit.PIXEL, 4), fill=fill),
    ):
        held, drawn = make(), make()
        drawn.pixels.numpy().tofile(tmp_path / "pixels")
        mapped = _map_file(tmp_path / "pixels", np.uint8, tuple(drawn.pixels.shape))
        streamed = StreamedChangingImages(drawn, mapped, CPU)
        assert len(streamed) == N
        for index, read in zip(batches, streamed.read(batches), strict=True):
            torch.testing.assert_close(read, held.batch(index), rtol=0, atol=0)
            assert torch.equal(streamed.generator.get_state(), held.generator.get_state())
        torch.testing.assert_close(streamed.batch(batches[0]), held.batch(batches[0]), rtol=0, atol=0)


class Data(dict):
    """A data set of the same images as training and test split."""

    def __init__(self, pixels):
        super().__init__(dict.fromkeys(Split, SimpleNamespace(pixels=pixels)))

    __hash__ = object.__hash__


def test_images_larger_than_gpu_memory_share_stay_in_file(monkeypatch):
    """Images with swapped or redrawn masks are streamed from the file; the masks of masks-only runs stay on the CPU."""
    pixels = np.random.default_rng(0).integers(256, size=(4, 3, 8, 8), dtype=np.uint8)
    images = Data(pixels)
    monkeypatch.setattr(inputs, "get_device_mean", lambda images: FILL)
    monkeypatch.setattr(inputs, "choose_device", lambda: torch.device("cuda"))
    monkeypatch.setattr(inputs, "get_device_pixels", lambda images, split: "sent to the GPU")
    monkeypatch.setattr(inputs, "StreamedChangingImages", lambda *given: given)
    layout = Layout((3, 8, 8), Unit.SCALAR, (0.5,))
    planes = encoded(np.random.default_rng(1).random((4, 3, 8, 8)), layout)
    rankings = SimpleNamespace(layout=layout, splits=dict.fromkeys(Split, planes))
    cell = Cell("tiny", "mlp", "random-redrawn", Order.MORF, ScoredNetwork.IMAGES, "mean", Unit.SCALAR, 0.5)
    enough = 2 * pixels.nbytes / inputs.MEMORY_SHARE
    monkeypatch.setattr(inputs, "_count_device_bytes_per_worker", lambda: enough)
    assert inputs.get_device_or_mapped_pixels(images, Split.TRAIN) == "sent to the GPU"
    monkeypatch.setattr(inputs, "_count_device_bytes_per_worker", lambda: enough - 1)
    masks = inputs.load_packed_masks(images, rankings, Split.TRAIN, cell)
    assert (masks.device.type, masks.shape) == ("cpu", (4, 24))
    redrawn = inputs.make_run_inputs(images, SimpleNamespace(cell=cell, seed=1), None, Split.TEST)
    swapped = inputs.make_images_with_exchanged_masks(images, [], Unit.SCALAR, 1, "mean")
    for drawn, read, device in (redrawn, swapped):
        assert drawn.pixels.data_ptr() == pixels.ctypes.data and read is pixels and device.type == "cuda"
