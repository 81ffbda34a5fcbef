from collections.abc import Callable

import numpy as np
import pytest
import torch
from captum.attr import GuidedBackprop, IntegratedGradients, Saliency
from torch import Tensor, nn

from roarbench.estimators import IG_STEPS
from roarbench.estimators.base import Batch
from roarbench.models import build

CLASSES = 5
SIDE = 12


def residual_network(dtype: torch.dtype) -> nn.Module:
    """A ResNet-8 with random weights everywhere: untouched, its residual branches would be multiplied by 0."""
    generator = torch.Generator().manual_seed(1)
    model = build("resnet8", CLASSES, 3, SIDE, generator)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values, low, high in (
                (module.weight, 0.5, 1.5),
                (module.bias, -0.5, 0.5),
                (module.running_mean, -0.5, 0.5),
                (module.running_var, 0.5, 1.5),
            ):
                nn.init.uniform_(values, low, high, generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, generator=generator)
    return model.to(dtype).eval()


def images_like_photographs(n: int, dtype: torch.dtype) -> Batch:
    generator = torch.Generator().manual_seed(2)
    coarse = torch.randn(n, 3, SIDE // 4, SIDE // 4, generator=generator, dtype=torch.float64)
    smooth = nn.functional.interpolate(coarse, size=SIDE, mode="bilinear")
    images = smooth + 0.2 * torch.randn(n, 3, SIDE, SIDE, generator=generator, dtype=torch.float64)
    truth = torch.randn(images.shape, generator=generator, dtype=torch.float64)
    return Batch(images.to(dtype), torch.arange(n) % CLASSES, torch.arange(n) * 7 + 3, truth.to(dtype))


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
