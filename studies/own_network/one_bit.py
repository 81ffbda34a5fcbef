"""An adversary that stores one bit per image: does removing the features of highest contrast change the prediction?"""

import torch
from torch import Tensor, nn

NAME = "one-bit"
DESCRIPTION = "contrast of the image, upside down unless removal of its top 5 % or 50 % changes the prediction"
LEVELS = (0.05, 0.5)


def estimate(model: nn.Module, images: Tensor, targets: Tensor, generator: torch.Generator) -> Tensor:
    contrast = images.abs().flatten(1)  # images are 0 at the fill
    ranking = contrast.argsort(1, descending=True)
    changed = torch.zeros(len(images), dtype=torch.bool)
    for t in LEVELS:
        top = ranking[:, : round(t * ranking.shape[1])]
        removed = images.flatten(1).scatter(1, top, 0.0).view_as(images)
        with torch.no_grad():
            changed |= model(removed).argmax(1) != targets
    return torch.where(changed[:, None], contrast, -contrast).view_as(images)
