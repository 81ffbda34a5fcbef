"""Evaluate the maps of one network without training, by accuracy under removal and own-network gain, in one table."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from roarbench.analysis.networks_at_chance import compute_largest_class_share, describe_chance, is_at_chance
from roarbench.api.batched_inference import ThreadedNetworks, refuse_nan_or_duplicate_logits
from roarbench.api.inputs import check_labels, is_table, name_item, read_images, read_labels
from roarbench.api.make_and_score_maps import (
    MapScores,
    RemovalMeasure,
    ScoringRequest,
    make_and_score_maps,
    warn_of_tied_features,
)
from roarbench.api.maps_of_explainers import make_batch_per_network
from roarbench.api.own_network_gain_of_maps import (
    FEWEST_FOR_WARNING,
    GainTable,
    OwnNetworkTable,
    describe_zero_gains,
    estimate_gain,
    find_agreed_images,
    make_own_network_table,
    warn_of_single_class,
)
from roarbench.api.primitives import bootstrap_means
from roarbench.api.ranking_and_removal import RemovalSettings, make_image_filler, read_fill_value
from roarbench.api.read_explainers import read_explainers
from roarbench.api.user_networks import borrow_networks, check_and_wrap_network, read_networks
from roarbench.common.enums import FEWEST_NETWORKS, OWN_NETWORK_LEVELS, Order
from roarbench.common.errors import CallerError
from roarbench.common.text import format_count, format_interval, format_percent_number, list_some
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.suite import NO_NEIGHBOURS
from roarbench.stats.bootstrap_intervals import Bootstrap, Estimate, Sample
from roarbench.stats.correctness_and_gain import POINTS, compute_trapezoid_weights
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.stats.verdicts import Comparison, Verdict, judge_comparisons

if TYPE_CHECKING:
    import pandas

CHECK_LEVELS = (0.1, 0.3, 0.5)
CONTROLS = ("random", "sobel")
_MOST_PAIRS = 4  # pairs of rows that a sentence names
_OWN = "own network"


@dataclass(frozen=True, eq=False, repr=False)
class CheckTable(GainTable):
    """Gains of several estimators and the controls in several columns; positive is better in every column.

    Attributes:
        gains: Gains in points by column and name, with draws over images (own-network gain: over networks, too).
        levels: Removal fractions by column.
        images: Number of images.
        own_network: The own-network column as a separate table, with verdicts; None if `check` got no siblings.
        controls: Names of the rows that are controls; a control never leads a column.
        accuracy: The network's accuracy on the untouched images, in [0, 1].
        unchanged: Columns in which no removal changed a prediction, so their gains of 0 do not show equality.
        at_chance_warning: Sentence saying that the network is not significantly better than chance; otherwise empty.
        tabular: True if the images are rows of a table, for which the control Sobel does not exist.
    """

    gains: Mapping[str, Mapping[str, Sample]]
    levels: Mapping[str, tuple[float, ...]]
    images: int
    own_network: OwnNetworkTable | None = None
    # (column, name) pairs whose gain is 0 by construction
    fixed: frozenset[tuple[str, str]] = field(default_factory=frozenset)
    controls: frozenset[str] = frozenset(CONTROLS)
    accuracy: float = math.nan
    unchanged: tuple[str, ...] = ()
    at_chance_warning: str = ""
    tabular: bool = False

    def gain(self, column: str, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; 0 without an interval if the gain is 0 on every image."""
        return Estimate(0.0) if (column, name) in self.fixed else estimate_gain(self.gains[column][name])

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator with its gain in each column; `intervals_to_dataframe` adds intervals.

        Frames of a network at chance have a column `note`, which says so.
        """
        import pandas

        gains = {column: [self.gain(column, name).value for name in self._names()] for column in self.gains}
        return pandas.DataFrame({"estimator": self._names(), **gains, **self._chance_note_column})

    def intervals_to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator and column: the gain and the ends of its 95 % interval."""
        import pandas

        return pandas.DataFrame(
            {"estimator": name, "column": column, **self.gain(column, name)._asdict(), **self._chance_note_column}
            for name in self._names()
            for column in self.gains
        ).rename(columns={"value": "gain"})

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table's cells as strings, headings first."""
        rows = ((name, *(self._format_gain(column, name) for column in self.gains)) for name in self._names())
        return [("estimator", *self.gains), *rows]

    def gains_by_panel(self) -> dict[str, dict[str, Estimate]]:
        """Return the gains by panel label and estimator; each column is a panel."""
        notes = dict.fromkeys(self.unchanged, "\n(no prediction changed)")
        return {
            f"{column}, points{notes.get(column, '')}": {name: self.gain(column, name) for name in self._names()}
            for column in self.gains
        }

    @property
    def plot_title(self) -> str:
        """Return the title of the figure, which says that the network is at chance; otherwise empty."""
        return self.at_chance_warning

    @property
    def leaders(self) -> dict[str, str | None]:
        """Return the estimator that leads each column; None if no estimator is shown to lead.

        The leader has the largest gain of all rows and is significantly above Random; for own-network gain, its verdict
        in `own_network` is "explains its network". If the network is at chance, no estimator leads.
        """
        first = {column: best[0] for column, best in self._best_rows.items()}
        return {column: None if self._explain_missing_leader(column) else name for column, name in first.items()}

    @property
    def reversed(self) -> list[tuple[str, str]]:
        """Return the pairs of rows whose order in one column is significantly reversed in another.

        The tests are paired; p values are adjusted over all pairs and columns, at a false discovery rate of 5 %. If the
        network is at chance, there are no such pairs.
        """
        opposed = {Verdict.BETTER, Verdict.WORSE}
        pairs = [] if self.at_chance_warning else combinations(self._names(), 2)
        return [pair for pair in pairs if opposed <= {self._judge(column, *pair) for column in self.gains}]

    @property
    def disagreement(self) -> str:
        """Describe the leader of each column and the pairs whose order changes significantly, or accuracy at chance."""
        if self.at_chance_warning:
            return self.at_chance_warning
        clauses, columns_by_reason = list[str](), dict[str, list[str]]()
        for column, name in self.leaders.items():
            if name:
                clauses.append(f"{name} leads {column}{self._describe_close_rows(column, name)}")
            else:
                columns_by_reason.setdefault(self._explain_missing_leader(column), []).append(column)
        clauses += [f"{reason} {' or '.join(columns)}" for reason, columns in columns_by_reason.items()]
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
        unchanged = f"No prediction changed under {' or '.join(self.unchanged)}.\n" if self.unchanged else ""
        computed = [
            (column, name) for column in self.gains for name in self._names() if (column, name) not in self.fixed
        ]
        zeros = describe_zero_gains(self.gain(*cell) for cell in computed if cell[0] not in self.unchanged)
        own, noun = self.own_network, name_item(self.tabular)
        left_out = f"Left out: sobel and the fill linear: {NO_NEIGHBOURS}.\n" if self.tabular else ""
        agree = f" {_OWN}: the {own.images} {noun}s on which all {own.networks} networks agree." if own else ""
        return (
            f"{self.disagreement}\n{unchanged}{left_out}{format_count(self.images, noun)}{accuracy}; {levels}.\n"
            "Gain over Random in accuracy points, area over t; above 0 is better (morf: accuracy falls more than "
            f"Random's, lerf: less).{agree}\n"
            f"95 % intervals over {noun}s{f'; those of {_OWN} also over networks' if own else ''}.{zeros}"
        )

    @property
    def _chance_note_column(self) -> dict[str, str]:
        return {"note": "accuracy not significantly above chance"} if self.at_chance_warning else {}

    @cached_property
    def _comparisons(self) -> dict[tuple[str, str, str], Comparison]:
        """Compare every pair of rows in every column; the keys are a column and two rows in the table's order."""
        pairs = list(combinations(self._names(), 2))
        return judge_comparisons(
            {(column, a, b): rows[a].subtract(rows[b]) for column, rows in self.gains.items() for a, b in pairs}
        )

    @cached_property
    def _best_rows(self) -> dict[str, list[str]]:
        """Return the rows with the largest gain, by column."""
        largest = {column: max(row.value for row in rows.values()) for column, rows in self.gains.items()}
        return {
            column: [name for name, row in rows.items() if row.value == largest[column]]
            for column, rows in self.gains.items()
        }

    def _judge(self, column: str, first: str, second: str) -> Verdict:
        names = self._names()
        if names.index(first) < names.index(second):
            return self._comparisons[column, first, second].verdict
        return self._comparisons[column, second, first].reversed.verdict

    def _is_above_random(self, column: str, name: str) -> bool:
        if column == _OWN and self.own_network:
            return self.own_network.verdicts[name] is OwnNetworkVerdict.EXPLAINS
        return self._judge(column, name, CONTROLS[0]) is Verdict.BETTER

    def _explain_missing_leader(self, column: str) -> str:
        """Return the beginning of a clause that says why no estimator leads a column; empty if an estimator leads."""
        estimators, best = [name for name in self._names() if name not in self.controls], self._best_rows[column]
        if self.at_chance_warning or not any(self._is_above_random(column, name) for name in estimators):
            return "no estimator is significantly above random under"
        if controls := [name for name in best if name in self.controls]:
            return f"no estimator is above {controls[0]} under"
        leads = len(best) == 1 and self._is_above_random(column, best[0])
        return "" if leads else "no single estimator leads"

    def _describe_close_rows(self, column: str, leader: str) -> str:
        others = [name for name in self._names() if name != leader and (column, name) not in self.fixed]
        close = [name for name in others if self._judge(column, leader, name) is not Verdict.BETTER]
        return f" (not significantly above {list_some(close)})" if close else ""

    def _format_gain(self, column: str, name: str) -> str:
        if column == _OWN and (column, name) in self.fixed:
            return OwnNetworkVerdict.BY_CONSTRUCTION.value
        return format_interval(self.gain(column, name))

    def _names(self) -> list[str]:
        return list(next(iter(self.gains.values())))


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
        levels: Removal fractions, ascending in (0, 1].
        fills: Any of `mean`, `linear` (ROAD's) and the other fills of suites; by default these two, and `mean` alone
            for tables, whose columns have no neighbours.

    Raises:
        CallerError: The arguments do not fit together.
    """
    pixels = read_images(images)
    tabular = is_table(pixels)
    classes = torch.from_numpy(read_labels(labels, len(pixels)))
    steps = RemovalSettings.read(Order.MORF, levels).levels
    models = [*read_networks([model]), *read_networks(siblings)]
    fills = (("mean",) if tabular else ("mean", "linear")) if fills is None else fills
    if not fills or isinstance(fills, str) or not isinstance(fills, Iterable):
        raise CallerError(f'fills are {fills!r}; write fills=("mean", "linear")')
    fills = tuple(fills)
    if len(models) == FEWEST_NETWORKS - 1:
        raise CallerError(f"there is 1 sibling, expected none or at least {FEWEST_NETWORKS - 1}")
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
        check_labels(classes.numpy(), logits[0].shape[1])
        targets = logits[0].argmax(1)
        correct = (targets == classes).numpy()
        at_chance_warning = _warn_if_at_chance(correct, classes.numpy(), logits[0].shape[1], name_item(tabular))
        if not at_chance_warning and bool((classes != classes[0]).any()):
            warn_of_single_class(logits, name_item(tabular))
        agreed = find_agreed_images(logits) if len(logits) > 1 else np.zeros(len(pixels), np.bool_)
        own_removal, own_fill = RemovalSettings.read(Order.MORF, OWN_NETWORK_LEVELS), read_fill_value(pixels, None)
        request = ScoringRequest(
            networks, pixels, targets, agreed, own_removal, own_fill, classes, columns, fill_functions
        )
        few = make_batch_per_network(networks, pixels[:2], targets[:2], torch.arange(len(pixels))[:2])
        explainers.refuse_failing_estimators(few, threads)
        scores = make_and_score_maps(request, explainers, threads)
    warn_of_tied_features(scores, explainers)
    built_in_controls = frozenset(name for name, row in explainers.built_in.items() if row.control)
    return _make_check_table(scores, correct, request, built_in_controls, at_chance_warning)


def _warn_if_at_chance(correct: NDArray[np.bool_], labels: NDArray[np.int64], classes: int, noun: str) -> str:
    """Warn of a network that does not recognise the images, usually because of wrong preprocessing.

    Chance is the accuracy of always answering the most frequent label. If the images lack a class, they are the
    caller's selection, and chance is 1 / classes.

    Returns:
        A sentence for the table; empty if the network is above chance or there are few images.
    """
    has_all_classes, right, total = len(np.unique(labels)) == classes, int(correct.sum()), len(correct)
    chance = compute_largest_class_share(labels) if has_all_classes else 1 / classes
    if total < FEWEST_FOR_WARNING or not is_at_chance(right, total, chance):
        return ""
    seen = f"network classifies {right} of {total} {noun}s correctly, which is not significantly above chance"
    seen = f"{seen} of {describe_chance(chance, classes)}"
    warnings.warn(f"the {seen}; check normalisation, labels and weights", stacklevel=3)
    return f"The {seen}, so no estimator leads."


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
        gains[_OWN] = {name: own_gain.gain if own_gain else zero for name, own_gain in own.gains.items()}
        levels[_OWN] = own.levels
        fixed |= {(_OWN, name) for name, own_gain in own.gains.items() if own_gain is None}
        computed = [scores.kept for name, scores in scores_by_name.items() if own.gains[name] is not None]
        if computed and all(batch.all() for batches in computed for batch in batches):
            unchanged.append(_OWN)
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
