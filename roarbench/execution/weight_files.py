"""Files of weights as people have them: a state dict by torch or safetensors, alone or among other things."""

import argparse
import json
import warnings
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from roarbench.errors import CallerError
from roarbench.text import list_some

_WRITE = "write torch.save(model.state_dict(), FILE)"
_NORMALISED = ("mean", "std", "range")
_COUNTERS = ("num_batches_tracked", "n_averaged")  # of batch norm, which old files lack; of averaged weights
_KINDS = [type(np.dtype(kind)) for kind in "?bhilqBHILQefd"]
_REBUILDS: list[Any] = [np.float64(0).__reduce__()[0], np.zeros(1).__reduce__()[0]]
# what checkpoints hold beside weights: options, and NumPy's numbers and arrays, by their old name and the new one
_HARMLESS: list[Any] = [argparse.Namespace, np.ndarray, np.dtype, *_KINDS]
_HARMLESS += [(each, f"numpy.{core}.multiarray.{each.__name__}") for each in _REBUILDS for core in ("core", "_core")]


class WeightFile(NamedTuple):
    """Contents of a file of weights."""

    state: dict[str, Tensor]  # dense, on the CPU
    normalised: dict[str, Any]  # `mean`, `std` and `range`, as far as it has them


def read_weights(path: Path) -> WeightFile:
    """Read a file of weights by its content, whatever its name; CallerError where it is none. No code of it is run."""
    try:
        return _read_safetensors(path) if _is_safetensors(path) else _read_torch(path)
    except CallerError:
        raise
    except Exception as error:  # both libraries raise a dozen kinds on damaged files
        raise CallerError(_explain_unreadable(path, error)) from error


def is_weight(name: str) -> bool:
    """Return whether a tensor of a state dict, by its name, is more than a counter of the training."""
    return not name.endswith(_COUNTERS)


def _is_safetensors(path: Path) -> bool:
    """Return whether a file begins as safetensors do: with the length of a header in JSON."""
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _read_safetensors(path: Path) -> WeightFile:
    from safetensors import safe_open

    with safe_open(path, framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        said = dict(file.metadata() or {})
    for key in set(_NORMALISED) & set(said):
        with suppress(ValueError):  # what is no JSON is told of by whoever reads the numbers
            said[key] = json.loads(said[key])
    return WeightFile(state, _normalise(said))


def _read_torch(path: Path) -> WeightFile:
    harmless = torch.serialization.safe_globals(_HARMLESS)
    with warnings.catch_warnings(), harmless, path.open("rb") as file:  # by its path torch would go by its name
        warnings.simplefilter("ignore")  # of pickles and programs, which are no state dicts: one line says so below
        loaded: Any = torch.load(file, map_location="cpu", weights_only=True)
    if _is_state(loaded):
        return WeightFile(_make_dense(loaded), {})  # `mean` is a buffer of the network there
    found = {key: value for key, value in loaded.items() if _is_state(value)} if isinstance(loaded, dict) else {}
    if not found:
        raise CallerError(f"{path} holds no state dict; {_WRITE}")
    (key, state), *others = found.items()
    if different := [other for other, value in others if not _are_equal(state, value)]:
        seen = f"{path} holds different weights under {list_some([repr(name) for name in (key, *different)])}"
        raise CallerError(f"{seen}; write torch.save(torch.load(FILE)[{different[-1]!r}], OTHER), or with another name")
    return WeightFile(_make_dense(state), _normalise(loaded))


def _is_state(given: Any) -> bool:
    return (
        isinstance(given, dict)
        and bool(given)
        and all(isinstance(name, str) and isinstance(value, Tensor) for name, value in given.items())
    )


def _are_equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(
        one[name].shape == other[name].shape and bool((one[name] == other[name]).all()) for name in one
    )


def _make_dense(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value if value.layout is torch.strided else value.to_dense() for name, value in state.items()}


def _normalise(said: Mapping[str, Any]) -> dict[str, Any]:
    return {key: said[key] for key in _NORMALISED if key in said}


def _explain_unreadable(path: Path, error: Exception) -> str:
    """Return why a file cannot be read, and what to write instead."""
    code: list[str] = []
    with suppress(Exception):
        code = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    if "TorchScript" in str(error):
        return f"{path} is a TorchScript program; write torch.save(torch.jit.load(FILE).state_dict(), OTHER)"
    if code:
        seen = f"cannot read {path}, which holds {list_some(sorted(code))}: only numbers are read, no code is run"
        return f"{seen}; {_WRITE} where you trust the file"
    seen = f"cannot read {path} ({type(error).__name__}), which is cut off, damaged, or no file of torch or safetensors"
    return f"{seen}; {_WRITE}, or safetensors"
