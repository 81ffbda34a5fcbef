"""A store of results in a folder of the test, and weights as torchvision publishes them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from roarbench.files import sha256
from roarbench.store.results import ResultsStore, default_url


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ResultsStore]:
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


@pytest.fixture
def publish_weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any]], Path]:
    """Put weights where torch.hub keeps what it has fetched, under a name with their checksum."""
    folder = tmp_path / "hub" / "checkpoints"
    folder.mkdir(parents=True)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(folder.parent))

    def publish(weights: dict[str, Any]) -> Path:
        torch.save(weights, folder / "small.pth")
        return (folder / "small.pth").rename(folder / f"small-{sha256(folder / 'small.pth')[:8]}.pth")

    return publish
