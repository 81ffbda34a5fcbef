"""Load published rows without running anything: those of a suite, or the gains of all suites as one data frame."""

import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from roarbench.analysis.load_results import open_store_for_reading
from roarbench.analysis.published_suites import collect_published_results
from roarbench.analysis.suite_judges import SuiteJudges
from roarbench.analysis.suite_results import SuiteResults
from roarbench.api.evaluated_rows import EvaluatedRows
from roarbench.common.enums import Unit
from roarbench.common.errors import UnknownName
from roarbench.common.files import compute_sha256
from roarbench.common.identity import hash_value
from roarbench.common.process_settings import pause_garbage_collection
from roarbench.common.text import format_count
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import RESULTS, find_builtin_suite
from roarbench.store.export_and_import import import_results
from roarbench.store.published_folder import (
    find_named_or_exported_suite,
    list_checked_result_files,
    list_newest_versions,
    read_index_and_check_folder,
)
from roarbench.store.results import ResultsStore, make_default_url

if TYPE_CHECKING:
    import pandas

_GAIN_COLUMNS = ("gain", "gain_low", "gain_high", "verdict", "seeds")
_SECONDS_WITHOUT_PROGRESS = 1.0
_SUITE_COLUMNS = ("suite", "version", "dataset", "network", "question")
_COLUMNS = (*_SUITE_COLUMNS, "estimator", *_GAIN_COLUMNS, "control", "submission", "levels", "unit")


def load_published_results(suite: str, source: str | Path | None = None) -> EvaluatedRows:
    """Return the published rows of a suite without running anything; a copy is written to the user's cache.

    The table says that the rows were not reproduced on this machine. If a protocol was run at only some of the suite's
    levels, its gains are computed over these levels, and the table names them. `.to_dataframe("kar")` has the rows of
    one protocol, also of `matched`, `morf` or `mask-only`; without a name, it has ROAR and own-network gain.

    Args:
        suite: A name such as `quick`, for the newest version with published rows, or a version such as `quick@6`; also
            a suite from a user's file, if the source has rows of it.
        source: A folder of published results, or a file of `roarbench export`; the rows that come with the package if
            None.

    Raises:
        UnknownName: The suite has no published rows.
        StoreError: The source cannot be read, or does not pass its checks.

    Examples:
        >>> published = load_published_results("quick")
        >>> published.compare("input-x-grad", "grad").own_network.verdict
        <Verdict.BETTER: 'better'>
    """
    if source is None and RESULTS:
        entries = read_index_and_check_folder(RESULTS)
        published = {file.versioned_suite for file in entries}
        newest = list_newest_versions(file for file in entries if file.versioned_suite.startswith(f"{suite}@"))
        title = newest[0] if newest else suite
        if title not in published:
            title = find_builtin_suite(suite).versioned
        if title not in published:
            raise UnknownName("published suite", title, published)
        suite, files = title, [RESULTS / file.path for file in entries if file.versioned_suite == title]
    else:
        files = list_checked_result_files(str(source or ""))
    return _read_result_from_files(find_named_or_exported_suite(suite, files), files)


def _read_result_from_files(plan: SuiteSpec, files: list[Path]) -> EvaluatedRows:
    """Return a suite's rows in these files; a version of the images that all rows share is accepted."""
    folder = user_cache_path("roarbench") / "published" / hash_value([compute_sha256(file) for file in files])
    if not folder.exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(dir=folder.parent))
        with ResultsStore.open(make_default_url(temporary)) as store:
            for file in files:
                import_results(store, file)
        try:
            temporary.rename(folder)
        except OSError:  # another process has written the folder
            shutil.rmtree(temporary)
    with open_store_for_reading(folder, "") as results:
        versions = results.read_seeds_by_data_and_weights(plan.dataset, plan.model)
    images = {data for data, limit, _ in versions if limit is None}
    settings = Settings(folder, data=images.pop() if len(images) == 1 else "")
    return EvaluatedRows.read(plan, settings, published=True)


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
