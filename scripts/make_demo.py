"""Write the store that `make demo` shows: the published results, and pictures of suites whose images are bundled.

python scripts/make_demo.py FOLDER                  # write the store, from results/ and demo/pictures
python scripts/make_demo.py --pictures STORE demo   # write new pictures, from a store with images and rankings
"""

import argparse
import shutil
from collections.abc import Collection
from pathlib import Path

from sqlalchemy import delete

from leaderboard.pictures import find_pictures_file, save_pictures
from leaderboard.stored_suites import read_views
from roarbench.store import schema
from roarbench.store.export_and_import import import_results
from roarbench.store.published_folder import read_index_and_check_folder
from roarbench.store.results import DEFAULT_FILE, ResultsStore, make_default_url

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PICTURES = ROOT / "results", ROOT / "demo" / "pictures"


def write_demo(folder: Path, suites: Collection[str] = ()) -> None:
    """Write the published results of suites with these names (all if empty), and the pictures, to a folder.

    The records of the import are deleted, so that the board does not mark the project's own results as imported.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DEFAULT_FILE).unlink(missing_ok=True)
    partial = folder / "partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    with ResultsStore.open(make_default_url(partial)) as store:
        for file in read_index_and_check_folder(RESULTS):
            if not suites or file.versioned_suite.partition("@")[0] in suites:
                import_results(store, RESULTS / file.path)
        with store.database.begin_exclusive_write() as connection:
            connection.execute(delete(schema.imports))
    (partial / DEFAULT_FILE).replace(folder / DEFAULT_FILE)  # a closed database has no write-ahead log beside it
    shutil.rmtree(partial)
    shutil.copytree(PICTURES, folder / PICTURES.name, dirs_exist_ok=True)


def write_pictures(store: Path, folder: Path) -> None:
    """Write the pictures of every suite of a store that has images and rankings."""
    with ResultsStore.open(make_default_url(store), read_only=True) as results:
        for view in read_views(results, store).values():
            path = find_pictures_file(view.results, folder)
            if view.pictures:
                save_pictures(view.pictures, path)
            print(f"{view.title}: {len(view.results.results)} results, {'' if path.exists() else 'no '}pictures")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, metavar="STORE")
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    if arguments.pictures:
        write_pictures(arguments.pictures, arguments.folder)
    else:
        write_demo(arguments.folder)
