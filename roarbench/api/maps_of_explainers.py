"""Make importance maps of any network by built-in estimators, a caller's functions and precomputed arrays."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.batched_inference import ThreadedNetworks, split_into_batches
from roarbench.api.inputs import move_to_model
from roarbench.api.ranking_and_removal import compute_image_seeds, flatten_maps_of_images, reraise_as_caller_error
from roarbench.api.user_networks import refuse_changes_of_network, show_own_network
from roarbench.common.enums import Unit
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

    def select_slice(self, part: slice) -> "ExplainedBatch":
        """Return the batch with the images of this slice only."""
        images, targets, rows, ids = (tensor[part] for tensor in (self.images, self.targets, self.rows, self.ids))
        return self._replace(images=images, targets=targets, rows=rows, ids=ids)


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


def _call_in_batches(explainer: Explainer, batch: ExplainedBatch) -> Tensor:
    """Call a user's function on small batches even on a GPU, because it may make many copies of each image."""
    parts = split_into_batches(batch.images)
    return explainer(batch) if len(parts) == 1 else torch.cat([explainer(batch.select_slice(part)) for part in parts])


@dataclass(frozen=True)
class Explainers:
    """Estimators by name; built-in estimators share the network's passes over noisy images."""

    names: tuple[str, ...]  # all estimators, in the order of the table
    built_in: Mapping[str, Estimator]
    functions: Mapping[str, Explainer]  # the caller's functions and arrays
    mean: Tensor  # channel means of the images, (c, 1, 1)
    black: Tensor  # smallest value of each channel, (c, 1, 1)

    @property
    def need_calling_thread(self) -> bool:
        """Return whether some maps may only be made in the calling thread, while no other thread works."""
        return bool(self.functions) or any(row.traces_network for row in self.built_in.values())

    def make_maps_in_calling_thread(
        self, batch: ExplainedBatch, guard: Callable[[nn.Module, str], AbstractContextManager[None]] | None = None
    ) -> Maps:
        """Make the maps of the caller's functions, and of built-in estimators that trace the network.

        Each function is called within `guard` of the network and the function's name.
        """
        traced = {name: row for name, row in self.built_in.items() if row.traces_network}
        maps_by_id = self._make_maps(traced.values(), batch)
        maps = {name: maps_by_id[row.id] for name, row in traced.items()}
        for name, explainer in self.functions.items():
            with guard(batch.model, name) if guard else nullcontext(), show_own_network(batch.model) as own:
                maps[name] = _call_in_batches(explainer, batch._replace(model=own))
        return maps

    def rank_features(self, batch: ExplainedBatch, finished: Maps, unit: Unit = Unit.SCALAR) -> Iterator[RankedMaps]:
        """Yield each image's ranked features for one estimator after another; CallerError for unusable maps.

        `batch.model` may be a copy of the network. `finished` is the result of `make_maps_in_calling_thread`; this
        method makes the maps of all other estimators.
        """
        unfinished = {name: row for name, row in self.built_in.items() if name not in finished}
        maps_by_id = self._make_maps(unfinished.values(), batch)
        release_freed_cpu_memory()  # other threads may need the memory of the passes
        c, h, w = batch.images.shape[1:]
        ties = draw_tie_order(batch.ids.numpy(), math.prod(unit.grid((c, h, w))))
        for name in self.names:
            maps = finished[name] if name in finished else maps_by_id[unfinished[name].id]
            try:
                check_finite_maps(maps, batch.rows)
                features = flatten_maps_of_images(batch.images, maps, unit)
                with reraise_as_caller_error():
                    ranked = rank(features, ties)
            except CallerError as error:
                raise CallerError(f"{name} for network {batch.number + 1}: {error}") from None
            ordered = torch.from_numpy(np.take_along_axis(features, ranked, 1))
            yield RankedMaps(ranked, compute_largest_tie_shares(ordered).tolist())

    def refuse_failing_estimators(self, batches: Sequence[ExplainedBatch], threads: ThreadedNetworks) -> None:
        """Make maps of a few images for every network, so that all failing estimators are reported at the start."""

        def try_batch(networks: Sequence[nn.Module], item: tuple[ExplainedBatch, Maps]) -> Exception | None:
            batch, finished_maps = item
            try:
                list(self.rank_features(batch.use_network_copy(networks), finished_maps))
            except (CallerError, RunError, RuntimeError) as error:
                return error
            return None

        finished = []
        for batch in batches:
            with self._report_all_failures(batch):
                finished.append(self.make_maps_in_calling_thread(batch, refuse_changes_of_network))
        for batch, error in zip(batches, threads.map(try_batch, zip(batches, finished, strict=True)), strict=True):
            with self._report_all_failures(batch):
                if error:
                    raise error

    @contextmanager
    def _report_all_failures(self, batch: ExplainedBatch) -> Iterator[None]:
        try:
            yield
        except (CallerError, RunError) as error:
            raise self._find_failing_estimators(batch) or error from None
        except RuntimeError as error:  # from torch
            if have_logits_gradient(batch.model, batch.images):
                raise
            cause = "its forward uses no_grad, inference_mode, detach or NumPy"
            remedy = "remove these, or use an estimator without gradients, such as 'occlusion'"
            seen = f"the logits of network {batch.number + 1} have no gradient, because {cause}"
            raise CallerError(f"{seen}; {remedy}") from error

    def _find_failing_estimators(self, batch: ExplainedBatch) -> CallerError | None:
        failures = {}
        for name, row in self.built_in.items():
            try:
                self._make_maps([row], batch)
            except (CallerError, RunError) as error:
                failures[name] = str(error)
        reasons = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
        message = f"network {batch.number + 1} cannot be explained by {reasons}"
        if len(failures) > 1 or "; leave " not in reasons:
            message += f"; leave out {', '.join(failures)}"
        return CallerError(message) if failures else None

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


def check_finite_maps(maps: Tensor, rows: Tensor) -> None:
    """Raise CallerError for NaN or infinity in the maps of the images `rows`."""
    if maps.ndim < 2 or len(maps) != len(rows):  # `rank_maps` reports a wrong shape
        return
    finite = maps.isfinite().flatten(1).all(1).cpu()
    if not finite.all():
        raise CallerError(f"the map of image {int(rows[~finite][0])} holds NaN or infinity; expected finite numbers")


class _NetworkOfCentredImages(nn.Module):
    """A network that takes images minus the channel means, so that 0 is the mean, as built-in estimators expect."""

    def __init__(self, model: nn.Module, mean: Tensor) -> None:
        super().__init__()
        self.model, self.mean = model, mean

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images + self.mean)
        return logits
