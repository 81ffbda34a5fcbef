"""Measure the time per image of each estimator on one core, and write the first table of docs/estimators.md.

The network is that of `quick` with random weights, with 16 images of `quick`'s size; Shapley values are computed for 10
columns and a perceptron. A call with 16 images is timed after a call with one image.

Run: OMP_NUM_THREADS=1 python -m studies.estimators.costs
"""

from collections.abc import Iterator
from pathlib import Path
from time import process_time

import torch

from roarbench.common.text import format_markdown_table
from roarbench.compute.networks import build_network
from roarbench.estimators.catalogue import ESTIMATORS, count_passes
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch, ClassImages, Estimator
from roarbench.estimators.ids import format_value
from studies.page import make_parser, write_tables

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"
IMAGES = 16
COUNTED = {"score-cam": "1 + channels, 0", "shapley": "2^features, 0"}
HEADS = ("estimator", "what it is", "parameters", "passes", "ms")


def _make_rows() -> Iterator[list[str]]:
    for row in ESTIMATORS.values():
        if row.has_own_row and not row.uses_ground_truth:
            values = ", ".join(f"{name}={format_value(value)}" for name, value in row.parameters.items())
            time = f"{float(f'{measure_milliseconds(row):.2g}'):g}"  # 260, not 2.6e+02
            yield [f"`{row.id}`", row.about, values, describe_passes(row), time]


def describe_passes(estimator: Estimator) -> str:
    if estimator.control:
        return "none"
    forward, backward = count_passes([estimator])
    return COUNTED.get(estimator.base, f"{forward}, {backward}")


def measure_milliseconds(estimator: Estimator) -> float:
    """Measure the processor time per image in milliseconds."""
    generator = torch.Generator().manual_seed(0)
    name, shape = ("mlp", (10, 1, 1)) if estimator.base == "shapley" else ("resnet-quick", (3, 64, 64))
    model = build_network(name, 10, shape[0], shape[1], generator).eval()
    images = torch.randn(IMAGES, *shape, generator=generator)
    batch = Batch(images, torch.arange(IMAGES) % 10, torch.arange(IMAGES), class_images=ClassImages(images, images))
    black = torch.full((shape[0], 1, 1), -2.0)
    compute_importance_maps([estimator], model, batch.select_rows(slice(1)), black)
    start = process_time()
    compute_importance_maps([estimator], model, batch, black)
    return 1000 * (process_time() - start) / IMAGES


if __name__ == "__main__":
    make_parser(__doc__).parse_args()
    torch.set_num_threads(1)
    write_tables(PAGE, {"costs": format_markdown_table(HEADS, _make_rows())})
