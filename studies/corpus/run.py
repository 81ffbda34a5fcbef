"""How many maps that ask no network are called better, against Random and against every control?

Run: python -m studies.corpus.run writes the table of studies/matched/results.npz into the page.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from roarbench.text import markdown_table
from studies.matched.run import LEVELS, Answers, Gains, errors_above, gain, stored
from studies.page import write_recorded

CONTROLS = (
    *("random", "random-blurred", "sobel", "contrast"),
    *("deviation", "deviation-blurred", "low-saturation", "own-product", "class-mean-centre-entropy"),
)
ASKING = ("ig-mean", "half-images", "input-x-grad", "abs-ixg", "grad", "sgsq", "sg-ixg-abs")
MASKS = {"specific": "other", "matched": "dev-blur-8x8 bits"}
CLEAR = 1.96  # standard errors
HEADS = (
    *("gain", "maps", "better than Random", "better than all nine controls", "best control"),
    *("IG from the mean over it, in standard errors", "half-images over it"),
)


def gains(made: Answers, protocol: str) -> Gains:
    """Return a row's gain image by image; under augmented gain minus its accuracy."""
    if protocol in MASKS:
        return gain(made, MASKS[protocol])
    return np.asarray(np.mean([-made[f"{t} own"].astype(float) for t in LEVELS], 0))


def recorded() -> dict[str, str]:
    """Return the table of the shipped results."""
    return {"corpus": markdown_table(HEADS, _lines())}


def _lines() -> Iterator[list[str]]:
    found = stored()
    for protocol in ("specific", "matched", "augmented"):
        each = {name: gains(made, protocol) for name, made in found.items()}
        controls = {name: each[name] for name in CONTROLS}
        best = max(controls, key=lambda name: float(controls[name].mean()))
        others = [each[name] for name in each if name not in (*CONTROLS, *ASKING)]
        random = sum(errors_above(one - controls["random"]) > CLEAR for one in others)
        beats = sum(min(errors_above(one - control) for control in controls.values()) > CLEAR for one in others)
        over = 100 * float((controls[best] - controls["random"]).mean())
        margins = (min(errors_above(each[row] - one) for one in controls.values()) for row in ASKING[:2])
        counts = (str(len(others)), str(random), str(beats))
        yield [protocol, *counts, f"{best}, {over:+.1f} over Random", *(f"{margin:.1f}" for margin in margins)]


if __name__ == "__main__":
    write_recorded(__doc__, Path(__file__).with_name("README.md"), recorded)
