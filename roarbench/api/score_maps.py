"""Make maps batch by batch, and score networks on images without the features that the maps rank first or last."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.analysis.row_warnings import TIED
from roarbench.api.explainers import ExplainedBatch, Explainers, RankedMaps, make_batch_per_network
from roarbench.api.removal import FillFunction, RemovalSettings, mark_removed, warn_of_ties
from roarbench.api.threaded_networks import ThreadedNetworks, predict_degraded_images, split_into_batches
from roarbench.common.enums import Order
from roarbench.compute.degrade import degrade
from roarbench.estimators.compute_maps import Maps


class RemovalMeasure(NamedTuple):
    """Accuracy of the first network after a fill replaces features from one end of a ranking."""

    order: Order
    fill: str
    levels: tuple[float, ...]
    fill_images: FillFunction

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
    labels: Tensor  # true classes, int64 (n,), by which columns are scored
    columns: Sequence[RemovalMeasure] = ()

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
        batches = request.make_explained_batches(rows)
        return rows, [(batch, explainers.make_maps_in_calling_thread(batch)) for batch in batches]

    def score(networks: Sequence[nn.Module], prepared: _PreparedBatch) -> list[MapScores]:
        rows, explained = prepared
        ranked = [explainers.rank_features(batch.use_network_copy(networks), maps) for batch, maps in explained]
        # lazy: one estimator at a time
        return [_score_batch(request, networks, rankings, rows) for rankings in zip(*ranked, strict=True)]

    batches = request.split_into_batches()
    parts_by_estimator = zip(*threads.map(score, map(prepare, batches)), strict=True)
    positions = np.argsort(torch.cat(batches).numpy())
    return {
        name: _join_batches(parts, positions) for name, parts in zip(explainers.names, parts_by_estimator, strict=True)
    }


def _join_batches(parts: Sequence[MapScores], positions: NDArray[np.int64]) -> MapScores:
    """Join one estimator's scores of all batches; `positions` restores the order of the images."""
    columns = zip(*(part.correct for part in parts), strict=True)
    return MapScores(
        [np.concatenate(column, 1)[:, positions] for column in columns],
        np.concatenate([part.kept for part in parts], 3),
        any(part.masks_differ for part in parts),
        [share for part in parts for share in part.tied],
    )


def warn_of_tied_features(scores_by_name: Mapping[str, MapScores], explainers: Explainers) -> None:
    """Warn of maps in which most features have the same value."""
    shares = {name: float(np.mean(scores.tied)) for name, scores in scores_by_name.items()}
    controls = {name for name, row in explainers.built_in.items() if row.control}
    tied = [f"{name} ({share:.0%})" for name, share in shares.items() if share > TIED and name not in controls]
    if tied:
        warn_of_ties(f"the maps of {', '.join(tied)}")


def _score_batch(
    request: ScoringRequest, networks: Sequence[nn.Module], ranked_maps: Sequence[RankedMaps], rows: Tensor
) -> MapScores:
    """Score copies of the networks on a batch; `ranked_maps` has one estimator's maps for each explained network."""
    orders, tied = [maps.order for maps in ranked_maps], [share for maps in ranked_maps for share in maps.tied]
    correct = _compute_correctness_by_column(request, networks[0], orders[0], rows)
    if len(orders) == 1:
        none = np.zeros((len(networks), len(networks), len(request.own_removal.levels), 0), np.bool_)
        return MapScores(correct, none, False, tied)
    images, (order, levels) = request.pixels[rows], request.own_removal
    masks = [[mark_removed(ranking, images.shape, t, order) for t in levels] for ranking in orders]
    kept, masks_differ = _find_kept_under_each_mask(networks, masks, images, request.targets[rows], request.own_fill)
    return MapScores(correct, kept, masks_differ, tied)


def _compute_correctness_by_column(
    request: ScoringRequest, network: nn.Module, ranked: NDArray[np.int64], rows: Tensor
) -> list[NDArray[np.bool_]]:
    """Return the correctness of predictions, (levels, images), for each column."""
    if not request.columns:
        return []
    filled = [
        column.fill_images(rows, mark_removed(ranked, request.pixels.shape, t, column.order))
        for column in request.columns
        for t in column.levels
    ]
    predicted = predict_degraded_images(network, torch.cat(filled)).view(len(filled), len(rows))
    correct = (predicted == request.labels[rows]).numpy()
    return np.split(correct, np.cumsum([len(column.levels) for column in request.columns])[:-1])


def _find_kept_under_each_mask(
    models: Sequence[nn.Module], masks: Sequence[Sequence[Tensor]], images: Tensor, classes: Tensor, fill: Tensor
) -> tuple[NDArray[np.bool_], bool]:
    """Test whether each network keeps its predictions after removal by each network's map, at each level.

    Returns:
        bool (maps, networks, levels, images), and whether the masks of the networks differ. Equal masks add nothing to
        the gain, whatever the networks predict; so the networks are not run, and the array is False throughout.
    """
    if all(torch.equal(mask, first) for own in masks for mask, first in zip(own, masks[0], strict=True)):
        return np.zeros((len(masks), len(models), len(masks[0]), len(images)), np.bool_), False
    degraded = torch.cat([degrade(images, mask, fill) for own in masks for mask in own])
    shape = (len(masks), len(masks[0]), len(images))
    kept = [predict_degraded_images(model, degraded).view(shape) == classes for model in models]
    return torch.stack(kept, 1).numpy(), True
