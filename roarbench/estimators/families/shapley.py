"""Shapley values: exact ones, and what estimates them."""

import math

from roarbench.errors import RunError
from roarbench.estimators.baselines import make_baseline_images
from roarbench.estimators.estimator import NOISE, SEED, Estimator, Passes
from roarbench.estimators.families.gradients import SMILKOV, SUNDARARAJAN, compute_logit_gradients
from roarbench.estimators.families.occlusion import count_squares, number_squares
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor, noise, torch
from roarbench.estimators.papers import Paper

LUNDBERG = Paper("""@inproceedings{lundberg2017unified,
    title = {A Unified Approach to Interpreting Model Predictions},
    author = {Scott M. Lundberg and Su-In Lee},
    booktitle = {Advances in Neural Information Processing Systems}, year = {2017}, eprint = {1705.07874}}""")
SHAPLEY = Paper("""@incollection{shapley1953value,
    title = {A Value for n-Person Games},
    author = {Lloyd S. Shapley},
    booktitle = {Contributions to the Theory of Games II, Annals of Mathematics Studies 28}, year = {1953}}""")
SHAPLEY_FEATURES = 16  # at most: 65,536 coalitions of each image
_AT_ONCE = 256  # coalitions of every image that go through the model together


def gradient_shap(inputs: MapInput) -> Tensor:
    """Return GradientSHAP (Lundberg & Lee 2017; Erion et al. 2021): the mean over j of (x_j - x0) times a gradient.

    x_j is the j-th noisy copy of the image, the same as SmoothGrad's, x0 the baseline, and the gradient is that of the
    logit at a point of the path from x0 to x_j, drawn uniformly for each image and j.
    """
    images, ids, value = inputs.images, inputs.batch.ids, inputs.estimator.value
    share, total = float(value("noise")), torch.zeros_like(images)
    for j in range(samples := inputs.estimator.whole("samples")):
        copies = noise.make_noisy_copies(images, ids, j, SEED, share)
        start = make_baseline_images(str(value("baseline")), copies, inputs.black)
        points = torch.lerp(start, copies, noise.draw_path_points(images, ids, j, SEED))
        gradient = compute_logit_gradients(inputs.model, points, inputs.batch.targets, {"grad"})["grad"]
        total += (copies - start) * gradient / samples
    return total


def kernel_shap(inputs: MapInput) -> Tensor:
    """Return Shapley values of the squares of a grid by weighted least squares (Lundberg & Lee 2017, theorem 2).

    The values of an image add up to its logit minus that of the baseline. Coalitions are drawn by the Shapley kernel,
    so all weigh the same, and they are the same for all images, so one matrix solves for all. (captum's takes one image
    at a time.)
    """
    images, baseline, patches = inputs.images, inputs.baseline, inputs.estimator.whole("patches")
    numbers = number_squares(images, patches)
    drawn = noise.draw_coalitions(count_squares(images, patches), inputs.estimator.whole("samples"), SEED)
    members = torch.from_numpy(drawn).to(images.device)
    empty, whole = inputs.logit(baseline).double(), inputs.logit(images).double()
    said = [inputs.logit(images.where(coalition[numbers], baseline)).double() for coalition in members]
    z = members.double()
    solve = torch.linalg.pinv(z[:, :-1] - z[:, -1:])  # of all but the last value, which follows from the sum
    first = (torch.cat(said, 1) - empty - (whole - empty) * z[:, -1]) @ solve.T
    values = torch.cat([first, whole - empty - first.sum(1, keepdim=True)], 1)
    return values[:, numbers][:, None]


def shapley(inputs: MapInput) -> Tensor:
    """Return the Shapley value of every feature (Lundberg & Lee 2017, equation 4), float64 of the images' shape.

    The worth of a coalition is the logit where its members are as in the image and all others as in the baseline. A
    feature's value is what it adds to a coalition, averaged over the orders in which all can join: over 2^d coalitions,
    one that has s members without it weighs s! (d - s - 1)! / d!. The values add up to the logit of the image minus
    that of the baseline. RunError where there are more than `SHAPLEY_FEATURES` features.
    """
    images, targets, baseline = inputs.images, inputs.batch.targets, inputs.baseline
    n, d = len(images), images[0].numel()
    if d > SHAPLEY_FEATURES:
        most = f"{SHAPLEY_FEATURES} features at most, got {d}"
        raise RunError(f"shapley looks at every coalition of {most}; leave it out")
    values = torch.zeros(n, d, dtype=torch.float64, device=images.device)
    for members in torch.split(_coalitions(d).to(images.device), _AT_ONCE):
        shown = torch.where(members.view(-1, 1, *images.shape[1:]), images, baseline)  # (coalitions, n, c, h, w)
        logits = inputs.model(shown.flatten(0, 1))
        worth = logits.gather(1, targets.repeat(len(members))[:, None]).view(len(members), n).double()
        values += worth.T @ _weights(members)
    return values.view(images.shape)


def _coalitions(d: int) -> Tensor:
    """Return all coalitions of d features, bool (2^d, d): row k has the binary digits of k."""
    return (torch.arange(2**d)[:, None] >> torch.arange(d)) & 1 == 1


def _weights(members: Tensor) -> Tensor:
    """Return what each coalition's worth counts in each feature's value, float64 like `members` (k, d).

    It is added for those with the feature, and taken off for those without it.
    """
    d = members.shape[1]
    chances = [math.factorial(s) * math.factorial(d - s - 1) / math.factorial(d) for s in range(d)]
    by_size = torch.tensor([*chances, 0.0], dtype=torch.float64, device=members.device)  # a whole one lacks nobody
    size = members.sum(1, keepdim=True)
    return torch.where(members, by_size[(size - 1).clamp(min=0)], -by_size[size])


ESTIMATORS = (
    Estimator("gradient-shap", title="GradientSHAP",
        about="mean gradient at drawn points of the paths to noisy copies, signed", maps=gradient_shap,
        parameters={"noise": NOISE, "samples": 25, "baseline": "black"},
        cost=lambda row, features: Passes(row.whole("samples"), row.whole("samples")),
        papers=(LUNDBERG, SUNDARARAJAN, SMILKOV), neighbours=False),
    Estimator("kernel-shap", title="KernelSHAP", about="Shapley values of the squares of a grid, by regression",
        maps=kernel_shap, parameters={"samples": 256, "baseline": "mean", "patches": 8},
        cost=lambda row, features: Passes(2 + row.whole("samples"), 0), papers=(LUNDBERG,), neighbours=True,
        few_samples=True),
    Estimator("shapley", title="Shapley values", about="exact Shapley values, for few features",
        maps=shapley, parameters={"baseline": "mean"}, cost=lambda row, features: Passes(2**features, 0),
        papers=(SHAPLEY, LUNDBERG), neighbours=False, most_features=SHAPLEY_FEATURES),
)  # fmt: skip
