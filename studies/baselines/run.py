"""Do gains follow the distance between an estimator's baseline and the fill? Writes the tables of the page.

What to type: README.md.
"""

from itertools import product
from pathlib import Path

import torch
from scipy.stats import spearmanr

from roarbench.analysis.stored_results import collect
from roarbench.analysis.suite_draws import Evidence
from roarbench.datasets.decoded import ImageData, open_decoded
from roarbench.estimators.baselines import make_baseline_images
from roarbench.estimators.catalogue import find_estimator
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.plan.suite_file import read_suite
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.protocol import Protocol
from roarbench.protocols.specific import SPECIFIC
from roarbench.text import MISSING, format_interval, format_markdown_table
from studies.page import opened, program, write

HERE = Path(__file__).parent
BASELINES = {"mean": "mean", "zero": "black", "blur": "blur"}  # by fill
NAMES = tuple(BASELINES.values())
Distances = dict[tuple[str, str], float]  # by baseline and fill


def distances(data: ImageData) -> Distances:
    """Return mean |baseline - fill| over the test images, in standard deviations of a channel."""
    norm = Normalisation(data.mean, data.std)
    images = normalise(torch.from_numpy(data.test.pixels), norm)
    black = (-torch.tensor(norm.mean) / torch.tensor(norm.std))[:, None, None]
    made = {name: make_baseline_images(name, images, black) for name in NAMES}
    return {(one, fill): float((made[one] - made[BASELINES[fill]]).abs().mean()) for one in made for fill in BASELINES}


def gains(evidence: Evidence, protocol: Protocol) -> str:
    """Return a table of gains: a line for each row, a column for each fill."""
    drawn = [evidence.drawn(protocol, evidence.unit, fill) for fill in BASELINES]
    rows = evidence.suite_results.suite.placed
    lines = ([f"`{name}`", *(format_interval(each.area(name)) for each in drawn)] for name in rows)
    return format_markdown_table((f"{protocol.name} gain [95 %]", *(f"fill `{fill}`" for fill in BASELINES)), lines)


def row_of(base: str, baseline: str) -> str:
    """Return the id of an estimator that begins at a baseline."""
    return find_estimator(f"{base}(baseline={baseline})").id


def orders(evidence: Evidence, far: Distances) -> str:
    """Return rank correlations of gain and distance over baselines and fills, by estimator and protocol."""
    lines = []
    for base, names in (("ig", NAMES), ("deeplift", ("mean", "black")), ("deviation", NAMES)):
        pairs = list(product(names, BASELINES))
        line = [f"`{base}`", str(len(pairs))]
        for protocol in (MATCHED, SPECIFIC):
            drawn = {fill: evidence.drawn(protocol, evidence.unit, fill) for fill in BASELINES}
            areas = [drawn[fill].area(row_of(base, name)).value for name, fill in pairs]
            known = None not in areas
            line.append(f"{spearmanr([far[pair] for pair in pairs], areas).statistic:+.2f}" if known else MISSING)
        lines.append(line)
    return format_markdown_table(("estimator", "pairs", "matched", "specific"), lines)


def differences(evidence: Evidence) -> str:
    """Return how much more IG from the fill gains than IG from each other baseline, paired, by protocol and fill."""
    lines = []
    for protocol, (fill, own) in product((MATCHED, SPECIFIC), BASELINES.items()):
        drawn = evidence.drawn(protocol, evidence.unit, fill)
        areas = {name: drawn.areas.get(row_of("ig", name)) for name in NAMES}
        line, mine = [protocol.name, f"`{fill}`"], areas[own]
        for name, other in areas.items():
            over = drawn.estimate(mine.minus(other) if mine and other else None)
            line.append("" if name == own else format_interval(over))
        lines.append(line)
    return format_markdown_table(("gain", "fill", *(f"over IG from {name} [95 %]" for name in NAMES)), lines)


def main() -> None:
    """Write the tables into the page."""
    parser = program(__doc__)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--limit", type=int)
    options = parser.parse_args()
    with opened(options.store) as store:
        evidence = Evidence.of(collect(read_suite(HERE / "baselines.toml"), store, options.limit))
    decoded = (open_decoded(path.parent) for path in (options.store / "data").rglob("manifest.json"))
    far = distances(next(data for data in decoded if data.fingerprint == evidence.suite_results.data))
    apart = ([f"`{name}`", *(f"{far[name, fill]:.2f}" for fill in BASELINES)] for name in NAMES)
    tables = {
        "distances": format_markdown_table(
            ("distance of baseline", *(f"from fill `{fill}`" for fill in BASELINES)), apart
        ),
        **{protocol.name: gains(evidence, protocol) for protocol in (MATCHED, SPECIFIC)},
        "differences": differences(evidence),
        "orders": orders(evidence, far),
    }
    write(HERE / "README.md", tables)


if __name__ == "__main__":
    main()
