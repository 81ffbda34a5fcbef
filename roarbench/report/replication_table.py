"""A board and its replication side by side, for a person and for a program. Nothing here imports torch."""

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table

from roarbench.analysis.suite_draws import Evidence
from roarbench.analysis.suite_results import SuiteResults
from roarbench.errors import CallerError, Hint
from roarbench.estimators.catalogue import name_rows
from roarbench.plan.suite import SuiteSpec
from roarbench.stats.board import Board
from roarbench.stats.board_agreement import ReplicatedRow, Replication, compare_boards
from roarbench.stats.bootstrap import Bootstrap
from roarbench.stats.verdicts import Verdict
from roarbench.text import MISSING, SAME, format_interval

_LEGEND = (
    "(!): outside the 95% prediction interval of the first board; →: another verdict on the second board.",
    "Both boards have the same test images, network architecture and recipe.",
)
_SUMS = ("verdicts", "equal", "opposed", "equal_share", "opposed_share", "gains", "inside", "inside_share", "tau")


def compare(first: SuiteResults, again: SuiteResults, part: SuiteSpec) -> Replication:
    """Return how alike two results of a suite are, in a part of it; CallerError where nothing can be compared.

    All rows are judged, and those of the part are compared, by its first protocol and unit.
    """
    if first.data != again.data:
        raise CallerError(f"the stores hold {first.title} on different images; a replication is on the same ones")
    one, other = (_board(results, part) if results.results else None for results in (first, again))
    found = compare_boards(one, other) if one and other else None
    if not found or not found.rows:
        raise CallerError(f"no row of {first.title} has a gain in both", Hint("; `{}` makes them", "replicate"))
    return found


def _board(results: SuiteResults, part: SuiteSpec) -> Board | None:
    block = part.blocks[0]
    return Evidence(results, block.unit, Bootstrap()).board(block.protocol, block.unit, part.estimators)


def make_replication_record(found: Replication, first: SuiteResults, again: SuiteResults) -> dict[str, Any]:
    """Return the comparison as plain values; missing is null."""
    return {
        "suite": first.title,
        "replication": again.title,
        "rows": [_row_record(row) for row in found.rows],
        **{name: getattr(found, name) for name in _SUMS},
        "beats_asked": found.beats[0],
        "beats_equal": found.beats[1],
    }


def _row_record(row: ReplicatedRow) -> dict[str, Any]:
    return {
        "estimator": row.estimator,
        **{name: getattr(row, name)._asdict() for name in ("gain", "again", "predicted", "predicted_again")},
        "inside": row.inside,
        "inside_again": row.inside_again,
        "verdicts": [{"control": said.control, "first": said.one, "again": said.other} for said in row.verdicts],
        "beats_controls": dict(zip(("first", "again"), row.beats, strict=False)),
    }


def format_replication(found: Replication, first: SuiteResults, again: SuiteResults) -> Group:
    """Return the comparison for a terminal: a row for each estimator, and what they add up to."""
    table = Table(title=f"{first.title} and {again.title}", box=SIMPLE_HEAD, padding=0)
    leads = any(row.beats for row in found.rows)
    for heading in ("estimator", "gain [95%]", "again [95%]", "beats all" if leads else "Random"):
        number, name = "[" in heading, heading == "estimator"
        table.add_column(heading, justify="right" if number else "left", no_wrap=not name, overflow="fold")
    called = name_rows((*first.suite.estimators, *(row.estimator for row in found.rows)))
    for row in found.rows:
        outside = " (!)" if row.inside is False else ""
        said = _beats(row) if leads else _against_random(row)
        table.add_row(
            called[row.estimator].replace("~", "\n~"),
            format_interval(row.gain),
            format_interval(row.again) + outside,
            said,
        )
    return Group(table, *_sums(found), *_LEGEND)


def _beats(row: ReplicatedRow) -> str:
    return " → ".join(dict.fromkeys("yes" if said else "no" for said in row.beats)) or MISSING


def _against_random(row: ReplicatedRow) -> str:
    said = next((said for said in row.verdicts if said.control == "random"), None)
    words = dict.fromkeys(word.replace(Verdict.SAME, SAME) for word in (said.one, said.other)) if said else ()
    return " → ".join(words) or MISSING


def _sums(found: Replication) -> list[str]:
    """Return what the rows add up to, in words."""
    asked, same = found.beats
    lines = [f"Beats every control: {same} of {asked} verdicts equal."] if asked else []
    lines += [f"Verdicts against single controls: {found.equal} of {found.verdicts} equal, {found.opposed} opposed."]
    if found.inside_share is not None:
        inside = f"{found.inside} of {found.gains} ({found.inside_share:.0%})"
        lines += [f"Gains inside the other's 95% prediction interval: {inside}."]
    lines += [] if found.tau is None else [f"Kendall's tau of the gains: {found.tau:.2f}."]
    return lines
