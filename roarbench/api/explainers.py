"""Make importance maps of any network by a caller's estimators, and rank features by them."""

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.call_guard import CallGuard
from roarbench.api.inputs import move_to_model, warn_caller, warn_of_byte_values
from roarbench.api.map_checks import describe_unfit_maps
from roarbench.api.removal import compute_image_seeds, flatten_maps
from roarbench.api.user_networks import expose_unwrapped_network, find_own_network
from roarbench.common.device_settings import is_out_of_memory
from roarbench.common.errors import CallerError, RoarbenchError, RunError
from roarbench.common.process_settings import convert_exit_to_error, release_freed_cpu_memory
from roarbench.common.text import describe_error, list_some
from roarbench.compute.map_ranking import compute_largest_tie_shares
from roarbench.compute.network_checks import have_logits_gradient, list_modules_with_backward_hooks
from roarbench.compute.pass_counter import PassCounter
from roarbench.compute.ranking import draw_tie_order, rank
from roarbench.estimators.catalogue import count_passes
from roarbench.estimators.compute_maps import IMAGES_PER_PASS, Maps, compute_importance_maps
from roarbench.estimators.estimator import Batch, Estimator, Search
from roarbench.submissions.network_changes import compute_logits_and_gradients
from roarbench.submissions.submission_validation import are_equal_up_to_rounding

_HOOKS = "add hooks anew in each call: those that its first call left in the network were removed"
_EXPLAINED_PIXELS = 2**17  # pixels per batch of images to explain; larger batches are not faster on a CPU


class ExplainedBatch(NamedTuple):
    """A batch of images, and the network whose predictions on them are explained."""

    number: int  # the network's position among the explained networks
    model: nn.Module  # eval mode, returns logits
    images: Tensor  # float32 (n, c, h, w), in the network's input scale, on the network's device
    targets: Tensor  # int64 (n,), the classes to explain, on the same device
    rows: Tensor  # int64 (n,), positions among all images
    ids: Tensor  # int64 (n,), hash of each image's content; seeds the image's random numbers
    is_copied: bool = True  # whether a function gets copies of the images and targets

    def select(self, part: slice | list[int]) -> "ExplainedBatch":
        """Return a part of the batch, or its images in another order."""
        names = ("images", "targets", "rows", "ids")
        return self._replace(**{name: getattr(self, name)[part] for name in names})


def split_into_batches(pixels: Tensor, networks: Sequence[nn.Module] = ()) -> list[slice]:
    """Divide images into batches to explain; if all networks are on a GPU, batches are as large as in a suite.

    Batches for networks have two or more images, if there are as many: built-in estimators explain a single one twice.
    """
    size = max(1 + bool(networks), _EXPLAINED_PIXELS // pixels[0, 0].numel())
    if networks and all(map(is_on_gpu, networks)):
        size = max(size, min(IMAGES_PER_PASS, IMAGES_PER_PASS * 224**2 // pixels[0, 0].numel()))
    starts = [*range(0, max(1, len(pixels) - (size > 1)), size)]
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], len(pixels)], strict=True)]


def is_on_gpu(network: nn.Module) -> bool:
    return any(weights.is_cuda for weights in network.parameters())


def make_batch_per_network(
    networks: Sequence[nn.Module], images: Tensor, targets: Tensor, rows: Tensor
) -> list[ExplainedBatch]:
    """Return one `ExplainedBatch` per network: the same images, on the network's device."""
    ids, batches = compute_image_seeds(images), []
    for number, network in enumerate(networks):
        moved = move_to_model(network, images)
        batches.append(ExplainedBatch(number, network, moved, targets.to(moved.device), rows, ids))
    return batches


