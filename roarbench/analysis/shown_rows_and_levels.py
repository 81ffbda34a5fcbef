"""Select the rows and levels that tables show: submissions that were run, and the levels that most rows share."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace

from roarbench.analysis.correctness_of_suite import list_points_with_every_map_and_network
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import ScoredNetwork, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.stats.board_records import RANDOM
from roarbench.stats.correctness_and_gain import Point


def drop_unstarted_submissions(
    suite_results: SuiteResults, requested: SuiteSpec, list_tried_cells: Callable[[], Iterable[Cell]] = tuple
) -> SuiteResults:
    """Remove submissions from the protocols in which they have neither a result nor a tried cell.

    A submission that was run for one version or protocol may never have been started for others. Runs of a twin count
    for its parent. Rows of the requested suite are never removed.
    """
    suite, own, blocks = suite_results.suite, {*requested.estimators}, list[Block]()
    untwinned = {name: find_estimator(name).untwinned_id for name in suite.estimators}
    if own.issuperset(untwinned.values()):
        return suite_results
    cells = [*(point.cell for point in suite_results.results), *list_tried_cells()]
    kinds = {(cell.estimator, cell.order, cell.retrain) for cell in cells if cell.estimator != CLEAN}
    started = {(find_estimator(name).untwinned_id, *kind) for name, *kind in kinds}
    for block in suite.blocks:
        kept = []
        for name in block.estimators:
            row = untwinned[name]
            if row in own or (row, block.protocol.order, block.protocol.retrain) in started:
                kept.append(name)
        blocks.append(replace(block, estimators=tuple(kept)))
    return replace(suite_results, suite=replace(suite, blocks=tuple(blocks)))


def keep_most_shared_levels(results: SuiteResults) -> SuiteResults:
    """Keep only the levels that most estimators share, for each protocol of which no estimator has all levels.

    A board then compares the rows that have all remaining levels; other rows have no gain. The choice depends on the
    existence of results, not on their values.
    """
    protocols = dict.fromkeys(block.protocol for block in results.suite.blocks)
    boards = ((protocol, unit) for protocol in protocols for unit in results.list_units(protocol))
    common_levels = {board: levels for board in boards if (levels := _find_most_shared_levels(results, *board))}
    return replace(results, included_levels=common_levels) if common_levels else results


def _find_most_shared_levels(results: SuiteResults, protocol: Protocol, unit: Unit) -> tuple[float, ...]:
    """Return the levels that most estimators share; ties go to the larger set, then to the higher levels.

    A level counts only if Random was run there, unless the protocol does not compare with Random. The result is empty
    if an estimator has all levels, or if no estimator has any level.
    """
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
        return ()
    candidates = []
    for t in levels:
        if sharing := [own for own in levels_of_rows if t in own]:
            common = tuple(sorted(set.intersection(*sharing)))
            candidates.append((len(sharing), len(common), common))
    return max(candidates)[2]
