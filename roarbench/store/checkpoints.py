"""Unfinished trainings on disk, one file each, so that a killed run goes on where it was."""

import io
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from roarbench.errors import StoreError
from roarbench.store.files import write_whole, writing


class CheckpointFile:
    """The file of one training; of one process at a time, the one that has claimed the run.

    Args:
        path: Where it lies; its folder is made when something is written.
        rankings: Checksum of the rankings that are trained on; a training on others is not continued.
    """

    def __init__(self, path: Path, rankings: str = "") -> None:
        self._path, self._rankings = path, rankings

    def load(self) -> dict[str, Any] | None:
        """What was saved last, tensors on the CPU; None if nothing was, or of a training on other rankings.

        Raises:
            StoreError: The file cannot be read.
        """
        try:
            state: dict[str, Any] = torch.load(self._path, map_location="cpu", weights_only=True)
        except FileNotFoundError:
            return None
        except (OSError, EOFError, RuntimeError, UnpicklingError) as error:
            raise StoreError(f"the checkpoint {self._path} is damaged; delete it and run again") from error
        return state if state.pop("rankings", "") == self._rankings else None

    def save(self, state: dict[str, Any]) -> None:
        """Keep this in its place; killed in between, the one before is still there.

        Raises:
            StoreError: It cannot be written.
        """
        buffer = io.BytesIO()  # given a file, torch tells of a full disk in its own way
        torch.save({**state, "rankings": self._rankings}, buffer)
        with writing(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            partial = self._path.with_suffix(".partial")
            write_whole(self._path, lambda beside: beside.write_bytes(buffer.getbuffer()), partial)

    def remove(self) -> None:
        """The training is over and what it found is stored."""
        self._path.unlink(missing_ok=True)
