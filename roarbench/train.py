"""Training by a frozen recipe, and the logits of a trained network.

The order of operations is the protocol's: test-time crop and degrade (both done by `Inputs`), then augment, then
normalise. At test time nothing follows degrade but normalise. The last epoch counts; no test image is seen.
"""

import math
from collections.abc import Iterator
from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from roarbench.augment import augment
from roarbench.errors import Diverged
from roarbench.recipes import Precision, Recipe, learning_rate


class Inputs(Protocol):
    """What a network is trained and tested on: degraded images or removed-maps."""

    def __len__(self) -> int:
        """Number of inputs."""

    def batch(self, index: Tensor) -> Tensor:
        """Inputs by index, int64 (b,): float32 (b, c, h, w) in the range of the pixels, [0, 255], or 0 and 1."""


class Normalisation(NamedTuple):
    """Mean and standard deviation of each channel of the untouched training inputs, in their range."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


def fit(model: nn.Module, inputs: Inputs, labels: Tensor, norm: Normalisation, recipe: Recipe, seed: int) -> float:
    """Train a network; its weights change in place, and it is left in training mode.

    The same seed gives the same weights bit for bit on the same machine with the same number of threads. The network
    stays on its device, in the memory format channels-last.

    Args:
        model: Freshly built, see `models.build`.
        inputs: Degraded training images, or removed-maps.
        labels: Int64 (n,), the class of each input.
        norm: What the inputs are normalised with.
        recipe: How to train.
        seed: Drives the batch order and the augmentation.

    Returns:
        Mean loss of the last epoch's steps, in nats.

    Raises:
        Diverged: The loss of a step is not finite.
    """
    generator = torch.Generator().manual_seed(seed)
    device = _device(model)
    model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
    optimiser = _optimiser(model, recipe)
    steps_per_epoch = len(inputs) / recipe.batch
    steps = round(recipe.epochs * steps_per_epoch)
    losses = []
    for step, index in enumerate(batches(len(inputs), recipe.batch, steps, generator)):
        images = augment(inputs.batch(index).to(device), recipe.augmentation, generator)
        rate = learning_rate(recipe, step, steps_per_epoch)
        loss = _update(model, optimiser, normalise(images, norm), labels[index].to(device), recipe, rate)
        if not math.isfinite(loss):
            raise Diverged(f"loss {loss} at step {step} of {steps}, expected a finite number; lower the peak rate")
        losses.append(loss)
    last = losses[-math.ceil(steps_per_epoch) :]
    return sum(last) / len(last)


def batches(n: int, batch: int, steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Indices (batch,) of each step: one shuffled pass after another, cut without regard to where a pass ends.

    So every batch is full, and after k passes each image was used k times, give or take the batch at the seam.
    """
    waiting = torch.empty(0, dtype=torch.int64)
    for _ in range(steps):
        while len(waiting) < batch:
            waiting = torch.cat([waiting, torch.randperm(n, generator=generator)])
        yield waiting[:batch]
        waiting = waiting[batch:]


def normalise(images: Tensor, norm: Normalisation) -> Tensor:
    """Images (n, c, h, w) minus the mean, divided by the standard deviation, per channel; channels last in memory."""
    mean = torch.tensor(norm.mean, device=images.device)[:, None, None]
    std = torch.tensor(norm.std, device=images.device)[:, None, None]
    out = torch.empty(images.shape, device=images.device, memory_format=torch.channels_last)
    return torch.sub(images, mean, out=out).div_(std)  # the change of layout comes with the first of two passes


def predict(model: nn.Module, inputs: Inputs, norm: Normalisation, batch: int = 128) -> Tensor:
    """Logits of all inputs, float32 (n, classes) on the CPU; the model is left in evaluation mode.

    Always float32, without autocast: a scored network is the same on a processor with bfloat16 and without. The last
    batch is filled up with copies of the last input, because the rounding of a convolution depends on the batch size.
    """
    device = _device(model)
    model.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    logits = []
    with torch.inference_mode():
        for start in range(0, len(inputs), batch):
            index = torch.arange(start, start + batch).clamp(max=len(inputs) - 1)
            images = normalise(inputs.batch(index).to(device), norm)
            logits.append(model(images)[: len(inputs) - start].cpu())
    return torch.cat(logits)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Parameters for the optimiser: weight decay on all but biases and batch norm, which are the vectors."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.SGD:
    groups = decay_groups(model, recipe.weight_decay)
    return torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True, fused=True)


def _update(
    model: nn.Module, optimiser: torch.optim.SGD, images: Tensor, labels: Tensor, recipe: Recipe, rate: float
) -> float:
    """One step of the optimiser; the loss before it."""
    for group in optimiser.param_groups:
        group["lr"] = rate
    with torch.autocast(images.device.type, torch.bfloat16, enabled=uses_bf16(recipe.precision, images.device)):
        logits = model(images)
    loss = cross_entropy(logits.float(), labels, label_smoothing=recipe.smoothing)
    optimiser.zero_grad()
    loss.backward()  # type: ignore[no-untyped-call]
    optimiser.step()
    return loss.item()


def uses_bf16(precision: Precision, device: torch.device) -> bool:
    """Whether to compute in bfloat16: asked for, and in the hardware (on x86: AVX512-BF16), not emulated."""
    if precision is Precision.FLOAT32:
        return False
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return bool(torch.cpu._is_avx512_bf16_supported())
