"""Check a caller's networks, wrap them, and restore them and the global random generators after use."""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from roarbench.api.inputs import move_to_model, warn_caller
from roarbench.common.errors import CallerError
from roarbench.common.text import describe_type
from roarbench.compute.external_networks import (
    WrappedNetwork,
    add_second_logit,
    make_logits_hook,
    wrap_to_return_logits,
)
from roarbench.compute.network_checks import check_network_outputs, list_single_logit_warnings
from roarbench.estimators.compute_maps import use_exact_eager_mode
from roarbench.submissions.network_changes import ADVICE, NetworkState

_FEW = 4  # images for the checks of a network
_SINGLE_LOGIT_IMAGES = 64  # images for the check of a network with one output


def read_networks(networks: Any, argument: str, example: str) -> list[nn.Module]:
    """Return several networks as a list; CallerError for anything else."""
    if isinstance(networks, nn.Module | Tensor | np.ndarray | str) or not isinstance(networks, Iterable):
        raise CallerError(f"{argument} is {describe_type(networks)}, expected a list of networks; write {example}")
    listed = list(networks)
    for number, network in enumerate(listed, 1):
        if not isinstance(network, nn.Module):
            seen = f"item {number} of {argument} is {describe_type(network)}"
            raise CallerError(f"{seen}, expected a torch.nn.Module")
    return listed


def check_and_wrap_network(model: nn.Module, pixels: Tensor, name: str = "the network") -> nn.Module:
    """Return the network in float32 with a logit per class; warn of doubtful outputs, refuse unusable outputs."""
    model = convert_to_float32(model, name, warn_caller)
    few = take_few_images(model, pixels)
    wrapped = wrap_to_return_logits(model, few)
    network = add_second_logit(wrapped, few)
    warnings_found = check_network_outputs(network, few, name)
    if network is not wrapped:
        warnings_found += find_single_logit_warnings(network, pixels, name)
    for warning in warnings_found:
        warn_caller(warning)
    return network


def take_few_images(model: nn.Module, pixels: Tensor) -> Tensor:
    """Return two to four images for the checks of a network, on its device and in its dtype."""
    return move_to_model(model, pixels[:_FEW] if len(pixels) > 1 else pixels.repeat(2, 1, 1, 1))


