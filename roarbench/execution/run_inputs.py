"""Make the images or masks on which a run's network is trained or tested.

Images and masks are placed on the training device if they fit there, and streamed from disk otherwise. The twin
`other-image` uses the maps of other images. A matched mask follows another image's map, too, but it removes as many
features of each stratum as the image's own mask; a stratum holds features whose removal changes the image by about the
same amount.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from tempfile import TemporaryFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.common.device_settings import choose_device, count_available_gpu_bytes
from roarbench.common.enums import MATCHED_IMAGE, OTHER_IMAGE, ScoredNetwork, Split, Unit
from roarbench.common.errors import CallerError
from roarbench.common.files import convert_write_errors
from roarbench.compute.degraded_images import (
    MEMORY_SHARE,
    DegradedImages,
    ImagesWithExchangedMasks,
    Inputs,
    RandomlyDegradedImages,
    RankingMask,
    RemovalMasks,
    StreamedChangingImages,
    StreamedImages,
    apply_non_mean_fill,
    compute_removal_magnitudes,
    replace_features,
    unpack_removal_masks,
)
from roarbench.compute.masks import (
    FEW_FEATURES,
    Unsigned,
    assign_strata,
    compute_mean_differing_mask_share,
    draw_rotated_tie_orders,
    make_matched_masks,
)
from roarbench.compute.ranking import find_removed_bits, read_bin_codes
from roarbench.datasets.open_decoded import ImageData
from roarbench.estimators.estimator import SEED, make_image_ids
from roarbench.estimators.random_draws import pair_images
from roarbench.plan.cells_and_runs import CLEAN, Cell, Run
from roarbench.store.rankings import Rankings
from roarbench.store.run_result import count_cores

_BATCH = 256  # images per batch of filling, of matching, and of writing masks
_MAX_CACHED_STRATA = 2**30  # maximum features of a test split whose strata, one byte each, stay in memory
_REDRAWN_SEEDS = {Split.TRAIN: 2000, Split.TEST: 3000}  # for `random-redrawn`; distinct from seeds of training runs
EXCHANGE_SEED = 4_000_000  # base seed of mask exchanges; distinct from the seeds of training runs


def make_run_inputs(images: ImageData, run: Run, rankings: Rankings | None, split: Split) -> Inputs:
    """Return the inputs of a run for a split, with features removed as its cell defines."""
    cell = run.cell
    if cell.estimator == CLEAN:
        return make_untouched_inputs(images, split)
    if cell.estimator_of_stored_ranking is None:  # `random-redrawn` draws other masks in each epoch
        if cell.fill != "mean":
            changing = f"{cell.estimator} changes its masks in every epoch"
            raise CallerError(f"fill '{cell.fill}' is computed once per image, but {changing}; use fill 'mean'")
        generator = torch.Generator().manual_seed(_REDRAWN_SEEDS[split] + run.seed)
        pixels, mean = get_device_or_mapped_pixels(images, split), get_device_mean(images)
        redrawn = RandomlyDegradedImages(pixels, cell.t, mean, cell.unit, generator)
        return _stream_unless_on_device(redrawn, images, split)
    assert rankings is not None, "rankings of other estimators are stored"
    layout, planes = rankings.layout, rankings.splits[split]
    if cell.retrain is ScoredNetwork.MASKS:
        return RemovalMasks(layout.shape, load_packed_masks(images, rankings, split, cell), cell.unit)
    if cell.fill != "mean" or fits_in_memory(images, layout.bytes_per_plane):
        return remove_features(images, split, find_removed_bits(planes, cell.t, cell.order, layout), cell)
    # every epoch reads masks from an unnamed file, which the operating system deletes when the memory map is closed.
    # For ImageNet, the file has 24 GB; the bit-planes of all five levels have 72 GB
    with convert_write_errors(rankings.folder), TemporaryFile(dir=rankings.folder) as file:
        for rows in _divide_into_batches(len(planes)):
            find_removed_bits(planes[rows], cell.t, cell.order, layout).tofile(file)
        masks = np.memmap(file, np.uint8, "r", shape=(len(planes), layout.bytes_per_plane))
    return StreamedImages(images[split].pixels, masks, torch.tensor(images.mean), cell.unit, choose_device())


def make_test_inputs(images: ImageData, run: Run, rankings: Rankings | None) -> tuple[Inputs, NDArray[np.uint8] | None]:
    """Return the test inputs of a run, and the packed masks of removed features, uint8 (n, width), if it has any."""
    if rankings is None:
        return make_run_inputs(images, run, None, Split.TEST), None
    masks = find_removed_bits(rankings.splits[Split.TEST], run.cell.t, run.cell.order, rankings.layout)
    if _find_twin_kind(run) != MATCHED_IMAGE:
        return make_run_inputs(images, run, rankings, Split.TEST), masks
    paired_images = _draw_other_image_indices(images, Split.TEST, run.seed)
    masks = make_packed_other_image_masks(images, run, rankings, masks, paired_images)
    return remove_features(images, Split.TEST, masks, run.cell), masks


def exchange_rankings_if_twin(images: ImageData, run: Run, rankings: Rankings) -> Rankings:
    """Return the rankings by which a run removes features; for the twin `other-image`, images exchange rankings."""
    if _find_twin_kind(run) != OTHER_IMAGE:
        return rankings
    # tests of a common network are cheap because it is already trained, so every seed pairs the images differently
    is_common = run.cell.retrain is ScoredNetwork.COMMON
    seed, splits = (run.seed, (Split.TEST,)) if is_common else (SEED, tuple(rankings.splits))
    exchanged = {split: rankings.splits[split][_draw_other_image_indices(images, split, seed)] for split in splits}
    return replace(rankings, splits=exchanged)


def _find_twin_kind(run: Run) -> str:
    """Return the twin's kind if a run's estimator is a twin; empty for other estimators and for untouched images."""
    estimator = run.cell.estimator_record
    return estimator.twin if estimator else ""


def _draw_other_image_indices(images: ImageData, split: Split, seed: int) -> NDArray[np.int64]:
    """Draw, for each image of a split, the number of the other image whose map degrades it, int64 (n,)."""
    return pair_images(len(images[split].labels), int(make_image_ids(split, 0, 1)), seed)


def make_untouched_inputs(images: ImageData, split: Split) -> Inputs:
    """Return a split's images without removal."""
    if not fits_in_memory(images, 0):
        return StreamedImages(images[split].pixels, None, torch.tensor(images.mean), Unit.SCALAR, choose_device())
    return DegradedImages(get_device_pixels(images, split), None, get_device_mean(images), Unit.SCALAR)


