"""Maps of any network from whatever a caller has: an id of the table, a function, a class of captum, or arrays."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.api.inputs import tensor
from roarbench.devices import keep_memory
from roarbench.errors import CallerError
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.sandbox.conventions import by_captum, by_quantus

_TAKES = "(model, images, targets), a class of captum, an id such as 'ig', or arrays of maps, one for each network"


class Explained(NamedTuple):
    """Images that one of the networks explains."""

    number: int  # of the network
    model: nn.Module  # eval mode, logits out
    images: Tensor  # float32 (n, c, h, w), as the network takes them
    targets: Tensor  # int64 (n,), the classes to explain
    rows: Tensor  # int64 (n,), where the images stand among all
    ids: Tensor  # int64 (n,), numbers of the images, by their content: their chance depends on nothing else


Explainer = Callable[[Explained], Tensor]  # maps (n, c, h, w), (n, 1, h, w) or (n, h, w)


def read_explainers(given: Any, images: Tensor, networks: int) -> dict[str, Explainer]:
    """Read what a caller calls estimators: a mapping from names, or ids of the table.

    Raises:
        CallerError: One of them is nothing that makes or has maps.
    """
    keep_memory()  # of maps that this process makes
    listed = [given] if isinstance(given, str) else given
    named = listed if isinstance(listed, Mapping) else {name: name for name in listed}
    if not named:
        raise CallerError('there are no estimators; write {"ig": "ig", "mine": my_function}')
    return {name: _read(name, one, images, networks) for name, one in named.items()}


def _read(name: str, given: Any, images: Tensor, networks: int) -> Explainer:
    if isinstance(given, str):
        return _built_in(given, images)
    if callable(given):
        return _function(name, given)
    if isinstance(given, Sequence | np.ndarray | Tensor):
        return _arrays(name, given, images, networks)
    raise CallerError(f"{name} is a {type(given).__name__}; expected a function of {_TAKES}")


class _Centred(nn.Module):
    """A network that takes images minus their mean, so that 0 is the mean as it is for built-in estimators."""

    def __init__(self, model: nn.Module, mean: Tensor) -> None:
        super().__init__()
        self.model, self.mean = model, mean

    def forward(self, images: Tensor) -> Tensor:
        found: Tensor = self.model(images + self.mean)
        return found


def _built_in(name: str, images: Tensor) -> Explainer:
    """Explain by an estimator of the table; black is the least value of each channel in these images."""
    row, mean = find_estimator(name), images.mean((0, 2, 3))[:, None, None]
    if row.submitted or row.told or row.answered or row.variant != "trained" or not row.mapped:
        raise CallerError(f"'{name}' needs a suite; write a file's function, or an id of `roarbench estimators`")
    traced = row.base == "lrp"  # follows the steps of the network itself, which has to stay as it is
    mean = torch.zeros_like(mean) if traced else mean
    black = images.amin((0, 2, 3))[:, None, None] - mean

    def explain(asked: Explained) -> Tensor:
        batch = Batch(asked.images - mean, asked.targets, asked.ids)
        model = None if row.control else asked.model if traced else _Centred(asked.model, mean).eval()
        return importance_maps([row], model, batch, black)[row.id]

    return explain


def _function(name: str, given: Callable[..., Any]) -> Explainer:
    """Explain by a function or a class; its generator is seeded by the first image, whichever network it explains."""
    call = _calling(name, given)

    def explain(asked: Explained) -> Tensor:
        generator = torch.Generator().manual_seed(int(asked.ids[0]))
        found = call(asked.model, asked.images.clone(), asked.targets.clone(), generator)
        if not isinstance(found, Tensor | np.ndarray):
            raise CallerError(f"{name} returned {type(found).__name__}, expected a tensor or an array of maps")
        return tensor(found)

    return explain


def _calling(name: str, given: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (model, images, targets, generator), by the convention that the signature tells."""
    if isinstance(given, type) and hasattr(given, "attribute"):
        return by_captum(given)
    try:
        held = inspect.signature(given).parameters.values()
    except (TypeError, ValueError):
        held = inspect.Signature().parameters.values()
    if any(one.kind is one.VAR_KEYWORD for one in held):
        return by_quantus(given)
    plain = [one for one in held if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = sum(one.default is one.empty for one in plain)
    if needed == 3:
        return lambda model, images, targets, generator: given(model, images, targets)
    if needed == 1:
        return by_captum(given)
    if needed == 4:
        return given
    raise CallerError(f"{name} has {needed} arguments without a default; expected a function of {_TAKES}")


def _arrays(name: str, given: Any, images: Tensor, networks: int) -> Explainer:
    """Take maps that were made before: one array for each network, of all images."""
    listed = [given] if isinstance(given, np.ndarray | Tensor) else list(given)
    if len(listed) != networks:
        raise CallerError(f"{name} has {len(listed)} arrays of maps, expected {networks}: one for each network")
    made = [tensor(one) for one in listed]
    n, _, h, w = images.shape
    for one in made:
        if tuple(one.shape) not in (tuple(images.shape), (n, 1, h, w), (n, h, w)):
            raise CallerError(
                f"{name} has maps of shape {tuple(one.shape)}, expected {tuple(images.shape)} or {(n, h, w)}"
            )
    return lambda asked: made[asked.number][asked.rows]
