"""Compare strata for matched gain: which strata remove the gain of maps made without a network?

All images are development images, which no board uses. Run `python -m studies.matched.run` to write the table of
results.npz into README.md.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from roarbench.common.text import format_markdown_table
from studies.page import write_shipped_tables

FOLDER = Path(__file__).parent
RESULTS, CORPUS, IMAGES = FOLDER / "results.npz", FOLDER.parent / "corpus" / "results.npz", 2469
LEVELS = (0.1, 0.5, 0.9)
MASKS = (
    *("other", "dev-8", "dev-16", "dev-64", "dev-blur-4x4", "dev-blur-8x8", "dev-blur-8x8 bits"),
    *("dev-blur-contrast-4^3", "energy"),
)
CorrectByMask = dict[str, NDArray[np.bool_]]  # correctness per image, (images,), by "LEVEL MASK"
Gains = NDArray[np.float64]  # gain per image, (images,)


def read_correctness(path: Path = RESULTS) -> dict[str, CorrectByMask]:
    """Read the correctness of predictions by row and by level and mask."""
    by_row: dict[str, CorrectByMask] = {}
    for key, bits in np.load(path).items():
        row, mask = key.split("/")
        by_row.setdefault(row, {})[mask] = np.unpackbits(bits, count=IMAGES).astype(bool)
    return by_row


def compute_gains(
    correctness: CorrectByMask, plus: str | None, minus: str | None = "own", levels: Iterable[float] = LEVELS
) -> Gains:
    """Compute, per image, correctness with the mask `plus` minus correctness with `minus` (0 for None), over levels."""

    def get_correct(t: float, mask: str | None) -> Gains:
        return correctness[f"{t} {mask}"].astype(float) if mask else np.zeros(1)

    return np.asarray(np.mean([get_correct(t, plus) - get_correct(t, minus) for t in levels], 0))


def format_points(gains: Gains) -> str:
    """Format the mean in accuracy points with its standard error."""
    return f"{100 * gains.mean():+.1f} ± {100 * gains.std() / len(gains) ** 0.5:.1f}"


def count_standard_errors(difference: Gains) -> float:
    """Return the mean of a difference in standard errors."""
    return float(difference.mean() / (difference.std() / len(difference) ** 0.5 or 1))


def make_shipped_tables() -> dict[str, str]:
    """Make the table of mean gains in accuracy points with standard errors, of rows scored with all strata."""
    return {"strata": format_markdown_table(("row", *MASKS), _make_rows())}


def _make_rows() -> Iterator[list[str]]:
    for row, correctness in read_correctness().items():
        if f"{LEVELS[0]} dev-8" in correctness:
            yield [row, *(format_points(compute_gains(correctness, mask)) for mask in MASKS)]


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
