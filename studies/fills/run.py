"""Which fill leaks least? Networks on images with each fill, beside networks that see the masks alone.

Retrains at t = .9, by the recipe of `quick` 2 on one of its references, a network for each row and fill and one for
each row on masks alone. What a store has is not done again: one with `quick` 2 has four of the 15 runs.

Run: python -m studies.fills.run --store DIR [--rows grad,random] [--limit N] [--workers N]
"""

from dataclasses import replace
from pathlib import Path

from rich.console import Console

from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.errors import RunError
from roarbench.execution.local_workers import workers_here
from roarbench.execution.runner import Request, run_suite
from roarbench.plan.suite import Block, Suite
from roarbench.plan.suites import find_suite
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.stats.board import RANDOM
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, estimate
from roarbench.stats.curves import POINTS
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import FILLS, Unit
from roarbench.text import interval, markdown_table, percent
from studies.diffroar.run import images_alone
from studies.page import program, write

LEVEL = 0.9


def suite_of(rows: tuple[str, ...]) -> Suite:
    """Return the trainings: each row with each fill, and on masks alone, one seed on one reference."""
    blocks = (
        *(Block(ROAR, rows, (LEVEL,), seeds=1, fill=fill) for fill in FILLS),
        Block(MASK_ONLY, rows, (LEVEL,), seeds=1),
    )
    return replace(find_suite("quick@2"), name="quick-fills", version=1, blocks=blocks, references=1)


def lines_of(results: SuiteResults, rows: tuple[str, ...]) -> list[list[str]]:
    """Return the cells of the table: a line for each row and fill that was run, intervals over test images."""
    evidence = Evidence(results, Unit.SCALAR, Bootstrap())

    def accuracy(row: str, fill: str = "") -> Sample | None:
        drawn = evidence.drawn(ROAR, evidence.unit, fill) if fill else evidence.masks
        return images_alone(drawn, evidence).accuracy((row, LEVEL))

    def over(one: Sample | None, other: Sample | None) -> Estimate:
        if one is None or other is None:
            return Estimate()
        found = estimate(one.minus(other), evidence.bootstrap.confidence)
        return Estimate(*(None if end is None else POINTS * end for end in found))

    lines = []
    for row in rows:
        masks = accuracy(row)
        for fill in FILLS:
            images, random = accuracy(row, fill), accuracy(RANDOM, fill)
            if images is None:
                continue
            shares = [percent(images.value), percent(masks.value if masks else None)]
            beside = interval(over(images, random)) if row != RANDOM else ""
            lines.append([f"`{row}`", f"`{fill}`", *shares, interval(over(images, masks)), beside])
    return lines


def table(results: SuiteResults, rows: tuple[str, ...]) -> str:
    """Return the table as it stands on the page."""
    heads = ("row", "fill", "on images", "masks alone", "images minus masks [95 %]", "minus Random's [95 %]")
    return markdown_table(heads, lines_of(results, rows))


def main() -> None:
    """Compute what is missing, and write the table into the page."""
    parser = program(__doc__)
    parser.add_argument("--store", type=Path, required=True, help="a folder for images, rankings and results")
    parser.add_argument("--rows", default=f"grad,{RANDOM}", help="estimators, with commas between")
    parser.add_argument("--limit", type=int, help="images of each split; all if not given")
    parser.add_argument("--workers", type=int, help="processes; one per core by default")
    options = parser.parse_args()
    rows = tuple(options.rows.split(","))
    suite, console = suite_of(rows), Console(stderr=True, highlight=False, markup=False)
    with ResultsStore.open(default_url(options.store)) as store:
        asked = Request(suite, workers=workers_here(options.workers), limit=options.limit)
        done = run_suite(asked, Workspace(options.store), store, console)
        if done.failed:
            raise RunError(f"{done.failed} runs failed; the reasons are in {options.store}")
    write(Path(__file__).with_name("README.md"), {"leakage": table(done.suite_results, rows)})


if __name__ == "__main__":
    main()
