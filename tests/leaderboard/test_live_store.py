"""Views of the suites in a store: their order, and the cache of a running app."""

from dataclasses import replace
from threading import Event

import pytest

from leaderboard.figures import make_estimator_curves
from leaderboard.first_page_cache import ShownStore
from leaderboard.live_store import LiveStore, find_live_store, read_views
from leaderboard.page.estimator import list_curves
from leaderboard.suite_view import SuiteView
from roarbench.common.errors import StoreError
from roarbench.common.identity import make_json_record
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS, find_dataset
from roarbench.datasets.file_locations_and_downloads import make_source_identity
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import build_run
from roarbench.plan.protocols import KAR, ROAR
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from roarbench.store.results import ReproductionOutcome, ResultsStore, make_default_url, store_reproduction
from roarbench.store.user_files import LOCAL, ImageSource, hash_record_and_files, store_image_sources
from tests.helpers.board_store import make_store, open_views, results
from tests.helpers.older_suites import OLDER

QUICK, PLANTED = OLDER["quick@1"], SUITES["planted"]


def is_early(point):
    return point.cell.t != 0.9


def make_late_results(suite):
    """Return the results that `is_early` leaves out of a store of 40 images."""
    return [result for point, result in results(suite, 40).items() if not is_early(point)]


def open_read_only(folder):
    return ResultsStore.open(make_default_url(folder), read_only=True)


def test_live_store_rereads_only_suites_with_new_results_or_reproductions(tmp_path):
    """Each store has one live store, parts are computed once, and counts of runs are current."""
    make_store(tmp_path, PLANTED, is_early, images=40)
    shown = ShownStore(make_store(tmp_path, QUICK, is_early, images=40), str(tmp_path))
    live = find_live_store(shown)
    assert find_live_store(shown) is live
    with pytest.raises(StoreError):
        find_live_store(shown._replace(url=f"sqlite:///{tmp_path}/nothing.sqlite"))
    before = live.read_views()
    assert list(before) == ["quick-v1", "planted-v1"] and live.read_views() is before
    with ResultsStore.open(shown.url) as store:
        done, failed, *_ = make_late_results(QUICK)
        store.add_results([done])
        after = live.read_views()
        view = after["quick-v1"]
        assert after["planted-v1"] is before["planted-v1"] and view is not before["quick-v1"]
        assert len(view.results.results) == len(before["quick-v1"].results.results) + 1
        assert view.get_board(ROAR) is view.board and view.get_board(KAR) is view.get_board(KAR)
        assert "failed" not in dict(view.run_states.values())
        store.failures.record_runs_failed_until_retry([failed.run], "the disk is full")
        assert [reason for state, reason in view.run_states.values() if state == "failed"] == ["the disk is full"]
        view = live.read_views()["quick-v1"]
        store_reproduction(store.database, done.run.key, ReproductionOutcome.EQUAL, done.correct)
        assert live.read_views()["quick-v1"] is not view


@pytest.mark.slow
def test_read_views_for_first_page_reads_only_needed_suites(tmp_path):
    """Views keep the order of the whole store, suites read before stay, and later calls read the rest."""
    for suite in (PLANTED, QUICK):
        make_store(tmp_path, suite, is_early, images=40)
    live = LiveStore(open_read_only(tmp_path), tmp_path)
    assert list(live.read_views(first_page_only=True)) == ["quick-v1"] and not live.state
    assert list(live.read_views()) == ["quick-v1", "planted-v1"] and live.state
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store.add_results([make_late_results(QUICK)[0]])
    assert list(live.read_views(first_page_only=True)) == ["quick-v1", "planted-v1"] and live.state
    make_store(tmp_path, OLDER["quick-matched@2"], is_early, images=40)
    anew = LiveStore(open_read_only(tmp_path), tmp_path)
    beside = list(anew.read_views(first_page_only=True))
    assert beside[0].startswith("quick-matched") and "quick-v1" in beside
    assert "planted-v1" not in beside and list(anew.read_views())[0] == beside[0]


@pytest.mark.slow
def test_read_views_puts_newest_version_with_rows_first(tmp_path):
    """Suites with untouched images alone come last, or vanish if a suite with rows explains the same networks."""
    live = find_live_store(ShownStore(make_store(tmp_path, QUICK, lambda point: False), str(tmp_path)))
    assert live.read_views() == {}
    second = OLDER["quick@2"]
    make_store(tmp_path, second, lambda point: point.cell.estimator == CLEAN, images=20)
    make_store(tmp_path, PLANTED, is_early, images=20)
    assert list(live.read_views())[:2] == ["planted-v1", "quick-v6"]
    make_store(tmp_path, SUITE_VERSIONS["quick", 6], is_early, images=20)
    assert list(live.read_views()) == ["quick-v6", "planted-v1"]
    make_store(tmp_path, second, is_early, images=20)
    make_store(tmp_path, QUICK, is_early, images=20)
    assert list(live.read_views())[:3] == ["quick-v6", "quick-v2", "quick-v1"]
    with open_views(tmp_path) as found:
        assert list(found) == list(live.read_views())


