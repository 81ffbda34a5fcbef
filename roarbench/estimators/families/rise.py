"""RISE: random masks, weighted by what the network says under them."""

from roarbench.estimators.estimator import SEED, Estimator, Passes
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import F, Tensor, noise, torch
from roarbench.estimators.papers import Paper

PETSIUK = Paper("""@inproceedings{petsiuk2018rise,
    title = {RISE: Randomized Input Sampling for Explanation of Black-box Models},
    author = {Vitali Petsiuk and Abir Das and Kate Saenko},
    booktitle = {British Machine Vision Conference}, year = {2018}, eprint = {1806.07421}}""")


def rise(inputs: MapInput) -> Tensor:
    """Return RISE (Petsiuk et al. 2018, equation 6): the sum of random masks times the class's probability under them.

    A mask has `patches` cells along a side, each 1 or 0 with probability 1/2, is stretched bilinearly and moved by a
    part of a cell; the masks are the same for all images. Where a mask is 0 the image is the baseline: as in the
    authors' code, which masks normalised images, the mean colour.
    """
    images, targets, samples = inputs.images, inputs.batch.targets, inputs.estimator.whole("samples")
    baseline, total = inputs.baseline, torch.zeros_like(images[:, :1])
    for j in range(samples):
        mask = make_rise_mask(images, inputs.estimator.whole("patches"), j)
        probability = inputs.model(torch.lerp(baseline, images, mask)).softmax(1).gather(1, targets[:, None])
        total += probability[:, :, None, None] * mask / (0.5 * samples)
    return total


def make_rise_mask(images: Tensor, patches: int, j: int) -> Tensor:
    """Return the j-th mask of RISE over the images, (1, 1, h, w) in [0, 1]."""
    cells, shift = noise.draw_mask_cells(
        patches + 1, j, SEED
    )  # one more, so that a mask that is moved covers the image
    sides = [-(-side // patches) for side in images.shape[-2:]]  # pixels of a cell
    grid, wide = torch.from_numpy(cells)[None, None].double(), [(patches + 1) * side for side in sides]
    stretched = F.interpolate(grid, wide, mode="bilinear")
    h, w = images.shape[-2:]
    top, left = (int(part * side) for part, side in zip(shift, sides, strict=True))
    return stretched[:, :, top : top + h, left : left + w].to(images)


ESTIMATORS = (
    Estimator("rise", title="RISE",
        about="RISE: mean of random masks, weighted by the class's probability under them", maps=rise,
        parameters={"samples": 256, "baseline": "mean", "patches": 7},
        cost=lambda row, features: Passes(row.whole("samples"), 0), papers=(PETSIUK,), neighbours=True,
        few_samples=True),
)  # fmt: skip
