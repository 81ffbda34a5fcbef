"""The validity panel: what experts object to in ROAR, answered for each estimator from the stored answers.

The numbers and the rule of the marks are explained in docs/validity.md. A row that the suite does not have, or that has
not run, is missing everywhere: None, never 0.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from roarbench.analysis.agreements import Compared, agreements
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Drawn, Evidence
from roarbench.estimators import TWINS
from roarbench.plan.runs import CLEAN
from roarbench.stats.board import RANDOM
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample
from roarbench.stats.shares import share
from roarbench.terms import OTHER_IMAGE, Unit
from roarbench.text import interval

KINDS = (*TWINS, "redrawn")  # of twins; `redrawn` is Random's alone
SOME, STRONG = 0.5, 0.9  # a mark whose share is above this, with the lower end of its interval, has this grade
BLURRED_MAP, MASKS = "random-blurred", "masks"
MARKS = {  # by kind, what has a share of the gain; of masks, of the images' accuracy above chance
    "blurred": "its blurred twin, which adds no information,",
    "untrained": "its untrained twin, which has learnt nothing,",
    OTHER_IMAGE: "its map of another image",
    BLURRED_MAP: "a blurred random map",
    MASKS: "its mask alone",
}


class Twin(NamedTuple):
    """A check made from an estimator.

    Attributes:
        gain: Of the twin, in accuracy points.
        difference: Its gain minus the estimator's, in accuracy points, paired.
    """

    gain: Estimate
    difference: Estimate


class Grade(StrEnum):
    """Weight of what speaks against a row."""

    NONE = "none"
    SOME = "some"
    STRONG = "strong"


class Mark(NamedTuple):
    """One thing that may speak against a row.

    Attributes:
        kind: One of `MARKS`.
        share: Of the row's gain that a map which knows less has, too; of masks, of the images' accuracy above chance
            that masks alone have. 1 is all of it. Missing where the row has no gain.
        grade: By the lower end of the interval; None without an interval.
    """

    kind: str
    share: Estimate
    grade: Grade | None

    @property
    def words(self) -> str:
        """Return the mark in words; empty where it is not graded some or strong."""
        if self.grade in (None, Grade.NONE):
            return ""
        whole = "of its images' accuracy above chance" if self.kind == MASKS else "of its gain"
        return f"{MARKS[self.kind]} has {interval(self.share, '{:.0%}'.format)} {whole} ({self.grade})"


@dataclass(frozen=True)
class Flag:
    """Reason to doubt a row.

    Attributes:
        grade: The highest of its marks.
        reason: In one sentence; empty where nothing speaks against the row.
    """

    grade: Grade
    reason: str

    @property
    def sign(self) -> str:
        """Return what stands beside the row's name: `(!!)` for a strong mark, `(!)` for any other reason."""
        return "(!!)" if self.grade is Grade.STRONG else "(!)" if self.reason else ""


@dataclass(frozen=True)
class Validity:
    """One estimator's row of the panel.

    Attributes:
        estimator: Its id.
        gain: In accuracy points, as the board has it.
        masks: Mask-only accuracy per level of the panel's `mask_levels`, in [0, 1].
        over_random: That minus Random's mask-only accuracy, in [-1, 1], paired.
        smoothness: Of the removed features of the test images per level of the panel, see `smoothness`.
        twins: By kind, one of `KINDS`; those that the suite has.
        units: Gain by unit, in accuracy points; those that the suite has.
        fills: Gain by fill, in accuracy points; those that the suite has.
        retrained_gap: Area between its KAR and its ROAR curve, in accuracy points (DiffROAR, Shah et al. 2021).
        reference_gap: The same without retraining (SRG, Bluecher et al. 2024).
        above_masks: Accuracy under ROAR minus mask-only accuracy per level of `mask_levels`, in [-1, 1], paired.
        marks: What speaks against the row and by how much, in the order of `MARKS`; those that the suite has.
        floor: Levels at which its images tell no more than its mask.
        flag: Why the row should be doubted.
    """

    estimator: str
    gain: Estimate
    masks: tuple[Estimate, ...]
    over_random: tuple[Estimate, ...]
    smoothness: tuple[float | None, ...]
    twins: dict[str, Twin]
    units: dict[Unit, Estimate]
    fills: dict[str, Estimate]
    retrained_gap: Estimate
    reference_gap: Estimate
    above_masks: tuple[Estimate, ...]
    marks: tuple[Mark, ...]
    floor: tuple[float, ...]
    flag: Flag


