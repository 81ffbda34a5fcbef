"""Compare the tables of a suite and of its replication, for a terminal and as JSON, without importing torch."""

from collections.abc import Mapping
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table

from roarbench.analysis.bootstrap_draws import SuiteDraws
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import CallerError, Hint
from roarbench.common.text import MISSING, SAME, format_interval
from roarbench.estimators.catalogue import choose_row_names
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import find_headline_protocols
from roarbench.report.table import find_default_unit
from roarbench.stats.board_agreement import ReplicatedRow, Replication, compare_boards
from roarbench.stats.own_network_gain import OwnNetworkTest
from roarbench.stats.verdicts import Verdict

_LEGEND = (
    "(!): outside the 95% prediction interval of the first table; →: the second table has another verdict.",
    "Both results have the same test images, network architecture and recipe.",
)
_TOTALS = ("verdicts", "equal", "opposed", "equal_share", "opposed_share", "gains", "inside", "inside_share", "tau")

Replications = Mapping[Protocol, Replication | None]  # by protocol; None if no row has a gain in both results


def compare_replication(first: SuiteResults, second: SuiteResults, part: SuiteSpec) -> Replications:
    """Compare two results of a suite under each protocol whose table `run` shows for this part of the suite.

    All rows of the suite are judged, but only the rows of the part are compared. Each protocol uses its first unit.
    Raises CallerError if nothing can be compared.
    """
    replications = {
        protocol: compare_under_protocol(protocol, first, second, part) for protocol in find_headline_protocols(part)
    }
    if not any(replications.values()):
        missing = f"no row of {first.title} has a gain in both results"
        raise CallerError(missing, Hint("; `{}` computes the missing runs", "replicate"))
    return replications


def list_uncompared_protocols(replications: Replications, part: SuiteSpec) -> list[str]:
    """List the names of a part's protocols that were not compared."""
    names = (block.protocol.name for block in part.blocks if not replications.get(block.protocol))
    return list(dict.fromkeys(names))


def compare_under_protocol(
    protocol: Protocol, first: SuiteResults, second: SuiteResults, part: SuiteSpec
) -> Replication | None:
    """Compare the boards of a suite's part under one protocol; None if no row has a gain in both results."""
    unit = find_default_unit(part, protocol)
    boards = [
        SuiteDraws(results, unit).make_board(protocol, unit, part.estimators)
        for results in (first, second)
        if results.results
    ]
    complete = [board for board in boards if board and board.images]
    if len(complete) < 2:
        return None
    replication = compare_boards(*complete)
    return replication if replication.rows else None


def make_replication_record(replications: Replications, first: SuiteResults, second: SuiteResults) -> dict[str, Any]:
    """Return the comparison as plain values, grouped by protocol if there are several."""
    records = {
        protocol.name.replace("-", "_"): replication and _make_protocol_record(replication)
        for protocol, replication in replications.items()
    }
    (only_record, *others) = records.values()
    return {"suite": first.title, "replication": second.title, **(records if others else only_record or {})}


def _make_protocol_record(replication: Replication) -> dict[str, Any]:
    return {
        "rows": [_make_row_record(row) for row in replication.rows],
        **{name: getattr(replication, name) for name in _TOTALS},
        "beats_asked": replication.beats_all_compared_and_equal[0],
        "beats_equal": replication.beats_all_compared_and_equal[1],
    }


def _make_row_record(row: ReplicatedRow) -> dict[str, Any]:
    return {
        "estimator": row.estimator,
        **{name: getattr(row, name)._asdict() for name in ("gain", "again", "predicted", "predicted_again")},
        "inside": row.inside,
        "inside_again": row.inside_again,
        "verdicts": [
            {"control": verdict.control, "first": verdict.one, "again": verdict.other} for verdict in row.verdicts
        ],
        "beats_controls": dict(zip(("first", "again"), row.beats, strict=False)),
    }


def format_replication(replications: Replications, first: SuiteResults, second: SuiteResults) -> Group:
    """Format the comparison for a terminal: for each protocol one row per estimator, and the totals."""
    tables: list[RenderableType] = []
    for protocol, replication in replications.items():
        if replication:
            tables += [_make_table(protocol, replication, first, second), *_summarize_agreement(replication), ""]
    return Group(*tables, *_LEGEND)


def _make_table(protocol: Protocol, replication: Replication, first: SuiteResults, second: SuiteResults) -> Table:
    table = Table(title=f"{protocol.title}, {first.title} and {second.title}", box=SIMPLE_HEAD, padding=0)
    has_beats, own_network = any(row.beats for row in replication.rows), protocol.scores_all_network_pairs
    verdict = "beats all" if has_beats else "vs 0" if own_network else "vs Random"
    table.add_column("estimator", overflow="fold")
    table.add_column("gain [95%]", justify="right", no_wrap=True)
    table.add_column("again [95%]", justify="right", no_wrap=True)
    table.add_column(verdict, no_wrap=True)
    called = choose_row_names((*first.suite.estimators, *(row.estimator for row in replication.rows)))
    for row in replication.rows:
        outside = " (!)" if row.inside is False else ""
        beats = " → ".join(dict.fromkeys("yes" if beats else "no" for beats in row.beats)) or MISSING
        table.add_row(
            called[row.estimator].replace("~", "\n~"),
            format_interval(row.gain),
            format_interval(row.again) + outside,
            beats if has_beats else _format_both_verdicts(row, own_network),
        )
    return table


def _format_both_verdicts(row: ReplicatedRow, own_network: bool) -> str:
    """Return both verdicts of the comparison with Random, or with 0 for own-network gain."""
    pair = next((verdict for verdict in row.verdicts if verdict.control == "random"), None)
    texts = (
        str(OwnNetworkTest.from_verdict(verdict, None).verdict) if own_network else verdict.replace(Verdict.SAME, SAME)
        for verdict in ((pair.one, pair.other) if pair else ())
    )
    return " → ".join(dict.fromkeys(texts)) or MISSING


def _summarize_agreement(replication: Replication) -> list[str]:
    compared, equal = replication.beats_all_compared_and_equal
    lines = [f"Beats every control: {equal} of {compared} verdicts equal."] if compared else []
    lines += [
        f"Verdicts against single controls: {replication.equal} of {replication.verdicts} equal, "
        f"{replication.opposed} opposed."
    ]
    if replication.inside_share is not None:
        inside = f"{replication.inside} of {replication.gains} ({replication.inside_share:.0%})"
        lines += [f"Gains inside the 95% prediction interval of the other table: {inside}."]
    lines += [] if replication.tau is None else [f"Kendall's tau of the gains: {replication.tau:.2f}."]
    return lines
