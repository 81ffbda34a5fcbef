"""Noise and other draws that belong to an image, independent of batch size, order and worker (`randomness`)."""

from collections import deque
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from roarbench.devices import send_to_device
from roarbench.estimators.randomness import RngStream, make_rng

_DRAWERS = 4  # threads that draw for a GPU, which one core would keep waiting; on a processor the network needs it


def make_noisy_copies(images: Tensor, ids: Tensor, j: int, seed: int, noise: float) -> Tensor:
    """Return the j-th noisy copy of each image, x + n_j, like the images (n, c, h, w), in channels_last order.

    n_j ~ Normal(0, (noise (max x - min x))^2) with max and min of that normalised image (docs/protocol.md, section 3).
    Copies with less or more noise have the same draws.
    """
    return compute_noise_scale(images, noise).mul(draw_normal_noise(images, ids, j, seed)).add_(images)


def draw_normal_noise(images: Tensor, ids: Tensor, j: int, seed: int) -> Tensor:
    """Return the standard normal draws of the j-th noisy copy of each image; they depend on its number alone.

    Their shape, type and device are those of the images, (n, c, h, w). They are drawn in channels_last order, in which
    networks run faster.
    """
    n, c, h, w = images.shape
    z = np.empty((n, h, w, c), np.float32)

    def draw(row: NDArray[np.float32], image: int) -> None:
        make_rng(seed, RngStream.NOISE, image, j).standard_normal(dtype=np.float32, out=row)

    with ThreadPoolExecutor(_DRAWERS) as drawers:  # NumPy draws without the interpreter's lock
        each = drawers.map if images.is_cuda else map
        deque(each(draw, z, ids.tolist()), maxlen=0)
    return send_to_device(torch.from_numpy(z), images.device).permute(0, 3, 1, 2).to(images.dtype)


def compute_noise_scale(images: Tensor, noise: float) -> Tensor:
    """Return the standard deviation of each image's noise, (n, 1, 1, 1): this share of the image's range."""
    return noise * (images.amax((1, 2, 3), keepdim=True) - images.amin((1, 2, 3), keepdim=True))


def draw_random_importance(images: Tensor, ids: Tensor, seed: int) -> Tensor:
    """Return the random control: uniform importance in [0, 1), float32 of the images' shape, always the same."""
    z = np.empty(images.shape, np.float32)
    for row, image in zip(z, ids.tolist(), strict=True):
        make_rng(seed, RngStream.RANDOM, image).random(dtype=np.float32, out=row)
    return torch.from_numpy(z).to(images)


def draw_path_points(like: Tensor, ids: Tensor, j: int, seed: int) -> Tensor:
    """Return where on the path to its j-th noisy copy each image is looked at, uniform in [0, 1), (n, 1, 1, 1)."""
    drawn = [make_rng(seed, RngStream.PATH, image, j).random() for image in ids.tolist()]
    return torch.tensor(drawn, dtype=torch.float64).to(like)[:, None, None, None]


def draw_mask_cells(side: int, j: int, seed: int) -> tuple[NDArray[np.float32], tuple[float, float]]:
    """Return the j-th random mask of RISE, the same for all images: 0 or 1 for each cell, and how far it is moved.

    float32 (side, side), each 1 with probability 1/2; and the shift down and across, uniform in [0, 1) of a cell.
    """
    generator = make_rng(seed, RngStream.MASK, 0, j)
    cells = (generator.random((side, side)) < 0.5).astype(np.float32)
    down, across = generator.random(2)
    return cells, (float(down), float(across))


def draw_coalitions(features: int, count: int, seed: int) -> NDArray[np.bool_]:
    """Return coalitions of features as the Shapley kernel weighs them, the same for all images (Lundberg & Lee 2017).

    Sizes s have probabilities in proportion to 1 / (s (d - s)), members are drawn without favour, and every second
    coalition is what the one before it left out. bool (count, features), True for members; none is empty, none is
    whole.
    """
    sizes = np.arange(1, features)
    chances = 1 / (sizes * (features - sizes))
    generator = make_rng(seed, RngStream.COALITION, features)
    found = np.zeros((count, features), np.bool_)
    for j in range(0, count, 2):
        size = generator.choice(sizes, p=chances / chances.sum())
        found[j, generator.permutation(features)[:size]] = True
        if j + 1 < count:
            found[j + 1] = ~found[j]
    return found


def draw_fill_noise(images: Tensor, ids: Tensor, normal: bool) -> Tensor:
    """Return what removed features are filled with by chance, float32 of the images' shape, always the same.

    Standard normal numbers, or whole numbers in 0 … 255, each equally likely.
    """
    z = np.empty(images.shape, np.float32)
    for row, image in zip(z, ids.tolist(), strict=True):
        generator = make_rng(0, RngStream.FILL, image, int(normal))
        row[...] = generator.standard_normal(row.shape) if normal else generator.integers(256, size=row.shape)
    return torch.from_numpy(z).to(images.device)


def draw_other_targets(targets: Tensor, ids: Tensor, classes: int, seed: int) -> Tensor:
    """Return for each image a class of int64 (n,), in [0, classes), that is not its target, each equally likely."""
    steps = [make_rng(seed, RngStream.TARGET, image).integers(1, classes) for image in ids.tolist()]
    return (targets + torch.tensor(steps, dtype=torch.int64, device=targets.device)) % classes
