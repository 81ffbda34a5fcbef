"""Published networks beside published rows: each kind of tampering is refused in one line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from roarbench.common.errors import StoreError
from roarbench.store import published_networks
from roarbench.store.published_folder import INDEX, read_checked_folder
from roarbench.store.published_networks import FOLDER, read_network_file
from tests.helpers.processes import ROOT

NAME = "quick-matched/3/roarbench.parquet"
KEYS = ("7019b5cc75f09b59", "d749acffce2956a6", "e787b29a77a745c0")  # networks that the rows explain
NETWORKS = [f"imagenette64-1000-resnet-quick-{key}.safetensors" for key in KEYS]
UNUSED = "imagenette64-1000-resnet-quick-56ec04eff24e0a50.safetensors"


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    for name in (NAME, *(f"{FOLDER}/{network}" for network in NETWORKS)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "results" / name, folder / name)
    index = json.loads((ROOT / "results" / INDEX).read_text())
    index["files"] = [entry for entry in index["files"] if entry["path"] == NAME]
    (folder / INDEX).write_text(json.dumps(index))
    return folder


@pytest.fixture
def folder(published, tmp_path):
    return Path(shutil.copytree(published, tmp_path / "results"))


def change_weights(path):
    """Change one weight by its smallest step, under an unchanged name and identity."""
    weights, metadata = load_file(path), read_metadata(path)
    name = max(weights)
    weights[name].flat[0] = np.nextafter(weights[name].flat[0], np.inf)
    save_file(weights, path, metadata)


def forge_identity(path, **values):
    metadata = read_metadata(path)
    changed = json.loads(metadata["reference"]) | values
    save_file(load_file(path), path, {"reference": json.dumps(changed)})


def read_metadata(path):
    length = int.from_bytes(path.read_bytes()[:8], "little")
    return json.loads(path.read_bytes()[8 : 8 + length])["__metadata__"]


def swap(path):
    """Give a network the name of another network that rows explain."""
    path.replace(path.with_name(NETWORKS[1]))


def link(path):
    path.rename(path.parents[2] / "away")
    path.symlink_to(path.parents[2] / "away")


@pytest.mark.parametrize(
    ("tamper", "said"),
    [
        (
            change_weights,
            f"{NAME} has rows for other weights than those of networks/{NETWORKS[0]}, so they have no rank",
        ),
        (swap, f"{NETWORKS[1]} has the network of {NETWORKS[0]}; delete the file"),
        (lambda path: forge_identity(path, seed=7), "has the network of imagenette64-1000-resnet-quick-"),
        (lambda path: forge_identity(path, seed="7"), "is not a published network"),
        (lambda path: forge_identity(path, more=1), "is not a published network"),
        (lambda path: save_file(load_file(path), path), "is not a published network"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), "is not a published network"),
        (lambda path: path.write_bytes(b"\x80\x04."), "is not a published network"),
        (lambda path: path.write_bytes(b"\xff" * 8), "is not a published network"),
        (link, "is a link"),
        (lambda path: (path.parent / "more.pt").write_bytes(b""), "networks/more.pt is not in index.json"),
        (lambda path: shutil.copy(path, path.parents[1] / path.name), f"{NETWORKS[0]} is not in index.json"),
        (
            lambda path: shutil.copy(ROOT / "results" / FOLDER / UNUSED, path.parent),
            f"networks/{UNUSED} is explained by no row; delete the file",
        ),
    ],
)
def test_tampering_with_networks_is_refused_in_one_line(folder, tamper, said):
    tamper(folder / FOLDER / NETWORKS[0])
    with pytest.raises(StoreError) as refused:
        read_checked_folder(folder)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_folder_with_its_networks_is_accepted_and_networks_may_be_missing(folder):
    (rows,) = read_checked_folder(folder).values()
    explained = {(row.run.reference[:16], row.weights) for row in rows if row.run.reference}
    files = [read_network_file(folder / FOLDER / name) for name in NETWORKS]
    assert {(file.reference.key[:16], file.checksum) for file in files} == explained
    shutil.rmtree(folder / FOLDER)  # large networks are not published
    assert len(read_checked_folder(folder)) == 1


def test_huge_network_is_refused_before_it_is_read(folder, monkeypatch):
    monkeypatch.setattr(published_networks, "MAX_BYTES", 1000)
    with pytest.raises(StoreError, match="expected at most 1,000"):
        read_network_file(folder / FOLDER / NETWORKS[0])
