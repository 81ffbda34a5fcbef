"""Run the command `roarbench leaderboard`: serve the app, or export static pages."""

import json
import os
import socket
from collections.abc import Sized
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from leaderboard.first_page_cache import (
    ALL,
    SELECTION_VARIABLE,
    Selection,
    ShownStore,
    find_cache_file,
    first_page_shown,
    make_shown_store,
    read_cached_page,
)
from roarbench.common.errors import CallerError
from roarbench.store.run_result import read_code_version

_PATIENCE = 10.0  # seconds to wait for a first visitor before pages are computed in advance
_FOLDER = Path(__file__).parent  # working folder for Streamlit, which reads its settings from .streamlit/ there


def serve_app(url: str, store: Path, port: int, selection: Selection = ALL) -> None:
    """Run the app on 127.0.0.1 until the user stops it.

    Raises:
        CallerError: A package is missing, the port cannot be used, or there are no such results.
        StoreError: The store cannot be opened.
    """
    _require_package("streamlit")
    _check_port(port)
    shown = make_shown_store(url, store, *selection)
    if any(selection):
        from leaderboard.live_store import find_live_store

        _refuse_empty_selection(find_live_store(shown).read_views(), selection)
    run_streamlit(shown, port)


def run_streamlit(shown: ShownStore, port: int) -> None:
    """Run the app in this process, and compute pages in advance in a thread; raise StoreError for a bad store."""
    cached = find_cache_file(shown).exists()
    if cached:
        Thread(target=read_code_version, daemon=True).start()  # git runs while Streamlit is imported
    else:
        _check_store_opens(shown)
    from streamlit.web import cli

    if cached and read_cached_page(shown) is None:
        cached = False
        _check_store_opens(shown)
    Thread(target=_compute_boards_in_endless_loop, args=[shown, cached], daemon=True).start()
    os.environ[SELECTION_VARIABLE] = json.dumps(shown)
    os.chdir(_FOLDER)
    cli.main_run([str(_FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)


def _check_store_opens(shown: ShownStore) -> None:
    from roarbench.store.results import ResultsStore  # imported here, because a cached page needs no database

    ResultsStore.open(shown.url, read_only=True).close()


def _compute_boards_in_endless_loop(shown: ShownStore, cached: bool) -> None:
    """Compute pages in advance; if a page is cached, wait first, so as not to delay the first visitor."""
    if cached:
        first_page_shown.wait(_PATIENCE)
    from leaderboard.live_store import find_live_store

    find_live_store(shown).compute_boards_in_endless_loop()


def export_site(url: str, store: Path, folder: Path, selection: Selection = ALL) -> int:
    """Write the static pages, and return the number of pages.

    Raises:
        CallerError: A package is missing, the folder cannot be written, or there are no such results.
        StoreError: The store cannot be opened.
    """
    _require_package("jinja2")
    from leaderboard.live_store import read_views
    from leaderboard.render import export_site
    from roarbench.store.results import ResultsStore

    with ResultsStore.open(url, read_only=True) as results:
        views = read_views(results, store, selection)
        _refuse_empty_selection(views, selection)
        return export_site(views, folder)


def _refuse_empty_selection(boards: Sized, selection: Selection) -> None:
    if any(selection) and not boards:
        options = zip(("--data", "--reference"), selection, strict=True)
        options_given = " and ".join(f"{option} {value}" for option, value in options if value)
        raise CallerError(f"this store has no board for {options_given}; without it, the leaderboard shows all boards")


def _require_package(package: str) -> None:
    if find_spec(package) is None:
        raise CallerError(f"the leaderboard needs {package}, which is missing; pip install 'roarbench[leaderboard]'")


def _check_port(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free, as for the server
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise CallerError(f"cannot serve on 127.0.0.1:{port}: {error.strerror}; write another --port") from None
