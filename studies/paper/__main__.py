"""Write the tables and figures of studies/paper/README.md from the published results.

python -m studies.paper
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from roarbench.analysis.incomplete_results import keep_most_shared_levels
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Order, Unit
from roarbench.common.text import MISSING, format_interval, format_markdown_table
from roarbench.estimators.catalogue import PAPER_IDS, find_estimator
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import LERF, MATCHED, MORF, OWN_NETWORK, ROAR, Protocol
from roarbench.report.paper_claims import (
    CLAIMS,
    ClaimFinding,
    Curve,
    compute_mean_accuracies,
    list_claims_with_findings,
    read_hooker2019,
)
from roarbench.stats.board_records import Row
from roarbench.stats.contrasts import Contrast
from studies.page import make_parser, write_tables
from studies.paper.agreement import kar_levels, levels, machines, orders, own_network_levels, replication
from studies.paper.cells import (
    format_judged_gain,
    format_own_network_gain,
    make_gain_table,
    quote_estimator,
    sort_by_largest_gain,
)
from studies.paper.figures import draw_fronts, draw_questions, draw_readme_picture
from studies.paper.others import diffroar_of_shah, others
from studies.paper.own_network import own_network_by_level, own_network_lerf
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
_SHOWN = 4  # number of estimators per order in the table of the best
# points by which masks alone are below retraining: at most `_NEAR` if masks explain the accuracy, above `_FAR` if not
_NEAR, _FAR = 5.0, 10.0
ROWS = ("random", "sobel", "sobel-released", "random-blurred", *PAPER_IDS)  # rows of the tables of accuracies


def counts(sets: list[DataSet]) -> str:
    """Make a table of the numbers of published runs of each suite, by protocol."""
    protocols = list(dict.fromkeys(block.protocol for dataset in sets for block in dataset.results.suite.blocks))
    rows = []
    for dataset in sets:
        asked, done = list_planned_runs(dataset.results.suite), dataset.results.results
        shares = [_share(dataset.results, protocol) for protocol in protocols]
        rows.append([dataset.name, f"{len(done):,} of {len(asked):,}", *shares])
    return format_markdown_table(("data set", "runs", *(protocol.name for protocol in protocols)), rows)


def _share(results: SuiteResults, protocol: Protocol) -> str:
    done = share_done(results, protocol)
    return "whole" if done == 1 else f"{done:.0%}" if done else MISSING


def claims(sets: list[DataSet]) -> str:
    """Make a table of the paper's claims with their verdicts on the paper's table and on each data set."""
    shown = [dataset for dataset in sets if dataset.gains(ROAR)]
    records = [list_claims_with_findings(keep_most_shared_levels(dataset.results)) for dataset in shown]
    rows = []
    for number, claim in enumerate(CLAIMS):
        found = [record[number] for record in records]
        published = found[0]["published"] if found else list_claims_with_findings(None)[number]["published"]
        rows.append([claim.text, str(published), *(_describe_finding(dataset["ours"]) for dataset in found)])
    return format_markdown_table(("claim", "the paper", *(dataset.name for dataset in shown)), rows)


def _describe_finding(finding: ClaimFinding) -> str:
    """Describe a finding, with the numbers of cells that agree and disagree significantly, if any does."""
    counts = finding.significant
    return f"{finding}; significant: {counts['agree']} for, {counts['differ']} against" if counts else str(finding)


def accuracies(sets: list[DataSet]) -> str:
    """Make a table of accuracies after retraining without the first 90 % of the features, the paper's and ours."""
    return _accuracies_at(HIGH, {dataset.name: dataset.results for dataset in sets if dataset.roar})


def accuracies_at_50(sets: list[DataSet]) -> str:
    """Make a table of accuracies after retraining without the first half of the features, the paper's and ours."""
    return _accuracies_at(HALF, {dataset.name: dataset.results for dataset in sets if dataset.other_gains[ROAR, HALF]})


