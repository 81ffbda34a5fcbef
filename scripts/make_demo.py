"""A small copy of a store for the board alone: its results, and a gallery instead of images and rankings.

python scripts/make_demo.py STORE FOLDER
"""

import argparse
from pathlib import Path

from ship_results import ship_results

from leaderboard.gallery import gallery_file, save_gallery
from leaderboard.snapshot import read_views
from roarbench.store.results import ResultsStore, default_url


def main(store: Path, folder: Path) -> None:
    """Copy the results, and write the gallery of every suite that has one."""
    ship_results(store, folder)
    with ResultsStore.open(default_url(folder), read_only=True) as results:
        for view in read_views(results, store):
            if view.gallery:
                save_gallery(view.gallery, gallery_file(view.suite_results, folder))
            count = len(view.suite_results.results)
            print(f"{view.suite_results.title}: {count} results, {'a' if view.gallery else 'no'} gallery")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    main(**vars(parser.parse_args()))
