from collections.abc import Callable

import numpy as np
import pytest
import torch
from captum.attr import GuidedBackprop, IntegratedGradients, Saliency
from torch import Tensor, nn

from roarbench.estimators import IG_STEPS
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


@pytest.fixture(scope="session")
def captum_base() -> Callable[..., Tensor]:
    """Captum's map of a base, (name, model, images, targets, black) -> (n, c, h, w)."""

    def compute(base: str, model: nn.Module, images: Tensor, targets: Tensor, black: Tensor) -> Tensor:
        inputs = images.clone().requires_grad_()
        if base == "grad":
            return Saliency(model).attribute(inputs, target=targets, abs=False).detach()
        if base == "gb":
            return GuidedBackprop(model).attribute(inputs, target=targets).detach()
        baselines = black.expand(images.shape[1:])[None]
        steps = {"method": "riemann_right", "n_steps": IG_STEPS}
        found = IntegratedGradients(model).attribute(inputs, baselines=baselines, target=targets, **steps).detach()
        # captum 0.9 rounds the step size 1/25 to float32 in every precision: 2e-8 too much on each value
        return found * (1 / IG_STEPS / float(np.float32(1 / IG_STEPS)))

    return compute
