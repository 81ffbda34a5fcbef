"""The pipeline once more, slowly: what docs/protocol.md and the stores' formats say, in plain loops and numpy.

Nothing of roarbench is used here. Torch computes the network and its gradients, draws permutations and first weights.
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
    numbers = [(c, y, x) for c in range(channels) for y in range(height) for x in range(width)]
    if unit == "scalar":
        return [[number] for number in numbers]
    side = {"pixel": 1, "superpixel": 1, "patch:4": 4, "patch:8": 8}[unit]
    corners = [(y, x) for y in range(0, height, side) for x in range(0, width, side)]
    return [
        [(c, y, x) for c, y, x in numbers if top <= y < top + side and left <= x < left + side] for top, left in corners
    ]


def smoothness(removed: np.ndarray, unit: str) -> float:
    """Removed neighbours of a removed feature against what chance gives."""
    side = {"patch:4": 4, "patch:8": 8}.get(unit, 1)
    maps = (removed if unit == "scalar" else removed[:, :1])[:, :, ::side, ::side]
    n, channels, height, width = maps.shape
    found = pairs = 0
    for c in range(channels):
        for y in range(height):
            for x in range(width):
                for down, right in ((0, 1), (1, 0)):
                    if y + down < height and x + right < width:
                        pairs += 1
                        found += sum(bool(maps[i, c, y, x] and maps[i, c, y + down, x + right]) for i in range(n))
    d, count = channels * height * width, int(maps[0].sum())
    return found / n / (pairs * count * (count - 1) / (d * (d - 1)))


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
    scaled = [
        (images[:, c] - np.float32(mean)) / np.float32(std)
        for c, (mean, std) in enumerate(zip(means, deviations, strict=True))
    ]
    return np.stack(scaled, axis=1)


# --- the network: a stem of 16 channels, residual blocks of 16 and, at half the size, 32, mean, linear


def first_weights(classes: int, channels: int, seed: int) -> Weights:
    """Kaiming-normal convolutions by fan-out, linear N(0, 0.01), last gamma of each block 0."""
    generator = torch.Generator().manual_seed(seed)
    weights: Weights = {}

    def convolution(name: str, inputs: int, outputs: int, side: int, norm: str, gamma: float = 1.0) -> None:
        drawn = torch.empty(outputs, inputs, side, side).normal_(
            0, math.sqrt(2) / math.sqrt(outputs * side * side), generator=generator
        )
        weights[f"{name}.weight"] = drawn
        weights[f"{norm}.weight"], weights[f"{norm}.bias"] = torch.full((outputs,), gamma), torch.zeros(outputs)
        weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"] = torch.zeros(outputs), torch.ones(outputs)

    convolution("conv", channels, 16, 3, "norm")
    for block, inputs, outputs in ((0, 16, 16), (1, 16, 32)):
        name = f"blocks.{block}"
        convolution(f"{name}.conv1", inputs, outputs, 3, f"{name}.norm1")
        convolution(f"{name}.conv2", outputs, outputs, 3, f"{name}.norm2", gamma=0.0)
        if inputs != outputs:
            convolution(f"{name}.shortcut.0", inputs, outputs, 1, f"{name}.shortcut.1")
    weights["linear.weight"] = torch.empty(classes, 32).normal_(0, 0.01, generator=generator)
    weights["linear.bias"] = torch.zeros(classes)
    return weights


def logits(weights: Weights, images: Tensor, training: bool = False) -> Tensor:
    """(n, classes); in training the running means and variances of batch norm move by a tenth."""

    def step(x: Tensor, conv: str, norm: str, stride: int = 1, padding: int = 1) -> Tensor:
        x = F.conv2d(x, weights[f"{conv}.weight"], stride=stride, padding=padding)
        moving = weights[f"{norm}.running_mean"], weights[f"{norm}.running_var"]
        return F.batch_norm(x, *moving, weights[f"{norm}.weight"], weights[f"{norm}.bias"], training)

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


class SlowRecipe:
    """Of the test's trainings: the learning rate rises for one epoch, then falls in a line to 0 at the end."""

    epochs, batch, peak, warmup = 8, 8, 0.2, 1
    momentum, decay, smoothing = 0.9, 1e-4, 0.1


def batch_order(n: int, seed: int) -> list[list[int]]:
    """Images of each step: shuffled passes one after the other, cut into full batches."""
    generator = torch.Generator().manual_seed(seed)
    waiting: list[int] = []
    for _ in range(SlowRecipe.epochs + 1):
        waiting += torch.randperm(n, generator=generator).tolist()
    steps = round(SlowRecipe.epochs * n / SlowRecipe.batch)
    return [waiting[step * SlowRecipe.batch : (step + 1) * SlowRecipe.batch] for step in range(steps)]


def learning_rate(step: int, n: int) -> float:
    epoch = step * SlowRecipe.batch / n
    if epoch < SlowRecipe.warmup:
        return SlowRecipe.peak * epoch / SlowRecipe.warmup
    return SlowRecipe.peak * (SlowRecipe.epochs - epoch) / (SlowRecipe.epochs - SlowRecipe.warmup)


def trained(weights: Weights, inputs: np.ndarray, labels: np.ndarray, seed: int) -> list[np.ndarray]:
    """Train these weights in place; returns what the network saw at each step."""
    learnt = {name: weight for name, weight in weights.items() if "running" not in name}
    velocity = {name: torch.zeros_like(weight) for name, weight in learnt.items()}
    seen = []
    for step, index in enumerate(batch_order(len(inputs), seed)):
        seen.append(np.stack([inputs[i] for i in index]))
        for weight in learnt.values():
            weight.requires_grad_()
        log_odds = F.log_softmax(logits(weights, torch.from_numpy(seen[-1]), training=True), dim=1)
        classes = log_odds.shape[1]
        target = torch.full_like(log_odds, SlowRecipe.smoothing / classes)
        for row, i in enumerate(index):
            target[row, labels[i]] += 1 - SlowRecipe.smoothing
        gradients = torch.autograd.grad(-(target * log_odds).sum() / len(index), list(learnt.values()))
        rate = learning_rate(step, len(inputs))
        with torch.no_grad():
            for (name, weight), gradient in zip(learnt.items(), gradients, strict=True):
                if weight.ndim > 1:
                    gradient = gradient + SlowRecipe.decay * weight
                velocity[name] = SlowRecipe.momentum * velocity[name] + gradient
                weight -= rate * (gradient + SlowRecipe.momentum * velocity[name])
    for weight in learnt.values():
        weight.requires_grad_(False)
    return seen


def correct_answers(weights: Weights, inputs: np.ndarray, labels: np.ndarray) -> list[bool]:
    """Image by image."""
    said = [int(logits(weights, torch.from_numpy(image[None])).argmax()) for image in inputs]
    return [answer == label for answer, label in zip(said, labels.tolist(), strict=True)]
