"""Made-up stores for the pages: their numbers mean nothing, their shape is that of real ones."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from leaderboard.render import export_site
from leaderboard.stored_suites import read_views
from leaderboard.suite_view import Views
from roarbench.common.enums import Order, ScoredNetwork
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import PlannedRun, build_run, list_planned_runs
from roarbench.plan.suite import SuiteSpec
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.run_result import RunResult, pack_correctness, pack_probabilities
from tests.helpers.made_up_results import make_rng_of_run
from tests.helpers.store_rows import ORIGIN

WHEN = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
STRENGTH = {"grad": -0.1, "sobel": 0.1, "var-grad": 0.3, "sgsq-grad": 0.29, "ig": 0.02, "gb": 0.15}


def accuracy(point: PlannedRun) -> float:
    """Falls with the level, faster for stronger estimators where the most important features go first."""
    cell = point.cell
    if cell.estimator == CLEAN:
        return 0.9
    side = 1 if cell.order is Order.MORF else -1
    return float(np.clip(0.9 - cell.t * (0.4 + side * STRENGTH.get(cell.estimator.split("~")[0], 0.0)), 0.05, 0.95))


def results(suite: SuiteSpec, images: int = 300, limit: int | None = None) -> dict[PlannedRun, RunResult]:
    shared, made = np.random.default_rng(0).random(images), {}
    data = "da7a" * 8 if limit else PINNED_FINGERPRINTS.get(suite.dataset, "da7a" * 8)
    for point in list_planned_runs(suite):
        own, true = make_rng_of_run(point), accuracy(point)
        answers = 0.7 * shared + 0.3 * own.random(images) < true + 0.01 * own.normal()
        chances = pack_probabilities((0.5 + 0.5 * shared) * true) if point.cell.retrain is ScoredNetwork.NONE else None
        of = (int(answers.sum()), images, pack_correctness(answers), 2.5, ORIGIN, chances)
        made[point] = RunResult(build_run(suite, point, data, limit), *of, created=WHEN)
    return made


def make_store(
    folder: Path, suite: SuiteSpec, keep: Callable[[PlannedRun], bool] = lambda point: True, images: int = 300
) -> str:
    """Write a store with those points of a suite that are kept; returns its URL."""
    url = make_default_url(folder)
    with ResultsStore.open(url) as store:
        store.add_results(result for point, result in results(suite, images).items() if keep(point))
    return url


@contextmanager
def open_views(folder: Path) -> Iterator[Views]:
    """The suites of the store in a folder, while it is open."""
    with ResultsStore.open(make_default_url(folder), read_only=True) as store:
        yield read_views(store, folder)


def export_pages(views: Views, folder: Path) -> Path:
    export_site(views, folder)
    return folder