def _accuracies_at(level: float, by_set: Mapping[str, SuiteResults]) -> str:
    published = read_hooker2019(Order.MORF)
    tables = [_compute_accuracies(keep_level(results, level)) for results in by_set.values()]
    columns = [*published.values(), *tables]
    rows = [["nothing removed", *(format_accuracy(next(iter(column.values()), {}), 0.0) for column in columns)]]
    rows += [[f"`{name}`", *(format_accuracy(column.get(name, {}), level) for column in columns)] for name in ROWS]
    return format_markdown_table(("removed first", *(f"{name}, paper" for name in published), *by_set), rows)


def _compute_accuracies(results: SuiteResults) -> Mapping[str, Curve]:
    """Return the mean accuracy of each row under ROAR, by level."""
    return compute_mean_accuracies(results, ROAR, Unit.SCALAR)


def estimators(sets: list[DataSet]) -> str:
    """Make a table of all estimators with their passes, and their own-network and ROAR gains on each data set."""
    names = dict.fromkeys(name for dataset in sets for name in (*dataset.own, *dataset.gains(ROAR)))
    heads = ["estimator", "passes"]
    heads += [f"own-network, {dataset.name}" for dataset in sets if dataset.own]
    heads += [f"ROAR at .9, {dataset.name}" for dataset in sets if dataset.gains(ROAR)]
    rows = []
    for name in sort_by_largest_gain(names, [dataset.own for dataset in sets]):
        own = [format_own_network_gain(dataset.own.get(name)) for dataset in sets if dataset.own]
        roar = [format_judged_gain(dataset.roar.get(name)) for dataset in sets if dataset.gains(ROAR)]
        rows.append([quote_estimator(name), f"{cost(name):,}", *own, *roar])
    return format_markdown_table(heads, rows)


def roar_all_levels(sets: list[DataSet]) -> str:
    """Make a table of ROAR gains over all levels, with their verdicts against Random."""
    return make_gain_table({dataset.name: dataset.roar_all_levels for dataset in sets}, format_judged_gain)


def kar(sets: list[DataSet]) -> str:
    """Make a table of gains under KAR and ROAR at the level `HIGH`, with their verdicts against Random."""
    shown = [dataset for dataset in sets if dataset.kar]
    names = dict.fromkeys(name for dataset in shown for name in dataset.kar)
    heads = [f"{protocol} at .9, {dataset.name}" for dataset in shown for protocol in ("KAR", "ROAR")]
    rows = [
        [
            quote_estimator(name),
            *(format_judged_gain(of.get(name)) for dataset in shown for of in (dataset.kar, dataset.roar)),
        ]
        for name in sort_by_largest_gain(names, [dataset.kar for dataset in shown])
    ]
    return format_markdown_table(("estimator", *heads), rows)


def diffroar(sets: list[DataSet]) -> str:
    """Make a table of DiffROAR gains over all levels, with their verdicts against 0."""
    return make_gain_table({dataset.name: dataset.diffroar for dataset in sets}, format_judged_gain)


def masks(sets: list[DataSet]) -> str:
    """Make a table of accuracies on masks alone and after retraining, with the verdict by the rule of plan.md."""
    shown = [dataset for dataset in sets if dataset.masks_alone and dataset.roar]
    tables = [_compute_accuracies(dataset.high) for dataset in shown]
    rows = [
        [f"`{name}`", *(_compare_masks(dataset, name, table) for dataset, table in zip(shown, tables, strict=True))]
        for name in ROWS
        if any(name in dataset.masks_alone for dataset in shown)
    ]
    return format_markdown_table(("removed first", *(dataset.name for dataset in shown)), rows)


def _compare_masks(dataset: DataSet, name: str, retrained: Mapping[str, Curve]) -> str:
    accuracy = retrained.get(name, {})
    if name not in dataset.masks_alone or HIGH not in accuracy:
        return MISSING
    below = 100 * accuracy[HIGH] - dataset.masks_alone[name]
    verdict = "**yes**" if below <= _NEAR else "no" if below > _FAR else "open"
    numbers = f"{dataset.masks_alone[name]:.1f}, {format_accuracy(accuracy, HIGH)}"
    return numbers if find_estimator(name).control else f"{numbers} {verdict}"


