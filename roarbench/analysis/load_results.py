"""Open stores and load results for commands, without importing torch."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from roarbench.analysis.collect_results import (
    add_facts_of_store_folder,
    add_stored_estimators,
    collect_results,
    drop_unrun_submissions,
)
from roarbench.analysis.result_versions import list_image_sources
from roarbench.analysis.suite_results import OtherResults, SuiteResults
from roarbench.common.errors import CallerError, EmptyStore, Hint, RemovedName, StoreError, UnknownName
from roarbench.common.identity import make_json_record
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_runs
from roarbench.plan.settings import Settings
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_changes import set_allowed_fill_and_unit, set_explained_networks, set_explained_weights
from roarbench.plan.suites import (
    SUITES,
    drop_estimators_of_user_suite,
    find_builtin_suite,
    make_suite_option_value,
)
from roarbench.store.archived_runs import find_keys_even_if_archived
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.user_files import ImageSource, hash_record_and_files, list_all_suites, read_suites
from roarbench.store.workspace import Workspace

_FEWEST = 4  # minimum hex digits of a fingerprint from a caller
LIST_RUNS = Hint("; `{}` lists the runs of a suite", "runs", ("--suite", "NAME"))


def open_store_for_reading(store: Path, db: str) -> ResultsStore:
    """Open the results of a store folder or database for reading; raise EmptyStore if there is no store."""
    try:
        return ResultsStore.open(db or make_default_url(store), read_only=True)
    except EmptyStore as error:
        workspace = Workspace(store)
        if db or not (workspace.rankings.exists() or workspace.references.exists()):
            raise
        seen = f"{error}, but the folder has explained networks or rankings"
        raise EmptyStore(f"{seen}; if another database has their results, name it with --db URL") from None


def open_store_for_writing(store: Path, db: str, check: Callable[[], object] | None = None) -> ResultsStore:
    """Open a store for writing; raise StoreError if it cannot be used.

    If there is no store yet, `check` is called first; if it refuses the input, no empty store is left behind. Without
    `check`, a missing store raises EmptyStore.
    """
    try:
        open_store_for_reading(store, db).close()
    except EmptyStore:
        if not check:
            raise
        check()
    except StoreError:
        pass  # opening for writing raises the error again
    return ResultsStore.open(db or make_default_url(store))


def find_suite_spec(name: str, store: Path, db: str = "") -> SuiteSpec:
    """Find a suite by TOML file or by name, also among the user's suites in the store; `NAME` is the newest version."""
    missing: list[EmptyStore] = []

    def read_stored_suites() -> list[SuiteSpec]:
        try:
            with open_store_for_reading(store, db) as results:
                return read_suites(results.database, name)
        except EmptyStore as error:
            missing.append(error)
            return []

    try:
        return _find_suite(name, read_stored_suites)
    except UnknownName as error:
        if not missing or isinstance(error, RemovedName) or error.nearest:
            raise
        raise CallerError(f"no built-in suite '{name}', and {missing[0]}", error.hint) from None


def find_suite_in_open_store(name: str, results: ResultsStore) -> SuiteSpec:
    """Find a suite by TOML file or by name, also among the user's suites in an open store."""
    return _find_suite(name, lambda: read_suites(results.database, name))


def _drop_estimators_as_stored(suite: SuiteSpec, stored_suites: Iterable[SuiteSpec]) -> SuiteSpec:
    """Return a user's suite without the estimators that the stored suite of this version leaves out."""
    known = [own for own in stored_suites if own.name_in_commands == suite.name_in_commands]
    return drop_estimators_of_user_suite(suite, known[0].left_out) if known else suite


def _find_suite(name: str, read_stored_suites: Callable[[], list[SuiteSpec]]) -> SuiteSpec:
    if name.endswith(".toml"):
        from roarbench.plan.suites import read_suite

        return _drop_estimators_as_stored(read_suite(Path(name)), read_stored_suites())
    try:
        return find_builtin_suite(name)
    except UnknownName as error:
        own_suites = read_stored_suites()
        if matches := [plan for plan in own_suites if name in (plan.name_in_commands, plan.name)]:
            return matches[-1]
        if isinstance(error, RemovedName):
            raise
        if (path := Path(name)).suffix or path.name != name:
            if path.exists():
                raise CallerError(f"'{path}' is not a suite; the name of a suite file ends in .toml") from None
            advice = "`roarbench new-suite` writes one, `roarbench suites` lists all suites"
            raise CallerError(f"there is no file '{path}'; {advice}") from None
        beside = f"{name}.toml" if Path(f"{name}.toml").is_file() else ""
        if own_suites or beside:
            known_names = [*SUITES, *(plan.name_in_commands for plan in own_suites)]
            raise UnknownName("suite", name, known_names, "suites", beside) from None
        raise


def load_suite_results(suite: SuiteSpec, settings: Settings) -> SuiteResults:
    """Load a suite's results; raise StoreError without a store, and CallerError for unknown images or networks."""
    with open_store_for_reading(settings.store, settings.database) as results:
        return load_from_open_store(results, suite, settings)


