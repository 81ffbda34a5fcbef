"""Write the tables and figures of studies/paper/README.md from the published rows under results/ alone.

python -m studies.paper
"""

from collections.abc import Callable, Mapping
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import kendalltau

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.levels_of_partly_run_protocols import keep_common_levels
from roarbench.analysis.paper_claims import CLAIMS, ClaimFinding, read_hooker2019
from roarbench.analysis.suite_results import SuiteResults
from roarbench.enums import Order, Unit
from roarbench.estimators.catalogue import PAPER, find_estimator, format_id_with_samples
from roarbench.plan.planned_runs import expand_points
from roarbench.plan.protocols import LERF, MORF, OWN_NETWORK, ROAR, Protocol
from roarbench.report.claim_table import compute_accuracy_tables, list_claim_verdicts
from roarbench.report.replication_comparison import compare_under_protocol
from roarbench.stats.board import Row
from roarbench.stats.board_agreement import Replication, compute_agreement
from roarbench.stats.bootstrap import Estimate, Sample
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from roarbench.text import MISSING, format_interval, format_markdown_table
from studies.page import format_verdict, make_parser, write_tables
from studies.paper.figures import draw_fronts, draw_questions, draw_readme_picture
from studies.paper.others import others
from studies.paper.published import (
    HALF,
    HIGH,
    OTHER_LEVELS,
    DataSet,
    OtherMachine,
    cost,
    draw_own_network_gains,
    draw_roar_gains,
    format_accuracy,
    front,
    keep_roar_level,
    read_sets,
    share_done,
    value_of,
)

HERE = Path(__file__).parent
CONFIDENCE, EXPLAINS = 0.95, OwnNetworkVerdict.EXPLAINS
_UNTRAINED = {"own-network gain": OWN_NETWORK, "MoRF": MORF, "LeRF": LERF}
_SHOWN = 4  # estimators of each order in the table of the best
_SAME, _INSIDE = 0.8, 0.9  # least tau, and least share of differences within the error, of rows of two machines
_DIFFERS = 0.3  # below this tau, the order at .9 does not stand for the order at another level
HOLDS = 0.6  # Kendall's tau from here on says that an order carries over


def counts(sets: list[DataSet]) -> str:
    """Return how many runs of each suite are published, by protocol."""
    protocols = list(dict.fromkeys(block.protocol for each in sets for block in each.results.suite.blocks))
    rows = []
    for each in sets:
        asked, done = expand_points(each.results.suite), each.results.results
        shares = [_share(each.results, protocol) for protocol in protocols]
        rows.append([each.name, f"{len(done):,} of {len(asked):,}", *shares])
    return format_markdown_table(("data set", "runs", *(protocol.name for protocol in protocols)), rows)


def _share(results: SuiteResults, protocol: Protocol) -> str:
    done = share_done(results, protocol)
    return "whole" if done == 1 else f"{done:.0%}" if done else MISSING


def claims(sets: list[DataSet]) -> str:
    """Return each claim of the paper with its verdict on the paper's table and on each data set."""
    shown = [each for each in sets if each.samples(ROAR)]
    records = [list_claim_verdicts(SuiteDraws.of(keep_common_levels(each.results))) for each in shown]
    rows = []
    for number, claim in enumerate(CLAIMS):
        found = [record[number] for record in records]
        published = found[0]["published"] if found else list_claim_verdicts(None)[number]["published"]
        rows.append([claim.text, str(ClaimFinding(**published)), *(_ours(each["ours"]) for each in found)])
    return format_markdown_table(("claim", "the paper", *(each.name for each in shown)), rows)


def _ours(record: Mapping[str, Any]) -> str:
    return str(ClaimFinding(**{name: value for name, value in record.items() if name != "significant"}))


def accuracies(sets: list[DataSet]) -> str:
    """Return the accuracy after retraining without the first 90 %: the paper's and ours."""
    return _accuracies_at(HIGH, {each.name: each.results for each in sets if each.roar})


