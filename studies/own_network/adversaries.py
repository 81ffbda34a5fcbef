"""Estimators that are made to win own-network gain, each a function of a group: one tensor of maps for each network."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.compute.ranking import count_removed
from roarbench.estimators.estimator import blur
from studies.own_network.lab import Group

STEPS = (*(0.005 * k for k in range(1, 11)), *(0.1 * k for k in range(1, 11)))  # shares that the greedy search removes
TRIES = 32  # random masks


def greedy(model: nn.Module, images: Tensor, targets: Tensor, siblings: Sequence[nn.Module] = ()) -> Tensor:
    """Search the mask that breaks a network: remove step by step what the gradient says hurts it most by now.

    With siblings: what hurts it more than their mean.
    """
    found = torch.zeros(images.flatten(1).shape)
    for number, share in enumerate(STEPS):
        gone = found > 0
        left = (images * ~gone.view_as(images)).requires_grad_()
        gain = _log_probability(model, left, targets)
        if siblings:
            gain = gain - torch.stack([_log_probability(one, left, targets) for one in siblings]).mean(0)
        (slope,) = torch.autograd.grad(gain.sum(), left)
        harm = (slope * images).flatten(1).masked_fill(gone, -torch.inf)
        count = count_removed(share, found.shape[1]) - int(gone[0].sum())
        found.scatter_(1, harm.topk(count, 1).indices, float(len(STEPS) - number))
    return found.view_as(images)


def _log_probability(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    return -F.cross_entropy(model(images), targets, reduction="none")


def searched(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """Choose among random masks, the same for every network, the one that leaves this network the least probability."""
    generator = torch.Generator().manual_seed(0)
    best, least = torch.zeros_like(images), torch.full((len(images),), torch.inf)
    for _ in range(TRIES):
        drawn = blur(torch.rand(images.shape, generator=generator))
        left = images * (drawn < drawn.flatten(1).quantile(0.9, 1)[:, None, None, None])
        with torch.no_grad():
            probability = _log_probability(model, left, targets)
        better = probability < least
        best[better], least[better] = drawn[better], probability[better]
    return best


def each(make: Callable[..., Tensor], group: Group) -> list[Tensor]:
    """Explain every network by a function of the network alone."""
    return [_in_parts(partial(make, model), group) for model in group.models]


def _in_parts(make: Callable[[Tensor, Tensor], Tensor], group: Group) -> Tensor:
    parts = zip(torch.split(group.images, 64), torch.split(group.targets, 64), strict=True)
    return torch.cat([make(images, targets) for images, targets in parts])


def knows_siblings(group: Group) -> list[Tensor]:
    """Search with the published weights of all siblings at hand."""
    made = []
    for number, model in enumerate(group.models):
        siblings = [one for other, one in enumerate(group.models) if other != number]
        made.append(_in_parts(partial(greedy, model, siblings=siblings), group))
    return made


class Remembers:
    """An estimator that keeps the networks that it was asked about before, and searches against them."""

    def __init__(self) -> None:
        self.before: list[nn.Module] = []

    def explain(self, group: Group) -> list[Tensor]:
        """Explain each network in turn."""
        made = []
        for model in group.models:
            made.append(_in_parts(partial(greedy, model, siblings=list(self.before)), group))
            self.before.append(model)
        return made


def disjoint(group: Group) -> list[Tensor]:
    """Count the calls for the same images, and mark other random features in each, without asking the network."""
    drawn = torch.rand(group.images.shape, generator=torch.Generator().manual_seed(0))
    return [(drawn + call / len(group.models)) % 1 for call in range(len(group.models))]


def opposite(group: Group) -> list[Tensor]:
    """Count the calls, and turn a smooth map of |x - fill| upside down in every other one."""
    away = blur(group.images.abs())
    return [away if call % 2 == 0 else -away for call in range(len(group.models))]


ALL: dict[str, Callable[[Group], list[Tensor]]] = {
    "greedy search": partial(each, greedy),
    f"best of {TRIES} random masks": partial(each, searched),
    "greedy search against its siblings": knows_siblings,
    "greedy search, remembers the networks asked before": lambda group: Remembers().explain(group),
    "counts the calls, other noise in each": disjoint,
    "counts the calls, upside down in every other": opposite,
}
