"""Gain against noise: VarGrad and SmoothGrad-Squared with five sizes of noise, two of them for a second reference.

    python scripts/noise_sweep.py --store DIR [--workers N] [--limit N] [--out docs]

Explains one network of the recipe of `quick` 2 and one that was trained on noise, `quick-reference@1`, retrains one
network for each row at t = .9 by the recipe of `quick` 2, and writes `noise.md` and `noise.png`. What a store has
is not done again, so a second call goes on where the first was stopped, or writes the page alone. A small version
(`--limit`) shows that it works; write it into another folder than `docs`.
"""

import argparse
import platform
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.console import Console

from roarbench.analysis.noisy_copies import KEPT_ENOUGH
from roarbench.errors import RunError
from roarbench.estimators.catalogue import find_estimator
from roarbench.execution.local_workers import workers_here
from roarbench.execution.runner import Finished, Request, run_suite
from roarbench.plan.suite import Block, Suite
from roarbench.plan.suites import find_suite
from roarbench.report.panels import COLOURS, FONT_POINTS, INK
from roarbench.store.folders import Workspace
from roarbench.store.provenance import code_version
from roarbench.store.results import ResultsStore, default_url
from roarbench.terms import ROAR, Unit
from roarbench.text import MISSING, markdown_table, percent

NOISES = (0.02, 0.05, 0.1, 0.15, 0.2)
FORMS = {"var-grad": "VarGrad", "sgsq-grad": "SmoothGrad-Squared"}
REFERENCES = {"quick@2": "ordinary", "quick-reference@1": "trained on noise"}  # by recipe
ASKED = {"quick@2": NOISES, "quick-reference@1": (0.05, 0.15)}  # the second kind of reference at two sizes alone
T = 0.9
COLOUR = {"var-grad": COLOURS[5], "sgsq-grad": COLOURS[4]}  # as in the curves
ORDINARY: dict[str, Any] = {"marker": "o", "markersize": 4.5, "linewidth": 1.6}
OTHER: dict[str, Any] = ORDINARY | {"linestyle": (0, (3, 2)), "linewidth": 1.0, "markerfacecolor": "white"}
PAGE = """# Gain against noise

SmoothGrad-Squared and VarGrad look at noisy copies of an image. How does their gain depend on the noise, and does the
explained network still see in the copies what it sees in the image?

![Gain against noise, and the share of noisy copies that keep their class](noise.png)

Noise is one standard deviation of what is added, as a share of the image's range; 0.15 is the default, the other rows
have it in their names (`var-grad(noise=0.05)`). *Kept* is the share of the noisy copies of all training and test images
that the explained network puts into the class that it predicts for the image itself. Gains are areas between Random's
curve and the row's, in accuracy points, as on the board.

{table}

Measured {what}: one explained network{each} and one network retrained for each row, so there is no interval, and
a row differs from the next by the luck of a training as well: three runs of `quick` 2, each of three explained
networks, gave VarGrad +7.2, +9.4 and +4.9 at the default noise. All rows share the network on Random's images and that
on untouched ones: {controls}. {references}.{absent}

<!-- python scripts/noise_sweep.py; roarbench {code}, {machine} -->
"""


@dataclass(frozen=True)
class Swept:
    """One row of the sweep.

    Attributes:
        reference: Recipe of the explained network.
        form: Estimator without its noise.
        noise: As a share of the image's range.
        gain: In accuracy points; None where it is missing.
        accuracy: Of the retrained network, in [0, 1]; None where it is missing.
        kept: Share of the noisy copies that keep their class, in [0, 1]; None where it was not counted.
    """

    reference: str
    form: str
    noise: float
    gain: float | None
    accuracy: float | None
    kept: float | None


def row_id(form: str, noise: float) -> str:
    """Return the id of a row."""
    return find_estimator(f"{form}(noise={noise:g})").id


def sweep_suite(recipe: str) -> Suite:
    """Return what is run for one kind of reference; controls have the same keys for both."""
    rows = tuple(row_id(form, noise) for form in FORMS for noise in ASKED[recipe])
    block = Block(ROAR, ("random", *rows), (T,), seeds=1)
    sweep = f"noise sweep, {REFERENCES[recipe]} reference"
    return replace(find_suite("quick@2"), name=sweep, version=1, blocks=(block,), references=1, reference_recipe=recipe)


def swept(recipe: str, finished: Finished) -> list[Swept]:
    """Return the rows of one kind of reference."""
    board = finished.suite_results.board(ROAR, Unit.SCALAR)
    assert board is not None, "the suite has it"
    rows = {row.estimator: row for row in board.rows}
    found = []
    for form in FORMS:
        for noise in ASKED[recipe]:
            row = rows[row_id(form, noise)]
            spec = finished.context.ranking_spec(find_estimator(row.estimator), Unit.SCALAR)
            kept = finished.context.rankings.open(spec).kept
            found.append(Swept(recipe, form, noise, row.gain.value, row.accuracies[0].value, kept))
    return found


