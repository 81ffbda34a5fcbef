"""Removal of ranked features from images of any network, and the answers that are left."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.errors import CallerError, RunError, UnknownName
from roarbench.kernels.degrade import over_pixels
from roarbench.kernels.ranking import features, rank, removed_count, tie_order
from roarbench.models.outputs import logits_of
from roarbench.terms import Order, Unit

_Choice = TypeVar("_Choice", bound=StrEnum)


class Removal(NamedTuple):
    """Features that are removed from images: which end of a ranking, how many, and what one feature is."""

    order: Order
    levels: tuple[float, ...]  # fractions removed, in (0, 1]
    unit: Unit

    @classmethod
    def read(cls, order: str, levels: Sequence[float], unit: str) -> "Removal":
        """Read what a caller wrote; CallerError for an unknown word or a level outside (0, 1]."""
        steps = tuple(float(t) for t in levels)
        if not steps or list(steps) != sorted(set(steps)) or steps[0] <= 0 or steps[-1] > 1:
            raise CallerError(f"levels are {tuple(levels)}, expected fractions above 0, ascending; 30 % is written 0.3")
        return cls(_member(Order, "order", order), steps, _member(Unit, "unit", unit))

    def rank(self, maps: Tensor, images: Tensor, ids: Tensor) -> NDArray[np.int64]:
        """Rank the features of images by their maps, most important first, ties by chance: int64 (n, d).

        CallerError where maps have another shape, or values that are not finite.
        """
        found = maps.detach().float().cpu().numpy()
        found = found[:, 0] if found.ndim == 4 and found.shape[1] == 1 else found
        _, c, h, w = images.shape
        try:
            flat = features(found, (c, h, w), self.unit)
        except RunError as error:
            raise CallerError(str(error)) from None
        return rank(flat, tie_order(ids.numpy(), flat.shape[1]))

    def masks(self, ranked: NDArray[np.int64], images: Tensor) -> list[Tensor]:
        """Mark what is removed at each level, bool like the images or (n, 1, h, w), True where removed."""
        _, c, h, w = images.shape
        made = []
        for t in self.levels:
            count = removed_count(t, ranked.shape[1])
            gone = ranked[:, :count] if self.order is Order.MORF else ranked[:, ranked.shape[1] - count :]
            removed = np.zeros(ranked.shape, np.bool_)
            np.put_along_axis(removed, gone, True, 1)
            grid = torch.from_numpy(removed).view(len(ranked), *self.unit.grid((c, h, w)))
            made.append(over_pixels(grid, (c, h, w), self.unit))
        return made


def _member(kind: type[_Choice], what: str, word: str) -> _Choice:
    if word not in list(kind):
        raise UnknownName(what, word, kind)
    return kind(word)


@contextmanager
def evaluating(models: Sequence[nn.Module]) -> Iterator[None]:
    """Put networks into evaluation mode, and each of their modules back into its own mode at the end."""
    before = [(module, module.training) for model in models for module in model.modules()]
    for model in models:
        model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


def score(model: nn.Module, images: Tensor, batch: int) -> Tensor:
    """Return a network's logits, float32 (n, classes), on the processor; each batch is a copy of its own."""
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    with torch.inference_mode():
        parts = (part.clone().to(device) for part in torch.split(images, batch))
        return torch.cat([logits_of(model(part)).float().cpu() for part in parts])
