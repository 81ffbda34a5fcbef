"""Submissions stand where something of them was begun, and nowhere else."""

from pathlib import Path

import pytest

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.load import Question, load_from
from roarbench.plan.keys import bind
from roarbench.plan.points import Point, expand
from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.declaration import Protocol
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import LERF, MORF
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


def test_it_stands_under_the_protocols_that_have_something_of_it(store: ResultsStore, tmp_path: Path) -> None:
    """A result, a failure or a run under way; what it has not under these is missing, and nothing else."""
    first, second = (read(store, version, tmp_path) for version in (1, 2))
    assert first.suite == FIRST and standing(second) == {SPECIFIC, AUGMENTED}
    assert [status_record(found, store)["missing"] for found in (first, second)] == [0, 0]
    assert len(second.results) == len(expand(second.suite))

    points = [point for point in expand(with_entries(SECOND, [MINE])) if mine(point)]
    data = next(iter(store.versions(SECOND.dataset, SECOND.model)))[0]
    scored, kept, trained = (
        [point for point in points if (point.cell.order, point.cell.retrain) == (protocol.order, protocol.retrain)]
        for protocol in (MORF, LERF, ROAR)
    )
    lease(store, [bind(SECOND, scored[0], data, None).key], Owner.here())
    assert standing(read(store, 2, tmp_path)) == {SPECIFIC, AUGMENTED, MORF}
    store.failures.add(bind(SECOND, kept[0], data, None), "no")
    store.add(results(with_entries(SECOND, [MINE]), 20)[trained[0]])
    found = read(store, 2, tmp_path)
    assert standing(found) == {SPECIFIC, AUGMENTED, MORF, LERF, ROAR}
    counts = status_record(found, store)["protocols"]
    assert [(counts[name]["missing"], counts[name]["failed"]) for name in ("roar", "lerf")] == [
        (len(trained) - 1, 0),
        (len(kept) - 1, 1),
    ]
