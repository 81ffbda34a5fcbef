"""Estimators that change parts of the image and measure the effect on the output: occlusion, RISE, Shapley values."""

import math
from collections.abc import Iterable, Iterator
from itertools import product

from roarbench.errors import RunError
from roarbench.estimators.estimator import NOISE, SEED, Estimator, MapInput, Paper, Passes, make_baseline_images
from roarbench.estimators.families.gradients import SMILKOV, SUNDARARAJAN, compute_logit_gradients
from roarbench.estimators.lazy_torch import F, Tensor, device_settings, noise_and_random_draws, torch

ZEILER = Paper("""@inproceedings{zeiler2014visualizing,
    title = {Visualizing and Understanding Convolutional Networks},
    author = {Matthew D. Zeiler and Rob Fergus},
    booktitle = {European Conference on Computer Vision}, year = {2014}, eprint = {1311.2901}}""")
PETSIUK = Paper("""@inproceedings{petsiuk2018rise,
    title = {RISE: Randomized Input Sampling for Explanation of Black-box Models},
    author = {Vitali Petsiuk and Abir Das and Kate Saenko},
    booktitle = {British Machine Vision Conference}, year = {2018}, eprint = {1806.07421}}""")
LUNDBERG = Paper("""@inproceedings{lundberg2017unified,
    title = {A Unified Approach to Interpreting Model Predictions},
    author = {Scott M. Lundberg and Su-In Lee},
    booktitle = {Advances in Neural Information Processing Systems}, year = {2017}, eprint = {1705.07874}}""")
SHAPLEY = Paper("""@incollection{shapley1953value,
    title = {A Value for n-Person Games},
    author = {Lloyd S. Shapley},
    booktitle = {Contributions to the Theory of Games II, Annals of Mathematics Studies 28}, year = {1953}}""")
SHAPLEY_FEATURES = 16  # maximum features: 65,536 coalitions per image
_AT_ONCE = 256  # coalitions of every image per pass


