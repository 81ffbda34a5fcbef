"""Build the networks of a suite, and load weights into them: published by torchvision or timm, or from a checkpoint.

A checkpoint is a state dict, or a torch file with one state dict among other entries. The names of weights may have a
common prefix. A checkpoint may define the normalisation of images (`datasets.preprocessing`): a torch file as
{"state_dict": …, "mean": [r, g, b], "std": [r, g, b]}, and safetensors in the metadata.
"""

import argparse
import importlib
import json
import re
import sys
import warnings
from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.common.errors import CallerError
from roarbench.common.files import compute_sha256
from roarbench.common.text import describe_error, format_count, list_quoted, list_some
from roarbench.compute.external_networks import TIMM, TORCHVISION, import_timm_and_check_network
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation
from roarbench.compute.recipe import Recipe
from roarbench.datasets.preprocessing import parse_mean_and_std
from roarbench.plan.cells_and_runs import PUBLISHED_WEIGHTS, make_weights_title
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec

_URL = "https://download.pytorch.org/models/"
# torchvision's mean and standard deviation, for pixels in [0, 255]
_IMAGENET = Normalisation((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))
_SAVE_ADVICE = "save weights with torch.save(model.state_dict(), FILE)"
_SHARD = re.compile(r"-\d{5}-of-\d{5}\.")  # names of files that together hold one network
_NORMALISATION_KEYS = ("mean", "std", "range")
# names of training counters: that of batch norm, which old files lack, and that of averaged weights
_COUNTERS = ("num_batches_tracked", "n_averaged")
_DTYPES = [type(np.dtype(kind)) for kind in "?bhilqBHILQefd"]
# functions that rebuild a pickled number and a pickled array
_REBUILDERS: list[Any] = [np.float64(0).__reduce__()[0], np.zeros(1).__reduce__()[0]]
# harmless content of checkpoints besides weights: options, and NumPy's numbers and arrays under old and new names
_HARMLESS: list[Any] = [argparse.Namespace, np.ndarray, np.dtype, *_DTYPES]
_HARMLESS += [(each, f"numpy.{core}.multiarray.{each.__name__}") for each in _REBUILDERS for core in ("core", "_core")]


def build_suite_network(suite: SuiteSpec, generator: torch.Generator, number: int | None = None) -> nn.Module:
    """Build the suite's network, or its explained network with this number, with random weights."""
    return build_network(**suite.find_network(number)._asdict(), generator=generator)


def build_starting_network(suite: SuiteSpec, recipe: Recipe, seed: int) -> nn.Module:
    """Build the network at the start of a training run, with random weights or a recipe's published weights."""
    network = build_suite_network(suite, torch.Generator().manual_seed(seed))
    if recipe.start:
        load_starting_weights(recipe.start, network, suite.dataset_record.channels, suite.model)
    return network


def refuse_unloadable_weights(suite: SuiteSpec, given: Sequence[str]) -> None:
    """Raise CallerError if given weights or starting weights cannot be loaded into a suite's networks."""
    channels, generator = suite.dataset_record.channels, torch.Generator().manual_seed(0)
    for network in suite.networks:
        if network.model.startswith(TIMM):
            import_timm_and_check_network(network.model.removeprefix(TIMM))  # raises before weights are downloaded
    for number, weights in enumerate(given):
        name = suite.find_network(number).name
        if not weights:
            raise CallerError(f"the weights of {name} are specified only in the suite's file; use --suite FILE.toml")
        load_given_weights(weights, build_suite_network(suite, generator, number), channels, name)
    starts = (find_recipe(title).start for title in (suite.recipe, suite.reference_recipe))
    for start in dict.fromkeys(filter(None, starts)):
        load_starting_weights(start, build_suite_network(suite, generator), channels, suite.model)


