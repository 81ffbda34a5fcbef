"""Load the gains of all published suites as one data frame, without a store and its database."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from roarbench.analysis.published_suites import collect_published_results
from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import Unit
from roarbench.common.process_settings import pause_garbage_collection
from roarbench.common.text import format_count
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.suites import RESULTS
from roarbench.store.published_folder import list_newest_versions, read_index_and_check_folder

if TYPE_CHECKING:
    import pandas

_GAIN_COLUMNS = ("gain", "gain_low", "gain_high", "verdict", "seeds")
_SECONDS_WITHOUT_PROGRESS = 1.0
_SUITE_COLUMNS = ("suite", "version", "dataset", "network", "question")
_COLUMNS = (*_SUITE_COLUMNS, "estimator", *_GAIN_COLUMNS, "control", "submission", "levels", "unit")


def load_all_results() -> "pandas.DataFrame":
    """Load the package's rows of the newest version of every suite as one data frame.

    The frame has a row for each suite, protocol and estimator that has a gain; gains are in points with 95 % intervals.
    Gains of different suites come from different networks and images. Versions and levels are text; `control` and
    `submission` are True or False. Missing values are None or NaN. `attrs["left_out"]` says for each suite and protocol
    how many rows have no gain, and why: incomplete rows, or rows whose results differ in their networks or rankings.

    Examples:
        >>> gains = load_all_results()
        >>> "benchmark-imagenette64" in set(gains["suite"])
        True
    """
    rows, left_out = list[tuple[object, ...]](), list[str]()
    with pause_garbage_collection():
        import pandas

        for some, counts in map(_list_gains_and_counts, _collect_newest_results()):
            rows += some
            left_out += counts
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


def _collect_newest_results() -> Iterator[SuiteResults]:
    """Yield the published results of every suite's newest version; after a second, a terminal shows the progress."""
    if RESULTS is None:
        return
    files = read_index_and_check_folder(RESULTS)
    titles, start, shown = list_newest_versions(files), time.monotonic(), ""
    for number, title in enumerate(titles):
        if sys.stderr.isatty() and time.monotonic() - start > _SECONDS_WITHOUT_PROGRESS:
            shown = f"reading published results: suite {number + 1} of {len(titles)}"
            print(f"\r{shown}", end="", file=sys.stderr, flush=True)
        yield collect_published_results(RESULTS, title, [file for file in files if file.versioned_suite == title])
    if shown:
        print(f"\r{' ' * len(shown)}\r", end="", file=sys.stderr, flush=True)
