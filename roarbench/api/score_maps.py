"""Score networks on images whose features are removed by maps, in batches and threads."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.analysis.suite_judges import TIED
from roarbench.api.explainers import (
    ExplainedBatch,
    Explainers,
    RankedMaps,
    is_on_gpu,
    make_batch_per_network,
    split_into_batches,
)
from roarbench.api.inputs import move_to_model, warn_caller
from roarbench.api.removal import FillFunction, mark_removed, warn_of_constant_maps, warn_of_ties
from roarbench.common.device_settings import choose_fastest_float32_layout, is_out_of_memory
from roarbench.common.enums import Order
from roarbench.common.errors import CallerError
from roarbench.common.process_settings import convert_exit_to_error, release_freed_cpu_memory
from roarbench.common.text import describe_error, format_count
from roarbench.compute.external_networks import extract_logits
from roarbench.compute.network_checks import are_logits_equal
from roarbench.compute.prediction import choose_scoring_batch_size
from roarbench.estimators.compute_maps import Maps
from roarbench.estimators.network_copies import copy_for_threads, copy_frozen_sharing_weights

_SCORED_PIXELS = 4 * 224**2  # pixels per forward pass; larger batches are not faster on a CPU
_MOST_THREADS = 4  # each thread needs memory for the activations of a batch
_CHECKED = 4  # images whose logits are compared at the end

Item = TypeVar("Item")
Result = TypeVar("Result")


def compute_logits(model: nn.Module, images: Tensor) -> Tensor:
    """Compute logits, float32 (n, classes) on the CPU, in batches; the network stays in its mode (train or eval).

    On a CPU, the batches are about equally large; on a GPU, they are as large as in a suite.
    """
    count, logits = len(images), []
    if is_on_gpu(model):
        size = choose_scoring_batch_size(images.shape[3])
        batches = [images[start : start + size] for start in range(0, count, size)]
    else:
        number = min(max(1, count * images[0, 0].numel() // _SCORED_PIXELS), count)
        batches = [images[count * batch // number : count * (batch + 1) // number] for batch in range(number)]
    with torch.no_grad():  # in inference mode, a forward that computes a gradient, or starts threads, fails
        for batch in (move_to_model(model, batch) for batch in batches):
            layout = choose_fastest_float32_layout(batch.device)
            try:
                with convert_exit_to_error():
                    found = extract_logits(model(batch.contiguous(memory_format=layout)))
            except Exception as error:  # the user's network may raise anything, for example for batches of another size
                if is_out_of_memory(error):
                    raise
                seen = f"{type(model).__name__} raised {describe_error(error)} for {format_count(len(batch), 'image')}"
                raise CallerError(f"{seen}; its forward must take any number of images") from error
            logits.append(found.detach().cpu().float())
    return torch.cat(logits)


def predict_degraded_images(model: nn.Module, images: Tensor) -> Tensor:
    """Predict the classes of images without some features, int64 (n,) on the CPU; CallerError if logits are NaN."""
    logits = compute_logits(model, images)
    refuse_nan_logits(logits)
    return logits.argmax(1)


def refuse_nan_logits(logits: Tensor) -> None:
    """Raise CallerError for logits of degraded images that are NaN."""
    if logits.isnan().any():
        seen = "a network returns logits that are NaN after features are removed"
        raise CallerError(f"{seen}; pass smaller levels, or make the network's logits finite")


class ThreadedNetworks(NamedTuple):
    """Copies of networks for Python threads; on whole batches these are faster than torch threads in each convolution.

    Networks on a GPU, and networks that cannot be copied, are used without copies in the calling thread.
    """

    copies: Sequence[Sequence[nn.Module]]  # the networks of each thread

    @classmethod
    def copy_for_each_thread(cls, networks: Sequence[nn.Module], pixels: Tensor) -> "ThreadedNetworks":
        """Copy networks for as many threads as torch uses."""
        threads = min(torch.get_num_threads(), _MOST_THREADS)
        copies = [copy for network in networks if (copy := copy_for_threads(network, pixels[:2]))]
        if threads == 1 or len(copies) < len(networks):
            return cls([networks])
        return cls([copies, *(list(map(copy_frozen_sharing_weights, copies)) for _ in range(threads - 1))])

    def compute_logits(self, pixels: Tensor) -> list[Tensor]:
        """Compute each network's logits for all images, (n, classes)."""
        batches = [pixels[rows] for rows in split_into_batches(pixels, self.copies[0])]
        logits_by_batch = self.map(lambda networks, batch: [compute_logits(each, batch) for each in networks], batches)
        return [torch.cat(logits) for logits in zip(*logits_by_batch, strict=True)]

    def refuse_changed_logits(self, pixels: Tensor, logits: Sequence[Tensor]) -> None:
        """Raise CallerError if a network does not return these logits, (n, classes), for the last images alone."""
        for networks in self.copies:
            for number, (network, before) in enumerate(zip(networks, logits, strict=True), 1):
                if not are_logits_equal(before[-_CHECKED:], compute_logits(network, pixels[-_CHECKED:])):
                    seen = f"network {number} gives the same images other logits than at the start of this call"
                    cause = "its forward keeps a state, such as a counter, or depends on the number of images"
                    raise CallerError(f"{seen}; {cause}: remove this")

    def map(self, work: Callable[[Sequence[nn.Module], Item], Result], items: Iterable[Item]) -> Iterator[Result]:
        """Yield the results of `work(networks, item)` in the order of the items.

        While the calling thread takes items from the iterator, no other thread works, so the iterator may call
        functions that are not thread-safe. Callers enter `use_exact_eager_mode` beforehand; it holds for all threads.
        """
        count = len(self.copies)
        if count == 1:
            yield from (work(self.copies[0], item) for item in items)
            return
        torch_threads, remaining = torch.get_num_threads(), iter(items)
        try:
            with ThreadPoolExecutor(count, "networks", torch.set_num_threads, (torch_threads // count,)) as pool:
                while group := list(islice(remaining, count)):
                    release_freed_cpu_memory()
                    yield from list(pool.map(work, self.copies, group))
        finally:
            torch.set_num_threads(torch_threads)  # new threads of other pools take the number set most recently


class RemovalMeasure(NamedTuple):
    """Replacement of features from one end of a ranking by a fill."""

    order: Order
    levels: tuple[float, ...]
    fill_images: FillFunction
    fill: str = ""  # named in the title of a column

    @property
    def title(self) -> str:
        return f"{self.order} {self.fill}"


class ScoringRequest(NamedTuple):
    """Networks, images and measures by which an estimator's maps are evaluated."""

    networks: Sequence[nn.Module]
    pixels: Tensor
    targets: Tensor  # the first network's predicted classes, int64 (n,)
    agreed: NDArray[np.bool_]  # (n,), True if all networks predict one class; own-network gain uses only these images
    own: RemovalMeasure  # removal for own-network gain
    labels: Tensor  # true classes, int64 (n,), by which columns are scored
    columns: Sequence[RemovalMeasure] = ()  # by accuracy of the first network

    def split_into_batches(self) -> list[Tensor]:
        """Divide the images into batches in which either all images or none are used for own-network gain."""
        masks = (self.agreed, ~self.agreed) if self.columns else (self.agreed,)
        batches = []
        for rows in (torch.from_numpy(np.flatnonzero(mask)) for mask in masks if mask.any()):
            batches += [rows[part] for part in split_into_batches(self.pixels[rows], self.networks)]
        return batches


class MapScores(NamedTuple):
    """Scores of the networks under one estimator's maps of a batch, or of all images."""

    correct: list[NDArray[np.bool_]]  # (levels, images), for each column
    kept: NDArray[np.bool_]  # True for kept predictions, (maps, networks, levels, agreed images)
    masks_differ: bool  # False if all networks have the same masks; their predictions are not computed then
    tied: list[float]  # per map, the share of features with its most frequent value


# positions of images, and for each explained network its batch with the finished maps
_PreparedBatch = tuple[Tensor, list[tuple[ExplainedBatch, Maps]]]


def make_and_score_maps(
    request: ScoringRequest, explainers: Explainers, threads: ThreadedNetworks
) -> dict[str, MapScores]:
    """Make the maps of all estimators batch by batch; return the networks' scores by estimator name."""

    def prepare(rows: Tensor) -> _PreparedBatch:
        # images on which the networks do not agree are explained for the first network alone
        explained_networks = request.networks if request.agreed[rows[0]] else request.networks[:1]
        explained = make_batch_per_network(explained_networks, request.pixels[rows], request.targets[rows], rows)
        return rows, [(batch, explainers.make_maps_in_calling_thread(batch)) for batch in explained]

    def score(networks: Sequence[nn.Module], prepared: _PreparedBatch) -> list[MapScores]:
        rows, explained = prepared
        copies = [(batch._replace(model=networks[batch.number]), maps) for batch, maps in explained]
        ranked = [explainers.rank_features(batch, maps) for batch, maps in copies]
        # lazy: one estimator at a time
        return [_score_batch(request, networks, rankings, rows) for rankings in zip(*ranked, strict=True)]

    batches = request.split_into_batches()
    parts_by_estimator = zip(*threads.map(score, map(prepare, batches)), strict=True)
    positions, scores = np.argsort(torch.cat(batches).numpy()), dict[str, MapScores]()
    for name, parts in zip(explainers.names, parts_by_estimator, strict=True):
        columns = zip(*(part.correct for part in parts), strict=True)
        scores[name] = MapScores(
            [np.concatenate(column, 1)[:, positions] for column in columns],  # in the order of the images
            np.concatenate([part.kept for part in parts], 3),
            any(part.masks_differ for part in parts),
            [share for part in parts for share in part.tied],
        )
    return scores


def warn_of_tied_features(scores_by_name: Mapping[str, MapScores], explainers: Explainers) -> None:
    """Warn of maps in which most features have the same value, and of single constant maps of functions and arrays."""
    shares = {name: float(np.mean(scores.tied)) for name, scores in scores_by_name.items()}
    controls = {name for name, row in explainers.built_in.items() if row.control}
    tied = [f"{name} ({share:.0%})" for name, share in shares.items() if share > TIED and name not in controls]
    if tied:
        warn_of_ties(f"the maps of {', '.join(tied)}")
    for name in (name for name in explainers.functions if shares[name] <= TIED):
        warn_of_constant_maps(f"maps of {name}", scores_by_name[name].tied)


def warn_of_equal_maps(scores_by_name: Mapping[str, MapScores], explainers: Explainers) -> None:
    """Warn of the caller's functions and arrays whose maps rank features alike for all networks."""
    equal = [name for name in explainers.functions if not scores_by_name[name].masks_differ]
    remedies = ("explain the network that the function gets, not one from outside", "pass maps of each network")
    for are_arrays, remedy in enumerate(remedies):
        if names := [name for name in equal if (name in explainers.arrays) == are_arrays]:
            seen = f"the maps of {', '.join(names)} are the same for all networks, so own-network gain is 0"
            warn_caller(f"{seen}; unless this is meant, {remedy}")


def _score_batch(
    request: ScoringRequest, networks: Sequence[nn.Module], ranked_maps: Sequence[RankedMaps], rows: Tensor
) -> MapScores:
    """Score copies of the networks on a batch; `ranked_maps` has one estimator's maps for each explained network."""
    orders, tied = [maps.order for maps in ranked_maps], [share for maps in ranked_maps for share in maps.tied]
    own, shape, correct = request.own, request.pixels[rows].shape, list[NDArray[np.bool_]]()
    if request.columns:
        filled = [
            column.fill_images(rows, mark_removed(orders[0], shape, t, column.order))
            for column in request.columns
            for t in column.levels
        ]
        predicted = predict_degraded_images(networks[0], torch.cat(filled)).view(len(filled), len(rows))
        ends = np.cumsum([len(column.levels) for column in request.columns])[:-1]
        correct = np.split((predicted == request.labels[rows]).numpy(), ends)
    if len(orders) == 1:
        return MapScores(correct, np.zeros((len(networks), len(networks), len(own.levels), 0), np.bool_), False, tied)
    masks = [[mark_removed(ranking, shape, t, own.order) for t in own.levels] for ranking in orders]
    kept = np.zeros((len(orders), len(networks), len(own.levels), len(rows)), np.bool_)
    # equal masks add nothing to the gain, whatever the networks predict, so the networks are not run
    masks_differ = not all(
        torch.equal(mask, first) for each in masks for mask, first in zip(each, masks[0], strict=True)
    )
    if masks_differ:
        degraded = torch.cat([own.fill_images(rows, mask) for of_network in masks for mask in of_network])
        for number, network in enumerate(networks):
            predicted = predict_degraded_images(network, degraded).view(len(orders), len(own.levels), len(rows))
            kept[:, number] = (predicted == request.targets[rows]).numpy()
    return MapScores(correct, kept, masks_differ, tied)
