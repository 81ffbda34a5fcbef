"""The app on a store of hostile names, as a process of its own:  python hostile_app.py FOLDER --port N."""

import os
import sys
from pathlib import Path

from streamlit.web import cli

from leaderboard import app
from leaderboard.commands import STORE, URL
from roarbench.plan.suites import SUITES
from tests.helpers import hostile
from tests.helpers.board_store import make_store

if __name__ == "__main__":
    folder, port = Path(sys.argv[1]), sys.argv[3]
    hostile.install()
    url = make_store(folder, SUITES[hostile.NAME], images=60)
    os.environ |= {URL: url, STORE: str(folder)}
    os.chdir(Path(app.__file__).parent)
    cli.main_run([app.__file__, f"--server.port={port}"], standalone_mode=False)
