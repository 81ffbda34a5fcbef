"""The app on a store of hostile names, as a process of its own:  python hostile_app.py FOLDER --port N."""

import sys
from pathlib import Path

from leaderboard.commands import run_app
from leaderboard.first import Shown
from roarbench.plan.suites import SUITES
from tests.helpers import hostile
from tests.helpers.board_store import make_store

if __name__ == "__main__":
    folder, port = Path(sys.argv[1]), sys.argv[3]
    hostile.install()
    run_app(Shown(make_store(folder, SUITES[hostile.NAME], images=60), str(folder)), int(port))
