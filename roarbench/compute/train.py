"""Train a network by a recipe.

Images are cropped and degraded (both before this module reads them as `Inputs`), then augmented, then normalised, as
the protocol requires. The result is the network after the last epoch; no test image influences the training.
"""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from operator import methodcaller
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from roarbench.common.device_settings import (
    can_use_bf16,
    compute_gpu_bytes_per_worker,
    count_available_gpu_bytes,
    find_device,
    is_out_of_memory,
    send_to_device,
)
from roarbench.common.errors import Diverged, NoRoom
from roarbench.common.process_settings import use_exact_float32
from roarbench.common.stopping import ENDED, defer_sigterm_until_checked, is_stop_requested
from roarbench.common.text import format_bytes
from roarbench.compute.augment import augment, shrink_images
from roarbench.compute.compiled_networks import (
    CompilerFailed,
    compile_network,
    is_compilation_on,
    run_compiled_backward,
)
from roarbench.compute.degraded_images import ImagesWithExchangedMasks, RandomlyDegradedImages
from roarbench.compute.normalised_inputs import (
    MAX_CACHE_BYTES,
    MEMORY_SHARE,
    PIXEL_MOVING,
    BatchIndices,
    InputCache,
    Inputs,
    Normalisation,
    augment_padded_images,
    copy_normalisation_to_device,
    is_cacheable,
    normalise_on_device,
    pad_and_put_channels_last,
)
from roarbench.compute.onednn_workaround import CorrectedGradients
from roarbench.compute.recipe import Optimiser, Recipe, compute_image_side, compute_learning_rate, find_side_share
from roarbench.compute.replayed_steps import ReplayedSteps, is_replayable
from roarbench.compute.streamed_degraded_images import Streamed, StreamedChangingImages

CHECKPOINT_EVERY = 300.0  # seconds of training after which the next step saves a checkpoint
_SEED_DISTANCE = 2**32  # the global generator's seed is the step plus the run's seed times this number
_FREE_SHARE = 0.8  # share of a GPU's memory; if less is available, other processes hold memory
_CHECK_LOSS_EVERY = 50  # steps between checks of the loss on a GPU, because a check waits for all launched kernels


class Checkpoint(Protocol):
    """Storage for the state of an unfinished training run."""

    def load(self) -> dict[str, Any] | None:
        """Return the state that was saved last, with its tensors on the CPU; None if no state was saved."""

    def save(self, state: dict[str, Any]) -> None:
        """Save a state, which consists of tensors and numbers in lists and dictionaries."""


def fit(
    model: nn.Module,
    inputs: Inputs,
    labels: Tensor,
    norm: Normalisation,
    recipe: Recipe,
    seed: int,
    checkpoint: Checkpoint | None = None,
) -> float:
    """Train a network in place, leave it in training mode, and return the mean loss of the last epoch, in nats.

    On one CPU with one number of threads, the same seed gives the same weights bit for bit, even if the training run
    resumes from a checkpoint; on a GPU, up to rounding. The network stays on its device, in channels-last memory
    format. Labels are int64 (n,). A checkpoint is saved every five minutes.

    Raises:
        Diverged: The loss of a step is not finite.
        NoRoom: A step exceeds this process's share of GPU memory and cannot be split.
        SystemExit: The process was asked to end; the state was saved if `checkpoint` is given.
    """
    training = Training(model, inputs, labels, norm, recipe, seed)
    if checkpoint and (state := checkpoint.load()):
        training.restore(state)
    check_every = 1 if find_device(model).type == "cpu" else _CHECK_LOSS_EVERY
    with defer_sigterm_until_checked(), use_fastest_exact_kernels():
        saved = time.monotonic()
        while training.step < training.steps:
            training.do_optimiser_step()
            done = training.step
            is_checked = done % check_every == 0 or done == training.steps
            if is_checked and not math.isfinite(loss := training.losses[-1].item()):
                divergence = f"the loss is {loss} at step {done - 1} of {training.steps}"
                raise Diverged(f"{divergence}, expected a finite number; lower the peak learning rate")
            ending = is_stop_requested()
            if checkpoint and (ending or time.monotonic() - saved > CHECKPOINT_EVERY):
                checkpoint.save(training.get_state())
                saved = time.monotonic()
            if ending:
                raise SystemExit(ENDED)
    model.zero_grad()  # gradients would keep the memory of a CUDA graph allocated
    return torch.stack(list(training.losses)).double().mean().item()


def use_fastest_exact_kernels() -> AbstractContextManager[None]:
    """Let cuDNN time its kernels and use the fastest, because all batches have one shape; TF32 is not used."""
    return use_exact_float32(benchmark=True)


