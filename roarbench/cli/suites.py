"""From what `--suite` says to a suite: a name, a TOML file, or what a store keeps of one."""

from pathlib import Path

from roarbench.errors import EmptyStore, UnknownName
from roarbench.plan.suite import Suite
from roarbench.plan.suites import find_suite


def asked_suite(name: str, store: Path, db: str = "") -> Suite:
    """Return the suite that `--suite` names, as far as it is known without its network.

    Args:
        name: A suite's name, that of a TOML file, or `NAME@VERSION` of one whose results the store has; NAME alone is
            the newest of them.
        store: Folder of the store.
        db: URL of its database, if that is named.

    Raises:
        CallerError: There is no such suite, or the file describes none.
    """
    if name.endswith(".toml"):
        from roarbench.plan.custom_suite import without
        from roarbench.plan.suite_file import read_suite

        suite = read_suite(Path(name))
        known = [kept for kept in _kept(store, db) if kept.called == suite.called]
        return without(suite, known[0].left_out) if known else suite
    try:
        return find_suite(name)
    except UnknownName:
        kept = _kept(store, db)
        found = [suite for suite in kept if name in (suite.called, suite.name)]
        if not found:
            if kept:
                raise UnknownName("suite", name, [suite.called for suite in kept], "roarbench suites") from None
            raise
        return found[-1]


def tried_suite(name: str, store: Path, db: str = "", trusted: str = "") -> Suite:
    """Return the same for what computes: one's own network is built and tried, before hours of work.

    A network that a suite's file names is trusted from then on; one that came with imported results is run only if
    `trusted` is the hash of its file.

    Raises:
        CallerError: There is no such suite, its network does not fit its images, or is not trusted.
    """
    suite = asked_suite(name, store, db)
    if suite.own is None:
        return suite
    from roarbench.execution.fitness import fitted
    from roarbench.store.trusted import check_network, trust_network

    if name.endswith(".toml"):
        trust_network(suite)
    else:
        check_network(suite, trusted, store)
    return fitted(suite)


def _kept(store: Path, db: str) -> list[Suite]:
    from roarbench.analysis.load import open_results
    from roarbench.store.kept_suites import kept_suites

    try:
        with open_results(store, db) as results:
            return kept_suites(results.database)
    except EmptyStore:
        return []