def table(rows: list[Swept]) -> str:
    """Tabulate the rows: a line for each noise, columns for each kind of reference that there is."""
    by_place = {(row.reference, row.form, row.noise): row for row in rows}
    recipes = tuple(dict.fromkeys(row.reference for row in rows))
    headings = ["noise"]
    for name in (REFERENCES[recipe] for recipe in recipes):
        headings += [f"kept, {name}", *(f"{form}, {name}" for form in FORMS.values())]
    lines = []
    for noise in NOISES:
        cells = [f"{noise:g}"]
        for recipe in recipes:
            found = [by_place.get((recipe, form, noise)) for form in FORMS]
            cells += [_share(found[0].kept if found[0] else None), *(_gain(row.gain if row else None) for row in found)]
        lines.append(cells)
    return markdown_table(headings, lines)


def _share(value: float | None) -> str:
    return MISSING if value is None else f"{value:.0%}"


def _gain(value: float | None) -> str:
    return MISSING if value is None else f"{value:+.1f}"


def draw(rows: list[Swept], path: Path) -> None:
    """Draw gain, and share kept, against noise; the second kind of reference dashed, with open markers."""
    figure = Figure(figsize=(8.6, 4.3), layout="constrained")
    gains, kept = figure.subplots(1, 2)
    for recipe in dict.fromkeys(row.reference for row in rows):
        name, look = REFERENCES[recipe], ORDINARY if recipe == "quick@2" else OTHER
        for form, colour in COLOUR.items():
            mine = [row for row in rows if (row.reference, row.form) == (recipe, form)]
            values = [float("nan") if row.gain is None else row.gain for row in mine]
            gains.plot([row.noise for row in mine], values, color=colour, label=f"{FORMS[form]}, {name}", **look)
        mine = [row for row in rows if (row.reference, row.form) == (recipe, "var-grad")]
        kept.plot(
            [row.noise for row in mine], [row.kept or float("nan") for row in mine], color=INK, label=name, **look
        )
    gains.axhline(0, color="#000000", linewidth=0.8, linestyle="-.")
    beside = {"textcoords": "offset points", "ha": "right", "fontsize": FONT_POINTS, "color": INK}
    gains.annotate("Random", (NOISES[-1], 0), xytext=(0, 3), **beside)
    gains.set_title(f"gain under ROAR at t = {T:g}, points", loc="left", fontsize=FONT_POINTS + 1, color=INK)
    kept.set_title("noisy copies that keep their class", loc="left", fontsize=FONT_POINTS + 1, color=INK)
    kept.axhline(KEPT_ENOUGH, color="#999999", linewidth=0.8, linestyle=":")
    kept.annotate("marked below", (NOISES[-1], KEPT_ENOUGH), xytext=(0, 3), **beside)
    kept.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    kept.set_ylim(0.4, 1.02)
    for axes in (gains, kept):
        axes.set_xticks(NOISES, [f"{noise:g}" for noise in NOISES])
        axes.set_xlabel("noise, share of the image's range", fontsize=FONT_POINTS, color=INK)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=FONT_POINTS - 0.5, colors="#555555", length=2.5)
        axes.legend(fontsize=FONT_POINTS - 0.5, frameon=False, loc="upper left", bbox_to_anchor=(0, -0.17))
    figure.savefig(path, dpi=140, metadata={"Software": None})


def page(rows: list[Swept], done: dict[str, Finished]) -> str:
    """Return the page with its table."""
    first = next(iter(done.values())).suite_results
    board = first.board(ROAR, Unit.SCALAR)
    assert board is not None, "the suite has it"
    random = next(row for row in board.rows if row.estimator == "random")
    references = [
        f"{REFERENCES[recipe]} (`{recipe}`): {each.suite_results.reference_words or MISSING}"
        for recipe, each in done.items()
    ]
    small = f", a small version of {first.limit} images a split" if first.limit else ""
    recipe = first.suite.recipe
    return PAGE.format(
        table=table(rows),
        what=f"on {first.suite.dataset} with {first.suite.model}{small}, t = {T:g}, retrained by `{recipe}`",
        controls=f"{percent(random.accuracies[0].value)} and {percent(random.clean.value)} % correct",
        references=f"On untouched images, {'; '.join(references)}",
        each=" of each kind" if len(done) > 1 else "",
        absent="".join(
            f" A reference that was {REFERENCES[recipe]} is not in it yet: `--reference {recipe}`."
            for recipe in REFERENCES
            if recipe not in done
        ),
        code=code_version(),
        machine=platform.processor() or platform.machine(),
    )


def main() -> None:
    """Compute what is missing, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, required=True, help="a folder for images, rankings and results")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs", help="where the page goes")
    parser.add_argument("--limit", type=int, help="images of each split")
    parser.add_argument("--workers", type=int, help="processes; one per core by default")
    parser.add_argument("--reference", choices=REFERENCES, action="append", help="one kind; both if not given")
    options = parser.parse_args()
    console, workspace = Console(stderr=True, highlight=False, markup=False), Workspace(options.store)
    rows, done = list[Swept](), dict[str, Finished]()
    with ResultsStore.open(default_url(options.store)) as store:
        for recipe in options.reference or REFERENCES:
            request = Request(sweep_suite(recipe), limit=options.limit, workers=workers_here(options.workers))
            done[recipe] = run_suite(request, workspace, store, console)
            if done[recipe].failed:
                raise RunError(f"{done[recipe].failed} runs failed; the reasons are in {options.store}")
            rows += swept(recipe, done[recipe])
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "noise.md").write_text(page(rows, done))
    draw(rows, options.out / "noise.png")


if __name__ == "__main__":
    main()