@dataclass(frozen=True)
class Panel:
    """The rows of a suite with what they share.

    Attributes:
        suite_results: The suite and its results.
        unit: What one feature is: that of the suite's first ROAR block, but in `units`.
        bootstrap: Resamples, seed and confidence of every interval here.
        repeated: Whether anything says how trainings vary; if not, there are values without intervals and no flags.
        chance: Accuracy of a guess, 1 / classes.
        levels: Of ROAR.
        mask_levels: Of the mask-only networks.
        retrained_levels: Those that ROAR and KAR share, over which the area between them is taken; 0 comes with them.
        reference_levels: Those that both orders share without retraining.
        rows: Estimators and controls, without their twins, in the suite's order.
        agreements: ROAR's order of these rows against that of other protocols, units, fills and suites.
    """

    suite_results: SuiteResults
    unit: Unit
    bootstrap: Bootstrap
    repeated: bool
    chance: float
    levels: tuple[float, ...]
    mask_levels: tuple[float, ...]
    retrained_levels: tuple[float, ...]
    reference_levels: tuple[float, ...]
    rows: tuple[Validity, ...]
    agreements: tuple[Compared, ...]


def panel(
    suite_results: SuiteResults,
    bootstrap: Bootstrap | None = None,
    others: Iterable[SuiteResults] = (),
    unit: Unit | None = None,
) -> Panel:
    """Return the validity panel of what a store has of a suite.

    Args:
        suite_results: The suite and its results.
        bootstrap: How often and from which seed; 2000 draws from seed 0 if not given.
        others: Other suites, whose orders of the estimators are compared with this one's.
        unit: What one feature is; that of each suite's first ROAR block if not given.

    Raises:
        CallerError: A suite has not this unit.
    """
    evidence = Evidence.of(suite_results, bootstrap, unit)
    return panel_of(evidence, [Evidence.of(other, evidence.bootstrap, unit) for other in others])


def panel_of(evidence: Evidence, others: Iterable[Evidence] = ()) -> Panel:
    """Return the validity panel from draws that may be there already; the others' are from the same bootstrap."""
    suite_results = evidence.suite_results
    return Panel(
        suite_results=suite_results,
        unit=evidence.unit,
        bootstrap=evidence.bootstrap,
        repeated=evidence.roar.repeated,
        chance=1 / suite_results.classes,
        levels=evidence.roar.levels,
        mask_levels=evidence.masks.levels,
        retrained_levels=evidence.retrained.levels,
        reference_levels=evidence.reference.levels,
        rows=tuple(_row(evidence, name) for name in suite_results.suite.placed),
        agreements=agreements(evidence, suite_results.suite.placed, others),
    )


def flags_of(evidence: Evidence) -> dict[str, Flag]:
    """Return why rows should be doubted, of every estimator where something says so."""
    doubts = evidence.suite_results.doubts  # of all rows; of twins, which stand in tables too, nothing else is judged
    found = {name: Flag(Grade.NONE, _sentence([words])) for name, words in doubts.items() if name != CLEAN}
    found |= {name: _flag(evidence, name) for name in evidence.suite_results.suite.placed}
    return {name: flag for name, flag in found.items() if flag.reason}


def marks_of(evidence: Evidence) -> dict[str, tuple[Mark, ...]]:
    """Return what speaks against each row and by how much, doubted or not."""
    return {name: _marks(evidence, name) for name in evidence.suite_results.suite.placed}


def floors_of(evidence: Evidence) -> dict[str, tuple[float, ...]]:
    """Return the rows whose images tell no more than their masks, each with the levels where they do not."""
    found = {name: _floor(evidence, name) for name in evidence.suite_results.suite.placed}
    return {name: levels for name, levels in found.items() if levels}


def floor_words(floors: Mapping[str, tuple[float, ...]]) -> str:
    """Return in a sentence which rows are at the floor; empty where none is."""
    if not floors:
        return ""
    rows = ", ".join(f"{name} (t = {', '.join(f'{t:g}' for t in levels)})" for name, levels in floors.items())
    return f"At the floor: {rows}: its images tell no more than its mask."


