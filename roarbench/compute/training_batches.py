"""Draw, read and augment the batches of a training run."""

from collections.abc import Iterator

import torch
from torch import Tensor

from roarbench.compute.augment import augment, shrink_images
from roarbench.compute.degrade import take_rows
from roarbench.compute.degraded_images import Inputs, Streamed
from roarbench.compute.normalisation import Normalisation, normalise
from roarbench.compute.recipe import Recipe, compute_image_side


class TrainingBatches:
    """Batches of a training run in progress; streamed inputs are read ahead.

    Each pass over the inputs uses every input once, in random order. The passes are joined and cut into full batches,
    so a batch may hold the end of one pass and the start of the next.

    Attributes:
        size: Images per batch.
        steps_per_epoch: Batches per pass over the inputs, may be fractional.
        steps: Batches of the whole training run.
    """

    def __init__(
        self, inputs: Inputs, labels: Tensor, norm: Normalisation, recipe: Recipe, seed: int, device: torch.device
    ) -> None:
        self._inputs, self._norm, self._recipe, self._device = inputs, norm, recipe, device
        self._labels = labels.to(device)
        self._generator = torch.Generator().manual_seed(seed)
        self.size = min(recipe.batch, len(inputs))  # a reduced data set may be smaller than a batch
        self.steps_per_epoch = len(inputs) / self.size
        self.steps = round(recipe.epochs * self.steps_per_epoch)
        self._waiting = torch.empty(0, dtype=torch.int64)  # drawn indices for the next batches
        self._prefetched: Iterator[Tensor] = iter(())  # streamed images of the next parts of batches
        self._prefetched_batches = 0

    def draw_next(self) -> tuple[Tensor, ...]:
        """Return the indices of the next batch, int64, split into its parts; start reading the batches after it."""
        # the generator draws a pass only when the waiting indices do not fill a batch
        while len(self._waiting) < self.size:
            self._waiting = torch.cat([self._waiting, torch.randperm(len(self._inputs), generator=self._generator)])
        index, self._waiting = self._waiting[: self.size], self._waiting[self.size :]
        if isinstance(self._inputs, Streamed):
            if not self._prefetched_batches:
                full = len(self._waiting) // self.size * self.size
                batches = torch.split(torch.cat([index, self._waiting[:full]]), self.size)
                # a generator instead of this list would keep these batches in memory until Python collects cycles
                self._prefetched = self._inputs.read([part for batch in batches for part in self._split_batch(batch)])
                self._prefetched_batches = len(batches)
            self._prefetched_batches -= 1
        return self._split_batch(index)

    def _split_batch(self, index: Tensor) -> tuple[Tensor, ...]:
        return torch.split(index, self._recipe.micro_batch or self.size)

    def get_position(self) -> tuple[Tensor, list[Tensor]]:
        """Return the waiting indices and the states of the generators, from which `rewind` draws the same batches."""
        return self._waiting, [generator.get_state() for generator in self._list_generators()]

    def rewind(self, waiting: Tensor, generator_states: list[Tensor]) -> None:
        """Return to a position of `get_position`."""
        self._waiting, self._prefetched_batches = waiting, 0
        for generator, state in zip(self._list_generators(), generator_states, strict=True):
            generator.set_state(state)

    def _list_generators(self) -> list[torch.Generator]:
        """Return the generator of the batches and, if the removal masks change at every reading, that of the masks."""
        masks = getattr(self._inputs, "generator", None)
        return [self._generator, *([masks] if masks else [])]

    def load(self, index: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Return a part of a batch on the device: augmented, normalised images at this step's side, and labels."""
        streamed = isinstance(self._inputs, Streamed)
        degraded = next(self._prefetched) if streamed else self._inputs.batch(index).to(self._device)
        side = compute_image_side(self._recipe, step, self.steps, degraded.shape[3])
        images = augment(shrink_images(degraded, side), self._recipe.augmentation, self._generator)
        return normalise(images, self._norm), take_rows(self._labels, index)
