"""From the results store to the boards of a suite. Nothing here imports torch or computes a score."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np

from roarbench.estimators import CONTROLS, find_estimator
from roarbench.faithfulness import score_specs
from roarbench.plan import CLEAN, Point, Suite, expand
from roarbench.stats.board import Board, board
from roarbench.stats.bootstrap import SeedSpread, seed_spread
from roarbench.stats.curves import UNTOUCHED, Scores
from roarbench.store.entries import submissions_of, unverified
from roarbench.store.results import Result, ResultsStore
from roarbench.submission import Submission
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
        doubts: Why, in words, for each estimator of which a row is not verified.
        submissions: By estimator id, what was handed in; its texts are somebody's, to be shown as text.
        quantus: Scores of estimators by metric, shown beside the board and part of nothing.
    """

    suite: Suite
    data: str
    limit: int | None
    results: dict[Point, Result]
    doubts: dict[str, str] = field(default_factory=dict)
    submissions: dict[str, Submission] = field(default_factory=dict)
    quantus: dict[str, dict[str, float | None]] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """Name, version, that the data set was made small if it was, and what is explained if that was given."""
        small = f" (small version: {self.limit} images a split)" if self.limit else ""
        given = f" (reference {self.suite.given})" if self.suite.given else ""
        return self.suite.title + small + given

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
        for (name, t), result in self._rows(protocol, unit, fill):
            if name == CLEAN or name in needed:
                found[name, t].append(result.answers)
        correct = {point: np.stack(bits) for point, bits in found.items()}
        checks = frozenset(name for name in chosen if not find_estimator(name).placed)
        return Scores(chosen, levels, correct, frozenset(self.mixed(protocol, unit, fill)), checks)

    def mixed(self, protocol: Protocol, unit: Unit, fill: str = "mean") -> dict[str, str]:
        """Why estimators have no gain and no place though their points may all be there: these do not belong together.

        The same training on two machines gives references that differ slightly, and so rankings that do. Rows that do
        not say what they were made from are taken to belong to the others.
        """
        usual = Counter(result.weights for result in self.results.values() if result.weights).most_common(1)
        curves = self._curves(protocol, unit, fill)
        reasons = {name: _mixture(found, {weights for weights, _ in usual}) for name, found in curves.items()}
        return {name: reason for name, reason in reasons.items() if reason}

    def machines(self, protocol: Protocol, unit: Unit, fill: str = "mean") -> dict[str, dict[str, list[str]]]:
        """What the results of one curve were computed with, by estimator, where they differ in it.

        Such a curve counts: machines round differently, which is worth less than another seed. Results that do not say
        what they were computed with are taken to be like the others.
        """
        differing = {name: _differing(found) for name, found in self._curves(protocol, unit, fill).items()}
        return {name: values for name, values in differing.items() if values}

    def _curves(self, protocol: Protocol, unit: Unit, fill: str) -> dict[str, list[Result]]:
        """The results of each estimator, with those on untouched images, which all share."""
        rows: defaultdict[str, list[Result]] = defaultdict(list)
        for (name, _), result in self._rows(protocol, unit, fill):
            rows[name].append(result)
        clean = rows.pop(CLEAN, [])
        return {name: [*clean, *found] for name, found in rows.items()}

    def _rows(self, protocol: Protocol, unit: Unit, fill: str) -> Iterator[tuple[tuple[str, float], Result]]:
        """Results of one protocol with the point of the curve that each belongs to."""
        for point, result in self.results.items():
            cell = point.cell
            if cell.retrain is not protocol.retrain:
                continue
            if cell.estimator == CLEAN:
                yield UNTOUCHED, result
            elif (cell.order, cell.unit, cell.fill) == (protocol.order, unit, fill):
                yield (cell.estimator, cell.t), result

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


def _mixture(results: Iterable[Result], usual: set[str]) -> str:
    """What does not belong together among the results of one curve; empty where all do."""
    held = list(results)
    weights = {result.weights for result in held} - {""}
    rankings = {result.rankings for result in held} - {""}
    if len(weights) > 1:
        return f"made from {len(weights)} different references; do it again in a fresh --store"
    if weights - usual:
        return "made from another reference than the other rows; do it again in a fresh --store"
    if len(rankings) > 1:
        return f"made from {len(rankings)} different rankings; do it again in a fresh --store"
    return ""


def _differing(results: Iterable[Result]) -> dict[str, list[str]]:
    """In what these were computed differently: its name and the different values."""
    values: defaultdict[str, set[str]] = defaultdict(set)
    for result in results:
        for name, value in result.provenance.computed_with.items():
            values[name].add(value)
    return {name: sorted(found) for name, found in values.items() if len(found) > 1}


def standing(suite: Suite, store: ResultsStore, limit: int | None = None, data: str | None = None) -> Standing:
    """What a store holds of a suite.

    Args:
        suite: Which.
        store: Its results.
        limit: Which version of the data set: this many images per split, or the whole.
        data: Fingerprint of the images; if not given, the images and the reference with the most results, of equally
            many the newest images and the suite's own reference.
    """
    points = expand(suite)
    versions = store.versions(suite.dataset, suite.model)
    candidates = [data] if data else [found for found, size in versions if size == limit]
    others = [] if data else [replace(suite, given=given) for given in store.given(suite.dataset, suite.model)]
    best = Standing(suite, data or "", limit, {})
    for candidate, asked in product(candidates, (*others, suite)):
        keys = {bind(asked, point, candidate, limit).key: point for point in points}
        found = store.results(keys)
        if len(found) >= len(best.results):
            results = {point: found[key] for key, point in keys.items() if key in found}
            best = Standing(asked, candidate, limit, results)
    return replace(
        best,
        doubts=unverified(store.database, best.results.values()),
        submissions=submissions_of(store.database, {point.cell.estimator for point in best.results}),
        quantus=_quantus(suite, store, best.data),
    )


def _quantus(suite: Suite, store: ResultsStore, data: str) -> dict[str, dict[str, float | None]]:
    specs = score_specs(suite, data)
    values = store.scores.values([spec.key for spec in specs.values()])
    found: defaultdict[str, dict[str, float | None]] = defaultdict(dict)
    for (estimator, metric), spec in specs.items():
        if spec.key in values:
            found[estimator][metric] = values[spec.key]
    return dict(found)
