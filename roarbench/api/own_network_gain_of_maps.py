"""Compute the own-network gain of a caller's maps and networks without training, and the base class of gain tables."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.batched_inference import ThreadedNetworks, refuse_nan_or_duplicate_logits
from roarbench.api.chance_warning import FEWEST_FOR_WARNING
from roarbench.api.inputs import is_table, read_images
from roarbench.api.make_and_score_maps import MapScores, ScoringRequest, make_and_score_maps, warn_of_tied_features
from roarbench.api.ranking_and_removal import RemovalSettings, leave_out_idle_levels, read_fill_value
from roarbench.api.read_explainers import read_explainers
from roarbench.api.user_networks import borrow_networks, check_and_wrap_network, read_networks
from roarbench.common.enums import FEWEST_NETWORKS, OWN_NETWORK_LEVELS, Order
from roarbench.common.errors import CallerError
from roarbench.common.text import MISSING, format_decimals, format_interval, list_some, name_item
from roarbench.plan.suite import refuse_impossible_for_table
from roarbench.stats.bootstrap_intervals import (
    FEWEST_IMAGES,
    Bootstrap,
    Estimate,
    Sample,
    make_estimate_over_images,
)
from roarbench.stats.correctness_and_gain import POINTS
from roarbench.stats.own_network_gain import (
    FEWEST_PERMUTED,
    OwnNetworkGain,
    OwnNetworkVerdict,
    compute_own_network_gain_per_row,
    judge_own_network_gains,
)

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class GainTable(ABC):
    """Gains of several estimators with their intervals."""

    @property
    @abstractmethod
    def caption(self) -> str:
        """Describe the measure and the scope of its intervals."""

    @abstractmethod
    def cells(self) -> list[tuple[str, ...]]:
        """Return the table's cells as strings, headings first."""

    @abstractmethod
    def gains_by_panel(self) -> Mapping[str, Mapping[str, Estimate]]:
        """Return gains by panel label and estimator."""

    @property
    def plot_title(self) -> str:
        """Return the title of the figure; empty if it needs none."""
        return ""

    def __repr__(self) -> str:
        cells = self.cells()
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in cells)
        return "\n".join([*lines, self.caption])

    def _repr_html_(self) -> str:
        import pandas

        headings, *rows = self.cells()
        caption = escape(self.caption).replace("\n", "<br>")
        return f"{pandas.DataFrame(rows, columns=headings).to_html(index=False)}<p>{caption}</p>"

    def plot(self, file: str | Path | None = None) -> "Figure":
        """Draw the gains with their intervals; `file` (PNG, SVG or PDF) also saves the figure."""
        from roarbench.report.curve_panels import save_figure
        from roarbench.report.suite_charts import plot_gains

        figure = plot_gains(self.gains_by_panel(), self.plot_title)
        if file is not None:
            save_figure(figure, Path(file))
        return figure


