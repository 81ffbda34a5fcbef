"""Test whether a protocol orders maps correctly that were made worse step by step, so that the true order is known.

A share of a map's pixels is replaced by the same estimator's map of another image in squares of 8 x 8 pixels, which
keeps the map's smoothness (*image*), or by random values feature by feature (*chance*). Larger shares contain the
smaller shares. The null is a blurred random map, which has no information at any share; a protocol that orders its
mixtures rewards smoothness.

Run `python -m studies.known_order.run` to write the table of results.npz into README.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from pathlib import Path

import numpy as np

from roarbench.common.text import format_markdown_table
from studies.matched.run import LEVELS, CorrectByMask, Gains, compute_gains, count_standard_errors, read_correctness
from studies.page import write_shipped_tables

FOLDER = Path(__file__).parent
RESULTS = FOLDER / "results.npz"
SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
BASES = ("gradcam", "sgsq", "ig-mean", "random-blurred")
KINDS = ("image", "chance")
PROTOCOLS = {  # masks whose correct predictions count for a map, and against it
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
CLEAR = 1.96  # standard errors
HEADS = ("protocol", "map", "mixed with", "gain at shares 0, .2, .4, .6, .8, 1", "right", "wrong", "open")


def list_scored_levels(correctness: CorrectByMask, protocol: str) -> list[float]:
    plus, minus = PROTOCOLS[protocol]
    return [t for t in LEVELS if f"{t} {plus or minus}" in correctness]


def compute_gains_by_share(
    correctness: Mapping[str, CorrectByMask], base: str, kind: str, protocol: str
) -> list[Gains]:
    """Compute a map's gains per image for each share, averaged over networks; empty if a share was not scored."""
    steps = []
    for share in SHARES:
        end = f"-{base}-{'image' if share == 0 else kind}-{share:g}"
        networks = [by_mask for name, by_mask in correctness.items() if name[1:] == end]
        scored = [(by_mask, levels) for by_mask in networks if (levels := list_scored_levels(by_mask, protocol))]
        if gains := [compute_gains(by_mask, *PROTOCOLS[protocol], levels) for by_mask, levels in scored]:
            steps.append(np.mean(gains, 0))
    return steps if len(steps) == len(SHARES) else []


def count_decided_pairs(steps: Sequence[Gains]) -> tuple[int, int, int]:
    """Count the pairs of shares that paired 95 % intervals order correctly, order wrongly and leave open."""
    errors = [count_standard_errors(better - worse) for better, worse in combinations(steps, 2)]
    right, wrong = sum(z > CLEAR for z in errors), sum(z < -CLEAR for z in errors)
    return right, wrong, len(errors) - right - wrong


def make_shipped_tables() -> dict[str, str]:
    return {"order": format_markdown_table(HEADS, _make_rows())}


def _make_rows() -> Iterator[list[str]]:
    correctness = read_correctness(RESULTS)
    for protocol, base, kind in product(PROTOCOLS, BASES, KINDS):
        if steps := compute_gains_by_share(correctness, base, kind, protocol):
            means = ", ".join(f"{100 * gains.mean():+.1f}" for gains in steps)
            yield [protocol, base, kind, means, *map(str, count_decided_pairs(steps))]


if __name__ == "__main__":
    write_shipped_tables(__doc__, FOLDER / "README.md", make_shipped_tables)
