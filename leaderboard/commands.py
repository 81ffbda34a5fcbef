"""What `roarbench leaderboard` does: the app, or the static pages."""

import os
import shutil
import socket
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from leaderboard.source import ALL, Only, Shelf, read_shelf
from roarbench.errors import CallerError
from roarbench.store.results import ResultsStore

URL, STORE = "ROARBENCH_BOARD_URL", "ROARBENCH_BOARD_STORE"  # how the page's script learns what to show
DATA, REFERENCE = "ROARBENCH_BOARD_DATA", "ROARBENCH_BOARD_REFERENCE"
_FOLDER = Path(__file__).parent  # Streamlit reads its settings from .streamlit/ in the working folder


def serve(url: str, store: Path, port: int, only: Only = ALL) -> None:
    """Run the app until it is stopped.

    Raises:
        CallerError: Streamlit is not installed, the port is not free, or nothing is of what is asked for.
        StoreError: The store cannot be opened.
    """
    _need("streamlit")
    _check_port(port)
    with ResultsStore.open(url, read_only=True) as results:
        _check(read_shelf(results, store, only), only)
    data = str(Path(only.data).resolve()) if Path(only.data).is_dir() and only.data else only.data
    run_app(_absolute(url), store.resolve(), port, only._replace(data=data))


def run_app(url: str, store: Path, port: int, only: Only = ALL) -> None:
    """Run the app in this process, with a thread that judges ahead of visitors, until it is stopped.

    Args:
        url: Of the results, from any working folder.
        store: The store's folder, from any working folder.
        port: On 127.0.0.1.
        only: Which boards are shown; a folder in it holds from any working folder.

    Raises:
        StoreError: The store cannot be opened.
    """
    from streamlit.web import cli

    from leaderboard.snapshot import library

    Thread(target=library(url, store, only).keep_ready, daemon=True).start()
    os.environ |= {URL: url, STORE: str(store), DATA: only.data, REFERENCE: only.reference}
    os.chdir(_FOLDER)
    cli.main_run([str(_FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)


def export_site(url: str, store: Path, folder: Path, only: Only = ALL) -> int:
    """Write the static pages; returns how many.

    Raises:
        CallerError: A package is missing, the folder cannot be written, or nothing is of what is asked for.
        StoreError: The store cannot be opened.
    """
    _need("vl_convert")
    from leaderboard.static import export, pack

    with ResultsStore.open(url, read_only=True) as results, TemporaryDirectory() as made:
        shelf = read_shelf(results, store, only)
        _check(shelf, only)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            pages = export(shelf, results, Path(made))
            pack(Path(made))
            for path in Path(made).iterdir():
                shutil.copy(path, folder)
        except OSError as error:
            raise CallerError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
        return pages


def _check(shelf: Shelf, only: Only) -> None:
    if any(only) and not shelf.standings:
        asked = " and ".join(
            f"{option} {said}" for option, said in zip(("--data", "--reference"), only, strict=True) if said
        )
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


def _absolute(url: str) -> str:
    """The same URL from any working folder."""
    head, mark, path = url.partition("sqlite:///")
    return f"{mark}{Path(path).resolve()}" if mark and not head else url
