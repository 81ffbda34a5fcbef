"""A small copy of a store for the board alone: its results, and a gallery instead of images and rankings.

    python scripts/make_demo.py STORE FOLDER
    python scripts/make_demo.py --add STORE FOLDER

With --add the folder keeps the results and galleries that it has, and who vouches for them; what it lacks is added.
"""

import argparse
import sqlite3
from contextlib import closing
from pathlib import Path

from ship_results import ship_results

from leaderboard.gallery import gallery_file, save_gallery
from leaderboard.snapshot import read_views
from roarbench.store import schema
from roarbench.store.results import DEFAULT_FILE, ResultsStore, default_url


def main(store: Path, folder: Path, add: bool = False) -> None:
    """Copy or add the results, and write the gallery of every suite that has one."""
    if add:
        add_results(store, folder)
    ship_results(folder if add else store, folder)
    with ResultsStore.open(default_url(folder), read_only=True) as results:
        for view in read_views(results, store):
            path = gallery_file(view.suite_results, folder)
            if view.gallery and not (add and path.exists()):
                save_gallery(view.gallery, path)
            count = len(view.suite_results.results)
            print(f"{view.suite_results.title}: {count} results, {'a' if path.exists() else 'no'} gallery")


def add_results(store: Path, folder: Path) -> None:
    """Add the results of a store that a folder lacks, with who vouches for them, submitted files and notes of images.

    Raises:
        StoreError: There is none in either, or the store is of another version.
    """
    ResultsStore.open(default_url(store), read_only=True).close()
    ResultsStore.open(default_url(folder)).close()  # brings it up to date
    with closing(sqlite3.connect(folder / DEFAULT_FILE)) as connection, connection:
        connection.execute("ATTACH ? AS other", [str(store / DEFAULT_FILE)])
        new = {schema.imports: "WHERE key NOT IN (SELECT key FROM main.results)"}  # first, while that is known
        for table in (schema.imports, schema.results, schema.entries, schema.images):
            names = ", ".join(f'"{column.name}"' for column in table.columns)
            rows = f"SELECT {names} FROM other.{table.name} {new.get(table, '')}"
            connection.execute(f"INSERT OR IGNORE INTO main.{table.name} ({names}) {rows}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--add", action="store_true")
    main(**vars(parser.parse_args()))
