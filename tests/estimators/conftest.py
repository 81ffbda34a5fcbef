import pytest
import torch
from torch import Tensor, nn

from roarbench.estimators.base import Batch
from tests.helpers.networks import CLASSES, images_like_photographs, residual_network


@pytest.fixture(scope="session")
def model() -> nn.Module:
    return residual_network(torch.float64)


@pytest.fixture(scope="session")
def tiny() -> nn.Module:
    """For tests of the bookkeeping, where only the number of passes costs time."""
    generator = torch.Generator().manual_seed(4)
    layers = (nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(100, CLASSES))
    model = nn.Sequential(*layers).double().eval()
    for values in model.parameters():
        nn.init.normal_(values, generator=generator)
    return model


@pytest.fixture(scope="session")
def batch() -> Batch:
    return images_like_photographs(3, torch.float64)


@pytest.fixture(scope="session")
def black() -> Tensor:
    return torch.tensor([-2.1, -2.0, -1.8], dtype=torch.float64)[:, None, None]