def _row(evidence: Evidence, name: str) -> Validity:
    roar, masks = evidence.roar, evidence.masks
    return Validity(
        estimator=name,
        gain=roar.area(name),
        masks=tuple(masks.accuracy(name, t) for t in masks.levels),
        over_random=tuple(masks.over_random(name, t) for t in masks.levels),
        smoothness=tuple(evidence.smoothness.get((name, t)) for t in roar.levels),
        twins=_twins(roar, name),
        units={unit: drawn.area(name) for unit, drawn in evidence.units.items()},
        fills={fill: drawn.area(name) for fill, drawn in evidence.fills.items()},
        retrained_gap=evidence.retrained.area(name),
        reference_gap=evidence.reference.area(name),
        above_masks=tuple(evidence.above_masks(name, t) for t in masks.levels),
        marks=_marks(evidence, name),
        floor=_floor(evidence, name),
        flag=_flag(evidence, name),
    )


def _twins(roar: Drawn, name: str) -> dict[str, Twin]:
    own, twins = roar.areas.get(name), {}
    for kind in KINDS:
        twin = f"random-{kind}" if name == RANDOM else f"{name}~{kind}"
        if twin in roar.scores.estimators:
            gain = roar.areas.get(twin)
            twins[kind] = Twin(roar.estimate(gain), roar.estimate(gain.minus(own) if gain and own else None))
    return twins


def _flag(evidence: Evidence, name: str) -> Flag:
    """Return all reasons to doubt a row in one sentence, the strongest marks first."""
    marks = sorted(_marks(evidence, name), key=lambda mark: mark.grade is not Grade.STRONG)
    grades = {mark.grade for mark in marks}
    reasons = [evidence.suite_results.doubts.get(name, ""), *(mark.words for mark in marks)]
    return Flag(
        max((grade for grade in Grade if grade in grades), key=list(Grade).index, default=Grade.NONE),
        _sentence(reasons),
    )


def _sentence(reasons: Iterable[str]) -> str:
    text = "; ".join(filter(None, reasons))
    return text and f"{text[0].upper()}{text[1:]}."


def _marks(evidence: Evidence, name: str) -> tuple[Mark, ...]:
    """Return the marks of a row: of its gain those that a map which knows less has a share in, and that of its masks.

    A row that is not significantly better than Random has no gain, and nothing to share.
    """
    roar = evidence.roar
    own = roar.areas.get(name)
    others = {kind: roar.areas.get(f"{name}~{kind}") for kind in ("blurred", "untrained", OTHER_IMAGE)}
    others[BLURRED_MAP] = roar.areas.get(BLURRED_MAP) if name not in (RANDOM, BLURRED_MAP) else None
    gains = {kind: _mark(evidence, kind, other, own) for kind, other in others.items() if own and other}
    masks = _masks(evidence, name)
    return (*gains.values(), *([masks] if masks else []))


def _mark(evidence: Evidence, kind: str, part: Sample, whole: Sample) -> Mark:
    """Return a mark; without intervals, or at chance, no share is known."""
    known = evidence.roar.repeated and (kind != MASKS or evidence.masks.repeated)
    if not known or evidence.suite_results.at_chance:
        return Mark(kind, Estimate(), None)
    found = share(part, whole, evidence.bootstrap.confidence)
    if found.low is None:
        return Mark(kind, found, None)
    return Mark(kind, found, Grade.STRONG if found.low > STRONG else Grade.SOME if found.low > SOME else Grade.NONE)


def _masks(evidence: Evidence, name: str) -> Mark | None:
    """Return the mark of masks alone at the highest level that both have; None where there is none.

    The level is fixed and not chosen by what is found there, so that the error rate is that of one comparison.
    """
    levels = [t for t in evidence.masks.levels if t in evidence.roar.levels]
    if not levels:
        return None
    alone, images = (drawn.draws.accuracy((name, levels[-1])) for drawn in (evidence.masks, evidence.roar))
    if alone is None or images is None:
        return None
    chance = 1 / evidence.suite_results.classes
    return _mark(evidence, MASKS, *(Sample(found.value - chance, found.draws - chance) for found in (alone, images)))


def _floor(evidence: Evidence, name: str) -> tuple[float, ...]:
    """Return the levels at which images are not significantly better than masks alone; none without intervals."""
    if evidence.suite_results.at_chance:
        return ()
    lows = {t: evidence.above_masks(name, t).low for t in evidence.masks.levels}
    return tuple(t for t, low in lows.items() if low is not None and low <= 0)
