"""How specific gains change with the common network: the table of what `network_study.py` wrote.

    python scripts/network_tables.py --store DIR --answers FOLDER --out FOLDER [--seed 0]
    python scripts/network_tables.py --store DIR --out FOLDER --averaged 0,3,6,9

`--answers` is the folder of `pairings_study.py`, with what the suite's own networks answer, and `--out` that of
`network_study.py`. Intervals hold 95 %, over test images drawn anew; tau lets open pairs of rows fall either way.
The second form compares networks of these seeds by one reference, trained with and without `--average`: how far a
row's difference from Random varies from network to network.
"""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pairings_study import study_context
from pairings_tables import LEVELS, ROWS, Floats, Measure, PairingStudy, answered, area, likelihood
from scipy.stats import f

from roarbench.stats.agreement import agreement
from roarbench.stats.bootstrap import Bootstrap, Sample
from roarbench.text import markdown_table, signed

MEASURES: dict[str, Measure] = {"answers": answered, "probability": likelihood}


def names(out: Path, seed: int) -> list[str]:
    """Return what was trained from a seed: network, epochs and seed."""
    marked = (file.stem.removesuffix(f"-{ROWS[-1]}") for file in sorted(out.glob(f"*-{seed}-{ROWS[-1]}.npz")))
    return list(marked)


def gains(study: PairingStudy, out: Path, name: str, measure: Measure) -> dict[str, Floats]:
    """Return the gain of each image by row, (n,), of one of these networks, or of the suite's own for an empty name."""
    if not name:
        return {row: area(study.differences(row, measure)[:, :1]).mean((0, 1)) for row in ROWS}
    found = {}
    for row in ROWS:
        held = np.load(out / f"{name}-{row}.npz")
        lost = [
            100 * (measure(held[f"other-{t:g}"], study.labels) - measure(held[f"own-{t:g}"], study.labels))
            for t in LEVELS
        ]
        found[row] = area(np.stack(lost)[None, None]).mean((0, 1))
    return found


def samples(study: PairingStudy, of: dict[str, Floats]) -> dict[str, Sample]:
    """Return mean gains with their draws, from the gain of each image."""
    return {row: Sample(float(each.mean()), (study.draws @ each).astype(np.float64)) for row, each in of.items()}


def lines(study: PairingStudy, out: Path, seed: int) -> Iterator[list[str]]:
    """Yield for each network and measure its accuracy on untouched images, its gains, and tau with the suite's own."""
    for title, measure in MEASURES.items():
        first = gains(study, out, "", measure)
        for name in ("", *names(out, seed)):
            own = gains(study, out, name, measure)
            alike = agreement(samples(study, first), samples(study, own), Bootstrap().confidence) if name else None
            tau = f"{alike.tau.value:+.2f} [{alike.tau.low:+.2f}, {alike.tau.high:+.2f}]" if alike else ""
            clean = ""
            if name:
                said = np.load(out / f"{name}.npz")["untouched"]
                clean = f"{100 * answered(said, study.labels).mean():.1f}"
            cells = [f"{signed(float(own[row].mean()))} ± {np.sqrt(study.error(own[row])[0]):.2f}" for row in ROWS]
            yield [name or "suite", title, clean, *cells, tau]


def averaging(labels: NDArray[np.int64], out: Path, seeds: Sequence[int]) -> Iterator[list[str]]:
    """Yield for each row the difference from Random and its variance over networks, last weights and their mean.

    The last line has the mean variance over the rows and their ratio, with the 95 % interval of an F distribution that
    takes the rows of a network as independent, so that it is too narrow if anything.
    """
    kinds = {"last": "quick-10", "mean": "quick-10-averaged"}
    above: dict[str, Floats] = {}
    for kind, name in kinds.items():
        found = np.array([[_gain(labels, out, f"{name}-{seed}", row) for row in ROWS] for seed in seeds])
        above[kind] = found[:, 1:] - found[:, :1]  # Random is the first row
    variances = {kind: values.var(axis=0, ddof=1) for kind, values in above.items()}
    for number, row in enumerate(ROWS[1:]):
        means = (signed(float(above[kind][:, number].mean())) for kind in kinds)
        yield [f"`{row}`", *means, *(f"{variances[kind][number]:.2f}" for kind in kinds)]
    last, mean = (float(variances[kind].mean()) for kind in kinds)
    freedom = (len(seeds) - 1) * len(ROWS[1:])
    low, high = (mean / last / f.ppf(share, freedom, freedom) for share in (0.975, 0.025))
    yield ["mean", "", "", f"{last:.2f}", f"{mean:.2f}: {mean / last:.2f} [{low:.2f}, {high:.2f}] of it"]


def _gain(labels: NDArray[np.int64], out: Path, name: str, row: str) -> float:
    """Return the specific gain of a row by one network, in accuracy points."""
    held = np.load(out / f"{name}-{row}.npz")
    lost = [answered(held[f"other-{t:g}"], labels) - answered(held[f"own-{t:g}"], labels) for t in LEVELS]
    return float(100 * area(np.stack(lost)[None, None]).mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--answers", type=Path, help="needed without --averaged")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--averaged", help="seeds of networks by the same reference, with commas between")
    arguments = parser.parse_args()
    context = study_context(arguments.store)
    if arguments.averaged:
        labels = context.data.test.labels.astype(np.int64)
        seeds = [int(seed) for seed in arguments.averaged.split(",")]
        heads = ["row", "last weights", "mean of weights", "variance over networks, last", "mean"]
        print(markdown_table(heads, averaging(labels, arguments.out, seeds)))
        return
    study = PairingStudy(arguments.answers, context.data.test.labels.astype(np.int64), (arguments.seed,), ("",))
    heads = ["network", "gain in", "untouched", *ROWS, "tau with the suite's"]
    print(markdown_table(heads, lines(study, arguments.out, arguments.seed)))


if __name__ == "__main__":
    main()
