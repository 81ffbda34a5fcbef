"""A small copy of a store for the board alone: its results, and a strip of images instead of images and rankings.

python scripts/make_demo.py STORE FOLDER
"""

import sqlite3
import sys
from pathlib import Path

from leaderboard.source import read_shelf
from leaderboard.strip import read_strip, save_strip, strip_file
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url


def main(store: Path, folder: Path) -> None:
    """Copy the results into one file without a journal, and write the strip of every suite that has one."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / DEFAULT_FILE
    target.unlink(missing_ok=True)
    with sqlite3.connect(store / DEFAULT_FILE) as connection:
        connection.execute("VACUUM INTO ?", [str(target)])
    with ResultsStore.open(default_url(folder), read_only=True) as results:
        for held in read_shelf(results, store).standings.values():
            strip = read_strip(held, store)
            if strip:
                save_strip(strip, strip_file(held, folder))
            print(f"{held.title}: {len(held.results)} results, {'a' if strip else 'no'} strip")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
