"""Select the rows and levels that tables of unfinished suites show, and count a protocol's runs that have no result."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from roarbench.analysis.correctness_of_suite import list_points_with_every_map_and_network
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.common.text import format_count, list_some
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import PlannedRun, list_planned_runs
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.stats.board_records import RANDOM
from roarbench.stats.correctness_and_gain import Point

UNFINISHED_SIGN = "‡"  # sign of verdicts that can change, because runs are missing
_NAMED_SIGN = f" ({UNFINISHED_SIGN})"  # in the sentence on missing runs


class RunCounts(NamedTuple):
    """Number of planned runs, of those without a result, and of those that failed and wait for `retry`."""

    missing: int = 0
    planned: int = 0
    failed: int = 0

    def describe(self, row: str = "") -> str:
        """Return the counts in words, such as `6 of 99 runs are missing`; `row` names the runs' row."""
        verb, failed = "is" if self.missing == 1 else "are", f" ({self.failed:,} failed)" * bool(self.failed)
        whose = f" of {row}" * bool(row)
        return f"{self.missing:,} of {format_count(self.planned, 'run')}{whose} {verb} missing{failed}"


@dataclass(frozen=True)
class ProtocolRuns:
    """Counts of a protocol's runs: of the suite's own rows, and of each estimator that was added to the suite.

    The suite's own rows include twins, controls and untouched images. An added estimator includes its twins; its runs
    affect its own verdicts only.
    """

    own: RunCounts = RunCounts()
    added: Mapping[str, RunCounts] = field(default_factory=dict)

    def is_unfinished(self, estimator: str) -> bool:
        """Return whether a row's verdicts can change: a run of the suite's own rows or of the row's is missing."""
        counts = self.added.get(find_estimator(estimator).untwinned_id)
        return bool(self.own.missing or counts and counts.missing)

    def describe_missing(self, shown: Mapping[str, str]) -> str:
        """Return the missing runs in words: of the suite's own rows, then of added rows; empty without any.

        `shown` has the names of added estimators by id; others are left out.
        """
        counts = [self.own.describe()] if self.own.missing else []
        rows = defaultdict[RunCounts, list[str]](list)  # those with equal counts are told together
        for name, count in self.added.items():
            if name in shown and count.missing:
                rows[count].append(shown[name])
        told = (count.describe("each of " * (len(names) > 1) + list_some(names)) for count, names in rows.items())
        return ", ".join([*counts, *told])


def count_protocol_runs(results: SuiteResults, protocol: Protocol, unit: Unit) -> ProtocolRuns:
    """Count the runs on which the verdicts of a protocol's table depend.

    Levels that the results leave out on purpose (`included_levels`) are not planned here. Variances between networks
    and trainings are estimated over all units, so runs of every unit count, except under own-network gain.
    """
    suite, fill = results.suite, results.suite.find_fill(protocol)
    points = dict[PlannedRun, None]()
    for each in (unit,) if protocol.scores_all_network_pairs else Unit:
        rows, levels = results.list_planned_rows_and_included_levels(protocol, each, fill)
        blocks = [
            replace(
                block,
                estimators=tuple(name for name in block.estimators if name in rows),
                levels=tuple(t for t in block.levels if t in levels),
            )
            for block in suite.blocks
            if block.protocol in (protocol.computed_from or (protocol,)) and (block.unit, block.fill) == (each, fill)
        ]
        started = tuple(block for block in blocks if block.estimators and block.levels)
        points |= dict.fromkeys(list_planned_runs(replace(suite, blocks=started)))  # with those on untouched images
    added = {find_estimator(name).untwinned_id for name in suite.added}
    by_row = {name: list[PlannedRun]() for name in ("", *sorted(added))}  # the suite's own rows, then added rows
    for point in points:
        estimator = point.cell.estimator_record  # None for untouched images
        by_row.get(estimator.untwinned_id if estimator else "", by_row[""]).append(point)
    counts = {
        name: RunCounts(
            sum(point not in results.results for point in points),
            len(points),
            sum(point in results.failed for point in points),
        )
        for name, points in by_row.items()
    }
    return ProtocolRuns(counts.pop(""), {name: count for name, count in counts.items() if count.planned})


