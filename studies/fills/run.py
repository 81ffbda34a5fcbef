"""Which fill leaks least? Networks on images with each fill, beside networks that see the masks alone.

Retrains at t = .9, by the recipe of `quick` 2 on one of its references, a network for each row and fill and one for
each row on masks alone. What a store has is not done again: one with `quick` 2 has four of the 15 runs.

Run: python -m studies.fills.run --store DIR [--rows grad,random] [--limit N] [--workers N]
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from roarbench.analysis.bootstrap_draws import Evidence
from roarbench.analysis.suite_results import SuiteResults
from roarbench.enums import FILLS
from roarbench.errors import RunError
from roarbench.execution.run_suite import Request, run_suite
from roarbench.execution.start_workers import count_workers
from roarbench.plan.protocols import MASK_ONLY, ROAR
from roarbench.plan.suite import Block, SuiteSpec
from roarbench.plan.suites import find_suite
from roarbench.stats.board import RANDOM
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.curves import POINTS
from roarbench.stats.resampling import draw_resamples
from roarbench.store.results import ResultsStore, find_default_url
from roarbench.store.workspace import Workspace
from roarbench.text import format_interval, format_markdown_table, format_percent
from studies.page import program, write

LEVEL = 0.9
HEADS = ("row", "fill", "on images", "masks alone", "images minus masks [95 %]", "minus Random's [95 %]")


def suite_of(rows: Sequence[str]) -> SuiteSpec:
    """Return the trainings: each row with each fill, and on masks alone, one seed on one reference."""
    asked = (*((ROAR, fill) for fill in FILLS), (MASK_ONLY, "mean"))  # masks have no fill
    blocks = tuple(Block(protocol, tuple(rows), (LEVEL,), seeds=1, fill=fill) for protocol, fill in asked)
    return replace(find_suite("quick-full"), name="quick-fills", version=1, blocks=blocks, references=1)


def points_over(one: Sample | None, other: Sample | None) -> Estimate:
    """Return an accuracy minus another, in points; nothing where one is missing."""
    if one is None or other is None:
        return Estimate()
    found = make_estimate(one.minus(other), Bootstrap().confidence)
    return Estimate(*(None if end is None else POINTS * end for end in found))


def table(results: SuiteResults, rows: Sequence[str]) -> str:
    """Return a line for each row and fill that was run, intervals over test images."""
    evidence = Evidence.of(results)

    def accuracy(row: str, fill: str = "") -> Sample | None:
        drawn = evidence.drawn(ROAR, evidence.unit, fill) if fill else evidence.masks
        return draw_resamples(drawn.scores, evidence.bootstrap, None).accuracy(
            (row, LEVEL)
        )  # the trainings as they are

    lines = []
    for row in rows:
        masks = accuracy(row)
        for fill in FILLS:
            if images := accuracy(row, fill):
                shares = (format_percent(images.value), format_percent(masks.value if masks else None))
                over_random = "" if row == RANDOM else format_interval(points_over(images, accuracy(RANDOM, fill)))
                lines.append(
                    [f"`{row}`", f"`{fill}`", *shares, format_interval(points_over(images, masks)), over_random]
                )
    return format_markdown_table(HEADS, lines)


def main() -> None:
    """Compute what is missing, and write the table into the page."""
    parser = program(__doc__)
    parser.add_argument("--store", type=Path, required=True, help="a folder for images, rankings and results")
    parser.add_argument("--rows", default=f"grad,{RANDOM}", help="estimators, with commas between")
    parser.add_argument("--limit", type=int, help="images of each split; all if not given")
    parser.add_argument("--workers", type=int, help="processes; one per core by default")
    options = parser.parse_args()
    rows = options.rows.split(",")
    with ResultsStore.open(find_default_url(options.store)) as store:
        request = Request(suite_of(rows), workers=count_workers(options.workers), limit=options.limit)
        console = Console(stderr=True, highlight=False, markup=False)
        done = run_suite(request, Workspace(options.store), store, console)
    if done.failed:
        raise RunError(f"{done.failed} runs failed; the reasons are in {options.store}")
    write(Path(__file__).with_name("README.md"), {"leakage": table(done.suite_results, rows)})


if __name__ == "__main__":
    main()
