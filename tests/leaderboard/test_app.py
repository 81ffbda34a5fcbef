"""The app's own state: what a visit reads, keeps and imports."""

import json

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine
from streamlit.testing.v1 import AppTest

from leaderboard import app, serve_and_export
from leaderboard.render import render_live_page
from leaderboard.stored_suites import SHOWN_VARIABLE, collect_views, read_views_of_suite
from roarbench.common.errors import StoreError
from roarbench.plan.protocols import KAR, ROAR
from roarbench.plan.suites import SUITES
from roarbench.store.results import ReproductionOutcome, ResultsStore, make_default_url, store_reproduction
from tests.helpers.board_store import make_store, results
from tests.helpers.older_suites import OLDER
from tests.helpers.processes import run_python

# runs the command without its Streamlit server, then the app's script as for a visitor
START = """
import json, sys
from contextlib import suppress
from unittest.mock import patch
from streamlit.testing.v1 import AppTest
from streamlit.web import cli
from roarbench.cli.main import main
with patch.object(cli, "main_run") as run:
    sys.argv = ["roarbench", "leaderboard", "--store", sys.argv[1]]
    with suppress(SystemExit):
        main()
    html = [part.value for part in AppTest.from_file(run.call_args[0][0][0], default_timeout=120).run().get("html")]
print(json.dumps([html, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
QUICK, PLANTED = OLDER["quick@1"], SUITES["planted"]
UNREAD = "The other suites are being read."


def is_early(point):
    return point.cell.t != 0.9


def start_visit(monkeypatch, folder):
    """Return a visitor's app with its first page."""
    monkeypatch.setenv(SHOWN_VARIABLE, json.dumps(serve_and_export.make_shown(make_default_url(folder), folder)))
    return AppTest.from_file(app.__file__, default_timeout=120).run()


def read_page(visit):
    assert not visit.exception
    return next(part.value for part in visit.get("html") if 'class="rb"' in part.value)


def test_app_rereads_only_suites_on_networks_with_new_results_or_reproductions(tmp_path):
    """Parts are computed once, and counts of runs are current."""
    make_store(tmp_path, PLANTED, is_early, images=40)
    shown = make_store(tmp_path, QUICK, is_early, images=40), str(tmp_path)
    with pytest.raises(StoreError):
        app.open_store(f"sqlite:///{tmp_path}/nothing.sqlite")

    def read(suite):
        app.read_stamp.clear()  # as after a second
        return app.read_suite(*shown, suite).views[0]

    quick, planted = map(read, (QUICK, PLANTED))
    assert (
        read(QUICK) is quick and quick.get_board(ROAR) is quick.board and quick.get_board(KAR) is quick.get_board(KAR)
    )
    done, failed, other, *_ = (result for point, result in results(QUICK, 40).items() if not is_early(point))
    with ResultsStore.open(shown[0]) as store:
        store.add_results([done])
        again = read(QUICK)
        assert again is not quick and read(PLANTED) is planted
        assert len(again.results.results) == len(quick.results.results) + 1
        store.failures.record_runs_failed_until_retry([failed.run, other.run], "the disk is full")
        (line,) = again.run_states[1]
        assert line.endswith(" and 1 more: the disk is full")
        store_reproduction(store.database, done, ReproductionOutcome.EQUAL, done.correct)
        assert read(QUICK) is not again


def test_first_view_of_server_shows_first_suite_and_next_look_all(tmp_path, monkeypatch):
    for suite in (PLANTED, QUICK):
        make_store(tmp_path, suite, is_early, images=40)
    app.find_event_of_reading.clear()
    visit = start_visit(monkeypatch, tmp_path)
    assert 'class="board"' in (first := read_page(visit)) and UNREAD in first and "planted" not in first
    assert UNREAD in read_page(start_visit(monkeypatch, tmp_path)), "the first visitor is gone"
    whole = read_page(visit.run())
    assert UNREAD not in whole and "planted" in whole
    assert read_page(start_visit(monkeypatch, tmp_path)) == whole


@pytest.mark.process
def test_first_view_imports_no_figure_table_or_network_package(tmp_path):
    make_store(tmp_path, PLANTED, images=40)
    html, modules = json.loads(run_python(START, tmp_path))
    assert any('class="board"' in part for part in html)
    assert not {*modules} & {"torch", "pandas", "pyarrow", "altair", "matplotlib"}


@pytest.mark.slow
def test_first_page_reads_only_its_suite_with_few_statements(tmp_path):
    """The suite has its own ROAR ranks; tabs of other suites appear after the whole store is read."""
    for name in ("quick-matched", "quick"):
        make_store(tmp_path, SUITES[name], images=20)
    statements = []

    def count(*call):
        if call[2] != "BEGIN":  # each query begins a transaction of its own on the open connection
            statements.append(call[2])

    with ResultsStore.open(make_default_url(tmp_path), read_only=True) as store:
        event.listen(Engine, "before_cursor_execute", count)
        views, all_read = collect_views(store, lambda suite: read_views_of_suite(store, suite, tmp_path), True)
        page = render_live_page(views, {}, all_read)
        event.remove(Engine, "before_cursor_execute", count)
    (view,) = views.values()
    assert view.leads_with_roar_and_own_network and view.combined_board and 'id="rows"' in page.html
    assert not all_read and UNREAD in page.html and len(statements) <= 40
