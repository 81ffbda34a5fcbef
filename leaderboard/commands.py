"""What `roarbench leaderboard` does: the app, or the static pages."""

import shutil
import socket
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from leaderboard.pack import pack
from leaderboard.source import read_shelf
from roarbench.errors import CallerError
from roarbench.store.results import ResultsStore

URL, STORE = "ROARBENCH_BOARD_URL", "ROARBENCH_BOARD_STORE"  # how the page's script learns what to show


def serve(url: str, store: Path, port: int) -> None:
    """Run the app until it is stopped.

    Raises:
        CallerError: Streamlit is not installed, or the port is not free.
        StoreError: The store cannot be opened.
    """
    _need("streamlit")
    _check_port(port)
    from leaderboard.server import run

    run(_absolute(url), store.resolve(), port)


def export_site(url: str, store: Path, folder: Path) -> int:
    """Write the static pages; returns how many.

    Raises:
        CallerError: A package is missing, or the folder cannot be written.
        StoreError: The store cannot be opened.
    """
    _need("vl_convert")
    from leaderboard.site import export

    with ResultsStore.open(url, read_only=True) as results, TemporaryDirectory() as made:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            pages = export(read_shelf(results, store), results, Path(made))
            pack(Path(made))
            for path in Path(made).iterdir():
                shutil.copy(path, folder)
        except OSError as error:
            raise CallerError(f"cannot write {folder}: {error.strerror}; name a folder that can be written") from None
        return pages


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
