"""Training by a frozen recipe, and the logits of a trained network.

The order of operations is the protocol's: test-time crop and degrade (both done by `Inputs`), then augment, then
normalise. At test time nothing follows degrade but normalise. The last epoch counts; no test image is seen.
"""

import copy
import math
import time
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from roarbench.devices import compiled, gpu_memory, gpu_share, out_of_memory, sent, uses_bf16
from roarbench.errors import CallerError, Diverged
from roarbench.kernels.augment import augment, shrink
from roarbench.kernels.held import MOVING, Fixed, Held, fits, movable, moved
from roarbench.plan.recipes import Optimiser, Recipe, learning_rate, side
from roarbench.text import size as bytes_in_words
from roarbench.workers.stopping import ENDED, asked, deferred

CHECKPOINT_EVERY = 300.0  # seconds of training that a killed process may lose
_DRAWS = 2**32  # from the seed of what a network draws in one training to that of the next seed's
_READ = 32  # inputs that are made at once for a test on a processor
_OURS = 0.8  # of its share that a process has at least where no other holds the memory that it lacks
_LOOK_EVERY = 50  # steps on a GPU between looks at the loss: each look waits for all that was launched


class Inputs(Protocol):
    """Inputs that a network is trained and tested on: degraded images or removed-maps."""

    def __len__(self) -> int:
        """Count the inputs."""

    def batch(self, index: Tensor) -> Tensor:
        """Return inputs by index, int64 (b,): float32 (b, c, h, w) in the range of the pixels, [0, 255], or 0 and 1."""


@runtime_checkable
class Redrawn(Protocol):
    """Inputs that are drawn anew at every reading, so that a checkpoint has to hold their source of chance."""

    @property
    def generator(self) -> torch.Generator:
        """Return the source of the draws, on the processor."""


@runtime_checkable
class Streamed(Protocol):
    """Inputs that are read from files, ahead of time where it is known what comes next."""

    def expect(self, coming: Iterable[Tensor]) -> None:
        """Read ahead: `batch` will be called with these indices, int64 (b,) each, in this order."""


