"""Trials that find a peak learning rate, and the stop of a run whose reference is near chance."""

import re
from dataclasses import replace

import pytest
import torch

from roarbench.datasets.loading import decode_dataset
from roarbench.execution import runner
from roarbench.execution.peak_search import find_peak, say_peak
from roarbench.plan.new_suite import write_suite as write_new_suite
from roarbench.plan.suite_file import read_suite
from tests.helpers.command_line import command
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
    """A plain network of two convolutions under a peak that is too high for it."""
    (tmp_path / "net.py").write_text(NETWORK)
    write_pictures(tmp_path / "pictures", 32)
    return write_suite(tmp_path, STEEP)


def test_the_peak_found_trains_and_the_one_too_high_does_not(steep, tmp_path):
    suite = read_suite(steep)
    images = decode_dataset(suite.dataset_record, tmp_path / "store")
    state = torch.random.get_rng_state()
    found = find_peak(suite, images)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (found.peak, found.trained) == (0.05, True)
    assert re.match(r"peak = 0\.05 \(three trials of 100 steps at most on 54 training images: ", found.line)
    assert find_peak(suite, images) == found
    lower = read_suite(write_suite(tmp_path, STEEP.replace("peak = 0.8", "peak = 0.05")))
    assert find_peak(lower, images).peak == 0.05  # a peak that trains stays


def test_no_test_image_is_read(steep, tmp_path):
    suite = read_suite(steep)
    images = decode_dataset(suite.dataset_record, tmp_path / "store")
    assert find_peak(suite, replace(images, test=None)) == find_peak(suite, images)


def test_a_written_suite_has_the_peak_found_or_the_usual_one_where_the_network_cannot_be_tried(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NETWORK)
    said, tried = [], []
    folder = write_pictures(tmp_path / "mine")
    path = write_new_suite(folder, said.append, "net.py:build", lambda suite: tried.append(suite) or 0.05)
    assert "\npeak = 0.05 " in path.read_text()
    assert (tried[0].model, read_suite(path).model) == (read_suite(path).model,) * 2
    path.unlink()
    (tmp_path / "net.py").write_text("def build(classes, channels, size): return 1")
    path = write_new_suite(folder, said.append, "net.py:build", lambda suite: say_peak(suite, said.append))
    assert "warning: no peak was tried: " in "\n".join(said)
    assert "\npeak = 0.2 " in path.read_text()


@pytest.mark.slow
def test_a_run_stops_at_a_reference_near_chance_with_the_line_to_change(steep, tmp_path, call, monkeypatch):
    answer = call("run", "--suite", steep, "--store", tmp_path / "store")
    assert answer.code == 2
    assert "near chance (33.3%), whose maps explain next to nothing; stopped before anything is trained on them; " in (
        answer.err
    )
    assert "; write peak = 0.05 (three trials" in answer.err
    assert "under [recipe]" in answer.err
    assert "1 run" not in call("table", "--suite", steep, "--store", tmp_path / "store").err
    monkeypatch.setattr(runner, "find_peak", None)  # would fail if it were called
    assert command("run", "--suite", steep, "--store", tmp_path / "store", "--limit", "9") == 0
