"""Make maps of any network by a built-in estimator, a function or a captum class, or take precomputed arrays."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.borrowed_networks import refuse_changes_of_network
from roarbench.api.inputs import move_to_model, to_tensor
from roarbench.api.network_checks_and_logits import split_into_batches
from roarbench.api.ranking_and_removal import check_map_shape, compute_image_seeds, rank_maps
from roarbench.api.submission_source import is_quantus_signature, read_signature
from roarbench.api.threaded_networks import ThreadedNetworks
from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError, RunError
from roarbench.common.process_settings import keep_freed_cpu_memory, release_freed_cpu_memory
from roarbench.common.text import describe_type, format_count
from roarbench.compute.network_checks import have_logits_gradient
from roarbench.compute.ranking import draw_tie_order
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import Maps, compute_importance_maps
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.map_input import Batch
from roarbench.submissions.adapters import adapt_captum, adapt_function, adapt_quantus

_TAKES = "(model, images, targets), a class of captum, an id such as 'ig', or arrays of maps, one for each network"


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

    def select_rows(self, part: slice) -> "ExplainedBatch":
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


Explainer = Callable[[ExplainedBatch], Tensor]  # maps (n, c, h, w), (n, 1, h, w) or (n, h, w)


def _call_in_batches(call: Explainer, batch: ExplainedBatch) -> Tensor:
    """Call a user's function in small batches even on a GPU, because it may pass many copies of each image."""
    parts = split_into_batches(batch.images)
    return call(batch) if len(parts) == 1 else torch.cat([call(batch.select_rows(part)) for part in parts])


@dataclass(frozen=True)
class Explainers:
    """Estimators by name; the built-in ones share the passes of noisy images through the network."""

    names: tuple[str, ...]  # all estimators, in the order of the table
    table: Mapping[str, Estimator]  # built-in estimators
    functions: Mapping[str, Explainer]  # the caller's functions and arrays
    mean: Tensor  # channel means of the images, (c, 1, 1)
    black: Tensor  # smallest value of each channel, (c, 1, 1)

    @property
    def need_calling_thread(self) -> bool:
        """Return whether some maps may only be made in the calling thread, while no other thread works."""
        return bool(self.functions) or any(row.traces_network for row in self.table.values())

    def make_maps_in_calling_thread(self, batch: ExplainedBatch) -> Maps:
        """Make the maps that need the calling thread: of the caller's functions, and of estimators that trace."""
        traced = {name: row for name, row in self.table.items() if row.traces_network}
        maps_by_id = self._make_maps(traced.values(), batch)
        maps = {name: maps_by_id[row.id] for name, row in traced.items()}
        return maps | {name: _call_in_batches(call, batch) for name, call in self.functions.items()}

    def rank_features(
        self, batch: ExplainedBatch, finished: Maps, unit: Unit = Unit.SCALAR
    ) -> Iterator[NDArray[np.int64]]:
        """Yield each image's ranked features for one estimator after another; CallerError for unusable maps.

        `batch.model` may be a copy of the network. `finished` is the result of `make_maps_in_calling_thread`; this
        method makes the maps of all other estimators.
        """
        table = {name: row for name, row in self.table.items() if name not in finished}
        maps_by_id = self._make_maps(table.values(), batch)
        release_freed_cpu_memory()  # other threads may need the memory of the passes
        c, h, w = batch.images.shape[1:]
        ties = draw_tie_order(batch.ids.numpy(), math.prod(unit.grid((c, h, w))))
        for name in self.names:
            maps = finished[name] if name in finished else maps_by_id[table[name].id]
            try:
                _check_finite(maps, batch.rows)
                ranked = rank_maps(batch.images, maps, 0, unit, ties)
            except CallerError as error:
                raise CallerError(f"{name} for network {batch.number + 1}: {error}") from None
            yield ranked

    def try_out(self, batches: Sequence[ExplainedBatch], threads: ThreadedNetworks) -> None:
        """Make maps of a few images for every network, so that all failing estimators are reported at the start."""

        def try_batch(networks: Sequence[nn.Module], item: tuple[ExplainedBatch, Maps]) -> Exception | None:
            try:
                list(self.rank_features(item[0].use_network_copy(networks), item[1]))
            except (CallerError, RunError, RuntimeError) as error:
                return error
            return None

        finished = []
        for batch in batches:
            unchanged = (
                refuse_changes_of_network(batch.model, ", ".join(self.functions)) if self.functions else nullcontext()
            )
            with unchanged, self._report_all_failures(batch):
                finished.append(self.make_maps_in_calling_thread(batch))
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
            seen = f"the logits of network {batch.number + 1} have no gradient, because its forward uses no_grad, "
            remedy = "remove these, or use an estimator without gradients, such as 'occlusion'"
            raise CallerError(f"{seen}inference_mode, detach or NumPy; {remedy}") from error

    def _find_failing_estimators(self, batch: ExplainedBatch) -> CallerError | None:
        faults = {}
        for name, row in self.table.items():
            try:
                self._make_maps([row], batch)
            except (CallerError, RunError) as error:
                faults[name] = str(error)
        why = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
        message = f"network {batch.number + 1} cannot be explained by {why}"
        if len(faults) > 1 or "; leave " not in why:
            message += f"; leave out {', '.join(faults)}"
        return CallerError(message) if faults else None

    def _make_maps(self, estimators: Iterable[Estimator], explained: ExplainedBatch) -> Maps:
        """Return maps by estimator id; estimators that trace get the network without `_NetworkOfCentredImages`."""
        rows = list({row.id: row for row in estimators}.values())
        mean = self.mean.to(explained.images)
        model, black = _NetworkOfCentredImages(explained.model, mean).eval(), self.black - self.mean
        batch = Batch(explained.images, explained.targets, explained.ids)
        centred = batch._replace(images=explained.images - mean)
        traced = [row for row in rows if row.traces_network]
        doubled = [row for row in rows if row.passes_baseline and row not in traced]
        single = [row for row in rows if row not in traced and row not in doubled]
        maps: Maps = {}
        if traced:
            maps |= compute_importance_maps(traced, explained.model, batch, self.black)
        if single:
            maps |= compute_importance_maps(single, model, centred, black)
        if doubled:
            # half of the images with their baselines need as much memory as all images alone
            middle = (len(explained.rows) + 1) // 2
            halves = [
                centred.select_rows(slice(start, start + middle)) for start in range(0, len(explained.rows), middle)
            ]
            made = [compute_importance_maps(doubled, model, half, black) for half in halves]
            maps |= {name: torch.cat([part[name] for part in made]) for name in made[0]}
        return maps


