"""Training by a frozen recipe, and the logits of a trained network.

The order of operations is the protocol's: test-time crop and degrade (both done by `Inputs`), then augment, then
normalise. At test time nothing follows degrade but normalise. The last epoch counts; no test image is seen.
"""

import math
import time
from collections import deque
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from roarbench.devices import compiled, sent, uses_bf16
from roarbench.errors import Diverged
from roarbench.kernels.augment import augment, shrink
from roarbench.kernels.held import MOVING, Fixed, Held, fits, movable, moved
from roarbench.kernels.inputs import (
    Batches,
    DeviceNormalisation,
    Inputs,
    Normalisation,
    Redrawn,
    Streamed,
    on_device,
    scaled,
)
from roarbench.kernels.room import find_room
from roarbench.plan.recipe import Optimiser, Recipe, learning_rate, side
from roarbench.workers.stopping import ENDED, asked, deferred

CHECKPOINT_EVERY = 300.0  # seconds of training that a killed process may lose
_DRAWS = 2**32  # from the seed of what a network draws in one training to that of the next seed's
_READ = 32  # inputs that are made at once for a test on a processor
_LOOK_EVERY = 50  # steps on a GPU between looks at the loss: each look waits for all that was launched


class Checkpoint(Protocol):
    """Place where an unfinished training is kept."""

    def load(self) -> dict[str, Any] | None:
        """Return what was saved last, tensors on the CPU; None if nothing was."""

    def save(self, state: dict[str, Any]) -> None:
        """Keep this in its place: tensors and numbers, in lists and dictionaries."""


def fit(
    model: nn.Module,
    inputs: Inputs,
    labels: Tensor,
    norm: Normalisation,
    recipe: Recipe,
    seed: int,
    checkpoint: Checkpoint | None = None,
) -> float:
    """Train a network; its weights change in place, and it is left in training mode.

    The same seed gives the same weights bit for bit on the same processor with the same number of threads, whether
    or not the training was cut off and went on from a checkpoint; on a GPU, whose sums have no fixed order, to
    rounding. The network stays on its device, in the memory format channels-last.

    Args:
        model: Freshly built, see `models.build`.
        inputs: Degraded training images, or removed-maps.
        labels: Int64 (n,), the class of each input.
        norm: What the inputs are normalised with.
        recipe: How to train.
        seed: Drives the batch order and the augmentation.
        checkpoint: Where the training goes on from, and is kept every few minutes; None keeps nothing.

    Returns:
        Mean loss of the last epoch's steps, in nats.

    Raises:
        Diverged: The loss of a step is not finite.
        NoRoom: A step takes more than this process's share of the GPU, and cannot be done in smaller parts.
        SystemExit: This process was asked to end; the training is kept.
    """
    training = _Training(model, inputs, labels, norm, recipe, seed)
    if checkpoint and (state := checkpoint.load()):
        training.restore(state)
    if _device(model).type == "cuda":
        find_room(training)
    saved = time.monotonic()
    look_every = 1 if _device(model).type == "cpu" else _LOOK_EVERY
    with deferred():
        while training.step < training.steps:
            with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):  # float32 where the recipe says so
                training.advance()
            done = training.step
            if (done % look_every == 0 or done == training.steps) and not math.isfinite(
                loss := training.losses[-1].item()
            ):
                found = f"loss {loss} at step {done - 1} of {training.steps}"
                raise Diverged(f"{found}, expected a finite number; lower the peak rate")
            ending = asked()
            if checkpoint and (ending or time.monotonic() - saved > CHECKPOINT_EVERY):
                checkpoint.save(training.state())
                saved = time.monotonic()
            if ending:
                raise SystemExit(ENDED)
    return torch.stack(list(training.losses)).double().mean().item()


