"""Make the study's tables from the stored searches and the published rows: `python -m studies.search.tables`."""

import argparse
import csv
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.suite_judges import judge_suite
from roarbench.api.published_results import load_published_results
from roarbench.common.enums import Order, Unit
from roarbench.common.text import MISSING, format_interval, format_markdown_table
from roarbench.plan.protocols import OWN_NETWORK, OWN_NETWORK_LERF
from roarbench.stats.board_records import RANDOM
from roarbench.stats.intervals import estimate
from roarbench.stats.own_network_gain import (
    OwnNetworkGain,
    OwnNetworkVerdict,
    SearchComparison,
    compare_with_searches,
    compute_own_network_gains,
    judge_beside_search,
)
from roarbench.stats.verdicts import Verdict
from studies.page import write_tables
from studies.search.run import LENGTHS

FOLDER = Path(__file__).parent
SETS = ("imagenette64", "cifar10", "fashion-mnist", "digits", "breast-cancer")


class Searched(NamedTuple):
    """Searches and published rows on the same images and networks of one data set."""

    name: str
    order: Order
    record: dict[str, Any]  # of the searches' run
    searches: dict[str, int]  # passes by name
    gains: dict[str, OwnNetworkGain]  # of searches and rows
    passes: dict[str, float | None]  # by row
    beside_zero: dict[str, Verdict]  # of each row, compared with 0 on all published images

    def compare(self, rows: Collection[str]) -> dict[str, SearchComparison]:
        """Compare these rows with searches."""
        contrasts = {name: gain.gain for name, gain in self.gains.items()}
        return compare_with_searches(contrasts, {name: self.passes[name] for name in rows}, self.searches)


class DataSet(NamedTuple):
    """A data set with long searches on some images and, for rows of few passes, with short searches on all images."""

    long: Searched
    short: Searched

    @property
    def cheap(self) -> list[str]:
        """Return the rows whose search is short."""
        most = max(self.short.searches.values())
        return [name for name, passes in self.short.passes.items() if passes is not None and passes <= most]

    @property
    def rows(self) -> dict[str, Searched]:
        """Return each row, with the searches with which it compares."""
        return dict.fromkeys(self.long.passes, self.long) | dict.fromkeys(self.cheap, self.short)

    @property
    def comparisons(self) -> dict[str, SearchComparison]:
        """Return the comparisons of the rows with searches."""
        return self.long.compare(self.long.passes.keys() - set(self.cheap)) | self.short.compare(self.cheap)

    @property
    def verdicts(self) -> dict[str, OwnNetworkVerdict]:
        """Return the verdicts: beside 0 on all images, and beside the searches."""
        compared, beside_zero = self.comparisons, self.long.beside_zero
        return {name: judge_beside_search(beside_zero[name], compared[name]) for name in compared}


def read_data_set(name: str, order: Order) -> DataSet:
    """Read the stored searches of a data set; without a file of short searches, the long ones take their place."""
    file = name if order is Order.MORF else f"{name}-lerf"
    long = read_searches(name, file, order)
    short = f"{file}-short"
    return DataSet(long, read_searches(name, short, order) if (FOLDER / f"{short}.npz").exists() else long)


def read_searches(name: str, file: str, order: Order) -> Searched:
    """Read stored searches, and the published rows on the same images."""
    with np.load(FOLDER / f"{file}.npz") as stored:
        shape, rows, record = tuple(stored["shape"]), stored["rows"], json.loads(str(stored["record"]))
        kept = np.unpackbits(stored["kept"], count=int(np.prod(shape))).reshape(shape).astype(np.bool_)
    ending = "" if order is Order.MORF else ",order=lerf"
    searches = {f"search(passes={length}{ending})": length for length in record["lengths"]}
    results = load_published_results(f"benchmark-{name}").stored
    judge = judge_suite(results).judge(OWN_NETWORK if order is Order.MORF else OWN_NETWORK_LERF, Unit.SCALAR)
    tested = [row for row in judge.tested_gains if row not in judge.scores.searches]
    published = {row: judge.own_network[row].kept[..., : len(rows)] for row in tested}
    bits: dict[str, NDArray[np.bool_]] = {**dict(zip(searches, kept, strict=True)), **published}
    counted = {row: results.find_passes(row) for row in tested}
    return Searched(
        name,
        order,
        record,
        searches,
        compute_own_network_gains(bits, order),
        {row: passes and sum(passes) for row, passes in counted.items()},
        {row: judge.comparisons[row, RANDOM].verdict for row in tested},
    )


