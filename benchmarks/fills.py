"""Time the fills, and ROAD's linear system by conjugate gradients against SciPy's sparse solver.

    OMP_NUM_THREADS=1 python benchmarks/fills.py

On the first test images of `quick`, of which a random or a smooth random map removes half or nine tenths of the
scalars; processor milliseconds of one core for an image.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve
from torch import Tensor

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decoded import open_decoded
from roarbench.datasets.loading import decode_dataset
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.kernels.fill import filled, interpolated
from roarbench.terms import FILLS

_IMAGES, _SOLVED = 32, 4


def main() -> None:
    """Print a table of the fills, and one of the two solvers."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        data = open_decoded(decode_dataset(find_dataset("imagenette64"), Path(folder), None, 100).folder)
        images = torch.from_numpy(data.test.pixels[:_IMAGES].copy())
        mean = torch.tensor(data.mean)
    ids = torch.arange(_IMAGES)
    print("| removed by | t | " + " | ".join(FILLS[1:]) + " | linear, sparse solver | largest difference |")
    for name in ("random", "random-smooth"):
        for t in (0.5, 0.9):
            gone = _removed(name, images, t)
            times = [_milliseconds(partial(filled, images, gone, fill, mean, ids)) for fill in FILLS[1:]]
            field = mean[:, None, None].expand(images.shape[1:])
            found = interpolated(images[:_SOLVED].float(), gone[:_SOLVED], field)
            slow = np.zeros(found.shape)
            direct = _milliseconds(partial(_solve, images, gone, slow)) * _IMAGES / _SOLVED
            off = np.abs(found.numpy() - slow)[gone[:_SOLVED].numpy()].max()
            shown = " | ".join(f"{each:.2g}" for each in (*times, direct))
            print(f"| {name} | {t} | {shown} | {off:.2g} |", flush=True)


def _removed(name: str, images: Tensor, t: float) -> Tensor:
    batch = Batch(images.float(), torch.zeros(len(images), dtype=torch.int64), torch.arange(len(images)))
    importance = importance_maps([find_estimator(name)], None, batch, torch.zeros(3, 1, 1))[name].flatten(1)
    rank = importance.argsort(1, descending=True).argsort(1)
    return (rank < round(t * importance.shape[1])).view(images.shape)


def _solve(images: Tensor, gone: Tensor, out: np.ndarray) -> None:
    """Write the solution for each channel of the first images, by a sparse factorisation, into `out`."""
    for n in range(_SOLVED):
        for channel, holes, target in zip(images[n].numpy(), gone[n].numpy(), out[n], strict=True):
            target[holes] = _sparse(channel.astype(float), holes)


def _sparse(channel: np.ndarray, holes: np.ndarray) -> np.ndarray:
    height, width = channel.shape
    number = np.full(channel.shape, -1)
    number[holes] = np.arange(holes.sum())
    y, x = np.nonzero(holes)
    weights, given = np.zeros(len(y)), np.zeros(len(y))
    rows, columns, values = [], [], []
    for down, across in ((a, b) for a in (-1, 0, 1) for b in (-1, 0, 1) if (a, b) != (0, 0)):
        inside = (y + down >= 0) & (y + down < height) & (x + across >= 0) & (x + across < width)
        here, there = np.flatnonzero(inside), (y[inside] + down, x[inside] + across)
        weight = 1 / 6 if 0 in (down, across) else 1 / 12
        weights[here] += weight
        missing = holes[there]
        given[here[~missing]] += weight * channel[there][~missing]
        rows.append(here[missing])
        columns.append(number[there][missing])
        values.append(np.full(missing.sum(), -weight))
    diagonal = np.arange(len(y))
    entries = (
        np.concatenate([*values, weights]),
        (np.concatenate([*rows, diagonal]), np.concatenate([*columns, diagonal])),
    )
    found: np.ndarray = spsolve(coo_matrix(entries).tocsc(), given)
    return found


def _milliseconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return 1000 * (time.process_time() - start) / _IMAGES


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
