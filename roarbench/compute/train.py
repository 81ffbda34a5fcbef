"""Train a network by a recipe.

Images are cropped and degraded (both before this module reads them as `Inputs`), then augmented, then normalised, as
the protocol requires. The result is the network after the last epoch; no test image influences the training.
"""

import inspect
import math
import time
from collections import deque
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from roarbench.common.device_settings import (
    can_use_bf16,
    compute_gpu_bytes_per_worker,
    count_available_gpu_bytes,
    find_device,
    is_machine_failure,
    is_out_of_memory,
    put_convolutions_in_layout,
    use_exact_float32,
)
from roarbench.common.errors import Diverged, NoRoom
from roarbench.common.process_settings import ENDED, defer_sigterm_until_checked, is_stop_requested
from roarbench.common.text import format_bytes
from roarbench.compute.degraded_images import Inputs
from roarbench.compute.gpu_training import (
    ReplayedSteps,
    can_compile,
    compile_network,
    is_replayable,
    record_compiler_failure,
    unwrap_compiler_error,
)
from roarbench.compute.networks import DRAWING
from roarbench.compute.onednn_workaround import CorrectedGradients
from roarbench.compute.prediction import Normalisation
from roarbench.compute.recipe import Optimiser, Recipe, compute_learning_rate, find_side_share
from roarbench.compute.training_batches import TrainingBatches

