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
from roarbench.api.network_threads import NetworkThreads
from roarbench.api.removal import check_map_shape, hash_images, rank_maps, split_into_batches
from roarbench.api.submission_source import is_quantus_signature, read_signature
from roarbench.compute.network_checks import have_logits_gradient
from roarbench.compute.ranking import draw_tie_order
from roarbench.devices import keep_freed_cpu_memory, release_freed_cpu_memory
from roarbench.enums import Unit
from roarbench.errors import CallerError, RunError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import Maps, compute_importance_maps
from roarbench.estimators.estimator import Batch, Estimator
from roarbench.submissions.adapters import adapt_captum, adapt_function, adapt_quantus
from roarbench.text import describe_type, format_count

_TAKES = "(model, images, targets), a class of captum, an id such as 'ig', or arrays of maps, one for each network"


class ExplainedBatch(NamedTuple):
    """A batch of images, and the network whose predictions on them are explained."""

    number: int  # the network's number
    model: nn.Module  # eval mode, returns logits
    images: Tensor  # float32 (n, c, h, w), in the network's input scale, on the network's device
    targets: Tensor  # int64 (n,), the classes to explain, on the same device
    rows: Tensor  # int64 (n,), positions among all images
    ids: Tensor  # int64 (n,), hash of each image's content; seeds the image's random numbers

    def replace_network(self, networks: Sequence[nn.Module]) -> "ExplainedBatch":
        """Return the batch with the explained network replaced by its copy in `networks`."""
        return self._replace(model=networks[self.number])

    def select_rows(self, part: slice) -> "ExplainedBatch":
        """Return the batch with some of its images."""
        images, targets, rows, ids = (tensor[part] for tensor in (self.images, self.targets, self.rows, self.ids))
        return self._replace(images=images, targets=targets, rows=rows, ids=ids)


def ask_networks(networks: Sequence[nn.Module], images: Tensor, targets: Tensor, rows: Tensor) -> list[ExplainedBatch]:
    """Return the same batch for each network to explain, on the network's device."""
    ids, there = hash_images(images), [move_to_model(network, images) for network in networks]
    return [
        ExplainedBatch(number, network, moved, targets.to(moved.device), rows, ids)
        for number, (network, moved) in enumerate(zip(networks, there, strict=True))
    ]


Explainer = Callable[[ExplainedBatch], Tensor]  # maps (n, c, h, w), (n, 1, h, w) or (n, h, w)


def _call_in_batches(call: Explainer, explained: ExplainedBatch) -> Tensor:
    """Call a function of the user with as few images on a GPU as on a CPU, because it may pass many copies of each."""
    parts = split_into_batches(explained.images)
    return call(explained) if len(parts) == 1 else torch.cat([call(explained.select_rows(part)) for part in parts])


