"""Evaluate the maps of one network without training, by accuracy under removal and own-network gain, in one table."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.analysis.networks_at_chance import is_at_chance
from roarbench.api.batched_inference import ThreadedNetworks, refuse_nan_or_equal_logits
from roarbench.api.explainers import make_batch_per_network
from roarbench.api.inputs import check_labels, read_images, read_labels
from roarbench.api.make_and_score_maps import MapScores, RemovalMeasure, ScoringRequest, make_and_score_maps
from roarbench.api.own_network_gain_of_maps import (
    GainTable,
    OwnNetworkTable,
    find_agreed_images,
    make_own_network_table,
)
from roarbench.api.primitives import bootstrap_means
from roarbench.api.ranking_and_removal import RemovalSettings, make_image_filler, read_fill_value
from roarbench.api.read_explainers import read_explainers
from roarbench.api.user_networks import borrow_networks, check_and_wrap_network, read_several_networks
from roarbench.common.enums import FEWEST_NETWORKS, OWN_NETWORK_LEVELS, Order
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count, format_interval, format_percent_number
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.curves import POINTS, compute_trapezoid_weights
from roarbench.stats.verdicts import Verdict, judge_comparisons

if TYPE_CHECKING:
    import pandas

CHECK_LEVELS = (0.1, 0.3, 0.5)
CONTROLS = ("random", "sobel")
_FEWEST_FOR_WARNING = 20  # images; with fewer images, no warning says that the network is at chance
_MOST_PAIRS = 4  # pairs of rows that a sentence names
_OWN = "own network"


@dataclass(frozen=True, eq=False, repr=False)
class CheckTable(GainTable):
    """Gains of several estimators and two controls in several columns; positive is better in every column.

    Attributes:
        gains: Gains in points by column and name, with draws over images (own-network gain: over networks, too).
        levels: Removal fractions by column.
        images: Number of images.
        own_network: The own-network column as a separate table, with verdicts; None if `check` got no siblings.
        accuracy: The network's accuracy on the untouched images, in [0, 1].
    """

    gains: Mapping[str, Mapping[str, Sample]]
    levels: Mapping[str, tuple[float, ...]]
    images: int
    own_network: OwnNetworkTable | None = None
    # (column, name) pairs whose gain is 0 by construction
    fixed: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    accuracy: float = math.nan

    def gain(self, column: str, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; 0 without an interval if the gain is 0 by construction."""
        if (column, name) in self.fixed:
            return Estimate(0.0)
        return make_estimate(self.gains[column][name], Bootstrap().confidence)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator with its gain in each column; `intervals_to_dataframe` adds intervals."""
        import pandas

        gains = {column: [self.gain(column, name).value for name in self._names()] for column in self.gains}
        return pandas.DataFrame({"estimator": self._names(), **gains})

    def intervals_to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator and column: the gain and the ends of its 95 % interval."""
        import pandas

        return pandas.DataFrame(
            {"estimator": name, "column": column, **self.gain(column, name)._asdict()}
            for name in self._names()
            for column in self.gains
        ).rename(columns={"value": "gain"})

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table's cells as strings, headings first."""
        rows = ((name, *(format_interval(self.gain(column, name)) for column in self.gains)) for name in self._names())
        return [("estimator", *self.gains), *rows]

    def gains_by_panel(self) -> dict[str, dict[str, Estimate]]:
        """Return the gains by panel label and estimator; each column is a panel."""
        return {f"{column}, points": {name: self.gain(column, name) for name in self._names()} for column in self.gains}

    @property
    def leaders(self) -> dict[str, str | None]:
        """Return the estimator with the largest gain in each column; None if several estimators tie."""
        leaders_by_column: dict[str, str | None] = {}
        for column, rows in self.gains.items():
            best = max(row.value for row in rows.values())
            first, *tied = (name for name, row in rows.items() if row.value == best)
            leaders_by_column[column] = None if tied else first
        return leaders_by_column

    @property
    def reversed(self) -> list[tuple[str, str]]:
        """Return the pairs of rows whose order in one column is significantly reversed in another.

        The tests are paired; p values are adjusted over all pairs and columns, at a false discovery rate of 5 %.
        """
        pairs = list(combinations(self._names(), 2))
        comparisons = judge_comparisons(
            {(column, a, b): rows[a].subtract(rows[b]) for column, rows in self.gains.items() for a, b in pairs}
        )
        opposed = {Verdict.BETTER, Verdict.WORSE}
        return [pair for pair in pairs if opposed <= {comparisons[column, *pair].verdict for column in self.gains}]

    @property
    def disagreement(self) -> str:
        """Describe in one sentence the leader of each column, and the pairs whose order changes significantly."""
        clauses = [f"{name} leads {column}" for column, name in self.leaders.items() if name]
        if tied := [column for column, name in self.leaders.items() if not name]:
            clauses.append(f"no single row leads {' or '.join(tied)}")
        leads = ", ".join(clauses)
        pairs = self.reversed
        if not pairs:
            return f"{leads}; no pair of rows has significantly opposite orders in two columns."
        listed_pairs = ", ".join(f"{a} and {b}" for a, b in pairs[:_MOST_PAIRS])
        more = f" and {len(pairs) - _MOST_PAIRS} more" if len(pairs) > _MOST_PAIRS else ""
        count = format_count(len(pairs), "pair")
        return f"{leads}; {count} of rows with significantly opposite orders in two columns: {listed_pairs}{more}."

    @property
    def caption(self) -> str:
        """Describe the measure and the scope of its intervals."""
        levels = "; ".join(f"{column} at t = {', '.join(f'{t:g}' for t in ts)}" for column, ts in self.levels.items())
        accuracy = f", of which the network classifies {format_percent_number(self.accuracy)} % correctly"
        own = self.own_network
        agree = f" {_OWN}: the {own.images} images on which all {own.networks} networks agree." if own else ""
        return (
            f"{self.disagreement}\n{format_count(self.images, 'image')}{accuracy}; {levels}.\n"
            "Gain over Random in accuracy points, area over t; above 0 is better (morf: accuracy falls more than "
            f"Random's, lerf: less).{agree}\n"
            f"95 % intervals over images{f'; those of {_OWN} also over networks' if own else ''}."
        )

    def _names(self) -> list[str]:
        return list(next(iter(self.gains.values())))


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
    fill_functions = {fill: make_image_filler(pixels, fill) for fill in fills}
    middle = (steps[len(steps) // 2],)
    columns = [RemovalMeasure(order, fill, steps if fill == "mean" else middle) for fill in fills for order in Order]
    explainers = read_explainers(estimators, pixels, len(models), CONTROLS)
    with borrow_networks(models):
        names = ["the network", *(f"network {number + 1} (sibling {number})" for number in range(1, len(models)))]
        networks = [check_and_wrap_network(network, pixels, name) for network, name in zip(models, names, strict=True)]
        threads, logits = ThreadedNetworks.copy_and_compute_logits(networks, pixels)
        refuse_nan_or_equal_logits(logits)
        check_labels(classes.numpy(), logits[0].shape[1])
        targets = logits[0].argmax(1)
        correct = (targets == classes).numpy()
        _warn_if_at_chance(int(correct.sum()), len(correct), logits[0].shape[1])
        agreed = find_agreed_images(logits) if len(logits) > 1 else np.zeros(len(pixels), np.bool_)
        own_removal, own_fill = RemovalSettings.read(Order.MORF, OWN_NETWORK_LEVELS), read_fill_value(pixels, None)
        request = ScoringRequest(
            networks, pixels, targets, agreed, own_removal, own_fill, classes, columns, fill_functions
        )
        few = make_batch_per_network(networks, pixels[:2], targets[:2], torch.arange(len(pixels))[:2])
        explainers.try_out(few, threads)
        scores = make_and_score_maps(request, explainers, threads)
    return _make_check_table(scores, correct, request)


def _warn_if_at_chance(correct: int, total: int, classes: int) -> None:
    """Warn of a network that does not recognise the images; wrong preprocessing is the usual cause."""
    if total >= _FEWEST_FOR_WARNING and is_at_chance(correct, total, classes):
        seen = f"the network classifies {correct} of {total} images correctly, which is not significantly above chance"
        remedy = "check normalisation, labels and weights"
        warnings.warn(f"{seen} ({format_percent_number(1 / classes)} %); {remedy}", stacklevel=3)


def _make_check_table(
    scores_by_name: Mapping[str, MapScores], clean_correct: NDArray[np.bool_], request: ScoringRequest
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
    own = make_own_network_table(scores_by_name, request) if request.agreed.any() else None
    if own:
        zero = Sample(0.0, np.zeros(Bootstrap().resamples))
        gains[_OWN] = {name: own_gain.gain if own_gain else zero for name, own_gain in own.gains.items()}
        levels[_OWN] = own.levels
        fixed |= {(_OWN, name) for name, own_gain in own.gains.items() if own_gain is None}
    return CheckTable(gains, levels, len(clean_correct), own, frozenset(fixed), float(clean_correct.mean()))