@dataclass(frozen=True, eq=False, repr=False)
class OwnNetworkTable(GainTable):
    """Own-network gains of several estimators as a table.

    Attributes:
        gains: Gain by estimator name; None if the removal masks are the same for every network.
        verdicts: Verdict by estimator name; p values are adjusted for testing all rows. None if there are fewer than 10
            images, which also give no intervals.
        networks: Number of explained networks.
        images: Number of images to which all networks assign the same class; only these are used.
        of: Number of all images.
        levels: Removal fractions.
        order: `morf` or `lerf`.
        tabular: True if the images are rows of a table.
    """

    gains: Mapping[str, OwnNetworkGain | None]
    verdicts: Mapping[str, OwnNetworkVerdict | None]
    networks: int
    images: int
    of: int
    levels: tuple[float, ...]
    order: Order
    tabular: bool = False

    def gain(self, name: str) -> Estimate:
        """Return a gain in points with its 95 % interval; without interval for few images, or if all gains are 0."""
        own_gain = self.gains[name]
        return Estimate(0.0) if own_gain is None else estimate_gain(own_gain.gain, self.images)

    def compare(self, first: str, second: str) -> Estimate:
        """Return the first row's gain minus the second's, with its 95 % interval, paired by images and networks.

        Raises:
            CallerError: The table has no such row.
        """
        for name in (first, second):
            if name not in self.gains:
                raise CallerError(f"there is no row '{name}' here, only: {', '.join(self.gains)}")
        own_first, own_second = self.gains[first], self.gains[second]
        if own_first and own_second:
            return make_estimate_over_images(own_first.gain.subtract(own_second.gain), self.images)
        return self.gain(first) if own_first else self.gain(second).negative

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row per estimator, largest gain first, with interval, verdict and the gain at each level."""
        import pandas

        rows = []
        for name in self._sort_names():
            own_gain, verdict = self.gains[name], self.verdicts[name]
            row = {"estimator": name, **self.gain(name)._asdict(), "verdict": verdict and str(verdict)}
            row["p_permutation"] = own_gain.permutation if own_gain else None
            row |= {f"gain at {t:g}": own_gain.levels[k].value if own_gain else 0.0 for k, t in enumerate(self.levels)}
            rows.append(row)
        return pandas.DataFrame(rows).rename(columns={"value": "gain"})

    @property
    def caption(self) -> str:
        """Describe the measure and the scope of its intervals."""
        levels = ", ".join(f"{t:g}" for t in self.levels)
        computed = [name for name, own_gain in self.gains.items() if own_gain]
        noun = name_item(self.tabular)
        verb, past = ("lose", "lost") if self.order is Order.MORF else ("keep", "kept")
        return (
            f"{self.networks} networks; the {self.images} of {self.of} {noun}s on which all networks agree; "
            f"{self.order} at t = {levels}.\nGain, in points: predictions that networks {verb} under the mask of their "
            f"own map, minus those {past} under that of another network's map.\n{self._describe_intervals(computed)}"
        )

    def _describe_intervals(self, computed: Sequence[str]) -> str:
        noun, gains = name_item(self.tabular), [self.gain(name) for name in computed]
        if few := describe_few_images(self.images, noun):
            return few
        return (
            f"95 % intervals over {noun}s and networks; verdicts are adjusted for testing all rows."
            f"{describe_zero_gains(gains)}{self._describe_wide_intervals(gains)}"
        )

    def _describe_wide_intervals(self, computed: Iterable[Estimate]) -> str:
        if all((gain.high or 0.0) - (gain.low or 0.0) <= POINTS for gain in computed):
            return ""
        reason = f"{self.networks} networks leave {self.networks - 1} degrees of freedom"
        return f" Intervals are wide because {reason}; they end at ±100, the largest possible gain."

    def cells(self) -> list[tuple[str, ...]]:
        """Return the table's cells as strings, headings first."""
        rows = [
            (name, format_interval(self.gain(name)), str(self.verdicts[name] or MISSING)) for name in self._sort_names()
        ]
        cells: list[tuple[str, ...]] = [("estimator", "gain [95 %]", "verdict"), *rows]
        if self.networks < FEWEST_PERMUTED:
            return cells
        ps = (format_decimals(gain and gain.permutation, 3) for gain in map(self.gains.get, self._sort_names()))
        return [(*row, p) for row, p in zip(cells, ("permutation p", *ps), strict=True)]

    def gains_by_panel(self) -> dict[str, dict[str, Estimate]]:
        """Return a single panel with the gains by estimator, largest first."""
        return {"own-network gain, points": {name: self.gain(name) for name in self._sort_names()}}

    def _sort_names(self) -> list[str]:
        return sorted(self.gains, key=lambda name: -(self.gain(name).value or 0.0))


def own_network_gain(
    networks: Sequence[nn.Module],
    images: Any,
    estimators: Any,
    *,
    order: str = "morf",
    levels: tuple[float, ...] = OWN_NETWORK_LEVELS,
    unit: str = "scalar",
    fill: Any = None,
) -> OwnNetworkTable:
    """Measure whether maps explain their own network rather than another network of the same classes.

    Each network is scored after features are removed by every network's map (docs/protocol.md). Effects of a mask on
    all networks cancel, as does the sensitivity of one network to all masks; a map made without the network has a
    gain of exactly 0. If the networks agree on fewer than 10 images, there are no intervals and no verdicts.

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
        unit: `scalar` removes single values, `pixel` removes all channels of a pixel together.
        fill: Fill value (c,), on the scale of the images; the mean of these images' channels if None.

    Raises:
        CallerError: The arguments do not fit together, two networks have the same logits, or the networks agree on
            no image.
    """
    pixels, models = read_images(images), read_networks(networks)
    if len(models) < FEWEST_NETWORKS:
        raise CallerError(f"there are {len(models)} networks, expected {FEWEST_NETWORKS} or more; add siblings")
    explainers, value = read_explainers(estimators, pixels, len(models)), read_fill_value(pixels, fill)
    removal = RemovalSettings.read(order, levels, unit)
    if is_table(pixels):
        refuse_impossible_for_table(unit=removal.unit)
    removal = leave_out_idle_levels(removal, pixels)
    with borrow_networks(models):
        models = [check_and_wrap_network(model, pixels, f"network {number}") for number, model in enumerate(models, 1)]
        threads, logits = ThreadedNetworks.copy_and_compute_logits(models, pixels)
        refuse_nan_or_duplicate_logits(logits)
        warn_of_single_class(logits, name_item(is_table(pixels)))
        agreed = find_agreed_images(logits)
        request = ScoringRequest(models, pixels, logits[0].argmax(1), agreed, removal, value)
        few = torch.from_numpy(np.flatnonzero(agreed)[:2])
        explainers.refuse_failing_estimators(request.make_explained_batches(few), threads)
        scores = make_and_score_maps(request, explainers, threads)
    warn_of_tied_features(scores, explainers)
    return make_own_network_table(scores, request)


