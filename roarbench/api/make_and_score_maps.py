"""Make maps batch by batch, and score networks on images without the features that the maps rank first or last."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.batched_inference import ThreadedNetworks, predict_degraded_images, split_into_batches
from roarbench.api.explainers import ExplainedBatch, Explainers, make_batch_per_network
from roarbench.api.ranking_and_removal import FillFunction, RemovalSettings, mark_removed
from roarbench.common.enums import Order
from roarbench.compute.degrade import degrade
from roarbench.estimators.compute_maps import Maps


class RemovalMeasure(NamedTuple):
    """Accuracy of the first network after features from one end of a ranking are replaced by a fill."""

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
    own: RemovalSettings  # removal of features for own-network gain
    fill: Tensor  # fill value for own-network gain, (c,)
    labels: Tensor | None = None  # true classes, int64 (n,); needed for columns
    columns: Sequence[RemovalMeasure] = ()
    replace: Mapping[str, FillFunction] = MappingProxyType({})  # fill function by name of a column's fill

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
    """Scores of the networks under one estimator's maps; `unchanged` and `same` have one entry per batch."""

    correct: dict[str, NDArray[np.bool_]]  # (levels, images), by column
    unchanged: list[NDArray[np.bool_]]  # True for kept predictions, (maps, networks, levels, agreed images)
    same: list[bool]  # True for batches in which all networks have the same masks

    @property
    def kept_predictions(self) -> NDArray[np.bool_] | None:
        """Return True for kept predictions, (maps, networks, levels, images); None if no masks differ."""
        return None if all(self.same) else np.concatenate(self.unchanged, 3)


# positions of images, and for each explained network its batch with the finished maps
_Batch = tuple[Tensor, list[tuple[ExplainedBatch, Maps]]]


def make_and_score_maps(
    request: ScoringRequest, explainers: Explainers, threads: ThreadedNetworks
) -> dict[str, MapScores]:
    """Make the maps of all estimators batch by batch; return the networks' scores by estimator name."""

    def prepare(rows: Tensor) -> _Batch:
        batches = request.make_explained_batches(rows)
        return rows, [(batch, explainers.make_maps_in_calling_thread(batch)) for batch in batches]

    def work(networks: Sequence[nn.Module], prepared: _Batch) -> tuple[Tensor, dict[str, MapScores]]:
        rows, explained = prepared
        ranked = (
            explainers.rank_features(batch.use_network_copy(networks), finished, request.own.unit)
            for batch, finished in explained
        )
        by_name = zip(names, zip(*ranked, strict=True), strict=True)  # lazy: one estimator at a time
        return rows, {name: _score_batch(request, networks, rankings, rows) for name, rankings in by_name}

    names, scores = explainers.names, dict[str, MapScores]()
    for name in names:
        shapes = {column.title: (len(column.levels), len(request.pixels)) for column in request.columns}
        scores[name] = MapScores({title: np.zeros(shape, np.bool_) for title, shape in shapes.items()}, [], [])
    batches = map(prepare, request.split_into_batches())
    for rows, part in threads.map(work, batches, explainers.need_calling_thread):
        for name, whole in scores.items():
            for title, correct in part[name].correct.items():
                whole.correct[title][:, rows.numpy()] = correct
            whole.unchanged.extend(part[name].unchanged)
            whole.same.extend(part[name].same)
    return scores


def _score_batch(
    request: ScoringRequest, networks: Sequence[nn.Module], ranked: Sequence[NDArray[np.int64]], rows: Tensor
) -> MapScores:
    """Score copies of the networks on a batch; `ranked` has one estimator's ranking for each explained network."""
    scores = MapScores(_compute_column_correctness(request, networks[0], ranked[0], rows), [], [])
    if len(ranked) > 1:
        images = request.pixels[rows]
        masks = [request.own.make_masks(ranking, images.shape) for ranking in ranked]
        unchanged, same = _find_kept_under_each_mask(networks, masks, images, request.targets[rows], request.fill)
        scores.unchanged.append(unchanged)
        scores.same.append(same)
    return scores


def _compute_column_correctness(
    request: ScoringRequest, network: nn.Module, ranked: NDArray[np.int64], rows: Tensor
) -> dict[str, NDArray[np.bool_]]:
    """Return the correctness of a network's predictions on a batch, (levels, images), by column."""
    if request.labels is None:
        return {}
    filled = [
        request.replace[column.fill](rows, mark_removed(ranked, request.pixels.shape, t, column.order))
        for column in request.columns
        for t in column.levels
    ]
    predicted = predict_degraded_images(network, torch.cat(filled)).view(len(filled), len(rows))
    correct = iter((predicted == request.labels[rows]).numpy())
    return {column.title: np.stack([next(correct) for _ in column.levels]) for column in request.columns}


def _find_kept_under_each_mask(
    models: Sequence[nn.Module], masks: Sequence[Sequence[Tensor]], images: Tensor, classes: Tensor, fill: Tensor
) -> tuple[NDArray[np.bool_], bool]:
    """Test whether each network keeps its predictions after removal by each network's map, at each level.

    Returns:
        bool (maps, networks, levels, images), and whether the masks of all networks are equal. If they are, these
        images add nothing to the gain, whatever the predictions are, so the networks are not run and everything is
        False.
    """
    if all(torch.equal(one, other) for own in masks for one, other in zip(own, masks[0], strict=True)):
        return np.zeros((len(masks), len(models), len(masks[0]), len(images)), np.bool_), True
    left = torch.cat([degrade(images, mask, fill) for own in masks for mask in own])
    shape = (len(masks), len(masks[0]), len(images))
    unchanged = [predict_degraded_images(model, left).view(shape) == classes for model in models]
    return torch.stack(unchanged, 1).numpy(), False
