"""Run the command `roarbench leaderboard`: serve the app, or export static pages."""

import json
import os
import socket
from collections.abc import Sized
from importlib.util import find_spec
from pathlib import Path

from leaderboard.stored_suites import ALL, SHOWN_VARIABLE, Selection, read_views
from roarbench.common.errors import CallerError
from roarbench.store.results import ResultsStore

_FOLDER = Path(__file__).parent  # working folder for Streamlit, which reads its settings from .streamlit/ there


def serve_app(url: str, store: Path, port: int, selection: Selection = ALL) -> None:
    """Run the app on 127.0.0.1 until the user stops it.

    Raises:
        CallerError: A package is missing, the port cannot be used, or there are no such results.
        StoreError: The store cannot be opened.
    """
    _require_package("streamlit")
    _check_port(port)
    with ResultsStore.open(url, read_only=True) as results:
        if any(selection):
            _refuse_empty_selection(read_views(results, store, selection), selection)
    run_streamlit(url, store, port, selection)


def run_streamlit(url: str, store: Path, port: int, selection: Selection = ALL) -> None:
    """Run the app in this process."""
    from streamlit.web import cli

    os.environ[SHOWN_VARIABLE] = json.dumps(make_shown(url, store, selection))
    os.chdir(_FOLDER)
    cli.main_run([str(_FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)


def make_shown(url: str, store: Path, selection: Selection = ALL) -> tuple[str, str, str, str]:
    """Return URL of the database, folder of the store, and selection, with absolute paths."""
    head, mark, path = url.partition("sqlite:///")
    anywhere = f"{mark}{Path(path).resolve()}" if mark and not head else url
    data, reference = selection
    data = str(Path(data).resolve()) if data and Path(data).is_dir() else data
    return anywhere, str(store.resolve()), data, reference


def export_site(url: str, store: Path, folder: Path, selection: Selection = ALL) -> int:
    """Write the static pages, and return the number of pages.

    Raises:
        CallerError: A package is missing, the folder cannot be written, or there are no such results.
        StoreError: The store cannot be opened.
    """
    _require_package("jinja2")
    from leaderboard.render import export_site

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
