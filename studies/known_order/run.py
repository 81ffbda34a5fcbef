"""Does a protocol put maps in order that were made worse step by step? So the order is known even on photographs.

A share of a map's places comes from another image's map by the same row, in squares of 8 x 8 pixels, so that it stays
as smooth as it was (*image*), or from chance, feature by feature (*chance*). Shares are nested. The null is a blurred
random map: it knows nothing at any share, so a protocol that orders it rewards smoothness.

Run: python -m studies.known_order.run writes the table of results.npz into the page.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path

import numpy as np

from roarbench.common.text import format_markdown_table
from studies.matched.run import LEVELS, Answers, Gains, compute_gains, count_standard_errors, read_answers
from studies.page import write_shipped_tables

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.npz"
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
BASES = ("gradcam", "sgsq", "ig-mean", "random-blurred")
KINDS = ("image", "chance")
PROTOCOLS = {  # the correct answers that count for a map, and those that count against it
    "specific": ("other", "own"),
    "matched": ("matched", "own"),
    "augmented": (None, "own"),
    "morf": (None, "morf"),
    "lerf": ("lerf", None),
    "lerf-morf": ("lerf", "morf"),
    "roar": (None, "roar"),
    "roar-exchanged": (None, "exchanged"),
    "diffroar": ("kar", "roar"),
}
RETRAINED = 0.9  # the level of the last three, as in `quick`
CLEAR = 1.96  # standard errors
HEADS = ("protocol", "map", "mixed with", "gain at shares 0, .2, .4, .6, .8, 1", "right", "wrong", "open")


def list_scored_levels(found: Answers, protocol: str) -> list[float]:
    plus, minus = PROTOCOLS[protocol]
    return [t for t in LEVELS if f"{t} {plus or minus}" in found]


def compute_gain_curve(found: Mapping[str, Answers], base: str, kind: str, protocol: str) -> list[Gains]:
    """Return a map's gains by share, image by image, the mean over the networks that were asked; empty if none was."""
    steps = []
    for share in SHARES:
        end = f"-{base}-{'image' if share == 0 else kind}-{share:g}"
        networks = [(made, list_scored_levels(made, protocol)) for name, made in found.items() if name[1:] == end]
        gains = [compute_gains(made, *PROTOCOLS[protocol], levels) for made, levels in networks if levels]
        if gains:
            steps.append(np.mean(gains, 0))
    return steps if len(steps) == len(SHARES) else []


def count_settled_pairs(steps: Sequence[Gains]) -> tuple[int, int, int]:
    """Return how many of the pairs of shares are settled rightly, wrongly and not, by paired 95 % intervals."""
    found = [count_standard_errors(better - worse) for better, worse in combinations(steps, 2)]
    right, wrong = sum(z > CLEAR for z in found), sum(z < -CLEAR for z in found)
    return right, wrong, len(found) - right - wrong


def make_shipped_tables() -> dict[str, str]:
    return {"order": format_markdown_table(HEADS, _make_rows())}


def _make_rows() -> Iterator[list[str]]:
    found = read_answers(RESULTS)
    for protocol, base, kind in product(PROTOCOLS, BASES, KINDS):
        if steps := compute_gain_curve(found, base, kind, protocol):
            numbers = ", ".join(f"{100 * each.mean():+.1f}" for each in steps)
            yield [protocol, base, kind, numbers, *map(str, count_settled_pairs(steps))]


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
