"""From the results store to the boards of a suite. Nothing here imports torch or computes a score."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from roarbench.estimators import CONTROLS
from roarbench.faithfulness import score_specs
from roarbench.plan import CLEAN, Point, Run, Suite, expand
from roarbench.stats.board import Board, board
from roarbench.stats.bootstrap import SeedSpread, seed_spread
from roarbench.stats.curves import UNTOUCHED, Scores
from roarbench.store.results import Result, ResultsStore
from roarbench.terms import ROAR, Protocol, Retrain, Unit
from roarbench.workspace import bind


@dataclass(frozen=True)
class Standing:
    """What the store holds of one suite on one version of its data.

    Attributes:
        suite: Which cells there are.
        data: Fingerprint of the images.
        limit: Images per split if the data set was made small; None for the whole.
        results: By point; those that are missing are not in it.
        quantus: Scores of estimators by metric, shown beside the board and part of nothing.
    """

    suite: Suite
    data: str
    limit: int | None
    results: dict[Point, Result]
    quantus: dict[str, dict[str, float | None]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name, version, and that the data set was made small if it was."""
        small = f" (small version: {self.limit} images a split)" if self.limit else ""
        return self.suite.title + small

    @property
    def complete(self) -> bool:
        """No point is missing."""
        return len(self.results) == len(expand(self.suite))

    def scores(
        self, protocol: Protocol, unit: Unit, estimators: Iterable[str] | None = None, fill: str = "mean"
    ) -> Scores | None:
        """Correct answers of one protocol, unit and fill; None where the suite does not have it."""
        asked = (protocol, unit, fill)
        blocks = [block for block in self.suite.blocks if (block.protocol, block.unit, block.fill) == asked]
        if not blocks:
            return None
        rows = tuple(dict.fromkeys(name for block in blocks for name in block.estimators))
        chosen = rows if estimators is None else tuple(name for name in rows if name in set(estimators))
        needed = {*chosen, *CONTROLS}  # gains and verdicts need the controls, shown or not
        levels = tuple(sorted({t for block in blocks for t in block.levels}))
        found = defaultdict(list)
        for point, result in self.results.items():
            cell = point.cell
            if cell.retrain is not protocol.retrain:
                continue
            if cell.estimator == CLEAN:
                found[UNTOUCHED].append(result.answers)
            elif (cell.order, cell.unit, cell.fill) == (protocol.order, unit, fill) and cell.estimator in needed:
                found[cell.estimator, cell.t].append(result.answers)
        return Scores(chosen, levels, {point: np.stack(bits) for point, bits in found.items()})

    def board(self, protocol: Protocol, unit: Unit, estimators: Iterable[str] | None = None) -> Board | None:
        """The board of one protocol; how trainings vary is learnt from all that the suite trained under ROAR."""
        scores = self.scores(protocol, unit, estimators)
        return None if scores is None else board(scores, protocol, spread=self.spread(protocol))

    def spread(self, protocol: Protocol) -> SeedSpread | None:
        """How trainings vary under a protocol, with all that the suite trained under ROAR; None if nothing says so."""
        if protocol.retrain is Retrain.NONE:
            return None
        trained = [self.scores(protocol, unit) for unit in Unit] + [self.scores(ROAR, unit) for unit in Unit]
        return seed_spread([scores for scores in trained if scores is not None])


def standing(suite: Suite, store: ResultsStore, limit: int | None = None, data: str | None = None) -> Standing:
    """What a store holds of a suite.

    Args:
        suite: Which.
        store: Its results.
        limit: Which version of the data set: this many images per split, or the whole.
        data: Fingerprint of the images; if not given, those with the most results, of equally many the newest.
    """
    points = expand(suite)
    candidates = [data] if data else _versions(store.runs(suite.dataset, suite.model), limit)
    best = Standing(suite, data or "", limit, {})
    for candidate in candidates:
        keys = {bind(suite, point, candidate, limit).key: point for point in points}
        found = store.results(keys)
        if len(found) >= len(best.results):
            results = {point: found[key] for key, point in keys.items() if key in found}
            best = Standing(suite, candidate, limit, results)
    return replace(best, quantus=_quantus(suite, store, best.data))


def _versions(runs: Iterable[Run], limit: int | None) -> list[str]:
    """Fingerprints of the data that runs with this limit saw, oldest first."""
    return list(dict.fromkeys(run.data for run in runs if run.limit == limit))


def _quantus(suite: Suite, store: ResultsStore, data: str) -> dict[str, dict[str, float | None]]:
    specs = score_specs(suite, data)
    values = store.scores.values([spec.key for spec in specs.values()])
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for (estimator, metric), spec in specs.items():
        if spec.key in values:
            found[estimator][metric] = values[spec.key]
    return dict(found)
