"""Which suites a store shows, and what a running app keeps of them."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from leaderboard.figure import figure
from leaderboard.first import Selection, Shown
from leaderboard.page.method import figures
from leaderboard.views import LiveStore, SuiteView, live_store, read_views
from roarbench.analysis.boards import SuiteResults
from roarbench.cli.main import app
from roarbench.datasets.catalogue import PINNED, find_dataset
from roarbench.datasets.origin import describe_source
from roarbench.errors import StoreError
from roarbench.identity import record
from roarbench.plan.keys import bind
from roarbench.plan.points import Point
from roarbench.plan.runs import CLEAN
from roarbench.plan.suites import SUITES, VERSIONS
from roarbench.protocols.roar import KAR, ROAR
from roarbench.store.entries import ReproductionOutcome, note_reproduction
from roarbench.store.image_notes import LOCAL, ImageNote, source_files
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.board_store import make_store, results

QUICK = VERSIONS["quick", 1]
OTHER, GIVEN = "07e4" * 8, "file@0a1b2c3d4e5f"
SLUGS = ["quick-v1", "quick-v1-data-07e407e4", "quick-v1-reference-file-0a1b2c3d"]


def early(point: Point) -> bool:
    return point.cell.t != 0.9


@pytest.fixture
def live(tmp_path: Path) -> LiveStore:
    make_store(tmp_path, SUITES["planted"], early, images=40)
    return live_store(Shown(make_store(tmp_path, QUICK, early, images=40), str(tmp_path)))


def test_suites_are_read_again_only_where_results_came_or_somebody_vouched(live: LiveStore, tmp_path: Path) -> None:
    before = live.views()
    assert list(before) == ["quick-v1", "planted-v1"] and live.views() is before
    late = [result for point, result in results(QUICK, 40).items() if not early(point)]
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(late[0])
    after = live.views()
    assert after["planted-v1"] is before["planted-v1"] and after["quick-v1"] is not before["quick-v1"]
    assert len(after["quick-v1"].results.results) == len(before["quick-v1"].results.results) + 1
    with ResultsStore.open(default_url(tmp_path)) as store:
        note_reproduction(store.database, late[0].run.key, ReproductionOutcome.EQUAL, late[0].correct)
    assert live.views()["quick-v1"] is not after["quick-v1"]


@pytest.mark.slow
def test_while_somebody_waits_only_what_the_first_page_needs_is_read(tmp_path: Path) -> None:
    """The order is that of all; nothing that was read is forgotten, and the rest is read when nobody waits."""
    for suite in (SUITES["planted"], QUICK):
        make_store(tmp_path, suite, early, images=40)
    live = LiveStore(ResultsStore.open(default_url(tmp_path), read_only=True), tmp_path)
    assert list(live.views(waiting=True)) == ["quick-v1"] and not live.state
    assert list(live.views()) == ["quick-v1", "planted-v1"] and live.state
    late = [result for point, result in results(QUICK, 40).items() if not early(point)]
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.add(late[0])
    assert list(live.views(waiting=True)) == ["quick-v1", "planted-v1"] and live.state
    make_store(tmp_path, VERSIONS["quick-matched", 2], early, images=40)
    make_store(tmp_path, SUITES["quick-specific"], images=60)
    anew = LiveStore(ResultsStore.open(default_url(tmp_path), read_only=True), tmp_path)
    beside = list(anew.views(waiting=True))
    assert beside[0].startswith("quick-matched") and {"quick-specific-v1", "quick-v1"} < set(beside)
    assert "planted-v1" not in beside and list(anew.views())[0] == beside[0]


def test_runs_are_counted_as_they_are_now(live: LiveStore, tmp_path: Path) -> None:
    view = live.views()["quick-v1"]
    missing = next(result for point, result in results(QUICK, 40).items() if not early(point))
    assert "failed" not in dict(view.states.values())
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.failures.add(missing.run, "the disk is full")
    assert [reason for state, reason in view.states.values() if state == "failed"] == ["the disk is full"]


@pytest.mark.slow
def test_the_newest_version_with_rows_comes_first(tmp_path: Path) -> None:
    """Untouched images alone are shown last, and not at all where a suite with rows explains the same references."""
    live = live_store(Shown(make_store(tmp_path, QUICK, lambda point: False), str(tmp_path)))
    assert live.views() == {}
    second = VERSIONS["quick", 2]
    make_store(tmp_path, second, lambda point: point.cell.estimator == CLEAN, images=20)
    make_store(tmp_path, SUITES["planted"], early, images=20)
    assert list(live.views())[:2] == ["planted-v1", "quick-v6"]
    make_store(tmp_path, SUITES["quick-specific"], early, images=20)
    assert list(live.views()) == ["planted-v1", "quick-specific-v1"]
    make_store(tmp_path, second, early, images=20)
    make_store(tmp_path, QUICK, early, images=20)
    assert list(live.views())[:2] == ["quick-v2", "quick-v1"]
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        assert list(read_views(store, tmp_path)) == list(live.views())


def test_there_is_one_of_each_store_and_parts_are_computed_once(live: LiveStore, tmp_path: Path) -> None:
    assert live_store(Shown(default_url(tmp_path), str(tmp_path))) is live
    with pytest.raises(StoreError):
        live_store(Shown(f"sqlite:///{tmp_path}/nothing.sqlite", str(tmp_path)))
    view = live.views()["quick-v1"]
    assert view.board_of(ROAR) is view.board and view.board_of(KAR) is view.board_of(KAR)


def test_suites_on_the_same_images_and_network_stand_beside_each_other(tmp_path: Path) -> None:
    make_store(tmp_path, SUITES["quick-specific"], images=60)
    make_store(tmp_path, QUICK, images=60)
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        views = read_views(store, tmp_path)
        specific, places = views["quick-specific-v1"], {row.place for row in views["quick-v1"].board.rows}
        assert [view.slug for view in specific.siblings] == ["quick-v1"] and specific.board.roar_from == "quick v1"
        assert {row.roar for row in specific.board.rows} <= {*places, None}


@pytest.fixture
def several(tmp_path: Path) -> Path:
    """`quick` on its own images, on those of a folder, and of given weights."""
    photos = tmp_path / "photos"
    photos.mkdir()
    (photos / "train.parquet").write_bytes(b"somebody's")
    about = find_dataset(QUICK.dataset)
    origin = source_files(record(about), describe_source(about, photos))
    made = results(QUICK, 40)
    with ResultsStore.open(default_url(tmp_path)) as store:
        store.images.add([ImageNote(OTHER, QUICK.dataset, None, LOCAL, str(photos), origin)])
        store.add_all(made.values())
        store.add_all(replace(row, run=bind(QUICK, point, OTHER, None)) for point, row in made.items())
        given, own = replace(QUICK, given=GIVEN), PINNED[QUICK.dataset]
        store.add_all(replace(row, run=bind(given, point, own, None)) for point, row in made.items())
        store.add_all(results(SUITES["planted"], 20, limit=40).values())
    return tmp_path


def read(folder: Path, *only: str) -> dict[str, SuiteResults]:
    with ResultsStore.open(default_url(folder), read_only=True) as store:
        return {slug: view.results for slug, view in read_views(store, folder, Selection(*only)).items()}


@pytest.mark.slow
def test_images_references_and_small_versions_have_boards_of_their_own(several: Path) -> None:
    found = read(several)
    assert sorted(found) == ["planted-v1-small-40", *SLUGS] and next(iter(found)) == "quick-v1"
    own, trained = f"(the suite's own images, {PINNED[QUICK.dataset][:8]})", "(reference trained by quick-reference@1)"
    assert [found[slug].title for slug in SLUGS] == [
        f"quick v1 {own} {trained}",
        f"quick v1 (images of photos, 07e407e4) {trained}",
        f"quick v1 {own} (reference file@0a1b2c3d)",
    ]
    assert "small version: 40" in found["planted-v1-small-40"].title
    live = live_store(Shown(default_url(several), str(several), "07e4"))
    assert list(live.views()) == list(read(several, str(several / "photos"))) == SLUGS[1:2]
    assert list(read(several, "", GIVEN[:10])) == SLUGS[2:] and not read(several, "", "file@ffff")
    out = several / "out"
    call = ["leaderboard", "--store", str(several), "--data", "07e4", "--export", str(out)]
    assert CliRunner().invoke(app, call).exit_code == 0
    assert (
        "images of photos, 07e407e4" in (out / "index.html").read_text() and not (out / "board-quick-v1.html").exists()
    )


@pytest.mark.slow
@pytest.mark.parametrize("words", [("--data", "/nowhere"), ("--data", "07e4", "--reference", "file@0a1b")])
def test_what_no_board_is_of_is_the_callers_mistake(several: Path, words: tuple[str, ...]) -> None:
    out = several / "out"
    made = CliRunner().invoke(app, ["leaderboard", "--store", str(several), *words, "--export", str(out)])
    asked = " and ".join(map(" ".join, zip(words[::2], words[1::2], strict=True)))
    assert f"this store has no board of {asked}" in str(made.exception) and not out.exists()


def test_a_curve_of_one_level_says_so_and_no_curve_is_shown_twice(views: dict[str, SuiteView]) -> None:
    view = views["quick-v1"]
    drawn = figure(view.table(ROAR, levels=(0.9,)), "grad")
    assert drawn and drawn.title == "test accuracy, %; measured at t = 0.9 alone"
    assert [t for t, _ in drawn.curves[-1]] == [0.0, 0.9] and drawn.words.count("t = ") == 1
    once = list(figures([view], "grad"))
    assert len(once) > 1 and once[0][1].title == "test accuracy, %" and list(figures([view, view], "grad")) == once
