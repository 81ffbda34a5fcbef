"""How many maps that ask no network are called better, against Random and against every control?

Run: python -m studies.corpus.run writes the tables of results.npz, which studies.matched.lab makes, into the page.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from roarbench.text import markdown_table
from studies.matched.run import CORPUS, LEVELS, Answers, Gains, errors_above, gain, stored
from studies.page import write_recorded

CONTROLS = (
    *("random", "random-blurred", "sobel", "contrast"),
    *("deviation", "deviation-blurred", "low-saturation", "own-product", "linear-classifier"),
)
ASKING = ("ig-mean", "class-evidence", "half-images", "input-x-grad", "abs-ixg", "grad", "sgsq", "sg-ixg-abs")
MASKS = {"specific": "other", "matched": "dev-blur-8x8 bits"}
COMPARED = ("class-evidence", "half-images", "ig-mean", "input-x-grad", "class-mean-centre-entropy", "own-product")
FITTED = ("map", "asks a network", "matched gain", "over linear-classifier")
CLEAR = 1.96  # standard errors
HEADS = (
    *("gain", "maps", "better than Random", "better than all nine controls", "best control"),
    *("IG from the mean over it, in standard errors", "class-evidence over it"),
)


def gains(made: Answers, protocol: str) -> Gains:
    """Return a row's gain image by image; under augmented gain minus its accuracy."""
    if protocol in MASKS:
        return gain(made, MASKS[protocol])
    return np.asarray(np.mean([-made[f"{t} own"].astype(float) for t in LEVELS], 0))


def recorded() -> dict[str, str]:
    """Return the tables of the shipped results."""
    return {"corpus": markdown_table(HEADS, _lines()), "fitted": markdown_table(FITTED, _fitted())}


def _lines() -> Iterator[list[str]]:
    found = stored(CORPUS)
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


def _fitted() -> Iterator[list[str]]:
    """Return the maps of `fitted.py` and some to compare, by matched gain in accuracy points, with standard errors."""
    found = stored(CORPUS)
    each = {name: gains(made, "matched") for name, made in found.items() if name in COMPARED or _is_fitted(name)}
    for name, one in sorted(each.items(), key=lambda item: -item[1].mean()):
        apart = one - each["linear-classifier"]
        over = "–" if name == "linear-classifier" else _points(apart)
        yield [name, "yes" if name in ASKING else "no", _points(one), over]


def _is_fitted(name: str) -> bool:
    return name.startswith(("linear", "ridge", "logistic", "gaussian", "kernel", "colours", "words"))


def _points(one: Gains) -> str:
    return f"{100 * one.mean():+.1f} ± {100 * one.std() / len(one) ** 0.5:.1f}"


if __name__ == "__main__":
    write_recorded(__doc__, Path(__file__).with_name("README.md"), recorded)