def matched(sets: list[DataSet]) -> str:
    """Make a table of matched gains with their verdicts against Random; **all** means better than every control."""
    shown = {dataset.name: dataset.matched for dataset in sets if dataset.matched}
    names = dict.fromkeys(name for rows in shown.values() for name in rows)
    table = []
    for name in sort_by_largest_gain(names, list(shown.values())):
        kind = "control" if find_estimator(name).control else ""
        table.append([quote_estimator(name), kind, *(_compared(rows.get(name)) for rows in shown.values())])
    return format_markdown_table(("estimator", "", *shown), table)


def _compared(row: Row | None) -> str:
    return f"{format_judged_gain(row)}{' **all**' if row and row.beating and row.beating.beats_all else ''}"


def submissions(sets: list[DataSet]) -> str:
    """Make a table of the example submissions with their verdicts, as in the tables of the estimators."""
    table = []
    for dataset in (one for one in sets if one.submitted.suite.estimators != one.results.suite.estimators):
        found = {protocol: dataset.find_rows_of_submissions(protocol) for protocol in (*UNTRAINED.values(), MATCHED)}
        own = found.pop(OWN_NETWORK)
        for name in sorted(own, key=lambda name: -value_of(own[name])):
            matched = _compared(found[MATCHED].get(name))
            others = (format_judged_gain(found[protocol].get(name)) for protocol in (MORF, LERF))
            table.append([dataset.name, f"`{name}`", format_own_network_gain(own[name]), *others, matched])
    return format_markdown_table(("data set", "submission", *UNTRAINED, "matched gain"), table)


def fronts(sets: list[DataSet]) -> str:
    """Make a table of the Pareto front of own-network gain against passes on each data set."""
    rows = [
        [
            dataset.name,
            quote_estimator(name),
            f"{cost(name):,}",
            format_interval(dataset.own[name].gain),
            "yes" if sure else "no",
        ]
        for dataset in sets
        for name, sure in front(dataset).items()
    ]
    return format_markdown_table(("data set", "on the front", "passes", "own-network gain", "for certain"), rows)


def best(sets: list[DataSet]) -> str:
    """Make a table of the first estimators of each order without retraining; a dash for incomplete protocols."""
    rows = []
    for dataset in sets:
        firsts = [
            _first(dataset.gains(protocol)) if dataset.whole(protocol) else MISSING for protocol in UNTRAINED.values()
        ]
        rows.append([dataset.name, *firsts])
    return format_markdown_table(("data set", *UNTRAINED), rows)


def _first(samples: Mapping[str, Contrast]) -> str:
    names = sorted(samples, key=lambda name: -samples[name].value)[:_SHOWN]
    return ", ".join(f"{quote_estimator(name)} {samples[name].value:+.1f}" for name in names)


_TABLES = (
    counts,
    claims,
    accuracies,
    accuracies_at_50,
    others,
    estimators,
    own_network_lerf,
    own_network_by_level,
    roar_all_levels,
    kar,
    kar_levels,
    diffroar,
    diffroar_of_shah,
    masks,
    matched,
    submissions,
    fronts,
    best,
    orders,
    levels,
    own_network_levels,
    machines,
    replication,
)
TABLES: dict[str, Callable[[list[DataSet]], str]] = {table.__name__: table for table in _TABLES}


def main() -> None:
    """Write all tables of README.md, both figures, and the picture in the project's README."""
    make_parser(__doc__).parse_args()
    with TemporaryDirectory() as folder:
        sets = read_sets(Path(folder))
    write_tables(HERE / "README.md", {name: table(sets) for name, table in TABLES.items()})
    draw_questions(sets)
    draw_fronts(sets)
    draw_readme_picture(sets[0])


if __name__ == "__main__":
    main()
