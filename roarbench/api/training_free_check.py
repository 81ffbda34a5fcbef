"""Evaluate the maps of one network without training: accuracy under removal, and own-network gain."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.analysis.networks_at_chance import is_at_chance
from roarbench.api.borrowed_networks import borrow_networks
from roarbench.api.check_table import OWN, CheckTable
from roarbench.api.explainers import make_batch_per_network, read_explainers
from roarbench.api.inputs import check_labels, read_images, read_labels
from roarbench.api.make_and_score_maps import MapScores, RemovalMeasure, ScoringRequest, make_and_score_maps
from roarbench.api.network_checks_and_logits import (
    check_and_wrap_network,
    check_logits_of_all_images,
    read_several_networks,
)
from roarbench.api.own_network_gain_of_maps import find_agreed_images, make_own_network_table
from roarbench.api.primitives import bootstrap_means
from roarbench.api.ranking_and_removal import RemovalSettings, make_image_filler, read_fill_value
from roarbench.api.threaded_networks import ThreadedNetworks
from roarbench.common.enums import FEWEST_NETWORKS, OWN_NETWORK_LEVELS, Order
from roarbench.common.errors import CallerError
from roarbench.common.text import format_percent_number
from roarbench.stats.bootstrap_intervals import Bootstrap, Sample
from roarbench.stats.curves import POINTS, compute_trapezoid_weights

CHECK_LEVELS = (0.1, 0.3, 0.5)
CONTROLS = ("random", "sobel")
_FEWEST = 20  # images below which no warning says that the network is at chance


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
    steps = RemovalSettings.read(Order.MORF, levels).levels
    models = [*read_several_networks([model]), *read_several_networks(siblings)]
    if not fills or isinstance(fills, str) or not isinstance(fills, Iterable):
        raise CallerError(f'fills are {fills!r}; write fills=("mean", "linear")')
    fills = tuple(fills)
    if len(models) == FEWEST_NETWORKS - 1:
        raise CallerError(f"there is 1 sibling, expected none or at least {FEWEST_NETWORKS - 1}")
    replace = {fill: make_image_filler(pixels, fill) for fill in fills}
    middle = (steps[len(steps) // 2],)
    columns = [RemovalMeasure(order, fill, steps if fill == "mean" else middle) for fill in fills for order in Order]
    explainers = read_explainers(estimators, pixels, len(models), CONTROLS)
    with borrow_networks(models):
        names = ["the network", *(f"network {number + 1} (sibling {number})" for number in range(1, len(models)))]
        networks = [check_and_wrap_network(network, pixels, name) for network, name in zip(models, names, strict=True)]
        threads, logits = ThreadedNetworks.start(networks, pixels)
        check_logits_of_all_images(logits)
        check_labels(classes.numpy(), logits[0].shape[1])
        targets = logits[0].argmax(1)
        correct = (targets == classes).numpy()
        _warn_if_at_chance(int(correct.sum()), len(correct), logits[0].shape[1])
        agreed = find_agreed_images(logits) if len(logits) > 1 else np.zeros(len(pixels), np.bool_)
        own, fill = RemovalSettings.read(Order.MORF, OWN_NETWORK_LEVELS), read_fill_value(pixels, None)
        request = ScoringRequest(networks, pixels, targets, agreed, own, fill, classes, columns, replace)
        few = make_batch_per_network(networks, pixels[:2], targets[:2], torch.arange(len(pixels))[:2])
        explainers.try_out(few, threads)
        scores = make_and_score_maps(request, explainers, threads)
    return _make_check_table(scores, correct, request)


def _warn_if_at_chance(correct: int, total: int, classes: int) -> None:
    """Warn of a network that does not recognise the images; their preprocessing is the usual cause."""
    if total >= _FEWEST and is_at_chance(correct, total, classes):
        seen = f"the network classifies {correct} of {total} images correctly, which is not significantly above chance"
        remedy = "check normalisation, labels and weights"
        warnings.warn(f"{seen} ({format_percent_number(1 / classes)} %); {remedy}", stacklevel=3)


def _make_check_table(
    scores_by_name: Mapping[str, MapScores], clean_correct: NDArray[np.bool_], request: ScoringRequest
) -> CheckTable:
    """Compute gains over Random, paired over images, and own-network gains; `clean_correct` is for intact images."""
    gains: dict[str, dict[str, Sample]] = {}
    levels = {column.title: column.levels for column in request.columns}
    fixed = {(column, CONTROLS[0]) for column in levels}
    for column in request.columns:
        weights = np.asarray(compute_trapezoid_weights((0.0, *column.levels)))
        correct = [np.vstack([clean_correct, scores.correct[column.title]]) for scores in scores_by_name.values()]
        areas = np.stack([weights @ levels_and_images for levels_and_images in correct])
        over = (areas - areas[0]) * (POINTS if column.order is Order.LERF else -POINTS) + 0.0
        gains[column.title] = dict(zip(scores_by_name, bootstrap_means(over, Bootstrap()), strict=True))
    own = make_own_network_table(scores_by_name, request) if request.agreed.any() else None
    if own:
        nothing = Sample(0.0, np.zeros(Bootstrap().resamples))
        gains[OWN] = {name: own_gain.gain if own_gain else nothing for name, own_gain in own.gains.items()}
        levels[OWN] = own.levels
        fixed |= {(OWN, name) for name, own_gain in own.gains.items() if own_gain is None}
    return CheckTable(gains, levels, len(clean_correct), own, frozenset(fixed), float(clean_correct.mean()))
