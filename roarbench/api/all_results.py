"""Load the gains of all published suites as one data frame, without a store and its database."""

import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from roarbench.analysis.incomplete_results import drop_unstarted_submissions, keep_most_shared_levels
from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.errors import StoreError
from roarbench.common.process_settings import pause_garbage_collection
from roarbench.common.text import format_count
from roarbench.estimators.catalogue import find_estimator, is_addable_to_suites
from roarbench.plan.cells_and_runs import CLEAN, Cell
from roarbench.plan.planned_runs import PlannedRun, list_cells_with_seeds
from roarbench.plan.suite import SEEDS_PER_REPLICATION
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.plan.suites import RESULTS, find_builtin_or_own_suite, read_known_suites
from roarbench.store.published_folder import PublishedFile, list_newest_versions, read_index_and_check_folder
from roarbench.store.published_rows import read_published_rows
from roarbench.store.run_result import RunResult

if TYPE_CHECKING:
    import pandas

_SECONDS_WITHOUT_PROGRESS = 1.0
_COLUMNS = (
    *("suite", "version", "dataset", "network", "question", "estimator"),
    *("gain", "gain_low", "gain_high", "verdict", "seeds", "control", "submission", "levels", "unit"),
)


def load_all_results() -> "pandas.DataFrame":
    """Load the package's rows of the newest version of every suite as one data frame.

    The frame has a row for each suite, protocol and estimator that has a gain; gains are in points with 95 % intervals.
    Gains of different suites come from different networks and images. Versions and levels are text; `control` and
    `submission` are True or False. Missing values are None or NaN. `attrs["left_out"]` says for each suite and protocol
    how many rows have no gain, and why: incomplete rows, or rows whose results differ in their networks or rankings.
    After a second, a terminal shows the progress.

    Examples:
        >>> gains = load_all_results()
        >>> "benchmark-imagenette64" in set(gains["suite"])
        True
    """
    rows, left_out, start, shown = list[tuple[object, ...]](), list[str](), time.monotonic(), ""
    with pause_garbage_collection():
        import pandas

        files = read_index_and_check_folder(RESULTS) if RESULTS else []
        titles = list_newest_versions(files)
        for number, title in enumerate(titles):
            if sys.stderr.isatty() and time.monotonic() - start > _SECONDS_WITHOUT_PROGRESS:
                shown = f"reading published results: suite {number + 1} of {len(titles)}"
                print(f"\r{shown}", end="", file=sys.stderr, flush=True)
            assert RESULTS is not None, "only a folder has titles"
            of_suite = [file for file in files if file.versioned_suite == title]
            some, counts = _list_gains_and_counts(collect_published_results(RESULTS, title, of_suite))
            rows += some
            left_out += counts
    if shown:
        print(f"\r{' ' * len(shown)}\r", end="", file=sys.stderr, flush=True)
    frame = pandas.DataFrame(rows, columns=[*_COLUMNS])
    frame.attrs = {"left_out": left_out}
    return frame


def _list_gains_and_counts(results: SuiteResults) -> tuple[list[tuple[object, ...]], list[str]]:
    """Return the values of a suite's rows with a gain, in the order of tables, and the counts of the others."""
    rows, left_out, suite = list[tuple[object, ...]](), list[str](), results.suite
    judges = SuiteJudges(results, Unit.SCALAR)  # not `judge_suite`, which keeps results in memory
    for protocol in results.list_started_protocols():
        if not protocol.gain_name:  # mask-only
            continue
        unit = results.list_units(protocol)[0]
        gains = judges.list_gains(protocol, unit)
        reasons = results.explain_inconsistent_rows(protocol, unit)
        counts = Counter(reasons.get(name, "incomplete") for name, row in gains.items() if row.gain.value is None)
        counted = [f"{format_count(count, 'row')}: {reason}" for reason, count in counts.items()]
        left_out += [f"{suite.name}, {protocol.name}: {count}" for count in counted]
        levels = ", ".join(f"{t:g}" for t in results.list_included_levels(protocol, unit))
        shared = (suite.name, str(suite.version), suite.dataset, suite.model, protocol.name)
        known = [(name, find_estimator(name), row) for name, row in gains.items() if row.gain.value is not None]
        for name, row, judged in sorted(known, key=lambda each: (not each[1].has_own_row, -(each[2].gain.value or 0))):
            kind = (row.is_control_or_search, row.submitted)
            rows.append((*shared, name, *judged.gain, judged.verdict, judged.seeds, *kind, levels, str(unit)))
    return rows, left_out


_SUITES, _ANNOTATIONS, _MASKS = b"roarbench_suites", b"roarbench_remarks", "masks "


def collect_published_results(folder: Path, suite: str, files: Iterable[PublishedFile]) -> SuiteResults:
    """Collect the published results of the suite `NAME@VERSION`, at the levels that most rows share.

    Quantus scores, findings, references and what `PublishedRows` lacks are left out: gains and verdicts do not need
    them.

    Raises:
        StoreError: A file does not match its hash in the index, or the files have rows on different images.
        UnknownName: There is no such suite.
    """
    seeds = range(SEEDS_PER_REPLICATION)  # later seeds are those of replications
    notes = (_SUITES, _ANNOTATIONS)
    used = (file for file in files if not file.first_replication)
    parts = [read_published_rows(folder / file.path, file.sha256, seeds, notes) for file in used]
    found = defaultdict[Cell, dict[int, RunResult]](dict)
    for cell, some in (item for part in parts for item in part.results.items()):
        found[cell] |= some
    images = {result.run.data for by_seed in found.values() for result in by_seed.values()}
    if len(images) > 1:
        raise StoreError(f"the published rows of {suite} are on {len(images)} sets of images, expected one")
    names = {cell.estimator for cell in found} - {CLEAN}
    own = read_known_suites(record for part in parts for record in part.notes.get(_SUITES, ()))
    requested = find_builtin_or_own_suite(suite, own)
    extended = add_estimators_with_twins(requested, sorted(filter(is_addable_to_suites, names)))
    planned = {
        PlannedRun(cell, seed): by_seed[seed]
        for cells, seeds in list_cells_with_seeds(extended)
        for cell in cells
        if (by_seed := found.get(cell))
        for seed in seeds
        if seed in by_seed
    }
    annotations = {key: value for part in parts for key, value in part.notes.get(_ANNOTATIONS, {}).items()}
    masks = {key.removeprefix(_MASKS): value for key, value in annotations.items() if key.startswith(_MASKS)}
    results = SuiteResults(extended, "".join(images), None, planned, masks=masks)
    return keep_most_shared_levels(drop_unstarted_submissions(results, requested))
