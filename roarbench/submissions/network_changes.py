"""Find out whether a function changed the network that it explained, and undo the change; runs in the sandbox, too.

The copy of a state follows the modules, containers, tensors and plain objects (such as a configuration) that a network
holds, so that `restore` brings back the same objects with the same values. Functions, classes and their closures are
the caller's own and are not followed.
"""

from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterator
from contextlib import suppress
from types import ModuleType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from roarbench.common.device_settings import restore_global_generators
from roarbench.compute.external_networks import extract_logits

ADVICE = "(weights, mode, hooks, methods or modules); undo this at the end, or work on copy.deepcopy(model)"
Outputs = tuple[Tensor | None, Tensor | None]  # logits (n, classes) and gradients (n, c, h, w)
_MISSING = object()
_DICTS = (dict, OrderedDict, defaultdict)
_SEQUENCES = (list, deque)
_FORM = ("shape", "dtype", "device", "layout")  # of a tensor
_GRADIENT_ROUNDING = 1e-4  # of the norm
_DEEPEST = 3  # nested plain objects, such as the parts of a configuration; a trainer may lead to whole data sets
# packages whose objects have state outside Python, or belong to the whole process
_NOT_FOLLOWED = {"torch", "numpy", "threading", "weakref", "logging", "_thread", "functools", "enum", "re"}


class _Module(NamedTuple):
    """A module's class and mode."""

    module: nn.Module
    kind: type
    training: Any  # `_MISSING` of a frozen TorchScript module, which has no modes

    def is_kept(self) -> bool:
        return type(self.module) is self.kind and getattr(self.module, "training", _MISSING) is self.training

    def restore(self) -> None:
        if type(self.module) is not self.kind:
            self.module.__class__ = self.kind
        if not self.is_kept() and self.training is not _MISSING:
            self.module.training = self.training  # TorchScript keeps the mode outside the dictionary


class _Container(NamedTuple):
    """A dict (also that of an object's attributes), list, set or NumPy array, with a shallow copy."""

    live: Any
    copy: Any

    def is_kept(self) -> bool:
        live, copy = self.live, self.copy
        if isinstance(live, np.ndarray):
            return bool(live.shape == copy.shape and live.tobytes() == copy.tobytes())
        if len(live) != len(copy):
            return False
        if isinstance(live, set):
            return bool(live == copy)
        if isinstance(live, dict):
            return all(copy.get(key, _MISSING) is value for key, value in live.items())
        return all(one is other for one, other in zip(live, copy, strict=True))

    def restore(self) -> None:
        if isinstance(self.live, np.ndarray):
            self.live[...] = self.copy
            return
        self.live.clear()
        (self.live.extend if isinstance(self.live, _SEQUENCES) else self.live.update)(self.copy)


class _TensorState(NamedTuple):
    """A tensor that a network holds, with a copy of its numbers."""

    tensor: Tensor
    memory: Tensor  # shares the tensor's memory
    copy: Tensor | None  # None for a tensor without numbers, or of a kind that cannot be copied
    requires_grad: bool
    grad: Tensor | None

    @classmethod
    def read(cls, tensor: Tensor) -> Self:
        copy = None
        if not is_lazy(tensor) and not tensor.is_meta:
            with suppress(Exception):  # subclasses of tensors, such as quantised weights, may lack `clone`
                copy = tensor.detach().clone()
        grad = tensor.grad if tensor.is_leaf else None
        return cls(tensor, tensor.data if copy is not None else tensor, copy, tensor.requires_grad, grad)

    def is_kept(self) -> bool:
        tensor = self.tensor
        same = tensor.requires_grad is self.requires_grad and (not tensor.is_leaf or tensor.grad is self.grad)
        return same and self.has_same_numbers()

    def has_same_numbers(self) -> bool:
        return self.copy is None or (self._has_own_memory() and _are_identical(self.tensor, self.copy))

    def _has_own_memory(self) -> bool:
        plain = type(self.tensor) in (Tensor, nn.Parameter) and self.tensor.layout is torch.strided
        return not plain or self.tensor.data_ptr() == self.memory.data_ptr()

    def restore(self) -> None:
        tensor = self.tensor
        if tensor.is_leaf:
            if tensor.requires_grad is not self.requires_grad:
                tensor.requires_grad_(self.requires_grad)
            if tensor.grad is not self.grad:
                tensor.grad = None  # a gradient of another shape or dtype could not be assigned to changed numbers
        if self.copy is not None:
            with torch.inference_mode(tensor.is_inference()), torch.no_grad():
                form, was = ([getattr(one, name) for name in _FORM] for one in (tensor, self.copy))
                if form != was or not self._has_own_memory():
                    tensor.data = self.memory
                if not _are_identical(tensor, self.copy):
                    tensor.copy_(self.copy)  # in place, because copies of the network may share these weights
        if tensor.is_leaf and tensor.grad is not self.grad:
            tensor.grad = self.grad


