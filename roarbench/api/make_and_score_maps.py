"""Make maps batch by batch, and score networks on images without the features that the maps rank first or last."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.analysis.row_warnings import TIED
from roarbench.api.batched_inference import ThreadedNetworks, predict_degraded_images, split_into_batches
from roarbench.api.maps_of_explainers import ExplainedBatch, Explainers, RankedMaps, make_batch_per_network
from roarbench.api.ranking_and_removal import FillFunction, RemovalSettings, mark_removed, warn_of_ties
from roarbench.common.enums import Order
from roarbench.compute.degrade import degrade
from roarbench.estimators.compute_maps import Maps


class RemovalMeasure(NamedTuple):
    """Accuracy of the first network after a fill replaces features from one end of a ranking."""

    order: Order
    fill: str
    levels: tuple[float, ...]

    @property
    def title(self) -> str:
        """Return the column's heading."""
        return f"{self.order} {self.fill}"


class ScoringRequest(NamedTuple):
    """Networks, images and measures by which an estimator's maps are evaluated."""

    networks: Sequence[nn.Module]
    pixels: Tensor
    targets: Tensor  # the first network's predicted classes, int64 (n,)
    agreed: NDArray[np.bool_]  # (n,), True if all networks predict one class; own-network gain uses only these images
    own_removal: RemovalSettings  # removal of features for own-network gain
    own_fill: Tensor  # fill value for own-network gain, (c,)
    labels: Tensor | None = None  # true classes, int64 (n,); needed for columns
    columns: Sequence[RemovalMeasure] = ()
    fill_functions: Mapping[str, FillFunction] = MappingProxyType({})  # by name of a column's fill

    def split_into_batches(self) -> list[Tensor]:
        """Divide the images into batches in which either all images or none are used for own-network gain."""
        masks = (self.agreed, ~self.agreed) if self.columns else (self.agreed,)
        batches = []
        for rows in (torch.from_numpy(np.flatnonzero(mask)) for mask in masks if mask.any()):
            batches += [rows[part] for part in split_into_batches(self.pixels[rows], self.networks)]
        return batches

    def make_explained_batches(self, rows: Tensor) -> list[ExplainedBatch]:
        """Return one batch for the first network, and one for each sibling if all networks agree on the images."""
        explained_networks = self.networks if self.agreed[rows[0]] else self.networks[:1]
        return make_batch_per_network(explained_networks, self.pixels[rows], self.targets[rows], rows)


class MapScores(NamedTuple):
    """Scores of the networks under one estimator's maps; `kept` and `equal_masks` have one entry per batch."""

    correct: dict[str, NDArray[np.bool_]]  # (levels, images), by column
    kept: list[NDArray[np.bool_]]  # True for kept predictions, (maps, networks, levels, agreed images)
    equal_masks: list[bool]  # True for batches in which all networks have the same masks
    changed: set[str]  # columns in which a removal changed a prediction
    tied: list[float]  # per map, the share of features with its most frequent value

    @property
    def kept_predictions(self) -> NDArray[np.bool_] | None:
        """Return `kept` of all batches, (maps, networks, levels, images); None if no masks differ."""
        return None if all(self.equal_masks) else np.concatenate(self.kept, 3)


# positions of images, and for each explained network its batch with the finished maps
_PreparedBatch = tuple[Tensor, list[tuple[ExplainedBatch, Maps]]]


def make_and_score_maps(
    request: ScoringRequest, explainers: Explainers, threads: ThreadedNetworks
) -> dict[str, MapScores]:
    """Make the maps of all estimators batch by batch; return the networks' scores by estimator name."""

    def prepare(rows: Tensor) -> _PreparedBatch:
        batches = request.make_explained_batches(rows)
        return rows, [(batch, explainers.make_maps_in_calling_thread(batch)) for batch in batches]

    def score(networks: Sequence[nn.Module], prepared: _PreparedBatch) -> tuple[Tensor, dict[str, MapScores]]:
        rows, explained = prepared
        ranked = (
            explainers.rank_features(batch.use_network_copy(networks), finished, request.own_removal.unit)
            for batch, finished in explained
        )
        by_name = zip(names, zip(*ranked, strict=True), strict=True)  # lazy: one estimator at a time
        return rows, {name: _score_batch(request, networks, rankings, rows) for name, rankings in by_name}

    names, scores = explainers.names, dict[str, MapScores]()
    for name in names:
        shapes = {column.title: (len(column.levels), len(request.pixels)) for column in request.columns}
        scores[name] = MapScores(
            {title: np.zeros(shape, np.bool_) for title, shape in shapes.items()}, [], [], set(), []
        )
    batches = map(prepare, request.split_into_batches())
    for rows, part in threads.map(score, batches, explainers.need_calling_thread):
        for name, whole in scores.items():
            for title, correct in part[name].correct.items():
                whole.correct[title][:, rows.numpy()] = correct
            whole.changed.update(part[name].changed)
            whole.tied.extend(part[name].tied)
            whole.kept.extend(part[name].kept)
            whole.equal_masks.extend(part[name].equal_masks)
    return scores


