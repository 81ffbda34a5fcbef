"""Place a run's images and masks on the training device if they fit there, and stream them from disk otherwise.

This module also makes the matched masks of test images. A matched mask follows another image's map and removes as many
features of each stratum as the image's own mask; a stratum holds features whose removal changes the image by about the
same amount.
"""

import os
from functools import lru_cache
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.common.device_settings import choose_device, count_available_gpu_bytes
from roarbench.common.enums import Split, Unit
from roarbench.common.errors import CallerError
from roarbench.common.files import convert_write_errors
from roarbench.compute.bit_planes import find_removed_bits, read_bin_codes
from roarbench.compute.degrade import (
    DegradedImages,
    RandomlyDegradedImages,
    apply_non_mean_fill,
    compute_removal_magnitudes,
    replace_features,
    unpack_removal_masks,
)
from roarbench.compute.images_with_exchanged_masks import ImagesWithExchangedMasks
from roarbench.compute.matched_other_image_masks import assign_strata, draw_matching_ties, make_other_image_masks
from roarbench.compute.normalised_inputs import MEMORY_SHARE, Inputs
from roarbench.compute.streamed_degraded_images import StreamedChangingImages, StreamedImages
from roarbench.datasets.open_decoded import ImageData
from roarbench.execution.importance import make_image_ids
from roarbench.plan.cells_and_runs import Cell, Run
from roarbench.store.rankings import Rankings
from roarbench.store.software_and_hardware import count_cores

_AT_ONCE = 256  # images per batch of filling or matching
_KEPT = 2**30  # maximum features of a test split, with one byte each, whose strata stay in memory for later runs


def make_untouched_inputs(images: ImageData, split: Split) -> Inputs:
    """Return a split's images without removal."""
    if not fits_in_memory(images, 0):
        return _stream_images(images, split, None, Unit.SCALAR)
    return DegradedImages(get_device_pixels(images, split), None, get_device_mean(images), Unit.SCALAR)


def make_degraded_inputs(images: ImageData, split: Split, rankings: Rankings, cell: Cell) -> Inputs:
    """Return a split's images in which the features that a cell removes are replaced by the cell's fill values."""
    layout, planes = rankings.layout, rankings.splits[split]
    if cell.fill == "mean" and not fits_in_memory(images, layout.bytes_per_plane):
        return _stream_images(images, split, _write_masks_to_temporary_file(rankings, split, cell), cell.unit)
    return remove_features(images, split, find_removed_bits(planes, cell.t, cell.order, layout), cell)


def _stream_images(images: ImageData, split: Split, removed: NDArray[np.uint8] | None, unit: Unit) -> StreamedImages:
    return StreamedImages(images[split].pixels, removed, torch.tensor(images.mean), unit, choose_device())


def _write_masks_to_temporary_file(rankings: Rankings, split: Split, cell: Cell) -> NDArray[np.uint8]:
    """Extract the packed masks of a split, uint8 (n, width), to an unnamed file; return the file's memory map.

    Every epoch reads this file. For ImageNet it has 24 GB, while the bit-planes of all five levels have 72 GB. The
    operating system deletes the file when the memory map is closed.
    """
    planes, layout = rankings.splits[split], rankings.layout
    with convert_write_errors(rankings.folder), TemporaryFile(dir=rankings.folder) as file:
        for start in range(0, len(planes), _AT_ONCE):
            find_removed_bits(planes[start : start + _AT_ONCE], cell.t, cell.order, layout).tofile(file)
        return np.memmap(file, np.uint8, "r", shape=(len(planes), layout.bytes_per_plane))


def remove_features(images: ImageData, split: Split, masks: NDArray[np.uint8], cell: Cell) -> DegradedImages:
    """Return the images of a split degraded by packed masks, uint8 (n, width), with a cell's fill."""
    refuse_too_large_filled_images(cell.fill, _count_bytes(images))
    pixels, mean = get_device_pixels(images, split), get_device_mean(images)
    bits = torch.from_numpy(masks).to(choose_device())
    if cell.fill == "mean":
        return DegradedImages(pixels, bits, mean, cell.unit)
    filled = torch.empty_like(pixels)
    for start in range(0, len(pixels), _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, len(pixels)))
        removed = unpack_removal_masks(bits[rows], images.record.shape, cell.unit)
        ids = make_image_ids(split, rows.start, rows.stop)
        filled[rows] = apply_non_mean_fill(pixels[rows], removed, cell.fill, mean, ids)
    return DegradedImages(filled, None, mean, cell.unit)


