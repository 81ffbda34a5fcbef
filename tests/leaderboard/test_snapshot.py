"""What a running app keeps: the same objects while the store stands still, new ones where results came."""

from pathlib import Path

import pytest

from leaderboard.boards import board_table
from leaderboard.snapshot import LiveSnapshot, SuiteView, live_snapshot
from leaderboard.source import read_suites
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.errors import StoreError
from roarbench.plan.points import Point
from roarbench.plan.runs import CLEAN
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.protocols.roar import KAR, ROAR
from roarbench.store.entries import ReproductionOutcome, note_reproduction
from roarbench.store.results import ResultsStore
from roarbench.terms import Unit
from tests.helpers.board_store import make_store, results


def early(point: Point) -> bool:
    return point.cell.t != 0.9


@pytest.fixture
def snapshot(tmp_path: Path) -> LiveSnapshot:
    make_store(tmp_path, SUITES["planted"], early, images=40)
    return LiveSnapshot(make_store(tmp_path, VERSIONS["quick", 1], early, images=40), tmp_path)


def test_suites_are_read_again_only_where_results_came(snapshot: LiveSnapshot) -> None:
    before = snapshot.suites()
    assert set(before) == {"planted-v1", "quick-v1"}
    assert snapshot.suites() == before
    late = [result for point, result in results(VERSIONS["quick", 1], 40).items() if not early(point)]
    with ResultsStore.open(f"sqlite:///{snapshot.folder}/results.sqlite") as store:
        store.add(late[0])
    after = snapshot.suites()
    assert after["planted-v1"] is before["planted-v1"]
    assert after["quick-v1"] is not before["quick-v1"]
    assert len(after["quick-v1"].suite_results.results) == len(before["quick-v1"].suite_results.results) + 1


def test_who_vouches_for_a_row_is_read_again(snapshot: LiveSnapshot) -> None:
    before = snapshot.suites()["quick-v1"]
    (result, *_) = before.suite_results.results.values()
    with ResultsStore.open(f"sqlite:///{snapshot.folder}/results.sqlite") as store:
        note_reproduction(store.database, result.run.key, ReproductionOutcome.EQUAL, result.correct)
    assert snapshot.suites()["quick-v1"] is not before


def test_a_suite_that_begins_later_is_found(tmp_path: Path) -> None:
    url = make_store(tmp_path, VERSIONS["quick", 1], lambda point: False)
    snapshot = LiveSnapshot(url, tmp_path)
    assert snapshot.suites() == {}
    make_store(tmp_path, VERSIONS["quick", 1], images=40)
    assert set(snapshot.suites()) == {"quick-v1"}


def test_the_newest_version_of_a_suite_comes_first(tmp_path: Path) -> None:
    first, second = VERSIONS["quick", 1], VERSIONS["quick", 2]
    live = LiveSnapshot(make_store(tmp_path, first, early, images=20), tmp_path)
    assert list(live.suites()) == ["quick-v1"]
    make_store(tmp_path, second, early, images=20)
    make_store(tmp_path, SUITES["planted"], early, images=20)
    wanted = ["quick-v2", "quick-v1", "planted-v1"]
    assert list(live.suites()) == wanted
    with ResultsStore.open(f"sqlite:///{tmp_path}/results.sqlite", read_only=True) as store:
        assert list(read_suites(store, tmp_path)) == wanted


def test_the_first_board_has_rows(tmp_path: Path) -> None:
    """Untouched images alone are shown last, and not at all where a suite with rows explains the same references."""
    make_store(tmp_path, SUITES["quick"], lambda point: point.cell.estimator == CLEAN, images=20)
    live = LiveSnapshot(make_store(tmp_path, SUITES["planted"], early, images=20), tmp_path)
    assert list(live.suites())[:2] == ["planted-v1", "quick-v2"] == list(read_suites(live.store, tmp_path))[:2]
    make_store(tmp_path, SUITES["quick-specific"], early, images=20)
    assert list(live.suites()) == ["planted-v1", "quick-specific-v1"] == list(read_suites(live.store, tmp_path))


def test_there_is_one_of_each_store(snapshot: LiveSnapshot, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/results.sqlite"
    assert live_snapshot(url, tmp_path) is live_snapshot(url, tmp_path)
    with pytest.raises(StoreError):
        live_snapshot(f"sqlite:///{tmp_path}/nothing.sqlite", tmp_path)


def test_what_is_kept_is_what_would_be_made_anew(quick: SuiteResults, tmp_path: Path) -> None:
    """Boards of a suite share their draws; each alone, from draws of its own, says the same to the last bit."""
    shown = SuiteView(quick, tmp_path)
    shown.compute_all()
    for protocol, unit, levels in ((ROAR, Unit.SCALAR, ()), (KAR, Unit.SCALAR, ()), (ROAR, Unit.SCALAR, (0.9,))):
        kept = shown.board(protocol, unit, levels)
        assert kept is shown.board(protocol, unit, levels)
        assert kept == board_table(Evidence.of(quick), protocol, unit, levels, shown.doubts)
    assert shown.curve_boards[0] == quick.board(ROAR, Unit.SCALAR, [entry.estimator for entry in shown.table.rows])
    assert shown.curve_boards is shown.curve_boards and shown.panel is shown.panel


def test_gains_beside_are_those_of_the_whole_board(quick: SuiteResults) -> None:
    evidence = Evidence.of(quick)
    rows = ("random", "ig", "gb")
    judged = evidence.board(KAR, Unit.SCALAR, rows)
    assert judged is not None and [row.estimator for row in judged.rows] == list(rows)
    assert evidence.gains(KAR, Unit.SCALAR, rows) == {row.estimator: row.gain for row in judged.rows}
    assert evidence.board(ROAR, Unit.PIXEL, rows) is None and evidence.gains(ROAR, Unit.PIXEL, rows) == {}
