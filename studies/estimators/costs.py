"""What does an image cost by each estimator, on one core? Writes the first table of docs/estimators.md.

The network is that of `quick` with random weights, the images are 16 of `quick`'s size; Shapley values are those of 10
columns by a perceptron. Processor time of one core, one call after one of a single image.

Run: OMP_NUM_THREADS=1 python -m studies.estimators.costs
"""

import time
from pathlib import Path

import torch

from roarbench.estimators import Estimator
from roarbench.estimators.base import Batch, ClassImages
from roarbench.estimators.catalogue import ESTIMATORS
from roarbench.estimators.engine import importance_maps, passes
from roarbench.estimators.parameters import written
from roarbench.models.build import build
from studies.page import program, write

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"
_IMAGES = 16
_PLANTED = ("truth", "leak")  # of generated images alone


def main() -> None:
    """Measure every estimator and write the page's table."""
    parser = program(__doc__)
    parser.parse_args()
    torch.set_num_threads(1)
    listed = [estimator for estimator in ESTIMATORS.values() if estimator.placed and estimator.base not in _PLANTED]
    write(PAGE, {"costs": table([(estimator, _milliseconds(estimator)) for estimator in listed])})


def table(rows: list[tuple[Estimator, float]]) -> str:
    """Return the rows as Markdown: id, what it is, parameters, passes forward and back, milliseconds."""
    lines = ["| estimator | what it is | parameters | passes | ms |", "| --- | --- | --- | --- | --- |"]
    for row, milliseconds in rows:
        values = ", ".join(f"{name}={written(value)}" for name, value in row.parameters.items())
        time_taken = f"{float(f'{milliseconds:.2g}'):g}"  # 260, not 2.6e+02
        lines.append(f"| `{row.id}` | {row.about} | {values} | {cost(row)} | {time_taken} |")
    return "\n".join(lines)


def cost(estimator: Estimator) -> str:
    """Return the passes of an image, forward + backward, in words."""
    if estimator.control:
        return "none"
    forward, backward = passes([estimator])
    counted = {"score-cam": "1 + channels, 0", "shapley": "2^features, 0"}
    return counted.get(estimator.base, f"{forward}, {backward}")


def _milliseconds(estimator: Estimator) -> float:
    generator = torch.Generator().manual_seed(0)
    name, shape = ("mlp", (10, 1, 1)) if estimator.base == "shapley" else ("resnet-quick", (3, 64, 64))
    model = build(name, 10, shape[0], shape[1], generator).eval()
    images = torch.randn(_IMAGES, *shape, generator=generator)
    batch = Batch(images, torch.arange(_IMAGES) % 10, torch.arange(_IMAGES), by_class=ClassImages(images, images))
    black, asked = torch.full((shape[0], 1, 1), -2.0), [estimator]
    importance_maps(asked, model, batch.part(slice(1)), black)
    start = time.process_time()
    importance_maps(asked, model, batch, black)
    return 1000 * (time.process_time() - start) / _IMAGES


if __name__ == "__main__":
    main()
