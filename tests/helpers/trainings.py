"""Images with removed features, streamed and in memory, and what small training runs take."""

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.common.enums import Order, Precision, Unit
from roarbench.compute.degraded_images import DegradedImages, StreamedImages
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation
from roarbench.compute.ranking import Layout, find_removed_bits
from roarbench.compute.recipe import Augmentation, Decay, Recipe

CPU = torch.device("cpu")
FILL = torch.tensor([10.5, 20.25, 30.0])
LAYOUTS = {unit: Layout((3, 8, 8), unit, (0.1, 0.5, 0.9)) for unit in Unit}


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def encoded(importance, layout):
    """Bit-planes of maps (n, c, h, w) or (n, h, w) of the images 0 … n - 1."""
    return rank_to_bit_planes(torch.from_numpy(importance.copy()), np.arange(len(importance)), layout).planes


def both(t=0.5, order=Order.MORF, unit=Unit.SCALAR, n=20):
    """Streamed images, and the same held in memory."""
    pixels, layout = torch.randint(256, (n, 3, 8, 8), dtype=torch.uint8, generator=seeded(1)), LAYOUTS[unit]
    planes = encoded(torch.rand(n, *layout.shape, generator=seeded(2)).numpy(), layout)
    held = DegradedImages(pixels, torch.from_numpy(find_removed_bits(planes, t, order, layout)), FILL, unit)
    return StreamedImages(pixels.numpy(), held.removed.numpy(), FILL, unit, CPU), held


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
