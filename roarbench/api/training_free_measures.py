"""Judge maps of a caller's networks without training: a check of one network, and own-network gain."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.array_checks import warn_of_misplaced_maps
from roarbench.api.check_table import CONTROLS, OWN, CheckTable
from roarbench.api.explainers import Explainers, make_batch_per_network
from roarbench.api.gain_tables import OwnNetworkTable
from roarbench.api.inputs import check_labels, is_table, read_images, read_labels, warn_caller
from roarbench.api.neutral_settings import use_neutral_settings
from roarbench.api.read_explainers import read_explainers
from roarbench.api.removal import make_image_filler, make_value_filler, read_levels, read_order
from roarbench.api.score_maps import (
    MapScores,
    RemovalMeasure,
    ScoringRequest,
    ThreadedNetworks,
    make_and_score_maps,
    warn_of_equal_maps,
    warn_of_tied_features,
)
from roarbench.api.sibling_checks import describe_reversed_channels, warn_of_unfit_siblings
from roarbench.api.user_networks import (
    borrow_networks,
    check_and_wrap_network,
    mark_agreed_images,
    read_networks,
    warn_if_at_chance,
    warn_of_single_class,
    warn_of_training_mode,
)
from roarbench.common.enums import FEWEST_NETWORKS, OWN_NETWORK_LEVELS, Order
from roarbench.common.errors import CallerError
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.stats.compute_board import Judge
from roarbench.stats.contrasts import Contrast, measure_means
from roarbench.stats.correctness_and_gain import POINTS, Correctness, compute_trapezoid_weights

CHECK_LEVELS = (0.1, 0.3, 0.5)
_TRIED = 16  # images for the trial of estimators, most of which explain only two


@use_neutral_settings
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
    because ROAD's fill costs several times as much as the network.

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

    Examples:
        The class is the brightness of the first pixel; the map marks this pixel:

        >>> labels = torch.arange(60) % 2
        >>> images = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0)) + labels[:, None, None, None]
        >>> weights = torch.linspace(0.001, 0.01, 16).index_fill(0, torch.tensor(0), 9.0)
        >>> model = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        >>> state = {"1.weight": torch.stack([-weights, weights]), "1.bias": torch.tensor([9.0, -9.0])}
        >>> _ = model.load_state_dict(state)
        >>> found = check(model, images, labels, {"mine": weights.view(1, 4, 4).expand(60, 4, 4)}, fills=["mean"])
        >>> found.leaders
        {'morf mean': 'mine', 'lerf mean': 'mine'}
    """
    pixels = read_images(images)
    classes = torch.from_numpy(read_labels(labels, len(pixels)))
    models = [model, *read_networks(siblings, "siblings", "[sibling_1, sibling_2]")]
    if len(models) == FEWEST_NETWORKS - 1:
        raise CallerError(f"there is 1 sibling, expected none or at least {FEWEST_NETWORKS - 1}")
    columns = _read_columns(pixels, levels, fills)
    own_levels = read_levels(OWN_NETWORK_LEVELS, pixels) if len(models) > 1 else ()
    controls = [name for name in CONTROLS if not (is_table(pixels) and find_estimator(name).uses_neighbouring_features)]
    explainers = read_explainers(estimators, pixels, len(models), controls)
    if explainers.arrays:
        warn_of_training_mode(models)
    with borrow_networks(models):
        networks, threads, logits = _wrap_and_run_networks(models, pixels)
        check_labels(classes.numpy(), logits[0].shape[1])
        targets = logits[0].argmax(1)
        correct = (targets == classes).numpy()
        at_chance = warn_if_at_chance(correct, classes.numpy(), logits[0].shape[1])
        if not at_chance and bool((classes != classes[0]).any()):
            warn_of_single_class(logits)
        warn_of_unfit_siblings(models, logits, classes.numpy())
        for line in describe_reversed_channels(networks[0], pixels, classes.numpy(), correct):
            warn_caller(line)
        agreed = mark_agreed_images(logits) if len(models) > 1 else np.zeros(len(pixels), np.bool_)
        own_removal = RemovalMeasure(Order.MORF, own_levels, make_value_filler(pixels, None))
        request = ScoringRequest(networks, pixels, targets, agreed, own_removal, classes, columns)
        scores, own = _explain_and_score(request, explainers, threads, logits)
    gains = _compute_gains_over_random(scores, correct, columns)
    column_levels = {column.title: column.levels for column in columns}
    if own:
        # a gain that is 0 by construction is compared with gains over the same images
        known = [own_gain.gain for own_gain in own.gains.values() if own_gain]
        zero = (known or [*gains[columns[0].title].values()])[0].scale(0.0)
        gains[OWN] = {name: own_gain.gain if own_gain else zero for name, own_gain in own.gains.items()}
        column_levels[OWN] = own.levels
    all_controls = frozenset(name for name, row in explainers.built_in.items() if row.control)
    at_chance_line = f"The {at_chance}, so no estimator leads." if at_chance else ""
    settings = (len(pixels), float(correct.mean()), own, all_controls, at_chance_line)
    return CheckTable(gains, column_levels, *settings)


