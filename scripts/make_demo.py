"""A small copy of a store for the board alone: its results, and pictures instead of images and rankings.

    python scripts/make_demo.py STORE FOLDER
    python scripts/make_demo.py --add STORE FOLDER

With --add the folder keeps the results and pictures that it has, and who vouches for them; what it lacks is added.
"""

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

from leaderboard.pictures import find_pictures_file, save_pictures
from leaderboard.views import read_views
from roarbench.store import schema
from roarbench.store.rankings import RankingsStore
from roarbench.store.results import DEFAULT_FILE, ResultsStore, find_default_url
from roarbench.store.submissions_and_annotations import Kind, put_remarks
from roarbench.store.workspace import Workspace


def main(store: Path, folder: Path, add: bool = False) -> None:
    """Copy or add the results with what rankings say of noisy copies, and write all pictures."""
    if add:
        add_results(store, folder)
    ship_results(folder if add else store, folder)
    note_kept(store, folder)
    with ResultsStore.open(find_default_url(folder), read_only=True) as results:
        for view in read_views(results, store).values():
            path = find_pictures_file(view.results, folder)
            if view.pictures and not (add and path.exists()):
                save_pictures(view.pictures, path)
            print(f"{view.title}: {len(view.results.results)} results, {'' if path.exists() else 'no '}pictures")


def ship_results(store: Path, folder: Path) -> Path:
    """Copy the results of a store into a folder, which may be the store's own; returns the file.

    A store that is worked on has a write-ahead log: whoever reads such a file leaves two others next to it. Reading the
    copy leaves it as it is and puts nothing beside it.

    Raises:
        sqlite3.Error: They cannot be read or written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    beside = folder / f"{DEFAULT_FILE}.partial"
    beside.unlink(missing_ok=True)
    with closing(sqlite3.connect(f"file:{store / DEFAULT_FILE}?mode=rw", uri=True)) as connection:
        # the copy has a rollback journal even if the source uses WAL
        connection.execute("VACUUM INTO ?", [str(beside)])
    return beside.replace(folder / DEFAULT_FILE)


def note_kept(store: Path, folder: Path) -> None:
    """Note in a folder's results on what share of noisy copies networks keep their class, which rankings say."""
    shares = RankingsStore(Workspace(store).rankings).kept_shares()
    with ResultsStore.open(find_default_url(folder)) as results:
        known = {row.rankings for view in read_views(results, folder).values() for row in view.results.results.values()}
        with results.database.write() as connection:
            put_remarks(connection, {f"{Kind.KEPT} {mark}": share for mark, share in shares.items() if mark in known})
    ship_results(folder, folder)


def add_results(store: Path, folder: Path) -> None:
    """Add the results of a store that a folder lacks, with who vouches for them, submitted files and notes of images.

    Raises:
        StoreError: There is none in either, or the store is of another version.
    """
    ResultsStore.open(find_default_url(store), read_only=True).close()
    ResultsStore.open(find_default_url(folder)).close()  # upgrades the schema
    with closing(sqlite3.connect(folder / DEFAULT_FILE)) as connection, connection:
        connection.execute("ATTACH ? AS other", [str(store / DEFAULT_FILE)])
        # imports first: once the results are copied, new rows cannot be told from old ones
        new = {schema.imports: "WHERE key NOT IN (SELECT key FROM main.results)"}
        for table in (schema.imports, schema.results, schema.entries, schema.images, schema.remarks):
            names = ", ".join(f'"{column.name}"' for column in table.columns)
            rows = f"SELECT {names} FROM other.{table.name} {new.get(table, '')}"
            connection.execute(f"INSERT OR IGNORE INTO main.{table.name} ({names}) {rows}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--add", action="store_true")
    main(**vars(parser.parse_args()))
