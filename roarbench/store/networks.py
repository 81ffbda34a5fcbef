"""Store networks, the predictions of explained networks, and checkpoints of unfinished training runs.

A network's folder is written under a temporary name and renamed when it is complete, so an existing folder has complete
weights. The predictions of an explained network are added to its folder later, in one file per split.
"""

import io
import json
import pickle
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile, ZipFile

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.common.enums import Split
from roarbench.common.errors import StoreError
from roarbench.common.files import convert_write_errors, flush_to_disk, lock_file, write_atomically
from roarbench.common.identity import encode_canonically, make_json_record
from roarbench.common.text import fit_on_one_line
from roarbench.compute.prediction import Normalisation
from roarbench.plan.cells_and_runs import ReferenceSpec
from roarbench.store.published_networks import REFERENCE, compute_checksum_of_arrays, name_network_file


class Predictions(NamedTuple):
    """Predictions of an explained network on the untouched images of a split."""

    targets: NDArray[np.int64]  # predicted class of each image, int64 (n,); maps explain this class
    probability: NDArray[np.float32]  # softmax probability of that class, float32 (n,)


class StoredNetwork:
    """Folder of a network, which exists once the network is trained; users may delete it to train the network again.

    Methods raise StoreError if files are damaged or the folder is read-only.

    Args:
        root: Folder of all networks of this kind.
        key: Hash of the network's identity.
        name: Name of the network's folder; the key if empty.
    """

    kind = "network"  # word in messages

    def __init__(self, root: Path, key: str, name: str = "") -> None:
        self.folder = root / (name or key)
        self._root, self._key = root, key

    def lock(self) -> AbstractContextManager[None]:
        """Lock the network, so that only one process, of all machines, trains it."""
        return lock_file(self._root / f".{self._key}.lock", self._root, self.folder)

    def has_weights(self) -> bool:
        return self.folder.is_dir()

    def save(self, model: nn.Module, about: Mapping[str, object]) -> None:
        """Write the weights, their checksum and the JSON values `about` atomically; the caller holds the lock."""
        partial = self.folder.with_name(f".{self.folder.name}.partial")
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        shutil.rmtree(partial, ignore_errors=True)  # remains of a killed writer
        with convert_write_errors(self.folder):
            partial.mkdir(parents=True)
            buffer = io.BytesIO()  # given a file, torch reports a full disk by a different exception
            torch.save(weights, buffer)
            (partial / "weights.pt").write_bytes(buffer.getbuffer())
            manifest = {**about, "weights": compute_weights_checksum(weights)}
            (partial / "manifest.json").write_text(json.dumps(manifest, indent=1))
            for path in (*partial.iterdir(), partial):
                flush_to_disk(path)
            partial.replace(self.folder)
            flush_to_disk(self._root)

    def load_weights(self) -> dict[str, torch.Tensor]:
        """Return the network's state dict, on the CPU."""
        with self._convert_read_errors():
            loaded: dict[str, torch.Tensor] = torch.load(self.folder / "weights.pt", "cpu", weights_only=True)
            if self.read_checksum() not in ("", compute_weights_checksum(loaded)):
                raise ValueError("the weights do not have the manifest's checksum")
        return loaded

    def read_checksum(self) -> str:
        """Return the recorded checksum of the weights; empty if the weights or their checksum are missing."""
        return str(self._read_manifest().get("weights", ""))

    def read_reference(self) -> ReferenceSpec:
        """Return the identity of an explained network from its manifest."""
        with self._convert_read_errors():
            return ReferenceSpec(**self._read_manifest()["reference"])

    def _read_manifest(self) -> dict[str, Any]:
        """Return the manifest of the weights; empty if the weights are missing."""
        with self._convert_read_errors():
            return dict(json.loads((self.folder / "manifest.json").read_text())) if self.has_weights() else {}

    @contextmanager
    def _convert_read_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError, LookupError, EOFError, RuntimeError, pickle.UnpicklingError, BadZipFile) as error:
            damaged = f"the {self.kind} in {self.folder} is damaged ({fit_on_one_line(str(error), 120)})"
            raise StoreError(f"{damaged}; delete the folder and run again") from error