class Training:
    """A training run in progress.

    Attributes:
        step: Number of finished steps.
        losses: Losses of the last epoch's steps, scalars on the device.
        images_per_pass: Images per forward pass; halved if GPU memory runs out.
    """

    def __init__(
        self, model: nn.Module, inputs: Inputs, labels: Tensor, norm: Normalisation, recipe: Recipe, seed: int
    ) -> None:
        self._inputs, self._recipe, self._seed = inputs, recipe, seed
        self._model = model.to(memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self._device = find_device(model)
        self._gpu = self._device.type == "cuda"
        self._bf16 = can_use_bf16(recipe.precision, self._device)
        self._labels, self._scale = labels.to(self._device), copy_normalisation_to_device(norm, self._device)
        self._optimiser = _make_optimiser(model, recipe)
        # a graph reads the learning rate from the GPU; a CPU takes it as a number
        self._learning_rate = torch.zeros((), device=self._device) if self._gpu else None
        self._compiles = self._gpu and (recipe.compile or is_compilation_on())
        self._forward = compile_network(model) if self._compiles else model
        self._compiled = set[float]()  # shares of the full side whose backward pass is compiled
        self._generator = torch.Generator().manual_seed(seed)
        self._batch = min(recipe.batch, len(inputs))  # a reduced data set may be smaller than a batch
        self.images_per_pass = min(recipe.micro_batch or self._batch, self._batch)
        self._replayed = self._make_replayed_steps()
        self._needs_correction: dict[torch.Size, bool] = {}  # by image shape: whether oneDNN's gradients are wrong
        self._batches = BatchIndices(len(inputs), self._batch, self._generator)
        self._prefetched: Iterator[Tensor] = iter(())  # streamed images of the next parts of batches
        self._prefetched_batches = 0
        self._steps_per_epoch = len(inputs) / self._batch
        self._cache = self._make_cache(inputs)
        self.steps = round(recipe.epochs * self._steps_per_epoch)
        self.step = 0
        self.losses: deque[Tensor] = deque(maxlen=math.ceil(self._steps_per_epoch))

    def do_optimiser_step(self) -> None:
        """Take one optimiser step; if GPU memory runs out, repeat the step with less memory.

        The CUDA graph is given up first. Then the batch is split into parts, which use the same random numbers; their
        gradients add up to the gradient of the whole batch, up to rounding. With batch norm a batch cannot be split,
        because each part would have its own mean and variance.

        Raises:
            NoRoom: The step exceeds this process's share of GPU memory and cannot be split.
        """
        while (error := self._try_step_or_rewind()) is not None:
            self._reduce_step_memory(error)

    def _try_step_or_rewind(self) -> RuntimeError | None:
        """Try one step, uncompiled if the compiler fails; if GPU memory runs out, rewind and return the error."""
        waiting = self._batches.waiting
        generator_states = [generator.get_state() for generator in self._list_generators()]
        # the compiler runs at the first step of each image side, and a failed step may have changed batch norm buffers
        side = find_side_share(self._recipe, self.step, self.steps)
        compiling = self._compiles and side not in self._compiled
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()] if compiling else []
        try:
            self._do_step()
        except CompilerFailed:
            out_of_memory = None
        except RuntimeError as error:
            if not (self._gpu and is_out_of_memory(error)):
                raise
            out_of_memory = error.with_traceback(None)  # the traceback's frames would keep the GPU memory
        else:
            self._compiled.add(side)
            return None
        self._rewind(waiting, generator_states)
        if out_of_memory is None:
            for buffer, saved in buffers:
                buffer.copy_(saved)
            return self._try_step_or_rewind()
        return out_of_memory

    def _reduce_step_memory(self, error: RuntimeError) -> None:
        if self._replayed is not None and self._replayed.has_graph:  # other tensors cannot use the graph's memory
            self._replayed = None
            return
        # other processes hold the memory and may free it later
        if count_available_gpu_bytes() < _FREE_SHARE * compute_gpu_bytes_per_worker():
            raise error
        has_batch_norm = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in self._model.modules())
        if has_batch_norm or self.images_per_pass == 1:
            reason = "; because of batch norm, the step cannot be split" if has_batch_norm else ""
            share = format_bytes(compute_gpu_bytes_per_worker())
            seen = f"a step of {self.images_per_pass} images takes more than {share} of GPU memory"
            raise NoRoom(f"{seen}, the share of each worker{reason}; use fewer --workers or a larger GPU")
        self.images_per_pass //= 2

    def _do_step(self) -> None:
        self._set_learning_rate()
        parts = self._split_batch(self._take_batch_indices_and_prefetch())
        with torch.random.fork_rng(devices=[]):  # layers with random numbers use the global generator
            torch.manual_seed(self._seed * _SEED_DISTANCE + self.step)
            if self._replayed is not None and self.images_per_pass == self._batch:
                loss = self._replayed.run_or_replay(self._update_weights, *self._load_images_and_labels(parts[0]))
            else:
                self._optimiser.zero_grad()
                loss = torch.stack([self._add_gradients(*self._load_images_and_labels(index)) for index in parts]).sum()
                self._optimiser.step()
        self.losses.append(loss)
        self.step += 1

    def _set_learning_rate(self) -> None:
        rate = compute_learning_rate(self._recipe, self.step, self._steps_per_epoch)
        if self._learning_rate is not None:
            self._learning_rate.fill_(rate)
        for group in self._optimiser.param_groups:
            group["lr"] = rate if self._learning_rate is None else self._learning_rate

    def _make_replayed_steps(self) -> ReplayedSteps | None:
        """Return replayed steps; None if a step has several passes, is compiled, is on a CPU, or is not replayable."""
        if self._gpu and not self._compiles and self.images_per_pass == self._batch and is_replayable(self._model):
            return ReplayedSteps()
        return None

    def _update_weights(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take an optimiser step with the gradients of one pass over the whole batch; return the batch's loss."""
        self._optimiser.zero_grad()
        loss = self._add_gradients_of_one_pass(images, labels)
        self._optimiser.step()
        return loss

    def _take_batch_indices_and_prefetch(self) -> Tensor:
        """Return the indices of the next batch, and start reading the batches after it."""
        index = self._batches.draw_next()
        if isinstance(self._inputs, Streamed):
            if not self._prefetched_batches:
                batches = [index, *self._batches.peek_drawn_batches()]
                # a generator instead of this list would keep the training run in memory until Python collects cycles
                self._prefetched = self._inputs.read([part for batch in batches for part in self._split_batch(batch)])
                self._prefetched_batches = len(batches)
            self._prefetched_batches -= 1
        return index

    def get_state(self) -> dict[str, Any]:
        """Return the state, from which `restore` resumes."""
        return {
            "step": self.step,
            "model": self._model.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "losses": list(self.losses),
            "waiting": self._batches.waiting.clone(),
            "generators": [generator.get_state() for generator in self._list_generators()],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Resume from a state of `get_state`."""
        self._optimiser.zero_grad()
        self.losses.clear()
        self.step = state["step"]
        self._model.load_state_dict(state["model"])
        # the settings of an optimiser, unlike its state, depend on the device
        settings = self._optimiser.state_dict()["param_groups"]
        self._optimiser.load_state_dict(state["optimiser"] | {"param_groups": settings})
        self.losses.extend(loss.to(self._device) for loss in state["losses"])
        self._rewind(state["waiting"], state["generators"])
        self._replayed = self._make_replayed_steps()  # a graph would write into the optimiser's earlier tensors

    def _rewind(self, waiting: Tensor, generator_states: list[Tensor]) -> None:
        self._batches.waiting, self._prefetched_batches = waiting, 0
        for generator, state in zip(self._list_generators(), generator_states, strict=True):
            generator.set_state(state)

    def _list_generators(self) -> list[torch.Generator]:
        if isinstance(self._inputs, RandomlyDegradedImages | ImagesWithExchangedMasks | StreamedChangingImages):
            return [self._generator, self._inputs.generator]
        return [self._generator]

    def _split_batch(self, index: Tensor) -> tuple[Tensor, ...]:
        return torch.split(index, self._recipe.micro_batch or self._batch)

    def _load_images_and_labels(self, index: Tensor) -> tuple[Tensor, Tensor]:
        """Return the augmented images and the labels, int64 (b,), of a part of the batch, on the device."""
        return self._load_augmented_images(index), self._labels.index_select(0, send_to_device(index, self._device))

    def _add_gradients(self, images: Tensor, labels: Tensor) -> Tensor:
        """Run the forward and backward passes of a part of the batch; return the part's share of the batch's loss."""
        pairs = zip(torch.split(images, self.images_per_pass), torch.split(labels, self.images_per_pass), strict=True)
        return torch.stack([self._add_gradients_of_one_pass(*pair) for pair in pairs]).sum()

    def _add_gradients_of_one_pass(self, images: Tensor, labels: Tensor) -> Tensor:
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16):
            logits = self._forward(images)
        mean = cross_entropy(logits.float(), labels, label_smoothing=self._recipe.smoothing)
        loss = mean * (len(images) / self._batch)
        self._run_corrected_backward(loss, images.shape[1:])
        return loss.detach()

    def _run_corrected_backward(self, loss: Tensor, shape: torch.Size) -> None:
        """Run the backward pass; on a CPU under `CorrectedGradients`, until images of this shape need no correction."""
        if self._compiles:
            run_compiled_backward(loss)
            return
        if self._device.type != "cpu" or not self._needs_correction.get(shape, True):
            loss.backward()  # type: ignore[no-untyped-call]
            return
        with CorrectedGradients() as mode:  # type: ignore[no-untyped-call]
            loss.backward()  # type: ignore[no-untyped-call]
        self._needs_correction[shape] = mode.changed

    def _load_augmented_images(self, index: Tensor) -> Tensor:
        """Return augmented and normalised images at this step's side, (b, c, side, side), on the device."""
        kind = self._recipe.augmentation
        if self._cache is not None and kind in PIXEL_MOVING:
            return self._augment_cached_images(self._cache, index)
        degraded = self._read_images_at_step_side(index)
        # moving rounded pixels on a CPU takes two thirds of the time of moving float32 pixels
        if not self._gpu and kind in PIXEL_MOVING:
            prepared = self._make_normalise_and_pad()(degraded)
            return augment_padded_images(prepared, torch.arange(len(index)), degraded.shape[3], kind, self._generator)
        return normalise_on_device(augment(degraded, kind, self._generator), self._scale)

    def _augment_cached_images(self, cache: InputCache, index: Tensor) -> Tensor:
        """Augment cached images, which are already normalised; the augmentation only moves pixels."""
        kind, size = self._recipe.augmentation, self._compute_side(cache.original_side)
        if self._gpu:
            images = cache.get_at_side(size).index_select(0, send_to_device(index, self._device))
            return augment(images, kind, self._generator).contiguous(memory_format=torch.channels_last)
        return augment_padded_images(cache.get_at_side(size), index, size, kind, self._generator)

    def _make_normalise_and_pad(self) -> Callable[[Tensor], Tensor]:
        """Return a function that normalises images, rounds them to the dtype of the first convolution, and pads them.

        Images on a GPU are not padded. The function does not refer to this training run, so that the cache that calls
        the function does not keep the training run in memory until Python collects cycles.
        """
        dtype, (mean, std) = torch.bfloat16 if self._bf16 else torch.float32, self._scale
        device, on_gpu, kind = self._device, self._gpu, self._recipe.augmentation

        def normalise_and_pad(images: Tensor) -> Tensor:
            normalised = images.to(device).sub(mean).div_(std).to(dtype)
            return normalised if on_gpu else pad_and_put_channels_last(normalised, kind)

        return normalise_and_pad

    def _read_images_at_step_side(self, index: Tensor) -> Tensor:
        """Return degraded images at this step's side, float32 (b, c, side, side), on the device."""
        if self._cache is not None and (size := self._compute_side(full := self._cache.original_side)) < full:
            return self._cache.get_at_side(size).index_select(0, send_to_device(index, self._device))
        streamed = isinstance(self._inputs, Streamed)
        degraded = next(self._prefetched) if streamed else self._inputs.batch(index).to(self._device)
        return shrink_images(degraded, self._compute_side(degraded.shape[3]))

    def _compute_side(self, full: int) -> int:
        return compute_image_side(self._recipe, self.step, self.steps, full)

    def _make_cache(self, inputs: Inputs) -> InputCache | None:
        """Return a cache of the prepared inputs for all epochs; None if they cannot be cached."""
        moving = self._recipe.augmentation in PIXEL_MOVING
        dtype = torch.bfloat16 if moving and self._bf16 else torch.float32
        # GPU memory also holds the inputs themselves, with at most one byte per number
        bytes_per_number = dtype.itemsize + 1 if self._gpu else torch.float32.itemsize
        max_bytes = MEMORY_SHARE * count_available_gpu_bytes() if self._gpu else MAX_CACHE_BYTES
        if not is_cacheable(inputs, bytes_per_number, max_bytes):
            return None
        return InputCache(inputs, self._make_normalise_and_pad() if moving else methodcaller("to", self._device))


def group_by_weight_decay(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Group parameters for the optimiser: biases and batch norm, which are one-dimensional, have no weight decay."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    groups = group_by_weight_decay(model, recipe.weight_decay)
    if recipe.optimiser is Optimiser.ADAMW:
        on_gpu = find_device(model).type == "cuda"  # CUDA graphs need `capturable`
        return torch.optim.AdamW(groups, lr=0.0, betas=(recipe.momentum, 0.999), fused=True, capturable=on_gpu)
    return torch.optim.SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True, fused=True)
