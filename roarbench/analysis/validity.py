"""The validity panel: what experts object to in ROAR, answered for each estimator from the stored answers.

Every number and the rule of the flag are explained in docs/validity.md. A row that the suite does not have, or that has
not run, is missing everywhere: None, never 0.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from roarbench.analysis.agreements import Compared, agreements
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Drawn, Evidence
from roarbench.estimators import TWINS
from roarbench.plan.runs import CLEAN
from roarbench.stats.board import RANDOM
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, half_width
from roarbench.terms import Unit

KINDS = (*TWINS, "redrawn")  # of twins; `redrawn` is Random's alone
DOUBTING = {  # twins that cannot be better unless the benchmark rewards something else than information
    "blurred": "its blurred twin, which adds no information,",
    "untrained": "its untrained twin, which has learnt nothing,",
}


class Twin(NamedTuple):
    """A check made from an estimator.

    Attributes:
        gain: Of the twin, in accuracy points.
        difference: Its gain minus the estimator's, in accuracy points, paired.
    """

    gain: Estimate
    difference: Estimate


class Concern(NamedTuple):
    """Something that may speak against a row.

    Attributes:
        size: How much of it there is; None where it is not known.
        reason: Why the row should be doubted for it; empty where it should not.
    """

    size: float | None = None
    reason: str = ""


class Concerns(NamedTuple):
    """The two commonest.

    Attributes:
        twin: Its blurred twin gains more than it: by so many accuracy points.
        masks: Where its features are missing tells the class: accuracy of networks that see nothing else, in [0, 1],
            at the level where it is farthest above Random's.
    """

    twin: Concern = Concern()
    masks: Concern = Concern()


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
        flag: Why the row should be doubted, in one sentence; empty where nothing says so.
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
    flag: str


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


def flags(suite_results: SuiteResults, unit: Unit, bootstrap: Bootstrap | None = None) -> dict[str, str]:
    """Return in one sentence why a row should be doubted, for every estimator where this unit's cells say so."""
    return flags_of(Evidence(suite_results, unit, bootstrap or Bootstrap()))


def flags_of(evidence: Evidence) -> dict[str, str]:
    """Return the flags of `flags` from draws that may be there already."""
    doubts = evidence.suite_results.doubts  # of all rows; of twins, which stand in tables too, nothing else is judged
    found = {name: _sentence([words]) for name, words in doubts.items() if name != CLEAN}
    found |= {name: _flag(evidence, name) for name in evidence.suite_results.suite.placed}
    return {name: flag for name, flag in found.items() if flag}


def concerns_of(evidence: Evidence) -> dict[str, Concerns]:
    """Return how large the two commonest reasons to doubt a row are, for every row, doubted or not."""
    rows = evidence.suite_results.suite.placed
    return {name: Concerns(_twin(evidence, name), _masks(evidence, name)) for name in rows}


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


def _flag(evidence: Evidence, name: str) -> str:
    """Return all reasons to doubt a row in one sentence; Random is doubted for its origin alone."""
    reasons = [evidence.suite_results.doubts.get(name, "")]
    reasons += [_twin(evidence, name, kind).reason for kind in DOUBTING]
    reasons += [_masks(evidence, name).reason]
    return _sentence(reasons)


def _sentence(reasons: Iterable[str]) -> str:
    text = "; ".join(filter(None, reasons))
    return text and f"{text[0].upper()}{text[1:]}."


def _twin(evidence: Evidence, name: str, kind: str = "blurred") -> Concern:
    """Check whether the twin is at least as good: its gain is no smaller, and an interval says how sure that is.

    The estimator has to show that it beats a twin that knows less, so a tie speaks against it. A lead of the estimator
    that is not significant is yet no reason: with few seeds that would doubt every row, and the flag would tell the
    suite's size. So an estimator that truly leads is doubted less often than not however few the seeds, and hardly
    ever if it leads by what the suite can find; one that is truly equal is doubted every second time. The words say
    whether the twin is significantly better. One training per cell says nothing either way.
    """
    own, twins = evidence.roar.area(name), _twins(evidence.roar, name)
    if name == RANDOM or kind not in twins or own.value is None or twins[kind].gain.value is None:
        return Concern()
    gain, (lead, low, _) = twins[kind]
    if low is None or lead is None or lead < 0 or evidence.suite_results.at_chance:
        return Concern(lead)
    verb = "gains more" if low > 0 else "gains no less"
    return Concern(lead, f"{DOUBTING[kind]} {verb} ({gain.value:+.1f} against {own.value:+.1f} points)")


class _Leak(NamedTuple):
    """Accuracies at a level: from an estimator's removed-maps alone, from Random's, and from the degraded images."""

    t: float
    alone: Sample
    random: Sample
    images: Sample


def _masks(evidence: Evidence, name: str) -> Concern:
    """Check whether mask-only accuracy is far above Random's at some level; name the level with the largest lead."""
    confidence, known = evidence.bootstrap.confidence, evidence.masks.repeated and evidence.roar.repeated
    known = known and not evidence.suite_results.at_chance
    leaks = list(_leaks(evidence, name))
    far = [leak for leak in leaks if known and name != RANDOM and _is_far(leak, confidence)]
    worst = max(far or leaks, key=lambda leak: leak.alone.minus(leak.random).value, default=None)
    if worst is None or not far:
        return Concern(worst.alone.value if worst else None)
    alone, random, images = (f"{100 * sample.value:.1f}%" for sample in (worst.alone, worst.random, worst.images))
    words = f"where its features are missing tells the class without the images ({alone} at t = {worst.t:g}"
    return Concern(worst.alone.value, f"{words}; {random} with Random, {images} with the images)")


def _leaks(evidence: Evidence, name: str) -> Iterator[_Leak]:
    masks, images = evidence.masks.draws, evidence.roar.draws
    for t in evidence.masks.levels:
        alone, random, seen = masks.accuracy((name, t)), masks.accuracy((RANDOM, t)), images.accuracy((name, t))
        if alone and random and seen:
            yield _Leak(t, alone, random, seen)


def _is_far(leak: _Leak, confidence: float) -> bool:
    """Return whether mask-only accuracy is significantly above Random's and nearer to ROAR's accuracy than to it.

    Nearer means: most of what the retrained network knows beyond Random's masks can be read from where features are
    missing. A number of points would mean other things for 10 classes and for 1,000. Both lower ends must be above 0.
    """
    lead = leak.alone.minus(leak.random)
    nearer = lead.minus(leak.images.minus(leak.alone))
    return all(sample.value > half_width(sample, confidence) for sample in (lead, nearer))
