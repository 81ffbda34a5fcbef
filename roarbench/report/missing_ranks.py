"""Say before a row is published why it would have no rank among the published rows."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from roarbench.analysis.load_results import load_from_open_store
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import ScoredNetwork
from roarbench.common.text import format_count
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.report.status import describe_rows_without_rank
from roarbench.stats.board_records import RANDOM
from roarbench.store.export_and_import import export_results, import_results
from roarbench.store.results import ResultsStore, make_default_url


class MissingRanks(NamedTuple):
    """Reasons for missing ranks after a row is published; both are empty if the row has a rank in every table."""

    inconsistent: list[str]  # rows that explain other weights, or mix rankings: no more runs can mend them
    incomplete: list[str]  # tables in which runs are missing


def find_missing_ranks(
    store: ResultsStore, suite: SuiteSpec, data: str, row: str, keys: Collection[str], published: Collection[Path]
) -> MissingRanks:
    """Add these runs of a row to a copy of a suite's published files, and return which rows have no rank, and why.

    `data` is the fingerprint of the suite's images. A published row that loses its rank is returned, too.
    """
    with TemporaryDirectory() as folder, ResultsStore.open(make_default_url(Path(folder))) as copy:
        settings = Settings(Path(folder), data=data)
        for file in published:
            import_results(copy, file)
        before = {*load_from_open_store(copy, suite, settings).inconsistent_rows} if published else set()
        export_results(store, Path(folder) / "new.parquet", keys=keys)
        import_results(copy, Path(folder) / "new.parquet")
        after = load_from_open_store(copy, suite, settings)
    new = [unranked for unranked in after.inconsistent_rows if unranked not in before]
    return MissingRanks(describe_rows_without_rank(new), [*_describe_missing_runs(after, row)])


def _describe_missing_runs(results: SuiteResults, row: str) -> Iterator[str]:
    for block in results.suite.blocks:
        if row not in block.estimators:
            continue
        planned, protocol = list_planned_runs(replace(results.suite, blocks=(block,))), block.protocol
        needs_random = not protocol.random_is_zero and protocol.retrain is not ScoredNetwork.MASKS
        baselines = {CLEAN, RANDOM} if needs_random and RANDOM in block.estimators else {CLEAN}
        own = {row, protocol.make_paired_twin_id(row)}
        for names, title in ((own, row), (baselines, "rows that it is compared with")):
            needed = [point for point in planned if point.cell.estimator in names]
            if missing := [point for point in needed if point not in results.results]:
                counts = f"{len(missing):,} of {format_count(len(needed), 'run')}"
                yield f"{row} has no rank ({protocol.name} {block.unit}): {counts} of {title} missing"
