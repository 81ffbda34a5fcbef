"""Load published rows of a suite without running anything."""

import shutil
import tempfile
from pathlib import Path

from platformdirs import user_cache_path

from roarbench.analysis.load_results import open_store_for_reading
from roarbench.api.evaluated_rows import EvaluatedRows
from roarbench.common.errors import UnknownName
from roarbench.common.files import compute_sha256
from roarbench.common.identity import hash_value
from roarbench.plan.settings import Settings
from roarbench.plan.suites import RESULTS, find_builtin_suite
from roarbench.store.export_and_import import import_results
from roarbench.store.published_folder import (
    find_named_or_exported_suite,
    list_checked_result_files,
    list_newest_versions,
    read_index_and_check_folder,
)
from roarbench.store.results import ResultsStore, make_default_url


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
        # the rows of replications are in no table of the suite
        used = [file for file in entries if file.versioned_suite == title and not file.first_replication]
        suite, files = title, [RESULTS / file.path for file in used]
    else:
        files = list_checked_result_files(str(source or ""))
    plan = find_named_or_exported_suite(suite, files)
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
        versions = results.read_seeds_and_removals_by_version(plan.dataset, plan.model)
    # a version of the images that all rows share is accepted
    images = {data for data, limit, _ in versions if limit is None}
    settings = Settings(folder, data=images.pop() if len(images) == 1 else "")
    return EvaluatedRows.read(plan, settings, published=True)
