"""Compute the maps of a few test images by every estimator of a suite, and draw the pictures that the demo shows.

The store has the suite's images, explained networks and results; complete rankings are not needed.

python scripts/draw_pictures.py STORE demo SUITE…
"""

import argparse
from collections.abc import Collection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from leaderboard.pictures import (
    PicturedImages,
    choose_pictured_images,
    find_pictures_file,
    make_pictures,
    save_pictures,
)
from leaderboard.stored_suites import read_views_of_suite
from roarbench.analysis.correctness_of_suite import list_points_with_every_map_and_network
from roarbench.common.enums import Split
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution.job_context import JobContext
from roarbench.execution.ranking_jobs import rank_batch
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.rankings import Rankings
from roarbench.store.results import ResultsStore, make_default_url
from roarbench.store.workspace import Workspace

IMAGES = 3


def draw_pictures(store: Path, folder: Path, suites: Collection[str]) -> None:
    """Draw the maps of these suites, which have own-network gain, and write the pictures to a folder."""
    with ResultsStore.open(make_default_url(store), read_only=True) as stored:
        versions = [
            view.results for name in suites for view in read_views_of_suite(stored, find_builtin_suite(name), store)
        ]
    for results in versions:
        chosen = choose_pictured_images(results, Workspace(store), IMAGES)
        assert chosen, f"{store} has no images of {results.title}"
        context = JobContext(Workspace(store), chosen.images, results.suite)
        measured = {name for name, _ in list_points_with_every_map_and_network(results, chosen.protocol, chosen.unit)}
        names = [name for name in results.suite.estimators_with_own_row if name in measured]
        first, second = (rank_images(context, chosen, names, number) for number in (0, 1))
        save_pictures(make_pictures(results, chosen, first, second), find_pictures_file(results, folder))
        print(f"{results.title}: {len(names)} rows, images {chosen.numbers.tolist()}", flush=True)


def rank_images(
    context: JobContext, chosen: PicturedImages, names: Collection[str], number: int
) -> dict[str, Rankings]:
    """Rank only the chosen test images by these estimators, for the explained network with this number."""
    specs = [context.make_ranking_spec(find_estimator(name), chosen.unit, number) for name in names]
    planes: dict[str, NDArray[np.uint8]] = {}
    for image in chosen.numbers.tolist():
        ranked, failed = rank_batch(context, specs, Split.TEST, image, image + 1)
        assert not failed, failed
        for spec, (piece, _) in ranked.items():
            shape = len(chosen.images.test.labels), *piece.shape[1:]
            planes.setdefault(spec.name, np.zeros(shape, np.uint8))[image] = piece[0]
    layouts = {spec.name: spec.layout for spec in specs}
    return {name: Rankings(Path(), layouts[name], {Split.TEST: planes[name]}, {}, 0.0, "", "") for name in names}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("store", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("suites", nargs="+", metavar="SUITE")
    arguments = parser.parse_args()
    draw_pictures(arguments.store, arguments.folder, arguments.suites)
