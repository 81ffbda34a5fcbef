"""What several other images for each image, other classes, probabilities and levels do to a specific gain.

    python scripts/pairings_study.py --store DIR --out FOLDER
    python scripts/pairings_study.py --store DIR --out FOLDER --levels 0.3,0.7 --pairings 1
    python scripts/pairings_tables.py --store DIR --out FOLDER

DIR is a store in which `roarbench run --suite quick` has ended: its tuned networks answer each test image with its own
removed-map, with those of several other images, and with its own one mirrored left to right. FOLDER gets the
probabilities of all classes, a file for each row, seed and level.
"""

import argparse
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from roarbench.datasets.catalogue import PINNED
from roarbench.estimators.noise import other_images
from roarbench.execution.context import RunContext
from roarbench.execution.inputs import pixels
from roarbench.execution.networks import row_rankings, scoring_network
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.ranking import removed_bits
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.plan.keys import bind
from roarbench.plan.points import expand, select
from roarbench.plan.runs import Run
from roarbench.plan.suites import find_suite
from roarbench.store.folders import Workspace
from roarbench.terms import SPECIFIC, Split, Unit

TEST_IDS = 2**32  # the number of the first test image
APART = 100_000  # from the seed of a network's pairing to that of its next one; the first is the suite's


class AnsweredCell(NamedTuple):
    """A row under one network and level."""

    row: str
    seed: int
    t: float

    def file(self, folder: Path) -> Path:
        """Return where its probabilities are."""
        return folder / f"{self.row}-{self.seed}-{self.t:g}.npz"


def pairings(n: int, seed: int, count: int) -> list[NDArray[np.int64]]:
    """Return for every test image another one, `count` times; the first is the one that the suite has."""
    return [other_images(n, TEST_IDS, seed + APART * number) for number in range(count)]


def mirrored(removed: NDArray[np.uint8], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return packed removed bits of scalar features, mirrored left to right."""
    bits = np.unpackbits(removed, axis=1).reshape(len(removed), *shape)
    return np.packbits(bits[..., ::-1].reshape(len(removed), -1), axis=1)


def runs(context: RunContext, seeds: set[int], levels: tuple[float, ...]) -> Iterator[tuple[AnsweredCell, Run]]:
    """Yield the suite's runs with own removed-maps under `specific` at these levels, network by network."""
    blocks = tuple(replace(block, levels=levels) for block in select(context.suite, protocol=SPECIFIC).blocks)
    for point in sorted(expand(replace(context.suite, blocks=blocks)), key=lambda point: point.seed):
        cell, row = point.cell, point.cell.ranked_by
        if point.seed in seeds and row and row.id == cell.estimator:
            run = bind(context.suite, point, context.data.fingerprint, None)
            yield AnsweredCell(cell.estimator, point.seed, cell.t), run


def score(context: RunContext, run: Run, count: int) -> dict[str, NDArray[np.float16]]:
    """Return the probabilities of all classes: own map, other images' (count, n, classes), own one mirrored."""
    rankings = row_rankings(context, run)
    model = scoring_network(context, run, rankings)
    shape = rankings.layout.shape
    own = removed_bits(rankings.planes(Split.TEST)[:], run.cell.t, run.cell.order, rankings.layout)

    def answered(removed: NDArray[np.uint8]) -> NDArray[np.float16]:
        images = DegradedImages(pixels(context, Split.TEST), torch.from_numpy(removed), context.fill, Unit.SCALAR)
        said = predict(model, images, context.norm, scored_at_once(shape[-1]))
        return said.softmax(1).numpy().astype(np.float16)

    others = [answered(own[other]) for other in pairings(len(own), run.seed, count)]
    return {"own": answered(own), "others": np.stack(others), "mirrored": answered(mirrored(own, shape))}


def study_context(store: Path) -> RunContext:
    """Return the workplace of the suite in a store, on the images that its results are of."""
    workspace, suite = Workspace(store), find_suite("quick@2")
    folders = sorted(path for path in workspace.data.iterdir() if path.is_dir())
    contexts = (RunContext(workspace, folder, suite) for folder in folders)
    return next(context for context in contexts if context.data.fingerprint == PINNED[suite.dataset])


def score_all(context: RunContext, out: Path, cells: Iterator[tuple[AnsweredCell, Run]], count: int) -> None:
    """Write the probabilities of all cells that are not there yet, and say how long each took."""
    for cell, run in cells:
        if not (file := cell.file(out)).exists():
            start = time.process_time()
            np.savez(file, **score(context.of(run), run, count))  # type: ignore[arg-type]
            print(*cell, f"{time.process_time() - start:.1f} s", flush=True)


def main() -> None:
    """Do what is asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--levels", default="0.1,0.5,0.9")
    parser.add_argument("--pairings", type=int, default=8, help="other images for each image")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    arguments.out.mkdir(parents=True, exist_ok=True)
    context, seeds = study_context(arguments.store), {int(seed) for seed in arguments.seeds.split(",")}
    levels = tuple(float(t) for t in arguments.levels.split(","))
    score_all(context, arguments.out, runs(context, seeds, levels), arguments.pairings)


if __name__ == "__main__":
    main()
