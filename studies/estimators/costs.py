"""What does an image cost by each estimator, on one core? Writes the first table of docs/estimators.md.

The network is that of `quick` with random weights, the images are 16 of `quick`'s size; Shapley values are those of 10
columns by a perceptron. Processor time of one core, one call after one of a single image.

Run: OMP_NUM_THREADS=1 python -m studies.estimators.costs
"""

import time
from collections.abc import Iterator
from pathlib import Path

import torch

from roarbench.common.text import format_markdown_table
from roarbench.compute.networks import build_network
from roarbench.estimators.catalogue import ESTIMATORS, count_passes
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Estimator
from roarbench.estimators.ids import format_value
from roarbench.estimators.map_input import Batch, ClassImages
from studies.page import write_shipped_tables

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"
IMAGES = 16
COUNTED = {"score-cam": "1 + channels, 0", "shapley": "2^features, 0"}
HEADS = ("estimator", "what it is", "parameters", "passes", "ms")


def make_tables() -> dict[str, str]:
    """Measure every estimator: id, what it is, parameters, passes forward and back, milliseconds."""
    torch.set_num_threads(1)
    return {"costs": format_markdown_table(HEADS, _make_rows())}


def _make_rows() -> Iterator[list[str]]:
    for row in ESTIMATORS.values():
        if row.has_own_row and row.base != "truth":
            values = ", ".join(f"{name}={format_value(value)}" for name, value in row.parameters.items())
            took = f"{float(f'{time_milliseconds(row):.2g}'):g}"  # 260, not 2.6e+02
            yield [f"`{row.id}`", row.about, values, measure_cost(row), took]


def measure_cost(estimator: Estimator) -> str:
    """Return the passes of an image, forward + backward, in words."""
    if estimator.control:
        return "none"
    forward, backward = count_passes([estimator])
    return COUNTED.get(estimator.base, f"{forward}, {backward}")


def time_milliseconds(estimator: Estimator) -> float:
    generator = torch.Generator().manual_seed(0)
    name, shape = ("mlp", (10, 1, 1)) if estimator.base == "shapley" else ("resnet-quick", (3, 64, 64))
    model = build_network(name, 10, shape[0], shape[1], generator).eval()
    images = torch.randn(IMAGES, *shape, generator=generator)
    batch = Batch(images, torch.arange(IMAGES) % 10, torch.arange(IMAGES), class_images=ClassImages(images, images))
    black, asked = torch.full((shape[0], 1, 1), -2.0), [estimator]
    compute_importance_maps(asked, model, batch.select_rows(slice(1)), black)
    start = time.process_time()
    compute_importance_maps(asked, model, batch, black)
    return 1000 * (time.process_time() - start) / IMAGES


if __name__ == "__main__":
    write_shipped_tables(__doc__, PAGE, make_tables)
