"""Find out whether a function changed the network that it explained, and undo the change; runs in the sandbox, too."""

from contextlib import suppress
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

ADVICE = "(weights, mode, hooks, methods or modules); undo this at the end, or work on copy.deepcopy(model)"
_COMPARED = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks", "_modules")
_RESTORED = (*_COMPARED, "_parameters", "_buffers")


class _Module(NamedTuple):
    """One module of a network, with the contents of its dictionaries."""

    module: nn.Module
    kind: type
    attributes: dict[str, Any]  # `training`, and objects that replace methods of the class, such as `forward`
    dictionaries: dict[str, dict[str, Any]]  # by the names of `_RESTORED`

    @classmethod
    def read(cls, module: nn.Module) -> Self:
        kind, held = type(module), vars(module)
        attributes = {name: value for name, value in held.items() if callable(getattr(kind, name, None))}
        if hasattr(module, "training"):  # a frozen TorchScript module has no modes
            attributes["training"] = module.training
        return cls(module, kind, attributes, {name: dict(held[name].items()) for name in _RESTORED if name in held})

    def equals(self, other: "_Module") -> bool:
        pairs = [(self.dictionaries[name], other.dictionaries[name]) for name in _COMPARED if name in self.dictionaries]
        same = all(_hold_same_objects(*pair) for pair in [(self.attributes, other.attributes), *pairs])
        return same and self.module is other.module and self.kind is other.kind

    def restore(self) -> None:
        now = self.read(self.module)
        if now.kind is not self.kind:
            self.module.__class__ = self.kind
        for name, contents in self.dictionaries.items():
            if not _hold_same_objects(contents, now.dictionaries[name]):
                vars(self.module)[name].clear()
                vars(self.module)[name].update(contents)
        for name in now.attributes.keys() - self.attributes.keys():
            del vars(self.module)[name]
        for name, value in self.attributes.items():
            if now.attributes.get(name) is not value:
                setattr(self.module, name, value)


class NetworkState(NamedTuple):
    """Properties of a network that an estimator must not change."""

    weights: dict[str, Tensor]  # copies of the tensors of the state dict
    modules: list[_Module]

    @classmethod
    def read(cls, model: nn.Module) -> Self:
        """Copy the present state of a network."""
        weights = {key: tensor.detach().clone() for key, tensor in _read_live_weights(model).items()}
        return cls(weights, list(map(_Module.read, model.modules())))

    def is_kept_by(self, model: nn.Module) -> bool:
        """Return whether the network still has this state."""
        weights, modules = _read_live_weights(model), list(map(_Module.read, model.modules()))
        return (
            len(modules) == len(self.modules)
            and all(now.equals(then) for now, then in zip(modules, self.modules, strict=True))
            and weights.keys() == self.weights.keys()
            and all(_are_identical(weights[key], self.weights[key]) for key in weights)
        )

    def restore(self, model: nn.Module) -> None:
        """Give the network this state again, as far as possible."""
        for module in self.modules:
            module.restore()
        with torch.no_grad():
            for key, tensor in _read_live_weights(model).items():
                weights = self.weights.get(key)
                if weights is None:
                    continue
                if all(getattr(tensor, name) == getattr(weights, name) for name in ("shape", "dtype", "device")):
                    tensor.copy_(weights)  # in place, because copies of the network may share these weights
                else:
                    tensor.data = weights


def _hold_same_objects(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return one.keys() == other.keys() and all(one[key] is other[key] for key in one)


def _read_live_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a network's state dict without detaching them: detached sparse tensors share no memory."""
    return {key: value for key, value in model.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}


def _are_identical(one: Tensor, other: Tensor) -> bool:
    alike = one.layout is torch.strided and one.dtype is other.dtype and one.device == other.device
    if alike and torch.equal(one, other):
        return True  # the usual case, which `assert_close` would make slow
    with suppress(AssertionError):  # unlike `torch.equal`, `assert_close` compares sparse tensors, and NaN as equal
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        return True
    return False
