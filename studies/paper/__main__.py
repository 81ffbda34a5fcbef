"""Write the tables and figures of studies/paper/README.md from the published rows under results/ alone.

python -m studies.paper
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.levels_of_partly_run_protocols import keep_most_shared_levels
from roarbench.analysis.paper_claims import CLAIMS, ClaimFinding, Curve, read_hooker2019
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, Unit
from roarbench.common.text import MISSING, format_interval, format_markdown_table
from roarbench.estimators.catalogue import PAPER_IDS, find_estimator, format_id_with_samples
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import MATCHED, OWN_NETWORK, ROAR, Protocol
from roarbench.report.claim_table import compute_accuracy_tables, list_claim_verdicts
from roarbench.stats.board import Row
from roarbench.stats.bootstrap_intervals import Sample
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from studies.page import format_verdict, make_parser, write_tables
from studies.paper.agreement import kar_levels, levels, machines, orders, replication
from studies.paper.figures import draw_fronts, draw_questions, draw_readme_picture
from studies.paper.others import others
from studies.paper.published import (
    HALF,
    HIGH,
    UNTRAINED,
    DataSet,
    cost,
    format_accuracy,
    front,
    keep_level,
    read_sets,
    share_done,
    value_of,
)

HERE = Path(__file__).parent
EXPLAINS = OwnNetworkVerdict.EXPLAINS
_SHOWN = 4  # estimators of each order in the table of the best
_NEAR, _FAR = 5.0, 10.0  # points that masks alone may be below retraining, if the mask sets what remains, or not
ROWS = ("random", "sobel", "sobel-released", "random-blurred", *PAPER_IDS)  # of tables of accuracies


def counts(sets: list[DataSet]) -> str:
    """Return how many runs of each suite are published, by protocol."""
    protocols = list(dict.fromkeys(block.protocol for each in sets for block in each.results.suite.blocks))
    rows = []
    for each in sets:
        asked, done = list_planned_runs(each.results.suite), each.results.results
        shares = [_share(each.results, protocol) for protocol in protocols]
        rows.append([each.name, f"{len(done):,} of {len(asked):,}", *shares])
    return format_markdown_table(("data set", "runs", *(protocol.name for protocol in protocols)), rows)


def _share(results: SuiteResults, protocol: Protocol) -> str:
    done = share_done(results, protocol)
    return "whole" if done == 1 else f"{done:.0%}" if done else MISSING


def claims(sets: list[DataSet]) -> str:
    """Return each claim of the paper with its verdict on the paper's table and on each data set."""
    shown = [each for each in sets if each.samples(ROAR)]
    records = [list_claim_verdicts(SuiteDraws.of(keep_most_shared_levels(each.results))) for each in shown]
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
    return _accuracies_at(HALF, {each.name: each.results for each in sets if each.other_samples[ROAR, HALF]})


def _accuracies_at(level: float, by_set: Mapping[str, SuiteResults]) -> str:
    published = read_hooker2019(Order.MORF)
    tables = [_compute_accuracies(keep_level(results, level)) for results in by_set.values()]
    rows = [
        [
            "nothing removed",
            *(format_accuracy(next(iter(of.values()), {}), 0.0) for of in (*published.values(), *tables)),
        ]
    ]
    for name in ROWS:
        rows.append([f"`{name}`", *(format_accuracy(of.get(name, {}), level) for of in (*published.values(), *tables))])
    return format_markdown_table(("removed first", *(f"{name}, paper" for name in published), *by_set), rows)


def _compute_accuracies(results: SuiteResults) -> Mapping[str, Curve]:
    """Return the mean accuracy of each row under ROAR, by level."""
    return compute_accuracy_tables(results, Unit.SCALAR).roar[results.suite.dataset]


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


def kar(sets: list[DataSet]) -> str:
    """Return the gain by KAR and by ROAR at the high level, each with its verdict against Random."""
    shown = [each for each in sets if each.kar]
    names = dict.fromkeys(name for each in shown for name in each.kar)
    order = sorted(names, key=lambda name: -max(value_of(each.kar.get(name)) for each in shown))
    heads = [f"{protocol} at .9, {each.name}" for each in shown for protocol in ("KAR", "ROAR")]
    rows = [
        [
            f"`{format_id_with_samples(name)}`",
            *(_judged(of.get(name)) for each in shown for of in (each.kar, each.roar)),
        ]
        for name in order
    ]
    return format_markdown_table(("estimator", *heads), rows)


def masks(sets: list[DataSet]) -> str:
    """Return the accuracy of networks that see masks alone, beside retraining, and the verdict of plan.md's rule."""
    shown = [each for each in sets if each.masks_alone and each.roar]
    tables = [_compute_accuracies(each.high) for each in shown]
    rows = [
        [f"`{name}`", *(_compare_masks(each, name, table) for each, table in zip(shown, tables, strict=True))]
        for name in ROWS
        if any(name in each.masks_alone for each in shown)
    ]
    return format_markdown_table(("removed first", *(each.name for each in shown)), rows)


def _compare_masks(each: DataSet, name: str, retrained: Mapping[str, Curve]) -> str:
    accuracy = retrained.get(name, {})
    if name not in each.masks_alone or HIGH not in accuracy:
        return MISSING
    below = 100 * accuracy[HIGH] - each.masks_alone[name]
    verdict = "**yes**" if below <= _NEAR else "no" if below > _FAR else "open"
    numbers = f"{each.masks_alone[name]:.1f}, {format_accuracy(accuracy, HIGH)}"
    return numbers if find_estimator(name).control else f"{numbers} {verdict}"


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


def submissions(sets: list[DataSet]) -> str:
    """Return the rows of the example submissions; their intervals are adjusted for all rows of their boards."""
    table = []
    for each in (one for one in sets if one.submitted.suite.estimators != one.results.suite.estimators):
        found = {protocol: each.find_rows_of_submissions(protocol) for protocol in (*UNTRAINED.values(), MATCHED)}
        own = found.pop(OWN_NETWORK)
        for name in sorted(own, key=lambda name: -value_of(own[name])):
            others = (_judged(rows.get(name)) for rows in found.values())
            table.append([each.name, f"`{name}`", _gain(own[name]), *others])
    return format_markdown_table(("data set", "submission", *UNTRAINED, "matched gain"), table)


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
            _first(each.samples(protocol)) if each.whole(protocol) else MISSING for protocol in UNTRAINED.values()
        ]
        rows.append([each.name, *firsts])
    return format_markdown_table(("data set", *UNTRAINED), rows)


def _first(samples: Mapping[str, Sample]) -> str:
    names = sorted(samples, key=lambda name: -samples[name].value)[:_SHOWN]
    return ", ".join(f"`{format_id_with_samples(name)}` {samples[name].value:+.1f}" for name in names)


_TABLES = (
    counts,
    claims,
    accuracies,
    accuracies_at_50,
    others,
    estimators,
    kar,
    kar_levels,
    masks,
    matched,
    submissions,
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
