"""Which strata remove the gain of maps that ask no network? Development images alone, none of the board's.

Run: python -m studies.matched.run writes the table of results.npz into the page.
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
Answers = dict[str, NDArray[np.bool_]]  # by level and mask, bool (images,)
Gains = NDArray[np.float64]  # of each image, (images,)


def read_answers(path: Path = RESULTS) -> dict[str, Answers]:
    found: dict[str, Answers] = {}
    for key, bits in np.load(path).items():
        row, mask = key.split("/")
        found.setdefault(row, {})[mask] = np.unpackbits(bits, count=IMAGES).astype(bool)
    return found


def compute_gains(
    found: Answers, plus: str | None, minus: str | None = "own", levels: Iterable[float] = LEVELS
) -> Gains:
    """Return accuracy with one mask minus that with another, 0 for None, image by image, the mean over levels."""

    def right(t: float, mask: str | None) -> Gains:
        return found[f"{t} {mask}"].astype(float) if mask else np.zeros(1)

    return np.asarray(np.mean([right(t, plus) - right(t, minus) for t in levels], 0))


def format_points(one: Gains) -> str:
    """Return the mean in accuracy points with its standard error."""
    return f"{100 * one.mean():+.1f} ± {100 * one.std() / len(one) ** 0.5:.1f}"


def count_standard_errors(difference: Gains) -> float:
    """Return how many standard errors the mean lies above 0."""
    return float(difference.mean() / (difference.std() / len(difference) ** 0.5 or 1))


def make_shipped_tables() -> dict[str, str]:
    """Return mean gains in accuracy points with standard errors, of the rows that every candidate scored."""
    return {"strata": format_markdown_table(("row", *MASKS), _make_rows())}


def _make_rows() -> Iterator[list[str]]:
    for row, made in read_answers().items():
        if f"{LEVELS[0]} dev-8" in made:
            yield [row, *(format_points(compute_gains(made, mask)) for mask in MASKS)]


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
