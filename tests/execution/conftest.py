"""Weights as torchvision publishes them, and suites in which nothing is waited for."""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from roarbench.common.files import compute_sha256
from roarbench.execution import network_jobs, scheduler
from roarbench.plan.given_weights_titles import PUBLISHED, PublishedWeights
from roarbench.plan.protocols import MORF, ROAR
from roarbench.plan.suite import Block
from tests.helpers.networks import randomised
from tests.helpers.tiny_suite import SUITE, make_runs, make_work, size_jobs
from tests.helpers.trainings import network

ROWS = ("random", "grad", "truth")
SMALL = replace(SUITE, blocks=(Block(ROAR, ROWS, (0.9,), seeds=2), Block(MORF, ROWS[:2], (0.9,), seeds=1)))


@pytest.fixture
def publish_weights(tmp_path, monkeypatch):
    """Put weights where torch.hub keeps what it has fetched, under a name with their checksum."""
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder.parent))

    def publish(weights):
        torch.save(weights, folder / "small.pth")
        return (folder / "small.pth").rename(folder / f"small-{compute_sha256(folder / 'small.pth')[:8]}.pth")

    return publish


@pytest.fixture
def published(publish_weights, monkeypatch):
    """The file of a small network that torchvision is said to have published as `torchvision:small`."""
    generator = torch.Generator().manual_seed(5)
    path = publish_weights(randomised(network(), generator).state_dict())
    monkeypatch.setitem(PUBLISHED, "torchvision:small", PublishedWeights(path.name, "resnet-planted", 4, 3))
    return path


@pytest.fixture(scope="module")
def small_jobs():
    """No waiting and no training: what is trained, and how well, is no matter here: networks stay as they begin."""
    with pytest.MonkeyPatch.context() as patch:
        size_jobs(patch, 16, 16)
        patch.setattr(network_jobs, "fit", lambda *_: 0.5)
        for name in ("_PATIENCE", "_FIRST_LOOK", "LAST_LOOK"):
            patch.setattr(scheduler, name, 0.0)
        yield


@pytest.fixture
def sleeps(monkeypatch):
    """What the scheduler calls instead of sleeping, one after the other; what waits for a process still sleeps."""
    calls = []
    clock = SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: [call() for call in calls])
    monkeypatch.setattr(scheduler, "time", clock)
    return calls


@pytest.fixture
def fresh(tmp_path):
    """A work of which nothing is done, and all runs of a small suite; the first two are of untouched images."""
    work = make_work(tmp_path, SMALL)
    return work, make_runs(work, SMALL)