def refuse_too_large_filled_images(fill: str, image_bytes: int) -> None:
    """Raise CallerError if a fill keeps the filled images of both splits in memory, but `image_bytes` do not fit."""
    if fill != "mean" and not _is_enough_memory(image_bytes, image_bytes):
        raise CallerError(f"fill '{fill}' keeps all images in memory, but they do not fit; use fill 'mean'")


def load_packed_masks(images: ImageData, rankings: Rankings, split: Split, cell: Cell) -> Tensor:
    """Return the packed masks of a split, uint8 (n, width), on the GPU if they fit there, otherwise on the CPU."""
    bits = torch.from_numpy(find_removed_bits(rankings.splits[split], cell.t, cell.order, rankings.layout))
    return bits.to(choose_device()) if fits_in_memory(images, rankings.layout.bytes_per_plane) else bits


@lru_cache(maxsize=2)
def get_device_pixels(images: ImageData, split: Split) -> Tensor:
    """Return all pixels of a split, uint8 (n, c, h, w), memory-mapped on a CPU or copied once to a GPU."""
    return torch.from_numpy(images[split].pixels).to(choose_device())


def get_device_or_mapped_pixels(images: ImageData, split: Split) -> Tensor:
    """Return all pixels of a split, uint8 (n, c, h, w), on the GPU if they fit there, otherwise memory-mapped."""
    return get_device_pixels(images, split) if fits_in_memory(images, 0) else torch.from_numpy(images[split].pixels)


def stream_unless_on_device(
    inputs: RandomlyDegradedImages | ImagesWithExchangedMasks, images: ImageData, split: Split
) -> Inputs:
    """Return a split's images with changing masks; if they are not on the device, prefetch them from their file."""
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
    """Return whether pixels and other arrays fit in memory."""
    is_mapped = choose_device().type == "cpu"  # the operating system pages memory-mapped pixels
    return other_bytes + (0 if is_mapped else pixel_bytes) <= MEMORY_SHARE * _count_device_bytes_per_worker()


def _count_device_bytes_per_worker() -> float:
    if choose_device().type == "cuda":
        return count_available_gpu_bytes()
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / count_cores()


def make_packed_other_image_masks(
    images: ImageData, run: Run, rankings: Rankings, own_masks: NDArray[np.uint8], other_images: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """Return the packed matched masks of the test images, uint8 (n, width), which follow other images' maps.

    `own_masks`, uint8 (n, width), are the packed masks of the images' own maps; a matched mask removes as many features
    of each stratum as the image's own mask. `other_images`, int64 (n,), has for each image the number of the image
    whose map the matched mask follows.
    """
    d, packed = rankings.layout.features, np.empty_like(own_masks)
    planes = rankings.splits[Split.TEST]
    for start in range(0, len(own_masks), _AT_ONCE):
        rows = slice(start, min(start + _AT_ONCE, len(own_masks)))
        own = np.unpackbits(own_masks[rows], axis=1, count=d).view(bool)
        ties = draw_matching_ties(run.seed, np.arange(rows.start, rows.stop), d)
        codes = read_bin_codes(planes[other_images[rows]], rankings.layout)
        cell = run.cell
        if images.test.pixels.size <= _KEPT:  # the strata of a small test split stay in memory for other runs
            strata = _compute_pixel_change_strata(images, cell.unit, cell.fill)[rows]
        else:
            strata = _compute_pixel_change_strata_of_rows(images, cell.unit, cell.fill, rows)
        masks = make_other_image_masks(own, codes, strata, run.cell.order, ties)
        packed[rows] = np.packbits(masks, axis=1)
    return packed


@lru_cache(maxsize=1)
def _compute_pixel_change_strata(images: ImageData, unit: Unit, fill: str) -> NDArray[np.unsignedinteger[Any]]:
    batches = (slice(start, start + _AT_ONCE) for start in range(0, len(images.test.pixels), _AT_ONCE))
    return np.concatenate([_compute_pixel_change_strata_of_rows(images, unit, fill, rows) for rows in batches])


def _compute_pixel_change_strata_of_rows(
    images: ImageData, unit: Unit, fill: str, rows: slice
) -> NDArray[np.unsignedinteger[Any]]:
    pixels = torch.from_numpy(images.test.pixels[rows])
    ids = make_image_ids(Split.TEST, rows.start, rows.start + len(pixels))
    changed = replace_features(pixels, torch.ones_like(pixels, dtype=torch.bool), fill, torch.tensor(images.mean), ids)
    return assign_strata(compute_removal_magnitudes(pixels, changed, unit))
