"""Images with removed features, streamed and held in memory."""

import numpy as np
import torch

from roarbench.common.enums import Order, Unit
from roarbench.compute.degraded_images import DegradedImages, StreamedImages
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.compute.ranking import Layout, find_removed_bits

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
