"""What the app imports and asks the database before its first page stands."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import URL, event
from sqlalchemy.engine import Engine

from leaderboard import first_page_cache
from leaderboard.first_page_cache import Page, cache_page, make_shown_store, read_cached_page, read_sqlite_stamp
from leaderboard.links import Site, make_address
from leaderboard.render import render_page
from leaderboard.views import LiveStore
from roarbench.plan.suites import SUITES
from roarbench.store.results import DEFAULT_FILE, ResultsStore, make_default_url
from tests.helpers.board_store import make_store

PAGE = Page("A title", "<p class='rb'>A page.</p>", {"a.csv": "1,2\n"})
# the command, whose Streamlit serves nobody, then the script that it would run for a visitor
START = """
import json, sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch
from leaderboard import first_page_cache, serve_and_export as board
from streamlit.testing.v1 import AppTest
from streamlit.web import cli
from roarbench.cli.main import main
app = str(Path(first_page_cache.__file__).with_name("app.py"))
with (
    patch.object(cli, "main_run"),
    patch.object(board, "_check_port"),
    patch.object(board, "_compute_pages_in_advance"),
    patch.object(board, "read_code_version", lambda: "1"),
    patch.object(first_page_cache, "read_code_version", lambda: "1"),
):
    sys.argv = ["roarbench", "leaderboard", "--store", sys.argv[1]]
    with suppress(SystemExit):
        main()
    html = [part.value for part in AppTest.from_file(app, default_timeout=120).run().get("html")]
print(json.dumps([html, sorted({name.partition(".")[0] for name in sys.modules})]))
"""
HEAVY = {"torch", "pandas", "pyarrow", "altair", "matplotlib", "scipy"}


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """A store that was written long ago, and a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(first_page_cache, "boards_ready", first_page_cache.Event())
    monkeypatch.setattr(first_page_cache, "read_code_version", lambda: "1")
    url = make_store(tmp_path, SUITES["planted"], images=40)
    age(tmp_path / DEFAULT_FILE, 60)
    return make_shown_store(url, tmp_path)


def age(path, seconds):
    """Give a file the time of a write so many seconds ago."""
    os.utime(path, (time.time() - seconds,) * 2)


def keep(shown, page=PAGE):
    with ResultsStore.open(shown.url, read_only=True) as store:
        cache_page(shown, read_sqlite_stamp(shown.url), store.read_change_stamp(), page)


def start(shown):
    """Return the first page of a new server, and the packages imported by then."""
    words = [sys.executable, "-c", START, shown.folder]
    run = subprocess.run(
        words, check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(Path.cwd())}
    )
    html, modules = json.loads(run.stdout)
    return next(part for part in html if 'class="rb"' in part or part == PAGE.html), set(modules)


def test_a_page_of_unchanged_files_is_shown_without_the_database(shown, tmp_path, monkeypatch):
    """After any write the store is asked; the same state in other files is the same page."""
    keep(shown)
    with monkeypatch.context() as closed:
        closed.setattr(ResultsStore, "open", None)
        assert read_cached_page(shown) == PAGE
        age(tmp_path / DEFAULT_FILE, 30)
        with pytest.raises(TypeError):
            read_cached_page(shown)
    assert read_cached_page(shown) == PAGE


def test_a_page_is_written_once_and_again_if_its_file_is_gone(shown, monkeypatch):
    """A second call with the same page neither writes text nor reads it."""
    file = first_page_cache.find_cache_file(shown)
    keep(shown)
    written = file.stat().st_ino, file.stat().st_mtime_ns
    with monkeypatch.context() as busy:
        busy.setattr(first_page_cache.json, "dumps", None)
        keep(shown)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == written
    file.unlink()
    keep(shown)
    assert read_cached_page(shown) == PAGE


def test_files_that_were_just_written_have_no_sign(shown, tmp_path):
    """Neither have other databases. A log of writes belongs to the files, an empty one of readers does not."""
    log, sign = tmp_path / f"{DEFAULT_FILE}-wal", read_sqlite_stamp(shown.url)
    assert (
        sign
        and read_sqlite_stamp("postgresql://nowhere/a") == read_sqlite_stamp(make_default_url(tmp_path / "none")) == ""
    )
    log.touch()
    assert read_sqlite_stamp(shown.url) == sign
    log.write_bytes(b"a write")
    assert read_sqlite_stamp(shown.url) == ""
    age(log, 60)
    assert read_sqlite_stamp(shown.url) not in ("", sign)
    log.unlink()
    age(tmp_path / DEFAULT_FILE, 0)
    assert read_sqlite_stamp(shown.url) == ""


def test_urls_are_those_of_sqlalchemy_and_files_are_found_by_them(tmp_path):
    for name in ("a b", "100%20", "ü#?&"):
        folder = tmp_path / name
        url = make_store(folder, SUITES["planted"], lambda point: False)
        assert url == URL.create("sqlite", database=str(folder / DEFAULT_FILE)).render_as_string()
        age(folder / DEFAULT_FILE, 60)
        assert read_sqlite_stamp(url)


@pytest.mark.process
def test_a_cached_first_page_needs_neither_database_nor_templates(shown):
    keep(shown)
    html, modules = start(shown)
    assert html == PAGE.html
    assert not modules & (HEAVY | {"sqlalchemy", "jinja2", "PIL"})


@pytest.mark.process
def test_a_first_page_without_a_cache_imports_nothing_for_figures_tables_or_networks(shown):
    html, modules = start(shown)
    assert 'class="board"' in html and not modules & HEAVY


@pytest.mark.slow
def test_the_first_page_of_both_questions_reads_its_own_suite_with_few_statements(tmp_path):
    """The suite has its own ROAR ranks; tabs of other suites come when the whole store has been read."""
    for name in ("quick-matched", "quick"):
        make_store(tmp_path, SUITES[name], images=20)
    statements = []

    def count(*call):
        statements.append(call[2])

    with ResultsStore.open(make_default_url(tmp_path), read_only=True) as store:
        live = LiveStore(store, tmp_path)
        event.listen(Engine, "before_cursor_execute", count)
        view = next(iter(live.read_views(first_page_only=True).values()))
        page = render_page(Site({view.slug: view}, [], live=True), make_address())
        event.remove(Engine, "before_cursor_execute", count)
        assert (
            view.leads_with_roar_and_own_network and view.paired_board and 'id="rows"' in page.html and not live.state
        )
        assert list(live._views) == [view.slug] and len(live.read_views()) == 2
    assert len(statements) <= 40
