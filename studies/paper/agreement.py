"""Make tables of the agreement between protocols, data sets, levels, machines and replications."""

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import kendalltau

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order
from roarbench.common.text import MISSING, format_markdown_table
from roarbench.plan.protocols import KAR, OWN_NETWORK, ROAR
from roarbench.report.paper_claims import read_hooker2019
from roarbench.report.replication_comparison import compare_under_protocol
from roarbench.stats.board_agreement import Replication, compute_agreement
from roarbench.stats.contrasts import Contrast
from roarbench.stats.intervals import Estimate
from roarbench.stats.verdicts import Verdict, decide_verdicts
from studies.page import format_agreement
from studies.paper.published import (
    HALF,
    HIGH,
    OTHER_LEVELS,
    UNTRAINED,
    DataSet,
    OtherMachine,
    measure_gains_at,
    measure_own_network_gains,
)

CONFIDENCE = 0.95
HOLDS = 0.6  # minimum Kendall's tau of orders that agree
_DIFFERS = 0.3  # below this tau, the order at .9 does not stand for the order at another level
_SIGNS = (Verdict.BETTER, Verdict.WORSE)  # significantly above and below 0
_ORDER_HEADS = ("orders", "rows", "Kendall's tau [95 %]", "settled pairs", "verdict")
_SAME, _INSIDE = 0.8, 0.9  # if the machine does not matter: minimum tau, and share of differences within the error


def orders(sets: list[DataSet]) -> str:
    """Make a table of the agreement of orders of estimators between protocols, and between data sets."""
    rows = []
    for dataset in sets:
        whole = dataset.whole(OWN_NETWORK) and dataset.whole(ROAR)
        rows.append(
            _order(f"both questions: {dataset.name}", dataset.own_gains, dataset.gains(ROAR), whole, _same_question)
        )
    for dataset in sets:
        whole = dataset.whole(KAR) and dataset.whole(ROAR)
        rows.append(
            _order(
                f"KAR, ROAR at .9: {dataset.name}", dataset.gains(KAR), dataset.gains(ROAR), whole, judge_contradiction
            )
        )
    for (one_name, one), (other_name, other) in combinations(UNTRAINED.items(), 2):
        for dataset in sets:
            whole = dataset.whole(one) and dataset.whole(other)
            samples = dataset.gains(one), dataset.gains(other)
            rows.append(_order(f"{one_name}, {other_name}: {dataset.name}", *samples, whole, _same_question))
    for first, second in combinations(sets, 2):
        for question, protocol in (("own-network gain", OWN_NETWORK), ("ROAR at .9", ROAR), ("KAR at .9", KAR)):
            whole = first.whole(protocol) and second.whole(protocol)
            samples = first.gains(protocol), second.gains(protocol)
            rows.append(_order(f"{question}: {first.name}, {second.name}", *samples, whole, judge_carry_over))
        halves = first.other_gains[ROAR, HALF], second.other_gains[ROAR, HALF]
        whole = first.whole(ROAR) and second.whole(ROAR)
        rows.append(_order(f"ROAR at .5: {first.name}, {second.name}", *halves, whole, judge_carry_over))
    return format_markdown_table(_ORDER_HEADS, filter(None, rows))


def levels(sets: list[DataSet]) -> str:
    """Make a table that says whether ROAR orders estimators at other levels as at .9, here and in the paper."""
    rows = []
    for level in OTHER_LEVELS:
        for data, curves in read_hooker2019(Order.MORF).items():
            tau = kendalltau(*zip(*((curve[level], curve[HIGH]) for curve in curves.values()), strict=True)).statistic
            rows.append([f"{level:g}", f"{data}, paper", str(len(curves)), f"{tau:+.2f}", MISSING, MISSING])
        for dataset in sets:
            order = _order(dataset.name, dataset.other_gains[ROAR, level], dataset.gains(ROAR), True, _stands_for)
            rows += [[f"{level:g}", *order]] if order else []
    heads = ("level", "data set", "rows", "Kendall's tau with .9 [95 %]", "settled pairs", "verdict")
    return format_markdown_table(heads, rows)


def own_network_levels(sets: list[DataSet]) -> str:
    """Make a table that compares own-network gain at the lowest and the highest level; verdicts are adjusted by level.

    A gain is *reversed* if it is significantly above 0 at one of both levels and below 0 at the other.
    """
    rows = []
    for dataset in sets:
        first, *_, last = dataset.own_gains_by_level.items()
        signs = [decide_verdicts(samples) for _, samples in (first, last)]
        counts = [sum(sign is verdict for sign in by_row.values()) for verdict in _SIGNS for by_row in signs]
        turned = sum({signs[0][name], signs[1][name]} == {*_SIGNS} for name in first[1])
        agreement = compute_agreement(first[1], last[1])
        assert agreement is not None, "every data set has own-network gains"
        at = f"{first[0]:g}, {last[0]:g}"
        cells = (len(first[1]), *counts, turned)
        rows.append([dataset.name, at, *map(str, cells), *format_agreement(agreement)])
    heads = [f"{side} 0, {level}" for side in ("above", "below") for level in ("low level", "high level")]
    return format_markdown_table(
        ("data set", "levels", "rows", *heads, "reversed", "Kendall's tau of both levels [95 %]", "settled pairs"), rows
    )


