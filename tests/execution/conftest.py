"""Fixtures: published weights, and a small suite whose jobs neither train nor wait."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from roarbench.common.files import compute_sha256
from roarbench.execution import scheduler, training_and_scoring
from roarbench.plan.cells_and_runs import PUBLISHED_WEIGHTS, PublishedWeights
from roarbench.plan.protocols import MORF, ROAR
from roarbench.plan.suite import Block
from tests.helpers.networks import randomise_weights
from tests.helpers.tiny_suite import SUITE, make_runs, make_work, size_jobs
from tests.helpers.trainings import network

ROWS = ("random", "grad", "truth")
SMALL = replace(SUITE, blocks=(Block(ROAR, ROWS, (0.9,), seeds=2), Block(MORF, ROWS[:2], (0.9,), seeds=1)))


@pytest.fixture
def publish_weights(tmp_path, monkeypatch):
    """A function that writes weights to the cache of torch.hub, under a name with their checksum."""
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder.parent))

    def publish(weights):
        torch.save(weights, folder / "small.pth")
        return (folder / "small.pth").rename(folder / f"small-{compute_sha256(folder / 'small.pth')[:8]}.pth")

    return publish


@pytest.fixture
def published(publish_weights, monkeypatch):
    """Weights of a small network, registered as `torchvision:small`."""
    generator = torch.Generator().manual_seed(5)
    path = publish_weights(randomise_weights(network(), generator).state_dict())
    monkeypatch.setitem(PUBLISHED_WEIGHTS, "torchvision:small", PublishedWeights(path.name, "resnet-planted", 4, 3))
    return path


@pytest.fixture(scope="module")
def small_jobs():
    """Jobs of 16 images without waiting and training: networks keep their initial weights."""
    with pytest.MonkeyPatch.context() as patch:
        size_jobs(patch, 16, 16)
        for module in (training_and_scoring, training_and_scoring):
            patch.setattr(module, "fit", lambda *_: 0.5)
        for name in ("_WAIT_SECONDS", "_MIN_CHECK_INTERVAL", "MAX_CHECK_INTERVAL"):
            patch.setattr(scheduler, name, 0.0)
        yield


@pytest.fixture
def sleeps(monkeypatch):
    """A list of functions that the scheduler calls instead of sleeping; other modules still sleep."""
    calls = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: [call() for call in calls])
    monkeypatch.setattr(scheduler, "time", clock)
    return calls


@pytest.fixture
def fresh(tmp_path):
    """A new work, and all runs of a small suite; the first two are of untouched images."""
    work = make_work(tmp_path, SMALL)
    return work, make_runs(work, SMALL)