class NetworkState(NamedTuple):
    """Everything that a network holds, which an estimator must not change."""

    modules: list[_Module]
    containers: list[_Container]
    tensors: list[_TensorState]

    @classmethod
    def read(cls, model: nn.Module) -> Self:
        """Copy the present state of a network."""
        found = list(_list_held_objects(model))
        modules = [_Module(part, type(part), getattr(part, "training", _MISSING)) for part in model.modules()]
        containers = [_Container(item, item.copy()) for item in found if not isinstance(item, Tensor)]
        return cls(modules, containers, [_TensorState.read(item) for item in found if isinstance(item, Tensor)])

    def has_same_outputs(self) -> bool:
        """Return whether nothing that the outputs may depend on was replaced; gradients and freezing do not count."""
        kept = all(module.is_kept() for module in self.modules)
        kept = kept and all(container.is_kept() for container in self.containers)
        return kept and all(tensor.has_same_numbers() for tensor in self.tensors)

    def restore(self) -> None:
        """Give the network this state again: the same objects, with the same contents and numbers."""
        parts: list[_Module | _Container | _TensorState] = [*self.modules, *self.containers, *self.tensors]
        for part in parts:
            if not part.is_kept():
                part.restore()

    def undo_changes(self, model: nn.Module, images: Tensor) -> bool:
        """Restore this state; return whether logits, or gradients beyond rounding, of these images were others before.

        They are not if libraries left hooks that only record, as those of transformers for `output_attentions`, or
        stored parameters anew. Some kernels of a GPU round gradients differently.
        """
        before = compute_logits_and_gradients(model, images)
        self.restore()
        return not have_same_outputs(before, compute_logits_and_gradients(model, images))


def have_same_outputs(one: Outputs, other: Outputs) -> bool:
    """Return whether two results of `compute_logits_and_gradients` are equal, gradients up to rounding."""
    (logits, gradients), (other_logits, other_gradients) = one, other
    if logits is None or other_logits is None or not torch.equal(logits, other_logits):
        return False
    if gradients is None or other_gradients is None:
        return gradients is other_gradients
    gradients, other_gradients = gradients.nan_to_num(), other_gradients.nan_to_num()
    return bool((gradients - other_gradients).norm() <= _GRADIENT_ROUNDING * gradients.norm())


def compute_logits_and_gradients(model: nn.Module, images: Tensor) -> Outputs:
    """Compute logits (n, classes) and gradients (n, c, h, w) in the network's present mode; None if this fails."""
    inputs = images.clone().requires_grad_()
    with restore_global_generators(), suppress(Exception):  # a changed network may raise anything
        logits = extract_logits(model(inputs))
        gradients = None
        with suppress(RuntimeError):  # from torch: the logits have no gradient
            (gradients,) = torch.autograd.grad(logits.logsumexp(1).sum(), inputs)
        return logits.detach(), gradients
    return None, None


def _list_held_objects(model: nn.Module) -> Iterator[Any]:
    """Yield each mutable container, attribute dict, array and tensor that a network holds."""
    waiting: list[tuple[Any, int]] = [(model, 0)]
    seen: dict[int, Any] = {}  # the objects themselves are kept, so that no id is used twice
    while waiting:
        item, depth = waiting.pop()
        kind = type(item)
        if kind in (str, int, float, bool, type(None)) or id(item) in seen:
            continue
        seen[id(item)] = item
        if isinstance(item, torch.jit.ScriptModule):
            waiting += [(tensor, 0) for tensor in (*item.parameters(), *item.buffers())]
        elif isinstance(item, Tensor) or kind is np.ndarray:
            if depth == 0:
                yield item
        elif kind in _DICTS:
            yield item
            waiting += [(value, depth) for value in item.values()]
        elif kind in _SEQUENCES or kind is set:
            yield item
            waiting += [(value, depth) for value in item]
        elif isinstance(item, tuple):
            waiting += [(value, depth) for value in item]
        elif isinstance(item, nn.Module) or (depth < _DEEPEST and _is_plain_object(item)):
            below = depth if isinstance(item, nn.Module) else depth + 1
            yield vars(item)
            waiting += [(value, below) for value in vars(item).values()]


def _is_plain_object(item: Any) -> bool:
    """Return whether an object keeps its state in its attributes, as a configuration does."""
    kind = type(item)
    plain = not isinstance(item, type | ModuleType) and type(getattr(item, "__dict__", None)) is dict
    return plain and (kind.__module__ or "").partition(".")[0] not in _NOT_FOLLOWED and not callable(item)


def _are_identical(one: Tensor, other: Tensor) -> bool:
    # of a quantised weight of torchao, whose type cannot be compared, the numbers are compared
    with suppress(Exception):  # other tensor types have no `dequantize`, or several meanings of it
        one, other = (each if type(each) in (Tensor, nn.Parameter) else each.dequantize() for each in (one, other))
    alike = one.layout is torch.strided and one.dtype is other.dtype
    if one is other or (alike and torch.equal(one, other)):
        return True  # the usual case, which `assert_close` would make slow
    with suppress(AssertionError):  # unlike `torch.equal`, `assert_close` compares sparse tensors, and NaN as equal
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        return True
    return False
