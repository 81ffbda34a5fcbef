"""How many maps that ask no network are called better, against Random and against every control?

python studies/corpus/run.py
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1] / "matched"))
from lab import LEVELS, Answers, gain, stored

CONTROLS = (
    *("random", "random-blurred", "sobel", "contrast"),
    *("deviation", "deviation-blurred", "low-saturation", "own-product"),
)
ASKING = ("ig-mean", "input-x-grad", "abs-ixg", "grad", "sgsq", "sg-ixg-abs")
MASKS = {"specific": "other", "matched": "dev-blur-8x8 bits"}
CLEAR = 1.96  # standard errors


def gains(made: Answers, protocol: str) -> NDArray[np.float64]:
    """Return a row's gain image by image; under augmented gain minus its accuracy."""
    if protocol in MASKS:
        return gain(made, MASKS[protocol])
    return np.mean([-made[f"{t} own"].astype(float) for t in LEVELS], 0)


def above(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Return how many standard errors one row lies above another, paired over images."""
    difference = one - other
    return float(difference.mean() / (difference.std() / len(difference) ** 0.5 or 1))


def table() -> Iterator[str]:
    """Yield the table as Markdown, line by line."""
    found = stored()
    for protocol in ("specific", "matched", "augmented"):
        each = {name: gains(made, protocol) for name, made in found.items()}
        controls = {name: each[name] for name in CONTROLS}
        best = max(controls, key=lambda name: float(controls[name].mean()))
        others = [each[name] for name in each if name not in (*CONTROLS, *ASKING)]
        random = sum(above(one, controls["random"]) > CLEAR for one in others)
        beats = sum(min(above(one, control) for control in controls.values()) > CLEAR for one in others)
        over = 100 * float((controls[best] - controls["random"]).mean())
        margin = min(above(each["ig-mean"], control) for control in controls.values())
        yield f"| {protocol} | {len(others)} | {random} | {beats} | {best}, {over:+.1f} over Random | {margin:.1f} |"


def main() -> None:
    """Print the table."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    print("\n".join(table()))


if __name__ == "__main__":
    main()