def list_frontier(data: Searched) -> Iterator[dict[str, Any]]:
    """List the searches' gains with their intervals."""
    for name, length in data.searches.items():
        whole, gain = estimate(data.gains[name].gain), data.gains[name]
        levels = dict(zip(("at .05", "at .5"), (round(level.value, 2) for level in gain.levels), strict=True))
        numbers = {"gain": whole.value, "low": whole.low, "high": whole.high}
        yield {
            "data set": data.name,
            "passes": length,
            **{key: round(value or 0.0, 2) for key, value in numbers.items()},
            **levels,
            "networks": len(gain.kept),
            "agreed images": data.record["agreed"],
            "images": data.record["images"],
            "seconds of all searches": data.record["seconds"],
            "suite": data.record["suite"],
            "data": data.record["data"],
            "search": data.record["search"],
            "torch": data.record["torch"],
            "order": data.order,
        }


def list_verdicts(data: DataSet) -> Iterator[dict[str, Any]]:
    """List the rows with their gain, the search with which it compares, and both verdicts."""
    verdicts, compared = data.verdicts, data.comparisons
    for name, of in sorted(data.rows.items(), key=lambda item: -item[1].gains[item[0]].gain.value):
        yield {
            "data set": of.name,
            "row": name,
            "passes": of.passes[name],
            "agreed images": of.record["agreed"],
            "gain": format_interval(estimate(of.gains[name].gain)),
            "search": compared[name].search,
            "search is long enough": compared[name].long_enough,
            "gain over the search": format_interval(compared[name].comparison.difference),
            "compared with 0, all images": str(of.beside_zero[name]),
            "verdict": str(verdicts[name]),
            "order": of.order,
        }


def write_csv(name: str, rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV into the study's folder."""
    with (FOLDER / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def make_frontier_table(sets: list[DataSet]) -> str:
    """Make the page's table of the frontier, with a column for each number of passes."""
    lengths = [str(length) for length in LENGTHS]
    lines = []
    for of in (data.long for data in sets):
        gains = {str(length): format_interval(estimate(of.gains[name].gain)) for name, length in of.searches.items()}
        images = f"{of.record['agreed']} of {of.record['images']}"
        lines.append([of.name, images, *(gains.get(length, MISSING) for length in lengths)])
    return format_markdown_table(("data set", "images", *lengths), lines)


def make_verdict_table(sets: list[DataSet]) -> str:
    """Make the page's table of the rows that are above 0, and what they are beside the searches."""
    lines = []
    for data in sets:
        verdicts, compared = data.verdicts, data.comparisons
        above = [name for name, verdict in data.long.beside_zero.items() if verdict is Verdict.BETTER]
        searched = [name for name in above if verdicts[name] is OwnNetworkVerdict.SEARCHED]
        below = [name for name in searched if compared[name].comparison.verdict is Verdict.WORSE]
        others = [f"`{name}`" for name in above if name not in searched]
        counts = [len(data.rows), len(above), len(searched), len(below)]
        lines.append([data.long.name, *map(str, counts), ", ".join(others) or "none"])
    heads = ("data set", "rows", "above 0", "no more than a search", "of these, below the search", "above the search")
    return format_markdown_table(heads, lines)


def main() -> None:
    argparse.ArgumentParser(description=__doc__).parse_args()
    sets = {order: [read_data_set(name, order) for name in SETS] for order in Order}
    both = [data for of_order in sets.values() for data in of_order]
    write_csv("frontier.csv", [row for data in both for row in list_frontier(data.long)])
    write_csv("verdicts.csv", [row for data in both for row in list_verdicts(data)])
    tables = {f"frontier {order}": make_frontier_table(of_order) for order, of_order in sets.items()}
    tables |= {f"verdicts {order}": make_verdict_table(of_order) for order, of_order in sets.items()}
    write_tables(FOLDER / "README.md", tables)


if __name__ == "__main__":
    main()
