"""Training by a frozen recipe.

The order of operations is the protocol's: test-time crop and degrade (both done by `Inputs`), then augment, then
normalise. The last epoch counts; no test image is seen.
"""

import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from roarbench.devices import compiled, device_of, generator_state, own_stream, sent, uses_bf16
from roarbench.errors import Diverged
from roarbench.kernels.augment import Draws, augment, augment_by, draw, shrink
from roarbench.kernels.cuda_graphs import LARGEST, DrawnPart, Graphs
from roarbench.kernels.degrade import RedrawnImages
from roarbench.kernels.exchange import ExchangedImages
from roarbench.kernels.held import MOVING, Fixed, Held, fits, movable, moved
from roarbench.kernels.inputs import Batches, Inputs, Normalisation, on_device, scaled
from roarbench.kernels.room import find_room
from roarbench.kernels.streaming import StreamedImages
from roarbench.kernels.weight_gradients import RightGradients
from roarbench.plan.recipe import Optimiser, Recipe, learning_rate, side
from roarbench.workers.stopping import ENDED, asked, deferred

CHECKPOINT_EVERY = 300.0  # seconds of training that a killed process may lose
_DRAWS = 2**32  # from the seed of what a network draws in one training to that of the next seed's
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
    """Train a network; its weights change in place, and it is left in training mode. Return the last epoch's mean loss.

    The same seed gives the same weights bit for bit on the same processor with the same number of threads, whether or
    not the training was cut off and went on from a checkpoint; on a GPU, whose sums have no fixed order, to rounding.
    The network stays on its device, in the memory format channels-last. Labels are int64 (n,); the loss is in nats. A
    checkpoint is kept every few minutes.

    Raises:
        Diverged: The loss of a step is not finite.
        NoRoom: A step takes more than this process's share of the GPU, and cannot be done in smaller parts.
        SystemExit: This process was asked to end; the training is kept.
    """
    training = Training(model, inputs, labels, norm, recipe, seed)
    if checkpoint and (state := checkpoint.load()):
        training.restore(state)
    look_every = 1 if device_of(model).type == "cpu" else _LOOK_EVERY
    with deferred(), training.stream():
        if device_of(model).type == "cuda":
            find_room(training)
        saved = time.monotonic()
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


