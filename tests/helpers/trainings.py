"""What small trainings take: images of four classes that lost some features, a network, and a recipe of few steps."""

import torch
from torch import Tensor, nn

from roarbench.common.enums import Precision, Unit
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.networks import build_network
from roarbench.compute.normalisation import Normalisation
from roarbench.compute.recipe import Augmentation, Decay, Recipe
from tests.helpers.streamed import seeded

NORM = Normalisation((120.0, 110.0, 100.0), (60.0, 50.0, 40.0))
RECIPE = Recipe("test", 1, 4, 8, 0.1, 1, Decay.LINEAR, Augmentation.SHIFT_FLIP, Precision.FLOAT32)
SIDE = 16


def pictures(n: int, side: int = SIDE) -> tuple[DegradedImages, Tensor]:
    pixels = torch.randint(0, 256, (n, 3, side, side), dtype=torch.uint8, generator=seeded(1))
    removed = torch.randint(0, 256, (n, -(-3 * side**2 // 8)), dtype=torch.uint8, generator=seeded(2))
    return DegradedImages(pixels, removed, torch.tensor([9.5, 0.25, 77.0]), Unit.SCALAR), torch.arange(n) % 4


def network(side: int = SIDE) -> nn.Module:
    return build_network("resnet-planted", 4, 3, side, seeded(0))


def linear(side: int = SIDE) -> nn.Module:
    """Logits that are a linear function of the pixels."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * side**2, 4))
    nn.init.normal_(model[1].weight, generator=seeded(9))
    nn.init.zeros_(model[1].bias)
    return model
