"""What a store adds to a suite: submissions, and estimators with parameters of their own."""

from dataclasses import replace
from functools import lru_cache

from roarbench.analysis.boards import SuiteResults
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.points import expand
from roarbench.plan.runs import CLEAN
from roarbench.plan.suite import Suite
from roarbench.plan.suites import with_entries
from roarbench.store.entries import entered_ids
from roarbench.store.results import ResultsStore
from roarbench.terms import Order, Retrain

joined = lru_cache(64)(with_entries)  # of a store's suites each is held against all others


def with_entered(suite: Suite, results: ResultsStore) -> Suite:
    """Return a suite with what was submitted to it, and with its estimators by other parameters."""
    return joined(suite, tuple(entered_ids(results.database, suite.dataset, suite.model)))


def without_idle(suite_results: SuiteResults, asked: Suite, results: ResultsStore) -> SuiteResults:
    """Leave out what was entered under each protocol where nothing of it is done, running or failed.

    Whoever enters one version of a suite, or one of its protocols, has not begun the others: there is nothing to wait
    for. What a twin has counts for the estimator that it is made from. Rows of the suite that was asked for stay.
    """
    suite, own = suite_results.suite, asked.estimators
    entered = {name for name in suite.estimators if find_estimator(name).row not in own}
    if not entered:
        return suite_results
    begun = _begun(suite_results, results)
    blocks = tuple(
        replace(
            block,
            estimators=tuple(
                name
                for name in block.estimators
                if name not in entered or _question(name, block.protocol.order, block.protocol.retrain) in begun
            ),
        )
        for block in suite.blocks
    )
    return replace(suite_results, suite=replace(suite, blocks=blocks))


_Question = tuple[str, Order, Retrain]  # an estimator under a protocol


def _begun(suite_results: SuiteResults, results: ResultsStore) -> set[_Question]:
    """Return what at least one run of is done, running or failed."""
    points = [point for point in expand(suite_results.suite) if point.cell.estimator != CLEAN]
    missing = [point for point in points if point not in suite_results.results]
    keys = suite_results.keys
    tried = {*results.failures.history([keys[point] for point in missing]), *(lease.key for lease in results.running())}
    cells = [point.cell for point in points if point in suite_results.results or keys[point] in tried]
    return {_question(cell.estimator, cell.order, cell.retrain) for cell in cells}


def _question(estimator: str, order: Order, retrain: Retrain) -> _Question:
    return find_estimator(estimator).row, order, retrain
