"""Unfinished trainings on disk, one file each, so that a killed run goes on where it was."""

import io
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import torch

from roarbench.errors import StoreError
from roarbench.files import convert_write_errors, write_whole


class CheckpointFile:
    """The file of one training. Two processes that do the same run by mistake do not disturb each other.

    Args:
        path: Where it lies; its folder is made when something is written.
        rankings: Checksum of the rankings that are trained on; a training on others is not continued.

    Attributes:
        note: A line on what `load` found damaged and dropped; empty if nothing.
    """

    def __init__(self, path: Path, rankings: str = "") -> None:
        self._path, self._rankings = path, rankings
        self.note = ""

    def load(self) -> dict[str, Any] | None:
        """Return what was saved last, on the CPU; None if nothing was, or of a training on other rankings.

        A damaged file is dropped, so that the training starts anew.

        Raises:
            StoreError: The file cannot be opened, or a damaged one cannot be removed.
        """
        try:
            content = self._path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"cannot read {self._path}: {error.strerror or error}; delete it and run again") from error
        try:
            state = _state(content)
        except Exception:  # of garbage, zip and pickle can say anything: IndexError, KeyError, UnicodeDecodeError, …
            with convert_write_errors(self._path):
                self.remove()
            self.note = f"the checkpoint {self._path} was damaged and is dropped; its training started anew"
            return None
        return state if state.pop("rankings", "") == self._rankings else None

    def save(self, state: dict[str, Any]) -> None:
        """Keep this in its place; killed in between, the one before is still there."""
        buffer = io.BytesIO()  # given a file, torch tells of a full disk in its own way
        torch.save({**state, "rankings": self._rankings}, buffer)
        with convert_write_errors(self._path):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            own = self._path.with_suffix(f".{secrets.token_hex(8)}.partial")
            with suppress(FileNotFoundError):  # another process is through with the run, and removed all its files
                write_whole(self._path, lambda temporary: temporary.write_bytes(buffer.getbuffer()), own)

    def remove(self) -> None:
        """Remove it: the training is over and its outcome stored; what killed writers left goes, too."""
        self._path.unlink(missing_ok=True)
        for partial in self._path.parent.glob(f"{self._path.stem}.*partial"):
            partial.unlink(missing_ok=True)


def _state(content: bytes) -> dict[str, Any]:
    """Read what a checkpoint holds; any exception if it is damaged, in a single bit even."""
    with ZipFile(io.BytesIO(content)) as parts:  # torch reads numbers without looking at their checksums
        if broken := parts.testzip():
            raise ValueError(f"{broken} is damaged")
    return dict(torch.load(io.BytesIO(content), map_location="cpu", weights_only=True))