class _Training:
    """A training under way: all that a checkpoint has to hold.

    Attributes:
        steps: Of the whole training.
        step: How many are done.
        losses: Of the last epoch's steps, scalars on the device.
        at_once: Images that go through the network together; see `find_room`.
        full_size: The next step takes images at full size, whatever the recipe says of it.
    """

    def __init__(
        self, model: nn.Module, inputs: Inputs, labels: Tensor, norm: Normalisation, recipe: Recipe, seed: int
    ) -> None:
        self._inputs, self._recipe, self._seed = inputs, recipe, seed
        self._model = model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self._device = _device(model)
        self._bf16 = uses_bf16(recipe.precision, self._device)
        self._labels, self._scale = labels.to(self._device), on_device(norm, self._device)
        self._optimiser = _optimiser(model, recipe)
        self._forward = compiled(model) if self._device.type == "cuda" else model
        self._generator = torch.Generator().manual_seed(seed)
        self._batch = min(recipe.batch, len(inputs))  # a small version of a data set may be less than a batch
        self.at_once = min(recipe.micro_batch or self._batch, self._batch)
        self.full_size = False
        self._batches = Batches(len(inputs), self._batch, self._generator)
        self._steps_per_epoch = len(inputs) / self._batch
        self._held = self._hold(inputs)
        self.steps = round(recipe.epochs * self._steps_per_epoch)
        self.step = 0
        self.losses: deque[Tensor] = deque(maxlen=math.ceil(self._steps_per_epoch))

    def advance(self) -> None:
        """Do one step of the optimiser; what a network draws itself, in dropout, hangs on seed and step alone."""
        rate = learning_rate(self._recipe, self.step, self._steps_per_epoch)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        index = self._batches.next()
        if isinstance(self._inputs, Streamed):
            self._inputs.expect(part for batch in chain([index], self._batches.coming()) for part in self._parts(batch))
        self._optimiser.zero_grad()
        with torch.random.fork_rng(devices=[]):  # layers have no other generator than the global one
            torch.manual_seed(self._seed * _DRAWS + self.step)
            self.losses.append(torch.stack([self._add_gradients(part) for part in self._parts(index)]).sum())
        self._optimiser.step()
        self.step += 1

    @property
    def normed(self) -> bool:
        """Return whether batch norm takes mean and variance of what goes through the network together."""
        return any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in self._model.modules())

    def state(self) -> dict[str, Any]:
        """Return what `restore` takes, to go on from here."""
        return {
            "step": self.step,
            "model": self._model.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "losses": list(self.losses),
            "waiting": self._batches.waiting.clone(),
            "generators": [generator.get_state() for generator in self._generators()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue where this state was taken."""
        self._optimiser.zero_grad()
        self.losses.clear()
        self.step = state["step"]
        self._model.load_state_dict(state["model"])
        self._optimiser.load_state_dict(state["optimiser"])
        self.losses.extend(loss.to(self._device) for loss in state["losses"])
        self._batches.waiting = state["waiting"]
        for generator, kept in zip(self._generators(), state["generators"], strict=True):
            generator.set_state(kept)

    def _generators(self) -> list[torch.Generator]:
        drawn = [self._inputs.generator] if isinstance(self._inputs, Redrawn) else []
        return [self._generator, *drawn]

    def _parts(self, index: Tensor) -> list[Tensor]:
        """Yield a batch in the parts that go through the network at once."""
        size = self._recipe.micro_batch or self._batch
        return [index[start : start + size] for start in range(0, len(index), size)]

    def _add_gradients(self, index: Tensor) -> Tensor:
        """Run forward and backward; return the part's share of the loss of its batch."""
        images, labels = self._images(index), self._labels.index_select(0, sent(index, self._device))
        pairs = zip(torch.split(images, self.at_once), torch.split(labels, self.at_once), strict=True)
        return torch.stack([self._add_gradients_at_once(*pair) for pair in pairs]).sum()

    def _add_gradients_at_once(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16):
            logits = self._forward(images)
        mean = cross_entropy(logits.float(), labels, label_smoothing=self._recipe.smoothing)
        loss = mean * (len(images) / self._batch)
        loss.backward()  # type: ignore[no-untyped-call]
        return loss.detach()

    def _images(self, index: Tensor) -> Tensor:
        """Return augmented and normalised images at the size of this step, (b, c, side, side), on the device."""
        kind = self._recipe.augmentation
        if self._held is not None and kind in MOVING:
            size = self._side(self._held.full)
            return moved(self._held.at(size), index, size, kind, self._generator)
        read = self._read(index)
        if self._device.type == "cpu" and kind in MOVING:  # two thirds of the time of moving float32
            return moved(self._movable(read), torch.arange(len(index)), read.shape[3], kind, self._generator)
        return scaled(augment(read, kind, self._generator), self._scale)

    def _movable(self, images: Tensor) -> Tensor:
        """Return images normalised, in the type that the first convolution would round them to itself, to be moved."""
        taken, (mean, std) = torch.bfloat16 if self._bf16 else torch.float32, self._scale
        return movable(images.sub(mean).div_(std).to(taken), self._recipe.augmentation)

    def _read(self, index: Tensor) -> Tensor:
        """Return degraded images at the size of this step, float32 (b, c, side, side), on the device."""
        if self._held is not None and (size := self._side(self._held.full)) < self._held.full:
            return self._held.at(size).index_select(0, index)
        degraded = self._inputs.batch(index).to(self._device)
        return shrink(degraded, self._side(degraded.shape[3]))

    def _side(self, full: int) -> int:
        return full if self.full_size else side(self._recipe, self.step, self.steps, full)

    def _hold(self, inputs: Inputs) -> Held | None:
        """Return what holds the inputs, made as far as all epochs share them; None where nothing can be held."""
        if self._device.type != "cpu" or not fits(inputs):
            return None
        return Held(inputs, self._movable if self._recipe.augmentation in MOVING else lambda images: images)


def scored_at_once(size: int) -> int:
    """Return how many images of `size` pixels a side are scored in one batch: 128 up to 64 pixels, 32 above.

    Fixed by the size alone, as answers may depend on it, see `predict`. Every scoring pays for a whole batch: a few
    photographs should not wait for 128, while 32 keep a GPU busy.
    """
    return 128 if size <= 64 else 32


def predict(model: nn.Module, inputs: Inputs, norm: Normalisation, batch: int) -> Tensor:
    """Return the logits of all inputs, float32 (n, classes) on the CPU; the model is left in evaluation mode.

    Always float32, without autocast and TF32: a scored network is the same on a device with short numbers and without.
    The last batch is filled up with copies of the last input, because the rounding of a convolution depends on the
    batch size: `scored_at_once` says which.
    """
    device = _device(model)
    model.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload]
    starts = range(0, len(inputs), batch)
    indices = [torch.arange(start, start + batch).clamp(max=len(inputs) - 1) for start in starts]
    scale, logits = on_device(norm, device), []
    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        for number, index in enumerate(indices):
            if isinstance(inputs, Streamed):
                inputs.expect(indices[number:])
            logits.append(model(_normalised(inputs, index, scale)))
        return torch.cat(logits)[: len(inputs)].cpu()


def _normalised(inputs: Inputs, index: Tensor, scale: DeviceNormalisation) -> Tensor:
    """Return some inputs as a network takes them, on the device of the normalisation.

    On a processor in parts, whose intermediate results stay in its cache: the same numbers (docs/performance.md).
    """
    device = scale.mean.device
    if device.type != "cpu" or not isinstance(inputs, Fixed):
        return scaled(inputs.batch(index).to(device), scale)
    made = torch.empty((len(index), *inputs.shape), memory_format=torch.channels_last)
    for part, room in zip(torch.split(index, _READ), torch.split(made, _READ), strict=True):
        room.copy_(inputs.batch(part).sub(scale.mean).div_(scale.std))
    return made


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Group parameters for the optimiser: weight decay on all but biases and batch norm, which are the vectors."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _device(model: nn.Module) -> torch.device:
    return next(model.parameters()).device


def _optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    groups = decay_groups(model, recipe.weight_decay)
    if recipe.optimiser is Optimiser.ADAMW:
        return torch.optim.AdamW(groups, lr=0.0, betas=(recipe.momentum, 0.999), fused=True)
    return torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True, fused=True)
