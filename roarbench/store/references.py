"""Networks on disk: explained ones, with what they predict for every image, and those that score many runs.

A folder with weights is written beside its place and renamed when it is complete, so a folder that exists has them
whole; what they predict is added to it, one file for each split.
"""

import hashlib
import io
import json
import pickle
import shutil
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.errors import StoreError
from roarbench.files import locked, sync, write_whole, writing
from roarbench.identity import record
from roarbench.kernels.inputs import Normalisation
from roarbench.plan.runs import Reference
from roarbench.terms import Split


class Predictions(NamedTuple):
    """Predictions of the reference for the untouched images of a split."""

    targets: NDArray[np.int64]  # predicted class of each image, int64 (n,); what is explained
    probability: NDArray[np.float32]  # softmax probability of that class, float32 (n,)


@dataclass(frozen=True)
class StoredReference:
    """A reference in a folder of all references, there or not.

    Damaged files and a folder that cannot be written raise StoreError.
    """

    root: Path
    reference: Reference

    @property
    def folder(self) -> Path:
        """Return where it lies, or will."""
        return self.root / f"{self.reference.dataset}-{self.reference.model}-{self.reference.key[:16]}"

    def lock(self) -> AbstractContextManager[None]:
        """Keep two processes from training the same reference, on whichever machines."""
        return locked(self.root / f".{self.reference.key}.lock", self.root, self.folder)

    def has(self) -> bool:
        """Return whether its weights are there."""
        return self.folder.is_dir()

    def predicted(self, split: Split) -> bool:
        """Return whether its predictions on the untouched images of a split are stored."""
        return (self.folder / f"{split}.npz").exists()

    def save(self, model: nn.Module, seconds: float, norm: Normalisation | None = None) -> None:
        """Write the weights, the seconds of the training, and what images are normalised with if not as the data set's.

        To be called under the lock.
        """
        about = {"reference": record(self.reference), "seconds": seconds} | ({"norm": norm._asdict()} if norm else {})
        save_weights(self.folder, model, about)

    def save_predictions(self, split: Split, predictions: Predictions) -> None:
        """Write what it says of the untouched images of a split; to be called under the lock, after `save`."""
        path = self.folder / f"{split}.npz"
        with writing(path):
            write_whole(
                path,
                lambda temporary: np.savez(temporary, **predictions._asdict()),
                path.with_name(f".{path.name}"),  # savez wants the ending
            )

    def weights(self) -> dict[str, torch.Tensor]:
        """Return its state dict, on the CPU."""
        return load_weights(self.folder, "reference")

    def checksum(self) -> str:
        """Return the checksum of its weights; empty for one that was saved before this was noted."""
        return noted_checksum(self.folder, "reference")

    def norm(self) -> Normalisation | None:
        """Return what images are normalised with for it; None for the data set's own, and while it is missing."""
        if not self.has():
            return None
        with _readable(self.folder, "reference") as folder:
            norm = json.loads((folder / "manifest.json").read_text()).get("norm")
            return Normalisation(tuple(norm["mean"]), tuple(norm["std"])) if norm else None

    def predictions(self, split: Split) -> Predictions:
        """Return its predictions on the untouched images."""
        with _readable(self.folder, "reference") as folder, (folder / f"{split}.npz").open("rb") as file:
            arrays = np.load(file)
            return Predictions(arrays["targets"], arrays["probability"])


@dataclass(frozen=True)
class NetworkStore:
    """The networks under one folder, each by the key of what fixes it; all can be deleted and made again.

    Damaged files and a folder that cannot be written raise StoreError.
    """

    root: Path

    def has(self, key: str) -> bool:
        """Return whether a network's weights are there, whole."""
        return (self.root / key).is_dir()

    def save(self, key: str, model: nn.Module, about: dict[str, object]) -> None:
        """Write a network's weights and what is noted about them; to be called under the lock."""
        save_weights(self.root / key, model, about)

    def weights(self, key: str) -> dict[str, torch.Tensor]:
        """Return a network's state dict, on the CPU."""
        return load_weights(self.root / key, "network")

    def checksum(self, key: str) -> str:
        """Return the checksum of a network's weights, as noted when it was saved; empty where it is missing."""
        return noted_checksum(self.root / key, "network") if self.has(key) else ""

    def lock(self, key: str) -> AbstractContextManager[None]:
        """Keep two processes from training the same network, on whichever machines."""
        return locked(self.root / f".{key}.lock", self.root)


def save_weights(folder: Path, model: nn.Module, about: Mapping[str, object]) -> None:
    """Write a network's weights, their checksum and what is noted about them, so that they are whole or not there."""
    partial = folder.with_name(f".{folder.name}.partial")
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    shutil.rmtree(partial, ignore_errors=True)  # of a writer that was killed
    with writing(folder):
        partial.mkdir(parents=True)
        buffer = io.BytesIO()  # given a file, torch tells of a full disk in its own way
        torch.save(weights, buffer)
        (partial / "weights.pt").write_bytes(buffer.getbuffer())
        (partial / "manifest.json").write_text(json.dumps({**about, "weights": checksum(weights)}, indent=1))
        for path in (*partial.iterdir(), partial):
            sync(path)
        partial.replace(folder)
        sync(folder.parent)


def load_weights(folder: Path, what: str) -> dict[str, torch.Tensor]:
    """Return a state dict that `save_weights` wrote, on the CPU; StoreError, about `what`, where it is damaged."""
    with _readable(folder, what):
        loaded: dict[str, torch.Tensor] = torch.load(folder / "weights.pt", map_location="cpu", weights_only=True)
        if noted_checksum(folder, what) not in ("", checksum(loaded)):
            raise ValueError("the weights are not those of the manifest")
    return loaded


def noted_checksum(folder: Path, what: str) -> str:
    """Return the checksum of the weights that `save_weights` wrote; empty if they were saved before it was noted."""
    with _readable(folder, what):
        return str(json.loads((folder / "manifest.json").read_text()).get("weights", ""))


def checksum(weights: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of names, types, shapes and values, 64 hex digits: no two machines train the same weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(np.ascontiguousarray(tensor.detach().cpu().numpy()).tobytes())
    return digest.hexdigest()


@contextmanager
def _readable(folder: Path, what: str) -> Iterator[Path]:
    try:
        yield folder
    except (OSError, ValueError, LookupError, EOFError, RuntimeError, pickle.UnpicklingError, BadZipFile) as error:
        seen = " ".join(str(error).split())[:120]
        raise StoreError(f"the {what} in {folder} is damaged ({seen}); delete the folder and run again") from error