class Training:
    """A training under way: all that a checkpoint has to hold.

    Attributes:
        step: How many are done.
        losses: Of the last epoch's steps, scalars on the device.
        at_once: Images that go through the network together; see `find_room`.
        full_size: The next step takes images at full size, whatever the recipe says of it.
        draws: The network has drawn by chance itself, which no graph repeats; looked at where steps may be recorded.
    """

    def __init__(
        self, model: nn.Module, inputs: Inputs, labels: Tensor, norm: Normalisation, recipe: Recipe, seed: int
    ) -> None:
        self._inputs, self._recipe, self._seed = inputs, recipe, seed
        self._model = model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self._device = device_of(model)
        self._bf16 = uses_bf16(recipe.precision, self._device)
        self._labels, self._scale = labels.to(self._device), on_device(norm, self._device)
        self._optimiser = _optimiser(model, recipe)
        self._forward = compiled(model) if self._device.type == "cuda" else model
        self._generator = torch.Generator().manual_seed(seed)
        self._batch = min(recipe.batch, len(inputs))  # a small version of a data set may be less than a batch
        self.at_once = min(recipe.micro_batch or self._batch, self._batch)
        self.full_size = self.draws = False
        self._mended: dict[torch.Size, bool] = {}  # by an image's shape: whether there are gradients to be mended
        self._batches = Batches(len(inputs), self._batch, self._generator)
        self._steps_per_epoch = len(inputs) / self._batch
        self._held = self._hold(inputs)
        self._graphs = Graphs(self._device) if self._recordable(inputs) else None
        self.steps = round(recipe.epochs * self._steps_per_epoch)
        self.step = 0
        self.losses: deque[Tensor] = deque(maxlen=math.ceil(self._steps_per_epoch))

    def advance(self) -> None:
        """Do one step of the optimiser."""
        rate = learning_rate(self._recipe, self.step, self._steps_per_epoch)
        index = self._batches.next()
        if isinstance(self._inputs, StreamedImages):
            self._inputs.expect(part for batch in chain([index], self._batches.coming()) for part in self._parts(batch))
        self.losses.append(self._do(self._parts(index), rate))
        self.step += 1

    def _do(self, parts: list[Tensor], rate: float) -> Tensor:
        """Do a step on the images of a batch, by a graph where there is one; return its loss."""
        if self._graphs is None or self.full_size:
            return self.by_itself([DrawnPart(index) for index in parts], rate)
        channels, full, _ = self._inputs.shape  # type: ignore[attr-defined]
        size, kind = self._side(full), self._recipe.augmentation
        drawn = [draw((len(index), channels, size, size), kind, self._generator) for index in parts]
        return self._graphs.step(self, size, [DrawnPart(*pair) for pair in zip(parts, drawn, strict=True)], rate)

    def by_itself(self, parts: list[DrawnPart], rate: float) -> Tensor:
        """Do a step on these images; return its loss. What a network draws itself hangs on seed and step alone."""
        with torch.random.fork_rng(devices=[]):  # layers have no other generator than the global one
            torch.manual_seed(self._seed * _DRAWS + self.step)
            if self._graphs is None:
                return self.compute(parts, rate)
            before = generator_state(self._device)
            loss = self.compute(parts, rate)
            self.draws |= generator_state(self._device) != before
        return loss

    def compute(self, parts: list[DrawnPart], rate: float | Tensor) -> Tensor:
        """Do a step on these images at this learning rate; return its loss, a scalar on the device.

        It can be recorded: nothing in it waits, or hangs on the processor's numbers.
        """
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad()
        loss = torch.stack([self._add_gradients(*part) for part in parts]).sum()
        self._optimiser.step()
        return loss

    def changing(self) -> list[Tensor]:
        """Return all tensors that a step changes: weights, what batch norm counts, momenta."""
        momenta = (value for state in self._optimiser.state.values() for value in state.values())
        return [*self._model.parameters(), *self._model.buffers(), *momenta]

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Let steps be recorded: on a stream of their own, until this ends."""
        with own_stream() if self._graphs else nullcontext():
            try:
                yield
            finally:
                if self._graphs:
                    self._graphs.forget()

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
        if self._graphs:
            self._graphs.forget()
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
        """Return all sources of chance, which a checkpoint has to hold."""
        if isinstance(self._inputs, RedrawnImages | ExchangedImages):
            return [self._generator, self._inputs.generator]
        return [self._generator]

    def _parts(self, index: Tensor) -> list[Tensor]:
        """Return a batch in the parts that share their draws and a reading."""
        size = self._recipe.micro_batch or self._batch
        return [index[start : start + size] for start in range(0, len(index), size)]

    def _add_gradients(self, index: Tensor, drawn: Draws | None) -> Tensor:
        """Run forward and backward; return the part's share of the loss of its batch."""
        images, labels = self._images(index, drawn), self._labels.index_select(0, sent(index, self._device))
        pairs = zip(torch.split(images, self.at_once), torch.split(labels, self.at_once), strict=True)
        return torch.stack([self._add_gradients_at_once(*pair) for pair in pairs]).sum()

    def _add_gradients_at_once(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16):
            logits = self._forward(images)
        mean = cross_entropy(logits.float(), labels, label_smoothing=self._recipe.smoothing)
        loss = mean * (len(images) / self._batch)
        self._backward(loss, images.shape[1:])
        return loss.detach()

    def _backward(self, loss: Tensor, shape: torch.Size) -> None:
        """Add to the gradients; on a processor by `RightGradients` first, and on if it has anything to do."""
        if self._device.type != "cpu" or not self._mended.get(shape, True):
            loss.backward()  # type: ignore[no-untyped-call]
            return
        with RightGradients() as mode:  # type: ignore[no-untyped-call]
            loss.backward()  # type: ignore[no-untyped-call]
        self._mended[shape] = mode.changed

    def _images(self, index: Tensor, drawn: Draws | None = None) -> Tensor:
        """Return augmented and normalised images at the size of this step, (b, c, side, side), on the device."""
        kind = self._recipe.augmentation
        if drawn is not None:
            return scaled(augment_by(self._read(index), kind, drawn), self._scale)
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

    def _recordable(self, inputs: Inputs) -> bool:
        """Return whether a step can be recorded, and its kernels are so small that it pays."""
        small = isinstance(inputs, Fixed) and inputs.shape[2] <= LARGEST
        return self._device.type == "cuda" and small and self._recipe.optimiser is Optimiser.SGD

    def _hold(self, inputs: Inputs) -> Held | None:
        """Return what holds the inputs, made as far as all epochs share them; None where nothing can be held."""
        if self._device.type != "cpu" or not fits(inputs):
            return None
        return Held(inputs, self._movable if self._recipe.augmentation in MOVING else lambda images: images)


def decay_groups(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Group parameters for the optimiser: weight decay on all but biases and batch norm, which are the vectors."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    groups = decay_groups(model, recipe.weight_decay)
    if recipe.optimiser is Optimiser.ADAMW:
        return torch.optim.AdamW(groups, lr=0.0, betas=(recipe.momentum, 0.999), fused=True)
    return torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True, fused=True)
