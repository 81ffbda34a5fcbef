"""Count the forward and backward passes of images through a network, for code that calls the network in any way.

A pass is the work of one forward, or one backward, of one image through the whole network; a batch of n images makes n
passes. Work is counted where the network's layers with weights (convolutions and linear layers) are computed, in
multiply-adds, and is divided by the work of one image. Therefore, the way in which code calls the network does not
matter: as a whole or layer by layer, as a copy, or with other weights of the same shapes. A part of the network is a
fraction of a pass, an image of twice the width and height is four passes, and the derivative of a backward pass counts
as further backward passes through the layers that it computes.
"""

import os
import resource
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from math import prod
from threading import Lock
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._C._functorch import get_unwrapped, is_functorch_wrapped_tensor, is_legacy_batchedtensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.utils.hooks import RemovableHandle

_LAYER_FUNCTIONS = ("conv1d", "conv2d", "conv3d", "linear")
# a transformer's layers call these functions of torch instead, with all their weights, if no gradient is needed
_FUSED_FUNCTIONS = ("_transformer_encoder_layer_fwd", "_native_multi_head_attention")
# CPU seconds of started programs that explain nothing: matplotlib looks for `fc-list`, and captum imports matplotlib;
# a process that imports torch needs more than a second
_SECONDS_OF_PROGRAM = 0.1
Shape = tuple[int, ...]
_forks = [0]  # forks of this process


def _count_fork() -> None:
    _forks[0] += 1


os.register_at_fork(before=_count_fork)


class CountedWork(NamedTuple):
    """Multiply-adds in layers with weights."""

    forward: int
    backward: int