def kar_levels(sets: list[DataSet]) -> str:
    """Make a table that says whether KAR orders estimators at other levels as at .9, and as ROAR does."""
    rows = []
    for dataset in sets:
        for level in OTHER_LEVELS:
            kar, roar = dataset.other_gains[KAR, level], dataset.other_gains[ROAR, level]
            high = f"KAR at {level:g} and at {HIGH:g}: {dataset.name}"
            rows.append(_order(high, kar, dataset.gains(KAR), True, _stands_for))
            rows.append(_order(f"KAR and ROAR at {level:g}: {dataset.name}", kar, roar, True, judge_contradiction))
    return format_markdown_table(_ORDER_HEADS, filter(None, rows))


def _order(
    name: str,
    one: Mapping[str, Contrast],
    other: Mapping[str, Contrast],
    whole: bool,
    judged: Callable[[Estimate], str],
) -> list[str]:
    agreement = compute_agreement(one, other)
    if agreement is None:
        return []
    verdict = judged(agreement.tau) if whole else "not yet whole"
    return [name, str(agreement.rows), *format_agreement(agreement), verdict]


def _same_question(tau: Estimate) -> str:
    return "they agree" if (tau.value or 0.0) >= HOLDS else "they ask different things"


def judge_contradiction(tau: Estimate) -> str:
    """Return whether two protocols order the same rows alike or contradict each other."""
    if (tau.value or 0.0) >= HOLDS and (tau.low or 0.0) > 0:
        return "they agree"
    return "they contradict each other" if (tau.high or 0.0) < 0 else "open"


def judge_carry_over(tau: Estimate) -> str:
    """Return whether an order carries over from one suite to another, by the rule of plan.md."""
    return "carries over" if (tau.low or 0.0) > 0 else "does not" if (tau.high or 0.0) < HOLDS else "open"


def _stands_for(tau: Estimate) -> str:
    value, low, high = (bound or 0.0 for bound in (tau.value, tau.low, tau.high))
    if value >= HOLDS and low > 0:
        return "stands for it"
    return "does not" if value < _DIFFERS or high < HOLDS else "open"


def machines(sets: list[DataSet]) -> str:
    """Make a table that compares gains from another machine with the published gains."""
    rows = []
    for dataset in sets:
        for other, results in dataset.elsewhere.items():
            here, there = (_draw_gains_of(other, part) for part in (dataset.results, results))
            if found := compute_agreement(here, there):
                gaps = [measure_gap(here[name], there[name]) for name in here.keys() & there.keys()]
                inside = sum(gap.inside for gap in gaps)
                gain = f"{other.protocol.title} at {other.level:g}" if other.level else "own-network gain"
                rows.append(
                    [
                        *(dataset.name, gain, other.machine, str(found.rows), *format_agreement(found)),
                        f"{inside} of {len(gaps)}",
                        f"{max(gap.points for gap in gaps):.1f}",
                        judge_machine(found.tau, found.opposed or 0, inside / len(gaps)),
                    ]
                )
    heads = ("data set", "gain", "other machine", "rows", "Kendall's tau [95 %]", "settled pairs")
    return format_markdown_table((*heads, "differences within the error", "largest, points", "the machine"), rows)


def _draw_gains_of(other: OtherMachine, results: SuiteResults) -> dict[str, Contrast]:
    if other.protocol is OWN_NETWORK:
        return measure_own_network_gains(results)
    return measure_gains_at(results, other.protocol, other.level)


class Gap(NamedTuple):
    """Difference between one row's gains on two machines."""

    points: float
    inside: bool  # whether it is at most 1.96 times the standard error of the difference


def measure_gap(one: Contrast, other: Contrast) -> Gap:
    """Measure the difference of one row's gains on two machines."""
    points = abs(one.value - other.value)
    return Gap(points, points <= 1.96 * float(np.sqrt(one.spread.totals[0] + other.spread.totals[0])))


def judge_machine(tau: Estimate, opposed: int, inside: float) -> str:
    """Return the verdict of plan.md's fourth test; `inside` is the share of differences within the error."""
    value, low = tau.value or 0.0, tau.low or 0.0
    if opposed or value < HOLDS:
        return "matters"
    return "does not matter" if value >= _SAME and low > 0 and inside >= _INSIDE else "open"


def replication(sets: list[DataSet]) -> str:
    """Make a table that compares each board with its replication with other seeds and explained networks."""
    rows = []
    for dataset in (one for one in sets if one.again.results):
        for protocol in dict.fromkeys(block.protocol for block in dataset.results.suite.blocks):
            if found := compare_under_protocol(protocol, dataset.high, dataset.again, dataset.results.suite):
                rows.append([dataset.name, protocol.name, *_again(found)])
    heads = ("data set", "protocol", "rows", "equal verdicts", "opposed", "gains in the prediction interval", "tau")
    return format_markdown_table(heads, rows)


def _again(found: Replication) -> list[str]:
    tau = MISSING if found.tau is None else f"{found.tau:+.2f}"
    equal, inside = f"{found.equal} of {found.verdicts}", f"{found.inside} of {found.gains}"
    return [str(len(found.rows)), equal, str(found.opposed), inside, tau]
