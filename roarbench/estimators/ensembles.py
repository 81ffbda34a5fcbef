"""The ensembles of a base over noisy copies of the image, all from one pass."""

from collections.abc import Callable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import torch
from torch import Tensor, nn

from roarbench.devices import choose_float32_layout
from roarbench.estimators.estimator import SEED
from roarbench.estimators.families.gradients import Note, compute_base_maps
from roarbench.estimators.inputs import PAPERS, Batch, Settings
from roarbench.estimators.noise import compute_noise_scale, draw_normal_noise
from roarbench.estimators.pass_counts import Form, list_needed_bases

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


def prefetch(items: Iterator[Tensor]) -> Iterator[Tensor]:
    """Yield the same items, each made in a thread while the one before it is used: a GPU does not wait for noise."""
    with ThreadPoolExecutor(1) as thread:
        coming = thread.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = thread.submit(next, items, None)
            yield item


class ModelMaps(NamedTuple):
    """Maps that explain one model."""

    maps: dict[Form, Tensor]  # for each wanted form, float (n, c, h, w)
    # how many of an image's noisy copies the model puts into the image's target class, int64 (n,). Counted are the
    # copies themselves, not the other points of the paths of integrated gradients. 0 where no form is made from copies
    kept: Tensor


class MapRequest(NamedTuple):
    """Forms that are wanted of one model, and on which images."""

    wanted: Set[Form]  # (base, form) pairs
    model: nn.Module  # logits out, eval mode
    batch: Batch  # the images and the classes to explain
    black: Tensor  # float (c, 1, 1), the black pixel, normalised
    settings: Settings = PAPERS  # of the noisy copies and of the path of integrated gradients


def compute_model_maps(looks: Sequence[MapRequest]) -> list[ModelMaps]:
    """Return each look's maps of the wanted forms in the fewest passes: 400 forward and 416 backward for all 18.

    The looks are at the same images, with the same numbers: the draws of their noisy copies are made once for all. The
    maps of one do not depend on the others.
    """
    running = [_RunningMaps(look) for look in looks]
    first = looks[0].batch
    samples = max(each.samples for each in running)
    for j, draws in enumerate(prefetch(draw_normal_noise(first.images, first.ids, j, SEED) for j in range(samples))):
        for each in running:
            if j < each.samples:
                each.add(draws)
    return [each.found() for each in running]


class _RunningMaps:
    """Maps of one look: those of the images themselves, and running moments over their noisy copies."""

    def __init__(self, look: MapRequest) -> None:
        self._look = look
        images = look.batch.images
        self._images = images.contiguous(memory_format=choose_float32_layout(images.device))
        single, self._repeated = list_needed_bases(look.wanted)
        self.samples = look.settings.samples if self._repeated else 0
        self._clean = self._bases(self._images, single)
        self._scale = compute_noise_scale(self._images, look.settings.noise)
        self._moments = {base: Moments(self._images) for base in self._repeated}
        self._kept = torch.zeros_like(look.batch.targets)

    def add(self, draws: Tensor) -> None:
        """Take in one more noisy copy of every image."""
        copies = self._scale.mul(draws).add_(self._images)
        for base, sample in self._bases(copies, self._repeated, self._count).items():
            self._moments[base].add(sample)

    def _bases(self, images: Tensor, bases: Set[str], note: Note = lambda logits: None) -> dict[str, Tensor]:
        model, batch, black = self._look.model, self._look.batch, self._look.black
        return compute_base_maps(model, images, batch.targets, black, bases, note, self._look.settings)

    def _count(self, logits: Tensor) -> None:
        self._kept.add_(logits.argmax(1) == self._look.batch.targets)

    def found(self) -> ModelMaps:
        """Return the maps, when all copies were added."""
        wanted = self._look.wanted
        forms = {(base, form): self._moments[base].form(form) for base, form in wanted if form not in SINGLE}
        forms |= {(base, form): SINGLE[form](self._clean[base]) for base, form in wanted if form in SINGLE}
        return ModelMaps(forms, self._kept)
