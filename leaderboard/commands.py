"""`roarbench leaderboard`: the app, or the static pages."""

import os
import socket
from collections.abc import Sized
from importlib.util import find_spec
from pathlib import Path
from threading import Thread

from leaderboard.source import ALL, Selection, read_suites
from roarbench.errors import CallerError
from roarbench.store.results import ResultsStore

URL, STORE = "ROARBENCH_BOARD_URL", "ROARBENCH_BOARD_STORE"  # tell the app's script what to show
DATA, REFERENCE = "ROARBENCH_BOARD_DATA", "ROARBENCH_BOARD_REFERENCE"
_FOLDER = Path(__file__).parent  # Streamlit reads its settings from .streamlit/ in the working folder


def serve(url: str, store: Path, port: int, selection: Selection = ALL) -> None:
    """Run the app until it is stopped.

    Raises:
        CallerError: Streamlit is not installed, the port is not free, or nothing is of what is asked for.
        StoreError: The store cannot be opened.
    """
    _need("streamlit")
    _check_port(port)
    with ResultsStore.open(url, read_only=True) as results:
        if any(selection):
            _refuse_none(read_suites(results, store, selection), selection)
    folder = selection.data and Path(selection.data).is_dir()
    data = str(Path(selection.data).resolve()) if folder else selection.data
    head, mark, path = url.partition("sqlite:///")
    anywhere = f"{mark}{Path(path).resolve()}" if mark and not head else url
    run_app(anywhere, store.resolve(), port, selection._replace(data=data))


def run_app(url: str, store: Path, port: int, selection: Selection = ALL) -> None:
    """Run the app in this process, with a thread that computes ahead of visitors, until it is stopped.

    Args:
        url: Of the results.
        store: The store's folder; this and the others hold from any working folder.
        port: On 127.0.0.1.
        selection: Which boards are shown.

    Raises:
        StoreError: The store cannot be opened.
    """
    from streamlit.web import cli

    from leaderboard.views import live_store

    Thread(target=live_store(url, store, selection).keep_ready, daemon=True).start()
    os.environ |= {URL: url, STORE: str(store), DATA: selection.data, REFERENCE: selection.reference}
    os.chdir(_FOLDER)
    cli.main_run([str(_FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)


def export_site(url: str, store: Path, folder: Path, selection: Selection = ALL) -> int:
    """Write the static pages; returns how many.

    Raises:
        CallerError: A package is missing, the folder cannot be written, or nothing is of what is asked for.
        StoreError: The store cannot be opened.
    """
    _need("jinja2")
    from leaderboard.export import export
    from leaderboard.views import read_views

    with ResultsStore.open(url, read_only=True) as results:
        views = read_views(results, store, selection)
        _refuse_none(views, selection)
        return export(views, folder)


def _refuse_none(boards: Sized, selection: Selection) -> None:
    if any(selection) and not boards:
        options = zip(("--data", "--reference"), selection, strict=True)
        asked = " and ".join(f"{option} {value}" for option, value in options if value)
        raise CallerError(f"this store has no board of {asked}; leave it out, the board names what there is")


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise CallerError(f"the leaderboard needs {package}, which is missing; pip install 'roarbench[leaderboard]'")


def _check_port(port: int) -> None:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server: one that has just ended is no harm
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise CallerError(f"cannot serve on 127.0.0.1:{port}: {error.strerror}; write another --port") from None
