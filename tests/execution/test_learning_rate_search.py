"""Search for a peak learning rate, and the stop of a run whose explained network is near chance."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch

from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.execution.network_trials import (
    insert_tuned_learning_rate,
    tune_peak_learning_rate,
)
from roarbench.plan.new_suite import write_new_suite_file
from roarbench.plan.read_suite_file import read_suite
from roarbench.plan.recipes import find_recipe
from tests.helpers.own_photos import TEXT, write_pictures, write_suite

NETWORK = """
from torch import nn


def build(classes, channels, size):
    return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(8 * (size - 4) ** 2, classes))
"""
STEEP = TEXT.replace('"resnet-planted"', '"net.py:build"').replace("epochs = 1", "epochs = 20\npeak = 0.8\nbatch = 8")


@pytest.fixture
def steep(tmp_path):
    """A suite file of a network of two convolutions with a peak learning rate that is too high."""
    (tmp_path / "net.py").write_text(NETWORK)
    write_pictures(tmp_path / "pictures", 32)
    return write_suite(tmp_path, STEEP)


def test_tune_peak_learning_rate_finds_peak_that_trains(steep, tmp_path):
    suite = read_suite(steep)
    images = decode_dataset(suite.dataset_record, tmp_path / "store")
    state = torch.random.get_rng_state()
    found = tune_peak_learning_rate(suite, images)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (found.peak, found.trained) == (0.05, True)
    assert re.match(r"peak = 0\.05 \(three trials of at most 100 steps on 54 training images; correct on ", found.line)
    assert tune_peak_learning_rate(suite, replace(images, test=None)) == found, "no test image is read"
    lower = read_suite(write_suite(tmp_path, STEEP.replace("peak = 0.8", "peak = 0.05")))
    found = tune_peak_learning_rate(lower, images)
    assert found.peak == 0.013, "of 0.05, 0.013 and 0.0031, which all train, the second"
    assert "not 0.05, which does about as well" in found.line


def write_suite_for_network(tmp_path, network, said):
    (tmp_path / "net.py").write_text(network)
    tune = partial(insert_tuned_learning_rate, say=said.append)
    path = write_new_suite_file(write_pictures(tmp_path / "mine", 32), said.append, "net.py:build", tune)
    return path.read_text(), read_suite(path)


def test_new_suite_file_has_tuned_peak_and_full_sides(working_folder):
    """The last layer of the network fixes the image size."""
    said, hot = [], NETWORK.replace("nn.Sequential(", "nn.Sequential(Hot(), ")
    layer = "class Hot(nn.Module):\n    def forward(self, x):\n        return 4 * x\n\n\n"
    text, suite = write_suite_for_network(working_folder, hot.replace("def build", f"{layer}def build"), said)
    recipe = find_recipe(suite.recipe)
    assert said[-1].startswith(f"peak = {recipe.peak:g} (three trials of at most 100 steps on ")
    assert recipe.peak < 0.2 and f"\npeak = {recipe.peak:g} " in text
    assert recipe.sides == (1.0,) and "\nsides = [1.0]  # the network takes no smaller images" in text


def write_suite_without_signal(folder):
    """Write a table of noise whose three classes have 70, 23 and 7 % of the rows, and its suite."""
    rng, path = np.random.default_rng(0), folder / "noise.csv"
    labels = rng.permutation(["a"] * 280 + ["b"] * 92 + ["c"] * 28)
    rows = (f"{a},{b},{label}\n" for (a, b), label in zip(rng.normal(size=(400, 2)), labels, strict=True))
    path.write_text("one,two,label\n" + "".join(rows))
    return write_new_suite_file(path)


def test_network_that_answers_largest_class_is_near_chance(working_folder):
    suite = read_suite(write_suite_without_signal(working_folder))
    found = tune_peak_learning_rate(suite, decode_dataset(suite.dataset_record, working_folder / "store"))
    assert not found.trained
    assert "stays near chance of 70.0% (always the largest class) at all three peak learning rates" in found.line


@pytest.mark.slow
def test_run_stops_when_explained_network_is_near_chance(steep, tmp_path, call):
    answer = call("run", "--suite", steep, "--store", tmp_path / "store")
    assert answer.code == 2
    said = "so maps of the reference are meaningless; the run stopped before training networks on them; "
    assert said in answer.err
    assert "; write peak = 0.05 (three trials" in answer.err
    assert "under [recipe]" in answer.err
    assert "1 run" not in call("table", "--suite", steep, "--store", tmp_path / "store").err
    few = call("run", "--suite", steep, "--store", tmp_path / "store", "--max-images", "9")
    assert (few.code, "; use a --max-images above 9, other epochs" in few.err) == (2, True)
