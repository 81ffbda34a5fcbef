"""Submissions stand where something of them was begun, and nowhere else."""

from pathlib import Path

from roarbench.analysis.load import Question, load_from
from roarbench.plan.keys import bind
from roarbench.plan.points import Point, expand
from roarbench.plan.suites import VERSIONS, with_entries
from roarbench.protocols.augmented import AUGMENTED
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
ENTERED = with_entries(SECOND, [MINE])


def mine(point: Point) -> bool:
    return point.cell.estimator.startswith(MINE)


def test_it_stands_under_the_protocols_that_have_something_of_it(tmp_path: Path) -> None:
    """A result, a failure or a run under way; what it has not under these is missing, and nothing else."""
    make_store(tmp_path, FIRST, images=20)
    make_store(tmp_path, ENTERED, lambda point: not mine(point) or point.cell.retrain is Retrain.COMMON, images=20)

    def read(suite):
        return load_from(store, suite, Question(tmp_path))

    def standing():
        return {block.protocol for block in read(SECOND).suite.blocks if MINE in block.estimators}

    with ResultsStore.open(default_url(tmp_path)) as store:
        first, second = read(FIRST), read(SECOND)
        assert first.suite == FIRST and standing() == {SPECIFIC, AUGMENTED}
        assert [status_record(found, store)["missing"] for found in (first, second)] == [0, 0]
        assert len(second.results) == len(expand(second.suite))

        scored, kept, trained = (
            [
                at
                for at in expand(ENTERED)
                if mine(at) and (at.cell.order, at.cell.retrain) == (kind.order, kind.retrain)
            ]
            for kind in (MORF, LERF, ROAR)
        )
        leased, failed = (bind(SECOND, points[0], second.data, None) for points in (scored, kept))
        lease(store, [leased.key], Owner.here())
        assert standing() == {SPECIFIC, AUGMENTED, MORF}
        store.failures.add(failed, "no")
        store.add(results(ENTERED, 20)[trained[0]])
        assert standing() == {SPECIFIC, AUGMENTED, MORF, LERF, ROAR}
        counts = status_record(read(SECOND), store)["protocols"]
        assert (counts["roar"]["missing"], counts["roar"]["failed"]) == (len(trained) - 1, 0)
        assert (counts["lerf"]["missing"], counts["lerf"]["failed"]) == (len(kept) - 1, 1)
