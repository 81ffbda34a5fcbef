import pytest
import torch

from roarbench.compute.networks import build_network
from tests.helpers.networks import CLASSES, SIDE, make_residual_network, make_smooth_images
from tests.helpers.trainings import seeded


@pytest.fixture(scope="session")
def model():
    return make_residual_network(torch.float64)


@pytest.fixture(scope="session")
def tiny():
    """A small network for tests of bookkeeping, where only the number of passes takes time."""
    return build_network("mlp", CLASSES, 3, SIDE, seeded(4)).double().eval()


@pytest.fixture(scope="session")
def batch():
    return make_smooth_images(3, torch.float64)


@pytest.fixture(scope="session")
def black():
    return torch.tensor([-2.1, -2.0, -1.8], dtype=torch.float64)[:, None, None]
