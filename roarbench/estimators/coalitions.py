"""Exact Shapley values: the logit of every coalition of features, where there are few."""

import math

import torch
from torch import Tensor

from roarbench.errors import RunError
from roarbench.estimators import SHAPLEY_FEATURES
from roarbench.estimators.base import MethodInput
from roarbench.estimators.baselines import baseline_images

_AT_ONCE = 256  # coalitions of every image that go through the model together


@torch.no_grad()
def shapley(asked: MethodInput) -> Tensor:
    """Return the Shapley value of every feature (Lundberg & Lee 2017, equation 4), float64 of the images' shape.

    The worth of a coalition is the logit where its members are as in the image and all others as in the baseline. A
    feature's value is what it adds to a coalition, averaged over the orders in which all can join: over 2^d coalitions,
    one that has s members without it weighs s! (d - s - 1)! / d!. The values add up to the logit of the image minus
    that of the baseline.

    Raises:
        RunError: There are more than `SHAPLEY_FEATURES` features.
    """
    images, targets = asked.batch.images, asked.batch.targets
    n, d = len(images), images[0].numel()
    if d > SHAPLEY_FEATURES:
        most = f"{SHAPLEY_FEATURES} features at most, got {d}"
        raise RunError(f"shapley looks at every coalition of {most}; leave it out")
    baseline = baseline_images(asked.word("baseline"), images, asked.black)
    values = torch.zeros(n, d, dtype=torch.float64, device=images.device)
    for members in torch.split(_coalitions(d).to(images.device), _AT_ONCE):
        shown = torch.where(members.view(-1, 1, *images.shape[1:]), images, baseline)  # (coalitions, n, c, h, w)
        logits = asked.model(shown.flatten(0, 1))
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
