"""A small copy of a store for the board alone: its results, and a strip of images instead of images and rankings.

python scripts/make_demo.py STORE FOLDER
"""

import argparse
from pathlib import Path

from ship_results import ship_results

from leaderboard.gallery import read_strip, save_strip, strip_file
from leaderboard.source import read_shelf
from roarbench.store.results import ResultsStore, default_url


def main(store: Path, folder: Path) -> None:
    """Copy the results, and write the strip of every suite that has one."""
    ship_results(store, folder)
    with ResultsStore.open(default_url(folder), read_only=True) as results:
        for held in read_shelf(results, store).standings.values():
            strip = read_strip(held, store)
            if strip:
                save_strip(strip, strip_file(held, folder))
            print(f"{held.title}: {len(held.results)} results, {'a' if strip else 'no'} strip")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    main(**vars(parser.parse_args()))
