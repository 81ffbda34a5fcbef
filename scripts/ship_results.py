"""A copy of a store's results that can be shipped: one file, which reading leaves as it is and puts nothing beside.

python scripts/ship_results.py STORE FOLDER

A store that is worked on has a write-ahead log: whoever reads such a file, leaves two others next to it.
"""

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

from roarbench.store.results import DEFAULT_FILE


def ship_results(store: Path, folder: Path) -> Path:
    """Copy the results of a store into a folder, which may be the store's own; returns the file.

    Raises:
        sqlite3.Error: They cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"{DEFAULT_FILE}.partial"
    beside.unlink(missing_ok=True)
    with closing(sqlite3.connect(f"file:{store / DEFAULT_FILE}?mode=rw", uri=True)) as connection:
        connection.execute("VACUUM INTO ?", [str(beside)])  # writes a file with a rollback journal, whatever it reads
    return beside.replace(folder / DEFAULT_FILE)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    print(ship_results(**vars(parser.parse_args())))
