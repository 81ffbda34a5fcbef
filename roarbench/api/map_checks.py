"""Find functions whose maps are of another class than the target, turned, or by rules that miss functions."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from roarbench.api.user_networks import find_own_network
from roarbench.compute.external_networks import extract_logits, make_logits_hook
from roarbench.submissions.limits_and_faults import OF_LOSS, TURNED
from roarbench.submissions.submission_validation import (
    are_equal_up_to_rounding,
    are_gradients_of_loss,
    are_turned,
    change_corners,
)

_RELUS = (F.relu, F.relu_, torch.relu, torch.relu_, Tensor.relu, Tensor.relu_, torch.ops.aten.relu.default)
_MODULES: dict[Any, type[nn.Module]] = {
    **dict.fromkeys(_RELUS, nn.ReLU),
    **dict.fromkeys((torch.tanh, Tensor.tanh), nn.Tanh),
    **dict.fromkeys((torch.sigmoid, Tensor.sigmoid), nn.Sigmoid),
    **dict.fromkeys((F.max_pool2d, torch.max_pool2d), nn.MaxPool2d),
}
_OF_POOLS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")  # arguments of the function after the input
_ADDED = "roarbench_added"  # name of the part that a network has meanwhile
_CHANGED, _KEPT = 0.1, 1e-3  # of a map's spread: a map of another class changes by about 1 and by rounding


def describe_unfit_maps(
    make_maps: Callable[..., Tensor], maps: Tensor, network: nn.Module, images: Tensor, targets: Tensor
) -> Iterator[str]:
    """Yield what is wrong with a function's maps, which explain the images for the targets.

    `make_maps(images, targets)` makes such maps, also within a context `watch`.
    """
    if _is_of_another_class(partial(make_maps, images), maps, network, images, targets):
        yield (
            "is of another class than the target, such as class 0, a label that it kept or the runner-up, so the row "
            "is not about the predicted class; explain the given targets"
        )
    if are_gradients_of_loss(maps, network, images, targets):
        yield OF_LOSS
    if are_turned(maps, (make_maps(changed, targets) for changed in change_corners(images))):
        yield TURNED
    if _misses_functions(partial(make_maps, images, targets), maps, network, images):
        yield (
            "misses activations or pools that the network calls as functions, such as torch.nn.functional.relu: the "
            "rules of captum, zennit and others reach modules alone; write a module for each use, or use 'gb' or "
            "'deeplift'"
        )


def _is_of_another_class(
    make_maps: Callable[..., Tensor], maps: Tensor, network: nn.Module, images: Tensor, targets: Tensor
) -> bool:
    """Return whether a function explains another class than the target: a fixed one, a kept label, or the runner-up.

    Functions that find the predicted class themselves, or explain no class, are not meant.
    """
    with torch.no_grad():
        logits = network(images.clone()).detach()  # the forward of an energy-based network records gradients
    others = (targets + 1) % logits.shape[1]
    last = _find_last_layer(network, images)
    follows_targets = not are_equal_up_to_rounding(maps, make_maps(others))
    if not follows_targets and _is_chosen_by_number(make_maps, maps, last, others):
        return True
    # class 0 is far below the others for a function that follows targets, so that it has no share in their softmax;
    # for another function it is predicted, with a probability that float32 still tells from 1
    offset = (10 + math.log(logits.shape[1])) * (-1 if follows_targets else 1)
    scale = max(float(logits.max() - logits.min()), 1e-3)

    def make_changed(change: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Tensor:
        def change_logits(logits: Tensor) -> Tensor:
            own, rest = change(*(logits / scale).tensor_split([1], 1))
            return torch.cat([own + offset, rest], 1)

        made = make_maps(torch.zeros_like(targets), watch=_change_logits(last, change_logits))
        return made.double().flatten(1)

    plain = make_changed(lambda own, rest: (own, rest))
    spread = (plain - plain.mean(1, keepdim=True)).norm(dim=1)
    of_others = make_changed(lambda own, rest: (own, -rest.roll(1, 1)))
    changed = (plain - of_others).norm(dim=1) > _CHANGED * spread
    if not changed.any():
        return False
    of_constant = make_changed(lambda own, rest: (0 * own, rest))
    kept = (plain - of_constant).norm(dim=1) < _KEPT * spread
    return bool((changed & kept).any())


def _is_chosen_by_number(make_maps: Callable[..., Tensor], maps: Tensor, last: nn.Module, targets: Tensor) -> bool:
    """Return whether maps that ignore targets are others once the network's outputs are in another order."""

    def make_changed(change: Callable[[Tensor], Tensor]) -> Tensor:
        return make_maps(targets, watch=_change_logits(last, change))

    if are_equal_up_to_rounding(maps, make_changed(lambda logits: logits.roll(1, 1))):
        return False
    # a function that takes the predicted class's row of the last layer's weights, as CAM does, or weights all rows by
    # their probabilities, takes the next row twice: of the first logits, and of the second
    moved = make_changed(lambda logits: _raise(logits, logits.argmax(1)).roll(1, 1))
    next_raised = make_changed(lambda logits: _raise(logits, (logits.argmax(1) + 1) % logits.shape[1]))
    return not are_equal_up_to_rounding(moved, next_raised)


