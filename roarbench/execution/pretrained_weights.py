"""Weights of an explained model that are given instead of trained: torchvision's by name, or a checkpoint file.

A checkpoint is a state dict of the suite's network, by torch.save or as safetensors, also among other things and under
names that a wrapper has given a common prefix. It may say what its images were normalised with: a torch file as
{"state_dict": …, "mean": [r, g, b], "std": [r, g, b]}, safetensors in its metadata, of images in [0, 1] or [0, 255]
(`datasets.normalisation`). Without that they are normalised as those of every other network of the suite.
"""

import importlib
import sys
from collections.abc import Mapping, Set
from pathlib import Path

import torch
from torch import Tensor, nn

from roarbench.datasets.normalisation import read_moments
from roarbench.errors import CallerError
from roarbench.execution.weight_files import is_weight, read_weights
from roarbench.files import compute_sha256
from roarbench.kernels.inputs import Normalisation
from roarbench.plan.weights import PUBLISHED, make_weights_title
from roarbench.text import fit_on_one_line

_TORCHVISION, _TIMM = "torchvision:", "timm:"
_URL = "https://download.pytorch.org/models/"
_IMAGENET = Normalisation((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))  # torchvision's, in [0, 255]


def load_given(reference: str, model: nn.Module, channels: int, name: str) -> Normalisation | None:
    """Put given weights into a network, in place; what they want images normalised with, None for the suite's own.

    Given are a file, one of `PUBLISHED`, `torchvision:NAME@WEIGHTS`, or `timm:NAME`, whose weights timm publishes.
    CallerError where they cannot be fetched or read, or belong to another network than that of this name.
    """
    if reference.startswith(_TIMM):
        return _load_timm(reference.removeprefix(_TIMM), model, channels)
    path = _path_of(reference)
    found = read_weights(path)
    state = _unwrap(found.state, model.state_dict().keys())
    _check(state, model, path, name)
    model.load_state_dict(state, strict=False)  # old files count no batches
    if reference.startswith(_TORCHVISION) or make_weights_title(str(path)).startswith(_TORCHVISION):
        return _IMAGENET
    said = found.normalised
    if not said:
        return None
    mean, std = read_moments(said.get("mean"), said.get("std"), said.get("range"), channels, str(path))
    return Normalisation(mean, std)


def _path_of(reference: str) -> Path:
    if reference in PUBLISHED:
        return _fetch(PUBLISHED[reference].file)
    name, _, weights = reference.removeprefix(_TORCHVISION).partition("@")
    return _fetch(_file_of(name, weights)) if reference.startswith(_TORCHVISION) else Path(reference)


def _load_timm(name: str, model: nn.Module, channels: int) -> Normalisation:
    """Put the weights that timm publishes for a network into it, in place; what they want images normalised with."""
    timm = importlib.import_module("timm")  # it made the network
    try:
        state = timm.create_model(name, pretrained=True).state_dict()
    except Exception as error:  # of the hub, or of a network without published weights
        seen = fit_on_one_line(f"{type(error).__name__}: {error}", 160)
        raise CallerError(f"cannot fetch the weights of timm:{name} ({seen}); write timm:{name}@FILE") from error
    _check(state, model, Path(name), f"timm:{name}")
    model.load_state_dict(state)
    of = timm.get_pretrained_cfg(name)
    mean, std = read_moments(list(of.mean), list(of.std), 1, channels, f"timm:{name}")
    return Normalisation(mean, std)


def load_start(start: str, model: nn.Module, channels: int, network: str) -> None:
    """Put published weights into a network that is to be trained, in place; errors are those of `load_given`.

    Of `torchvision:NAME/WEIGHTS` the last layer stays as it is where the network has other classes.
    """
    name, slash, weights = start.removeprefix(_TORCHVISION).partition("/")
    if not slash:
        load_given(start.partition("@")[0], model, channels, network)
        return
    path = _fetch(_file_of(name, weights))
    state, own = read_weights(path).state, model.state_dict()
    both = state.keys() & own.keys()
    heads = {one for one in both if state[one].shape != own[one].shape and state[one].shape[1:] == own[one].shape[1:]}
    merged = {one: own[one] if one in heads else tensor for one, tensor in state.items()}
    _check(merged, model, path, network)
    model.load_state_dict(merged, strict=False)


def _file_of(name: str, weights: str) -> str:
    """Return the file of weights, as torchvision calls them."""
    from roarbench.models.torchvision_models import find_weights  # it takes a second to import

    return str(find_weights(name, weights).url).rpartition("/")[2]


def _fetch(file: str) -> Path:
    """Return a file of torchvision's weights, fetched where it is not there yet."""
    path, checksum = Path(torch.hub.get_dir()) / "checkpoints" / file, Path(file).stem.rpartition("-")[2]
    if not path.exists():
        url = _URL + path.name
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(path), checksum, progress=sys.stderr.isatty())
        except (OSError, RuntimeError) as error:  # no network; another checksum
            seen = f"cannot fetch {url} ({error})"
            raise CallerError(f"{seen}; put it into {path.parent}, or give it by --reference FILE") from error
    if not compute_sha256(path).startswith(checksum):
        raise CallerError(f"{path} is not torchvision's file: its checksum is another; delete it")
    return path


def _unwrap(state: dict[str, Tensor], wanted: Set[str]) -> dict[str, Tensor]:
    """Return a state dict without the prefixes that wrappers give to all names, such as `module.` or `model.`.

    As it is where a network's weights are not found behind them.
    """
    needed, found = set(filter(is_weight, wanted)), state
    while not needed <= found.keys():
        heads = {name.partition(".")[0] if "." in name else "" for name in found if name != "n_averaged"}
        if len(heads) != 1 or heads == {""}:
            return state
        found = {name.partition(".")[2]: tensor for name, tensor in found.items() if "." in name}
    return found


def _check(state: Mapping[str, Tensor], model: nn.Module, path: Path, name: str) -> None:
    """Refuse weights of another network, and those that are no numbers, in one line."""
    wanted = {one: tensor for one, tensor in model.state_dict().items() if is_weight(one)}
    found = {one: tensor for one, tensor in state.items() if is_weight(one)}
    faults = [f"it lacks {one}" for one in wanted.keys() - found.keys()]
    faults += [f"{one} is too much" for one in found.keys() - wanted.keys()]
    faults += [fault for one in wanted.keys() & found.keys() if (fault := _misfit(one, found[one], wanted[one]))]
    if faults:
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        advice = "give weights of that network"
        if "@" not in name:  # which a network of one's own has
            advice = f"give weights of a {name}, or name your own network in a suite's file (docs/own-data.md)"
        raise CallerError(f"{path} does not fit the suite's network, {name}: {min(faults)}{more}; {advice}")


def _misfit(name: str, found: Tensor, wanted: Tensor) -> str:
    """Return why a tensor cannot take the place of another one; empty where it can."""
    if found.shape != wanted.shape:
        return f"{name} is {tuple(found.shape)}, expected {tuple(wanted.shape)}"
    if found.is_floating_point() != wanted.is_floating_point():
        kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in (found, wanted)]
        return f"{name} holds {kinds[0]}, expected {kinds[1]}"
    if found.is_meta:
        return f"{name} holds no numbers"
    return "" if found.to(wanted.dtype).isfinite().all() else f"{name} holds NaN or infinity"
