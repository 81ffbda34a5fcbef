"""Check a caller's networks and their predictions, wrap networks, and restore their state after use."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from roarbench.api.call_guard import list_foreign_functions
from roarbench.api.inputs import move_to_model, warn_caller
from roarbench.common.device_settings import restore_global_generators
from roarbench.common.errors import CallerError
from roarbench.common.text import describe_error, describe_type, list_some
from roarbench.compute.external_networks import (
    WrappedNetwork,
    add_second_logit,
    make_logits_hook,
    wrap_to_return_logits,
)
from roarbench.compute.network_checks import (
    CHECKED_IMAGES,
    check_network_outputs,
    describe_changed_gradient,
    list_single_logit_warnings,
)
from roarbench.estimators.compute_maps import use_exact_eager_mode
from roarbench.estimators.network_facts import forget_facts
from roarbench.stats.chance import compute_largest_class_share, describe_chance, is_at_chance, is_near_chance
from roarbench.submissions.network_changes import NetworkState

_SINGLE_LOGIT_IMAGES = 64  # images for the check of a network with one output
_HOLDERS = ("model", "module_", "module")  # of fastai and transformers, of skorch, of others
_FEWEST_IMAGES = 20  # with fewer, no warning says that a network is at chance or predicts a single class


def read_networks(networks: Any, argument: str, example: str) -> list[nn.Module]:
    """Return several networks as a list; CallerError for anything else."""
    if isinstance(networks, nn.Module | Tensor | np.ndarray | str | Mapping) or not isinstance(networks, Iterable):
        raise CallerError(f"{argument} is {describe_type(networks)}, expected a list of networks; write {example}")
    listed = list(networks)
    for number, network in enumerate(listed, 1):
        refuse_other_objects(network, f"item {number} of {argument}")
    return listed


def refuse_other_objects(network: Any, subject: str) -> None:
    """Raise CallerError for anything but a module; name the attribute in which a learner or a pipeline holds one."""
    if isinstance(network, nn.Module):
        return
    held = [name for name in _HOLDERS if isinstance(getattr(network, name, None), nn.Module)]
    remedy = f"; pass its .{held[0]}" if held else ""
    if isinstance(network, torch.export.ExportedProgram):
        remedy = "; pass its .module()"
    raise CallerError(f"{subject} is {describe_type(network)}, expected a torch.nn.Module{remedy}")


def check_and_wrap_network(model: nn.Module, pixels: Tensor, name: str = "the network") -> nn.Module:
    """Return the network in float32 with a logit per class; warn of doubtful outputs, refuse unusable outputs."""
    model = convert_to_float32(model, name, warn_caller)
    few = take_few_images(model, pixels)
    wrapped = wrap_to_return_logits(model, few[:4])  # four images show what kind of output a network has
    network = add_second_logit(wrapped, few[:4])
    for warning in check_network(network, few, pixels if network is not wrapped else None, name):
        warn_caller(warning)
    return network


def check_network(network: nn.Module, few: Tensor, pixels: Tensor | None, name: str = "the network") -> list[str]:
    """Return warnings about a network with a logit per class; refuse unusable outputs.

    `few` are from `take_few_images`. `pixels` are all images if the network returned one logit, otherwise None.
    """
    found = check_network_outputs(network, few, name)
    if pixels is not None:
        # drawn images, because files are often sorted by class, or their classes take turns
        drawn = np.random.default_rng(0).permutation(len(pixels))[:_SINGLE_LOGIT_IMAGES]
        found += list_single_logit_warnings(network, move_to_model(network, pixels[drawn]), name)
    return [*found, *filter(None, [describe_changed_gradient(network, few[:2], name)])]


def take_few_images(model: nn.Module, pixels: Tensor) -> Tensor:
    """Return two or more images for the checks of a network, from all parts, on its device and in its dtype."""
    count = min(CHECKED_IMAGES, len(pixels))
    few = pixels[torch.arange(count) * len(pixels) // count] if count > 1 else pixels.repeat(2, 1, 1, 1)
    return move_to_model(model, few)


def convert_to_float32(model: nn.Module, name: str, say: Callable[[str], object]) -> nn.Module:
    """Return the network itself if its weights are float32, else a float32 copy; report a copy to `say`."""
    weights = [tensor for tensor in (*model.parameters(), *model.buffers()) if tensor.is_floating_point()]
    if any(tensor.is_meta for tensor in weights):
        seen = f"{name} is on the device meta, where weights have no numbers"
        raise CallerError(f"{seen}; build the network on the CPU, then load its weights")
    if any(map(is_lazy, model.parameters())):
        raise CallerError(f"{name} has a lazy layer without weights; call it once, then load its weights")
    other_types = {str(tensor.dtype).removeprefix("torch.") for tensor in weights} - {"float32"}
    if any(tensor.is_inference() for tensor in (*model.parameters(), *model.buffers())):
        say(f"{name} has weights made under torch.inference_mode, which torch cannot explain; an ordinary copy is used")
        copied = deepcopy(model)
        for module in copied.modules():
            for key, weight in module.named_parameters(recurse=False):
                setattr(module, key, nn.Parameter(weight.detach().clone()))  # has a gradient, unlike the original
            for key, buffer in module.named_buffers(recurse=False):
                setattr(module, key, buffer.clone())
        return copied.float()
    if not other_types:
        return model
    say(f"{name} has weights in {', '.join(sorted(other_types))}; a copy in float32 is used")
    return deepcopy(model).float()


def switch_to_eval_mode(model: nn.Module) -> None:
    """Switch a network to eval mode; CallerError if its own `train` raises."""
    if not hasattr(model, "training"):  # a frozen TorchScript module has no modes
        return
    try:
        model.eval()
        model.training = False  # the `eval` of a wrapper with a moving average switches the network inside alone
    except NotImplementedError:  # a program of torch.export has the mode in which it was exported
        for module in model.modules():
            module.training = False
    except Exception as error:  # the user's network may raise anything
        seen = f"{type(model).__name__}.eval() raised {describe_error(error)}"
        raise CallerError(f"{seen}; correct its method train") from error


def warn_of_training_mode(models: Sequence[Any]) -> None:
    """Warn if maps of a caller may come from training mode, in which batch norms and dropout compute other logits."""
    modules = [module for model in models if isinstance(model, nn.Module) for module in model.modules()]
    kinds = {type(module) for module in modules if getattr(module, "training", False)}
    noisy = [kind.__name__ for kind in kinds if issubclass(kind, _BatchNorm) or "Drop" in kind.__name__]
    if noisy:  # also timm's DropPath
        seen = f"a network was in training mode ({min(noisy)}), and is used in eval mode"
        warn_caller(f"{seen}; compute the maps after model.eval(), or pass a function that computes them")


@contextmanager
def borrow_networks(models: Sequence[Any]) -> Iterator[None]:
    """Use networks in eval mode, in exact float32 and without compiled code; restore the caller's state at the end.

    The networks hold the same objects with the same contents again (`NetworkState`), whatever `eval`, their forward
    passes or a caller's function did to them. The states of the global random generators are restored, too.
    CallerError for objects that are not networks.
    """
    for model in models:
        refuse_other_objects(model, "the network")
    states = list(map(NetworkState.read, models))
    if patched := list_foreign_functions(models):
        seen = f"{list_some(patched)} had been replaced by another package before this call"
        warn_caller(f"{seen}, so all rows are computed with the replacement; undo it, or start Python anew")
    with restore_global_generators():
        try:
            for model in models:
                forget_facts(model)  # the caller may have added a layer since an earlier call
                switch_to_eval_mode(model)
                for parameter in model.parameters():
                    parameter.grad = None  # `backward` would add to a gradient in place
            with use_exact_eager_mode():
                yield
        finally:
            for state in states:
                state.restore()


def find_own_network(network: nn.Module) -> nn.Module:
    """Return the caller's own module within the result of `check_and_wrap_network`."""
    while isinstance(network, WrappedNetwork):
        network = network.inner
    return network