def _raise(logits: Tensor, classes: Tensor) -> Tensor:
    """Give classes, (n,), a probability of about 1, and leave the others' logits as they are."""
    raised = nn.functional.one_hot(classes, logits.shape[1])
    return logits + raised * (20 + logits.detach().max() - logits.detach().min())


def _find_last_layer(network: nn.Module, images: Tensor) -> nn.Module:
    """Return the innermost module whose output is the logits, which a function may read; else the network itself.

    A module that is called twice, or with other arguments than one, is passed over: `_change_logits` would change a
    hidden layer, too, or nothing.
    """
    own, calls = find_own_network(network), list[tuple[nn.Module, Any]]()
    usable: dict[nn.Module, bool] = {}

    def record(module: nn.Module, arguments: tuple[Any, ...], options: dict[str, Any], output: Any) -> None:
        calls.append((module, output))
        usable[module] = module not in usable and len(arguments) == 1 and not options

    with ExitStack() as stack, torch.no_grad():
        for module in own.modules():
            stack.enter_context(module.register_forward_hook(record, with_kwargs=True))
        logits = extract_logits(own(images.clone()))
    is_single = logits.ndim == 1 or logits.shape[1] == 1  # the second logit is added outside the network
    return own if is_single else next((each for each, output in calls if usable[each] and output is logits), own)


@contextmanager
def _change_logits(last: nn.Module, change: Callable[[Tensor], Tensor]) -> Iterator[None]:
    """Meanwhile, the logits of a network or last layer, called with one argument, are changed ones."""
    adapt = make_logits_hook(lambda output: change(extract_logits(output)))
    with last.register_forward_hook(adapt, with_kwargs=True):
        yield


def _misses_functions(make_maps: Callable[..., Tensor], maps: Tensor, network: nn.Module, images: Tensor) -> bool:
    """Return whether maps are others once each activation that the network calls as a function is a module."""
    own, calls = find_own_network(network), _ModuleCalls()
    if isinstance(own, torch.jit.ScriptModule):  # takes no modules
        return False
    with torch.no_grad():
        with _call_modules(own, calls):
            logits = network(images.clone())
        # logits are others if a ReLU's input in place is read again
        if not len(calls.added) or not torch.equal(logits, network(images.clone())):
            return False
    with suppress(Exception):  # a function may not expect more modules
        if are_equal_up_to_rounding(maps, make_maps(watch=_call_modules(own, calls))):
            return False
        # a function that takes the last of a network's parts, for example, has other maps because of the added part
        return are_equal_up_to_rounding(maps, make_maps(watch=_add_modules(own, calls.added)))
    return False


@contextmanager
def _add_modules(network: nn.Module, added: nn.Module) -> Iterator[None]:
    network.add_module(_ADDED, added)
    try:
        yield
    finally:
        del network._modules[_ADDED]  # `delattr` of torch.compile's wrapper reaches the network inside


@contextmanager
def _call_modules(network: nn.Module, calls: "_ModuleCalls") -> Iterator[None]:
    """Meanwhile, the network calls modules, which `calls` makes and adds to the network, in place of functions."""
    with ExitStack() as stack:
        for module in network.modules():
            if isinstance(module, tuple(_MODULES.values())):
                stack.callback(module.register_forward_pre_hook(partial(calls.move, 1)).remove)
                stack.callback(module.register_forward_hook(partial(calls.move, -1), always_call=True).remove)
        stack.callback(network.register_forward_pre_hook(lambda *_: calls.counts.clear()).remove)
        stack.enter_context(_add_modules(network, calls.added))
        with calls:
            yield


class _AddedModules(nn.ModuleList):
    """Modules that change nothing in a network that calls its parts one after another."""

    def forward(self, values: Any) -> Any:
        """Return the input."""
        return values


class _ModuleCalls(TorchFunctionMode):
    """A mode in which a network calls modules in place of functions, one for each call in a forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.added, self.depth = _AddedModules(), 0
        self.modules, self.counts = defaultdict[str, list[nn.Module]](list), Counter[str]()  # by kind and arguments

    def move(self, steps: int, *_: Any) -> None:
        """Enter a module that a function may be part of, or leave it."""
        self.depth += steps

    def __torch_function__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        if call not in _MODULES or self.depth or not arguments or options.get("return_indices"):
            return call(*arguments, **options)
        is_pool = _MODULES[call] is nn.MaxPool2d
        given = dict(zip(_OF_POOLS, arguments[1:], strict=False)) | options if is_pool else {}
        kind = f"{_MODULES[call].__name__}{given}"
        number, modules = self.counts[kind], self.modules[kind]
        if number == len(modules):
            modules.append(_MODULES[call](**given))
            self.added.append(modules[-1])
        self.counts[kind] += 1
        return modules[number](arguments[0])
