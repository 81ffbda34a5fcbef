"""Evaluate the maps of one network without training, by accuracy under removal and own-network gain, in one table."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.api.batched_inference import ThreadedNetworks, refuse_nan_or_duplicate_logits
from roarbench.api.chance_warning import warn_if_at_chance
from roarbench.api.check_table import CONTROLS, OWN, CheckTable
from roarbench.api.inputs import check_labels, is_table, read_images, read_labels
from roarbench.api.make_and_score_maps import (
    MapScores,
    RemovalMeasure,
    ScoringRequest,
    make_and_score_maps,
    warn_of_tied_features,
)
from roarbench.api.maps_of_explainers import make_batch_per_network
from roarbench.api.own_network_gain_of_maps import (
    find_agreed_images,
    make_own_network_table,
    warn_of_single_class,
)
from roarbench.api.primitives import bootstrap_means
from roarbench.api.ranking_and_removal import (
    RemovalSettings,
    leave_out_idle_levels,
    make_image_filler,
    read_fill_value,
)
from roarbench.api.read_explainers import read_explainers
from roarbench.api.user_networks import borrow_networks, check_and_wrap_network, read_networks
from roarbench.common.enums import FEWEST_NETWORKS, OWN_NETWORK_LEVELS, Order
from roarbench.common.errors import CallerError
from roarbench.common.text import name_item
from roarbench.estimators.catalogue import find_estimator
from roarbench.stats.bootstrap_intervals import Bootstrap, Sample
from roarbench.stats.correctness_and_gain import POINTS, compute_trapezoid_weights

CHECK_LEVELS = (0.1, 0.3, 0.5)


def check(
    model: nn.Module,
    images: Any,
    labels: Any,
    estimators: Any,
    siblings: Sequence[nn.Module] = (),
    levels: Sequence[float] = CHECK_LEVELS,
    fills: Sequence[str] | None = None,
) -> CheckTable:
    """Evaluate maps of one trained network by several measures in one table, with controls, without training.

    Maps are made once per estimator, for the class that the network predicts; maps of the siblings are made only for
    images on which all networks predict the same class. Fills other than `mean` are measured only at the middle level,
    because ROAD's fill costs several times as much as the network. Fewer than 10 images give no intervals, no leaders
    and no pairs in opposite orders.

    Args:
        model: Any network that returns logits; it is used in evaluation mode.
        images: Float (n, c, h, w), normalised as for the network; a table has the shape (n, columns, 1, 1).
        labels: Integers (n,), the true classes.
        estimators: Estimators by name, as for `own_network_gain`; precomputed maps have one array per network.
        siblings: Two or more networks with the same classes and inputs; they add the column own-network gain.
        levels: Removal fractions, ascending in (0, 1]; those that remove no feature, or all, are left out, with a
            warning.
        fills: Any of `mean`, `linear` (ROAD's) and the other fills of suites; by default these two, and `mean` alone
            for tables, whose columns have no neighbours.

    Raises:
        CallerError: The arguments do not fit together.
    """
    pixels = read_images(images)
    tabular = is_table(pixels)
    classes = torch.from_numpy(read_labels(labels, len(pixels)))
    steps = leave_out_idle_levels(RemovalSettings.read(Order.MORF, levels), pixels).levels
    models = [*read_networks([model]), *read_networks(siblings)]
    fills = (("mean",) if tabular else ("mean", "linear")) if fills is None else fills
    if not fills or isinstance(fills, str) or not isinstance(fills, Iterable):
        raise CallerError(f'fills are {fills!r}; write fills=("mean", "linear")')
    fills = tuple(fills)
    if len(models) == FEWEST_NETWORKS - 1:
        raise CallerError(f"there is 1 sibling, expected none or at least {FEWEST_NETWORKS - 1}")
    own_removal = RemovalSettings.read(Order.MORF, OWN_NETWORK_LEVELS)
    if len(models) > 1:
        own_removal = leave_out_idle_levels(own_removal, pixels)
    fill_functions = {fill: make_image_filler(pixels, fill) for fill in fills}
    middle = (steps[len(steps) // 2],)
    columns = [RemovalMeasure(order, fill, steps if fill == "mean" else middle) for fill in fills for order in Order]
    controls = [name for name in CONTROLS if not (tabular and find_estimator(name).uses_neighbours)]
    explainers = read_explainers(estimators, pixels, len(models), controls)
    with borrow_networks(models):
        names = ["the network", *(f"network {number + 1} (sibling {number})" for number in range(1, len(models)))]
        networks = [check_and_wrap_network(network, pixels, name) for network, name in zip(models, names, strict=True)]
        threads, logits = ThreadedNetworks.copy_and_compute_logits(networks, pixels)
        refuse_nan_or_duplicate_logits(logits)
        check_labels(classes.numpy(), logits[0].shape[1], given=labels)
        targets = logits[0].argmax(1)
        correct = (targets == classes).numpy()
        at_chance = warn_if_at_chance(correct, classes.numpy(), logits[0].shape[1], name_item(tabular))
        if not at_chance and bool((classes != classes[0]).any()):
            warn_of_single_class(logits, name_item(tabular))
        agreed = find_agreed_images(logits) if len(logits) > 1 else np.zeros(len(pixels), np.bool_)
        own_fill = read_fill_value(pixels, None)
        request = ScoringRequest(
            networks, pixels, targets, agreed, own_removal, own_fill, classes, columns, fill_functions
        )
        few = make_batch_per_network(networks, pixels[:2], targets[:2], torch.arange(len(pixels))[:2])
        explainers.refuse_failing_estimators(few, threads)
        scores = make_and_score_maps(request, explainers, threads)
    warn_of_tied_features(scores, explainers)
    built_in_controls = frozenset(name for name, row in explainers.built_in.items() if row.control)
    at_chance_line = f"The {at_chance}, so no estimator leads." if at_chance else ""
    return _make_check_table(scores, correct, request, built_in_controls, at_chance_line)


def _make_check_table(
    scores_by_name: Mapping[str, MapScores],
    clean_correct: NDArray[np.bool_],
    request: ScoringRequest,
    controls: frozenset[str],
    at_chance_warning: str,
) -> CheckTable:
    """Compute gains over Random, paired over images, and own-network gains; `clean_correct` is for untouched images."""
    gains: dict[str, dict[str, Sample]] = {}
    levels = {column.title: column.levels for column in request.columns}
    fixed = {(column, CONTROLS[0]) for column in levels}
    for column in request.columns:
        weights = np.asarray(compute_trapezoid_weights((0.0, *column.levels)))
        correct = [np.vstack([clean_correct, scores.correct[column.title]]) for scores in scores_by_name.values()]
        areas = np.stack([weights @ levels_and_images for levels_and_images in correct])
        over_random = (areas - areas[0]) * (POINTS if column.order is Order.LERF else -POINTS) + 0.0  # no -0.0
        gains[column.title] = dict(zip(scores_by_name, bootstrap_means(over_random, Bootstrap()), strict=True))
    changed = set[str]().union(*(scores.changed for scores in scores_by_name.values()))
    unchanged = [column.title for column in request.columns if column.title not in changed]
    own = make_own_network_table(scores_by_name, request) if request.agreed.any() else None
    if own:
        zero = Sample(0.0, np.zeros(Bootstrap().resamples))
        gains[OWN] = {name: own_gain.gain if own_gain else zero for name, own_gain in own.gains.items()}
        levels[OWN] = own.levels
        fixed |= {(OWN, name) for name, own_gain in own.gains.items() if own_gain is None}
        computed = [scores.kept for name, scores in scores_by_name.items() if own.gains[name] is not None]
        if computed and all(batch.all() for batches in computed for batch in batches):
            unchanged.append(OWN)
    accuracy = float(clean_correct.mean())
    return CheckTable(
        gains,
        levels,
        len(clean_correct),
        own,
        frozenset(fixed),
        controls,
        accuracy,
        tuple(unchanged),
        at_chance_warning,
        is_table(request.pixels),
    )