@contextmanager
def expose_unwrapped_network(network: nn.Module) -> Iterator[nn.Module]:
    """Yield the caller's own module in place of the result of `check_and_wrap_network`.

    Meanwhile the module returns a logit per class if it is called with images alone (`make_logits_hook`).
    """
    own = find_own_network(network)
    # a script module takes no hooks
    if not isinstance(network, WrappedNetwork) or isinstance(own, torch.jit.ScriptModule):
        yield network
        return
    with own.register_forward_hook(make_logits_hook(network.adapt_output), with_kwargs=True):
        yield own


@contextmanager
def empty_tensors_of_forward(model: nn.Module, images: Tensor) -> Iterator[None]:
    """Empty the attributes in which a forward pass stores new tensors, such as attention, and restore them at the end.

    A tensor becomes None; lists, tuples and dicts become empty. So the network has the same attributes before its first
    forward pass and after it.
    """
    state = NetworkState.read(model)
    before = {(module, name): tensors for _, module, name, tensors in list_plain_tensors(model)}
    stored = []
    with suppress(Exception), borrow_networks([model]), torch.no_grad():
        model(images.clone())
        for _, module, name, tensors in list_plain_tensors(model):
            if [*map(id, tensors)] != [*map(id, before.get((module, name), []))]:
                stored.append((module, name, type(vars(module)[name])))
    for module, name, kind in stored:
        vars(module)[name] = None if issubclass(kind, Tensor) else kind()
    try:
        yield
    finally:
        state.restore()