def find_single_logit_warnings(network: nn.Module, pixels: Tensor, name: str = "the network") -> list[str]:
    """Return `list_single_logit_warnings` of evenly spaced images, because files are often sorted by class."""
    spaced = pixels[:: -(-len(pixels) // _SINGLE_LOGIT_IMAGES)]
    return list_single_logit_warnings(network, move_to_model(network, spaced.clone()), name)


def convert_to_float32(model: nn.Module, name: str, say: Callable[[str], object]) -> nn.Module:
    """Return the network itself if its weights are float32, else a float32 copy; report a copy to `say`."""
    weights = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    if any(tensor.is_meta for tensor in weights):
        seen = f"{name} is on the device meta, where weights have no numbers"
        raise CallerError(f"{seen}; build the network on the CPU, then load its weights")
    if any(map(is_lazy, model.parameters())):
        raise CallerError(f"{name} has a lazy layer without weights; call it once, then load its weights")
    other_types = {str(tensor.dtype).removeprefix("torch.") for tensor in weights} - {"float32"}
    if not other_types:
        return model
    say(f"{name} has weights in {', '.join(sorted(other_types))}; a copy in float32 is used")
    return deepcopy(model).float()


@contextmanager
def borrow_networks(models: Sequence[Any]) -> Iterator[None]:
    """Use networks in eval mode, in exact float32 and without compiled code; restore the caller's state at the end.

    The restored state is the mode of every module, each parameter's `grad` and `requires_grad` (a caller's function may
    set both), and the states of the global random generators. CallerError for objects that are not networks.
    """
    for model in models:
        if not isinstance(model, nn.Module):
            raise CallerError(f"the network is {describe_type(model)}, expected a torch.nn.Module")
    modes = _read_modes(models)
    parameters = [parameter for model in models for parameter in model.parameters() if not is_lazy(parameter)]
    gradient_state = [(parameter, parameter.requires_grad, parameter.grad) for parameter in parameters]
    with keep_global_generators():
        try:
            for model in models:
                if hasattr(model, "training"):  # a frozen TorchScript module has no modes
                    model.eval()
            for parameter in parameters:
                parameter.grad = None  # `backward` would add to a gradient in place
            with use_exact_eager_mode():
                yield
        finally:
            _restore_modes(modes)
            for parameter, requires_grad, gradient in gradient_state:
                parameter.requires_grad_(requires_grad).grad = gradient


@contextmanager
def show_own_network(network: nn.Module) -> Iterator[nn.Module]:
    """Yield the caller's own module in place of the result of `check_and_wrap_network`.

    Meanwhile the module returns a logit per class if it is called with images alone (`make_logits_hook`).
    """
    own = network
    while isinstance(own, WrappedNetwork):
        own = own.inner
    # a script module takes no hooks
    if not isinstance(network, WrappedNetwork) or isinstance(own, torch.jit.ScriptModule):
        yield network
        return
    hook = own.register_forward_hook(make_logits_hook(network.adapt_output), with_kwargs=True)
    try:
        yield own
    finally:
        hook.remove()


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
    """Undo changes of the network at the end, and raise CallerError if the function `name` made any."""
    state = NetworkState.read(model)
    try:
        yield
    finally:
        if changed := not state.is_kept_by(model):
            state.restore(model)
    if changed:
        raise CallerError(f"{name} modified the model {ADVICE}")


@contextmanager
def restore_attributes(model: object) -> Iterator[None]:
    """At the end, give the modules of a network the attributes that they have now."""
    modules = model.modules() if isinstance(model, nn.Module) else ()
    before = [(module, dict(vars(module))) for module in modules]
    try:
        yield
    finally:
        for module, attributes in before:
            vars(module).clear()
            vars(module).update(attributes)


@contextmanager
def empty_tensors_of_forward(model: nn.Module, images: Tensor) -> Iterator[None]:
    """Empty the attributes in which a forward pass stores new tensors, such as attention, and restore them at the end.

    A tensor becomes None; lists, tuples and dicts become empty. So the network has the same attributes before its first
    forward pass and after it.
    """
    with restore_attributes(model):
        before = {(module, name): tensors for _, module, name, tensors in _list_plain_tensors(model)}
        with suppress(Exception), borrow_networks([model]), torch.no_grad():
            model(images.clone())
        for _, module, name, tensors in list(_list_plain_tensors(model)):
            if [*map(id, tensors)] != [*map(id, before.get((module, name), []))]:
                value = vars(module)[name]
                vars(module)[name] = None if isinstance(value, Tensor) else type(value)()
        yield


def find_uncopyable_tensor(model: nn.Module) -> str:
    """Return the path of an attribute whose tensor has a graph, so that it cannot be copied; empty if there is none."""
    found = _list_plain_tensors(model)
    return next((path for path, *_, tensors in found if not all(tensor.is_leaf for tensor in tensors)), "")


def _list_plain_tensors(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, list[Tensor]]]:
    """Yield the path, module and name of each attribute with tensors that are neither parameters nor buffers."""
    of_every_module = vars(nn.Module()).keys()
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else [value]
            tensors = [item for item in items if isinstance(item, Tensor)]
            if tensors and name not in of_every_module:
                yield f"{prefix}.{name}".lstrip("."), module, name, tensors


def _read_modes(models: Sequence[nn.Module]) -> list[tuple[nn.Module, bool]]:
    return [(module, module.training) for model in models for module in model.modules() if hasattr(module, "training")]


def _restore_modes(modes: list[tuple[nn.Module, bool]]) -> None:
    for module, training in modes:
        module.training = training