@contextmanager
def explain_failure(names: Sequence[str], batch: ExplainedBatch, guard: CallGuard | None = None) -> Iterator[None]:
    """Raise CallerError, with the original as its cause, for an exception of an estimator, a library or the network."""
    try:
        with convert_exit_to_error():
            yield
    except RoarbenchError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise
        if not have_logits_gradient(batch.model, batch.images):
            seen = "the network's logits have no gradient, because its forward uses no_grad, detach or NumPy"
            raise CallerError(f"{seen}; use an estimator without gradients, such as 'occlusion'") from error
        subject, remedy = list_some(names), f"correct it, or leave {list_some(names)} out"
        hooked = list_modules_with_backward_hooks(find_own_network(batch.model))
        if hooked and compute_logits_and_gradients(batch.model, batch.images)[1] is None:
            remedy = f"backward hooks of '{hooked[0]}' fail: remove them (of Opacus: by .to_standard_module())"
        if "torch.utils.checkpoint" in str(error) or "CheckpointError" in type(error).__name__:
            remedy = "the network recomputes activations; switch its gradient checkpointing off for evaluation"
        if "unexpected keyword argument 'inputs'" in str(error):  # (*args, **kwargs) has the form of Quantus' functions
            remedy = "write its parameters (model, images, targets), or decorate the wrapper with functools.wraps"
        if isinstance(error, IndexError) and find_own_network(batch.model) is not batch.model:
            remedy = "model(images) is its logits here, one per class; write model(images), without [0] or ['logits']"
        if guard is not None and guard.undone.intersection(names):
            remedy = f"correct it, or {_HOOKS}"
        raise CallerError(f"{subject} raised {describe_error(error)}; {remedy}") from error


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
    arrays: Mapping[str, Sequence[Tensor]]  # finished maps of each network; also in `functions`
    guard: CallGuard | None = None

    def make_maps_in_calling_thread(self, batch: ExplainedBatch) -> Maps:
        """Make the maps of the caller's functions, and of built-in estimators that trace the network."""
        traced = {name: row for name, row in self.built_in.items() if row.traces_network}
        with explain_failure(list(traced), batch):
            maps_by_id = self._make_maps(traced.values(), batch)
        maps = {name: maps_by_id[row.id] for name, row in traced.items()}
        for name in self.functions:
            # a batch may be large on a GPU, and a user's function may make many copies of each image
            parts = map(batch.select, split_into_batches(batch.images))
            with explain_failure([name], batch, self.guard):
                maps[name] = torch.cat([self._call_function(name, part) for part in parts])
        return maps

    def _call_function(
        self, name: str, batch: ExplainedBatch, watch: AbstractContextManager[None] | None = None
    ) -> Tensor:
        """Call a function, inside `watch` if that is given."""
        explainer = self.functions[name]
        guard: AbstractContextManager[None] = nullcontext()
        if self.guard is not None and name not in self.arrays:
            guard = self.guard.protect(name, batch.number, batch.images)
        with guard, expose_unwrapped_network(batch.model) as own, watch or nullcontext():
            return explainer(batch._replace(model=own))

    def protect(self, networks: Sequence[nn.Module]) -> Self:
        """Return these estimators, whose functions leave the networks and torch as they are now."""
        return replace(self, guard=CallGuard(list(map(find_own_network, networks))))

    def rank_features(self, batch: ExplainedBatch, finished: Maps) -> Iterator[RankedMaps]:
        """Yield each image's ranked features for one estimator after another; CallerError for unusable maps.

        `batch.model` may be a copy of the network. `finished` is the result of `make_maps_in_calling_thread`; this
        method makes the maps of all other estimators.
        """
        unfinished = {name: row for name, row in self.built_in.items() if name not in finished}
        with explain_failure(list(unfinished), batch):
            maps_by_id = self._make_maps(unfinished.values(), batch)
        release_freed_cpu_memory()  # other threads may need the memory of the passes
        ties = draw_tie_order(batch.ids.numpy(), math.prod(batch.images.shape[1:]))
        for name in self.names:
            maps = finished[name] if name in finished else maps_by_id[unfinished[name].id]
            features = flatten_maps(maps, tuple(batch.images.shape), f"the maps of {name}")
            ranked = rank(features, ties)
            ordered = torch.from_numpy(np.take_along_axis(features, ranked, 1))
            yield RankedMaps(ranked, compute_largest_tie_shares(ordered).tolist())

    @property
    def searches(self) -> dict[str, Search]:
        """Return the rows that are blind searches."""
        return {name: row.search for name, row in self.built_in.items() if row.search}

    def count_passes(self, batch: ExplainedBatch) -> dict[str, float | None]:
        """Return the forward and backward passes of an image's map by row; None if they are unknown, as for arrays.

        Those of built-in estimators are declared; those of functions are counted while they explain this batch a little
        brighter, by a share that the clock gives, because they may have kept the maps of all earlier images, also on
        disk. Nothing is counted without a search, with which rows of as many passes are compared.
        """
        if not self.searches:
            return {}
        features = math.prod(batch.images.shape[1:])
        passes: dict[str, float | None] = {
            name: None if row.cost_is_assumed else float(sum(count_passes([row], features)))
            for name, row in self.built_in.items()
        }
        passes |= dict.fromkeys(self.functions)
        brighter = 1e-3 * (1 + time.time() % 1) * batch.images.abs().max()
        batch = batch._replace(images=batch.images + brighter)
        for name in self.functions.keys() - self.arrays:
            counter = PassCounter(batch.model, batch.images[:1])
            with suppress(Exception):  # of a function that explains no other images
                self._call_function(name, batch, counter.count())
                if counted := counter.read_passes():
                    passes[name] = sum(counted) / len(batch.images)
        return passes

    def refuse_failing_estimators(self, batches: Sequence[ExplainedBatch]) -> None:
        """Make maps of two images for every network, so that all failing estimators are reported at the start.

        The other images are explained only by functions whose first two maps have the same value everywhere: a
        class-activation map without a positive part is 0. A warning names functions whose maps depend on the other
        images of a batch or on earlier calls, or are of another class than the target.
        """
        for batch in batches:
            failures, causes = [], []
            for name in self.names:
                try:
                    self._try_estimator(name, batch)
                except (CallerError, RunError) as error:
                    failures.append(f"{name}: {error}")
                    causes.append(error.__cause__ or error)
            if failures:
                seen = f"network {batch.number + 1} cannot be explained by {'; '.join(failures)}"
                raise CallerError(seen) from causes[0]
        for name in (name for name in self.functions if name not in self.arrays):
            fault = ""
            with suppress(Exception):  # a function may refuse the other images, which nobody passed
                fault = self._describe_fault(name, batches[0])
            if fault:
                warn_caller(f"an image's map by {name} {fault}")

    def _describe_fault(self, name: str, batch: ExplainedBatch) -> str:
        """Describe how a function's map depends on its batch or on earlier calls, or that it is of another class."""
        if len(batch.images) < 2:
            return ""
        # other images in the same range, with another mean and contrast
        mirrored = 1.5 * self.mean.to(batch.images) - 0.5 * batch.images[:2]
        # targets in no order, so that maps that are grouped or sorted by target come back at other places
        rows = torch.tensor([0, 1, 0])
        images = torch.cat([batch.images[:2], mirrored[:1]])
        targets = torch.tensor([1, 0, 1], device=batch.targets.device)
        # all calls get these two tensors themselves, so that maps that are kept by an object's id or address come back
        batch = batch._replace(images=images.clone(), targets=targets.clone(), rows=batch.rows[rows], is_copied=False)
        seeds = compute_image_seeds(images)

        def make_maps(
            images: Tensor, targets: Tensor, ids: Tensor = seeds, watch: AbstractContextManager[None] | None = None
        ) -> Tensor:
            batch.images.detach_().copy_(images)
            batch.images.grad = batch.images._backward_hooks = None
            batch.targets.copy_(targets)
            return self._call_function(name, batch._replace(ids=ids), watch)

        maps, so = make_maps(images, targets), "so the row is not about maps of single images"
        for row in (1, 0):
            others = torch.cat([mirrored, mirrored[1:] if row else images[:1]])
            others[row] = images[row]
            # the ids, and so the random numbers of the call, stay the same
            made = make_maps(others, torch.where(torch.arange(3, device=targets.device) == row, targets, 1 - targets))
            if are_equal_up_to_rounding(maps[row : row + 1], made[row : row + 1]):
                continue
            if are_equal_up_to_rounding(maps, make_maps(images, targets)):
                seen = f"depends on other images of its batch, or on their targets, {so}"
                return f"{seen}; explain each image on its own, for its own target"
            return f"differs from call to call, {so}; draw all random numbers from `generator`, and keep no state"
        # this batch has the first image twice, with one target; noise alone may make its two maps differ
        made = make_maps(others, targets)
        if not are_equal_up_to_rounding(made[:1], made[2:]):
            same = are_equal_up_to_rounding(made, make_maps(others, targets, seeds ^ 1))
            other_targets = make_maps(others, 1 - targets, seeds ^ 1)
            if same and (are_equal_up_to_rounding(made, maps) or are_equal_up_to_rounding(made, other_targets)):
                seen = f"depends on the image's place in its batch, or on an earlier batch of this size, {so}"
                return f"{seen}; explain each image on its own, for the given target, and keep no maps"
        return next(describe_unfit_maps(make_maps, maps, batch.model, images, targets), "")

    def _try_estimator(self, name: str, batch: ExplainedBatch) -> None:
        built_in = {name: self.built_in[name]} if name in self.built_in else {}
        functions = {name: self.functions[name]} if name in self.functions else {}
        alone = replace(self, names=(name,), built_in=built_in, functions=functions)
        for part in (slice(2), slice(2, None)):
            tried = batch.select(part)
            if not len(tried.images):
                break
            maps = alone.make_maps_in_calling_thread(tried)
            (ranked,) = alone.rank_features(tried, maps)
            if functions and batch.number == 0:
                warn_of_byte_values(f"maps of {name}", maps[name].detach().cpu().numpy())
            if functions and self.guard is not None and name in self.guard.undone and len(tried.images) == 2:
                again, swapped = (alone.make_maps_in_calling_thread(tried.select(at))[name] for at in ([0, 1], [1, 0]))
                if are_equal_up_to_rounding(again, maps[name]) and not are_equal_up_to_rounding(again, swapped.flip(0)):
                    raise CallerError(f"an image's map by {name} depends on its place in the batch; {_HOOKS}")
            if name in self.arrays or not functions or math.prod(batch.images.shape[1:]) == 1 or min(ranked.tied) < 1:
                return
        seen = f"every feature has the same importance in the maps of all {len(batch.images)} images tried"
        raise CallerError(f"{seen}; check what the function reads from the network, such as empty attentions")

    def _make_maps(self, estimators: Iterable[Estimator], explained: ExplainedBatch) -> Maps:
        """Return maps by estimator id; estimators that trace get the network without `_NetworkOfCentredImages`."""
        rows = list({row.id: row for row in estimators}.values())
        if not rows:
            return {}
        mean = self.mean.to(explained.images)
        model, black = _NetworkOfCentredImages(explained.model, mean), self.black - self.mean
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
            half = max(2, (count + 1) // 2)
            halves = [centred.select_rows(slice(start, start + half)) for start in range(0, count, half)]
            made = [compute_importance_maps(with_baseline, model, half_batch, black) for half_batch in halves]
            maps |= {name: torch.cat([part[name] for part in made]) for name in made[0]}
        return maps


class _NetworkOfCentredImages(nn.Module):
    """A network that takes images minus the channel means, so that 0 is the mean, as built-in estimators expect."""

    def __init__(self, model: nn.Module, mean: Tensor) -> None:
        super().__init__()
        self.training = False  # `eval` would switch the network, too, which a program of torch.export refuses
        self.model, self.mean = model, mean

    @property
    def lasting_network(self) -> nn.Module:
        """Return the network that remains when this wrapper is made anew for the next batch."""
        return self.model

    def forward(self, images: Tensor) -> Tensor:
        logits: Tensor = self.model(images + self.mean)
        return logits