def estimate_gain(gain: Sample, images: int) -> Estimate:
    """Return a gain with its 95 % interval; no interval for few images, and if the gain is 0 on every image.

    Images without any difference do not show how large a difference on other images may be. No gain is outside -100 to
    100, so intervals end there; verdicts use the draws themselves.
    """
    if not (gain.value or gain.draws.any()):
        return Estimate(0.0)
    value, *ends = make_estimate_over_images(gain, images)
    return Estimate(value, *(None if end is None else min(max(end, -POINTS), POINTS) for end in ends))


def describe_few_images(images: int, noun: str) -> str:
    """Say how many images (`noun`) are needed if there are too few for intervals and verdicts; otherwise empty."""
    few = images < FEWEST_IMAGES
    return f"Fewer than {FEWEST_IMAGES} {noun}s: no intervals and no verdicts." if few else ""


def describe_zero_gains(computed: Iterable[Estimate]) -> str:
    """Explain gains without an interval; empty if all computed gains have one."""
    known = all(gain.low is not None for gain in computed)
    return "" if known else " 0.0 without an interval: the gain is 0 on every image, which does not show equality."


def make_own_network_table(scores_by_name: Mapping[str, MapScores], request: ScoringRequest) -> OwnNetworkTable:
    """Compute gains and verdicts from the predictions that the networks keep after removal by own and other maps."""
    order, levels = request.own_removal.order, request.own_removal.levels
    predictions = {name: scores.kept_predictions for name, scores in scores_by_name.items()}
    with_differing_masks = {name: kept for name, kept in predictions.items() if kept is not None}
    computed_gains = compute_own_network_gain_per_row(with_differing_masks, order, Bootstrap())
    gains = {name: computed_gains.get(name) for name in predictions}
    judged = judge_own_network_gains({name: gain and gain.gain for name, gain in gains.items()})
    images, all_images = int(request.agreed.sum()), len(request.agreed)
    few = images < FEWEST_IMAGES
    verdicts = {name: None if few and gains[name] else verdict for name, verdict in judged.items()}
    tabular = is_table(request.pixels)
    return OwnNetworkTable(gains, verdicts, len(request.networks), images, all_images, levels, order, tabular)


def warn_of_single_class(logits: Sequence[Tensor], noun: str) -> None:
    """Warn of networks that assign one class to all images (`noun`), as those that learnt only the largest class."""
    predicted = [own.argmax(1) for own in logits]
    numbers = [f"{number}" for number, classes in enumerate(predicted, 1) if bool((classes == classes[0]).all())]
    if numbers and len(predicted[0]) >= FEWEST_FOR_WARNING:
        networks = f"network {numbers[0]} predicts" if len(numbers) == 1 else f"networks {list_some(numbers)} predict"
        seen = f"{networks} a single class for all {len(predicted[0])} {noun}s"
        warnings.warn(f"{seen}; if the {noun}s are of several classes, the maps are meaningless", stacklevel=3)


def find_agreed_images(logits: Sequence[Tensor]) -> NDArray[np.bool_]:
    """Mark the images to which all networks assign the same class; CallerError if there are none."""
    if len(shapes := {tuple(own.shape[1:]) for own in logits}) > 1:
        raise CallerError(f"the networks' logits per image have shapes {sorted(shapes)}; expected the same classes")
    predicted = torch.stack([own.argmax(1) for own in logits])
    agreed: NDArray[np.bool_] = (predicted == predicted[0]).all(0).numpy()
    if not agreed.any():
        raise CallerError(
            f"the networks predict one class together for none of the {len(logits[0])} images; "
            "expected trained networks with the same classes in the same order"
        )
    return agreed