def _divide_into_batches(n: int) -> Iterator[slice]:
    return (slice(start, min(start + _BATCH, n)) for start in range(0, n, _BATCH))


def remove_features(images: ImageData, split: Split, masks: NDArray[np.uint8], cell: Cell) -> DegradedImages:
    """Return a split's images; a cell's fill replaces the features that packed masks, uint8 (n, width), remove."""
    refuse_too_large_filled_images(cell.fill, _count_bytes(images))
    pixels, mean = get_device_pixels(images, split), get_device_mean(images)
    bits = torch.from_numpy(masks).to(choose_device())
    if cell.fill == "mean":
        return DegradedImages(pixels, bits, mean, cell.unit)
    filled = torch.empty_like(pixels)
    for rows in _divide_into_batches(len(pixels)):
        removed = unpack_removal_masks(bits[rows], images.record.shape, cell.unit)
        ids = make_image_ids(split, rows.start, rows.stop)
        filled[rows] = apply_non_mean_fill(pixels[rows], removed, cell.fill, mean, ids)
    return DegradedImages(filled, None, mean, cell.unit)


def refuse_too_large_filled_images(fill: str, image_bytes: int) -> None:
    """Raise CallerError if a fill keeps all filled images in memory, but `image_bytes` of images do not fit."""
    if fill != "mean" and not _is_enough_memory(image_bytes, image_bytes):
        raise CallerError(f"fill '{fill}' keeps all images in memory, but they do not fit; use fill 'mean'")


def load_packed_masks(images: ImageData, rankings: Rankings, split: Split, cell: Cell) -> Tensor:
    """Return a split's packed masks, uint8 (n, width), on the GPU if images and masks fit there, else on the CPU."""
    bits = torch.from_numpy(find_removed_bits(rankings.splits[split], cell.t, cell.order, rankings.layout))
    return bits.to(choose_device()) if fits_in_memory(images, rankings.layout.bytes_per_plane) else bits


@lru_cache(maxsize=2)
def get_device_pixels(images: ImageData, split: Split) -> Tensor:
    """Return all pixels of a split, uint8 (n, c, h, w), memory-mapped on a CPU or copied once to a GPU."""
    return torch.from_numpy(images[split].pixels).to(choose_device())


def get_device_or_mapped_pixels(images: ImageData, split: Split) -> Tensor:
    """Return all pixels of a split, uint8 (n, c, h, w), on the GPU if both splits fit there, else memory-mapped."""
    return get_device_pixels(images, split) if fits_in_memory(images, 0) else torch.from_numpy(images[split].pixels)


