"""The app in this process: Streamlit, and beside it a thread that judges ahead of visitors."""

import os
from pathlib import Path
from threading import Thread

from streamlit.web import cli

from leaderboard.commands import DATA, REFERENCE, STORE, URL
from leaderboard.library import library
from leaderboard.source import ALL, Only

_FOLDER = Path(__file__).parent  # Streamlit reads its settings from .streamlit/ in the working folder


def run(url: str, store: Path, port: int, only: Only = ALL) -> None:
    """Show a store until stopped; `url`, `store` and a folder in `only` hold from any working folder.

    Raises:
        StoreError: The store cannot be opened.
    """
    Thread(target=library(url, store, only).keep_ready, daemon=True).start()
    os.environ |= {URL: url, STORE: str(store), DATA: only.data, REFERENCE: only.reference}
    os.chdir(_FOLDER)
    cli.main_run([str(_FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)
