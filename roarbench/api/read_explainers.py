"""Read a caller's estimators: names, functions, captum classes, submission files and arrays of maps."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.api.explainers import ExplainedBatch, Explainer, Explainers
from roarbench.api.inputs import is_table
from roarbench.api.removal import flatten_maps, to_map_tensor, warn_of_one_map
from roarbench.api.submission_source import is_quantus_signature, read_signature, refuse_missing_arguments
from roarbench.common.errors import CallerError
from roarbench.common.files import ARRAY_LOADERS
from roarbench.common.process_settings import keep_freed_cpu_memory
from roarbench.common.text import describe_type, fit_on_one_line, format_count
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.suite import NO_NEIGHBOURS
from roarbench.submissions.submission_calls import adapt_captum, adapt_function, adapt_quantus

_EXPECTED = (
    "expected a function of (model, images, targets), a class of captum, a function of the network that returns an "
    "object of captum, an id such as 'ig', or arrays of maps, one for each network"
)
_MAX_NAME_LENGTH = 100  # longer names leave no room for curves in a picture


def read_explainers(estimators: Any, images: Tensor, networks: int, controls: Sequence[str] = ()) -> Explainers:
    """Read a caller's estimators, a mapping from names or a list of ids; `controls` come first in the result."""
    keep_freed_cpu_memory()  # this process makes the maps
    by_name = map_estimators_by_name(estimators)
    if not by_name:
        raise CallerError('there are no estimators; write {"ig": "ig", "mine": my_function}')
    if taken := [name for name in controls if str(by_name.get(name, name)) != name]:
        raise CallerError(f"{taken[0]} is a control of this table; give your estimator another name")
    by_name = {name: name for name in controls} | dict(by_name)
    built_in, functions, arrays = {}, {}, {}
    for name, estimator in by_name.items():
        refuse_file_of_maps(name, estimator)
        if isinstance(estimator, str | Path) and Path(estimator).suffix == ".py":
            seen = f"{name} is the file {estimator}, and only rb.evaluate runs files (in the sandbox)"
            raise CallerError(f"{seen}; pass its function: from {Path(estimator).stem} import estimate")
        if isinstance(estimator, str):
            row = built_in[name] = find_estimator(estimator)
            needs_labels = row.uses_ground_truth or row.uses_prediction
            if row.submitted or needs_labels or row.explained_variant != "trained" or not row.has_own_map:
                remedy = "pass a function, or another id from `roarbench estimators`"
                raise CallerError(f"'{estimator}' needs a suite; {remedy}")
            if is_table(images) and row.uses_neighbouring_features:
                raise CallerError(f"'{estimator}' uses neighbouring pixels, and {NO_NEIGHBOURS}; leave it out")
        elif callable(estimator) and not isinstance(estimator, nn.Module):
            functions[name] = _wrap_function(name, estimator, networks)
        else:
            arrays[name] = _read_arrays(name, estimator, images, networks)
            functions[name] = partial(_select_maps, arrays[name])
    mean, black = images.mean((0, 2, 3)), images.amin((0, 2, 3))
    means, blacks = mean[:, None, None], black[:, None, None]
    return Explainers(tuple(by_name), built_in, functions, means, blacks, arrays)


def refuse_file_of_maps(name: str, estimator: Any) -> None:
    """Raise CallerError, with a remedy, for the path of a file with precomputed maps."""
    load = ARRAY_LOADERS.get(Path(estimator).suffix) if isinstance(estimator, str | Path) else None
    if load:
        raise CallerError(f"{name} is the file {estimator}; load the file with {load}, and pass its arrays of maps")


def map_estimators_by_name(estimators: Any) -> Mapping[str, Any]:
    """Return a mapping as it is; name ids and paths by themselves; CallerError for a missing or unusable name."""
    if isinstance(estimators, Mapping):
        for name in estimators:
            usable = isinstance(name, str) and name.strip() and name.isprintable() and len(name) <= _MAX_NAME_LENGTH
            if not usable:
                seen = f"the name of an estimator is {fit_on_one_line(repr(name), 60)}"
                raise CallerError(f"{seen}, expected 1 to {_MAX_NAME_LENGTH} characters of one printable line")
        return estimators
    single = not isinstance(estimators, Iterable) or isinstance(estimators, str | Tensor | np.ndarray)
    listed = [estimators] if single else list(estimators)
    for estimator in listed:
        if not isinstance(estimator, str | Path):
            raise CallerError(f'an estimator is {describe_type(estimator)} without a name; write {{"mine": …}}')
    return {str(estimator): estimator for estimator in listed}


