"""Compare a repeated run with the stored one, image by image, and decide whether both are the same."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roarbench.common.enums import ScoredNetwork
from roarbench.store.results import ReproductionOutcome
from roarbench.store.run_result import RunResult

# The limits were measured on equal runs from two machines; tests/execution/test_reproduction.py repeats this.
# Disagreement is the number of images with different correctness, divided by the number that two unrelated results with
# the same accuracies would have.
_MAX_DISAGREEMENT_WITHOUT_TRAINING = 0.2  # largest measured: 0.12 in 1,005 runs, the same weights on a CPU and an H100
# largest measured: 0.38 in 213 runs; 0.75 in 887 pairs whose explained networks had been trained on two machines, too
_MAX_DISAGREEMENT_WITH_TRAINING = 0.8
# standard deviations; 99.9 % of normal values are closer to the mean. Largest measured: 3.15 without and 2.71 with
# training. With 1.96 instead, 50 of these 1,218 runs would be different
_Z = 3.29


@dataclass(frozen=True)
class Reproduction:
    """Stored result of a run, and the result of its repetition."""

    stored: RunResult
    again: RunResult
    # standard deviation of a run's true accuracy between trainings, in [0, 1]; None if it is unknown
    deviation: float | None = 0.0
    reused: tuple[str, ...] = ()  # checksums of explained networks that were not trained again

    @property
    def verdict(self) -> ReproductionOutcome:
        """Return the outcome; `EQUAL` means the same rankings and the same predictions on every image."""
        return self._judgement[0]

    @property
    def reason(self) -> str:
        """Return why the stored result is not confirmed as an honest computation of the run; empty if it is."""
        return self._judgement[1]

    @cached_property
    def _judgement(self) -> tuple[ReproductionOutcome, str]:
        old, new, trains = self.stored, self.again, self.stored.run.cell.retrain.trains
        has_same_predictions = (old.bits, old.probability) == (new.bits, new.probability)
        if has_same_predictions and old.rankings == new.rankings:
            return ReproductionOutcome.EQUAL, ""
        # a run without training may score another network than the stored run did
        if not trains and len({old.weights, new.weights} - {""}) > 1:
            seen = "the explained network trained here has other weights"
            remedy = "`roarbench import` of a folder of published results imports the stored run's network"
            return ReproductionOutcome.INCOMPARABLE, f"{seen}; {remedy}"
        if has_same_predictions:
            return ReproductionOutcome.WITHIN, ""
        if self._must_be_equal:
            return ReproductionOutcome.DIFFERENT, "the same versions and processor give the same predictions"
        if self.differing > self._max_differing:
            unrelated = f"unrelated results differ on about {self._expected_count_if_unrelated:.0f}"
            seen = f"too many images differ: correctness may differ on {int(self._max_differing)}, and {unrelated}"
            return ReproductionOutcome.DIFFERENT, seen
        if abs(old.correct - new.correct) > self.margin * old.total:
            if self.deviation is None:
                seen = "how much trainings differ is unknown, because this store has no trusted cell with two trainings"
                return ReproductionOutcome.INCOMPARABLE, seen
            return ReproductionOutcome.DIFFERENT, "the accuracies differ by more than chance"
        if old.probabilities is not None and new.probabilities is not None:
            # the probabilities must agree as closely as the correctness, and their means within chance
            one, other = old.probabilities, new.probabilities
            if_unrelated = np.abs(one - np.roll(other, len(other) // 2)).mean()  # each image paired with another one
            near_images = np.abs(one - other).mean() <= _MAX_DISAGREEMENT_WITHOUT_TRAINING * if_unrelated
            near_means = abs(one.mean() - other.mean()) <= self.margin + 1 / old.total
            if not (near_images and near_means):
                return ReproductionOutcome.DIFFERENT, "the probabilities of the predicted classes differ too much"
        return ReproductionOutcome.WITHIN, ""

    @property
    def differing(self) -> int:
        """Return the number of images with different correctness."""
        return int((self.stored.correctness != self.again.correctness).sum())

    @property
    def margin(self) -> float:
        """Return the largest chance difference in accuracy between two honest computations of a run, in [0, 1].

        The difference of two accuracies has twice the variance of one accuracy. In addition, d images with different
        correctness contribute sqrt(d) images (McNemar 1947). Only as many of them count as may differ. If the variance
        is unknown, the result is a lower bound.
        """
        differing = min(self.differing, self._max_differing)
        return float(_Z * np.sqrt(2 * (self.deviation or 0.0) ** 2 + differing / self.stored.total**2))

    @property
    def _must_be_equal(self) -> bool:
        """Return whether both runs used the same CPU arithmetic, as equal weights of the explained network show.

        Weights that were given or not trained again show nothing. Common networks are trained with other rows'
        rankings, which may differ between suites, so that only runs with other rankings must be equal.
        """
        run, weights = self.stored.run, self.stored.weights
        on_cpu = self.again.provenance.hardware.get("device") == "cpu" and not self.version_and_hardware_differences
        has_own_network = run.cell.retrain is not ScoredNetwork.COMMON or self.stored.rankings != self.again.rankings
        is_trained_again = not run.given and not self.reused
        return on_cpu and has_own_network and is_trained_again and bool(weights) and weights == self.again.weights

    @property
    def _max_differing(self) -> float:
        """Return the largest number of images with different correctness in honest runs; 1 more, for few images."""
        trains = self.stored.run.cell.retrain.trains
        share = _MAX_DISAGREEMENT_WITH_TRAINING if trains else _MAX_DISAGREEMENT_WITHOUT_TRAINING
        return 1 + share * self._expected_count_if_unrelated

    @property
    def _expected_count_if_unrelated(self) -> float:
        """Return the expected number of images with different correctness if both results were unrelated."""
        p, q = self.stored.correct / self.stored.total, self.again.correct / self.again.total
        return self.stored.total * (p * (1 - q) + q * (1 - p))

    @property
    def version_and_hardware_differences(self) -> list[str]:
        """Describe each difference in versions or hardware that both results record."""
        old, new = self.stored.provenance, self.again.provenance
        pairs = [("code", old.code_version, new.code_version)]
        before, now = old.known_values, new.known_values
        pairs += [(name, before[name], now[name]) for name in before if name in now]
        return [f"{name} was {then}, is now {here}" for name, then, here in pairs if then != here]

    def format_report(self) -> str:
        """Return the report for a terminal."""
        old, new = self.stored, self.again
        rankings = "same rankings" if old.rankings == new.rankings else "other rankings"
        margin = f"99.9 % of chance differences are below {100 * self.margin:.1f} points"
        margin = margin if self.deviation is not None else "how much trainings differ by chance is unknown"
        lines = [
            f"{self.verdict}: {new.correct} of {new.total} correct, {old.correct} in the stored run",
            f"  correctness differs on {self.differing} images, {rankings}, {margin}",
        ]
        if self.reused:
            networks = " and ".join(checksum[:8] for checksum in self.reused)
            lines.append(f"  explained network: stored weights {networks}, not trained again")
        if self.verdict is not ReproductionOutcome.EQUAL:
            differences = self.version_and_hardware_differences
            lines += [f"  {line}" for line in differences or ["no difference in versions or hardware is known"]]
        return "\n".join([*lines, *([f"  why: {self.reason}"] if self.reason else [])])