def read_explainers(estimators: Any, images: Tensor, networks: int, controls: Sequence[str] = ()) -> Explainers:
    """Read a caller's estimators, a mapping from names or a list of ids; `controls` come first in the result."""
    keep_freed_cpu_memory()  # this process makes the maps
    by_name = map_estimators_by_name(estimators)
    if not by_name:
        raise CallerError('there are no estimators; write {"ig": "ig", "mine": my_function}')
    if taken := [name for name in controls if by_name.get(name, name) is not name and by_name.get(name) != name]:
        raise CallerError(f"{taken[0]} is a control of this table; give your estimator another name")
    by_name = dict.fromkeys(controls) | {name: name for name in controls} | dict(by_name)
    if wrong := [name for name in by_name if not isinstance(name, str)]:
        raise CallerError(f"the name of an estimator is {wrong[0]!r}, expected a string")
    table, functions = {}, {}
    for name, estimator in by_name.items():
        if isinstance(estimator, str | Path) and Path(estimator).suffix == ".py":
            seen = f"{name} is the file {estimator}, and only rb.evaluate runs files (in the sandbox)"
            raise CallerError(f"{seen}; pass its function: from {Path(estimator).stem} import estimate")
        if isinstance(estimator, str):
            table[name] = _find_estimator_usable_without_suite(estimator)
        else:
            functions[name] = _make_explainer(name, estimator, images, networks)
    mean, black = images.mean((0, 2, 3)), images.amin((0, 2, 3))
    return Explainers(tuple(by_name), table, functions, mean[:, None, None], black[:, None, None])


def _check_finite(maps: Tensor, rows: Tensor) -> None:
    if maps.ndim < 2 or len(maps) != len(rows):  # `rank_maps` reports a wrong shape
        return
    finite = maps.isfinite().flatten(1).all(1).cpu()
    if not finite.all():
        raise CallerError(f"the map of image {int(rows[~finite][0])} holds NaN or infinity; expected finite numbers")


def map_estimators_by_name(estimators: Any) -> Mapping[str, Any]:
    """Return a mapping as it is, and ids as a mapping to themselves; CallerError for a function without a name."""
    if isinstance(estimators, Mapping):
        return estimators
    single = not isinstance(estimators, Iterable) or isinstance(estimators, str | Tensor | np.ndarray)
    listed = [estimators] if single else list(estimators)
    for estimator in listed:
        if not isinstance(estimator, str):
            raise CallerError(f'an estimator is {describe_type(estimator)} without a name; write {{"mine": …}}')
    return {name: name for name in listed}


