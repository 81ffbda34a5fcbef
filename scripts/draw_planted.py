"""Draws docs/planted.png: planted images, what is known about them, and what is left of them at t = 0.5.

python scripts/draw_planted.py
"""

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from numpy.typing import NDArray

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.planted import GREY, generate, patterns
from roarbench.terms import Split

OUT = Path(__file__).parents[1] / "docs" / "planted.png"
T = 0.5
ROWS = (
    "pattern",
    "strength",
    "image",
    "truth removed,\nt = 0.5",
    "random removed,\nt = 0.5",
    "truth-inverted\nremoved, t = 0.5",
)


def removed(importance: NDArray[np.floating], t: float) -> NDArray[np.bool_]:
    """Mark the most important features of one image, (c, h, w)."""
    order = np.argsort(-importance, axis=None)
    marked = np.zeros(importance.size, bool)
    marked[order[: round(t * importance.size)]] = True
    return marked.reshape(importance.shape)


def panels(pixels: NDArray[np.uint8], label: int, truth: NDArray[np.float32]) -> list[NDArray[np.floating]]:
    """Make one column of the picture from an image and its strengths, both (c, h, w): panels (c, h, w) in [0, 1]."""
    pattern = np.broadcast_to(patterns(truth.shape[1])[label] > 0, truth.shape).astype(np.float64)
    chance = np.random.default_rng(0).random(truth.shape)
    left = [np.where(removed(importance, T), GREY, pixels) / 255 for importance in (truth, chance, -truth)]
    return [pattern, truth, pixels / 255, *left]


def main(out: Path) -> None:
    """Draw one image of each class, and a second of the first."""
    pixels, labels, truth = generate(find_dataset("planted"), Split.TRAIN)
    chosen = [int(np.flatnonzero(labels == label)[0]) for label in range(4)] + [int(np.flatnonzero(labels == 0)[1])]
    figure, axes = plt.subplots(len(ROWS), len(chosen), figsize=(7, 8.8), layout="constrained")
    for column, index in enumerate(chosen):
        for row, panel in enumerate(panels(pixels[index], labels[index], truth[index])):
            axes[row, column].imshow(panel.transpose(1, 2, 0))
            axes[row, column].set(xticks=[], yticks=[])
        axes[0, column].set_title(f"class {labels[index]}")
    for row, name in enumerate(ROWS):
        axes[row, 0].set_ylabel(name)
    figure.savefig(out, dpi=120, metadata={"Software": None})


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=OUT)
    main(**vars(parser.parse_args()))