def load_given_weights(
    weights: str, model: nn.Module, channels: int, network: str, keeps_other_head: bool = False
) -> Normalisation | None:
    """Load weights into a model, in place; return the normalisation that they need, or None for the suite's own.

    `weights` is a file, a name in `PUBLISHED_WEIGHTS`, `torchvision:NAME@WEIGHTS`, or `timm:NAME`. `network` is the
    model's name, for messages. With `keeps_other_head`, a final layer with another number of classes is not loaded.

    Raises:
        CallerError: The weights cannot be fetched or read, or belong to another network.
    """
    if weights.startswith(TIMM):
        name, timm = weights.removeprefix(TIMM), importlib.import_module("timm")  # which has built the network
        try:
            published = timm.create_model(name, pretrained=True).state_dict()
        except Exception as error:  # the hub may fail, or timm has no published weights for the network
            seen = f"cannot fetch the weights of {weights} ({describe_error(error)})"
            raise CallerError(f"{seen}; download the file and write {weights}@FILE") from error
        _check_weights_fit(published, model, Path(name), weights)
        model.load_state_dict(published)
        config = timm.get_pretrained_cfg(name)
        return Normalisation(*parse_mean_and_std(list(config.mean), list(config.std), 1, channels, weights))
    path = _fetch_torchvision_file(weights) if weights.startswith(TORCHVISION) else Path(weights)
    own = model.state_dict()
    named, metadata = read_weights(path)
    state = _strip_name_prefixes(named, own.keys())
    for name in state.keys() & own.keys() if keeps_other_head else ():
        shape, own_shape = state[name].shape, own[name].shape
        if shape != own_shape and shape[1:] == own_shape[1:]:
            state[name] = own[name]  # the final layer keeps its random weights
    _check_weights_fit(state, model, path, network)
    model.load_state_dict(state, strict=False)  # old files lack batch norm's counters
    if weights.startswith(TORCHVISION) or make_weights_title(str(path)).startswith(TORCHVISION):
        return _IMAGENET
    if metadata.keys().isdisjoint(_NORMALISATION_KEYS):
        return None
    mean, std, top = map(metadata.get, _NORMALISATION_KEYS)
    return Normalisation(*parse_mean_and_std(mean, std, top, channels, str(path)))


def load_starting_weights(start: str, model: nn.Module, channels: int, network: str) -> None:
    """Load published weights, in place, into a model that will be trained; raise the errors of `load_given_weights`.

    For `torchvision:NAME/WEIGHTS`, the final layer is not loaded if the model has another number of classes.
    """
    of_torchvision = "/" in start
    weights = start.replace("/", "@") if of_torchvision else start.partition("@")[0]
    load_given_weights(weights, model, channels, network, keeps_other_head=of_torchvision)


def _fetch_torchvision_file(weights: str) -> Path:
    if weights in PUBLISHED_WEIGHTS:
        file = PUBLISHED_WEIGHTS[weights].file
    else:
        from roarbench.compute.torchvision_networks import find_torchvision_weights  # the import takes a second

        name, _, version = weights.removeprefix(TORCHVISION).partition("@")
        file = str(find_torchvision_weights(name, version).url).rpartition("/")[2]
    path, checksum = Path(torch.hub.get_dir()) / "checkpoints" / file, Path(file).stem.rpartition("-")[2]
    if not path.exists():
        url = _URL + path.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(path), checksum, progress=sys.stderr.isatty())
        except (OSError, RuntimeError) as error:  # no network, or the checksum differs
            seen = f"cannot fetch {url} ({error})"
            raise CallerError(f"{seen}; put the file into {path.parent}, or name it with --reference FILE") from error
    if not compute_sha256(path).startswith(checksum):
        seen = f"{path} is not torchvision's file: its checksum differs"
        raise CallerError(f"{seen}; delete it, so that it is downloaded again")
    return path


def _strip_name_prefixes(state: dict[str, Tensor], wanted: Set[str]) -> dict[str, Tensor]:
    """Remove prefixes such as `module.` from all names of a state dict, if the remaining names include all weights."""
    needed, stripped = set(filter(is_weight_not_counter, wanted)), state
    while not needed <= stripped.keys():
        prefixes = {name.partition(".")[0] if "." in name else "" for name in stripped if name != "n_averaged"}
        if len(prefixes) != 1 or prefixes == {""}:
            return state
        stripped = {name.partition(".")[2]: tensor for name, tensor in stripped.items() if "." in name}
    return stripped


def _check_weights_fit(state: Mapping[str, Tensor], model: nn.Module, path: Path, network: str) -> None:
    expected = {name: tensor for name, tensor in model.state_dict().items() if is_weight_not_counter(name)}
    loaded = {name: tensor for name, tensor in state.items() if is_weight_not_counter(name)}
    faults = [f"{name} is missing" for name in expected.keys() - loaded.keys()]
    faults += [f"{name} is unexpected" for name in loaded.keys() - expected.keys()]
    misfits = {name: _explain_misfit(loaded[name], expected[name]) for name in expected.keys() & loaded.keys()}
    faults += [f"{name} {misfit}" for name, misfit in misfits.items() if misfit]
    if faults:
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        # transformers, for example, renames weights when it saves a network
        advice = f"use weights of that network, with the names of its state dict: {_SAVE_ADVICE}"
        if _SHARD.search(path.name):
            advice = f"the file has a part of a network; load all with its library, and {_SAVE_ADVICE}"
        elif "@" not in network:  # names of users' own networks contain `@`
            advice = f"use weights of {network}, or specify your own network in a suite's file (docs/own-data.md)"
        raise CallerError(f"{path} does not fit the suite's network, {network}: {min(faults)}{more}; {advice}")


