"""Find out whether layers set the initial values of their weights and statistics by methods of their own."""

from contextlib import suppress
from copy import deepcopy

import torch
from torch import Tensor, nn

from roarbench.api.source_of_definitions import is_from_installed_package
from roarbench.common.errors import CallerError
from roarbench.common.text import describe_error, list_some
from roarbench.compute.retraining_checks import NORMS_WITH_STATISTICS

RESET = ("reset_parameters", "_reset_parameters")  # methods that draw a layer's weights
_SEEDS = (0, 1)  # of copies that show which buffers are drawn at random
_BUILDER_ADVICE = "pass network=, a function that builds it, such as network=lambda: {kind}(...)"


def find_reset(module: nn.Module) -> str:
    """Return the name of a layer's method that draws its weights; empty if it has none."""
    return next((name for name in RESET if hasattr(module, name)), "")


def check_initial_values(model: nn.Module, images: Tensor, own_layers_last: bool) -> list[str]:
    """Raise CallerError unless the layers' own methods set every weight and every statistic that training changes.

    Each weight of a copy becomes NaN; then the layers' `reset_parameters` run as in a network that is built anew. A
    weight that is still NaN has an initial value that only the code that made the network knows. A module's method runs
    after those of its parts if `own_layers_last`. Returned is a line about buffers that keep the network's values.
    """
    advice = _BUILDER_ADVICE.format(kind=type(model).__name__)
    first, second = (_reset_copy(model, seed, own_layers_last) for seed in _SEEDS)
    if unset := [key for key, weight in first.named_parameters() if bool(weight.isnan().any())]:
        owners = list(filter(None, dict.fromkeys(_find_own_class(model, key) for key in unset)))
        seen = f"no reset_parameters sets the initial value of {_describe(unset, model)}"
        remedy = f"add reset_parameters to {list_some(owners)}, or " if owners else ""
        raise CallerError(f"{seen}, so a retrained network would start from another distribution; {remedy}{advice}")
    buffers, again = dict(first.named_buffers()), dict(second.named_buffers())
    set_anew = {key for key, value in buffers.items() if value.is_floating_point() and not value.isnan().any()}
    if drawn := [key for key in set_anew if not torch.equal(buffers[key], again[key])]:
        seen = f"the buffer {_describe(sorted(drawn), model)} is drawn at random, and training would leave it random"
        raise CallerError(f"{seen}; register it as nn.Parameter, or {advice}")
    trained = deepcopy(model)
    trained.train()  # the user's method may return nothing
    before = {key: value.clone() for key, value in trained.named_buffers()}
    # a network that cannot run in training mode is reported when it is trained
    with suppress(Exception), torch.no_grad(), torch.random.fork_rng(devices=[]):
        trained(images.clone())
    after = dict(trained.named_buffers())
    changed = [key for key, value in before.items() if key not in after or not torch.equal(value, after[key])]
    changed = [key for key in changed if key not in set_anew]
    changed = [key for key in changed if not isinstance(_find_owner(model, key), NORMS_WITH_STATISTICS)]
    if changed:
        seen = f"training changes the buffer {_describe(changed, model)}, and no reset_parameters sets it"
        raise CallerError(f"{seen}; set it there, or {advice}")
    saved = model.state_dict().keys()
    held = [key for key, value in buffers.items() if key not in set_anew and value.is_floating_point()]
    held = [key for key in held if key in saved and buffers[key].numel() > 1]
    if not held:
        return []
    seen = f"retrained networks keep the given network's values of the buffer {_describe(held, model)}"
    return [f"{seen}; if these were learnt, register them as nn.Parameter, or {advice}"]


def _reset_copy(model: nn.Module, seed: int, own_layers_last: bool) -> nn.Module:
    copy = deepcopy(model).cpu()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        for tensor in (*copy.parameters(), *copy.buffers()):
            if tensor.is_floating_point():
                tensor.fill_(torch.nan)
        modules = list(copy.modules())
        for module in reversed(modules) if own_layers_last else modules:
            if isinstance(module, NORMS_WITH_STATISTICS):
                module.reset_running_stats()
            if not (reset := find_reset(module)):
                continue
            try:
                getattr(module, reset)()
            except Exception as error:  # the user's code may raise anything
                seen = f"{reset}() of {type(module).__name__} raised {describe_error(error)}"
                advice = _BUILDER_ADVICE.format(kind=type(model).__name__)
                if not is_from_installed_package(type(module)):
                    advice = f"write it without arguments, or {advice}"
                raise CallerError(f"{seen}; {advice}") from error
    return copy


def _find_owner(model: nn.Module, key: str) -> nn.Module:
    return model.get_submodule(key.rpartition(".")[0])


def _find_own_class(model: nn.Module, key: str) -> str:
    """Return the class of the caller's whose part a weight is, such as one that holds a ParameterList; else empty."""
    while key:
        key = key.rpartition(".")[0]
        kind = type(model.get_submodule(key))
        if not is_from_installed_package(kind):
            return kind.__name__
    return ""


def _describe(keys: list[str], model: nn.Module) -> str:
    return list_some([f"'{key}' of {type(_find_owner(model, key)).__name__}" for key in keys])
