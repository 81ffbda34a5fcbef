"""Networks that score many runs, on disk: the common ones, and those tuned on the masks of one row."""

from contextlib import AbstractContextManager
from pathlib import Path

import torch
from torch import nn

from roarbench.files import locked
from roarbench.store.references import load_weights, noted_checksum, save_weights


class NetworkStore:
    """The networks under one folder, each by the key of what fixes it; all can be deleted and made again.

    Damaged files and a folder that cannot be written raise StoreError.
    """

    def __init__(self, root: Path) -> None:
        self._root = root

    def has(self, key: str) -> bool:
        """Return whether a network's weights are there, whole."""
        return self._folder(key).is_dir()

    def save(self, key: str, model: nn.Module, about: dict[str, object]) -> None:
        """Write a network's weights and what is noted about them; to be called under the lock."""
        save_weights(self._folder(key), model, about)

    def weights(self, key: str) -> dict[str, torch.Tensor]:
        """Return a network's state dict, on the CPU."""
        return load_weights(self._folder(key), "network")

    def checksum(self, key: str) -> str:
        """Return the checksum of a network's weights, as noted when it was saved; empty where it is missing."""
        return noted_checksum(self._folder(key), "network") if self.has(key) else ""

    def lock(self, key: str) -> AbstractContextManager[None]:
        """Keep two processes from training the same network, on whichever machines."""
        return locked(self._root / f".{key}.lock", self._root)

    def _folder(self, key: str) -> Path:
        return self._root / key
