"""Estimators that change regions of the image and measure the effect on the output: occlusion, RISE, Shapley values."""

import math
from collections.abc import Iterable, Iterator
from itertools import product

from roarbench.common.errors import RunError
from roarbench.estimators.estimator import NOISE, SEED, Estimator, MapInput, Passes, make_baseline_images
from roarbench.estimators.families.gradients import compute_logit_gradients
from roarbench.estimators.lazy_torch import F, Tensor, device_settings, random_draws, torch

SHAPLEY_FEATURES = 16  # maximum features of exact Shapley values, which take 65,536 coalitions per image
_AT_ONCE = 256  # coalitions of every image per pass


def assign_pixels_to_grid_squares(images: Tensor, patches: int) -> Tensor:
    """Divide an image into squares, `patches` per side, and return the number of each pixel's square, int64 (h, w).

    Squares are numbered row by row. A side of fewer than `patches` pixels has one square per pixel.
    """
    h, w = images.shape[-2:]
    down, across = (torch.arange(side, device=images.device) * min(patches, side) // side for side in (h, w))
    return down[:, None] * min(patches, w) + across


def count_grid_squares(images: Tensor, patches: int) -> int:
    """Return the number of squares into which `assign_pixels_to_grid_squares` divides an image."""
    h, w = images.shape[-2:]
    return min(patches, h) * min(patches, w)


def occlusion(inputs: MapInput) -> Tensor:
    """Compute, for each pixel, the mean drop of the logit over all sliding squares that cover the pixel.

    Each square is replaced by the baseline in turn (Zeiler & Fergus 2014). A square is two patches wide and moves by
    one patch, so four squares cover most pixels. The last squares of a side that no such steps fill move by less: a
    square cut off at the edge would remove fewer pixels than others, and so rank the right and bottom edges last.
    """
    along_axes = []  # masks of the sliding squares along each side, bool (side,)
    for side in inputs.images.shape[-2:]:
        patches = min(inputs.estimator.get_integer("patches"), side)
        width, stride, pixels = max(1, 2 * side // patches), max(1, side // patches), torch.arange(side)
        last = max(0, side - width)
        starts = [min(start, last) for start in range(0, last + stride, stride)]
        masks = [(pixels >= start) & (pixels < start + width) for start in starts]
        along_axes.append([mask.to(inputs.images.device) for mask in masks])
    down, across = along_axes
    pixel_sets = [rows[:, None] & columns for columns, rows in product(across, down)]
    drops = sum(_compute_logit_drop_maps(inputs, pixel_sets), inputs.images.new_zeros(()))
    return drops / torch.stack(pixel_sets).sum(0)


def _compute_logit_drop_maps(inputs: MapInput, pixel_sets: Iterable[Tensor]) -> Iterator[Tensor]:
    """Replace each set of pixels, bool (h, w), by the baseline, and yield the logit's drop as a map, (n, 1, h, w).

    The map is the drop at the pixels of the set, and 0 elsewhere.
    """
    whole, baseline = inputs.compute_logit(inputs.images), inputs.baseline
    layout = device_settings.choose_fastest_float32_layout(inputs.images.device)
    for pixels in pixel_sets:
        if pixels.is_cpu:  # selection from whole images takes long
            around = (..., _find_span(pixels.any(1)), _find_span(pixels.any(0)))
            occluded = inputs.images.clone(memory_format=layout)
            occluded[around] = torch.where(pixels[around], baseline[around], occluded[around])
        else:
            occluded = torch.where(pixels, baseline, inputs.images).contiguous(memory_format=layout)
        yield (whole - inputs.compute_logit(occluded))[:, :, None, None] * pixels


def _find_span(marked: Tensor) -> slice:
    """Return the shortest slice that contains all marked positions, at least one."""
    positions = marked.nonzero()[:, 0]
    return slice(int(positions[0]), int(positions[-1]) + 1)


def feature_ablation(inputs: MapInput) -> Tensor:
    """Compute, for each pixel, the drop of the logit after the pixel's grid square is replaced by the baseline."""
    images, patches = inputs.images, inputs.estimator.get_integer("patches")
    numbers = assign_pixels_to_grid_squares(images, patches)
    pixel_sets = (numbers == square for square in range(count_grid_squares(images, patches)))
    return sum(_compute_logit_drop_maps(inputs, pixel_sets), images.new_zeros(()))


def rise(inputs: MapInput) -> Tensor:
    """Compute RISE (Petsiuk et al. 2018, equation 6): the sum of random masks, weighted by the class probability.

    The weight of a mask is the probability of the target class for the masked image. A mask has `patches` cells per
    side, each 1 or 0 with probability 1/2; the mask is resized bilinearly and shifted by a fraction of a cell. All
    images share the masks. Masked pixels are replaced by the baseline; the default is the mean colour, as in the
    authors' code.
    """
    images, targets, samples = inputs.images, inputs.batch.targets, inputs.estimator.get_integer("samples")
    baseline, total = inputs.baseline, torch.zeros_like(images[:, :1])
    patches = inputs.estimator.get_integer("patches")
    h, w = images.shape[-2:]
    sides = [-(-side // patches) for side in (h, w)]  # pixels per cell
    for j in range(samples):
        # with one more cell per side, the shifted mask still covers the image
        cells, shift = random_draws.draw_rise_mask_cells(patches + 1, j, SEED)
        grid = torch.from_numpy(cells)[None, None].double()
        stretched = F.interpolate(grid, [(patches + 1) * side for side in sides], mode="bilinear")
        top, left = (int(fraction * side) for fraction, side in zip(shift, sides, strict=True))
        mask = stretched[:, :, top : top + h, left : left + w].to(images)
        probability = inputs.model(torch.lerp(baseline, images, mask)).softmax(1).gather(1, targets[:, None])
        total += probability[:, :, None, None] * mask / (0.5 * samples)
    return total


def gradient_shap(inputs: MapInput) -> Tensor:
    """Compute GradientSHAP (Lundberg & Lee 2017; Erion et al. 2021): the mean over j of (x_j - x0) times a gradient.

    x_j is SmoothGrad's j-th noisy copy of the image, and x0 is the baseline. The gradient is the logit's gradient at a
    point between x0 and x_j, which is drawn uniformly for each image and j.
    """
    images, ids, value = inputs.images, inputs.batch.ids, inputs.estimator.get_value
    noise, total = float(value("noise")), torch.zeros_like(images)
    for j in range(samples := inputs.estimator.get_integer("samples")):
        copies = random_draws.make_noisy_copies(images, ids, j, SEED, noise)
        start = make_baseline_images(str(value("baseline")), copies, inputs.black)
        points = torch.lerp(start, copies, random_draws.draw_path_positions(images, ids, j, SEED))
        gradient = compute_logit_gradients(inputs.model, points, inputs.batch.targets, {"grad"})["grad"]
        total += (copies - start) * gradient / samples
    return total


def kernel_shap(inputs: MapInput) -> Tensor:
    """Estimate Shapley values of grid squares by weighted least squares (Lundberg & Lee 2017, theorem 2).

    The values of an image sum to the image's logit minus the baseline's logit. The coalitions are drawn from the
    Shapley kernel, so all coalitions have the same weight in the regression. All images share the coalitions, so one
    matrix gives the solution for all images (captum explains one image at a time).
    """
    images, baseline, patches = inputs.images, inputs.baseline, inputs.estimator.get_integer("patches")
    numbers = assign_pixels_to_grid_squares(images, patches)
    squares, samples = count_grid_squares(images, patches), inputs.estimator.get_integer("samples")
    coalitions = random_draws.draw_coalitions(squares, samples, SEED)
    members = torch.from_numpy(coalitions).to(images.device)
    empty, whole = inputs.compute_logit(baseline).double(), inputs.compute_logit(images).double()
    logits = [inputs.compute_logit(images.where(coalition[numbers], baseline)).double() for coalition in members]
    z = members.double()
    # the matrix gives all values except the last, because the sum of the values determines the last
    solve = torch.linalg.pinv(z[:, :-1] - z[:, -1:])
    first = (torch.cat(logits, 1) - empty - (whole - empty) * z[:, -1]) @ solve.T
    values = torch.cat([first, whole - empty - first.sum(1, keepdim=True)], 1)
    return values[:, numbers][:, None]


def exact_shapley(inputs: MapInput) -> Tensor:
    """Compute the exact Shapley value of every feature (Lundberg & Lee 2017, equation 4), float64 of the images' shape.

    A coalition is a set of features, its members; its worth is the logit of the image after all other features are
    replaced by the baseline. The Shapley value of a feature is a weighted mean, over all coalitions without the
    feature, of the worth that the feature adds; a coalition of s of the d features has the weight s! (d - s - 1)! / d!.
    The values of the features sum to the image's logit minus the baseline's logit. Raises RunError for more than
    `SHAPLEY_FEATURES` features.
    """
    images, targets, baseline = inputs.images, inputs.batch.targets, inputs.baseline
    n, d = len(images), images[0].numel()
    if d > SHAPLEY_FEATURES:
        raise RunError(f"shapley supports at most {SHAPLEY_FEATURES} features, got {d}; leave shapley out")
    values = torch.zeros(n, d, dtype=torch.float64, device=images.device)
    coalitions = (torch.arange(2**d)[:, None] >> torch.arange(d)) & 1 == 1  # row k has the binary digits of k
    chances = [math.factorial(s) * math.factorial(d - s - 1) / math.factorial(d) for s in range(d)]
    # the 0 is never used, because the coalition of all features contains every feature
    by_size = torch.tensor([*chances, 0.0], dtype=torch.float64, device=images.device)
    for members in torch.split(coalitions.to(images.device), _AT_ONCE):
        shown = torch.where(members.view(-1, 1, *images.shape[1:]), images, baseline)  # (coalitions, n, c, h, w)
        logits = inputs.model(shown.flatten(0, 1))
        worth = logits.gather(1, targets.repeat(len(members))[:, None]).view(len(members), n).double()
        size = members.sum(1, keepdim=True)
        # a coalition's worth counts for the value of each member, and against that of each other feature
        values += worth.T @ torch.where(members, by_size[(size - 1).clamp(min=0)], -by_size[size])
    return values.view(images.shape)


ESTIMATORS = (
    Estimator("occlusion", title="Occlusion",
        about="drop of the logit when a sliding square becomes the mean colour", maps=occlusion,
        parameters={"baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(1 + (row.get_integer("patches") - 1) ** 2, 0),
        papers=("zeiler2014visualizing",), neighbours=True),
    Estimator("feature-ablation", title="Feature Ablation",
        about="drop of the logit when one square of a grid becomes the mean", maps=feature_ablation,
        parameters={"baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(1 + row.get_integer("patches") ** 2, 0),
        papers=("zeiler2014visualizing",), neighbours=True),
    Estimator("rise", title="RISE",
        about="RISE: mean of random masks, weighted by the class's probability under them", maps=rise,
        parameters={"samples": 256, "baseline": "mean", "patches": 7},
        cost=lambda row, features: Passes(row.get_integer("samples"), 0), papers=("petsiuk2018rise",), neighbours=True,
        few_samples=True),
    Estimator("gradient-shap", title="GradientSHAP",
        about="mean gradient at drawn points of the paths to noisy copies, signed", maps=gradient_shap,
        parameters={"noise": NOISE, "samples": 25, "baseline": "black"},
        cost=lambda row, features: Passes(row.get_integer("samples"), row.get_integer("samples")),
        papers=("lundberg2017unified", "sundararajan2017axiomatic", "smilkov2017smoothgrad"), neighbours=False),
    Estimator("kernel-shap", title="KernelSHAP", about="Shapley values of the squares of a grid, by regression",
        maps=kernel_shap, parameters={"samples": 256, "baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(2 + row.get_integer("samples"), 0),
        papers=("lundberg2017unified",), neighbours=True,
        few_samples=True),
    Estimator("shapley", title="Shapley values", about="exact Shapley values, for few features",
        maps=exact_shapley, parameters={"baseline": "mean"}, cost=lambda row, features: Passes(2**features, 0),
        papers=("shapley1953value", "lundberg2017unified"), neighbours=False, most_features=SHAPLEY_FEATURES),
)  # fmt: skip