class StoredReference(StoredNetwork):
    """Folder of an explained network, with the network's predictions on untouched images."""

    kind = "explained network"

    def __init__(self, root: Path, reference: ReferenceSpec) -> None:
        super().__init__(root, reference.key, f"{reference.dataset}-{reference.model}-{reference.key[:16]}")
        self._reference = reference

    def save_trained(self, model: nn.Module, seconds: float, norm: Normalisation | None = None) -> None:
        """Save the weights, the training time in seconds, and the normalisation unless it is the data set's."""
        about = {"reference": make_json_record(self._reference), "seconds": seconds}
        self.save(model, about | ({"norm": norm._asdict()} if norm else {}))

    def save_published(self, model: nn.Module) -> None:
        """Write published weights, which were trained elsewhere."""
        self.save(model, {"reference": make_json_record(self._reference), "published": True})

    def read_normalisation(self) -> Normalisation | None:
        """Return the normalisation of the images; None if the data set's applies, or if the network is missing."""
        record = self._read_manifest().get("norm")
        return Normalisation(tuple(record["mean"]), tuple(record["std"])) if record else None

    def has_predictions(self, split: Split) -> bool:
        return (self.folder / f"{split}.npz").exists()

    def save_predictions(self, split: Split, predictions: Predictions) -> None:
        """Write the predictions on a split, after the weights; the caller holds the lock."""
        path = self.folder / f"{split}.npz"
        with convert_write_errors(path):
            temporary = path.with_name(f".{path.name}")  # np.savez appends `.npz` to other names
            write_atomically(path, lambda target: np.savez(target, **predictions._asdict()), temporary)

    def load_predictions(self, split: Split) -> Predictions:
        """Return the predictions on the untouched images of a split."""
        with self._convert_read_errors(), (self.folder / f"{split}.npz").open("rb") as file:
            arrays = np.load(file)
            return Predictions(arrays["targets"], arrays["probability"])


def compute_weights_checksum(weights: Mapping[str, torch.Tensor]) -> str:
    """Return the SHA-256 of the names, types, shapes and values of weights, 64 hex digits."""
    return compute_checksum_of_arrays({name: tensor.detach().cpu().numpy() for name, tensor in weights.items()})


def write_network_file(folder: Path, reference: ReferenceSpec, weights: Mapping[str, torch.Tensor]) -> Path:
    """Write a published network's file to a folder, and return its path."""
    from safetensors.torch import save

    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in weights.items()}
    metadata = {REFERENCE: encode_canonically(make_json_record(reference))}
    content = save(tensors, metadata)  # `save_file` would let only the user read the file
    path = folder / name_network_file(reference)
    with convert_write_errors(path):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda temporary: temporary.write_bytes(content))
    return path


class CheckpointFile:
    """Checkpoint file of one training run; two processes may do the same run at once.

    Args:
        path: Path of the file; `save` creates its folder.
        rankings: Checksum of the rankings that the training run uses; `load` ignores a state for other rankings.

    Attributes:
        seconds_before: Wall seconds that interrupted processes spent on the part of the run that was loaded.
    """

    def __init__(self, path: Path, rankings: str = "") -> None:
        self._path, self._rankings = path, rankings
        self._start, self.seconds_before = time.perf_counter(), 0.0

    def load(self) -> dict[str, Any] | None:
        """Return the most recently saved state, on the CPU; None if no state is saved, or if it is for other rankings.

        A damaged file is removed, so that the training run starts from the beginning.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read {self._path}: {error.strerror or error}; delete it and run again") from error
        try:
            with ZipFile(io.BytesIO(content)) as parts:  # torch.load does not verify the zip checksums of tensors
                if broken := parts.testzip():
                    raise ValueError(f"{broken} is damaged")
            state = dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
        except Exception:  # zip and pickle raise any type on damaged content, such as IndexError or KeyError
            with convert_write_errors(self._path):
                self.remove()
            return None
        if state.pop("rankings", "") != self._rankings:
            return None
        self.seconds_before = state.pop("seconds", 0.0)
        return state

    def save(self, state: dict[str, Any]) -> None:
        """Save a state atomically, so that the previous state remains if the process is killed."""
        buffer = io.BytesIO()  # given a file, torch reports a full disk by a different exception
        seconds = self.seconds_before + time.perf_counter() - self._start
        torch.save({**state, "rankings": self._rankings, "seconds": seconds}, buffer)
        with convert_write_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            own = self._path.with_suffix(f".{secrets.token_hex(8)}.partial")
            with suppress(FileNotFoundError):  # another process has finished the run and removed its files
                write_atomically(self._path, lambda temporary: temporary.write_bytes(buffer.getbuffer()), own)

    def remove(self) -> None:
        """Remove the checkpoint of a finished training run, and files that killed processes left behind."""
        self._path.unlink(missing_ok=True)
        for partial in self._path.parent.glob(f"{self._path.stem}.*partial"):
            partial.unlink(missing_ok=True)
