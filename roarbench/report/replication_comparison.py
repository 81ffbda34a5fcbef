"""Compare the tables of a suite and of its replication, for a terminal and as JSON, without importing torch."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table as RichTable

from roarbench.analysis.incomplete_results import UNFINISHED_SIGN, RunCounts, count_protocol_runs, write_unfinished_line
from roarbench.analysis.suite_judges import judge_suite
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import CallerError, Hint
from roarbench.common.text import MISSING, SAME, format_interval
from roarbench.estimators.catalogue import choose_row_names
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import find_headline_protocols
from roarbench.report.table_record import ROW_KEY, Table, make_column
from roarbench.report.table_renderers import format_list
from roarbench.stats.board_agreement import Replication, compare_boards
from roarbench.stats.verdicts import Verdict

_LEGEND = (
    "(!): outside the 95% prediction interval of the first table; →: the second table has another verdict.",
    "Both results have the same test images, network architecture and recipe.",
)

_BESIDE_ZERO = {Verdict.BETTER: "above 0", Verdict.SAME: "not shown", Verdict.WORSE: "below 0"}
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
    """List the names of a part's protocols that `compare_replication` did not try to compare."""
    return list(dict.fromkeys(block.protocol.name for block in part.blocks if block.protocol not in replications))


def compare_under_protocol(
    protocol: Protocol, first: SuiteResults, second: SuiteResults, part: SuiteSpec
) -> Replication | None:
    """Compare the boards of a suite's part under one protocol; None if no row has a gain in both results."""
    unit = part.find_default_unit(protocol)
    both = (judge_suite(results, unit) for results in (first, second) if results.results)
    boards = [judges.make_board(protocol, unit, part.estimators) for judges in both]
    complete = [board for board in boards if board and board.images]
    if len(complete) < 2:
        return None
    replication = compare_boards(*complete)
    return replication if replication.rows else None


def make_replication_record(replications: Replications, first: SuiteResults, second: SuiteResults) -> dict[str, Any]:
    """Return the comparison under each protocol as plain values."""
    records = dict[str, Any]()
    for protocol, replication in replications.items():
        record = None
        if replication:
            # by count, the count of the whole
            parts = {"equal": "verdicts", "opposed": "verdicts", "inside": "gains", "beats_equal": "beats_asked"}
            wholes = {part: getattr(replication, whole) for part, whole in parts.items()}
            shares = {
                f"{part}_share": getattr(replication, part) / whole if whole else None for part, whole in wholes.items()
            }
            rows = []
            for row in replication.rows:
                estimates = {name: getattr(row, name)._asdict() for name in ("gain", "again", "predicted")}
                beats = dict(zip(("first", "again"), row.beats_controls, strict=False))
                verdicts = [verdict._asdict() for verdict in row.verdicts]
                rows.append(row._asdict() | estimates | {"verdicts": verdicts, "beats_controls": beats})
            record = asdict(replication) | shares | {"rows": rows}
            counts = {"first": _count_runs(protocol, first), "again": _count_runs(protocol, second)}
            for kind in ("missing", "planned"):
                record[f"{kind}_runs"] = {name: getattr(count, kind) for name, count in counts.items()}
        records[protocol.name.replace("-", "_")] = record
    return {"suite": first.title, "replication": second.title, **records}


def _count_runs(protocol: Protocol, results: SuiteResults) -> RunCounts:
    return count_protocol_runs(results, protocol, results.suite.find_default_unit(protocol)).own


def format_replication(replications: Replications, first: SuiteResults, second: SuiteResults) -> Group:
    """Format the comparison for a terminal: for each protocol one row per estimator, and the totals."""
    tables: list[RenderableType] = []
    for protocol, replication in replications.items():
        if replication:
            counts = {results.title: _count_runs(protocol, results) for results in (first, second)}
            missing = "; ".join(f"{title}: {count.describe()}" for title, count in counts.items() if count.missing)
            tables.append(_make_table(protocol, replication, first, second, UNFINISHED_SIGN * bool(missing)))
            beats = f"Beats every control: {replication.beats_equal} of {replication.beats_asked} verdicts equal. "
            equal = f"{replication.equal} of {replication.verdicts} equal, {replication.opposed} opposed"
            summary = f"{beats * bool(replication.beats_asked)}Verdicts against single controls: {equal}."
            if replication.gains:
                inside = f"{replication.inside} of {replication.gains}"
                summary += f" Gains inside the 95% prediction interval of the other table: {inside}."
            if replication.tau is not None:
                summary += f" Kendall's tau of the gains: {replication.tau:.2f}."
            tables += [summary, *filter(None, [write_unfinished_line(missing, "verdicts")]), ""]
        else:
            tables.append(f"{protocol.title}: not compared, because no row has a gain in both results.")
    return Group(*tables, *_LEGEND)


def _make_table(
    protocol: Protocol, replication: Replication, first: SuiteResults, second: SuiteResults, sign: str
) -> RichTable:
    own_network = protocol.scores_all_network_pairs
    called = choose_row_names((*first.suite.estimators, *(row.estimator for row in replication.rows)))
    rows = replication.rows
    verdicts = []
    for row in rows:
        both = ["yes" if beats else "no" for beats in row.beats_controls]
        if not replication.beats_asked:
            pair = next((each for each in row.verdicts if each.control == "random"), None)
            found = (pair.first, pair.again) if pair else ()
            both = [_BESIDE_ZERO[each] if own_network else each.replace(Verdict.SAME, SAME) for each in found]
        verdicts.append(" → ".join(dict.fromkeys(both)) or MISSING)
    asked = "beats all" if replication.beats_asked else "vs 0" if own_network else "vs Random"
    again = (f"{format_interval(row.again)}{' (!)' if row.inside is False else ''}" for row in rows)
    names = (called[row.estimator].replace("~", "\n~") for row in rows)
    marked = (text if text == MISSING else f"{text}{sign}" for text in verdicts)
    columns = (
        make_column(ROW_KEY, names, "estimator", side="left"),
        make_column("gain", (row.gain for row in rows), "gain [95%]"),
        make_column("again", again, "again [95%]"),
        make_column("verdicts", marked, asked, side="left"),
    )
    return format_list(Table(f"{protocol.title}, {first.title} and {second.title}", columns))
