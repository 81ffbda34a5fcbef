"""How many maps that ask no network are called better, against Random and against every control?

Run: python -m studies.corpus.run writes the tables of results.npz into the page.
"""

from collections.abc import Iterator
from pathlib import Path

from roarbench.common.text import MISSING, format_markdown_table
from studies.matched.run import CORPUS, compute_gains, count_standard_errors, format_points, read_answers
from studies.page import write_shipped_tables

CONTROLS = (
    *("random", "random-blurred", "sobel", "contrast"),
    *("deviation", "deviation-blurred", "low-saturation", "own-product", "linear-classifier"),
)
ASKING = ("ig-mean", "class-evidence", "half-images", "input-x-grad", "abs-ixg", "grad", "sgsq", "sg-ixg-abs")
MASKS = {"specific": "other", "matched": "dev-blur-8x8 bits", "augmented": None}  # that count for a map
COMPARED = ("class-evidence", "half-images", "ig-mean", "input-x-grad", "class-mean-centre-entropy", "own-product")
KINDS = ("linear", "ridge", "logistic", "gaussian", "kernel", "colours", "words")  # of fitted maps
FITTED = ("map", "asks a network", "matched gain", "over linear-classifier")
CLEAR = 1.96  # standard errors
HEADS = (
    *("gain", "maps", "better than Random", "better than all nine controls", "best control"),
    *("IG from the mean over it, in standard errors", "class-evidence over it"),
)


def make_shipped_tables() -> dict[str, str]:
    return {
        "corpus": format_markdown_table(HEADS, _make_rows()),
        "fitted": format_markdown_table(FITTED, _make_fitted_rows()),
    }


def _make_rows() -> Iterator[list[str]]:
    found = read_answers(CORPUS)
    for protocol, mask in MASKS.items():
        each = {name: compute_gains(made, mask) for name, made in found.items()}
        controls = {name: each[name] for name in CONTROLS}
        best = max(controls, key=lambda name: float(controls[name].mean()))
        others = [each[name] for name in each if name not in (*CONTROLS, *ASKING)]
        random = sum(count_standard_errors(one - controls["random"]) > CLEAR for one in others)
        beats = sum(
            min(count_standard_errors(one - control) for control in controls.values()) > CLEAR for one in others
        )
        over = 100 * float((controls[best] - controls["random"]).mean())
        margins = (min(count_standard_errors(each[row] - one) for one in controls.values()) for row in ASKING[:2])
        counts = (str(len(others)), str(random), str(beats))
        yield [protocol, *counts, f"{best}, {over:+.1f} over Random", *(f"{margin:.1f}" for margin in margins)]


def _make_fitted_rows() -> Iterator[list[str]]:
    """Return the maps of `fitted.py` and some to compare, by matched gain in accuracy points, with standard errors."""
    found = read_answers(CORPUS)
    each = {
        name: compute_gains(made, MASKS["matched"])
        for name, made in found.items()
        if name.startswith((*COMPARED, *KINDS))
    }
    for name, one in sorted(each.items(), key=lambda item: -item[1].mean()):
        over = MISSING if name == "linear-classifier" else format_points(one - each["linear-classifier"])
        yield [name, "yes" if name in ASKING else "no", format_points(one), over]


if __name__ == "__main__":
    write_shipped_tables(__doc__, Path(__file__).with_name("README.md"), make_shipped_tables)
