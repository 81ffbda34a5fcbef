"""A suite of a network and arrays that are at hand: both become files of the store, for any process to use."""

import base64
import hashlib
import io
import pickle
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import nn

from roarbench.api.inputs import array
from roarbench.api.source_text import Written, installed
from roarbench.errors import CallerError
from roarbench.files import write_whole, writing
from roarbench.plan.new_suite import recipe_lines
from roarbench.plan.suites.quick import beaten_on
from roarbench.plan.toml_table import toml

Arrays = tuple[Any, Any]  # images and labels
_RESET = ("reset_parameters", "_reset_parameters")
_NETWORK = '''\
"""A network that was handed in from Python: its structure, with weights drawn anew."""

import base64
import io
import pickle

import torch
from torch import nn
{imports}

{classes}

OWN = {own!r}
STRUCTURE = {structure!r}


class Reader(pickle.Unpickler):
    """Reads a structure: one's own classes are those of this file, parameters are empty."""

    def __init__(self, file):
        super().__init__(file)
        self.tensors = {{}}

    def find_class(self, module, name):
        return globals()[name] if module in OWN and name in globals() else super().find_class(module, name)

    def persistent_load(self, about):
        number, held = about
        if number not in self.tensors:
            trained = isinstance(held, tuple)
            self.tensors[number] = nn.Parameter(torch.empty(held[0]), held[1]) if trained else torch.tensor(held)
        return self.tensors[number]


def network(classes, channels, size):
    """Return the network with random weights: each layer's own, else normal with standard deviation 0.02."""
    model = Reader(io.BytesIO(base64.b64decode(STRUCTURE))).load()
    for module in model.modules():
        reset = next((name for name in {reset!r} if hasattr(module, name)), "")
        if reset:
            getattr(module, reset)()
            continue
        for parameter in module.parameters(recurse=False):
            nn.init.normal_(parameter, std=0.02)
    return model
'''


def write_arrays(model: nn.Module, train: Arrays, test: Arrays, asked: Mapping[str, Any], root: Path) -> Path:
    """Write a trained network and images into a store, unless they are there; the folder with their `suite.toml`.

    `asked` has lines of that file by key. The weights are in `weights.pt`, the splits as `Suite.from_arrays` takes
    them.

    Raises:
        CallerError: These do not fit together.
    """
    pixels, low, high = _steps(train, test)
    labels = [np.asarray(each[1], np.int64) for each in (train, test)]
    for images, classes in zip(pixels, labels, strict=True):
        if classes.shape != (len(images),):
            raise CallerError(f"labels have shape {classes.shape}, expected ({len(images)},)")
    source, state = network_file(model), {name: value.cpu() for name, value in model.state_dict().items()}
    text = _suite_text(asked, pixels[0].shape, source)
    seen = hashlib.sha256(text.encode() + source.encode())
    for part in (*pixels, *labels, low, high, *(value.numpy() for value in state.values())):
        seen.update(np.ascontiguousarray(part).tobytes())
    folder = root / "arrays" / f"{asked['name']}-{seen.hexdigest()[:12]}"
    if not (folder / "suite.toml").exists():
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            for split, images, classes in zip(("train", "test"), pixels, labels, strict=True):
                _write_images(folder / f"{split}-00000-of-00001.parquet", images, classes)
            (folder / "network.py").write_text(source, "utf-8")
            scale = 255 / (high - low)  # pixels are in 256 steps from `low` to `high`, (c,)
            norm = {"mean": (-low * scale).tolist(), "std": scale.tolist(), "range": 255}
            torch.save({"state_dict": state, **norm}, folder / "weights.pt")
            write_whole(folder / "suite.toml", lambda path: path.write_text(text, "utf-8"), folder / "suite.new")
    return folder