class PassCounter:
    """Counter of the passes through a network, and through all networks with layers of the same shapes.

    The count is unknown (None) from the moment at which work cannot be counted: if code compiles, traces or scripts
    the network, replaces the counting functions, or uses other processes.
    """

    def __init__(self, model: nn.Module, image: Tensor) -> None:
        """Measure the work of one pass of an image, (1, c, h, w), through a network in eval mode."""
        # from the shapes of weights to multiply-adds per value of the layer's result
        self._shapes = {tuple(each.shape): prod(each.shape[1:]) for each in model.parameters() if each.ndim > 1}
        self._lock = Lock()
        self._work = CountedWork(0, 0)
        self._uncountable = False
        with self.count(), torch.enable_grad():
            inputs = image.detach().clone().requires_grad_()
            torch.autograd.grad(model(inputs).sum(), inputs)
        self._unit, self._work = self._work, CountedWork(0, 0)

    @contextmanager
    def count(self) -> Iterator[None]:
        """Count work within this block, in all threads; blocks of several counters must not overlap in time."""
        places = [(F, name) for name in _LAYER_FUNCTIONS] + [(torch, name) for name in _LAYER_FUNCTIONS[:-1]]
        places += [(torch, name) for name in _FUSED_FUNCTIONS] + [(torch.jit, "script")]
        originals = [(place, name, getattr(place, name)) for place, name in places]
        replacements = [(place, name, self._wrap(name, original)) for place, name, original in originals]
        _set_attributes(replacements)
        forks, children = _forks[0], _measure_seconds_of_children()
        try:
            yield
        finally:
            kept = all(getattr(place, name) is new for place, name, new in replacements)
            seconds = _measure_seconds_of_children() - children
            alone = forks == _forks[0] and seconds < _SECONDS_OF_PROGRAM
            self._uncountable |= not (kept and alone)
            _set_attributes(originals)
            numbers = torch.jit._builtins._get_builtin_table()  # type: ignore[no-untyped-call]
            for _, _, new in replacements:
                numbers.pop(id(new), None)  # the number may become another object's

    def read_work(self) -> CountedWork:
        """Return the work that has been counted so far."""
        return self._work

    def restore_work(self, work: CountedWork) -> None:
        """Forget the work that was counted since `read_work` returned `work`."""
        self._work = work

    def count_passes_since(self, work: CountedWork) -> tuple[float, float] | None:
        """Return the forward and backward passes since `read_work` returned `work`; None if they are unknown."""
        if self._uncountable or not all(self._unit):
            return None
        forward, backward = (now - then for now, then in zip(self._work, work, strict=True))
        return forward / self._unit.forward, backward / self._unit.backward

    def read_passes(self) -> tuple[float, float] | None:
        """Return the forward and backward passes of all images so far; None if they are unknown."""
        return self.count_passes_since(CountedWork(0, 0))

    def _wrap(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        if name == "script":

            def script(code: Any, *arguments: Any, **named: Any) -> Any:
                self._uncountable |= isinstance(code, nn.Module)
                return original(code, *arguments, **named)

            return script
        measure = _measure_fused_layers if name in _FUSED_FUNCTIONS else _measure_layer

        def compute(*arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            if torch._C._get_tracing_state() is not None or torch.compiler.is_compiling():
                self._uncountable = True  # nothing counts the calls of code that was made from the network
            elif (work := measure(self._shapes, result, *arguments, **named)) is not None:
                tangent = False  # forward-mode differentiation computes the layer once more
                if forward_ad._current_level >= 0 and isinstance(result, Tensor):
                    tangent = forward_ad.unpack_dual(result).tangent is not None  # type: ignore[no-untyped-call]
                with self._lock:
                    self._work = self._work._replace(forward=self._work.forward + (1 + tangent) * work.total)
                if work.per_value and result.grad_fn is not None and result.numel():
                    self._count_backward(result, work.per_value * result.numel(), work.input_shape)
            return result

        # code that is scripted takes the function for torch's own
        torch.jit._builtins._register_builtin(compute, f"aten::{name}")
        return compute

    def _count_backward(self, result: Tensor, total: int, input_shape: torch.Size) -> None:
        """Count `total` multiply-adds whenever the gradient of a layer's input is computed from one of `result`."""
        node, shape, count = result.grad_fn, result.shape, result.numel()
        assert node is not None

        def add(gradients: tuple[Tensor | None, ...]) -> None:
            given = [each for each in gradients if each is not None]
            if any(map(is_legacy_batchedtensor, given)):  # `is_grads_batched`, which hides the number of gradients
                self._uncountable = True
                return
            work = total * sum(map(_count_values, given)) // count
            with self._lock:
                self._work = self._work._replace(backward=self._work.backward + work)
            if torch.is_grad_enabled():  # `create_graph`
                handle = node.register_hook(lambda inputs, outputs: follow(handle, inputs))

        def follow(handle: RemovableHandle, gradients: tuple[Tensor | None, ...]) -> None:
            handle.remove()
            made = [each for each in gradients if each is not None and each.grad_fn is not None]
            own = next((each for each in made if each.shape == input_shape), next(iter(made), None))
            if own is not None:
                self._count_backward(own, total, shape)

        node.register_prehook(add)


class LayerWork(NamedTuple):
    """Work of one call of a layer."""

    total: int  # multiply-adds
    per_value: int  # multiply-adds per value of the result
    input_shape: torch.Size


def _measure_layer(shapes: Mapping[Shape, int], result: Any, *arguments: Any, **named: Any) -> LayerWork | None:
    inputs = arguments[0] if arguments else named.get("input")
    weight = arguments[1] if len(arguments) > 1 else named.get("weight")
    per_value = shapes.get(weight.shape) if isinstance(weight, Tensor) else None
    if per_value is None or not isinstance(inputs, Tensor) or not isinstance(result, Tensor):
        return None
    return LayerWork(per_value * _count_values(result), per_value, inputs.shape)


def _measure_fused_layers(shapes: Mapping[Shape, int], result: Any, *arguments: Any, **named: Any) -> LayerWork:
    inputs = arguments[0]
    weights = [each for each in arguments[1:] if isinstance(each, Tensor) and each.ndim == 2]
    per_row = sum(each.numel() for each in weights if each.shape in shapes)
    return LayerWork(per_row * _count_values(inputs) // inputs.shape[-1], 0, inputs.shape)


def _count_values(tensor: Tensor) -> int:
    """Count a tensor's values, including the dimensions that `torch.func` hides from the tensor's shape."""
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
    return tensor.numel()


def _measure_seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _set_attributes(values: list[tuple[Any, str, Any]]) -> None:
    for place, name, value in values:
        setattr(place, name, value)
