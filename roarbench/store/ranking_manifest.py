"""The manifest of finished rankings: what they are, with the checksums of their files."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from roarbench.errors import Hint, StoreError
from roarbench.identity import fingerprint
from roarbench.store.ranking_parts import remedy
from roarbench.terms import Split

FORMAT = 1  # counts up when older versions of roarbench cannot read the files any more
MANIFEST = "manifest.json"
_FILE_KEYS = {"images", "bytes", "sha256", "seconds"}


def content_of(files: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the hash of the contents of these files, as a manifest has them."""
    return fingerprint({split: file["sha256"] for split, file in files.items()})


def kept_of(files: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return `Rankings.kept` from what a manifest says of its files."""
    if not files or not all("kept" in file for file in files.values()):
        return None
    return float(sum(file["kept"] for file in files.values()) / sum(file["copies"] for file in files.values()))


def checksum_of(manifest: Path) -> str:
    """Return the checksum of the rankings that a manifest describes; empty where it cannot be read."""
    try:
        return content_of(json.loads(manifest.read_text())["files"])
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return ""


def read_manifest(folder: Path, splits: Iterable[Split]) -> dict[str, Any]:
    """Return the manifest of a folder of finished rankings.

    Raises:
        StoreError: There is none, it is of a newer version, or it does not describe the files of these splits.
    """
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
        if manifest["format"] > FORMAT:
            found = f"{path} has format {manifest['format']}, this version reads up to {FORMAT}"
            raise StoreError(f"{found}; upgrade roarbench")
        if not all(manifest["files"][split].keys() >= _FILE_KEYS for split in splits):
            raise StoreError(f"{path} does not describe its files; {remedy(folder)}")
    except FileNotFoundError as error:
        raise StoreError(f"no finished rankings in {folder}", Hint("; `{}` makes them", "run")) from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error!r}; {remedy(folder)}") from error
    return manifest