def load_from_open_store(results: ResultsStore, suite: SuiteSpec, settings: Settings) -> SuiteResults:
    """Return a suite's results in an open store; raise CallerError as `load_suite_results` does."""
    if suite.own:
        suite = _drop_estimators_as_stored(suite, read_suites(results.database))
    sources = list_image_sources(results, settings.store, suite.dataset)
    known = [given for *_, given in results.read_seeds_and_removals_by_version(suite.dataset, suite.model) if given]
    chosen = set_explained_networks(suite, settings.weights, list(dict.fromkeys(known)))
    data = _find_image_fingerprint(suite, settings, sources, results) if settings.data else None
    collected = collect_results(add_stored_estimators(chosen, results), results, settings.limit, data, sources)
    if suite.own and not collected.has_rows:
        pairs, title = results.list_datasets_and_networks(), "another version of the file or of its images"
        files = (each for each in read_suites(results.database) if (each.dataset, each.model) in pairs)
        names = (each.name_in_commands for each in files if each.name == suite.name and each.version != suite.version)
        others = (OtherResults(title, None, (), name) for name in names)
        collected = replace(collected, others=(*collected.others, *others))
    return add_facts_of_store_folder(drop_unrun_submissions(collected, chosen, results), settings.store)


def _find_image_fingerprint(
    suite: SuiteSpec, settings: Settings, sources: list[ImageSource], results: ResultsStore
) -> str:
    versions = results.read_seeds_and_removals_by_version(suite.dataset, suite.model)
    mine = [source for source in sources if source.limit == settings.limit]
    known = {*(data for data, limit, _ in versions if limit == settings.limit), *(source.data for source in mine)}
    begun = [data for data in known if data.startswith(settings.data) and len(settings.data) >= _FEWEST]
    if len(begun) == 1:
        return begun[0]
    gone = [source.data for source in mine if source.folder == str(Path(settings.data).resolve())]
    use_files = Path(settings.data).exists() or not gone
    fingerprints = _list_fingerprints_of_files(suite, settings, sources) if use_files else gone
    if not fingerprints:
        words = () if suite.own else ("--suite", make_suite_option_value(suite))
        hint = Hint("; `{}` computes them", "run", (*words, "--data", settings.data))
        raise CallerError(f"this store has no results for the images in {settings.data}", hint)
    return fingerprints[-1]


def _list_fingerprints_of_files(suite: SuiteSpec, settings: Settings, sources: Iterable[ImageSource]) -> list[str]:
    from roarbench.datasets.file_locations_and_downloads import make_source_identity

    dataset = suite.dataset_record
    identity = make_source_identity(dataset, Path(settings.data))
    files = hash_record_and_files(make_json_record(dataset.without_location), identity)
    return [source.data for source in sources if (source.files, source.limit) == (files, settings.limit)]


def load_results_reused_by_run(suite: SuiteSpec, settings: Settings, data: str | None) -> SuiteResults:
    """Load the stored results that `run` would reuse; empty without a store.

    `data` is the fingerprint of the images, or None for the suite's own images. An empty `data` means that the folder
    has not been decoded in this store; then images that were decoded from the same files are used.
    """
    try:
        with open_store_for_reading(settings.store, settings.database) as results:
            sources = list_image_sources(results, settings.store, suite.dataset)
            if data == "":
                data = next(reversed(_list_fingerprints_of_files(suite, settings, sources)), "")
            if data != "":
                return collect_results(suite, results, settings.limit, data, sources)
    except EmptyStore:
        pass
    return SuiteResults(suite, data or "", settings.limit, {})


def has_only_results_of_other_suites(suite_results: SuiteResults, results: ResultsStore) -> bool:
    """Return whether other suites computed all of a suite's results, so that the suite itself was never started.

    Results on untouched images are ignored, because all suites with the same networks share them. Rows that were added
    to the suite are ignored too, because every suite with these images and this network has them. Shared runs belong to
    a newer version of the same suite, otherwise to the suite that comes first in the list.
    """
    suite, data, limit = suite_results.suite, suite_results.data, suite_results.limit
    started = [point for point in suite_results.results if point.cell.estimator != CLEAN]
    # masks made from an added row's maps of other images have estimator ids of their own
    added = {point for point in started if (row := point.cell.estimator_of_stored_ranking) and row.id in suite.added}
    own, covered = {suite_results.results[point].run.key for point in started if point not in added}, set[str]()
    known, networks = list_all_suites(results.database), (suite.dataset, suite.model)
    kin = list[SuiteSpec]()
    for other in (other for other in known if (other.dataset, other.model) == networks):
        with suppress(CallerError):  # no protocol of the other suite allows this fill or unit
            kin.append(set_allowed_fill_and_unit(other, suite.changes.fill, suite.changes.unit))
    titles = [other.title for other in kin]
    for position, other in enumerate(kin):
        if other.title != suite.title:
            planned = list_runs(set_explained_weights(other, suite.given), data, limit).values()
            keys = {run.key for run in planned if run.cell.estimator != CLEAN}
            done = results.find_done_keys(keys)
            later = suite.title in titles and position > titles.index(suite.title)
            is_owner = suite.title in titles and later == (other.name == suite.name)
            if own <= keys and (len(done) > len(own) or (own and is_owner)):
                return True
            covered |= done if done == keys else set()
    return bool(own) and not suite_results.complete and own <= covered


def find_run_key(store: ResultsStore, beginning: str) -> str:
    """Return the full key of a run from its first digits; raise CallerError if no run or several runs match."""
    keys = find_keys_even_if_archived(store.database, beginning) if beginning else []
    if len(keys) == 1:
        return keys[0]
    if keys:
        some = ", ".join(key[: len(beginning) + 4] for key in keys[:3])
        raise CallerError(f"{len(keys)} runs have a key that begins with '{beginning}': {some}, …; write more digits")
    raise CallerError(f"no run in this store has a key that begins with '{beginning}'", LIST_RUNS)
