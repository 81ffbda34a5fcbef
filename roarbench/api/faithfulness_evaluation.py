"""Evaluate the maps of one network without training: accuracy under removal, and own-network gain."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.explainers import Explained, Explainers, ask_networks, read_explainers
from roarbench.api.faithfulness_table import OWN, CheckTable
from roarbench.api.inputs import check_labels, read_images, read_labels
from roarbench.api.network_threads import NetworkThreads
from roarbench.api.own_network_table import (
    OwnNetworkTable,
    are_masks_equal,
    compute_own_network_table,
    find_agreed_images,
    score_under_all_masks,
)
from roarbench.api.primitives import bootstrap_means
from roarbench.api.removal import (
    Removal,
    Replace,
    check_model,
    compute_logits,
    list_networks,
    make_replacer,
    mark_removed,
    read_fill,
    set_evaluation_mode,
    split_into_batches,
)
from roarbench.enums import FEWEST_NETWORKS, OWN_NETWORK_LEVELS, Order
from roarbench.errors import CallerError
from roarbench.estimators.engine import Maps
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.stats.curves import POINTS, compute_area_weights

CHECK_LEVELS = (0.1, 0.3, 0.5)
CONTROLS = ("random", "sobel")


class _Column(NamedTuple):
    """One column: accuracy after features from one end of a ranking are replaced by a fill."""

    order: Order
    fill: str
    levels: tuple[float, ...]

    @property
    def title(self) -> str:
        return f"{self.order} {self.fill}"


def check(
    model: nn.Module,
    images: Any,
    labels: Any,
    estimators: Any,
    siblings: Sequence[nn.Module] = (),
    levels: Sequence[float] = CHECK_LEVELS,
    fills: Sequence[str] = ("mean", "linear"),
) -> CheckTable:
    """Evaluate maps of one trained network by several measures in one table, with two controls, without training.

    Maps are made once per estimator, for the class that the network predicts; maps of the siblings are made only for
    images on which all networks predict the same class. Fills other than `mean` are measured only at the middle level,
    because ROAD's fill costs several times as much as the network.

    Args:
        model: Any network that returns logits; it is used in evaluation mode.
        images: Float (n, c, h, w), normalised as for the network.
        labels: Integers (n,), the true classes.
        estimators: Estimators by name, as for `own_network_gain`; precomputed maps have one array per network.
        siblings: Two or more networks with the same classes and inputs; they add the column own-network gain.
        levels: Removal fractions, ascending in (0, 1].
        fills: Any of `mean`, `linear` (ROAD's) and the other fills of suites.

    Raises:
        CallerError: The arguments do not fit together.
    """
    pixels = read_images(images)
    classes = torch.from_numpy(read_labels(labels, len(pixels)))
    steps, models = Removal.read(Order.MORF, levels).levels, [*list_networks([model]), *list_networks(siblings)]
    if not fills or isinstance(fills, str):
        raise CallerError(f'fills are {fills!r}; write fills=("mean", "linear")')
    if len(models) == FEWEST_NETWORKS - 1:
        raise CallerError(f"there is 1 sibling, expected none or at least {FEWEST_NETWORKS - 1}")
    replace = {fill: make_replacer(pixels, fill) for fill in fills}
    columns = [_Column(order, fill, _levels_of(fill, steps)) for fill in fills for order in Order]
    explainers = read_explainers(estimators, pixels, len(models), CONTROLS)
    with set_evaluation_mode(models):
        networks = [check_model(each, pixels, _name(number)) for number, each in enumerate(models)]
        threads, logits = NetworkThreads.start(networks, pixels)
        check_labels(classes.numpy(), logits[0].shape[1])
        targets, agreed = logits[0].argmax(1), _mark_agreed(logits)
        request = _Request(networks, pixels, classes, targets, agreed, columns, replace)
        explainers.try_out(ask_networks(networks, pixels[:2], targets[:2], torch.arange(len(pixels))[:2]), threads)
        answers = _answers(request, explainers, threads)
    untouched = (targets == classes).numpy()
    return _table(answers, untouched, request)


def _name(number: int) -> str:
    return f"network {number + 1} (sibling {number})" if number else "the network"


def _levels_of(fill: str, levels: tuple[float, ...]) -> tuple[float, ...]:
    return levels if fill == "mean" else (levels[len(levels) // 2],)


def _mark_agreed(logits: Sequence[Tensor]) -> NDArray[np.bool_]:
    """Mark the images to which all networks assign the same class; none for a single network."""
    found = np.zeros(len(logits[0]), np.bool_)
    if len(logits) > 1:
        found[find_agreed_images(logits)[0].numpy()] = True
    return found


class _Request(NamedTuple):
    """Networks, images and columns by which an estimator's maps are evaluated."""

    networks: Sequence[nn.Module]
    pixels: Tensor
    labels: Tensor
    targets: Tensor  # the first network's predicted classes, int64 (n,)
    agreed: NDArray[np.bool_]
    columns: Sequence[_Column]
    replace: Mapping[str, Replace]

    def parts(self) -> list[Tensor]:
        """Divide the images into batches in which either all images or none are used for own-network gain."""
        groups = [torch.from_numpy(np.flatnonzero(marked)) for marked in (self.agreed, ~self.agreed)]
        return [rows[part] for rows in groups if len(rows) for part in split_into_batches(self.pixels[rows])]

    def explained(self, rows: Tensor) -> list[Explained]:
        """Return a batch for the explained network, and for its siblings if all networks agree on its images."""
        asked = self.networks if self.agreed[rows[0]] else self.networks[:1]
        return ask_networks(asked, self.pixels[rows], self.targets[rows], rows)


class _Answers(NamedTuple):
    """Correctness of the networks under one estimator's maps, the last two as lists over batches."""

    correct: dict[str, NDArray[np.bool_]]  # (levels, images), by column
    kept: list[NDArray[np.bool_]]  # (maps, networks, levels, agreed images)
    same: list[bool]  # True for batches in which all networks have the same masks


_Batch = tuple[Tensor, list[tuple[Explained, Maps]]]  # positions of images, and what each network explains


def _answers(request: _Request, explainers: Explainers, threads: NetworkThreads) -> dict[str, _Answers]:
    """Make the maps of all estimators batch by batch, and score the networks under them."""
    count, fill = len(request.pixels), read_fill(request.pixels, None)

    def prepare(rows: Tensor) -> _Batch:
        return rows, [(each, explainers.call_functions(each)) for each in request.explained(rows)]

    def work(networks: Sequence[nn.Module], batch: _Batch) -> tuple[Tensor, dict[str, _Answers]]:
        rows, explained = batch
        ranked = [explainers.rank(each.by(networks), called) for each, called in explained]
        return rows, {name: _score(request, networks, [each[name] for each in ranked], rows, fill) for name in names}

    def nothing() -> dict[str, NDArray[np.bool_]]:
        return {column.title: np.zeros((len(column.levels), count), np.bool_) for column in request.columns}

    names = explainers.names
    found = {name: _Answers(nothing(), [], []) for name in names}
    for rows, part in threads.map(work, map(prepare, request.parts())):
        for name, whole in found.items():
            for title, correct in part[name].correct.items():
                whole.correct[title][:, rows.numpy()] = correct
            whole.kept.extend(part[name].kept)
            whole.same.extend(part[name].same)
    return found


def _score(
    request: _Request, networks: Sequence[nn.Module], ranked: Sequence[NDArray[np.int64]], rows: Tensor, fill: Tensor
) -> _Answers:
    """Score copies of the networks on a batch; `ranked` has one estimator's ranking for each explained network."""
    shape, labels, answers = request.pixels.shape, request.labels[rows], _Answers({}, [], [])
    filled = [
        request.replace[column.fill](rows, mark_removed(ranked[0], shape, t, column.order))
        for column in request.columns
        for t in column.levels
    ]
    predicted = iter(compute_logits(networks[0], torch.cat(filled)).argmax(1).view(len(filled), len(rows)))
    for column in request.columns:
        answers.correct[column.title] = np.stack([(next(predicted) == labels).numpy() for _ in column.levels])
    if len(ranked) > 1:
        images, targets = request.pixels[rows], request.targets[rows]
        own = Removal.read(Order.MORF, OWN_NETWORK_LEVELS)
        masks = [own.masks(one, images.shape) for one in ranked]
        answers.kept.append(score_under_all_masks(networks, masks, images, targets, fill))
        answers.same.append(are_masks_equal(masks))
    return answers


def _table(answers: Mapping[str, _Answers], untouched: NDArray[np.bool_], request: _Request) -> CheckTable:
    """Compute gains over Random, paired over images, and own-network gains."""
    gains: dict[str, dict[str, Sample]] = {}
    levels = {column.title: column.levels for column in request.columns}
    fixed = {(column, CONTROLS[0]) for column in levels}
    for column in request.columns:
        weights = np.asarray(compute_area_weights((0.0, *column.levels)))
        areas = np.stack([weights @ np.vstack([untouched, each.correct[column.title]]) for each in answers.values()])
        over = (areas - areas[0]) * (POINTS if column.order is Order.LERF else -POINTS) + 0.0
        gains[column.title] = dict(zip(answers, bootstrap_means(over, Bootstrap()), strict=True))
    own = _own_table(answers, request) if request.agreed.any() else None
    if own:
        nothing = Sample(0.0, np.zeros(Bootstrap().resamples))
        gains[OWN] = {name: found.gain if found else nothing for name, found in own.gains.items()}
        levels[OWN] = own.levels
        fixed |= {(OWN, name) for name, found in own.gains.items() if found is None}
    return CheckTable(gains, levels, len(untouched), own, frozenset(fixed))


def _own_table(answers: Mapping[str, _Answers], request: _Request) -> OwnNetworkTable:
    kept = {name: None if all(each.same) else np.concatenate(each.kept, 3) for name, each in answers.items()}
    return compute_own_network_table(
        kept, len(request.networks), request.agreed, Removal.read(Order.MORF, OWN_NETWORK_LEVELS)
    )
