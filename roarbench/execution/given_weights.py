"""Weights of an explained model that are given instead of trained: torchvision's by name, or a checkpoint file.

A checkpoint is a state dict of the suite's network, by torch.save or as safetensors. It may say what its images were
normalised with: a torch file as {"state_dict": …, "mean": [r, g, b], "std": [r, g, b]}, safetensors in its metadata,
in the range [0, 255]. Without that they are normalised as those of every other network of the suite.
"""

import json
import math
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from roarbench.errors import CallerError, UnknownName
from roarbench.files import sha256
from roarbench.kernels.inputs import Normalisation
from roarbench.plan.weights import PUBLISHED, title

_TORCHVISION = "torchvision:"
_URL = "https://download.pytorch.org/models/"
_IMAGENET = Normalisation((123.675, 116.28, 103.53), (58.395, 57.12, 57.375))  # torchvision's, in [0, 255]


_Given = tuple[dict[str, Tensor], Normalisation | None]  # on the CPU; what images are normalised with, if it says so


def load_given(reference: str, model: nn.Module, channels: int) -> Normalisation | None:
    """Put given weights into a network, in place; what they want images normalised with, None for the suite's own.

    CallerError where they cannot be fetched or read, or belong to another network.
    """
    path = _fetched(PUBLISHED[reference].file) if reference in PUBLISHED else Path(reference)
    state, norm = _read(path)
    _check(state, model, path)
    if title(str(path)).startswith("torchvision:"):
        norm = _IMAGENET
    elif norm is not None:
        _check_norm(norm, channels, path)
    model.load_state_dict(state, strict=False)  # old files count no batches
    return norm


def load_start(start: str, model: nn.Module, channels: int) -> None:
    """Put published weights into a network that is to be trained, in place; errors are those of `load_given`.

    Of `torchvision:NAME/WEIGHTS` the last layer stays as it is where the network has other classes.
    """
    name, slash, weights = start.removeprefix(_TORCHVISION).partition("/")
    if not slash:
        load_given(start.partition("@")[0], model, channels)
        return
    path = _fetched(_file_of(name, weights))
    (state, _), own = _read(path), model.state_dict()
    both = state.keys() & own.keys()
    heads = {one for one in both if state[one].shape != own[one].shape and state[one].shape[1:] == own[one].shape[1:]}
    merged = {one: own[one] if one in heads else tensor for one, tensor in state.items()}
    _check(merged, model, path)
    model.load_state_dict(merged, strict=False)


def _file_of(name: str, weights: str) -> str:
    """Return the file of weights, as torchvision calls them."""
    from roarbench.models.vision import torchvision_models  # it takes a second to import

    models = torchvision_models()
    try:
        known = models.get_model_weights(name)
    except ValueError:
        raise UnknownName("network of torchvision", name, models.list_models(module=models)) from None
    if weights not in known.__members__:
        raise UnknownName(f"weights of torchvision:{name}", weights, known.__members__)
    return str(known[weights].url).rpartition("/")[2]


def _fetched(file: str) -> Path:
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
    if not sha256(path).startswith(checksum):
        raise CallerError(f"{path} is not torchvision's file: its checksum is another; delete it")
    return path


def _read(path: Path) -> _Given:
    try:
        return _read_safetensors(path) if path.suffix == ".safetensors" else _read_torch(path)
    except CallerError:
        raise
    except Exception as error:  # both libraries raise a dozen kinds on damaged files
        seen = f"cannot read {path} ({type(error).__name__})"
        raise CallerError(f"{seen}; write torch.save(model.state_dict(), FILE), or safetensors") from error


def _read_safetensors(path: Path) -> _Given:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        metadata = {key: json.loads(value) for key, value in (file.metadata() or {}).items() if key in ("mean", "std")}
    return state, _norm_of(metadata)


def _read_torch(path: Path) -> _Given:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pickles and programs, which are no state dicts: one line says so below
        loaded: Any = torch.load(path, map_location="cpu", weights_only=True)
    state = loaded.get("state_dict", loaded) if isinstance(loaded, dict) else None
    if not isinstance(state, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in state.items()
    ):
        raise CallerError(f"{path} holds no state dict; write torch.save(model.state_dict(), FILE)")
    return dict(state), _norm_of(loaded)


def _norm_of(metadata: Mapping[str, Any]) -> Normalisation | None:
    if not {"mean", "std"} <= set(metadata) or isinstance(metadata["mean"], Tensor):
        return None
    return Normalisation(tuple(metadata["mean"]), tuple(metadata["std"]))


def _check_norm(norm: Normalisation, channels: int, path: Path) -> None:
    numbers = (*norm.mean, *norm.std)
    fine = all(isinstance(number, int | float) and math.isfinite(number) for number in numbers)
    if not fine or len(norm.mean) != channels or len(norm.std) != channels or min(norm.std) <= 0:
        seen = f"{path} has mean {norm.mean} and std {norm.std}"
        raise CallerError(f"{seen}; expected {channels} numbers each, std above 0")


def _check(state: Mapping[str, Tensor], model: nn.Module, path: Path) -> None:
    """Refuse weights of another network, and those that are no numbers, in one line."""
    wanted = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items() if _is_weight(name)}
    found = {name: tuple(tensor.shape) for name, tensor in state.items() if _is_weight(name)}
    faults = [f"it lacks {name}" for name in wanted.keys() - found.keys()]
    faults += [f"{name} is too much" for name in found.keys() - wanted.keys()]
    both = wanted.keys() & found.keys()
    faults += [f"{name} is {found[name]}, expected {wanted[name]}" for name in both if found[name] != wanted[name]]
    faults = faults or [f"{name} holds NaN or infinity" for name in wanted if not state[name].isfinite().all()]
    if faults:
        more = f" and {len(faults) - 1} more" if len(faults) > 1 else ""
        raise CallerError(f"{path} does not fit the suite's network: {min(faults)}{more}; give weights of that network")


def _is_weight(name: str) -> bool:
    return not name.endswith("num_batches_tracked")
