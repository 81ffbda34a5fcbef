"""Explained networks and checkpoints on disk: atomic writes and concurrent processes."""

import os
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import nn

from roarbench.common import files
from roarbench.common.enums import Split
from roarbench.common.errors import StoreError
from roarbench.plan.cells_and_runs import ReferenceSpec
from roarbench.store import networks
from roarbench.store.networks import CheckpointFile, Predictions, StoredReference, compute_weights_checksum
from tests.helpers.store_rows import flip, halve

REFERENCE = ReferenceSpec("planted", "da7a", "resnet-planted", "planted@1", 1000)
DRAWN = np.random.default_rng(0)
PREDICTIONS = {
    split: Predictions(DRAWN.integers(10, size=n), DRAWN.random(n, dtype=np.float32))
    for split, n in ((Split.TRAIN, 12), (Split.TEST, 7))
}
STATE = {"step": 3, "weights": {"a": torch.arange(4.0)}, "generators": [torch.Generator().get_state()]}


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to(memory_format=torch.channels_last)


def save(store, seed=0):
    with store.lock():
        if not store.has_weights():
            store.save_trained(make_model(seed), 12.5)
        for split, said in PREDICTIONS.items():
            store.save_predictions(split, said)


@pytest.fixture
def store(tmp_path):
    return StoredReference(tmp_path, REFERENCE)


def test_saved_network_loads_from_unchanged_folder_name(store, tmp_path):
    assert not store.has_weights()
    save(store)
    assert store.has_weights()
    with store.lock(), StoredReference(tmp_path, replace(REFERENCE, data="0ther")).lock():  # has its own lock
        assert len(paths := list(tmp_path.rglob("*.lock"))) == 2
        for path in paths:
            with pytest.raises(TimeoutError):
                FileLock(path, timeout=0).acquire()
    torch.testing.assert_close(store.load_weights(), dict(make_model().state_dict()), rtol=0, atol=0)
    for split, said in PREDICTIONS.items():
        for found, expected in zip(store.load_predictions(split), said, strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)
    assert store.folder.name == "planted-resnet-planted-553a411d1f07c93c"
    assert {path.name for path in store.folder.iterdir()} == {"weights.pt", "train.npz", "test.npz", "manifest.json"}
    assert '"recipe": "planted@1"' in (store.folder / "manifest.json").read_text()


def test_load_weights_rejects_other_names_types_shapes_or_bits(store):
    save(store)
    weights = dict(make_model().state_dict())
    for ordered in (weights, dict(reversed(weights.items()))):
        assert store.read_checksum() == compute_weights_checksum(ordered)
    bias = weights["0.bias"]
    others = [weights | {"0.bias": other} for other in (bias * (1 + 2**-23), bias.double(), bias[:, None])]
    others.append({(f"{name}s" if name == "0.bias" else name): tensor for name, tensor in weights.items()})
    for other in others:
        torch.save(other, store.folder / "weights.pt")
        with pytest.raises(StoreError, match="the weights do not have the manifest's checksum"):
            store.load_weights()


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("weights.pt", halve),
        ("test.npz", halve),
        ("manifest.json", halve),
        ("weights.pt", Path.unlink),
        ("test.npz", lambda path: os.truncate(path, 0)),
    ],
)
def test_damaged_network_raises_one_line_with_folder_to_delete(store, name, damage):
    save(store)
    damage(store.folder / name)
    with pytest.raises(StoreError) as caught:
        store.load_weights()
        store.load_predictions(Split.TEST)
    said = str(caught.value)
    assert said.startswith(f"the explained network in {store.folder} is damaged (") and "\n" not in said
    assert said.endswith("; delete the folder and run again")


@pytest.mark.parametrize("owner, step", [(Path, "write_text"), (Path, "replace"), (np, "savez"), (os, "replace")])
def test_interrupted_save_leaves_no_network_and_can_be_repeated(store, tmp_path, monkeypatch, owner, step):
    """The first two steps write weights, the other two predictions."""
    if owner is not Path:
        store.save_trained(make_model(), 12.5)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, step, Mock(side_effect=KeyboardInterrupt))
        save(store)
    assert store.has_weights() == (owner is not Path)
    assert not any(map(store.has_predictions, Split))
    save(store, seed=2)
    assert all(map(store.has_predictions, Split))
    weights = dict(make_model(2 if owner is Path else 0).state_dict())
    torch.testing.assert_close(store.load_weights(), weights, rtol=0, atol=0)
    np.testing.assert_array_equal(store.load_predictions(Split.TEST).targets, PREDICTIONS[Split.TEST].targets)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [store.folder]


def test_save_flushes_network_files_before_rename(store, tmp_path, monkeypatch):
    steps = []
    sync, replace = networks.flush_to_disk, Path.replace
    monkeypatch.setattr(networks, "flush_to_disk", lambda path: (steps.append(path.name), sync(path)))
    monkeypatch.setattr(Path, "replace", lambda path, target: (steps.append("replace"), replace(path, target))[1])
    save(store)
    assert {"weights.pt", "manifest.json"} < set(steps[: steps.index("replace")])
    assert steps[-2:] == ["replace", tmp_path.name]


def test_checkpoint_loads_last_state_for_same_rankings(tmp_path):
    file = CheckpointFile(tmp_path / "folder" / "run.pt", "0ne")
    assert file.load() is None
    file.save(STATE | {"step": 2})
    file.save(STATE)
    torch.testing.assert_close(file.load(), STATE, rtol=0, atol=0)
    for other in ("0ther", ""):
        assert CheckpointFile(tmp_path / "folder" / "run.pt", other).load() is None
    for name in ("run.partial", "run.0123.partial", "other.0123.partial"):  # left by killed writers
        (tmp_path / "folder" / name).write_bytes(b"half")
    for _ in range(2):  # gone already
        file.remove()
        assert file.load() is None
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["other.0123.partial"]


def test_time_of_an_interrupted_training_includes_earlier_processes(tmp_path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(networks.time, "perf_counter", lambda: now[0])
    first = CheckpointFile(tmp_path / "run.pt")
    now[0] += 30
    first.save(STATE)
    now[0] += 1000  # nobody trains
    second = CheckpointFile(tmp_path / "run.pt")
    assert second.seconds_before == 0
    assert second.load().keys() == STATE.keys() and second.seconds_before == 30
    now[0] += 5
    second.save(STATE)
    third = CheckpointFile(tmp_path / "run.pt")
    third.load()
    assert third.seconds_before == 35


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b"\x80\x02."),  # no archive
        lambda path: flip(path, STATE["weights"]["a"].numpy().tobytes()),  # torch reads the file without an error
        lambda path: torch.save(torch.arange(3.0), path),  # no training
    ],
)
def test_load_removes_damaged_checkpoint(tmp_path, damage):
    path = tmp_path / "run.pt"
    CheckpointFile(path).save(STATE)
    damage(path)
    assert CheckpointFile(path).load() is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("over", [False, True])
def test_checkpoint_save_survives_concurrent_save_or_removal(tmp_path, monkeypatch, over):
    one, other = (CheckpointFile(tmp_path / "run.pt") for _ in range(2))
    sync, began = files.flush_to_disk, []

    def amid(path):
        if not began:
            began.append(path)
            other.remove() if over else other.save(STATE | {"step": 8})
        sync(path)

    monkeypatch.setattr(files, "flush_to_disk", amid)
    one.save(STATE)
    torch.testing.assert_close(one.load(), None if over else STATE, rtol=0, atol=0)
    assert [path.name for path in tmp_path.iterdir()] == ([] if over else ["run.pt"])