def accuracies_at_50(sets: list[DataSet]) -> str:
    """Return the accuracy after retraining without the first half: the paper's and ours."""
    return _accuracies_at(HALF, {each.name: each.results for each in sets if each.other_roar_samples[HALF]})


def _accuracies_at(level: float, by_set: Mapping[str, SuiteResults]) -> str:
    published = read_hooker2019(Order.MORF)
    kept = [keep_roar_level(results, level) for results in by_set.values()]
    tables = [compute_accuracy_tables(results, Unit.SCALAR).roar[results.suite.dataset] for results in kept]
    rows = [
        [
            "nothing removed",
            *(format_accuracy(next(iter(of.values()), {}), 0.0) for of in (*published.values(), *tables)),
        ]
    ]
    for name in ("random", "sobel", "sobel-released", "random-blurred", *PAPER):
        rows.append([f"`{name}`", *(format_accuracy(of.get(name, {}), level) for of in (*published.values(), *tables))])
    return format_markdown_table(("removed first", *(f"{name}, paper" for name in published), *by_set), rows)


def estimators(sets: list[DataSet]) -> str:
    """Return every estimator with its passes, and both gains on each data set."""
    names = dict.fromkeys(name for each in sets for name in (*each.own, *each.samples(ROAR)))
    order = sorted(names, key=lambda name: -max(value_of(each.own.get(name)) for each in sets))
    heads = ["estimator", "passes"]
    heads += [f"own-network, {each.name}" for each in sets if each.own]
    heads += [f"ROAR at .9, {each.name}" for each in sets if each.samples(ROAR)]
    rows = []
    for name in order:
        own = [_gain(each.own.get(name)) for each in sets if each.own]
        roar = [_judged(each.roar.get(name)) for each in sets if each.samples(ROAR)]
        rows.append([f"`{format_id_with_samples(name)}`", f"{cost(name):,}", *own, *roar])
    return format_markdown_table(heads, rows)


def _gain(row: Row | None) -> str:
    if row is None:
        return MISSING
    return f"{format_interval(row.gain)}{' **yes**' if row.network and row.network.verdict is EXPLAINS else ''}"


def _judged(row: Row | None) -> str:
    return MISSING if row is None else f"{format_interval(row.gain)} {format_verdict(row.vs_random)}"


def matched(sets: list[DataSet]) -> str:
    """Return matched gain with its verdict against Random, controls included; **all**: better than every control."""
    shown = {each.name: each.matched for each in sets if each.matched}
    names = dict.fromkeys(name for rows in shown.values() for name in rows)
    order = sorted(names, key=lambda name: -max(value_of(rows.get(name)) for rows in shown.values()))
    table = []
    for name in order:
        kind = "control" if find_estimator(name).control else ""
        table.append(
            [
                f"`{format_id_with_samples(name)}`",
                kind,
                *(_compared(rows.get(name)) for rows in shown.values()),
            ]
        )
    return format_markdown_table(("estimator", "", *shown), table)


def _compared(row: Row | None) -> str:
    return f"{_judged(row)}{' **all**' if row and row.beating and row.beating.beats_all else ''}"


def fronts(sets: list[DataSet]) -> str:
    """Return the Pareto front of own-network gain against passes on each data set."""
    rows = [
        [
            each.name,
            f"`{format_id_with_samples(name)}`",
            f"{cost(name):,}",
            format_interval(each.own[name].gain),
            "yes" if sure else "no",
        ]
        for each in sets
        for name, sure in front(each).items()
    ]
    return format_markdown_table(("data set", "on the front", "passes", "own-network gain", "for certain"), rows)


def best(sets: list[DataSet]) -> str:
    """Return the first estimators of each order without retraining; a dash where it is not complete."""
    rows = []
    for each in sets:
        firsts = [
            _first(each.samples(protocol)) if each.whole(protocol) else MISSING for protocol in _UNTRAINED.values()
        ]
        rows.append([each.name, *firsts])
    return format_markdown_table(("data set", *_UNTRAINED), rows)