class Normalisation(NamedTuple):
    """Mean and standard deviation of each channel of the untouched training inputs, in their range."""

    mean: tuple[float, ...]
    std: tuple[float, ...]


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
        CallerError: A step takes more than this process's share of the GPU, and cannot be done in smaller parts.
        SystemExit: This process was asked to end; the training is kept.
    """
    training = _Training(model, inputs, labels, norm, recipe, seed)
    if checkpoint and (state := checkpoint.load()):
        training.restore(state)
    if _device(model).type == "cuda":
        training.find_room()
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


class Batches:
    """Indices of batch after batch: one shuffled pass after another, cut without regard to where a pass ends.

    So every batch is full, and after k passes each image was used k times, give or take the batch at the seam.

    Args:
        n: Number of images.
        batch: Images in a batch.
        generator: Shuffles; asked only when the images drawn before do not fill a batch.
    """

    def __init__(self, n: int, batch: int, generator: torch.Generator) -> None:
        self._n, self._batch, self._generator = n, batch, generator
        self.waiting = torch.empty(0, dtype=torch.int64)  # drawn and not yet used

    def next(self) -> Tensor:
        """Return the next batch, int64 (batch,)."""
        while len(self.waiting) < self._batch:
            self.waiting = torch.cat([self.waiting, torch.randperm(self._n, generator=self._generator)])
        index, self.waiting = self.waiting[: self._batch], self.waiting[self._batch :]
        return index

    def coming(self) -> Iterator[Tensor]:
        """Return those after it, as far as they are drawn already."""
        full = len(self.waiting) // self._batch * self._batch
        return (self.waiting[start : start + self._batch] for start in range(0, full, self._batch))


class _Training:
    """A training under way: all that a checkpoint has to hold.

    Attributes:
        steps: Of the whole training.
        step: How many are done.
        losses: Of the last epoch's steps, scalars on the device.
    """

    def __init__(
        self, model: nn.Module, inputs: Inputs, labels: Tensor, norm: Normalisation, recipe: Recipe, seed: int
    ) -> None:
        self._inputs, self._recipe, self._seed = inputs, recipe, seed
        self._model = model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self._device = _device(model)
        self._bf16 = uses_bf16(recipe.precision, self._device)
        self._labels, self._scale = labels.to(self._device), _scale(norm, self._device)
        self._optimiser = _optimiser(model, recipe)
        self._forward = compiled(model) if self._device.type == "cuda" else model
        self._generator = torch.Generator().manual_seed(seed)
        self._batch = min(recipe.batch, len(inputs))  # a small version of a data set may be less than a batch
        self._at_once = min(recipe.micro_batch or self._batch, self._batch)
        self._full_size = False
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

    def find_room(self) -> None:
        """Try a step at full size and take it back; halve what goes through the network at once until it fits.

        Parts share their draws, and add up to the gradients of the whole but for rounding, unless batch norm takes mean
        and variance of each: then nothing is halved.

        Raises:
            CallerError: A step takes more than this process's share of the GPU.
        """
        while (error := self._tried()) is not None:
            if gpu_memory() < _OURS * gpu_share():  # others hold it, and may give it back
                raise error
            normed = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in self._model.modules())
            if normed or self._at_once == 1:
                why = "; batch norm allows no smaller parts" if normed else ""
                seen = f"a step of {self._at_once} images takes more than {bytes_in_words(gpu_share())} of GPU memory"
                raise CallerError(f"{seen}, the share of each worker{why}; write fewer --workers, or use a larger GPU")
            self._at_once //= 2

    def _tried(self) -> RuntimeError | None:
        """Do a step at full size, put all back as it was, and return the error if memory ran out."""
        now, found = self.state(), None
        weights = {name: value.clone() for name, value in now["model"].items()}
        before = now | {"model": weights, "optimiser": copy.deepcopy(now["optimiser"])}
        self._full_size = True
        try:
            self.advance()
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            found = error.with_traceback(None)  # its frames would keep what filled the memory
        self._full_size = False
        self._optimiser.zero_grad()
        self.losses.clear()
        self.restore(before)
        return found

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
        pairs = zip(torch.split(images, self._at_once), torch.split(labels, self._at_once), strict=True)
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
        return _scaled(augment(read, kind, self._generator), self._scale)

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
        return full if self._full_size else side(self._recipe, self.step, self.steps, full)

    def _hold(self, inputs: Inputs) -> Held | None:
        """Return what holds the inputs, made as far as all epochs share them; None where nothing can be held."""
        if self._device.type != "cpu" or not fits(inputs):
            return None
        return Held(inputs, self._movable if self._recipe.augmentation in MOVING else lambda images: images)


def normalise(images: Tensor, norm: Normalisation) -> Tensor:
    """Return images (n, c, h, w) minus the mean, over the standard deviation, per channel; channels last in memory."""
    return _scaled(images, _scale(norm, images.device))


class _DeviceNormalisation(NamedTuple):
    """A normalisation on a device, float32 (c, 1, 1) each: sent there once, not with every batch."""

    mean: Tensor
    std: Tensor


def _scale(norm: Normalisation, device: torch.device) -> _DeviceNormalisation:
    return _DeviceNormalisation(*(torch.tensor(part, device=device)[:, None, None] for part in norm))


def _scaled(images: Tensor, scale: _DeviceNormalisation) -> Tensor:
    return images.sub(scale.mean).div_(scale.std).contiguous(memory_format=torch.channels_last)


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
    scale, logits = _scale(norm, device), []
    with torch.inference_mode(), torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=False):
        for number, index in enumerate(indices):
            if isinstance(inputs, Streamed):
                inputs.expect(indices[number:])
            logits.append(model(_normalised(inputs, index, scale)))
        return torch.cat(logits)[: len(inputs)].cpu()


def _normalised(inputs: Inputs, index: Tensor, scale: _DeviceNormalisation) -> Tensor:
    """Return some inputs as a network takes them, on the device of the normalisation.

    On a processor in parts, whose intermediate results stay in its cache: the same numbers (docs/performance.md).
    """
    device = scale.mean.device
    if device.type != "cpu" or not isinstance(inputs, Fixed):
        return _scaled(inputs.batch(index).to(device), scale)
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
