"""_Judges all estimators of one protocol: from draws to gains, verdicts and places."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from roarbench.estimators import CONTROLS, VARIANTS
from roarbench.estimators.ids import twin_id
from roarbench.protocols.declaration import Protocol
from roarbench.stats.board import BLURRED, RANDOM, SOBEL, Board, Covers, Row
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, estimate
from roarbench.stats.curves import POINTS, UNTOUCHED, Floats, Scores, gain
from roarbench.stats.draws import Draws, draw
from roarbench.stats.pairs import Pairs
from roarbench.stats.places import Place, place_intervals, places
from roarbench.stats.reference_spread import References
from roarbench.stats.spread import Spread, spread_of
from roarbench.stats.verdicts import Beating, Comparison, beatings, compare, detectable, holm
from roarbench.terms import OTHER_IMAGE, OTHER_REFERENCE, Retrain


def board(
    scores: Scores,
    protocol: Protocol,
    bootstrap: Bootstrap | None = None,
    spread: Spread | None = None,
    shown: Collection[str] | None = None,
) -> Board:
    """_Judge all estimators of one protocol, and give those shown their places; the spread is of `scores` if None."""
    bootstrap = bootstrap or Bootstrap()
    spread = spread_for(protocol, spread or spread_of([scores.differences or scores]))
    return board_of(scores, protocol, bootstrap, spread, draw(scores, bootstrap, spread), shown)


def spread_for(protocol: Protocol, spread: Spread | None) -> Spread | None:
    """Return what of a spread counts under a protocol: where nothing is trained, trainings do not."""
    if spread is None or protocol.trains:
        return spread
    return replace(spread, trainings=None) if spread.references else None


def covers_of(protocol: Protocol, spread: Spread | None) -> Covers:
    """Return what intervals under a protocol cover with this spread."""
    references = spread is not None and spread.references is not None
    if not protocol.trains:
        return Covers.NETWORKS if references else Covers.IMAGES
    if spread is None or spread.trainings is None:
        return Covers.NOTHING
    return Covers.REFERENCES if references else Covers.BOTH


def board_of(
    scores: Scores,
    protocol: Protocol,
    bootstrap: Bootstrap,
    spread: Spread | None,
    draws: Draws,
    shown: Collection[str] | None = None,
) -> Board:
    """_Judge all estimators of one protocol by draws of its cells, or of more, that are there already.

    Verdicts are adjusted for all rows, places are among those shown; no spread where nothing says how trainings vary.
    """
    judge = _Judge.of(scores, protocol, bootstrap, spread, draws)
    rows = scores.estimators if shown is None else tuple(name for name in scores.estimators if name in shown)
    comparisons = judge.comparisons()
    references: References | None = spread.references if spread else None
    return Board(
        protocol,
        scores.levels,
        _rows(judge, rows, comparisons),
        scores.images,
        bootstrap,
        judge.covers,
        detectable(judge.own_pairs) if judge.repeated else None,
        sum(name not in scores.strangers for name, _ in comparisons),
        len(scores.networks),
        POINTS * references.deviation if references else None,
        references.rows if references else 0,
        references.freedom if references else None,
    )


def gain_samples(scores: Scores, protocol: Protocol, draws: Draws) -> dict[str, Sample]:
    """Return gains, in accuracy points, of rows and controls with a complete curve; none if Random's is not.

    Where one network answers for a row and for what the row is held against, the gain is the area of the differences.
    How much masks alone tell is no gain: a lower curve is neither better nor worse.
    """
    if scores.differences and draws.differences:
        scores, draws = replace(scores.differences, levels=scores.levels), draws.differences
        return _areas(scores, protocol, draws, np.zeros((1 + len(scores.levels), 1)))
    if protocol.retrain is Retrain.MASKS or not scores.complete(RANDOM):
        return {}
    return _areas(scores, protocol, draws, draws.curve(scores.curve(RANDOM)))


def _areas(scores: Scores, protocol: Protocol, draws: Draws, baseline: Floats) -> dict[str, Sample]:
    gains = {
        name: gain((0.0, *scores.levels), draws.curve(scores.curve(name)), baseline, protocol.order)
        for name in dict.fromkeys((*scores.estimators, *CONTROLS))
        if scores.complete(name)
    }
    return {name: Sample(float(both[0]), both[1:]) for name, both in gains.items()}


@dataclass(frozen=True, eq=False)
class Drawn:
    """One protocol's accuracies, and gains or areas, with their draws."""

    scores: Scores  # rows, levels and correct answers; empty where a suite does not have the protocol
    protocol: Protocol
    bootstrap: Bootstrap
    spread: Spread | None  # how references and trainings vary; None where nothing says so
    draws: Draws
    areas: dict[str, Sample]  # gains, or areas between the curves of both orders, by estimator, in accuracy points
    covers: Covers

    @classmethod
    def of(cls, scores: Scores, protocol: Protocol, bootstrap: Bootstrap, spread: Spread | None, draws: Draws) -> Self:
        """Take the gains from the draws."""
        areas = gain_samples(scores, protocol, draws)
        return cls(scores, protocol, bootstrap, spread, draws, areas, covers_of(protocol, spread))

    @property
    def levels(self) -> tuple[float, ...]:
        """Return the levels above 0."""
        return self.scores.levels

    @property
    def repeated(self) -> bool:
        """Return whether there are intervals: nothing has one where nothing says how trainings vary."""
        return self.covers is not Covers.NOTHING

    def share(self, estimator: str) -> float:
        """Return what of the error of a whole course the look at a row spends; 1 where nobody looked before."""
        looks = self.scores.watched.get(estimator)
        return 1 / looks if looks else 1.0

    def confidence(self, estimators: Collection[str]) -> float:
        """Return the confidence of one interval that makes for the board's over all looks at these rows."""
        return 1 - (1 - self.bootstrap.confidence) * min(map(self.share, estimators), default=1.0)

    def estimate(self, sample: Sample | None, estimator: str = "") -> Estimate:
        """Return a number, of a row if one is named, with its interval, as far as there is one."""
        if sample is None:
            return Estimate()
        return estimate(sample, self.confidence([estimator])) if self.repeated else Estimate(sample.value)

    def area(self, estimator: str) -> Estimate:
        """Return an estimator's gain or area in accuracy points."""
        return self.estimate(self.areas.get(estimator), estimator)

    def accuracy(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy in [0, 1]."""
        value, low, high = self.estimate(self.draws.accuracy((estimator, t)), estimator)
        return Estimate(value, None if low is None else max(0.0, low), None if high is None else min(1.0, high))

    def difference(self, estimator: str, t: float) -> Estimate:
        """Return an accuracy minus Random's, or a mean of `Scores.differences` where these are, in [-1, 1]."""
        if self.draws.differences:
            return self.estimate(self.draws.differences.accuracy((estimator, t)), estimator)
        one, random = self.draws.accuracy((estimator, t)), self.draws.accuracy((RANDOM, t))
        return self.estimate(one.minus(random) if one and random else None, estimator)


class Judged(NamedTuple):
    """What gains with draws of their own say: the comparisons with 0 and with twins, and how they follow each other."""

    comparisons: Mapping[tuple[str, str], Comparison]
    places: Mapping[str, Place]  # of the rows shown
    detectable: float | None
    over_other_image: Mapping[str, Sample]
    over_twins: Mapping[str, Mapping[str, Estimate]]


def judge_gains(drawn: Drawn, shown: Collection[str], untested: Collection[str]) -> Judged:
    """Judge gains; those that can be nothing but 0 are untested, and have places alone."""
    judge = _Judge(**vars(drawn))
    tested = replace(drawn.scores, checks=drawn.scores.checks | set(untested))
    comparisons = replace(judge, scores=tested).comparisons()
    found = detectable(judge.own_pairs) if judge.placed else None
    twins = {name: judge.over_twins(name) for name in shown}
    return Judged(comparisons, judge.places(shown), found, judge.over_other_image, twins)


_Differences = dict[tuple[str, str], Sample]  # by row and control


class _Judge(Drawn):
    """Material that the rows are made from."""

    @cached_property
    def replicated(self) -> dict[str, Sample]:
        """Return the gains with the draws of a replication; none where nothing else than the images was repeated."""
        if self.covers in (Covers.NOTHING, Covers.IMAGES):
            return {}
        return gain_samples(self.scores, self.protocol, self.draws.replication)

    @cached_property
    def placed(self) -> dict[str, Sample]:
        """Return the gains of the rows that are compared, without those of checks."""
        rows = (name for name in self.scores.estimators if name not in self.scores.checks)
        return {name: self.areas[name] for name in rows if name in self.areas}

    def anchors(self, gains: Mapping[str, Sample]) -> dict[str, Sample]:
        """Return those of the suite's own rows, beside which strangers are judged; all where there is none."""
        return {name: one for name, one in gains.items() if name not in self.scores.strangers} or dict(gains)

    @cached_property
    def all_pairs(self) -> Pairs:
        return self.pairs(self.placed)

    @property
    def own_pairs(self) -> Pairs:
        own = self.anchors(self.placed)
        return self.pairs(own) if len(own) < len(self.placed) else self.all_pairs

    def pairs(self, gains: Mapping[str, Sample]) -> Pairs:
        return Pairs.of(list(gains.values()), self.confidence(self.anchors(gains)))

    def over(self, control: str) -> dict[str, Sample]:
        """Return gains minus the control's; empty where the control has none.

        Where Random's gain is 0 by construction no row is held against the chance in what was measured of it.
        """
        if control == RANDOM and self.protocol.random_is_zero:
            return self.placed
        if control not in self.areas:
            return {}
        return {name: sample.minus(self.areas[control]) for name, sample in self.placed.items()}

    @cached_property
    def over_other_image(self) -> dict[str, Sample]:
        """Return gains minus those of the same maps handed to other images, of the rows that have such a twin."""
        twins = {name: self.areas.get(twin_id(name, OTHER_IMAGE)) for name in self.placed}
        return {name: self.placed[name].minus(twin) for name, twin in twins.items() if twin}

    def over_twins(self, name: str) -> dict[str, Estimate]:
        """Return a row's gain minus that of each twin that explains something else, draw by draw."""
        twins = {kind: self.areas.get(twin_id(name, kind)) for kind in (*VARIANTS, OTHER_REFERENCE)}
        found = {kind: self.placed[name].minus(twin) for kind, twin in twins.items() if twin and name in self.placed}
        return {kind: self.estimate(sample, name) for kind, sample in found.items()}

    def comparisons(self) -> dict[tuple[str, str], Comparison]:
        if not self.repeated:
            return {}
        controls = CONTROLS[:1] if self.protocol.by_networks else CONTROLS  # 0 by construction, all of them
        pairs = {(name, control): d for control in controls for name, d in self.over(control).items()}
        pairs |= {(name, OTHER_IMAGE): d for name, d in self.over_other_image.items()}
        pairs = {(name, control): d for (name, control), d in pairs.items() if name != control}
        watched = {key: d for key, d in pairs.items() if key[0] in self.scores.watched}
        shares = {key: self.share(key[0]) for key in watched}
        found = compare(*self._joining(pairs))
        family, joining = self._joining(watched)
        found |= compare(family, joining, holm, shares)
        return {key: one._replace(difference=self.estimate(pairs[key], key[0])) for key, one in found.items()}

    def beatings(self) -> dict[str, Beating]:
        """Return the rows that see the network beside every control of the suite that does not, if all have gains."""
        silent, controls = self.scores.silent, self.scores.silent - self.scores.strangers
        if not self.repeated or not controls or not controls <= self.placed.keys():
            return {}
        asking = [name for name in self.placed if name not in silent]
        over = {control: self.over(control) for control in controls}
        pairs = {(name, control): over[control][name] for name in asking for control in controls}
        found = compare(*self._joining(pairs))
        shares = {key: self.share(key[0]) for key in pairs}
        judged = {
            key: one._replace(p=min(1.0, one.p / shares[key]), difference=self.estimate(pairs[key], key[0]))
            for key, one in found.items()
        }
        return beatings(judged, self.scores.strangers)

    def _joining(self, pairs: _Differences) -> tuple[_Differences, list[_Differences]]:
        """Return the comparisons of the suite's own rows, and those of each stranger."""
        rows: dict[str, _Differences] = {}
        for (name, control), difference in pairs.items():
            rows.setdefault(name if name in self.scores.strangers else "", {})[name, control] = difference
        return rows.pop("", {}), list(rows.values())

    def places(self, rows: Collection[str]) -> dict[str, Place]:
        """Return the places of the suite's own among these rows, and of each stranger as if it alone joined them."""
        gains = {name: sample for name, sample in self.placed.items() if name in rows}
        own = self.anchors(gains)
        joining = {n: self.confidence([*own, name]) for n, name in enumerate(gains) if name not in own}
        pairs = self.pairs(gains) if gains.keys() < self.placed.keys() else self.all_pairs
        found = place_intervals(pairs, joining) if self.repeated else places(pairs.values, joining)
        return dict(zip(gains, found, strict=True))


def _rows(judge: _Judge, shown: Collection[str], comparisons: Mapping[tuple[str, str], Comparison]) -> tuple[Row, ...]:
    positions, over_sobel, beaten = judge.places(shown), judge.over(SOBEL), judge.beatings()
    scores = judge.scores
    first = 1 if judge.protocol.retrain is Retrain.MASKS else 0  # masks alone have no point at t = 0
    return tuple(
        Row(
            estimator=name,
            seeds=min(len(scores.correct.get(point, ())) for point in scores.curve(name)[first:]),
            clean=judge.accuracy(*UNTOUCHED),
            accuracies=tuple(judge.accuracy(name, t) for t in scores.levels),
            differences=tuple(judge.difference(name, t) for t in scores.levels),
            gain=judge.area(name),
            over_sobel=judge.estimate(over_sobel.get(name), name),
            random=comparisons.get((name, RANDOM)),
            sobel=comparisons.get((name, SOBEL)),
            random_blurred=comparisons.get((name, BLURRED)),
            place=positions.get(name),
            check=name in scores.checks,
            predicted=judge.estimate(judge.replicated.get(name), name),
            over_other_image=judge.estimate(judge.over_other_image.get(name), name),
            other_image=comparisons.get((name, OTHER_IMAGE)),
            beating=beaten.get(name),
            over_twins=judge.over_twins(name),
            looks=scores.watched.get(name, 0),
        )
        for name in shown
    )