def _first(samples: Mapping[str, Sample]) -> str:
    names = sorted(samples, key=lambda name: -samples[name].value)[:_SHOWN]
    return ", ".join(f"`{format_id_with_samples(name)}` {samples[name].value:+.1f}" for name in names)


def orders(sets: list[DataSet]) -> str:
    """Return whether orders of estimators carry over: between the questions, and between data sets."""
    rows = []
    for each in sets:
        whole = each.whole(OWN_NETWORK) and each.whole(ROAR)
        rows.append(_order(f"both questions: {each.name}", each.own_samples, each.samples(ROAR), whole, _same_question))
    for (one_name, one), (other_name, other) in combinations(_UNTRAINED.items(), 2):
        for each in sets:
            whole = each.whole(one) and each.whole(other)
            samples = each.samples(one), each.samples(other)
            rows.append(_order(f"{one_name}, {other_name}: {each.name}", *samples, whole, _same_question))
    for first, second in combinations(sets, 2):
        for question, protocol in (("own-network gain", OWN_NETWORK), ("ROAR at .9", ROAR)):
            whole = first.whole(protocol) and second.whole(protocol)
            samples = first.samples(protocol), second.samples(protocol)
            rows.append(_order(f"{question}: {first.name}, {second.name}", *samples, whole, _carries_over))
        halves = first.other_roar_samples[HALF], second.other_roar_samples[HALF]
        whole = first.whole(ROAR) and second.whole(ROAR)
        rows.append(_order(f"ROAR at .5: {first.name}, {second.name}", *halves, whole, _carries_over))
    return format_markdown_table(
        ("orders", "rows", "Kendall's tau [95 %]", "settled pairs", "verdict"), filter(None, rows)
    )


def levels(sets: list[DataSet]) -> str:
    """Return whether the order by ROAR at .9 stands for the order at other levels, here and in the paper."""
    rows = []
    for level in OTHER_LEVELS:
        for data, curves in read_hooker2019(Order.MORF).items():
            tau = kendalltau(*zip(*((curve[level], curve[HIGH]) for curve in curves.values()), strict=True)).statistic
            rows.append([f"{level:g}", f"{data}, paper", str(len(curves)), f"{tau:+.2f}", MISSING, MISSING])
        for each in sets:
            order = _order(each.name, each.other_roar_samples[level], each.samples(ROAR), True, _stands_for)
            rows += [[f"{level:g}", *order]] if order else []
    heads = ("level", "data set", "rows", "Kendall's tau with .9 [95 %]", "settled pairs", "verdict")
    return format_markdown_table(heads, rows)


def _order(
    name: str, one: Mapping[str, Sample], other: Mapping[str, Sample], whole: bool, judged: Callable[[Estimate], str]
) -> list[str]:
    found = compute_agreement(one, other, CONFIDENCE)
    if found is None:
        return []
    settled = MISSING if found.settled is None else f"{found.settled}, {found.opposed} opposed"
    tau = format_interval(found.tau, lambda value: f"{value:+.2f}")
    return [name, str(found.rows), tau, settled, judged(found.tau) if whole else "not yet whole"]


def _same_question(tau: Estimate) -> str:
    return "they agree" if (tau.value or 0.0) >= HOLDS else "they ask different things"


def _carries_over(tau: Estimate) -> str:
    return "carries over" if (tau.low or 0.0) > 0 else "does not" if (tau.high or 0.0) < HOLDS else "open"


def _stands_for(tau: Estimate) -> str:
    value, low, high = (bound or 0.0 for bound in (tau.value, tau.low, tau.high))
    if value >= HOLDS and low > 0:
        return "stands for it"
    return "does not" if value < _DIFFERS or high < HOLDS else "open"


