"""Texts of warnings about a row: a short label with the comparison row, and the full sentence."""

from collections.abc import Iterator
from typing import NamedTuple

from roarbench.analysis.row_warnings import MASKS, SOME, Grade, Mark, are_warnings_about, describe_ties, find_row_marks
from roarbench.analysis.stored_results import STABLE_ENOUGH, describe_prediction_stability
from roarbench.analysis.suite_draws import Evidence
from roarbench.enums import OTHER_IMAGE, OTHER_REFERENCE
from roarbench.estimators.naming import describe_control_inputs, find_display_name
from roarbench.protocols.protocol import Protocol
from roarbench.report.table import is_off_zero
from roarbench.stats.board import Row
from roarbench.stats.verdicts import ControlComparison, Verdict
from roarbench.text import SAME, capitalize, fit_on_one_line, format_interval, typeset

LONGEST = 500  # characters of a sentence that has text from outside
_WEAKER = {  # what has a share of a gain under ROAR, within a few words
    "blurred": "its own blur",
    "untrained": "untrained network",
    OTHER_IMAGE: "another image’s map",
    "random-blurred": "blurred random",
}
_TWINS = {  # what a twin explains instead, and what a gain owes nothing to where the twin has as much
    "untrained": ("untrained network", "to training"),
    "shuffled": ("shuffled network", "to what training put into the weights"),
    "other-target": ("another class", "to the class that is explained"),
}


class Doubt(NamedTuple):
    """A reason to doubt a row, in a few words (`masks alone 53 %`) and in full; a grave one takes its success away."""

    short: str
    sentence: str
    grave: bool = False


def list_row_doubts(evidence: Evidence, protocol: Protocol, row: Row) -> tuple[Doubt, ...]:
    """Return what speaks against a row under a protocol, the gravest first.

    Args:
        evidence: Of the suite.
        protocol: Whose verdict is doubted.
        row: Of the protocol's board.
    """
    found = [_rival(row.beating, protocol)] if row.beating and not row.beating.verdict else []
    if is_off_zero(protocol, row):
        words = (
            f"It should have 0 and has {format_interval(row.gain)} points: a gain of that size may mean nothing here."
        )
        found.append(Doubt("not 0", words, grave=True))
    found += [*_twins(row, protocol), *_outside(evidence, row.estimator)]
    found += [*_ties(evidence, row.estimator), *_noise(evidence, row.estimator)]
    found += _marks(evidence, protocol, row.estimator)
    return tuple(Doubt(typeset(each.short), typeset(each.sentence), each.grave) for each in found)


def _rival(found: ControlComparison, protocol: Protocol) -> Doubt:
    """Name the control that a row is not shown to beat."""
    rival = find_display_name(found.nearest)
    side = "Below" if found.below else "Not told apart from"
    over = f"its {protocol.gain} minus that control’s is {format_interval(found.over)} points"
    short = f"{'<' if found.below else SAME} {rival.name}"
    return Doubt(short, f"{side} {rival.whole}, which {describe_control_inputs(found.nearest)}: {over}.", grave=True)


def _twins(row: Row, protocol: Protocol) -> Iterator[Doubt]:
    """Yield the twins over which a row has no gain; another reference of one kind may know as much."""
    for kind, over in row.delta_twins.items():
        found = row.over(kind)
        if kind != OTHER_REFERENCE and found and found.verdict is not Verdict.BETTER:
            short, nothing = _TWINS[kind]
            gain = f"Over the same map of this twin ({short}) its {protocol.gain} is {format_interval(over)} points"
            sign = "<" if found.verdict is Verdict.WORSE else SAME
            yield Doubt(f"{sign} {short}", f"{gain}: nothing shows that it owes anything {nothing}.", grave=True)


def _outside(evidence: Evidence, name: str) -> Iterator[Doubt]:
    """Yield what `validate` found, who vouches for it, and code that was not committed."""
    results = evidence.suite_results
    for short, text in (("see validate", results.findings.get(name)), ("run elsewhere", results.doubts.get(name))):
        if text:
            yield Doubt(
                short, f"{capitalize(fit_on_one_line(text, LONGEST)).rstrip('.')}.", grave=short == "see validate"
            )
    made = results.by_estimator.get(name, ())
    changed = sum("dirty" in result.provenance.code_version for _, result in made)
    if changed:
        words = f"{changed} of its {len(made)} runs are by code with changes that were not committed."
        yield Doubt("changed code", words)


def _ties(evidence: Evidence, name: str) -> Iterator[Doubt]:
    if words := describe_ties(evidence.suite_results, name):
        yield Doubt(f"{evidence.suite_results.ties[name]:.0%} of features tie", f"{capitalize(words)}.")


def _noise(evidence: Evidence, name: str) -> Iterator[Doubt]:
    share = evidence.suite_results.prediction_stability.get(name)
    if share is not None and share < STABLE_ENOUGH:
        sentence = f"{describe_prediction_stability(share)} So it often explains another class."
        yield Doubt(f"{share:.0%} of noisy copies keep their class", sentence)


def _marks(evidence: Evidence, protocol: Protocol, name: str) -> Iterator[Doubt]:
    """Yield what else has a share of a row's gain under ROAR, and masks that tell the class by themselves."""
    here = are_warnings_about(protocol)
    aside = "" if here else f" This counts under ROAR; {protocol.gain} rewards neither smooth maps nor telling masks."
    for mark in find_row_marks(evidence, name):
        if mark.kind == MASKS:
            yield from _masks(evidence, mark, name, aside)
        elif mark.words:
            short = f"{_WEAKER[mark.kind]} {mark.share.value:.0%}"
            grave = here and mark.grade is Grade.STRONG
            yield Doubt(short if here else f"ROAR: {short}", f"{capitalize(mark.words)}.{aside}", grave)


def _masks(evidence: Evidence, mark: Mark, name: str, aside: str) -> Iterator[Doubt]:
    """Yield how much a row's masks tell by themselves, where it is half of what its images tell or more.

    One training on masks has no interval, and so no share: its value is said as it is.
    """
    t = evidence.mask_level
    alone, images = (drawn.accuracy(name, t) for drawn in (evidence.masks, evidence.roar))
    chance = 1 / evidence.suite_results.classes
    told, whole = ((each.value or 0) - chance for each in (alone, images))
    if mark.grade is Grade.NONE or evidence.suite_results.at_chance or told <= SOME * max(whole, 0):
        return
    seen, beside = (format_interval(each, "{:.1%}".format) for each in (alone, images))
    sentence = (
        f"Networks that see only where features are missing answer {seen} at t = {t:g}, those that see what is left of "
        f"the images {beside}; a guess is right on {chance:.0%}.{aside}"
    )
    yield Doubt(f"masks alone {alone.value or 0:.0%}", sentence, not aside and mark.grade is Grade.STRONG)
