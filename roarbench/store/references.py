"""Explained models on disk: weights, and what they predict for every image.

A folder is written beside its place and renamed when it is complete, so a folder that exists is whole.
"""

import io
import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import nn

from roarbench.plan import Reference, record
from roarbench.store.files import sync, writing
from roarbench.terms import Split


class Predictions(NamedTuple):
    """What the reference says of the untouched images of a split.

    Attributes:
        targets: Predicted class of each image, int64 (n,); what is explained.
        probability: Softmax probability of that class, float32 (n,).
    """

    targets: NDArray[np.int64]
    probability: NDArray[np.float32]


class ReferenceStore:
    """The references under one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def folder(self, reference: Reference) -> Path:
        """Where this reference lies, or will."""
        return self._root / f"{reference.dataset}-{reference.model}-{reference.key[:16]}"

    @contextmanager
    def lock(self, reference: Reference) -> Iterator[None]:
        """Keep two processes from training the same reference.

        Raises:
            StoreError: The folder cannot be written.
        """
        lock = FileLock(self._root / f".{reference.key}.lock")
        with writing(self._root):
            self._root.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        try:
            yield
        finally:
            lock.release()

    def has(self, reference: Reference) -> bool:
        """Whether it is complete."""
        return self.folder(reference).is_dir()

    def save(
        self, reference: Reference, model: nn.Module, predictions: dict[Split, Predictions], seconds: float
    ) -> None:
        """Write weights and predictions; to be called under the lock.

        Raises:
            StoreError: The folder cannot be written.
        """
        folder = self.folder(reference)
        beside = folder.with_name(f".{folder.name}.partial")
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        about = {"reference": record(reference), "seconds": seconds}
        shutil.rmtree(beside, ignore_errors=True)  # of a writer that was killed
        with writing(folder):
            beside.mkdir(parents=True)
            buffer = io.BytesIO()  # given a file, torch tells of a full disk in its own way
            torch.save(weights, buffer)
            (beside / "weights.pt").write_bytes(buffer.getbuffer())
            for split, said in predictions.items():
                np.savez(beside / f"{split}.npz", targets=said.targets, probability=said.probability)
            (beside / "manifest.json").write_text(json.dumps(about, indent=1))
            for path in (*beside.iterdir(), beside):
                sync(path)
            beside.replace(folder)
            sync(self._root)

    def weights(self, reference: Reference) -> dict[str, torch.Tensor]:
        """Its state dict, on the CPU."""
        loaded: dict[str, torch.Tensor] = torch.load(
            self.folder(reference) / "weights.pt", map_location="cpu", weights_only=True
        )
        return loaded

    def predictions(self, reference: Reference, split: Split) -> Predictions:
        """What it says of the untouched images."""
        with np.load(self.folder(reference) / f"{split}.npz") as arrays:
            return Predictions(arrays["targets"], arrays["probability"])