def _find_estimator_usable_without_suite(name: str) -> Estimator:
    row = find_estimator(name)
    needs_labels = row.uses_ground_truth or row.uses_prediction
    if row.submitted or needs_labels or row.explained_variant != "trained" or not row.has_own_map:
        raise CallerError(f"'{name}' needs a suite; pass a function, or another id from `roarbench estimators`")
    return row


def _make_explainer(name: str, estimator: Any, images: Tensor, networks: int) -> Explainer:
    if isinstance(estimator, nn.Module):
        raise CallerError(f"{name} is the network {type(estimator).__name__}; expected a function of {_TAKES}")
    if callable(estimator):
        return _wrap_function(name, estimator)
    if isinstance(estimator, Sequence | np.ndarray | Tensor):
        return _wrap_arrays(name, estimator, images, networks)
    if hasattr(estimator, "attribute"):  # a captum object explains only the network that it was made with
        kind = type(estimator).__name__
        raise CallerError(f"{name} is an object of {kind} made for a single network; pass the class {kind}")
    raise CallerError(f"{name} is {describe_type(estimator)}; expected a function of {_TAKES}")


class _NetworkOfCentredImages(nn.Module):
    """A network that takes images minus the channel means, so that 0 is the mean, as built-in estimators expect."""

    def __init__(self, model: nn.Module, mean: Tensor) -> None:
        super().__init__()
        self.model, self.mean = model, mean

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images + self.mean)
        return logits


def _wrap_function(name: str, function: Callable[..., Any]) -> Explainer:
    """Wrap a function or class; its random generator is seeded by a batch's first image, equally for every network."""
    call = _adapt_by_signature(name, function)

    def explain(batch: ExplainedBatch) -> Tensor:
        generator = torch.Generator().manual_seed(int(batch.ids[0]))
        maps = call(batch.model, batch.images.clone(), batch.targets.clone(), generator)
        if not isinstance(maps, Tensor | np.ndarray):
            raise CallerError(f"{name} returned {describe_type(maps)}, expected a tensor or an array of maps")
        return to_tensor(maps, f"maps of {name}")

    return explain


def _adapt_by_signature(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (model, images, targets, generator) that calls `function` according to its signature."""
    if hasattr(getattr(function, "__self__", None), "attribute"):
        raise CallerError(f"{name} is bound to a captum object, which explains a single network; pass the class")
    signature, needed = read_signature(function)
    if isinstance(function, type) and hasattr(function, "attribute"):
        if needed > 1 or "attribution_method" in signature.parameters:  # NoiseTunnel
            remedy = "pass a function of the network that returns the object"
            raise CallerError(f"{name} needs more arguments than a network; {remedy}")
        return adapt_captum(function)
    if is_quantus_signature(signature):
        return adapt_quantus(function)
    if needed == 3:
        return adapt_function(function)
    if needed == 1:
        return adapt_captum(lambda model: _check_attribution(name, function(model)))
    if needed == 4:
        return function
    raise CallerError(f"{name} has {needed} arguments without a default; expected a function of {_TAKES}")


def _check_attribution(name: str, attribution: Any) -> Any:
    if not hasattr(attribution, "attribute"):
        seen = f"{name} takes only the network and returned {describe_type(attribution)}"
        raise CallerError(f"{seen}; expected an object with a method attribute(inputs, target), as in captum")
    return attribution


def _wrap_arrays(name: str, arrays: Any, images: Tensor, networks: int) -> Explainer:
    """Wrap precomputed maps; each network has one array with the maps of all images."""
    single = isinstance(arrays, np.ndarray | Tensor) and arrays.ndim < 5
    listed = [arrays] if single else list(arrays)  # one array may hold the maps of all networks, (networks, n, c, h, w)
    if len(listed) != networks:
        seen = f"{name} has {format_count(len(listed), 'array')} of maps"
        raise CallerError(f"{seen}, expected {networks}: one for each network")
    maps_by_network = [to_tensor(array, f"maps of {name}") for array in listed]
    for maps in maps_by_network:
        check_map_shape(f"the maps of {name}", tuple(maps.shape), tuple(images.shape))
        try:
            _check_finite(maps, torch.arange(len(images)))
        except CallerError as error:
            raise CallerError(f"{name}: {error}") from None
    return lambda batch: maps_by_network[batch.number][batch.rows]