@use_neutral_settings
def own_network_gain(
    networks: Sequence[nn.Module],
    images: Any,
    estimators: Any,
    *,
    order: str = "morf",
    levels: Sequence[float] = OWN_NETWORK_LEVELS,
    fill: Any = None,
) -> OwnNetworkTable:
    """Measure whether maps explain their own network rather than another network of the same classes.

    Each network is scored after features are removed by every network's map (docs/protocol.md). Effects of a mask on
    all networks cancel, as does the sensitivity of one network to all masks; a map made without the network has a
    gain of exactly 0.

    Args:
        networks: Three or more networks with the same inputs and classes; they return logits and are used in eval mode.
        images: Float (n, c, h, w), normalised as for the networks; a table has the shape (n, columns, 1, 1).
        estimators: Mapping from names to estimators: ids of built-in estimators, functions of (model, images, targets),
            captum classes, explanation functions for Quantus, or arrays of maps of all images, one per network. Maps
            are (n, c, h, w), (n, 1, h, w) or (n, h, w), larger = more important. A function gets the network itself;
            `model(images)` returns a tensor with a logit per class, even if the network has a single logit z (then -z/2
            and z/2) or returns an object with `logits`. Calls with more arguments return the network's own output.
            A function must not keep networks: one that subtracts earlier networks' maps has a high gain.
        order: `morf` removes the features that a map ranks first, `lerf` the features that it ranks last.
        levels: Removal fractions, ascending in (0, 1]; those that remove no feature, or all, are left out, with a
            warning.
        fill: Fill value (c,), on the scale of the images; the mean of these images' channels if None.

    Raises:
        CallerError: The arguments do not fit together, two networks have the same logits, or the networks agree on
            no image.

    Examples:
        Four networks read the class from four corners, and each map marks its network's corner:

        >>> labels = torch.arange(60) % 2
        >>> images = torch.rand(60, 1, 4, 4, generator=torch.Generator().manual_seed(0)) + labels[:, None, None, None]
        >>> def read_pixel(number):
        ...     network = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
        ...     weights = torch.linspace(0.001, 0.01, 16).index_fill(0, torch.tensor(number), 9.0)
        ...     state = {"1.weight": torch.stack([-weights, weights]), "1.bias": torch.tensor([9.0, -9.0])}
        ...     network.load_state_dict(state)
        ...     return network
        >>> def explain(model, inputs, targets):
        ...     return model[1].weight[1].view(1, 1, 4, 4).expand_as(inputs)
        >>> networks = [read_pixel(corner) for corner in (0, 3, 12, 15)]
        >>> rows = {"mine": explain, "search": "search(passes=2)", "centre": "centre"}
        >>> found = own_network_gain(networks, images, rows, levels=[0.05])
        >>> {name: verdict.value for name, verdict in found.verdicts.items()}
        {'mine': 'explains its network', 'search': 'control', 'centre': '0 by construction'}
    """
    pixels, models = read_images(images), read_networks(networks, "networks", "[model, sibling_1, sibling_2]")
    if len(models) < FEWEST_NETWORKS:
        raise CallerError(f"there are {len(models)} networks, expected {FEWEST_NETWORKS} or more; add siblings")
    explainers, fill_images = read_explainers(estimators, pixels, len(models)), make_value_filler(pixels, fill)
    removal = RemovalMeasure(read_order(order), read_levels(levels, pixels), fill_images)
    if explainers.arrays:
        warn_of_training_mode(models)
    with borrow_networks(models):
        wrapped, threads, logits = _wrap_and_run_networks(models, pixels)
        warn_of_single_class(logits)
        warn_of_unfit_siblings(models, logits)
        agreed, targets = mark_agreed_images(logits), logits[0].argmax(1)
        request = ScoringRequest(wrapped, pixels, targets, agreed, removal, labels=targets)
        _, table = _explain_and_score(request, explainers, threads, logits)
    assert table is not None, "the networks agree on an image"
    return table