def _explain_misfit(loaded: Tensor, expected: Tensor) -> str:
    """Explain why a tensor cannot replace another; empty if it can."""
    if loaded.shape != expected.shape:
        return f"has shape {tuple(loaded.shape)}, expected {tuple(expected.shape)}"
    if loaded.is_floating_point() != expected.is_floating_point():
        kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in (loaded, expected)]
        return f"has type {kinds[0]}, expected {kinds[1]}"
    if loaded.is_meta or loaded.layout is not torch.strided:
        return "has no values" if loaded.is_meta else "is sparse"
    return "" if loaded.to(expected.dtype).isfinite().all() else "contains NaN or infinity"


def read_weights(path: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    """Return the state dict, on the CPU, and the other entries of a file of weights, without running any code in it.

    Raises:
        CallerError: The file has no weights.
    """
    if path.is_dir():
        raise CallerError(f"{path} is a folder; name a file of weights in it")
    if path.suffix == ".json":  # perhaps the index of a network that is stored in several files
        shards = list[str]()
        with suppress(Exception):
            shards = sorted(set(json.loads(path.read_text())["weight_map"].values()))
        if not shards:
            raise CallerError(f"{path} is a JSON file without weights; {_SAVE_ADVICE}")
        seen = f"{path} lists the {format_count(len(shards), 'file')} of a network's weights ({list_some(shards)})"
        raise CallerError(f"{seen}; load the network with its library, and {_SAVE_ADVICE}")
    try:
        with path.open("rb") as file:
            is_safetensors = file.read(9)[8:] == b"{"  # the header follows its length, torch's files begin otherwise
        if not is_safetensors:
            return _read_torch_checkpoint(path)
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            metadata = dict(file.metadata() or {})
        for key in set(_NORMALISATION_KEYS) & set(metadata):
            with suppress(ValueError):  # the code that uses the values reports invalid JSON
                metadata[key] = json.loads(metadata[key])
        return state, metadata
    except CallerError:
        raise
    except Exception as error:  # both libraries raise many exception types on damaged files
        code: list[str] = []
        with suppress(Exception):
            code = torch.serialization.get_unsafe_globals_in_checkpoint(path)
        if code:
            seen = f"cannot read {path}: it contains code ({list_some(sorted(code))}), and code in weights is never run"
            raise CallerError(f"{seen}; if you trust the file, load it and {_SAVE_ADVICE}") from error
        faults = "it is truncated, damaged, or not a file of torch or safetensors"
        seen = f"cannot read {path} ({type(error).__name__}): {faults}"
        raise CallerError(f"{seen}; {_SAVE_ADVICE}, or as safetensors") from error


def is_weight_not_counter(name: str) -> bool:
    """Return whether an entry of a state dict is a weight, not a training counter."""
    return not name.endswith(_COUNTERS)


def _read_torch_checkpoint(path: Path) -> tuple[dict[str, Tensor], Mapping[str, Any]]:
    harmless = torch.serialization.safe_globals(_HARMLESS)
    # given a path, torch would choose the format by the file name
    with warnings.catch_warnings(), harmless, path.open("rb") as file:
        warnings.simplefilter("ignore")  # torch warns about pickles and programs, but errors cover these files
        loaded: Any = torch.load(file, map_location="cpu", weights_only=True)
    if _is_state_dict(loaded):  # in a plain state dict `mean` is a buffer of the network
        return loaded, {}
    states = {key: value for key, value in loaded.items() if _is_state_dict(value)} if isinstance(loaded, dict) else {}
    if not states and isinstance(loaded, dict) and loaded.get("state_dict") == {}:
        states = {"state_dict": {}}  # of a network without weights
    if not states:
        raise CallerError(f"{path} contains no state dict; {_SAVE_ADVICE}")
    (key, state), *other_states = states.items()
    different = [
        other
        for other, value in other_states
        if state.keys() != value.keys() or not all(torch.equal(state[name], value[name]) for name in state)
    ]
    if different:
        seen = f"{path} contains different weights under {list_quoted((key, *different))}"
        raise CallerError(f"{seen}; save one of them, such as torch.save(torch.load(FILE)[{different[-1]!r}], OTHER)")
    return state, loaded


def _is_state_dict(value: Any) -> bool:
    is_filled_dict = isinstance(value, dict) and bool(value)
    return is_filled_dict and all(isinstance(key, str) and isinstance(item, Tensor) for key, item in value.items())