def _wrap_function(name: str, function: Callable[..., Any], networks: int) -> Explainer:
    """Wrap a function or class; its random generator is seeded by a batch's first image, equally for every network."""
    call, (signature, needed) = function, read_signature(function)
    if (
        networks > 1
        and isinstance(function, partial)
        and hasattr(function.func, "attribute")
        and any(isinstance(value, nn.Module) for value in (*function.args, *function.keywords.values()))
    ):
        seen = f"{name} has a layer of one network, and there are several"
        raise CallerError(f"{seen}; write lambda model: {function.func.__name__}(model, model.LAYER)")
    if hasattr(getattr(function, "__self__", None), "attribute"):
        raise CallerError(f"{name} is bound to a captum object, which explains a single network; pass the class")
    if isinstance(function, type) and hasattr(function, "attribute"):
        if needed > 1 or "attribution_method" in signature.parameters:  # NoiseTunnel
            remedy = "pass a function of the network that returns the object"
            raise CallerError(f"{name} needs more arguments than a network; {remedy}")
        refuse_missing_arguments(name, function)
        call = adapt_captum(function)
    elif is_quantus_signature(signature):
        call = adapt_quantus(function)
    elif needed == 1:
        call = adapt_captum(lambda model: _check_attribution(name, function(model)))
    elif needed == 3:
        call = adapt_function(function)
    elif needed != 4:
        raise CallerError(f"{name} has {needed} arguments without a default; {_EXPECTED}")

    def explain(batch: ExplainedBatch) -> Tensor:
        generator = torch.Generator().manual_seed(int(batch.ids[0]))
        inputs = (batch.images, batch.targets)
        maps = call(batch.model, *(part.clone() if batch.is_copied else part for part in inputs), generator)
        if not isinstance(maps, Tensor | np.ndarray):
            raise CallerError(f"{name} returned {describe_type(maps)}, expected a tensor or an array of maps")
        if not maps.ndim:
            raise CallerError(f"{name} returned a single number, expected a map for each image")
        return to_map_tensor(maps, f"maps of {name}").clone()  # a function may reuse its array in the next call

    return explain


def _check_attribution(name: str, attribution: Any) -> Any:
    if not hasattr(attribution, "attribute"):
        raise CallerError(f"{name} takes only the network and returned {describe_type(attribution)}; {_EXPECTED}")
    refuse_missing_arguments(name, attribution)
    return attribution


def _read_arrays(name: str, arrays: Any, images: Tensor, networks: int) -> list[Tensor]:
    """Convert precomputed maps to one tensor for each network, with the maps of all images."""
    if not isinstance(arrays, Sequence | np.ndarray | Tensor):
        raise CallerError(f"{name} is {describe_type(arrays)}; {_EXPECTED}")
    listed = [arrays] if networks == 1 and isinstance(arrays, np.ndarray | Tensor) else list(arrays)
    if len(listed) != networks:
        seen = f"{name} has {format_count(len(listed), 'array')} of maps"
        of_single_images = len(listed) == len(images) and not isinstance(arrays, np.ndarray | Tensor)
        remedy = "; maps of single images become one array by torch.stack(maps)" if of_single_images else ""
        raise CallerError(f"{seen}, expected {networks}: one for each network{remedy}")
    maps_by_network = [to_map_tensor(array, f"maps of {name}") for array in listed]
    for array, maps in zip(listed, maps_by_network, strict=True):
        flatten_maps(maps, tuple(images.shape), f"the maps of {name}")
        warn_of_one_map(f"maps of {name}", array)
    return maps_by_network


def _select_maps(maps_by_network: Sequence[Tensor], batch: ExplainedBatch) -> Tensor:
    return maps_by_network[batch.number][batch.rows]
