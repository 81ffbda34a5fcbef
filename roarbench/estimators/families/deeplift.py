"""DeepLIFT by its rescale rule."""

from roarbench.errors import RunError
from roarbench.estimators.estimator import Estimator, Passes
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import Tensor, deeplift_rules, torch
from roarbench.estimators.papers import Paper

SHRIKUMAR = Paper("""@inproceedings{shrikumar2017learning,
    title = {Learning Important Features Through Propagating Activation Differences},
    author = {Avanti Shrikumar and Peyton Greenside and Anshul Kundaje},
    booktitle = {International Conference on Machine Learning}, year = {2017}, eprint = {1704.02685}}""")
_MISSED = 1e-3  # share of the contributions; float32 misses less than 1e-5
_ROUNDING = 1e-5  # share of the logits, whose difference has their rounding


def deeplift(map_input: MapInput) -> Tensor:
    """Return DeepLIFT's contributions, signed; those of an image add up to its logit minus that of its baseline.

    RunError where they do not, since the network has a nonlinear step that no rule is known for.
    """
    images, targets, start = map_input.images, map_input.batch.targets, map_input.baseline
    with torch.enable_grad():
        inputs = torch.cat([images, start]).detach().requires_grad_()
        with deeplift_rules.Rescaled():
            logits = map_input.model(inputs).gather(1, targets.repeat(2)[:, None])
        (multipliers,) = torch.autograd.grad(logits.sum(), inputs)
    contributions = multipliers[: len(images)] * (images - start)
    said, base = logits.detach().view(2, -1)
    missed = (contributions.sum((1, 2, 3)) - (said - base)).abs().sum()
    if missed > _MISSED * contributions.abs().sum() + _ROUNDING * logits.abs().sum():
        raise RunError("deeplift does not add up: it has no rule for a step that the network has; leave it out")
    return contributions


ESTIMATORS = (
    Estimator("deeplift", title="DeepLIFT", about="DeepLIFT by its rescale rule, from black, signed", maps=deeplift,
        parameters={"baseline": "black"}, cost=Passes(2, 2), papers=(SHRIKUMAR,), neighbours=False),
)  # fmt: skip
