"""Estimators that draw points, masks or coalitions: by their formulas, with chance that belongs to image or mask."""

import torch
from torch import Tensor
from torch.nn import functional as F

from roarbench.estimators import SEED
from roarbench.estimators.base import MethodInput
from roarbench.estimators.baselines import baseline_images
from roarbench.estimators.gradients import logit_gradients
from roarbench.estimators.grids import count_squares, squares
from roarbench.estimators.noise import coalitions, mask_cells, noisy_copies, path_points


def gradient_shap(asked: MethodInput) -> Tensor:
    """Return GradientSHAP (Lundberg & Lee 2017; Erion et al. 2021): the mean over j of (x_j - x0) times a gradient.

    x_j is the j-th noisy copy of the image, the same as SmoothGrad's, x0 the baseline, and the gradient is that of the
    logit at a point of the path from x0 to x_j, drawn uniformly for each image and j.
    """
    images, ids = asked.batch.images, asked.batch.ids
    noise, total = float(asked.estimator.value("noise")), torch.zeros_like(images)
    for j in range(samples := asked.whole("samples")):
        copies = noisy_copies(images, ids, j, SEED, noise)
        start = baseline_images(asked.word("baseline"), copies, asked.black)
        points = torch.lerp(start, copies, path_points(images, ids, j, SEED))
        gradient = logit_gradients(asked.model, points, asked.batch.targets, {"grad"})["grad"]
        total += (copies - start) * gradient / samples
    return total


@torch.no_grad()
def kernel_shap(asked: MethodInput) -> Tensor:
    """Return Shapley values of the squares of a grid by weighted least squares (Lundberg & Lee 2017, theorem 2).

    The values of an image add up to its logit minus that of the baseline. Coalitions are drawn by the Shapley kernel,
    so all weigh the same, and they are the same for all images, so one matrix solves for all. (captum's takes one image
    at a time.)
    """
    images = asked.batch.images
    numbers = squares(images, asked.whole("patches"))
    baseline = baseline_images(asked.word("baseline"), images, asked.black)
    drawn = coalitions(count_squares(images, asked.whole("patches")), asked.whole("samples"), SEED)
    members = torch.from_numpy(drawn).to(images.device)

    def logit(shown: Tensor) -> Tensor:
        found: Tensor = asked.model(shown).gather(1, asked.batch.targets[:, None])  # (n, 1)
        return found.double()

    empty, whole = logit(baseline), logit(images)
    said = torch.cat([logit(images.where(coalition[numbers], baseline)) for coalition in members], 1)
    z = members.double()
    solve = torch.linalg.pinv(z[:, :-1] - z[:, -1:])  # of all but the last value, which follows from the sum
    first = (said - empty - (whole - empty) * z[:, -1]) @ solve.T
    values = torch.cat([first, whole - empty - first.sum(1, keepdim=True)], 1)
    return values[:, numbers][:, None]


@torch.no_grad()
def rise(asked: MethodInput) -> Tensor:
    """Return RISE (Petsiuk et al. 2018, equation 6): the sum of random masks times the class's probability under them.

    A mask has `patches` cells along a side, each 1 or 0 with probability 1/2, is stretched bilinearly and moved by a
    part of a cell; the masks are the same for all images. Where a mask is 0 the image is the baseline: as in the
    authors' code, which masks normalised images, the mean colour.
    """
    images, targets, samples = asked.batch.images, asked.batch.targets, asked.whole("samples")
    baseline = baseline_images(asked.word("baseline"), images, asked.black)
    total = torch.zeros_like(images[:, :1])
    for j in range(samples):
        mask = rise_mask(images, asked.whole("patches"), j)
        probability = asked.model(torch.lerp(baseline, images, mask)).softmax(1).gather(1, targets[:, None])
        total += probability[:, :, None, None] * mask / (0.5 * samples)
    return total


def rise_mask(images: Tensor, patches: int, j: int) -> Tensor:
    """Return the j-th mask of RISE over the images, (1, 1, h, w) in [0, 1]."""
    cells, shift = mask_cells(patches + 1, j, SEED)  # one cell more, so that a mask that is moved covers the image
    sides = [-(-side // patches) for side in images.shape[-2:]]  # pixels of a cell
    stretched = F.interpolate(
        torch.from_numpy(cells)[None, None].double(), [(patches + 1) * side for side in sides], mode="bilinear"
    )
    h, w = images.shape[-2:]
    top, left = (int(part * side) for part, side in zip(shift, sides, strict=True))
    return stretched[:, :, top : top + h, left : left + w].to(images)