def list_plain_tensors(model: nn.Module) -> Iterator[tuple[str, nn.Module, str, list[Tensor]]]:
    """Yield the path, module and name of each attribute with tensors that are neither parameters nor buffers."""
    of_every_module = vars(nn.Module()).keys()
    for prefix, module in model.named_modules():
        for name, value in vars(module).items():
            items = value.values() if type(value) is dict else value if type(value) in (list, tuple) else [value]
            tensors = [item for item in items if isinstance(item, Tensor)]
            if tensors and name not in of_every_module:
                yield f"{prefix}.{name}".lstrip("."), module, name, tensors


def warn_if_at_chance(correct: NDArray[np.bool_], labels: NDArray[np.int64], classes: int) -> str:
    """Warn of a network that is not significantly better than chance, usually because of preprocessing or labels.

    Chance is the accuracy of always answering the most frequent label. If the images lack a class, they are the
    caller's selection, and chance is 1 / classes.

    Returns:
        The warning without its remedy; empty if the network is above chance or there are few images.
    """
    has_all_classes, right, total = len(np.unique(labels)) == classes, int(correct.sum()), len(correct)
    chance = compute_largest_class_share(labels) if has_all_classes else 1 / classes
    if total < _FEWEST_IMAGES or not is_at_chance(right, total, chance):
        return ""
    seen = f"network classifies {right} of {total} images correctly"
    seen = f"{seen}, which is not significantly above chance of {describe_chance(chance, classes)}"
    # far above chance, a network may be right, and the images too few or nearly all of one class
    remedy = "" if is_near_chance(right, total, chance) else ", or pass more images, also of rare classes"
    warn_caller(f"the {seen}; check normalisation, labels and weights{remedy}")
    return seen


def warn_of_single_class(logits: Sequence[Tensor]) -> None:
    """Warn of networks that assign one class to all images, as those that learnt only the largest class."""
    predicted = [own.argmax(1) for own in logits]
    numbers = [f"{number}" for number, classes in enumerate(predicted, 1) if bool((classes == classes[0]).all())]
    if numbers and len(predicted[0]) >= _FEWEST_IMAGES:
        seen = f"a single class is predicted for all {len(predicted[0])} images by network {list_some(numbers)}"
        remedy = "the networks do not tell them apart: check normalisation and weights"
        warn_caller(f"{seen}; if the images are of several classes, {remedy}")


def mark_agreed_images(logits: Sequence[Tensor]) -> NDArray[np.bool_]:
    """Mark the images to which all networks assign the same class; CallerError if there are none."""
    if len(shapes := {tuple(own.shape[1:]) for own in logits}) > 1:
        raise CallerError(f"the networks' logits per image have shapes {sorted(shapes)}; expected the same classes")
    predicted = torch.stack([own.argmax(1) for own in logits])
    agreed: NDArray[np.bool_] = (predicted == predicted[0]).all(0).numpy()
    if not agreed.any():
        seen = f"the networks predict one class together for none of the {len(logits[0])} images"
        raise CallerError(f"{seen}; expected trained networks with the same classes in the same order")
    return agreed
