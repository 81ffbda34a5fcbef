"""Run the command `roarbench leaderboard`: serve the app, or export static pages."""

import json
import os
import socket
from importlib.util import find_spec
from pathlib import Path

from leaderboard.stored_suites import SHOWN_VARIABLE, read_views
from roarbench.common.errors import CallerError
from roarbench.store.results import ResultsStore

_FOLDER = Path(__file__).parent  # working folder for Streamlit, which reads its settings from .streamlit/ there


def serve_app(url: str, store: Path, port: int) -> None:
    """Run the app on 127.0.0.1 until the user stops it.

    Raises:
        CallerError: A package is missing, or the port cannot be used.
        StoreError: The store cannot be opened.
    """
    _require_package("streamlit")
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port in TIME_WAIT is free, as for the server
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise CallerError(f"cannot serve on 127.0.0.1:{port}: {error.strerror}; write another --port") from None
    ResultsStore.open(url, read_only=True).close()
    run_streamlit(url, store, port)


def run_streamlit(url: str, store: Path, port: int) -> None:
    """Run the app in this process."""
    from streamlit.web import cli

    os.environ[SHOWN_VARIABLE] = json.dumps(make_shown(url, store))
    os.chdir(_FOLDER)
    cli.main_run([str(_FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)


def make_shown(url: str, store: Path) -> tuple[str, str]:
    """Return URL of the database and folder of the store, with absolute paths."""
    head, mark, path = url.partition("sqlite:///")
    anywhere = f"{mark}{Path(path).resolve()}" if mark and not head else url
    return anywhere, str(store.resolve())


def export_site(url: str, store: Path, folder: Path) -> int:
    """Write the static pages, and return the number of pages.

    Raises:
        CallerError: A package is missing, or the folder cannot be written.
        StoreError: The store cannot be opened.
    """
    _require_package("jinja2")
    from leaderboard.render import export_site

    with ResultsStore.open(url, read_only=True) as results:
        return export_site(read_views(results, store), folder)


def _require_package(package: str) -> None:
    if find_spec(package) is None:
        raise CallerError(f"the leaderboard needs {package}, which is missing; pip install 'roarbench[leaderboard]'")