def number_grid_squares(images: Tensor, patches: int) -> Tensor:
    """Return each pixel's square, int64 (h, w), row by row, with `patches` squares (at most the pixels) per side."""
    h, w = images.shape[-2:]
    down, across = (torch.arange(side, device=images.device) * min(patches, side) // side for side in (h, w))
    return down[:, None] * min(patches, w) + across


def count_grid_squares(images: Tensor, patches: int) -> int:
    """Count the squares of `number_grid_squares`."""
    h, w = images.shape[-2:]
    return min(patches, h) * min(patches, w)


def occlusion(inputs: MapInput) -> Tensor:
    """Compute the mean drop of the logit over all sliding squares that cover a pixel (Zeiler & Fergus 2014).

    A square is two patches wide and moves by one patch, so most pixels are covered by four squares. Squares at the far
    edges may be cut off.
    """
    down, across = (_mark_squares_along_side(side, inputs) for side in inputs.images.shape[-2:])
    pixel_sets = [rows[:, None] & columns for columns, rows in product(across, down)]
    return sum(_compute_logit_drops(inputs, pixel_sets), inputs.images.new_zeros(())) / torch.stack(pixel_sets).sum(0)


def _mark_squares_along_side(side: int, inputs: MapInput) -> list[Tensor]:
    """Return the pixels of each square along one side, bool (side,) each."""
    patches = min(inputs.estimator.get_integer("patches"), *inputs.images.shape[-2:])
    width, stride, pixels = max(1, 2 * side // patches), max(1, side // patches), torch.arange(side)
    starts = range(0, max(1, side - width + stride), stride)
    return [((pixels >= start) & (pixels < start + width)).to(inputs.images.device) for start in starts]


def _compute_logit_drops(inputs: MapInput, pixel_sets: Iterable[Tensor]) -> Iterator[Tensor]:
    """Yield the logit's drop after each set of pixels, bool (h, w), becomes the baseline: (n, 1, h, w), 0 elsewhere."""
    whole, baseline = inputs.compute_logit(inputs.images), inputs.baseline
    layout = device_settings.choose_float32_layout(inputs.images.device)
    for pixels in pixel_sets:
        without = torch.where(pixels, baseline, inputs.images).contiguous(memory_format=layout)
        yield (whole - inputs.compute_logit(without))[:, :, None, None] * pixels


def feature_ablation(inputs: MapInput) -> Tensor:
    """Compute the drop of the logit after one grid square is replaced by the baseline."""
    images, patches = inputs.images, inputs.estimator.get_integer("patches")
    numbers = number_grid_squares(images, patches)
    pixel_sets = (numbers == square for square in range(count_grid_squares(images, patches)))
    return sum(_compute_logit_drops(inputs, pixel_sets), images.new_zeros(()))


def rise(inputs: MapInput) -> Tensor:
    """Compute RISE (Petsiuk et al. 2018, equation 6): the sum of random masks, weighted by the class probability.

    The probability is that of the target class for the masked image. A mask has `patches` cells per side, each 1 or 0
    with probability 1/2; it is resized bilinearly and shifted by a fraction of a cell. All images share the masks.
    Masked pixels are replaced by the baseline: the mean colour, as in the authors' code.
    """
    images, targets, samples = inputs.images, inputs.batch.targets, inputs.estimator.get_integer("samples")
    baseline, total = inputs.baseline, torch.zeros_like(images[:, :1])
    for j in range(samples):
        mask = make_rise_mask(images, inputs.estimator.get_integer("patches"), j)
        probability = inputs.model(torch.lerp(baseline, images, mask)).softmax(1).gather(1, targets[:, None])
        total += probability[:, :, None, None] * mask / (0.5 * samples)
    return total


def make_rise_mask(images: Tensor, patches: int, j: int) -> Tensor:
    """Return the j-th RISE mask, (1, 1, h, w) in [0, 1]."""
    # one more cell per side, so a shifted mask still covers the image
    cells, shift = noise_and_random_draws.draw_rise_mask_cells(patches + 1, j, SEED)
    sides = [-(-side // patches) for side in images.shape[-2:]]  # pixels per cell
    grid, wide = torch.from_numpy(cells)[None, None].double(), [(patches + 1) * side for side in sides]
    stretched = F.interpolate(grid, wide, mode="bilinear")
    h, w = images.shape[-2:]
    top, left = (int(part * side) for part, side in zip(shift, sides, strict=True))
    return stretched[:, :, top : top + h, left : left + w].to(images)


def gradient_shap(inputs: MapInput) -> Tensor:
    """Compute GradientSHAP (Lundberg & Lee 2017; Erion et al. 2021): the mean over j of (x_j - x0) times a gradient.

    x_j is SmoothGrad's j-th noisy copy and x0 the baseline. The gradient is that of the logit at a point between x0 and
    x_j, drawn uniformly for each image and j.
    """
    images, ids, value = inputs.images, inputs.batch.ids, inputs.estimator.get_value
    share, total = float(value("noise")), torch.zeros_like(images)
    for j in range(samples := inputs.estimator.get_integer("samples")):
        copies = noise_and_random_draws.make_noisy_copies(images, ids, j, SEED, share)
        start = make_baseline_images(str(value("baseline")), copies, inputs.black)
        points = torch.lerp(start, copies, noise_and_random_draws.draw_path_points(images, ids, j, SEED))
        gradient = compute_logit_gradients(inputs.model, points, inputs.batch.targets, {"grad"})["grad"]
        total += (copies - start) * gradient / samples
    return total


def kernel_shap(inputs: MapInput) -> Tensor:
    """Estimate Shapley values of grid squares by weighted least squares (Lundberg & Lee 2017, theorem 2).

    The values of an image sum to its logit minus the baseline's. Coalitions are drawn from the Shapley kernel, so their
    weights are equal. All images share them, so one matrix gives the solution for all images (captum explains one image
    at a time).
    """
    images, baseline, patches = inputs.images, inputs.baseline, inputs.estimator.get_integer("patches")
    numbers = number_grid_squares(images, patches)
    drawn = noise_and_random_draws.draw_coalitions(
        count_grid_squares(images, patches), inputs.estimator.get_integer("samples"), SEED
    )
    members = torch.from_numpy(drawn).to(images.device)
    empty, whole = inputs.compute_logit(baseline).double(), inputs.compute_logit(images).double()
    logits = [inputs.compute_logit(images.where(coalition[numbers], baseline)).double() for coalition in members]
    z = members.double()
    solve = torch.linalg.pinv(z[:, :-1] - z[:, -1:])  # all values except the last, which the sum determines
    first = (torch.cat(logits, 1) - empty - (whole - empty) * z[:, -1]) @ solve.T
    values = torch.cat([first, whole - empty - first.sum(1, keepdim=True)], 1)
    return values[:, numbers][:, None]


def exact_shapley(inputs: MapInput) -> Tensor:
    """Compute the exact Shapley value of every feature (Lundberg & Lee 2017, equation 4), float64 of the images' shape.

    The value of a coalition is the logit of the image with all features that are not members replaced by the baseline.
    Its weight in the value of a feature that is not a member is s! (d - s - 1)! / d! for s members. The values of the
    features sum to the image's logit minus the baseline's. Raises RunError for more than `SHAPLEY_FEATURES` features.
    """
    images, targets, baseline = inputs.images, inputs.batch.targets, inputs.baseline
    n, d = len(images), images[0].numel()
    if d > SHAPLEY_FEATURES:
        most = f"at most {SHAPLEY_FEATURES} features, got {d}"
        raise RunError(f"shapley supports {most}; leave shapley out")
    values = torch.zeros(n, d, dtype=torch.float64, device=images.device)
    coalitions = (torch.arange(2**d)[:, None] >> torch.arange(d)) & 1 == 1  # row k has the binary digits of k
    for members in torch.split(coalitions.to(images.device), _AT_ONCE):
        shown = torch.where(members.view(-1, 1, *images.shape[1:]), images, baseline)  # (coalitions, n, c, h, w)
        logits = inputs.model(shown.flatten(0, 1))
        worth = logits.gather(1, targets.repeat(len(members))[:, None]).view(len(members), n).double()
        values += worth.T @ _compute_shapley_weights(members)
    return values.view(images.shape)


def _compute_shapley_weights(members: Tensor) -> Tensor:
    """Return the weight of each coalition in the value of each feature, float64, shaped like `members` (k, d).

    The weight is positive for coalitions that contain the feature, negative for the others.
    """
    d = members.shape[1]
    chances = [math.factorial(s) * math.factorial(d - s - 1) / math.factorial(d) for s in range(d)]
    # the full coalition lacks no feature
    by_size = torch.tensor([*chances, 0.0], dtype=torch.float64, device=members.device)
    size = members.sum(1, keepdim=True)
    return torch.where(members, by_size[(size - 1).clamp(min=0)], -by_size[size])


ESTIMATORS = (
    Estimator("occlusion", title="Occlusion",
        about="fall of the logit when a sliding square becomes the mean colour", maps=occlusion,
        parameters={"baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(1 + (row.get_integer("patches") - 1) ** 2, 0),
        papers=(ZEILER,), neighbours=True),
    Estimator("feature-ablation", title="Feature Ablation",
        about="fall of the logit when one square of a grid becomes the mean", maps=feature_ablation,
        parameters={"baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(1 + row.get_integer("patches") ** 2, 0), papers=(ZEILER,), neighbours=True),
    Estimator("rise", title="RISE",
        about="RISE: mean of random masks, weighted by the class's probability under them", maps=rise,
        parameters={"samples": 256, "baseline": "mean", "patches": 7},
        cost=lambda row, features: Passes(row.get_integer("samples"), 0), papers=(PETSIUK,), neighbours=True,
        few_samples=True),
    Estimator("gradient-shap", title="GradientSHAP",
        about="mean gradient at drawn points of the paths to noisy copies, signed", maps=gradient_shap,
        parameters={"noise": NOISE, "samples": 25, "baseline": "black"},
        cost=lambda row, features: Passes(row.get_integer("samples"), row.get_integer("samples")),
        papers=(LUNDBERG, SUNDARARAJAN, SMILKOV), neighbours=False),
    Estimator("kernel-shap", title="KernelSHAP", about="Shapley values of the squares of a grid, by regression",
        maps=kernel_shap, parameters={"samples": 256, "baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(2 + row.get_integer("samples"), 0), papers=(LUNDBERG,), neighbours=True,
        few_samples=True),
    Estimator("shapley", title="Shapley values", about="exact Shapley values, for few features",
        maps=exact_shapley, parameters={"baseline": "mean"}, cost=lambda row, features: Passes(2**features, 0),
        papers=(SHAPLEY, LUNDBERG), neighbours=False, most_features=SHAPLEY_FEATURES),
)  # fmt: skip