def describe_missing_runs(
    results: SuiteResults, protocols: Iterable[Protocol], unit: Unit, shown: Mapping[str, str]
) -> str:
    """Return the missing runs of the protocols that have results, such as `ROAR: 6 of 99 runs are missing`, or "".

    `shown` has the names of added estimators by id, as in `ProtocolRuns.describe_missing`.
    """
    started = (protocol for protocol in protocols if results.has_started(protocol))
    texts = {each.title: count_protocol_runs(results, each, unit).describe_missing(shown) for each in started}
    return "; ".join(f"{title}: {text}" for title, text in texts.items() if text)


def write_unfinished_line(missing: str, can_change: str, sign: bool = True) -> str:
    """Return the sentence on missing runs, with the sign ‡ of results that can change; empty without missing runs."""
    return f"Unfinished{_NAMED_SIGN * sign}: {missing}; {can_change} may change." if missing else ""


def remove_unfinished_sign(notes: Iterable[str]) -> tuple[str, ...]:
    """Return notes without the sign ‡ in `write_unfinished_line`, for rows that are shown without it."""
    return tuple(note.replace(_NAMED_SIGN, "") for note in notes)


def drop_unstarted_submissions(
    suite_results: SuiteResults, requested: SuiteSpec, list_tried_cells: Callable[[], Iterable[Cell]] = tuple
) -> SuiteResults:
    """Remove submissions from the protocols in which they have neither a result nor a tried cell.

    A submission that was run for one version or protocol may never have been started for others. Runs of a twin count
    for its parent. Rows of the requested suite are never removed.
    """
    suite, own = suite_results.suite, {*requested.estimators}
    untwinned = {name: find_estimator(name).untwinned_id for name in suite.estimators}
    if own.issuperset(untwinned.values()):
        return suite_results
    cells = [*(cell for cell, _ in suite_results.results), *list_tried_cells()]
    kinds = {(cell.estimator, cell.order, cell.retrain) for cell in cells if cell.estimator != CLEAN}
    started = {(find_estimator(name).untwinned_id, *kind) for name, *kind in kinds}

    def keep_started(block: Block) -> Block:
        kind = (block.protocol.order, block.protocol.retrain)
        rows = ((name, untwinned[name]) for name in block.estimators)
        return replace(block, estimators=tuple(name for name, row in rows if row in own or (row, *kind) in started))

    return replace(suite_results, suite=replace(suite, blocks=tuple(map(keep_started, suite.blocks))))


def keep_most_shared_levels(results: SuiteResults) -> SuiteResults:
    """Keep only the levels that most estimators share, for each protocol of which no estimator has all levels.

    A board then compares the rows that have all remaining levels; other rows have no gain. Ties go to the larger set of
    levels, then to the higher levels. A level counts only if Random was run there, unless the protocol does not compare
    with Random. The choice depends on the existence of results, not on their values.
    """
    included = dict[tuple[Protocol, Unit], tuple[float, ...]]()
    protocols = dict.fromkeys(block.protocol for block in results.suite.blocks)
    for protocol, unit in ((each, unit) for each in protocols for unit in results.list_units(each)):
        rows, levels = results.list_planned_rows_and_included_levels(protocol, unit)
        points: Iterable[Point] = results.find_results(protocol, unit)
        if protocol.scores_all_network_pairs:
            points = list_points_with_every_map_and_network(results, protocol, unit)
        elif protocol.compares_with_other_image:
            points = [(name, t) for name, t in points if (protocol.make_paired_twin_id(name), t) in points]
        by_row: defaultdict[str, set[float]] = defaultdict(set)
        for name, t in points:
            by_row[name].add(t)
        needs_random = not protocol.random_is_zero and protocol.retrain is not ScoredNetwork.MASKS and RANDOM in rows
        usable = by_row[RANDOM] if needs_random else set(levels)
        records = (find_estimator(name) for name in rows)
        levels_of_rows = [by_row[row.id] & usable & {*levels} for row in records if row.has_own_row and not row.control]
        if {*levels} in levels_of_rows or not any(levels_of_rows):
            continue
        candidates = []
        for t in levels:
            if sharing := [own for own in levels_of_rows if t in own]:
                common = tuple(sorted(set.intersection(*sharing)))
                candidates.append((len(sharing), len(common), common))
        included[protocol, unit] = max(candidates)[2]
    return replace(results, included_levels=included) if included else results
