"""The figure and the tables of docs/statistics.md on what the intervals hold."""

from pathlib import Path
from typing import Any

import numpy as np
from marked import filled
from synthetic_boards import DESIGNS

Summary = dict[str, tuple[float, float]]  # mean and standard error of every share


def figure(results: dict[str, dict[str, Summary]], path: Path) -> None:
    """Draw the coverage in every world, by the method here and by the one that knows of one reference only."""
    from matplotlib.figure import Figure

    drawing = Figure(figsize=(11, 0.36 * len(results) + 1.5), layout="constrained")
    panels = drawing.subplots(1, 3, sharey=True)
    rows = np.arange(len(results))[::-1]
    titles = ("gains", "differences between rows", "gains of a replication")
    kinds = (("here", "references crossed", "#0072B2", "o"), ("one_reference", "told of one reference", "#D55E00", "s"))
    for axes, key, title in zip(panels, ("gains", "between", "predicted"), titles, strict=True):
        axes.axvspan(93, 97, color="0.9", label="93-97%")
        for part, label, colour, marker in kinds:
            means, errors = np.array([result[part][key] for result in results.values()]).T * 100
            axes.errorbar(means, rows, xerr=2 * errors, color=colour, marker=marker, linestyle="", label=label)
        axes.set_title(title, fontsize="medium")
        axes.set_xlabel("inside their 95% intervals, percent")
    panels[0].set_yticks(rows, list(results))
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize="small")
    drawing.savefig(path, metadata={"Date": None})


def tables(record: dict[str, Any]) -> dict[str, list[str]]:
    """Write the tables of `docs/statistics.md` by name, as lines of Markdown."""
    worlds = record["worlds"]
    kept = ("accuracies", "gains", "controls", "over_sobel", "between", "predicted", "network")
    heads = ("accuracies", "gains", "of controls", "over Sobel", "between rows", "replication", "this network's gains")
    coverage = [f"| synthetic boards | {' | '.join(heads)} | false words | all places | *gains* | *replication* |"]
    coverage += ["|---" * (len(heads) + 5) + "|"]
    for name, world in worlds.items():
        cells = [_percent(*world["here"][key]) for key in kept]
        cells += [f"{100 * world['other'][key][0]:.1f}" for key in ("false_discoveries", "all_places")]
        cells += [f"*{100 * world['one_reference'][key][0]:.1f}*" for key in ("gains", "predicted")]
        coverage.append(f"| {name} | {' | '.join(cells)} |")
    designs = [
        "| references x trainings | degrees of freedom | half an interval's width | minimum detectable difference "
        "| found in the simulation | verdicts that a replication repeats | that it opposes |",
        "|---" * 7 + "|",
    ]
    for name in list(worlds)[:DESIGNS]:
        other = {key: mean for key, (mean, _) in worlds[name]["other"].items()}
        freedom = f"{other['freedom']:.1f}" if "freedom" in other else "–"
        shares = [f"{100 * other[key]:.1f}%" for key in ("power", "equal_verdicts", "opposed_verdicts")]
        designs.append(
            f"| {name} | {freedom} | {other['width']:.2f} | {other['detectable']:.2f} | {' | '.join(shares)} |"
        )
    alike = [
        "| estimators, spread of true gains in standard errors, correlation of true gains "
        "| this interval: holds, width | percentiles of draws: holds, width |",
        "|---|---|---|",
    ]
    for name, tau in record["agreement"].items():
        here = f"{100 * tau['held']:.0f}%, {tau['width']:.2f}"
        plain = f"{100 * tau['held_by_percentiles']:.0f}%, {tau['width_of_percentiles']:.2f}"
        alike.append(f"| {name} | {here} | *{plain}* |")
    return {"designs": designs, "agreement": alike, "coverage": coverage}


def _percent(mean: float, error: float) -> str:
    return f"{100 * mean:.1f} ± {100 * error:.1f}"


def write_tables(page: Path, record: dict[str, Any]) -> None:
    """Put the tables into a page, each between its marks."""
    text = page.read_text()
    for name, lines in tables(record).items():
        text = filled(text, f"<!-- {name}: python scripts/simulate_coverage.py -->", "<!-- end -->", "\n".join(lines))
    page.write_text(text)
