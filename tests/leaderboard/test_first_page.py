"""The first page of the app: cached pages, imports and database statements."""

import json
import os
import time

import pytest
from sqlalchemy import URL, event
from sqlalchemy.engine import Engine

from leaderboard import first_page_cache
from leaderboard.first_page_cache import Page, cache_page, make_shown_store, read_cached_page, read_sqlite_stamp
from leaderboard.links import Site, make_address
from leaderboard.live_store import LiveStore
from leaderboard.render import render_page
from roarbench.plan.suites import SUITES
from roarbench.store.results import (
    DEFAULT_FILE,
    ReproductionOutcome,
    ResultsStore,
    make_default_url,
    store_reproduction,
)
from tests.helpers.board_store import make_store
from tests.helpers.processes import run_python

PAGE = Page("A title", "<p class='rb'>A page.</p>", {"a.csv": "1,2\n"})
# runs the command without its Streamlit server, then the app's script as for a visitor
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
    patch.object(board, "_compute_boards_in_endless_loop"),
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
    """A store that was written long ago, with its own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(first_page_cache, "boards_ready", first_page_cache.Event())
    monkeypatch.setattr(first_page_cache, "read_code_version", lambda: "1")
    url = make_store(tmp_path, SUITES["planted"], images=40)
    set_age(tmp_path / DEFAULT_FILE, 60)
    return make_shown_store(url, tmp_path)


def set_age(path, seconds):
    os.utime(path, (time.time() - seconds,) * 2)


def keep_page(shown, page=PAGE):
    with ResultsStore.open(shown.url, read_only=True) as store:
        cache_page(shown, read_sqlite_stamp(shown.url), store.read_change_stamp(), page)


def start_server(shown):
    """Return the first page of a new server, and the packages imported by then."""
    html, modules = json.loads(run_python(START, shown.folder))
    return next(part for part in html if 'class="rb"' in part or part == PAGE.html), set(modules)


def test_cached_page_of_unchanged_files_needs_no_database(shown, tmp_path, monkeypatch):
    """After a write the page needs the database, and an equal state in other files keeps the page."""
    keep_page(shown)
    with monkeypatch.context() as closed:
        closed.setattr(ResultsStore, "open", None)
        assert read_cached_page(shown) == PAGE
        set_age(tmp_path / DEFAULT_FILE, 30)
        with pytest.raises(TypeError):
            read_cached_page(shown)
    assert read_cached_page(shown) == PAGE


def test_cached_page_is_refused_after_new_result_or_for_other_selection_or_code(shown, monkeypatch):
    """A damaged file is refused, too, and so is every page once the process has computed the boards."""
    keep_page(shown)
    assert read_cached_page(shown._replace(data="07e4")) is None
    with monkeypatch.context() as other:
        other.setattr(first_page_cache, "read_code_version", lambda: "0")
        assert read_cached_page(shown) is None
    with ResultsStore.open(shown.url) as store:
        key = next(iter(store.list_result_keys("")))
        store_reproduction(store.database, key, ReproductionOutcome.EQUAL, 40)
    assert read_cached_page(shown) is None
    keep_page(shown)
    first_page_cache.boards_ready.set()
    assert read_cached_page(shown) is None
    first_page_cache.boards_ready.clear()
    assert read_cached_page(shown) == PAGE
    first_page_cache.find_cache_file(shown).write_text("{")
    assert read_cached_page(shown) is None
    monkeypatch.setattr(first_page_cache, "read_code_version", lambda: "1+dirty")  # one version for many changes
    keep_page(shown)
    assert read_cached_page(shown) is None


def test_cache_page_writes_file_once_and_again_after_removal(shown, monkeypatch):
    """A second call with the same page neither reads nor writes the file."""
    file = first_page_cache.find_cache_file(shown)
    keep_page(shown)
    written = file.stat().st_ino, file.stat().st_mtime_ns
    with monkeypatch.context() as busy:
        busy.setattr(first_page_cache.json, "dumps", None)
        keep_page(shown)
    assert (file.stat().st_ino, file.stat().st_mtime_ns) == written
    file.unlink()
    keep_page(shown)
    assert read_cached_page(shown) == PAGE


def test_sqlite_stamp_is_empty_for_recently_written_files(shown, tmp_path):
    """Other databases have no stamp either. A log with writes changes the stamp, an empty log of readers does not."""
    log, sign = tmp_path / f"{DEFAULT_FILE}-wal", read_sqlite_stamp(shown.url)
    assert sign
    for url in ("postgresql://nowhere/a", make_default_url(tmp_path / "none")):
        assert read_sqlite_stamp(url) == ""
    log.touch()
    assert read_sqlite_stamp(shown.url) == sign
    log.write_bytes(b"a write")
    assert read_sqlite_stamp(shown.url) == ""
    set_age(log, 60)
    assert read_sqlite_stamp(shown.url) not in ("", sign)
    log.unlink()
    set_age(tmp_path / DEFAULT_FILE, 0)
    assert read_sqlite_stamp(shown.url) == ""


def test_sqlite_stamp_finds_files_of_sqlalchemy_urls(tmp_path):
    for name in ("a b", "100%20", "ü#?&"):
        folder = tmp_path / name
        url = make_store(folder, SUITES["planted"], lambda point: False)
        assert url == URL.create("sqlite", database=str(folder / DEFAULT_FILE)).render_as_string()
        set_age(folder / DEFAULT_FILE, 60)
        assert read_sqlite_stamp(url)


@pytest.mark.process
def test_cached_first_page_imports_neither_database_nor_templates(shown):
    keep_page(shown)
    html, modules = start_server(shown)
    assert html == PAGE.html
    assert not modules & (HEAVY | {"sqlalchemy", "jinja2", "PIL"})


@pytest.mark.process
def test_uncached_first_page_imports_no_figure_table_or_network_package(shown):
    html, modules = start_server(shown)
    # intervals are integrals over SciPy's special functions
    assert 'class="board"' in html and not modules & (HEAVY - {"scipy"})
    kept = read_cached_page(shown)
    assert kept.html == html and kept.files, "the next start shows it at once"


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
        live = LiveStore(store, tmp_path)
        event.listen(Engine, "before_cursor_execute", count)
        view = next(iter(live.read_views(first_page_only=True).values()))
        page = render_page(Site({view.slug: view}, [], live=True), make_address())
        event.remove(Engine, "before_cursor_execute", count)
        assert view.leads_with_roar_and_own_network and view.combined_board and 'id="rows"' in page.html
        assert not live.state
        assert len(live.read_views()) == 2
    assert len(statements) <= 40
