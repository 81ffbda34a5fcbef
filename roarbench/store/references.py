"""Explained models on disk: weights, and what they predict for every image.

A folder is written beside its place and renamed when it is complete, so a folder that exists is whole.
"""

import json
import os
import shutil
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from filelock import FileLock
from numpy.typing import NDArray
from torch import nn

from roarbench.plan import Reference, record
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

    def lock(self, reference: Reference) -> FileLock:
        """Keeps two processes from training the same reference."""
        self._root.mkdir(parents=True, exist_ok=True)
        return FileLock(self._root / f".{reference.key}.lock")

    def has(self, reference: Reference) -> bool:
        """Whether it is complete."""
        return self.folder(reference).is_dir()

    def save(
        self, reference: Reference, model: nn.Module, predictions: dict[Split, Predictions], seconds: float
    ) -> None:
        """Write weights and predictions; the rename is the last step."""
        folder = self.folder(reference)
        beside = folder.with_name(f".{folder.name}.{os.getpid()}")
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
        torch.save(weights, beside / "weights.pt")
        for split, said in predictions.items():
            np.savez(beside / f"{split}.npz", targets=said.targets, probability=said.probability)
        about = {"reference": record(reference), "seconds": seconds}
        (beside / "manifest.json").write_text(json.dumps(about, indent=1))
        beside.replace(folder)

    def weights(self, reference: Reference) -> dict[str, torch.Tensor]:
        """Its state dict, on the CPU."""
        loaded: dict[str, torch.Tensor] = torch.load(
            self.folder(reference) / "weights.pt", map_location="cpu", weights_only=True
        )
        return loaded

    def seconds(self, reference: Reference) -> float:
        """How long its training took."""
        manifest = json.loads((self.folder(reference) / "manifest.json").read_text())
        return float(manifest["seconds"])

    def predictions(self, reference: Reference, split: Split) -> Predictions:
        """What it says of the untouched images."""
        with np.load(self.folder(reference) / f"{split}.npz") as arrays:
            return Predictions(arrays["targets"], arrays["probability"])