def _suite_text(asked: Mapping[str, Any], shape: tuple[int, ...], source: str) -> str:
    """Return the suite's file: what is asked for, with the controls that a row has to beat."""
    images, channels, size, _ = shape
    rows = [*beaten_on(channels), *asked["estimators"]]
    lines = {**asked, "estimators": rows, "references": 1, "tuned_on": "test"}
    return "\n".join(
        [
            *(f"{key} = {toml(value)}" for key, value in lines.items()),
            f"[data]\nparquet = '.'\ntrain = 'train'\ntest = 'test'\nsize = {size}\nchannels = {channels}",
            "[network]\nname = 'network.py:network'",
            *recipe_lines(images),
            "",
        ]
    )


def network_file(model: nn.Module) -> str:
    """Return a Python file whose function `network` makes a network of the same structure, if it can be written."""
    written = Written()
    own = {type(one) for one in model.modules() if not installed(type(one))}
    for kind in own:
        written.expression(kind, kind.__name__)
    imports = [text for text in written.statements.values() if text.startswith(("import ", "from "))]
    classes = [text for text in written.statements.values() if text not in imports]
    return _NETWORK.format(
        imports="\n".join(sorted(imports)),
        classes="\n\n\n".join(classes),
        own=sorted({kind.__module__ for kind in own}),
        structure=_structure(model),
        reset=_RESET,
    )


class _Pickler(pickle._Pickler):
    """Writes a structure, the same for equal ones: parameters by number, shape alone; equal texts are never shared."""

    numbers: dict[int, int]

    def persistent_id(self, given: Any) -> tuple[int, Any] | None:
        if not isinstance(given, torch.Tensor):
            return None
        trained = isinstance(given, nn.Parameter)
        held = (tuple(given.shape), given.requires_grad) if trained else given.numpy()
        return self.numbers.setdefault(id(given), len(self.numbers)), held

    def memoize(self, given: Any) -> None:
        if not isinstance(given, str | tuple):
            super().memoize(given)  # type: ignore[misc]


def _structure(model: nn.Module) -> str:
    plain, out = deepcopy(model).cpu(), io.BytesIO()
    for module in plain.modules():
        if isinstance(module, nn.modules.batchnorm._NormBase):
            module.reset_running_stats()  # what training left is no structure
    pickler = _Pickler(out)
    pickler.numbers = {}
    try:
        pickler.dump(plain)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        seen = f"the network's structure cannot be written ({error})"
        raise CallerError(f"{seen}; define its classes in a file or a cell") from None
    return base64.b64encode(out.getvalue()).decode()


def _steps(train: Arrays, test: Arrays) -> tuple[list[NDArray[np.uint8]], NDArray[np.float64], NDArray[np.float64]]:
    """Return the images of both splits in 256 steps, and the least and the largest training value of each channel."""
    found = [array(each[0]) for each in (train, test)]
    for one in found:
        if one.ndim != 4 or one.shape[1] not in (1, 3) or one.shape[2] != one.shape[3] or one.dtype.kind != "f":
            seen = f"images have shape {one.shape} and type {one.dtype}"
            raise CallerError(f"{seen}; expected floats (n, c, h, w) as the network takes them, square, c 1 or 3")
        if not np.isfinite(one).all() or one.shape[1:] != found[0].shape[1:]:
            raise CallerError("images hold NaN or infinity, or have two shapes; expected finite numbers of one shape")
    low, high = found[0].min((0, 2, 3)).astype(np.float64), found[0].max((0, 2, 3)).astype(np.float64)
    high = np.where(high == low, low + 1, high)
    shares = [(one - low[:, None, None]) / (high - low)[:, None, None] for one in found]
    return [np.rint(255 * share.clip(0, 1)).astype(np.uint8) for share in shares], low, high


def _write_images(path: Path, images: NDArray[np.uint8], labels: NDArray[np.int64]) -> None:
    table = pa.table({"image": [_png(one) for one in images], "label": labels})
    write_whole(path, lambda temporary: pq.write_table(table, temporary), path.with_suffix(".new"))


def _png(image: NDArray[np.uint8]) -> bytes:
    encoded = io.BytesIO()
    Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(encoded, "PNG")
    return encoded.getvalue()
