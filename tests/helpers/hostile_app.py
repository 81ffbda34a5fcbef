"""The app on a store of hostile names, as a process of its own:  python hostile_app.py FOLDER --port N."""

import sys
from pathlib import Path

from leaderboard.commands import run_app
from leaderboard.first import Shown
from tests.helpers import hostile
from tests.helpers.board_store import make_store

if __name__ == "__main__":
    folder, port = Path(sys.argv[1]), sys.argv[3]
    run_app(Shown(make_store(folder, hostile.install(), images=60), str(folder)), int(port))
