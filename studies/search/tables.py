"""Make the study's tables from the stored searches and the published rows: `python -m studies.search.tables`."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.analysis.suite_judges import judge_suite
from roarbench.api.published_results import load_published_results
from roarbench.common.enums import Order, Unit
from roarbench.common.text import format_interval, format_markdown_table
from roarbench.plan.protocols import OWN_NETWORK
from roarbench.stats.contrasts import Contrast
from roarbench.stats.intervals import estimate
from roarbench.stats.own_network_gain import OwnNetworkGain, OwnNetworkVerdict, compute_own_network_gains
from roarbench.stats.search_control import choose_search, judge_own_network_gains
from studies.page import write_tables

FOLDER = Path(__file__).parent
SETS = ("imagenette64", "cifar10", "fashion-mnist", "digits", "breast-cancer")
_CHANGED = (OwnNetworkVerdict.SEARCHED, OwnNetworkVerdict.ABOVE_SHORTER, OwnNetworkVerdict.OPEN)


class DataSet(NamedTuple):
    """Searches and published rows of one data set, on the same images and networks."""

    name: str
    record: dict[str, Any]  # of the searches' run
    searches: dict[str, int]  # passes by name
    gains: dict[str, OwnNetworkGain]  # of searches and rows
    passes: dict[str, float | None]  # by row
    today: dict[str, str]  # verdict of each row on all published images, compared with 0

    @property
    def contrasts(self) -> dict[str, Contrast]:
        """Return the gains."""
        return {name: gain.gain for name, gain in self.gains.items()}

    @property
    def verdicts(self) -> dict[str, OwnNetworkVerdict]:
        """Return the verdicts beside the searches."""
        return judge_own_network_gains(self.contrasts, self.passes, self.searches)


def read_data_set(name: str) -> DataSet:
    """Read the stored searches of a data set, and the published rows on the same images."""
    with np.load(FOLDER / f"{name}.npz") as stored:
        shape, rows, record = tuple(stored["shape"]), stored["rows"], json.loads(str(stored["record"]))
        kept = np.unpackbits(stored["kept"], count=int(np.prod(shape))).reshape(shape).astype(np.bool_)
    searches = {f"search(passes={length})": length for length in record["lengths"]}
    results = load_published_results(f"benchmark-{name}").stored
    judge = judge_suite(results).judge(OWN_NETWORK, Unit.SCALAR)
    tested = [row for row in judge.tested_gains if row in judge.own_network]
    published = {row: judge.own_network[row].kept[..., : len(rows)] for row in tested}
    bits: dict[str, NDArray[np.bool_]] = {**dict(zip(searches, kept, strict=True)), **published}
    counted = {row: results.find_passes(row) for row in tested}
    return DataSet(
        name,
        record,
        searches,
        compute_own_network_gains(bits, Order.MORF),
        {row: passes and sum(passes) for row, passes in counted.items()},
        {row: str(judge.find_verdict(row)) for row in tested},
    )


def list_frontier(data: DataSet) -> Iterator[dict[str, Any]]:
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
        }


def list_verdicts(data: DataSet) -> Iterator[dict[str, Any]]:
    """List the rows with their gain, the search with which it compares, and both verdicts."""
    verdicts, contrasts = data.verdicts, data.contrasts
    for name, passes in sorted(data.passes.items(), key=lambda item: -contrasts[item[0]].value):
        search, long_enough = choose_search(passes, data.searches)
        own, over = estimate(contrasts[name]), estimate(contrasts[name].subtract(contrasts[search]))
        yield {
            "data set": data.name,
            "row": name,
            "passes": passes,
            "gain": format_interval(own),
            "search": search,
            "long enough": long_enough,
            "over the search": format_interval(over),
            "verdict beside 0, all images": data.today[name],
            "verdict beside the search": str(verdicts[name]),
        }


def write_csv(name: str, rows: list[dict[str, Any]]) -> None:
    """Write rows as CSV into the study's folder."""
    with (FOLDER / name).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def make_frontier_table(sets: list[DataSet]) -> str:
    """Make the page's table of the frontier, with a column for each number of passes."""
    lines = []
    for data in sets:
        gains = [format_interval(estimate(data.gains[name].gain)) for name in data.searches]
        lines.append([data.name, f"{data.record['agreed']} of {data.record['images']}", *gains])
    return format_markdown_table(("data set", "images", *map(str, sets[0].record["lengths"])), lines)


def make_verdict_table(sets: list[DataSet]) -> str:
    """Make the page's table of the numbers of verdicts."""
    lines = []
    for data in sets:
        verdicts, today = data.verdicts, data.today
        explaining = [name for name in data.passes if today[name] == OwnNetworkVerdict.EXPLAINS]
        kinds = {kind: [name for name in explaining if verdicts[name] is kind] for kind in _CHANGED}
        above = [f"`{name}`" for name in data.passes if verdicts[name] is OwnNetworkVerdict.EXPLAINS]
        counts = [str(len(names)) for names in kinds.values()]
        lines.append([data.name, str(len(data.passes)), str(len(explaining)), *counts, ", ".join(above) or "none"])
    heads = ("data set", "rows", "above 0 today", "no more than a search", "above a shorter search", "not shown")
    return format_markdown_table((*heads, "explain their network"), lines)


def main() -> None:
    """Write all tables."""
    sets = [read_data_set(name) for name in SETS if (FOLDER / f"{name}.npz").exists()]
    write_csv("frontier.csv", [row for data in sets for row in list_frontier(data)])
    write_csv("verdicts.csv", [row for data in sets for row in list_verdicts(data)])
    tables = {"frontier": make_frontier_table(sets), "verdicts": make_verdict_table(sets)}
    write_tables(FOLDER / "README.md", tables)


if __name__ == "__main__":
    main()
