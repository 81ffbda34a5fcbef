"""Context managers that restore a caller's networks and the global random generators after their use."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from roarbench.common.errors import CallerError
from roarbench.common.text import describe_type
from roarbench.estimators.compute_maps import use_exact_eager_mode


@contextmanager
def borrow_networks(models: Sequence[Any]) -> Iterator[None]:
    """Use networks in evaluation mode, exact float32 and without compiled code; restore the caller's state at the end.

    The restored state is the mode of every module, each parameter's `grad` and `requires_grad` (a caller's function may
    set both), and the states of the global random generators. CallerError for objects that are not networks.
    """
    for model in models:
        if not isinstance(model, nn.Module):
            raise CallerError(f"the network is {describe_type(model)}, expected a torch.nn.Module")
    modes = _read_modes(models)
    parameters = [parameter for model in models for parameter in model.parameters() if not is_lazy(parameter)]
    gradients = [(parameter, parameter.requires_grad, parameter.grad) for parameter in parameters]
    with keep_global_generators():
        try:
            for model in models:
                if hasattr(model, "training"):  # a frozen script has no modes
                    model.eval()
            for parameter in parameters:
                parameter.grad = None  # `backward` would add to a gradient in place
            with use_exact_eager_mode():
                yield
        finally:
            _restore_modes(modes)
            for parameter, needed, gradient in gradients:
                parameter.requires_grad_(needed).grad = gradient


@contextmanager
def keep_global_generators() -> Iterator[None]:
    """Restore the states of the global random generators of torch, NumPy and Python at the end."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()  # type: ignore[no-untyped-call]
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002 (the global one)
    try:
        with torch.random.fork_rng(devices):
            yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)


@contextmanager
def refuse_changes_of_network(model: nn.Module, name: str) -> Iterator[None]:
    """Raise CallerError at the end if the function `name` changed weights or modes; restore these first."""
    weights = {key: tensor.detach().clone() for key, tensor in _read_weights(model).items()}
    modes = _read_modes([model])
    yield
    now = _read_weights(model)
    same = now.keys() == weights.keys() and all(_are_identical(now[key], weights[key]) for key in weights)
    if same and _read_modes([model]) == modes:
        return
    with torch.no_grad():
        for key in now.keys() & weights.keys():
            if now[key].shape == weights[key].shape:
                now[key].copy_(weights[key])
    _restore_modes(modes)
    raise CallerError(f"{name} changed the network (weights or mode); use copy.deepcopy(model)")


def _read_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return the tensors of a network's state dict without detaching them: detached sparse tensors share no memory."""
    return {key: value for key, value in model.state_dict(keep_vars=True).items() if isinstance(value, Tensor)}


_Modes = list[tuple[nn.Module, bool]]


def _read_modes(models: Sequence[nn.Module]) -> _Modes:
    return [(module, module.training) for model in models for module in model.modules() if hasattr(module, "training")]


def _restore_modes(modes: _Modes) -> None:
    for module, training in modes:
        module.training = training


def _are_identical(one: Tensor, other: Tensor) -> bool:
    with suppress(AssertionError):  # unlike `torch.equal`, `assert_close` compares sparse tensors, and NaN as equal
        torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True)
        return True
    return False