def test_view_lists_suites_on_same_images_and_network(tmp_path):
    for suite in (OLDER["quick-matched@2"], QUICK):
        make_store(tmp_path, suite, images=60)
    with open_views(tmp_path) as views:
        matched, places = views["quick-matched-v2"], {row.place for row in views["quick-v1"].board.rows}
        assert [view.slug for view in matched.suites_on_same_images_and_network] == ["quick-v1"]
        assert matched.board.roar_source == "quick v1"
        assert {row.roar for row in matched.board.rows} <= {*places, None}


@pytest.mark.slow
def test_views_are_separate_for_images_networks_and_small_versions(call, tmp_path):
    """The store has `quick` on its own images, on images of a folder, and with pretrained weights."""
    photos, out = tmp_path / "photos", tmp_path / "out"
    photos.mkdir()
    (photos / "train.parquet").write_bytes(b"somebody's")
    about, own = find_dataset(QUICK.dataset), PINNED_FINGERPRINTS[QUICK.dataset]
    origin = hash_record_and_files(make_json_record(about), make_source_identity(about, photos))
    other, weights = "07e4" * 8, "file@0a1b2c3d4e5f"
    made = results(QUICK, 40)
    with ResultsStore.open(make_default_url(tmp_path)) as store:
        store_image_sources(store.database, [ImageSource(other, QUICK.dataset, None, LOCAL, str(photos), origin)])
        for suite, data in ((QUICK, own), (QUICK, other), (replace(QUICK, given=weights), own)):
            store.add_results(replace(row, run=build_run(suite, point, data, None)) for point, row in made.items())
        store.add_results(results(PLANTED, 20, limit=40).values())

    def read(data="", reference=""):
        with open_read_only(tmp_path) as store:
            return {slug: view.results for slug, view in read_views(store, tmp_path, (data, reference)).items()}

    slugs = ["quick-v1", "quick-v1-data-07e407e4", "quick-v1-reference-file-0a1b2c3d"]
    found = read()
    assert sorted(found) == ["planted-v1-small-40", *slugs] and next(iter(found)) == "quick-v1"
    live = find_live_store(ShownStore(make_default_url(tmp_path), str(tmp_path), "07e4"))
    assert list(live.read_views()) == list(read(str(photos))) == slugs[1:2]
    assert list(read("", weights[:10])) == slugs[2:] and not read("", "file@ffff")
    for asked in ("--data /nowhere", "--data 07e4 --reference file@0a1b"):
        answer = call("leaderboard", "--store", tmp_path, *asked.split(), "--export", out)
        assert answer.code and not out.exists()
        assert f"this store has no board for {asked.replace(' --ref', ' and --ref')}" in answer.err
    assert call("leaderboard", "--store", tmp_path, "--data", "07e4", "--export", out).code == 0
    assert "images of photos, 07e407e4" in (out / "index.html").read_text()
    assert not (out / "board-quick-v1.html").exists()


def test_curve_title_names_single_level_and_curves_are_unique(views):
    view = views["quick-v1"]
    drawn = make_estimator_curves(view.table(ROAR, levels=(0.9,)), "grad")
    assert drawn and drawn.title == "test accuracy, %; measured only at t = 0.9"
    assert [t for t, _ in drawn.curves[-1]] == [0.0, 0.9] and drawn.description.count("t = ") == 1
    once = list(list_curves([view], "grad"))
    assert len(once) > 1 and once[0][1].title == "test accuracy, %" and list(list_curves([view, view], "grad")) == once


def test_cached_page_is_used_until_every_suite_has_first_board(tmp_path, monkeypatch):
    """The first page may be the overview, which needs all suites."""
    for suite in (PLANTED, QUICK):
        make_store(tmp_path, suite, is_early, images=40)
    live, ready, seen, built = LiveStore(open_read_only(tmp_path), tmp_path), Event(), Event(), []
    seen.set()

    def sleep(seconds):
        if seconds > 1:  # the first round is done
            raise InterruptedError

    for name, value in {"boards_ready": ready, "first_page_shown": seen, "sleep": sleep}.items():
        monkeypatch.setattr(f"leaderboard.live_store.{name}", value)
    for part in ("combined_board", "board"):
        note = property(lambda view, part=part: built.append((part, view.slug, ready.is_set())))
        monkeypatch.setattr(SuiteView, part, note)
    monkeypatch.setattr(SuiteView, "protocol_boards", ())
    with pytest.raises(InterruptedError):
        live.compute_boards_in_endless_loop()
    slugs = ["quick-v1", "quick-v1", "planted-v1"]  # that of the first page, then all
    assert built == [(part, slug, False) for slug in slugs for part in ("combined_board", "board")] and ready.is_set()
