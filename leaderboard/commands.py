"""What `roarbench leaderboard` does: the app in a process of its own, or the static pages."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from leaderboard.source import read_shelf
from roarbench.errors import CallerError
from roarbench.store.results import ResultsStore

FOLDER = Path(__file__).parent
URL, STORE = "ROARBENCH_BOARD_URL", "ROARBENCH_BOARD_STORE"  # how the app's process learns what to show


def serve(url: str, store: Path, port: int) -> int:
    """Run the app until it is stopped.

    Returns:
        Its exit code.

    Raises:
        CallerError: Streamlit is not installed.
        StoreError: The store cannot be opened.
    """
    _need("streamlit")
    ResultsStore.open(url, read_only=True).close()  # a wrong path is told here, in one line
    command = [sys.executable, "-m", "leaderboard.server", str(port)]
    path = os.pathsep.join(part for part in (str(FOLDER.parent), os.environ.get("PYTHONPATH", "")) if part)
    told = {URL: _absolute(url), STORE: str(store.resolve()), "PYTHONPATH": path}
    try:
        return subprocess.run(command, env=os.environ | told).returncode
    except KeyboardInterrupt:
        return 0


def export_site(url: str, store: Path, folder: Path) -> int:
    """Write the static pages; returns how many.

    Raises:
        CallerError: A package is missing, or the folder cannot be written.
        StoreError: The store cannot be opened.
    """
    _need("vl_convert")
    from leaderboard.site import export

    with ResultsStore.open(url, read_only=True) as results:
        return export(read_shelf(results, store), results, folder)


def _need(package: str) -> None:
    if find_spec(package) is None:
        raise CallerError(f"the leaderboard needs {package}, which is missing; pip install 'roarbench[leaderboard]'")


def _absolute(url: str) -> str:
    """The same URL from any working folder."""
    head, mark, path = url.partition("sqlite:///")
    return f"{mark}{Path(path).resolve()}" if mark and not head else url