def _read_columns(pixels: Tensor, levels: Any, fills: Any) -> list[RemovalMeasure]:
    """Return two columns for each fill: MoRF and LeRF."""
    steps = read_levels(levels, pixels)
    if fills is None:
        fills = ("mean",) if is_table(pixels) else ("mean", "linear")
    if not fills or isinstance(fills, str) or not isinstance(fills, Iterable):
        raise CallerError(f'fills are {fills!r}; write fills=("mean", "linear")')
    columns = []
    for fill in fills:
        fill_images = make_image_filler(pixels, fill)
        measured = steps if fill == "mean" else steps[len(steps) // 2 :][:1]
        columns += [RemovalMeasure(order, measured, fill_images, fill) for order in Order]
    return columns


def _wrap_and_run_networks(
    models: Sequence[nn.Module], pixels: Tensor
) -> tuple[list[nn.Module], ThreadedNetworks, list[Tensor]]:
    """Return checked networks with a logit per class, their copies for threads, and their logits for all images."""
    names = ["the network" if len(models) == 1 else f"network {number}" for number in range(1, len(models) + 1)]
    networks = [check_and_wrap_network(model, pixels, name) for model, name in zip(models, names, strict=True)]
    threads = ThreadedNetworks.copy_for_each_thread(networks, pixels)
    logits = threads.compute_logits(pixels)
    for number, own in enumerate(logits, 1):
        if (undefined := own.isnan().any(1)).any():
            seen = f"network {number} returns logits that are NaN for image {int(undefined.int().argmax())}"
            raise CallerError(f"{seen}; leave the image out, or make the network's logits finite")
    for (number, own), (other_number, other) in combinations(enumerate(logits, 1), 2):
        if torch.equal(own, other):
            seen = f"networks {number} and {other_number} return the same logits for all images"
            raise CallerError(f"{seen}; expected siblings with other weights")
    return networks, threads, logits


def _explain_and_score(
    request: ScoringRequest, explainers: Explainers, threads: ThreadedNetworks, logits: Sequence[Tensor]
) -> tuple[dict[str, MapScores], OwnNetworkTable | None]:
    """Return the networks' scores by estimator name, and own-network gains and verdicts, after a trial of estimators.

    `logits`, (n, classes) of each network, must be the same at the end. The trial prefers images on which the networks
    agree; there is no own-network gain if they agree on none. The gain compares the predictions that networks keep
    after removal by their own and by other maps.
    """
    explainers = explainers.protect(request.networks)
    few = torch.from_numpy(np.argsort(~request.agreed, kind="stable")[:_TRIED])
    batches = make_batch_per_network(request.networks, request.pixels[few], request.targets[few], few)
    explainers.refuse_failing_estimators(batches)
    arrays = {f"maps of {name}": maps for name, maps in explainers.arrays.items()}
    warn_of_misplaced_maps(arrays, [(network, request.pixels) for network in request.networks])
    passes = explainers.count_passes(batches[0].select(slice(2)))
    scores = make_and_score_maps(request, explainers, threads)
    threads.refuse_changed_logits(request.pixels, logits)
    warn_of_tied_features(scores, explainers)
    if not request.agreed.any():
        return scores, None
    warn_of_equal_maps(scores, explainers)
    ids = {name: f"row {number}" for number, name in enumerate(scores, 1)}
    searches = {ids[name]: search for name, search in explainers.searches.items()}
    judge = Judge.from_kept(
        Correctness(tuple(ids.values()), request.own.levels, {}, searches=searches),
        OWN_NETWORK if request.own.order is Order.MORF else OWN_NETWORK_LERF,
        {id_: scores[name].kept for name, id_ in ids.items() if scores[name].masks_differ},
        frozenset(id_ for name, id_ in ids.items() if not scores[name].masks_differ),
        {ids[name]: count for name, count in passes.items()},
    )
    images = int(request.agreed.sum()), len(request.agreed)
    return scores, OwnNetworkTable(judge, ids, len(request.networks), *images, passes)


def _compute_gains_over_random(
    scores_by_name: Mapping[str, MapScores], clean_correct: NDArray[np.bool_], columns: Sequence[RemovalMeasure]
) -> dict[str, dict[str, Contrast]]:
    """Compute gains by column and name, paired over images; `clean_correct` is for untouched images."""
    gains = {}
    for number, column in enumerate(columns):
        weights = np.asarray(compute_trapezoid_weights((0.0, *column.levels)))
        correct = [np.vstack([clean_correct, scores.correct[number]]) for scores in scores_by_name.values()]
        areas = np.stack([weights @ levels_and_images for levels_and_images in correct])
        over_random = (areas - areas[0]) * (POINTS if column.order is Order.LERF else -POINTS) + 0.0  # no -0.0
        gains[column.title] = dict(zip(scores_by_name, measure_means(over_random), strict=True))
    return gains
