"""Explained models on disk: whole or not there, and trained by one process at a time."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock
from torch import nn

from roarbench.errors import StoreError
from roarbench.plan.runs import Reference
from roarbench.store import references
from roarbench.store.references import Predictions, StoredReference, checksum
from roarbench.terms import Split
from tests.helpers.damage import halve

REFERENCE = Reference("planted", "da7a", "resnet-planted", "planted@1", 1000)
DRAWN = np.random.default_rng(0)
PREDICTIONS = {
    split: Predictions(DRAWN.integers(10, size=n), DRAWN.random(n, dtype=np.float32))
    for split, n in ((Split.TRAIN, 12), (Split.TEST, 7))
}


def make_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to(memory_format=torch.channels_last)


def save(store, seed=0):
    with store.lock():
        store.save(make_model(seed), 12.5)
        for split, said in PREDICTIONS.items():
            store.save_predictions(split, said)


@pytest.fixture
def store(tmp_path):
    return StoredReference(tmp_path, REFERENCE)


@pytest.fixture
def saved(store):
    save(store)
    return store


def test_what_is_saved_comes_back_from_the_folder_that_stores_of_before_have(store):
    assert not store.has()
    save(store)
    assert store.has()
    torch.testing.assert_close(store.weights(), dict(make_model().state_dict()), rtol=0, atol=0)
    for split, said in PREDICTIONS.items():
        for found, expected in zip(store.predictions(split), said, strict=True):
            np.testing.assert_array_equal(found, expected, strict=True)
    assert store.folder.name == "planted-resnet-planted-553a411d1f07c93c"
    assert {path.name for path in store.folder.iterdir()} == {"weights.pt", "train.npz", "test.npz", "manifest.json"}
    assert '"recipe": "planted@1"' in (store.folder / "manifest.json").read_text()


def test_weights_have_a_checksum_of_names_types_shapes_and_bits_and_others_are_refused(saved):
    weights = dict(make_model().state_dict())
    assert saved.checksum() == checksum(weights) == checksum(dict(reversed(weights.items())))
    bias = weights["0.bias"]
    others = [weights | {"0.bias": other} for other in (bias * (1 + 2**-23), bias.double(), bias[:, None])]
    others.append({(f"{name}s" if name == "0.bias" else name): tensor for name, tensor in weights.items()})
    for other in others:
        torch.save(other, saved.folder / "weights.pt")
        with pytest.raises(StoreError, match="the weights are not those of the manifest"):
            saved.weights()


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
def test_a_damaged_reference_is_one_line_that_says_what_to_delete(saved, name, damage):
    damage(saved.folder / name)
    with pytest.raises(StoreError) as caught:
        saved.weights()
        saved.predictions(Split.TEST)
    assert f"the reference in {saved.folder} is damaged (" in str(caught.value)
    assert str(caught.value).endswith("; delete the folder and run again")
    assert "\n" not in str(caught.value)


def cut(*_, **__):
    """Stand in for a step at which a writer is ended."""
    raise KeyboardInterrupt


@pytest.mark.parametrize("owner, step", [(np, "savez"), (os, "replace")])
def test_predictions_cut_off_are_not_there_and_can_be_written_again(store, monkeypatch, owner, step):
    said = PREDICTIONS[Split.TEST]
    store.save(make_model(), 12.5)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(owner, step, cut)
        store.save_predictions(Split.TEST, said)
    assert store.has()
    assert not store.predicted(Split.TEST)
    store.save_predictions(Split.TEST, said)
    assert [store.predicted(split) for split in Split] == [False, True]
    np.testing.assert_array_equal(store.predictions(Split.TEST).targets, said.targets)


@pytest.mark.parametrize("step", ["write_text", "replace"])
def test_a_writer_cut_off_at_any_step_leaves_no_reference_and_hinders_no_other(store, tmp_path, monkeypatch, step):
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, step, cut)
        save(store, seed=1)
    assert not store.has()
    save(store, seed=2)
    torch.testing.assert_close(store.weights(), dict(make_model(2).state_dict()), rtol=0, atol=0)
    assert [path for path in tmp_path.iterdir() if path.is_dir()] == [store.folder]


def test_all_is_on_the_disk_before_the_name_counts(store, tmp_path, monkeypatch):
    steps = []
    sync, replace = references.sync, Path.replace
    monkeypatch.setattr(references, "sync", lambda path: (steps.append(path.name), sync(path)))
    monkeypatch.setattr(Path, "replace", lambda path, target: (steps.append("replace"), replace(path, target))[1])
    save(store)
    assert {"weights.pt", "manifest.json"} < set(steps[: steps.index("replace")])
    assert steps[-2:] == ["replace", tmp_path.name]


def test_one_process_at_a_time(store, tmp_path):
    with store.lock():
        (path,) = tmp_path.rglob("*.lock")
        with pytest.raises(TimeoutError):
            FileLock(path, timeout=0).acquire()
        with StoredReference(tmp_path, replace(REFERENCE, data="0ther")).lock():
            pass  # another reference has a lock of its own
    with FileLock(path, timeout=0):
        pass
