"""The pipeline once more, slowly: what docs/protocol.md and the stores' formats say, in plain loops and numpy.

Nothing of roarbench is used here. Torch computes the network and its gradients, and draws permutations.
"""

import math

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

Weights = dict[str, Tensor]


def philox(key: list[int], counter: list[int], count: int) -> list[int]:
    """The first 64-bit numbers of NumPy's Philox4x64 with this key and counter."""
    return [int(number) for number in np.random.Philox(key=key, counter=counter).random_raw(count)]


def random_importance(image: int, d: int) -> list[float]:
    """Uniform in [0, 1): the upper 24 of 32 bits, the lower half of each number first; key (seed 0, purpose 1)."""
    halves = [half for number in philox([0, 1], [0, 0, 0, image], d) for half in (number % 2**32, number >> 32)]
    return [(half >> 8) / 2**24 for half in halves[:d]]


def ranking(importance: list[float], image: int) -> list[int]:
    """Features, most important first; of equal ones the one with the larger entry of the sorted draws' order."""
    d = len(importance)
    draws = philox([0, image], [0, 0, 0, 1], d)
    order = sorted(range(d), key=lambda feature: draws[feature])
    return sorted(range(d), key=lambda feature: (importance[feature], order[feature]), reverse=True)


def removed_features(importance: np.ndarray, first_id: int, t: float, order: str, unit: str) -> np.ndarray:
    """True where a channel's value is replaced, bool (n, c, h, w), for maps of that shape."""
    n, channels, height, width = importance.shape
    removed = np.zeros(importance.shape, bool)
    for i in range(n):
        members = features_of((channels, height, width), unit)
        sums = [float(np.float32(sum(float(importance[i, c, y, x]) for c, y, x in feature))) for feature in members]
        places = ranking(sums, first_id + i)
        if order == "lerf":
            places.reverse()
        for feature in places[: round(t * len(places))]:
            for c, y, x in members[feature]:
                removed[i, c, y, x] = True
    return removed


def features_of(shape: tuple[int, int, int], unit: str) -> list[list[tuple[int, int, int]]]:
    """The numbers of an image, as channel, row and column, that each feature consists of."""
    channels, height, width = shape
    if unit == "scalar":
        return [[(c, y, x)] for c in range(channels) for y in range(height) for x in range(width)]
    return [[(c, y, x) for c in range(channels)] for y in range(height) for x in range(width)]


def moments(pixels: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of each channel of the training pixels."""
    means, deviations = [], []
    for c in range(pixels.shape[1]):
        values = [int(value) for value in pixels[:, c].ravel()]
        means.append(sum(values) / len(values))
        deviations.append(math.sqrt(sum((value - means[-1]) ** 2 for value in values) / len(values)))
    return means, deviations


def degraded(pixels: np.ndarray, removed: np.ndarray, fill: list[float]) -> np.ndarray:
    """Float32 images in which removed values are the fill."""
    images = np.empty(pixels.shape, np.float32)
    for i, c, y, x in np.ndindex(*pixels.shape):
        images[i, c, y, x] = fill[c] if removed[i, c, y, x] else pixels[i, c, y, x]
    return images


def normalised(images: np.ndarray, means: list[float], deviations: list[float]) -> np.ndarray:
    """Float32, each channel minus its mean, divided by its standard deviation."""
    channels = range(images.shape[1])
    return np.stack([(images[:, c] - np.float32(means[c])) / np.float32(deviations[c]) for c in channels], axis=1)


# --- the network: a stem of 16 channels, residual blocks of 16 and, at half the size, 32, mean, linear


def logits(weights: Weights, images: Tensor) -> Tensor:
    """(n, classes)."""

    def step(x: Tensor, conv: str, norm: str, stride: int = 1, padding: int = 1) -> Tensor:
        x = F.conv2d(x, weights[f"{conv}.weight"], stride=stride, padding=padding)
        parts = (weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        return F.batch_norm(x, *parts)

    x = F.relu(step(images, "conv", "norm"))
    for block, stride in ((0, 1), (1, 2)):
        name = f"blocks.{block}"
        y = step(F.relu(step(x, f"{name}.conv1", f"{name}.norm1", stride)), f"{name}.conv2", f"{name}.norm2")
        if f"{name}.shortcut.0.weight" in weights:
            x = step(x, f"{name}.shortcut.0", f"{name}.shortcut.1", stride, padding=0)
        x = F.relu(y + x)
    return F.linear(x.mean(dim=(2, 3)), weights["linear.weight"], weights["linear.bias"])


def gradient_maps(weights: Weights, images: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """d logit of the target / d image, all images in one batch: the rounding of a convolution depends on its batch."""
    inputs = channels_last(images).requires_grad_()
    chosen = logits(weights, inputs)[torch.arange(len(images)), torch.from_numpy(targets)]
    return torch.autograd.grad(chosen.sum(), inputs)[0].numpy()


def channels_last(images: np.ndarray) -> Tensor:
    """The layout in which the pipeline's convolutions run, and so their rounding."""
    return torch.from_numpy(images).contiguous(memory_format=torch.channels_last)


def batch_order(n: int, seed: int, epochs: int, batch: int) -> list[list[int]]:
    """Images of each step: shuffled passes one after the other, cut into full batches."""
    generator = torch.Generator().manual_seed(seed)
    waiting = [image for _ in range(epochs) for image in torch.randperm(n, generator=generator).tolist()]
    return [waiting[start : start + batch] for start in range(0, epochs * n, batch)]


def correct_answers(weights: Weights, inputs: np.ndarray, labels: np.ndarray) -> list[bool]:
    """Image by image."""
    said = [int(logits(weights, torch.from_numpy(image[None])).argmax()) for image in inputs]
    return [answer == label for answer, label in zip(said, labels.tolist(), strict=True)]
