"""Count the maps made without a network that are better than Random, or than every control, by each protocol.

Run `python -m studies.corpus.run` to write the tables of results.npz into README.md.
"""

from collections.abc import Iterator
from pathlib import Path

from roarbench.common.text import MISSING, format_markdown_table
from studies.matched.run import CORPUS, compute_gains, count_standard_errors, format_points, read_correctness
from studies.page import write_shipped_tables

CONTROLS = (
    *("random", "random-blurred", "sobel", "contrast"),
    *("deviation", "deviation-blurred", "low-saturation", "own-product", "linear-classifier"),
)
NETWORK_MAPS = ("ig-mean", "class-evidence", "half-images", "input-x-grad", "abs-ixg", "grad", "sgsq", "sg-ixg-abs")
# mask whose correct predictions count for a map, by protocol
MASKS = {"specific": "other", "matched": "dev-blur-8x8 bits", "augmented": None}
COMPARED = ("class-evidence", "half-images", "ig-mean", "input-x-grad", "class-mean-centre-entropy", "own-product")
FITTED_KINDS = ("linear", "ridge", "logistic", "gaussian", "kernel", "colours", "words")  # prefixes of ids
FITTED_HEADS = ("map", "asks a network", "matched gain", "over linear-classifier")
CLEAR = 1.96  # standard errors
HEADS = (
    *("gain", "maps", "better than Random", "better than all nine controls", "best control"),
    *("IG from the mean over it, in standard errors", "class-evidence over it"),
)


def make_shipped_tables() -> dict[str, str]:
    return {
        "corpus": format_markdown_table(HEADS, _make_rows()),
        "fitted": format_markdown_table(FITTED_HEADS, _make_fitted_rows()),
    }


def _make_rows() -> Iterator[list[str]]:
    rows = read_correctness(CORPUS)
    for protocol, mask in MASKS.items():
        gains = {name: compute_gains(correctness, mask) for name, correctness in rows.items()}
        controls = {name: gains[name] for name in CONTROLS}
        best = max(controls, key=lambda name: float(controls[name].mean()))
        margins = {
            name: min(count_standard_errors(gain - control) for control in controls.values())
            for name, gain in gains.items()
            if name not in CONTROLS
        }
        without_network = margins.keys() - set(NETWORK_MAPS)
        over_random = [count_standard_errors(gains[name] - controls["random"]) for name in without_network]
        counts = (
            len(without_network),
            sum(errors > CLEAR for errors in over_random),
            sum(margins[name] > CLEAR for name in without_network),
        )
        over = 100 * float((controls[best] - controls["random"]).mean())
        best_control = f"{best}, {over:+.1f} over Random"
        yield [protocol, *map(str, counts), best_control, *(f"{margins[name]:.1f}" for name in NETWORK_MAPS[:2])]


def _make_fitted_rows() -> Iterator[list[str]]:
    """Yield fitted maps and some other maps, sorted by matched gain in accuracy points, with standard errors."""
    gains = {
        name: compute_gains(correctness, MASKS["matched"])
        for name, correctness in read_correctness(CORPUS).items()
        if name.startswith((*COMPARED, *FITTED_KINDS))
    }
    for name, gain in sorted(gains.items(), key=lambda item: -item[1].mean()):
        over = MISSING if name == "linear-classifier" else format_points(gain - gains["linear-classifier"])
        yield [name, "yes" if name in NETWORK_MAPS else "no", format_points(gain), over]


if __name__ == "__main__":
    write_shipped_tables(__doc__, Path(__file__).with_name("README.md"), make_shipped_tables)
