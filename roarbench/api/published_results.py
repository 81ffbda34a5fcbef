"""Load published rows from the package, a folder or a file, without running anything."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from platformdirs import user_cache_path

from roarbench.analysis.load_results import ResultsQuery, open_store_for_reading
from roarbench.api.suite_result import SuiteResult
from roarbench.common.errors import UnknownName
from roarbench.common.files import compute_sha256
from roarbench.common.identity import hash_value
from roarbench.common.text import format_count
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import RESULTS, find_builtin_suite
from roarbench.store.export_and_import import import_results
from roarbench.store.published_folder import (
    find_named_or_exported_suite,
    list_checked_result_files,
    read_index_and_check_folder,
)
from roarbench.store.results import ResultsStore, make_default_url

if TYPE_CHECKING:
    import pandas

_GAIN_COLUMNS = ("gain", "gain_low", "gain_high", "verdict", "seeds")


def load_published_results(suite: str, source: str | Path | None = None) -> SuiteResult:
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
    """
    if source is None and RESULTS:
        entries = read_index_and_check_folder(RESULTS)
        published = {file.versioned_suite for file in entries}
        versions = [title for title in published if title.startswith(f"{suite}@")]  # empty if `suite` names a version
        # the version of a suite from a user's file is a hash, so no version is the newest
        title = max(versions, key=lambda title: int(title.rpartition("@")[2], 16), default=suite)
        if title not in published:
            title = find_builtin_suite(suite).versioned
        if title not in published:
            raise UnknownName("published suite", title, published)
        suite_files = [RESULTS / file.path for file in entries if file.versioned_suite == title]
        return _read_result_from_files(find_named_or_exported_suite(title, suite_files), suite_files)
    files = list_checked_result_files(str(source or ""))
    return _read_result_from_files(find_named_or_exported_suite(suite, files), files)


def load_all_results() -> "pandas.DataFrame":
    """Load the package's rows of the newest version of every suite as one data frame.

    The frame has a row for each suite, protocol and estimator that has a gain; gains are in points with 95 % intervals.
    Gains of different suites come from different networks and images. Versions and levels are text; `control` and
    `submission` are True or False. Missing values are None or NaN. `attrs["left_out"]` says for each suite and protocol
    how many rows have no gain, and why: incomplete rows, or rows whose results differ in their networks or rankings.
    """
    import pandas

    frames, left_out = [], list[str]()
    published = read_index_and_check_folder(RESULTS) if RESULTS else ()
    for name in sorted({file.versioned_suite.partition("@")[0] for file in published}):
        result = load_published_results(name)
        suite = result.plan
        suite_columns = {"suite": name, "version": str(suite.version), "dataset": suite.dataset, "network": suite.model}
        for protocol in result.stored.list_started_protocols():
            if not protocol.gain_name:  # mask-only
                continue
            frame = result.to_dataframe(protocol.name)
            counts = _count_rows_without_gain(result, protocol, frame)
            left_out += [f"{name}, {protocol.name}: {count}" for count in counts]
            rows = _select_rows_with_gain(frame)
            if len(rows):  # an empty frame would change the types of columns
                frames.append(rows.assign(**suite_columns, question=protocol.name))
    columns = [*suite_columns, "question", "estimator", *_GAIN_COLUMNS, "control", "submission", "levels", "unit"]
    joined = pandas.concat(frames, ignore_index=True)[columns]
    joined.attrs = {"left_out": left_out}
    return joined


def _count_rows_without_gain(result: SuiteResult, protocol: Protocol, frame: "pandas.DataFrame") -> list[str]:
    """Count the rows of a protocol's frame that have no gain, with one text for each reason."""
    reasons = result.stored.explain_inconsistent_rows(protocol, frame.attrs["unit"])
    counts = Counter(reasons.get(row, "incomplete") for row in frame["estimator"][frame["gain"].isna()])
    return [f"{format_count(count, 'row')}: {reason}" for reason, count in counts.items()]


def _select_rows_with_gain(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """Select a frame's rows that have a gain, with their kind, and the levels and unit that they share."""
    rows = frame.loc[frame["gain"].notna(), ["estimator", *_GAIN_COLUMNS]]
    estimators = [find_estimator(row) for row in rows["estimator"]]
    return rows.assign(
        control=[estimator.control for estimator in estimators],
        submission=[estimator.submitted for estimator in estimators],
        levels=", ".join(f"{t:g}" for t in frame.attrs["levels"]),
        unit=str(frame.attrs["unit"]),
    )


def _read_result_from_files(plan: SuiteSpec, files: list[Path]) -> SuiteResult:
    """Return a suite's rows in these files; a version of the images that all rows share is accepted."""
    store = _import_into_cached_store(files)
    with open_store_for_reading(store, "") as results:
        versions = results.read_seeds_by_data_and_weights(plan.dataset, plan.model)
    images = {data for data, limit, _ in versions if limit is None}
    query = ResultsQuery(store, data=images.pop() if len(images) == 1 else "")
    return SuiteResult.read(plan, query, published=True)


def _import_into_cached_store(files: list[Path]) -> Path:
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
    return folder
