"""Use published explained networks instead of training them again, and publish networks of a store.

A published row explains certain weights. Another processor trains other weights from the same seed, so a row that
explains those has no rank among the published rows (`store.published_networks`).
"""

import shutil
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import torch
from rich.console import Console

from roarbench.common.errors import StoreError
from roarbench.common.files import convert_write_errors, write_atomically
from roarbench.common.text import format_count
from roarbench.execution.job_context import JobContext, ReferenceModel
from roarbench.plan.planned_runs import needs_explained_network
from roarbench.plan.suites import RESULTS
from roarbench.store.networks import StoredNetwork, write_network_file
from roarbench.store.published_networks import FOLDER, MAX_BYTES, find_network_file, read_network_file
from roarbench.store.results import ResultsStore
from roarbench.store.run_result import RunResult
from roarbench.store.workspace import Workspace


def install_published_networks(work: JobContext, store: ResultsStore, console: Console) -> None:
    """Copy the published weights of a suite's explained networks to the store, unless it has networks of its own."""
    if not needs_explained_network(work.suite):
        return
    installed = 0
    for explained in work.explained:
        path = find_network_file(list_network_folders(work.workspace), explained.reference)
        if path is None or explained.store.has_weights():
            continue
        # results for weights that were trained here need these weights again
        if store.read_explained_weights(explained.reference.key) <= {read_network_file(path).checksum}:
            installed += install_network_file(explained, path)
    if installed:
        networks = format_count(installed, "published network")
        console.print(f"{work.suite.title}: explains {networks}, not trained here", soft_wrap=True)


def list_network_folders(workspace: Workspace) -> list[Path]:
    """Return the folders of published networks: imported ones, and those that come with the package."""
    return [workspace.published, *([RESULTS / FOLDER] if RESULTS else [])]


def install_network_file(explained: ReferenceModel, path: Path) -> bool:
    """Store a published network's weights as an explained network; return False if another process has stored it."""
    file, model = read_network_file(path), explained.build_untrained_network(explained.reference.seed)
    try:
        model.load_state_dict({name: torch.from_numpy(array) for name, array in file.weights.items()})
    except RuntimeError:
        raise StoreError(f"{path} does not fit {explained.work.suite.title}; delete the file") from None
    with explained.store.lock():
        if explained.store.has_weights():
            return False
        explained.store.save_published(model)
    return True


def copy_published_networks(folder: Path, workspace: Workspace) -> int:
    """Copy the networks of a checked folder of published results to a store; return the number of networks."""
    paths = sorted((folder / FOLDER).glob("*.safetensors"))
    for path in paths:
        with convert_write_errors(workspace.published):
            workspace.published.mkdir(parents=True, exist_ok=True)
            write_atomically(workspace.published / path.name, partial(shutil.copyfile, path))
    return len(paths)


def publish_networks(results: Iterable[RunResult], workspace: Workspace, folder: Path) -> list[Path]:
    """Write the explained networks of these results to a folder of published results, unless it has them.

    Networks with given weights, and large ones, are left out. A store that lacks a network's folder leaves it out, too.
    """
    by_key = {result.run.reference: result for result in results if result.run.reference and not result.run.given}
    written = []
    for key, result in by_key.items():
        for path in workspace.references.glob(f"*-{key[:16]}"):
            stored = StoredNetwork(workspace.references, key, path.name)
            reference, weights = stored.read_reference(), stored.load_weights()
            is_small = sum(tensor.nbytes for tensor in weights.values()) < MAX_BYTES // 2
            is_published = find_network_file([folder / FOLDER], reference) is not None
            if not is_published and stored.read_checksum() == result.weights and is_small:
                written.append(write_network_file(folder / FOLDER, reference, weights))
    return written
