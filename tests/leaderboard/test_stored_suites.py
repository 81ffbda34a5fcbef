"""Views of the suites in a store, and their order."""

import json
from dataclasses import replace
from io import StringIO

import pandas
import pytest

from leaderboard.figures import make_estimator_curves
from leaderboard.page.estimator import list_curves
from leaderboard.stored_suites import collect_views, read_views, read_views_of_suite
from roarbench.common.enums import Unit
from roarbench.common.identity import make_json_record
from roarbench.datasets.catalogue import PINNED_FINGERPRINTS, find_dataset
from roarbench.datasets.file_locations_and_downloads import make_source_identity
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.protocols import ROAR
from roarbench.plan.suite_changes import set_allowed_fill_and_unit
from roarbench.plan.suites import SUITE_VERSIONS, SUITES
from roarbench.report.table import make_table
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.user_files import LOCAL, ImageSource, hash_record_and_files, store_image_sources
from tests.helpers.board_store import make_store, open_views, results
from tests.helpers.older_suites import OLDER

QUICK, PLANTED = OLDER["quick@1"], SUITES["planted"]


def is_early(point):
    return point.cell.t != 0.9


def open_read_only(folder):
    return ResultsStore.open(make_default_url(folder), read_only=True)


@pytest.mark.slow
def test_collect_views_for_first_page_reads_only_needed_suites(tmp_path):
    """Views keep the order of the whole store."""
    for suite in (PLANTED, QUICK):
        make_store(tmp_path, suite, is_early, images=40)

    def collect(first_page_only):
        with open_read_only(tmp_path) as store:
            views, all_read = collect_views(
                store, lambda suite: read_views_of_suite(store, suite, tmp_path), first_page_only
            )
            return list(views), all_read

    assert collect(True) == (["quick-v1"], False) and collect(False) == (["quick-v1", "planted-v1"], True)
    make_store(tmp_path, OLDER["quick-matched@2"], is_early, images=40)
    first, all_read = collect(True)
    assert first == ["quick-matched-v2"] and not all_read and collect(False)[0][:2] == [*first, "quick-v1"]


@pytest.mark.slow
def test_read_views_puts_newest_version_with_rows_first(tmp_path):
    """Suites with untouched images alone are not shown: another suite of these networks may have been run."""
    make_store(tmp_path, QUICK, lambda point: False)

    def list_slugs():
        with open_views(tmp_path) as found:
            return list(found)

    assert list_slugs() == []
    second = OLDER["quick@2"]
    make_store(tmp_path, second, lambda point: point.cell.estimator == CLEAN, images=20)
    make_store(tmp_path, PLANTED, is_early, images=20)
    assert list_slugs() == ["planted-v1"]
    make_store(tmp_path, SUITE_VERSIONS["quick", 6], is_early, images=20)
    assert list_slugs() == ["quick-v6", "planted-v1"]
    make_store(tmp_path, second, is_early, images=20)
    make_store(tmp_path, QUICK, is_early, images=20)
    assert list_slugs()[:3] == ["quick-v6", "quick-v2", "quick-v1"]


def test_view_lists_suites_on_same_images_and_network(tmp_path):
    for suite in (OLDER["quick-matched@2"], QUICK):
        make_store(tmp_path, suite, images=60)
    with open_views(tmp_path) as views:
        matched = views["quick-matched-v2"]
        assert [view.slug for view in matched.suites_on_same_images_and_network] == ["quick-v1"]


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

    with open_read_only(tmp_path) as store:
        found = list(read_views(store, tmp_path))
    slugs = ["quick-v1", "quick-v1-data-07e407e4", "quick-v1-reference-file-0a1b2c3d"]
    assert sorted(found) == ["planted-v1-small-40", *slugs] and found[0] == "quick-v1"
    assert call("leaderboard", "--store", tmp_path, "--export", out).code == 0
    assert "images of photos, 07e407e4" in (out / f"board-{slugs[1]}.html").read_text()
    assert (out / f"board-{slugs[2]}.html").exists()