@dataclass(frozen=True)
class Explainers:
    """Estimators by name; built-in estimators share the passes of noisy images through the network."""

    names: tuple[str, ...]
    table: Mapping[str, Estimator]
    functions: Mapping[str, Explainer]
    mean: Tensor  # channel means of the images, (c, 1, 1)
    black: Tensor  # smallest value of each channel, (c, 1, 1)

    @property
    def need_calling_thread(self) -> bool:
        """Return whether `call_functions` computes maps, which it may do only while no other thread works."""
        return bool(self.functions) or any(row.traces_network for row in self.table.values())

    def call_functions(self, explained: ExplainedBatch) -> Maps:
        """Compute the maps that may only be made in the calling thread: of the caller's functions and by tracing."""
        traced = {name: row for name, row in self.table.items() if row.traces_network}
        made = self._make_maps(traced.values(), explained)
        maps = {name: made[row.id] for name, row in traced.items()}
        return maps | {name: _call_in_batches(call, explained) for name, call in self.functions.items()}

    def rank(self, explained: ExplainedBatch, called: Maps, unit: Unit = Unit.SCALAR) -> Iterator[NDArray[np.int64]]:
        """Rank the features of the images by each estimator's map in turn; CallerError for unusable maps.

        The batch has the network or a copy of it. `called` is the result of `call_functions`; the maps of all other
        estimators are made here.
        """
        table = {name: row for name, row in self.table.items() if name not in called}
        made = self._make_maps(table.values(), explained)
        release_freed_cpu_memory()  # memory of the passes, which other threads may need
        c, h, w = explained.images.shape[1:]
        ties = draw_tie_order(explained.ids.numpy(), math.prod(unit.grid((c, h, w))))
        for name in self.names:
            maps = called[name] if name in called else made[table[name].id]
            try:
                _check_finite(maps, explained.rows)
                ranked = rank_maps(explained.images, maps, 0, unit, ties)
            except CallerError as error:
                raise CallerError(f"{name} for network {explained.number + 1}: {error}") from None
            yield ranked

    def try_out(self, batches: Sequence[ExplainedBatch], threads: NetworkThreads) -> None:
        """Compute maps of a few images for every network, to find failures before minutes of work.

        A CallerError names all estimators that cannot explain one of the networks.
        """

        def try_batch(networks: Sequence[nn.Module], item: tuple[ExplainedBatch, Maps]) -> Exception | None:
            try:
                for _ in self.rank(item[0].replace_network(networks), item[1]):
                    pass
            except (CallerError, RunError, RuntimeError) as error:
                return error
            return None

        called = []
        for batch in batches:
            unchanged = (
                refuse_changes_of_network(batch.model, ", ".join(self.functions)) if self.functions else nullcontext()
            )
            with unchanged, self._report_all_failures(batch):
                called.append(self.call_functions(batch))
        for batch, error in zip(batches, threads.map(try_batch, zip(batches, called, strict=True)), strict=True):
            with self._report_all_failures(batch):
                if error:
                    raise error

    @contextmanager
    def _report_all_failures(self, explained: ExplainedBatch) -> Iterator[None]:
        try:
            yield
        except (CallerError, RunError) as error:
            raise self._find_failures(explained) or error from None
        except RuntimeError as error:  # from torch
            if have_logits_gradient(explained.model, explained.images):
                raise
            seen = f"the logits of network {explained.number + 1} have no gradient, because its forward uses no_grad, "
            remedy = "remove these, or use an estimator without gradients, such as 'occlusion'"
            raise CallerError(f"{seen}inference_mode, detach or NumPy; {remedy}") from error

    def _find_failures(self, explained: ExplainedBatch) -> CallerError | None:
        """Return one error for all built-in estimators that cannot explain a network; None without failures."""
        faults = {}
        for name, row in self.table.items():
            try:
                self._make_maps([row], explained)
            except (CallerError, RunError) as error:
                faults[name] = str(error)
        why = "; ".join(f"{name}: {fault}" for name, fault in faults.items())
        message = f"network {explained.number + 1} cannot be explained by {why}"
        if len(faults) > 1 or not why.endswith(" out"):
            message += f"; leave out {', '.join(faults)}"
        return CallerError(message) if faults else None

    def _make_maps(self, estimators: Iterable[Estimator], explained: ExplainedBatch) -> Maps:
        """Make maps by id; for estimators that trace the network, it has no `_Centred` wrapper."""
        rows = list({row.id: row for row in estimators}.values())
        traced = [row for row in rows if row.traces_network]
        batch = Batch(explained.images, explained.targets, explained.ids)
        maps: Maps = {}
        if traced:
            maps |= compute_importance_maps(traced, explained.model, batch, self.black)
        if centred := [row for row in rows if row not in traced]:
            mean = self.mean.to(explained.images)
            batch, model = batch._replace(images=explained.images - mean), _Centred(explained.model, mean).eval()
            black = self.black - self.mean
            # beside their baselines, half of the images take as much memory
            doubled = [row for row in centred if row.passes_baseline]
            if undoubled := [row for row in centred if row not in doubled]:
                maps |= compute_importance_maps(undoubled, model, batch, black)
            if doubled:
                middle = (len(explained.rows) + 1) // 2
                parts = [
                    batch.select_rows(slice(start, start + middle)) for start in range(0, len(explained.rows), middle)
                ]
                made = [compute_importance_maps(doubled, model, part, black) for part in parts]
                maps |= {name: torch.cat([part[name] for part in made]) for name in made[0]}
        return maps


