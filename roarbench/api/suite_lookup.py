"""From the name of a suite, its TOML file or a store to a suite."""

from collections.abc import Sequence
from pathlib import Path

from roarbench.api.suites import Suite, find_default_store
from roarbench.errors import CallerError, EmptyStore, UnknownName, make_missing_file_error
from roarbench.plan.selection import find_unit, set_fill_and_unit
from roarbench.plan.suite import SuiteSpec as Plan
from roarbench.plan.suites import SUITES, find_suite


def load_suite(
    suite: str | Path,
    store: str | Path | None = None,
    *,
    db: str = "",
    data: str | Path | None = None,
    limit: int | None = None,
    reference: str | Sequence[str] = (),
    trust_network: str = "",
    fill: str = "",
    unit: str | None = None,
) -> Suite:
    """Return a suite; nothing is computed, and nothing is read but its description.

    Args:
        suite: A name, such as `quick-matched` (`quick@6` for an older version); a TOML file; or the name of one's own
            suite whose results the store has.
        store: Folder of images, references, rankings and results; the user's data folder if None.
        db: URL of the database of results; an SQLite file in the store if empty.
        data: Folder to read the images from, in the hub's layout.
        limit: Images of each split; all if None.
        reference: Weights to explain instead of trained ones: a file, or `torchvision:resnet50-v1`; several are
            several references.
        trust_network: SHA-256 of the file of a network that came with imported results, to run it.
        fill: What replaces a removed feature, in place of the suite's own fills: `linear` is ROAD's, `black` is 0.
        unit: What one feature is, in place of the suite's own units: `scalar`, `pixel` …

    Raises:
        CallerError: There is no such suite, or the file describes none.
    """
    folder = find_default_store() if store is None else Path(store)
    weights = (reference,) if isinstance(reference, str) and reference else tuple(reference)
    named, images = str(suite), None if data is None else Path(data)
    feature = find_unit(unit) if unit else None
    plan = set_fill_and_unit(find_plan(named, folder, db), fill, feature)
    return Suite(plan, folder, db, images, limit, weights, named, trust_network, fill, feature)


def find_plan(name: str, store: Path, db: str = "") -> Plan:
    """Return the suite of a name, a TOML file or a store, as far as it is known without its network.

    Of one's own suite `NAME@VERSION` is a version, and NAME alone the newest in the store.

    Raises:
        CallerError: There is no such suite, or the file describes none.
    """
    if name.endswith(".toml"):
        from roarbench.plan.custom_suite import drop_estimators
        from roarbench.plan.suite_file import read_suite

        plan = read_suite(Path(name))
        known = [kept for kept in _find_kept(store, db) if kept.called == plan.called]
        return drop_estimators(plan, known[0].left_out) if known else plan
    try:
        return find_suite(name)
    except UnknownName:
        kept = _find_kept(store, db)
        if found := [plan for plan in kept if name in (plan.called, plan.name)]:
            return found[-1]
        if (path := Path(name)).suffix or path.name != name:
            raise _no_suite_file(path) from None
        if kept:
            raise UnknownName("suite", name, [*SUITES, *(plan.called for plan in kept)], "suites") from None
        raise


def _no_suite_file(path: Path) -> CallerError:
    if path.exists():
        return CallerError(f"'{path}' is no suite; a file that describes one ends in .toml (`roarbench new-suite`)")
    return make_missing_file_error(
        path, ".toml", "`roarbench new-suite FOLDER` writes a suite's file, `roarbench suites` lists all"
    )


def _find_kept(store: Path, db: str) -> list[Plan]:
    from roarbench.analysis.results_query import open_results
    from roarbench.store.stored_suites import read_suites

    try:
        with open_results(store, db) as results:
            return read_suites(results.database)
    except EmptyStore:
        return []