@pytest.mark.slow
def test_results_of_options_fill_and_unit_have_pages(call, tmp_path):
    """They were on no page; a suite that only shares their runs has none, as without the options."""
    linear = set_allowed_fill_and_unit(SUITE_VERSIONS["quick", 7], "linear")
    make_store(tmp_path, linear, images=20)
    with open_views(tmp_path) as views:
        assert {slug: view.title for slug, view in views.items()} == {"quick-v7-fill-linear": "quick v7, fill linear"}
    make_store(tmp_path, SUITE_VERSIONS["quick", 7], images=20)
    with open_views(tmp_path) as views:
        assert [*views] == ["quick-v7", "quick-v7-fill-linear"]
        assert not views["quick-v7"].suites_on_same_images_and_network  # other fills repeat nothing
    assert call("leaderboard", "--store", tmp_path, "--export", tmp_path / "out").code == 0
    page = (tmp_path / "out/board-quick-v7-fill-linear.html").read_text()
    assert (
        '<p class="facts">quick v7, fill linear · ROAR gain' in page
        and ">quick v7, fill linear</a>" in (tmp_path / "out/index.html").read_text()
    )


def test_curve_title_names_single_level_and_curves_are_unique(views):
    view = views["quick-v1"]
    alone = replace(view.results, included_levels={(ROAR, Unit.SCALAR): (0.9,)})
    drawn = make_estimator_curves(make_table(alone, ROAR, view.rows), "grad")
    assert drawn and drawn.title == "test accuracy, %; measured only at t = 0.9"
    assert [t for t, _ in drawn.curves[-1]] == [0.0, 0.9] and drawn.description.count("t = ") == 1
    once = list(list_curves([view], "grad"))
    assert len(once) > 1 and once[0][1].title == "test accuracy, %" and list(list_curves([view, view], "grad")) == once


def test_failed_row_says_so_on_all_pages_and_in_tables(call, tmp_path):
    """A row whose runs all failed was *not run* on its own page, and on no row of the board of all gains."""
    suite = SUITE_VERSIONS["quick", 7]
    url = make_store(tmp_path, suite, lambda point: point.cell.estimator != "gb-sq", images=40)
    waiting = [point for point in list_planned_runs(suite) if point.cell.estimator == "gb-sq"]
    roar = [point for point in waiting if point.cell.retrain is ROAR.retrain]
    runs = [build_run(suite, point, PINNED_FINGERPRINTS[suite.dataset], None) for point in waiting]
    with ResultsStore.open(url) as store:
        store.failures.record_runs_failed_until_retry(runs, "out of memory.")
    with open_views(tmp_path) as views:
        view = views["quick-v7"]
        row, other = (view.get_board(ROAR).rows_by_id[name] for name in ("gb-sq", "grad"))
        assert (row.verdict_text, row.started) == ("failed", True) and other.verdict_text != "failed"
        said = f"No rank: {len(roar)} runs of gb-sq failed: out of memory; roarbench status --suite quick@7 lists "
        assert [(doubt.short, doubt.sentence) for doubt in row.doubts] == [("failed", f"{said}failures.")]
        assert "gb-sq" in [each.id for each in view.combined_board.rows]
    out = tmp_path / "out"
    assert call("leaderboard", "--store", tmp_path, "--export", out).code == 0
    page = (out / "estimator-gb-sq.html").read_text()
    assert page.count("<small>failed</small>") == 2 and "not run" not in page and "out of memory" in page
    asked = ("table", "--suite", "quick@7", "--store", tmp_path)
    lines = {line.split()[0]: line.split()[1:] for line in call(*asked).out.splitlines() if line.strip()}
    assert lines["gb-sq"][0] == "failed" and lines["gb-sq"].count("failed") == 2
    rows = {row["estimator"]: row for row in json.loads(call(*asked, "--format", "json").out)["rows"]}
    assert {name for name, each in rows.items() if each["own_network"]["failed"]} == {"gb-sq"}
    table = pandas.read_csv(StringIO(call(*asked, "--format", "csv").out), index_col="estimator")
    assert (table.loc["gb-sq", "roar"], table.loc["grad", "roar"]) == ("failed", "run")
    assert f"{len(waiting)} failed" in (out / "index.html").read_text()
