"""Weights as torchvision publishes them."""

import pytest
import torch

from roarbench.files import sha256
from roarbench.models.build import build
from roarbench.plan.weights import PUBLISHED, Published
from tests.helpers.networks import randomised


@pytest.fixture
def publish_weights(tmp_path, monkeypatch):
    """Put weights where torch.hub keeps what it has fetched, under a name with their checksum."""
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder.parent))

    def publish(weights):
        torch.save(weights, folder / "small.pth")
        return (folder / "small.pth").rename(folder / f"small-{sha256(folder / 'small.pth')[:8]}.pth")

    return publish


@pytest.fixture
def published(publish_weights, monkeypatch):
    """The file of a small network that torchvision is said to have published as `torchvision:small`."""
    generator = torch.Generator().manual_seed(5)
    path = publish_weights(randomised(build("resnet-planted", 4, 3, 16, generator), generator).state_dict())
    monkeypatch.setitem(PUBLISHED, "torchvision:small", Published(path.name, "resnet-planted", 4, 3))
    return path