def make_images_with_exchanged_masks(
    images: ImageData, masks: Iterable[RankingMask], unit: Unit, seed: int, fill: str, mask_split: Split = Split.TRAIN
) -> Inputs:
    """Return training images degraded by masks of other images of `mask_split`; the seed selects these images."""
    generator, is_other_split = torch.Generator().manual_seed(EXCHANGE_SEED + seed), mask_split is not Split.TRAIN
    pixels, mean = get_device_or_mapped_pixels(images, Split.TRAIN), get_device_mean(images)
    exchanged = ImagesWithExchangedMasks(pixels, tuple(masks), mean, unit, generator, is_other_split, fill)
    return _stream_unless_on_device(exchanged, images, Split.TRAIN)


def _stream_unless_on_device(
    inputs: RandomlyDegradedImages | ImagesWithExchangedMasks, images: ImageData, split: Split
) -> Inputs:
    """Return a split's images with changing masks; images that are not on the device are prefetched from their file."""
    if inputs.pixels.device.type == choose_device().type:
        return inputs
    return StreamedChangingImages(inputs, images[split].pixels, choose_device())


def get_device_mean(images: ImageData) -> Tensor:
    """Return the mean of the training images, float32 (c,), in [0, 255], on the device."""
    return torch.tensor(images.mean, device=choose_device())


def fits_in_memory(images: ImageData, mask_bytes_per_image: int) -> bool:
    """Return whether the images of both splits fit in memory together with a mask for each image."""
    count = sum(len(images[split].pixels) for split in Split)
    return _is_enough_memory(_count_bytes(images), mask_bytes_per_image * count)


def _count_bytes(images: ImageData) -> int:
    return sum(images[split].pixels.nbytes for split in Split)


def _is_enough_memory(pixel_bytes: int, other_bytes: int) -> bool:
    # a CPU's pixels are memory-mapped, so the operating system pages them
    needed = other_bytes + (0 if choose_device().type == "cpu" else pixel_bytes)
    return needed <= MEMORY_SHARE * _count_device_bytes_per_worker()


def _count_device_bytes_per_worker() -> float:
    if choose_device().type == "cuda":
        return count_available_gpu_bytes()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / count_cores()


def make_packed_other_image_masks(
    images: ImageData, run: Run, rankings: Rankings, own_masks: NDArray[np.uint8], other_images: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the packed matched masks of the test images, uint8 (n, width).

    `own_masks`, uint8 (n, width), are the packed masks by the images' own maps. `other_images`, int64 (n,), has for
    each image the number of the image whose map its matched mask follows.
    """
    d, packed, cell = rankings.layout.features, np.empty_like(own_masks), run.cell
    planes = rankings.splits[Split.TEST]
    for rows in _divide_into_batches(len(own_masks)):
        own = np.unpackbits(own_masks[rows], axis=1, count=d).view(bool)
        ties = draw_rotated_tie_orders(run.seed, np.arange(rows.start, rows.stop), d)
        codes = read_bin_codes(planes[other_images[rows]], rankings.layout)
        if images.test.pixels.size <= _MAX_CACHED_STRATA:
            strata = _compute_pixel_change_strata(images, cell.unit, cell.fill)[rows]
        else:
            strata = _compute_pixel_change_strata_of_rows(images, cell.unit, cell.fill, rows)
        masks = make_matched_masks(own, codes, strata, cell.order, ties)
        packed[rows] = np.packbits(masks, axis=1)
    return packed


def compute_share_of_differing_matched_masks(
    images: ImageData, unit: Unit, fill: str, levels: Sequence[float]
) -> float:
    """Compute the mean share, over levels, of test images whose matched mask differs from the own mask."""
    channels, height, width = images.test.pixels.shape[1:]
    if prod(unit.grid((channels, height, width))) > FEW_FEATURES:
        return 1.0
    return compute_mean_differing_mask_share(_compute_pixel_change_strata(images, unit, fill), levels)


@lru_cache(maxsize=1)
def _compute_pixel_change_strata(images: ImageData, unit: Unit, fill: str) -> Unsigned:
    batches = _divide_into_batches(len(images.test.pixels))
    return np.concatenate([_compute_pixel_change_strata_of_rows(images, unit, fill, rows) for rows in batches])


def _compute_pixel_change_strata_of_rows(images: ImageData, unit: Unit, fill: str, rows: slice) -> Unsigned:
    pixels = torch.from_numpy(images.test.pixels[rows])
    ids = make_image_ids(Split.TEST, rows.start, rows.stop)
    changed = replace_features(pixels, torch.ones_like(pixels, dtype=torch.bool), fill, torch.tensor(images.mean), ids)
    return assign_strata(compute_removal_magnitudes(pixels, changed, unit))
