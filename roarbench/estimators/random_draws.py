"""Draw the random numbers of each image, such as its noise, and pair images; torch is imported at first use.

Philox (Salmon et al. 2011) computes random bits from a key and a counter. The key is (seed, purpose), the upper half of
the 256-bit counter is (image, j), and the lower half counts the numbers of one draw, so no two draws share random bits.
An image's random numbers therefore do not depend on batch size, order of images or worker process.
"""

from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from enum import IntEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from roarbench.estimators.lazy_torch import Tensor, device_settings, torch

_THREADS = 4  # threads that draw for a GPU, because one core is too slow; on a CPU the network needs the other cores


class RngStream(IntEnum):
    """The purpose of random numbers."""

    NOISE = 0
    RANDOM = 1
    TARGET = 2
    OTHER_IMAGE = 3
    PATH = 5
    MASK = 6
    COALITION = 7
    FILL = 8
    CORNER = 9
    SEARCH = 10


def make_rng(seed: int, purpose: RngStream, image: int, j: int = 0) -> np.random.Generator:
    """Make the generator for one purpose and one image; `j` numbers the draws of an image, such as noisy copies."""
    return np.random.Generator(np.random.Philox(key=[seed, purpose], counter=[0, 0, j, image]))


def make_noisy_copies(images: Tensor, ids: Tensor, j: int, seed: int, noise: float) -> Tensor:
    """Return the j-th noisy copy of each image x, x + n_j, with the shape, (n, c, h, w), and dtype of the images.

    n_j ~ Normal(0, (noise (max x - min x))^2) with the maximum and minimum of the normalised image (docs/protocol.md,
    section 3). The factor `noise` scales random numbers that are the same for every `noise`.
    """
    return compute_noise_scale(images, noise).mul(draw_normal_noise(images, ids, j, seed)).add_(images)


def draw_normal_noise(images: Tensor, ids: Tensor, j: int, seed: int) -> Tensor:
    """Draw the standard normal noise of the j-th noisy copy of each image; it depends only on the image's number.

    Shape, dtype and device are those of the images, (n, c, h, w); `choose_fastest_float32_layout` gives the memory
    format.
    """
    n, c, h, w = images.shape
    noise = np.empty((n, h, w, c), np.float32)

    def draw(row: NDArray[np.float32], image: int) -> None:
        make_rng(seed, RngStream.NOISE, image, j).standard_normal(dtype=np.float32, out=row)

    draw_for_each_row(draw, noise, ids.tolist(), gpu=images.is_cuda)
    on_device = device_settings.send_to_device(torch.from_numpy(noise), images.device)
    layout = device_settings.choose_fastest_float32_layout(images.device)
    return on_device.permute(0, 3, 1, 2).to(images.dtype).contiguous(memory_format=layout)


def draw_for_each_row(draw: Callable[..., object], *rows: Iterable[Any], gpu: bool) -> None:
    """Call `draw` once per row, with one item of each iterable; use several threads if `gpu` is True."""
    with ThreadPoolExecutor(_THREADS) as threads:  # NumPy draws without the interpreter lock
        deque((threads.map if gpu else map)(draw, *rows), maxlen=0)


def compute_noise_scale(images: Tensor, noise: float) -> Tensor:
    """Return the standard deviation of each image's noise, (n, 1, 1, 1): `noise` times the image's range."""
    return noise * (images.amax((1, 2, 3), keepdim=True) - images.amin((1, 2, 3), keepdim=True))


def draw_random_importance(images: Tensor, ids: Tensor, seed: int) -> Tensor:
    """Draw the map of the random control: uniform in [0, 1), with the images' shape and dtype, fixed for each image."""
    maps = np.empty(images.shape, np.float32)
    for row, image in zip(maps, ids.tolist(), strict=True):
        make_rng(seed, RngStream.RANDOM, image).random(dtype=np.float32, out=row)
    return torch.from_numpy(maps).to(images)


def draw_path_positions(images: Tensor, ids: Tensor, j: int, seed: int) -> Tensor:
    """Draw for each image a position in [0, 1) on the path from the baseline to its j-th noisy copy, (n, 1, 1, 1)."""
    positions = [make_rng(seed, RngStream.PATH, image, j).random() for image in ids.tolist()]
    return torch.tensor(positions, dtype=torch.float64).to(images)[:, None, None, None]


def draw_rise_mask_cells(side: int, j: int, seed: int) -> tuple[NDArray[np.float32], tuple[float, float]]:
    """Draw the cells and the shift of the j-th RISE mask, which all images share.

    Returns:
        The cells, float32 (side, side), each 1 with probability 1/2; and the shift down and across, uniform in [0, 1),
            as fractions of a cell.
    """
    generator = make_rng(seed, RngStream.MASK, 0, j)
    cells = (generator.random((side, side)) < 0.5).astype(np.float32)
    down, across = generator.random(2)
    return cells, (float(down), float(across))


def draw_coalitions(features: int, count: int, seed: int) -> NDArray[np.bool_]:
    """Draw coalitions of d features from the Shapley kernel (Lundberg & Lee 2017); all images share the coalitions.

    A coalition has size s with probability proportional to 1 / (s (d - s)), its members are drawn uniformly, and every
    second coalition is the complement of the coalition before.

    Returns:
        bool (count, features), True for members; no coalition is empty or complete.
    """
    sizes = np.arange(1, features)
    weights = 1 / (sizes * (features - sizes))
    generator = make_rng(seed, RngStream.COALITION, features)
    coalitions = np.zeros((count, features), np.bool_)
    for j in range(0, count, 2):
        size = generator.choice(sizes, p=weights / weights.sum())
        coalitions[j, generator.permutation(features)[:size]] = True
        if j + 1 < count:
            coalitions[j + 1] = ~coalitions[j]
    return coalitions


def draw_fill_noise(images: Tensor, ids: Tensor, normal: bool) -> Tensor:
    """Draw float32 fill values of the images' shape: standard normal, or else integers in 0 … 255; fixed per image."""
    values = np.empty(images.shape, np.float32)
    for row, image in zip(values, ids.tolist(), strict=True):
        generator = make_rng(0, RngStream.FILL, image, int(normal))
        row[...] = generator.standard_normal(row.shape) if normal else generator.integers(256, size=row.shape)
    return torch.from_numpy(values).to(images.device)


def draw_other_targets(targets: Tensor, ids: Tensor, classes: int, seed: int) -> Tensor:
    """Draw a class for each image uniformly from all classes except its target, int64 (n,), in [0, classes)."""
    steps = [make_rng(seed, RngStream.TARGET, image).integers(1, classes) for image in ids.tolist()]
    return (targets + torch.tensor(steps, dtype=torch.int64, device=targets.device)) % classes


def pair_images(n: int, first_image: int, seed: int) -> NDArray[np.int64]:
    """Return the partner of each of n images, int64 (n,), a different image; each image is a partner exactly once.

    The images form a circle in random order, and the partner of an image is the previous image in the circle.
    `first_image`, the number of the first image in the data set, gives training and test images different circles.
    """
    order = make_rng(seed, RngStream.OTHER_IMAGE, first_image).permutation(n)
    partners = np.empty(n, np.int64)
    partners[order] = np.roll(order, 1)
    return partners