def warn_of_tied_features(scores_by_name: Mapping[str, MapScores], explainers: Explainers) -> None:
    """Warn, in the name of the caller's caller, of maps in which most features have the same value."""
    shares = {name: float(np.mean(scores.tied)) for name, scores in scores_by_name.items()}
    controls = {name for name, row in explainers.built_in.items() if row.control}
    tied = [f"{name} ({share:.0%})" for name, share in shares.items() if share > TIED and name not in controls]
    if tied:
        warn_of_ties(f"the maps of {', '.join(tied)}", stacklevel=4)


def _score_batch(
    request: ScoringRequest, networks: Sequence[nn.Module], ranked_maps: Sequence[RankedMaps], rows: Tensor
) -> MapScores:
    """Score copies of the networks on a batch; `ranked_maps` has one estimator's maps for each explained network."""
    ranked = [maps.order for maps in ranked_maps]
    correct, changed = _compute_correctness_by_column(request, networks[0], ranked[0], rows)
    scores = MapScores(correct, [], [], changed, [share for maps in ranked_maps for share in maps.tied])
    if len(ranked) > 1:
        images, (order, levels, unit) = request.pixels[rows], request.own_removal
        masks = [[mark_removed(ranking, images.shape, t, order, unit) for t in levels] for ranking in ranked]
        kept, equal_masks = _find_kept_under_each_mask(networks, masks, images, request.targets[rows], request.own_fill)
        scores.kept.append(kept)
        scores.equal_masks.append(equal_masks)
    return scores


def _compute_correctness_by_column(
    request: ScoringRequest, network: nn.Module, ranked: NDArray[np.int64], rows: Tensor
) -> tuple[dict[str, NDArray[np.bool_]], set[str]]:
    """Return the correctness of predictions, (levels, images), by column, and the columns with changed predictions."""
    if request.labels is None:
        return {}, set()
    filled = [
        request.fill_functions[column.fill](rows, mark_removed(ranked, request.pixels.shape, t, column.order))
        for column in request.columns
        for t in column.levels
    ]
    labels, targets = request.labels[rows], request.targets[rows]
    predicted = predict_degraded_images(network, torch.cat(filled)).view(len(filled), len(rows))
    parts = torch.split(predicted, [len(column.levels) for column in request.columns])
    by_title = dict(zip((column.title for column in request.columns), parts, strict=True))
    changed = {title for title, classes in by_title.items() if not torch.equal(classes, targets.expand_as(classes))}
    return {title: (classes == labels).numpy() for title, classes in by_title.items()}, changed


def _find_kept_under_each_mask(
    models: Sequence[nn.Module], masks: Sequence[Sequence[Tensor]], images: Tensor, classes: Tensor, fill: Tensor
) -> tuple[NDArray[np.bool_], bool]:
    """Test whether each network keeps its predictions after removal by each network's map, at each level.

    Returns:
        bool (maps, networks, levels, images), and whether the masks of all networks are equal. Equal masks add nothing
        to the gain, whatever the networks predict; so the networks are not run, and the array is False throughout.
    """
    if all(torch.equal(mask, first) for own in masks for mask, first in zip(own, masks[0], strict=True)):
        return np.zeros((len(masks), len(models), len(masks[0]), len(images)), np.bool_), True
    degraded = torch.cat([degrade(images, mask, fill) for own in masks for mask in own])
    shape = (len(masks), len(masks[0]), len(images))
    kept = [predict_degraded_images(model, degraded).view(shape) == classes for model in models]
    return torch.stack(kept, 1).numpy(), False