def machines(sets: list[DataSet]) -> str:
    """Return whether gains that another machine computed for the same networks are those of the published rows."""
    rows = []
    for each in sets:
        for other, results in each.elsewhere.items():
            here, there = (_draw_gains_of(other, part) for part in (each.results, results))
            if found := compute_agreement(here, there, CONFIDENCE):
                gaps = [measure_gap(here[name], there[name]) for name in here.keys() & there.keys()]
                inside = sum(gap.inside for gap in gaps)
                question = f"ROAR at {other.level:g}" if other.protocol is ROAR else "own-network gain"
                rows.append(
                    [
                        *(each.name, question, other.machine, str(found.rows)),
                        format_interval(found.tau, lambda value: f"{value:+.2f}"),
                        MISSING if found.settled is None else f"{found.settled}, {found.opposed} opposed",
                        f"{inside} of {len(gaps)}",
                        f"{max(gap.points for gap in gaps):.1f}",
                        judge_machine(found.tau, found.opposed or 0, inside / len(gaps)),
                    ]
                )
    heads = ("data set", "gain", "other machine", "rows", "Kendall's tau [95 %]", "settled pairs")
    return format_markdown_table((*heads, "differences within the error", "largest, points", "the machine"), rows)


def _draw_gains_of(other: OtherMachine, results: SuiteResults) -> dict[str, Sample]:
    return draw_roar_gains(results, other.level) if other.protocol is ROAR else draw_own_network_gains(results)


class Gap(NamedTuple):
    """Difference between one row's gains on two machines."""

    points: float
    inside: bool  # of 1.96 times the root of the sum of both squared standard errors


def measure_gap(one: Sample, other: Sample) -> Gap:
    """Return the difference of one row's gains on two machines."""
    points = abs(one.value - other.value)
    return Gap(points, points <= 1.96 * float(np.hypot(one.draws.std(ddof=1), other.draws.std(ddof=1))))


def judge_machine(tau: Estimate, opposed: int, inside: float) -> str:
    """Return the verdict of plan.md's fourth test; `inside` is the share of differences within the error."""
    value, low = tau.value or 0.0, tau.low or 0.0
    if opposed or value < HOLDS:
        return "matters"
    return "does not matter" if value >= _SAME and low > 0 and inside >= _INSIDE else "open"


def replication(sets: list[DataSet]) -> str:
    """Return how much of each board comes out again with other seeds and explained networks."""
    rows = []
    for each in (one for one in sets if one.again.results):
        for protocol in dict.fromkeys(block.protocol for block in each.results.suite.blocks):
            if found := compare_under_protocol(protocol, each.results, each.again, each.results.suite):
                rows.append([each.name, protocol.name, *_again(found)])
    heads = ("data set", "protocol", "rows", "equal verdicts", "opposed", "gains in the prediction interval", "tau")
    return format_markdown_table(heads, rows)


def _again(found: Replication) -> list[str]:
    tau = MISSING if found.tau is None else f"{found.tau:+.2f}"
    equal, inside = f"{found.equal} of {found.verdicts}", f"{found.inside} of {found.gains}"
    return [str(len(found.rows)), equal, str(found.opposed), inside, tau]


_TABLES = (
    counts,
    claims,
    accuracies,
    accuracies_at_50,
    others,
    estimators,
    matched,
    fronts,
    best,
    orders,
    levels,
    machines,
    replication,
)
TABLES: dict[str, Callable[[list[DataSet]], str]] = {each.__name__: each for each in _TABLES}


def main() -> None:
    """Write every table of README.md, both figures, and the picture of the README of the project."""
    make_parser(__doc__).parse_args()
    with TemporaryDirectory() as folder:
        sets = read_sets(Path(folder))
    write_tables(HERE / "README.md", {name: table(sets) for name, table in TABLES.items()})
    draw_questions(sets)
    draw_fronts(sets)
    draw_readme_picture(sets[0])


if __name__ == "__main__":
    main()