def read_explainers(given: Any, images: Tensor, networks: int, controls: Sequence[str] = ()) -> Explainers:
    """Read a caller's estimators: a mapping from names, or a list of built-in ids; the table's controls come first."""
    keep_freed_cpu_memory()  # this process makes the maps
    listed = [given] if isinstance(given, str) else given
    by_name = listed if isinstance(listed, Mapping) else _name_ids(listed)
    if not by_name:
        raise CallerError('there are no estimators; write {"ig": "ig", "mine": my_function}')
    if taken := [name for name in controls if by_name.get(name, name) is not name and by_name.get(name) != name]:
        raise CallerError(f"{taken[0]} is a control of this table; give your estimator another name")
    by_name = dict.fromkeys(controls) | {name: name for name in controls} | dict(by_name)
    if wrong := [name for name in by_name if not isinstance(name, str)]:
        raise CallerError(f"the name of an estimator is {wrong[0]!r}, expected a string")
    for name, one in by_name.items():
        if isinstance(one, str | Path) and Path(one).suffix == ".py":
            seen = f"{name} is the file {one}, and only rb.evaluate runs files (in the sandbox)"
            raise CallerError(f"{seen}; pass its function: from {Path(one).stem} import estimate")
    table = {name: _find_estimator_or_control(one) for name, one in by_name.items() if isinstance(one, str)}
    functions = {
        name: _read_explainer(name, one, images, networks) for name, one in by_name.items() if name not in table
    }
    mean, black = images.mean((0, 2, 3)), images.amin((0, 2, 3))
    return Explainers(tuple(by_name), table, functions, mean[:, None, None], black[:, None, None])


def _check_finite(maps: Tensor, rows: Tensor) -> None:
    if maps.ndim < 2 or len(maps) != len(rows):  # `rank_maps` reports the shape
        return
    finite = maps.isfinite().flatten(1).all(1).cpu()
    if not finite.all():
        raise CallerError(f"the map of image {int(rows[~finite][0])} holds NaN or infinity; expected finite numbers")


def _name_ids(given: Any) -> dict[str, str]:
    """Use the ids of built-in estimators as their names; CallerError for objects without a name."""
    if not isinstance(given, Iterable) or isinstance(given, Tensor | np.ndarray):
        given = [given]
    for one in (listed := list(given)):
        if not isinstance(one, str):
            raise CallerError(f'an estimator is {describe_type(one)} without a name; write {{"mine": …}}')
    return {name: name for name in listed}


def _find_estimator_or_control(name: str) -> Estimator:
    row = find_estimator(name)
    if (
        row.submitted
        or row.uses_ground_truth
        or row.uses_prediction
        or row.explained_variant != "trained"
        or not row.has_own_map
    ):
        raise CallerError(f"'{name}' needs a suite; pass a function, or another id from `roarbench estimators`")
    return row


def _read_explainer(name: str, given: Any, images: Tensor, networks: int) -> Explainer:
    if isinstance(given, nn.Module):
        raise CallerError(f"{name} is the network {type(given).__name__}; expected a function of {_TAKES}")
    if callable(given):
        return _wrap_function(name, given)
    if isinstance(given, Sequence | np.ndarray | Tensor):
        return _wrap_arrays(name, given, images, networks)
    if hasattr(given, "attribute"):  # a captum object explains only the network that it was made with
        kind = type(given).__name__
        raise CallerError(f"{name} is an object of {kind} made for a single network; pass the class {kind}")
    raise CallerError(f"{name} is {describe_type(given)}; expected a function of {_TAKES}")