CHECKPOINT_EVERY = 300.0  # seconds of training after which the next step saves a checkpoint
_SEED_DISTANCE = 2**32  # the global generator's seed is the step plus the run's seed times this number
_FREE_SHARE = 0.8  # share of a GPU's memory; if less is available, other processes hold memory
_O = TypeVar("_O", bound=torch.optim.Optimizer)
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
    with defer_sigterm_until_checked(), use_exact_float32(benchmark=True):  # all batches have one shape
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
        self._recipe, self._seed = recipe, seed
        put_convolutions_in_layout(model, torch.channels_last)
        self._model = model.train()
        self._device = find_device(model)
        self._gpu = self._device.type == "cuda"
        self._bf16 = can_use_bf16(recipe.precision, self._device)
        self._optimiser = _make_optimiser(model, recipe)
        # a graph reads the learning rate from the GPU; a CPU takes it as a number
        self._learning_rate = torch.zeros((), device=self._device) if self._gpu else None
        compiled = compile_network(model) if self._gpu and recipe.compile and can_compile() else None
        self._compiles, self._forward = compiled is not None, compiled or model
        self._compiled = set[float]()  # shares of the full side whose backward pass is compiled
        self._batches = TrainingBatches(inputs, labels, norm, recipe, seed, self._device)
        self.images_per_pass = min(recipe.micro_batch or self._batches.size, self._batches.size)
        self._replayed = self._make_replayed_steps()
        self._needs_correction: dict[torch.Size, bool] = {}  # by image shape: whether oneDNN's gradients are wrong
        self.step, self.steps = 0, self._batches.steps
        self.losses: deque[Tensor] = deque(maxlen=math.ceil(self._batches.steps_per_epoch))

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

    def _try_step_or_rewind(self) -> Exception | None:
        """Try one step, uncompiled if the compiler fails; if GPU memory runs out, rewind and return the error."""
        position = self._batches.get_position()
        # the compiler runs in the first step of each image side, and a failed step may have changed batch norm buffers
        side = find_side_share(self._recipe, self.step, self.steps)
        compiling = self._compiles and side not in self._compiled
        buffers = [(buffer, buffer.clone()) for buffer in self._model.buffers()] if compiling else []
        try:
            self._do_step()
        except Exception as error:
            cause = unwrap_compiler_error(error) if compiling else error
            compiler_failed = compiling and not is_machine_failure(cause)
            if not (compiler_failed or (self._gpu and is_out_of_memory(cause))):
                if cause is error:
                    raise
                raise cause from None  # the machine caused it, whatever the compiler says
            failure = cause.with_traceback(None)  # the traceback's frames would keep the GPU memory
        else:
            self._compiled.add(side)
            return None
        self._batches.rewind(*position)
        if not compiler_failed:
            return failure
        record_compiler_failure(failure)
        self._compiles, self._forward = False, self._model
        for buffer, saved in buffers:
            buffer.copy_(saved)
        return self._try_step_or_rewind()

    def _reduce_step_memory(self, error: Exception) -> None:
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
        self._compiled.clear()  # the compiler runs again for the smaller passes

    def _do_step(self) -> None:
        rate = compute_learning_rate(self._recipe, self.step, self._batches.steps_per_epoch)
        if self._learning_rate is not None:
            self._learning_rate.fill_(rate)
        for group in self._optimiser.param_groups:
            group["lr"] = rate if self._learning_rate is None else self._learning_rate
        parts = self._batches.draw_next()
        with DRAWING, torch.random.fork_rng(devices=[]):  # layers with random numbers use the global generator
            # `torch.manual_seed` seeds the GPU, too, but takes 0.2 ms, up to a 50th of a small step on a CPU
            seed = torch.manual_seed if self._gpu else torch.default_generator.manual_seed
            seed(self._seed * _SEED_DISTANCE + self.step)
            if self._replayed is not None and self.images_per_pass == self._batches.size:
                images, labels = self._batches.load(parts[0], self.step)
                loss = self._replayed.run_or_replay(self._update_weights, images, labels)
            else:
                self._optimiser.zero_grad()
                losses = [self._add_gradients(*self._batches.load(index, self.step)) for index in parts]
                loss = torch.stack(losses).sum()
                self._optimiser.step()
        self.losses.append(loss)
        self.step += 1

    def _make_replayed_steps(self) -> ReplayedSteps | None:
        """Return replayed steps; None if a step has several passes, is on a CPU, or is not replayable."""
        has_one_pass = self.images_per_pass == self._batches.size
        if self._gpu and has_one_pass and is_replayable(self._model):
            return ReplayedSteps()
        return None

    def _update_weights(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take an optimiser step with the gradients of one pass over the whole batch; return the batch's loss."""
        self._optimiser.zero_grad()
        loss = self._add_gradients_of_one_pass(images, labels)
        self._optimiser.step()
        return loss

    def get_state(self) -> dict[str, Any]:
        """Return the state, from which `restore` resumes."""
        waiting, generator_states = self._batches.get_position()
        return {
            "step": self.step,
            "model": self._model.state_dict(),
            "optimiser": self._optimiser.state_dict(),
            "losses": list(self.losses),
            "waiting": waiting.clone(),
            "generators": generator_states,
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
        self._batches.rewind(state["waiting"], state["generators"])
        self._replayed = self._make_replayed_steps()  # a graph would write into the optimiser's earlier tensors

    def _add_gradients(self, images: Tensor, labels: Tensor) -> Tensor:
        """Run the forward and backward passes of a part of the batch; return the part's share of the batch's loss."""
        pairs = zip(torch.split(images, self.images_per_pass), torch.split(labels, self.images_per_pass), strict=True)
        return torch.stack([self._add_gradients_of_one_pass(*pair) for pair in pairs]).sum()

    def _add_gradients_of_one_pass(self, images: Tensor, labels: Tensor) -> Tensor:
        # within a context of the caller the cache would keep the weights of the first step
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._bf16, cache_enabled=False):
            logits = self._forward(images)
        mean = cross_entropy(logits.float(), labels, label_smoothing=self._recipe.smoothing)
        loss = mean * (len(images) / self._batches.size)
        shape = images.shape[1:]
        if self._compiles or self._device.type != "cpu" or not self._needs_correction.get(shape, True):
            loss.backward()  # type: ignore[no-untyped-call]
        else:
            with CorrectedGradients() as mode:  # type: ignore[no-untyped-call]
                loss.backward()  # type: ignore[no-untyped-call]
            self._needs_correction[shape] = mode.changed
        return loss.detach()


def group_by_weight_decay(model: nn.Module, weight_decay: float) -> list[dict[str, object]]:
    """Group parameters for the optimiser: biases and batch norm, which are one-dimensional, have no weight decay."""
    parameters = list(model.parameters())
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]


def _call_without_compiler(optimiser: type[_O]) -> type[_O]:
    """Return a subclass of a torch optimiser that does not import torch's compiler, which takes seconds.

    torch wraps these methods in functions that import the compiler when they are first called.
    """
    names = ("add_param_group", "load_state_dict", "state_dict", "step", "zero_grad")
    methods: dict[str, Any] = {name: inspect.unwrap(getattr(optimiser, name)) for name in names}
    return type(optimiser.__name__, (optimiser,), methods | {"step": torch.no_grad()(methods["step"])})


_ADAMW, _SGD = _call_without_compiler(torch.optim.AdamW), _call_without_compiler(torch.optim.SGD)


def _make_optimiser(model: nn.Module, recipe: Recipe) -> torch.optim.Optimizer:
    groups = group_by_weight_decay(model, recipe.weight_decay)
    if recipe.optimiser is Optimiser.ADAMW:
        on_gpu = find_device(model).type == "cuda"  # CUDA graphs need `capturable`
        return _ADAMW(groups, lr=0.0, betas=(recipe.momentum, 0.999), fused=True, capturable=on_gpu)
    return _SGD(groups, lr=0.0, momentum=recipe.momentum, nesterov=True, fused=True)
