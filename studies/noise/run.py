"""Does the gain of SmoothGrad-Squared and VarGrad depend on their noise? Five sizes, two kinds of explained networks.

Explains one network of the recipe of `quick` 2 and one that was trained on noise, `quick-reference@1`, and retrains one
network for each row at t = .9. What a store has is not done again.

Run: python -m studies.noise.run --store DIR [--workers N] [--limit N]
"""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from roarbench.errors import RunError
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution.local_workers import workers_here
from roarbench.execution.runner import Finished, Request, run_suite
from roarbench.plan.suite import Block, Suite
from roarbench.plan.suites import find_suite
from roarbench.protocols.roar import ROAR
from roarbench.store.layout import Workspace
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import Unit
from roarbench.text import MISSING, markdown_table, signed
from studies.page import write

NOISES = (0.02, 0.05, 0.1, 0.15, 0.2)
FORMS = {"var-grad": "VarGrad", "sgsq-grad": "SmoothGrad-Squared"}
REFERENCES = {"quick@2": "ordinary", "quick-reference@1": "trained on noise"}  # by recipe
ASKED = {"quick@2": NOISES, "quick-reference@1": (0.05, 0.15)}  # the second kind of reference at two sizes alone
Cells = dict[tuple[str, float], tuple[str, str]]  # by form and noise: gain, and share of predictions kept


def row_id(form: str, noise: float) -> str:
    """Return the id of a row."""
    return find_estimator(f"{form}(noise={noise:g})").id


def sweep_suite(recipe: str) -> Suite:
    """Return what is run for one kind of reference; controls have the same keys for both."""
    rows = tuple(row_id(form, noise) for form in FORMS for noise in ASKED[recipe])
    block = Block(ROAR, ("random", *rows), (0.9,), seeds=1)
    name = f"noise sweep, {REFERENCES[recipe]} reference"
    return replace(find_suite("quick@2"), name=name, version=1, blocks=(block,), references=1, reference_recipe=recipe)


def cells(recipe: str, finished: Finished) -> Cells:
    """Return gain and share kept of every row of one kind of reference, in words."""
    board = finished.suite_results.board(ROAR, Unit.SCALAR)
    assert board is not None, "the suite has it"
    rows, made = {row.estimator: row for row in board.rows}, {}
    for form in FORMS:
        for noise in ASKED[recipe]:
            row = rows[row_id(form, noise)]
            spec = finished.work.ranking_spec(find_estimator(row.estimator), Unit.SCALAR)
            kept = finished.work.place.rankings.open(spec).kept
            gain = MISSING if row.gain.value is None else signed(row.gain.value)
            made[form, noise] = gain, MISSING if kept is None else f"{kept:.0%}"
    return made


def table(found: Mapping[str, Cells]) -> str:
    """Tabulate the rows: a line for each noise, columns for each kind of reference."""
    heads, lines = ["noise"], [[f"{noise:g}"] for noise in NOISES]
    for recipe, made in found.items():
        heads += [f"{head}, {REFERENCES[recipe]}" for head in ("kept", *FORMS.values())]
        for line, noise in zip(lines, NOISES, strict=True):
            own = [made.get((form, noise), (MISSING, MISSING)) for form in FORMS]
            line += [own[0][1], *(gain for gain, _ in own)]
    return markdown_table(heads, lines)


def main() -> None:
    """Compute what is missing, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="a folder for images, rankings and results")
    parser.add_argument("--limit", type=int, help="images of each split")
    parser.add_argument("--workers", type=int, help="processes; one per core by default")
    options, found = parser.parse_args(), dict[str, Cells]()
    console, workspace = Console(stderr=True, highlight=False, markup=False), Workspace(options.store)
    with ResultsStore.open(default_url(options.store)) as store:
        for recipe in REFERENCES:
            request = Request(sweep_suite(recipe), limit=options.limit, workers=workers_here(options.workers))
            done = run_suite(request, workspace, store, console)
            if done.failed:
                raise RunError(f"{done.failed} runs failed; the reasons are in {options.store}")
            found[recipe] = cells(recipe, done)
    write(Path(__file__).with_name("README.md"), {"noise": table(found)})


if __name__ == "__main__":
    main()