class _Centred(nn.Module):
    """A network that takes images minus the channel means, so that 0 is the mean, as built-in estimators expect."""

    def __init__(self, model: nn.Module, mean: Tensor) -> None:
        super().__init__()
        self.model, self.mean = model, mean

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images + self.mean)
        return logits


def _wrap_function(name: str, given: Callable[..., Any]) -> Explainer:
    """Wrap a function or class; its random generator is seeded by a batch's first image, equally for every network."""
    call = _adapt_function(name, given)

    def explain(explained: ExplainedBatch) -> Tensor:
        generator = torch.Generator().manual_seed(int(explained.ids[0]))
        maps = call(explained.model, explained.images.clone(), explained.targets.clone(), generator)
        if not isinstance(maps, Tensor | np.ndarray):
            raise CallerError(f"{name} returned {describe_type(maps)}, expected a tensor or an array of maps")
        return to_tensor(maps, f"maps of {name}")

    return explain


def _adapt_function(name: str, given: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of (model, images, targets, generator) that calls the given one according to its signature."""
    if hasattr(getattr(given, "__self__", None), "attribute"):
        raise CallerError(f"{name} is bound to a captum object, which explains a single network; pass the class")
    signature, needed = read_signature(given)
    if isinstance(given, type) and hasattr(given, "attribute"):
        if needed > 1 or "attribution_method" in signature.parameters:  # NoiseTunnel
            remedy = "pass a function of the network that returns the object"
            raise CallerError(f"{name} needs more arguments than a network; {remedy}")
        return adapt_captum(given)
    if is_quantus_signature(signature):
        return _adapt_quantus(name, given)
    if needed == 3:
        return adapt_function(given)
    if needed == 1:
        return adapt_captum(lambda model: _adapt_attribute(name, given(model)))
    if needed == 4:
        return given
    raise CallerError(f"{name} has {needed} arguments without a default; expected a function of {_TAKES}")


def _adapt_quantus(name: str, given: Callable[..., Any]) -> Callable[..., Any]:
    """Adapt a function for Quantus; errors get a note on arrays, because a function of tensors may have its names."""
    call = adapt_quantus(given)

    def estimate(*inputs: Any) -> Any:
        try:
            return call(*inputs)
        except (AttributeError, TypeError) as error:
            seen = f"{name} has the parameters of a function for Quantus, so its inputs are NumPy arrays"
            error.add_note(f"{seen}; without **kwargs they are tensors")
            raise

    return estimate


def _adapt_attribute(name: str, made: Any) -> Any:
    if not hasattr(made, "attribute"):
        seen = f"{name} takes only the network and returned {describe_type(made)}"
        raise CallerError(f"{seen}; expected an object with a method attribute(inputs, target), as in captum")
    return made


def _wrap_arrays(name: str, given: Any, images: Tensor, networks: int) -> Explainer:
    """Wrap precomputed maps: one array per network, of all images."""
    single = isinstance(given, np.ndarray | Tensor) and given.ndim < 5
    listed = [given] if single else list(given)  # one array may hold the maps of all networks, (networks, n, c, h, w)
    if len(listed) != networks:
        seen = f"{name} has {format_count(len(listed), 'array')} of maps"
        raise CallerError(f"{seen}, expected {networks}: one for each network")
    made = [to_tensor(one, f"maps of {name}") for one in listed]
    for one in made:
        check_map_shape(f"the maps of {name}", tuple(one.shape), tuple(images.shape))
        try:
            _check_finite(one, torch.arange(len(images)))
        except CallerError as error:
            raise CallerError(f"{name}: {error}") from None
    return lambda explained: made[explained.number][explained.rows]
