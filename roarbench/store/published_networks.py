"""Name, find and check the files of published explained networks, one safetensors file per network.

    networks/DATASET-MODEL-KEY.safetensors    in a folder of published results, or in a store that imported the folder

Equal training runs on two processors give different weights, and a row has a rank only among rows that explain the same
weights. A file has the network's identity in its metadata. Nothing here imports torch.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.common.errors import StoreError
from roarbench.common.identity import check_field_values
from roarbench.common.text import fit_on_one_line
from roarbench.plan.cells_and_runs import ReferenceSpec
from roarbench.plan.suites import RESULTS
from roarbench.store.workspace import Workspace

FOLDER = "networks"  # subfolder of a folder of published results
NETWORK_PATH = rf"{FOLDER}/[a-z0-9-]{{1,100}}-[0-9a-f]{{16}}\.safetensors"
REFERENCE = "reference"  # key of the metadata
MAX_BYTES = 2**26


class NetworkFile(NamedTuple):
    """Content of a published network's file."""

    reference: ReferenceSpec  # identity of the network
    weights: dict[str, NDArray[Any]]  # state dict
    checksum: str  # checksum of the weights, as rows record it


def name_network_file(reference: ReferenceSpec) -> str:
    """Return the name of a network's file."""
    title = re.sub("[^a-z0-9]+", "-", f"{reference.dataset}-{reference.model}".lower()).strip("-")
    return f"{title[:100]}-{reference.key[:16]}.safetensors"


def find_network_file(folders: Iterable[Path], reference: ReferenceSpec) -> Path | None:
    """Return the file of a network in the first of these folders that has one; None if no folder has one."""
    paths = (folder / name_network_file(reference) for folder in folders)
    return next((path for path in paths if path.is_file()), None)


def find_imported_or_packaged_network(workspace: Workspace, reference: ReferenceSpec) -> Path | None:
    """Return the file of a published network that was imported or comes with the package; None if there is none."""
    return find_network_file([workspace.published, *([RESULTS / FOLDER] if RESULTS else [])], reference)


def read_network_file(path: Path) -> NetworkFile:
    """Read a published network; raise StoreError if the file is not one, or if its name is another network's."""
    from safetensors import SafetensorError, safe_open

    try:
        if path.stat().st_size > MAX_BYTES:
            raise ValueError(f"it has {path.stat().st_size:,} bytes, expected at most {MAX_BYTES:,}")
        with safe_open(path, framework="numpy") as file:
            values = json.loads((file.metadata() or {})[REFERENCE])
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        check_field_values(reference := ReferenceSpec(**values))
    except (OSError, SafetensorError, LookupError, ValueError, TypeError, RecursionError) as error:
        seen = fit_on_one_line(str(error) or type(error).__name__, 120)
        raise StoreError(f"{path} is not a published network ({seen}); delete the file") from None
    if path.name != name_network_file(reference):
        raise StoreError(f"{path} has the network of {name_network_file(reference)}; delete the file")
    return NetworkFile(reference, weights, compute_checksum_of_arrays(weights))


def compute_checksum_of_arrays(weights: Mapping[str, NDArray[Any]]) -> str:
    """Return the SHA-256 of the names, types, shapes and values of weights, 64 hex digits."""
    digest = hashlib.sha256()
    for name, array in sorted(weights.items()):
        digest.update(f"{name} torch.{array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
