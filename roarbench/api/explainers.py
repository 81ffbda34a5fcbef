"""Make importance maps of any network by built-in estimators, a caller's functions and precomputed arrays."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.inputs import move_to_model
from roarbench.api.removal import compute_image_seeds, flatten_maps
from roarbench.api.threaded_networks import split_into_batches
from roarbench.api.user_networks import refuse_changes_of_network, show_own_network
from roarbench.common.errors import CallerError, RunError
from roarbench.common.process_settings import release_freed_cpu_memory
from roarbench.compute.map_ranking import compute_largest_tie_shares
from roarbench.compute.network_checks import have_logits_gradient
from roarbench.compute.ranking import draw_tie_order, rank
from roarbench.estimators.compute_maps import Maps, compute_importance_maps
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.map_input import Batch


class ExplainedBatch(NamedTuple):
    """A batch of images, and the network whose predictions on them are explained."""

    number: int  # the network's position among the explained networks
    model: nn.Module  # eval mode, returns logits
    images: Tensor  # float32 (n, c, h, w), in the network's input scale, on the network's device
    targets: Tensor  # int64 (n,), the classes to explain, on the same device
    rows: Tensor  # int64 (n,), positions among all images
    ids: Tensor  # int64 (n,), hash of each image's content; seeds the image's random numbers

    def use_network_copy(self, copies: Sequence[nn.Module]) -> "ExplainedBatch":
        """Return the batch with a copy of its network; `copies` has one copy of each explained network."""
        return self._replace(model=copies[self.number])

    def split_for_function(self) -> list["ExplainedBatch"]:
        """Split the batch, which may be large on a GPU: a user's function may make many copies of each image."""
        tensors = (self.images, self.targets, self.rows, self.ids)
        parts = split_into_batches(self.images)
        return [ExplainedBatch(self.number, self.model, *(tensor[part] for tensor in tensors)) for part in parts]


def make_batch_per_network(
    networks: Sequence[nn.Module], images: Tensor, targets: Tensor, rows: Tensor
) -> list[ExplainedBatch]:
    """Return one `ExplainedBatch` per network: the same images, on the network's device."""
    ids, batches = compute_image_seeds(images), []
    for number, network in enumerate(networks):
        moved = move_to_model(network, images)
        batches.append(ExplainedBatch(number, network, moved, targets.to(moved.device), rows, ids))
    return batches


class RankedMaps(NamedTuple):
    """One estimator's rankings of a batch."""

    order: NDArray[np.int64]  # each image's feature indices, most important first, (n, d)
    tied: list[float]  # share of features that have the map's most frequent value, per map


Explainer = Callable[[ExplainedBatch], Tensor]  # maps (n, c, h, w), (n, 1, h, w) or (n, h, w)


@dataclass(frozen=True)
class Explainers:
    """Estimators by name; built-in estimators share the network's passes over noisy images."""

    names: tuple[str, ...]  # all estimators, in the order of the table
    built_in: Mapping[str, Estimator]
    functions: Mapping[str, Explainer]  # the caller's functions and arrays
    mean: Tensor  # channel means of the images, (c, 1, 1)
    black: Tensor  # smallest value of each channel, (c, 1, 1)

    def make_maps_in_calling_thread(self, batch: ExplainedBatch) -> Maps:
        """Make the maps of the caller's functions, and of built-in estimators that trace the network."""
        traced = {name: row for name, row in self.built_in.items() if row.traces_network}
        maps_by_id = self._make_maps(traced.values(), batch)
        maps = {name: maps_by_id[row.id] for name, row in traced.items()}
        for name, explainer in self.functions.items():
            with show_own_network(batch.model) as own:
                parts = batch._replace(model=own).split_for_function()
                maps[name] = torch.cat([explainer(part) for part in parts])
        return maps

    def rank_features(self, batch: ExplainedBatch, finished: Maps) -> Iterator[RankedMaps]:
        """Yield each image's ranked features for one estimator after another; CallerError for unusable maps.

        `batch.model` may be a copy of the network. `finished` is the result of `make_maps_in_calling_thread`; this
        method makes the maps of all other estimators.
        """
        unfinished = {name: row for name, row in self.built_in.items() if name not in finished}
        maps_by_id = self._make_maps(unfinished.values(), batch)
        release_freed_cpu_memory()  # other threads may need the memory of the passes
        ties = draw_tie_order(batch.ids.numpy(), math.prod(batch.images.shape[1:]))
        for name in self.names:
            maps = finished[name] if name in finished else maps_by_id[unfinished[name].id]
            features = flatten_maps(maps, tuple(batch.images.shape), f"the maps of {name}")
            ranked = rank(features, ties)
            ordered = torch.from_numpy(np.take_along_axis(features, ranked, 1))
            yield RankedMaps(ranked, compute_largest_tie_shares(ordered).tolist())

    def refuse_failing_estimators(self, batches: Sequence[ExplainedBatch]) -> None:
        """Make maps of a few images for every network, so that all failing estimators are reported at the start."""
        for batch in batches:
            failures = []
            for name in self.names:
                try:
                    with refuse_changes_of_network(batch.model, name):
                        self._try_estimator(name, batch)
                except (CallerError, RunError) as error:
                    failures.append(f"{name}: {error}")
            if failures:
                raise CallerError(f"network {batch.number + 1} cannot be explained by {'; '.join(failures)}")

    def _try_estimator(self, name: str, batch: ExplainedBatch) -> None:
        built_in = {name: self.built_in[name]} if name in self.built_in else {}
        functions = {name: self.functions[name]} if name in self.functions else {}
        alone = replace(self, names=(name,), built_in=built_in, functions=functions)
        try:
            list(alone.rank_features(batch, alone.make_maps_in_calling_thread(batch)))
        except RuntimeError as error:  # from torch
            if have_logits_gradient(batch.model, batch.images):
                raise
            seen = "the network's logits have no gradient, because its forward uses no_grad, detach or NumPy"
            raise CallerError(f"{seen}; use an estimator without gradients, such as 'occlusion'") from error

    def _make_maps(self, estimators: Iterable[Estimator], explained: ExplainedBatch) -> Maps:
        """Return maps by estimator id; estimators that trace get the network without `_NetworkOfCentredImages`."""
        rows = list({row.id: row for row in estimators}.values())
        mean = self.mean.to(explained.images)
        model, black = _NetworkOfCentredImages(explained.model, mean).eval(), self.black - self.mean
        batch = Batch(explained.images, explained.targets, explained.ids)
        centred = batch._replace(images=explained.images - mean)
        traced = [row for row in rows if row.traces_network]
        with_baseline = [row for row in rows if row.passes_baseline and row not in traced]
        others = [row for row in rows if row not in traced and row not in with_baseline]
        maps: Maps = {}
        if traced:
            maps |= compute_importance_maps(traced, explained.model, batch, self.black)
        if others:
            maps |= compute_importance_maps(others, model, centred, black)
        if with_baseline:
            # half of the images with their baselines need as much memory as all images alone
            count = len(explained.rows)
            half = (count + 1) // 2
            halves = [centred.select_rows(slice(start, start + half)) for start in range(0, count, half)]
            made = [compute_importance_maps(with_baseline, model, half_batch, black) for half_batch in halves]
            maps |= {name: torch.cat([part[name] for part in made]) for name in made[0]}
        return maps


class _NetworkOfCentredImages(nn.Module):
    """A network that takes images minus the channel means, so that 0 is the mean, as built-in estimators expect."""

    def __init__(self, model: nn.Module, mean: Tensor) -> None:
        super().__init__()
        self.model, self.mean = model, mean

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images + self.mean)
        return logits
