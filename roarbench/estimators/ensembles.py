"""The ensembles of a base over noisy copies of the image, all from one pass."""

from collections.abc import Callable, Iterator, Set
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.estimators import NOISE, SAMPLES, SEED
from roarbench.estimators.base import Batch
from roarbench.estimators.gradients import base_maps
from roarbench.estimators.noise import noisy_copies

Form = tuple[str, str]  # (base, form), as in the table of estimators
SINGLE: dict[str, Callable[[Tensor], Tensor]] = {"base": lambda g: g, "squared": torch.square}  # no noisy copies


class Moments:
    """Running mean and sum of squared deviations (Welford 1962): memory does not grow with the number of samples."""

    def __init__(self, shape: Tensor) -> None:
        self.count = 0
        self.mean = torch.zeros_like(shape)
        self.deviations = torch.zeros_like(shape)

    def add(self, sample: Tensor) -> None:
        """Take in one more sample."""
        self.count += 1
        step = sample - self.mean
        self.mean.add_(step, alpha=1 / self.count)
        self.deviations.addcmul_(step, step, value=1 - 1 / self.count)

    def form(self, name: str) -> Tensor:
        """Return one of the ensembles of docs/protocol.md, section 3."""
        variance = self.deviations / self.count
        forms = {
            "smooth": self.mean,
            "smooth-squared": self.mean**2,
            "smoothed-square": variance + self.mean**2,
            "variance": variance,
        }
        return forms[name]


class Needs(NamedTuple):
    """Bases whose maps of the image itself are needed, and those whose maps of its noisy copies are."""

    single: set[str]
    repeated: set[str]


def needs(wanted: Set[Form]) -> Needs:
    """Return what the wanted (base, form) pairs are made from."""
    single = {base for base, form in wanted if form in SINGLE}
    return Needs(single, {base for base, form in wanted if form not in SINGLE})


def ahead(items: Iterator[Tensor]) -> Iterator[Tensor]:
    """Yield the same items, each made in a thread while the one before it is used: a GPU does not wait for noise."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


class ModelMaps(NamedTuple):
    """Maps that explain one model.

    Attributes:
        maps: For each wanted form, float (n, c, h, w).
        kept: How many of an image's `SAMPLES` noisy copies the model puts into the image's target class, int64 (n,).
            Counted are the copies themselves, not the other points of the paths of integrated gradients. 0 where no
            form is made from copies.
    """

    maps: dict[Form, Tensor]
    kept: Tensor


def model_maps(wanted: Set[Form], model: nn.Module, batch: Batch, black: Tensor, noise: float = NOISE) -> ModelMaps:
    """Return the wanted forms' maps in the fewest passes: 400 forward and 416 backward per image for all 18.

    Args:
        wanted: (base, form) pairs.
        model: Logits out, eval mode.
        batch: The images and the classes to explain.
        black: Float (c, 1, 1), the black pixel, normalised.
        noise: Standard deviation of the noise on copies, as a share of the image's range.
    """
    images = batch.images.contiguous(memory_format=torch.channels_last)  # convolutions are a third faster
    single, repeated = needs(wanted)
    clean = base_maps(model, images, batch.targets, black, single)
    moments = {base: Moments(images) for base in repeated}
    kept = torch.zeros_like(batch.targets)

    def count(logits: Tensor) -> None:
        kept.add_(logits.argmax(1) == batch.targets)

    for copies in ahead(noisy_copies(images, batch.ids, j, SEED, noise) for j in range(SAMPLES if repeated else 0)):
        for base, sample in base_maps(model, copies, batch.targets, black, repeated, count).items():
            moments[base].add(sample)
    forms = {(base, form): moments[base].form(form) for base, form in wanted if form not in SINGLE}
    forms |= {(base, form): SINGLE[form](clean[base]) for base, form in wanted if form in SINGLE}
    return ModelMaps(forms, kept)
