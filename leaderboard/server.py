"""The process of the app: Streamlit, and beside it a thread that judges ahead of visitors.

python -m leaderboard.server PORT
"""

import os
import sys
from pathlib import Path
from threading import Thread

from streamlit.web import cli

from leaderboard.commands import FOLDER, STORE, URL
from leaderboard.library import library


def main(port: int) -> None:
    """Run until stopped, in the folder that has Streamlit's settings."""
    os.chdir(FOLDER)
    books = library(os.environ[URL], Path(os.environ[STORE]))
    Thread(target=books.keep_ready, daemon=True).start()
    cli.main_run([str(FOLDER / "app.py"), f"--server.port={port}"], standalone_mode=False)


if __name__ == "__main__":
    main(int(sys.argv[1]))
