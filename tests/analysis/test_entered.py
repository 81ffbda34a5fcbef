"""Submissions stand where something of them was begun, and nowhere else."""

from collections.abc import Callable
from pathlib import Path

import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.load import Question, load_from
from roarbench.plan.keys import bind
from roarbench.plan.points import Point, expand
from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import MORF
from roarbench.report.status import status_record
from roarbench.store.leases import Owner
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Retrain
from tests.helpers.board_store import make_store, results
from tests.helpers.leasing import lease

MINE = "mine@1a2b3c4d"
FIRST, SECOND = VERSIONS["quick", 1], VERSIONS["quick", 2]


def mine(point: Point) -> bool:
    return point.cell.estimator.startswith(MINE)


@pytest.fixture
def store(tmp_path: Path):
    """Both versions of `quick`, and a submission that was run under one protocol of the second alone."""
    make_store(tmp_path, FIRST, images=20)
    make_store(tmp_path, with_entries(SECOND, [MINE]), specific_alone, images=20)
    with ResultsStore.open(default_url(tmp_path)) as store:
        yield store


def specific_alone(point: Point) -> bool:
    return not mine(point) or point.cell.retrain is Retrain.COMMON


def read(store: ResultsStore, version: int, folder: Path) -> SuiteResults:
    return load_from(store, VERSIONS["quick", version], Question(folder))


def standing(found: SuiteResults) -> set[Protocol]:
    return {block.protocol for block in found.suite.blocks if MINE in block.estimators}


def test_a_submission_is_no_row_of_a_version_that_has_nothing_of_it(store: ResultsStore, tmp_path: Path) -> None:
    found = read(store, 1, tmp_path)
    assert found.suite == FIRST
    assert status_record(found, store)["missing"] == 0


def test_under_a_protocol_that_has_nothing_of_it_no_run_is_missing(store: ResultsStore, tmp_path: Path) -> None:
    found = read(store, 2, tmp_path)
    assert standing(found) == {SPECIFIC, AUGMENTED}
    assert status_record(found, store)["missing"] == 0
    assert len(found.results) == len(expand(found.suite))


def begun(store: ResultsStore, point: Point) -> None:
    store.add(results(with_entries(SECOND, [MINE]), 20)[point])


def failed(store: ResultsStore, point: Point) -> None:
    store.failures.add(bind(SECOND, point, next(iter(store.versions(SECOND.dataset, SECOND.model)))[0], None), "no")


@pytest.mark.parametrize("how", [begun, failed])
def test_one_run_under_a_protocol_makes_the_others_missing(
    store: ResultsStore, tmp_path: Path, how: Callable[[ResultsStore, Point], None]
) -> None:
    points = [point for point in expand(with_entries(SECOND, [MINE])) if mine(point) and point.cell.order is ROAR.order]
    trained = [point for point in points if point.cell.retrain is ROAR.retrain]
    how(store, trained[0])
    found = read(store, 2, tmp_path)
    assert standing(found) == {SPECIFIC, AUGMENTED, ROAR}
    counts = status_record(found, store)["protocols"]["roar"]
    assert counts["missing"] == len(trained) - 1
    assert counts["failed"] == (how is failed)


def test_a_run_that_is_under_way_is_shown(store: ResultsStore, tmp_path: Path) -> None:
    points = [point for point in expand(with_entries(SECOND, [MINE])) if mine(point)]
    scored = next(point for point in points if (point.cell.order, point.cell.retrain) == (MORF.order, MORF.retrain))
    data = next(iter(store.versions(SECOND.dataset, SECOND.model)))[0]
    lease(store, [bind(SECOND, scored, data, None).key], Owner.here())
    assert standing(read(store, 2, tmp_path)) == {SPECIFIC, AUGMENTED, MORF}
    assert MASK_ONLY not in standing(read(store, 2, tmp_path))
