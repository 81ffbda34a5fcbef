"""The draws behind the validity panel: each protocol of a suite once, paired over all of them."""

from dataclasses import dataclass, replace
from functools import cached_property

from roarbench.standings import Standing
from roarbench.stats.board import RANDOM, gain_samples
from roarbench.stats.bootstrap import Bootstrap, Draws, Estimate, Sample, SeedSpread, draw, estimate
from roarbench.stats.curves import Scores
from roarbench.stats.probability import order_gaps
from roarbench.terms import KAR, LERF, MASK_ONLY, MORF, ROAR, Order, Protocol, Retrain, Unit

_FILL = "mean"  # of all tables
_NOTHING = Scores((), (), {})  # of a protocol that the suite does not have


@dataclass(frozen=True, eq=False)
class Drawn:
    """One protocol's accuracies, and gains or areas, with their draws.

    Attributes:
        scores: Rows, levels and correct answers; empty where the suite does not have the protocol.
        draws: Of all accuracies.
        areas: Gains, or areas between the curves of both orders, by estimator, in accuracy points.
        confidence: Of the intervals.
        repeated: False where nothing says how trainings vary; then there are values and no intervals.
    """

    scores: Scores
    draws: Draws
    areas: dict[str, Sample]
    confidence: float
    repeated: bool

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels above 0."""
        return self.scores.levels

    def estimate(self, sample: Sample | None) -> Estimate:
        """A number with its interval, as far as there is one."""
        if sample is None:
            return Estimate()
        return estimate(sample, self.confidence) if self.repeated else Estimate(sample.value)

    def area(self, estimator: str) -> Estimate:
        """In accuracy points."""
        return self.estimate(self.areas.get(estimator))

    def accuracy(self, estimator: str, t: float) -> Estimate:
        """In [0, 1]."""
        value, low, high = self.estimate(self.draws.accuracy((estimator, t)))
        return Estimate(value, None if low is None else max(0.0, low), None if high is None else min(1.0, high))

    def over_random(self, estimator: str, t: float) -> Estimate:
        """Accuracy minus Random's, in [-1, 1]."""
        one, random = self.draws.accuracy((estimator, t)), self.draws.accuracy((RANDOM, t))
        return self.estimate(one.minus(random) if one and random else None)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the panel of a suite is made from; each part is drawn when it is first asked for.

    Attributes:
        standing: The suite and its results.
        unit: What one feature is, but in `units`.
        bootstrap: How often and from which seed; one for all, so that everything is paired.
    """

    standing: Standing
    unit: Unit
    bootstrap: Bootstrap

    @cached_property
    def roar(self) -> Drawn:
        """Gains and accuracies under ROAR."""
        return self._drawn(ROAR, self.unit)

    @cached_property
    def masks(self) -> Drawn:
        """Accuracies of networks that see nothing but removed-maps."""
        return self._drawn(MASK_ONLY, self.unit)

    @cached_property
    def beside(self) -> dict[Protocol, Drawn]:
        """Gains under the other protocols that order estimators, those that the suite has."""
        held = {block.protocol for block in self.standing.suite.blocks if block.unit is self.unit}
        return {protocol: self._drawn(protocol, self.unit) for protocol in (KAR, MORF, LERF) if protocol in held}

    @cached_property
    def units(self) -> dict[Unit, Drawn]:
        """ROAR under each unit that the suite has."""
        units = dict.fromkeys(block.unit for block in self.standing.suite.blocks if block.protocol == ROAR)
        return {unit: self.roar if unit is self.unit else self._drawn(ROAR, unit) for unit in units}

    @cached_property
    def fills(self) -> dict[str, Drawn]:
        """ROAR with each fill that the suite has."""
        blocks = [block for block in self.standing.suite.blocks if (block.protocol, block.unit) == (ROAR, self.unit)]
        fills = dict.fromkeys(block.fill for block in blocks)
        return {fill: self.roar if fill == _FILL else self._drawn(ROAR, self.unit, fill) for fill in fills}

    @cached_property
    def retrained(self) -> Drawn:
        """Areas between the KAR and the ROAR curve, over the levels that both have."""
        return self._gaps(ROAR, KAR)

    @cached_property
    def reference(self) -> Drawn:
        """Areas between the LeRF and the MoRF curve without retraining, over the levels that both have."""
        return self._gaps(MORF, LERF)

    @cached_property
    def smoothness(self) -> dict[tuple[str, float], float]:
        """By estimator and level, from whatever row says it: all that remove by one ranking say the same."""
        rows = [(point.cell, result.smoothness) for point, result in self.standing.results.items()]
        return {
            (cell.estimator, cell.t): smooth
            for cell, smooth in rows
            if (cell.order, cell.unit) == (Order.MORF, self.unit) and smooth is not None
        }

    def _drawn(self, protocol: Protocol, unit: Unit, fill: str = _FILL) -> Drawn:
        scores = self.standing.scores(protocol, unit, fill=fill) or _NOTHING
        spread = self.standing.spread(protocol)
        draws = draw(scores, self.bootstrap, spread)
        gains = gain_samples(scores, protocol, draws)
        return Drawn(scores, draws, gains, self.bootstrap.confidence, _repeated(protocol, spread))

    def _gaps(self, morf: Protocol, lerf: Protocol) -> Drawn:
        one, other = (self.standing.scores(protocol, self.unit) or _NOTHING for protocol in (morf, lerf))
        shared = replace(one, levels=tuple(t for t in one.levels if t in other.levels))
        spread = self.standing.spread(lerf)  # one for both, so that the untouched images cancel in every draw
        draws, kept = (draw(scores, self.bootstrap, spread) for scores in (shared, other))
        areas = order_gaps(shared, draws, kept) if shared.levels else {}
        return Drawn(shared, draws, areas, self.bootstrap.confidence, _repeated(lerf, spread))


def _repeated(protocol: Protocol, spread: SeedSpread | None) -> bool:
    return protocol.retrain is Retrain.NONE or spread is not None
