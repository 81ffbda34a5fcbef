"""Judge blind searches of other seeds by the rule that judges estimators: `python -m studies.search.seeds NAME`.

Each pair of seeds is judged as a row and its search. The shares of pairs that *explain their network* are false
verdicts; they are appended to `seeds.csv` and to the page's table. Images and networks are those of
`studies.search.run`.
"""

import csv
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from roarbench.common.enums import Order
from roarbench.common.text import format_markdown_table
from roarbench.estimators.estimator import Batch
from roarbench.stats.contrasts import measure_spreads
from roarbench.stats.own_network_gain import (
    OwnNetworkVerdict,
    compare_with_searches,
    compute_own_network_gains,
    judge_beside_search,
)
from roarbench.stats.verdicts import judge_comparisons
from studies.page import make_parser, write_tables
from studies.search.run import load_agreed_images, score, search_networks

LENGTHS, SEEDS = (2, 8, 32), 20
_FAR = 10**6  # all random numbers of a search come from the images' numbers, so other numbers are another seed
FILE = Path(__file__).parent / "seeds.csv"


def judge_column(kept: dict[str, NDArray[np.bool_]], control: str, passes: int) -> dict[str, OwnNetworkVerdict]:
    """Judge rows beside one search with as many passes, adjusted over the column."""
    gains = {name: own.gain for name, own in compute_own_network_gains(kept, Order.MORF).items()}
    rows = {name: gain for name, gain in gains.items() if name != control}
    beside_zero = judge_comparisons(rows)
    beside_search = compare_with_searches(gains, dict.fromkeys(rows, float(passes)), {control: passes})
    return {name: judge_beside_search(beside_zero[name].verdict, beside_search[name]) for name in rows}


def make_table() -> str:
    """Make the page's table of all measured shares."""
    with FILE.open(newline="") as file:
        lines = [
            (
                *(row["data"], row["agreed"], row["passes"], f"{row['first']} to {int(row['first']) + SEEDS - 1}"),
                f"{float(row['gain']):+.1f} ({row['deviation']})",
                row["variance_ratio"],
                f"{row['explains']} of {row['pairs']} ({int(row['explains']) / int(row['pairs']):.1%})",
                f"{row['explains_in_column']} of {SEEDS - 1}",
            )
            for row in csv.DictReader(file)
        ]
    gain, variance = "gain (deviation between seeds)", "variance, estimated / true"
    heads = ("data set", "images", "passes", "seeds", gain, variance, "pairs with *explains*", "in one column")
    return format_markdown_table(heads, lines)


def main() -> None:
    """Search with each seed, judge all pairs, append the shares, and write the page's table."""
    parser = make_parser(__doc__)
    parser.add_argument("name", help="data set of a benchmark suite, such as digits")
    parser.add_argument("--images", type=int, default=100, help="number of test images, the first ones")
    parser.add_argument("--decoded", type=Path, default=Path("decoded"), help="folder of decoded images")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    agreed = load_agreed_images(options.name, options.images, None, options.decoded)
    networks, batch = agreed.networks, agreed.batch
    found: dict[int, dict[str, NDArray[np.bool_]]] = {length: {} for length in LENGTHS}
    for seed in range(options.first, options.first + SEEDS):
        moved = Batch(batch.images, batch.targets, batch.ids + seed * _FAR)
        for length, maps in zip(LENGTHS, search_networks(networks, moved, agreed.black, list(LENGTHS)), strict=True):
            found[length][str(seed)] = score(networks, batch, maps)
    lines = []
    for length, kept in found.items():
        pairs = [
            judge_column({name: kept[name] for name in pair}, pair[1], length)[pair[0]]
            for pair in permutations(kept, 2)
        ]
        table = judge_column(kept, str(options.first), length)
        measured = [own.gain for own in compute_own_network_gains(kept, Order.MORF).values()]
        gains = [gain.value for gain in measured]
        differences = [one.subtract(other) for one, other in combinations(measured, 2)]
        true_variance = 2 * np.var(gains, ddof=1)  # networks and images of two searches are the same
        lines.append(
            {
                "data": options.name,
                "agreed": len(batch.ids),
                "passes": length,
                "first": options.first,
                "gain": round(float(np.mean(gains)), 2),
                "deviation": round(float(np.std(gains, ddof=1)), 2),
                "variance_ratio": round(float(measure_spreads(differences).totals.mean() / true_variance), 2),
                "explains": sum(each is OwnNetworkVerdict.EXPLAINS for each in pairs),
                "pairs": len(pairs),
                "explains_in_column": sum(each is OwnNetworkVerdict.EXPLAINS for each in table.values()),
            }
        )
    is_new = not FILE.exists()
    with FILE.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerows(lines)
    write_tables(FILE.with_name("README.md"), {"seeds": make_table()})


if __name__ == "__main__":
    main()
