"""Table and figure of docs/augmentation.md from the outcomes of `augmentation_study.py`, and what its rule says.

    python scripts/augmentation_page.py [RESULTS …] [--out docs]

Without RESULTS those are taken that lie beside the page, `augmentation.json`; several files are put together. What is
missing there is missing on the page, and where the rule needs it, it decides nothing.
"""

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from augmentation_study import KINDS, LENGTHS, ROWS, RULE
from marked import filled
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import PercentFormatter

from roarbench.report.panels import COLOURS, FONT_POINTS, INK
from roarbench.text import MISSING, markdown_table, percent

DECIDED_AT = 12  # epochs, for the augmentation
NAMES = {"none": "untouched", "random": "Random", "grad": "GRAD", "sgsq-grad": "SG-SQ", "var-grad": "VAR"}
COLOUR = {
    "none": "#777777",
    "random": "#000000",
    "grad": COLOURS[0],
    "sgsq-grad": COLOURS[4],
    "var-grad": COLOURS[5],
}
PANELS = {
    "none": "no augmentation",
    "flip": "flip",
    "shift 2": "shift of up to 2 pixels, flip",
    "shift 4": "shift of up to 4 pixels, flip",
    "shift 8": "shift of up to 8 pixels, flip",
    "crop": "random-resized crop, flip",
}
MARKS = ("<!-- outcomes: python scripts/augmentation_page.py -->", "<!-- end of the outcomes -->")


class Asked(NamedTuple):
    """Network: one line of the results without its outcome."""

    epochs: int
    kind: str
    row: str
    masks: bool


Outcomes = Mapping[Asked, float]  # accuracy in [0, 1]


def read(paths: Iterable[Path]) -> list[list[object]]:
    """Return the lines of these files, each network once and in one order."""
    lines = {tuple(line[:5]): line for path in paths for line in json.loads(path.read_text())}
    rows = ("none", *ROWS)
    order = sorted(
        lines, key=lambda at: (at[0], sorted(LENGTHS).index(at[1]), KINDS.index(at[2]), rows.index(at[3]), at[4])
    )
    return [lines[at] for at in order]


def outcomes_of(lines: Iterable[list[object]]) -> dict[Asked, float]:
    """Return the accuracies by network, of those that explain the first reference."""
    return {Asked(*line[1:5]): float(line[5]) for line in lines if line[0] == 0}  # type: ignore[arg-type]


def table(found: Outcomes) -> str:
    """Return accuracies in percent, images / masks alone, a line for each augmentation and length that has any."""
    lines = []
    for kind in KINDS:
        for epochs in sorted(LENGTHS):
            cells = [_cell(found, epochs, kind, row) for row in NAMES]
            if set(cells) - {MISSING}:
                lines.append([PANELS[kind], str(epochs), *cells])
    return markdown_table(("augmentation", "epochs", *NAMES.values()), lines)


def _cell(found: Outcomes, epochs: int, kind: str, row: str) -> str:
    images, masks = (percent(found.get(Asked(epochs, kind, row, asked))) for asked in (False, True))
    return images if images == masks == MISSING or row == "none" else f"{images} / {masks}"


def undecided(found: Outcomes) -> list[str]:
    """Return the augmentations that lack an accuracy at 12 epochs that the rule may need."""
    needed = [("none", False), *((row, True) for row in ROWS[1:])]
    return [kind for kind in KINDS if any(Asked(DECIDED_AT, kind, *asked) not in found for asked in needed)]


def chosen_augmentation(found: Outcomes) -> str | None:
    """Return the augmentation that the rule chooses of those that lack nothing; None if all lack something."""
    kinds = [kind for kind in KINDS if kind not in undecided(found)]
    untouched = {kind: found[Asked(DECIDED_AT, kind, "none", False)] for kind in kinds}
    near = [kind for kind in kinds if untouched[kind] >= max(untouched.values()) - 0.02 - 1e-9]
    masks = {kind: fmean(found[Asked(DECIDED_AT, kind, row, True)] for row in ROWS[1:]) for kind in near}
    return next((kind for kind in near if masks[kind] < min(masks.values()) + 0.01 - 1e-9), None)


def chosen_length(found: Outcomes, kind: str) -> int | None:
    """Return the shortest number of epochs that the rule allows with this augmentation; None if it allows none.

    A length about which an accuracy is missing is passed over, as one that falls short.
    """
    return next((epochs for epochs in sorted(LENGTHS)[:-1] if not falls_short(found, kind, epochs)), None)


def falls_short(found: Outcomes, kind: str, epochs: int) -> list[str]:
    """Return in words where this length is too short or an accuracy is missing; nothing if the rule allows it."""
    short, longest = [], max(LENGTHS)
    one, most = (found.get(Asked(length, kind, "none", False)) for length in (epochs, longest))
    if one is None or most is None:
        short.append("untouched missing")
    elif one < most - 0.05 - 1e-9:
        short.append(f"untouched {percent(one)} against {percent(most)} at {longest} epochs")
    for row in ROWS[1:]:
        gaps = [_gap(found, kind, row, length) for length in (epochs, 2 * epochs)]
        if gaps[0] is None or gaps[1] is None:
            short.append(f"{NAMES[row]} missing")
        elif abs(gaps[0] - gaps[1]) > 0.03 + 1e-9:
            short.append(
                f"{NAMES[row]} {100 * gaps[0]:+.1f} against {100 * gaps[1]:+.1f} below Random at twice the length"
            )
    return short


def _gap(found: Outcomes, kind: str, row: str, epochs: int) -> float | None:
    own, random = (found.get(Asked(epochs, kind, name, False)) for name in (row, ROWS[0]))
    return None if own is None or random is None else random - own


def verdict(found: Outcomes) -> str:
    """Return in sentences what the rule chooses from these outcomes."""
    kind, without = chosen_augmentation(found), undecided(found)
    said = f"Augmentation: {PANELS[kind]}." if kind else "Augmentation: not decided."
    if without:
        left_out = "; ".join(PANELS[one] for one in without)
        said += f" Accuracies at {DECIDED_AT} epochs are missing, so not asked: {left_out}."
    lengths = []
    for asked in dict.fromkeys((kind or "shift 4", "shift 4")):
        length = chosen_length(found, asked)
        lengths.append(f"Length with {PANELS[asked]}: {f'{length} epochs' if length else 'none that was tried'}.")
        for epochs in sorted(LENGTHS)[:-1]:
            if short := falls_short(found, asked, epochs):
                known = [each for each in short if not each.endswith("missing")]
                lengths.append(
                    f"{epochs} epochs: {'; '.join(known and short) or 'accuracies are missing, so not asked'}."
                )
    return "\n".join(f"- {line}" for line in (said, *lengths))


def draw(found: Outcomes, path: Path) -> None:
    """Draw accuracy on images and on masks alone against epochs, a panel for each augmentation that has any."""
    kinds = [kind for kind in KINDS if any(at.kind == kind for at in found)]
    across = 2 if len(kinds) in (2, 4) else 3
    lines = -(-len(kinds) // across)
    figure = Figure(figsize=(2.95 * across, 2.7 * lines + 0.4), layout="constrained")
    panels = figure.subplots(lines, across, sharex=True, sharey=True, squeeze=False).ravel()
    for axes, kind in zip(panels, kinds, strict=False):
        for row in NAMES:
            for masks in (False, True):
                _draw_line(axes, found, kind, row, masks)
        _dress(axes, PANELS[kind])
    for axes in panels[len(kinds) :]:
        axes.axis("off")
    for axes in panels[-across:]:
        axes.set_xlabel("epochs", fontsize=FONT_POINTS, color=INK)
    for axes in panels[::across]:
        axes.set_ylabel("accuracy, held-out images", fontsize=FONT_POINTS, color=INK)
    handles = [Line2D([], [], color=COLOUR[row], marker="o", markersize=4.2, label=NAMES[row]) for row in NAMES]
    dashed = {"linestyle": (0, (3, 2)), "marker": "o", "markerfacecolor": "white", "markersize": 4}
    handles.append(Line2D([], [], color="#555555", label="masks alone", **dashed))  # type: ignore[arg-type]
    figure.legend(handles=handles, loc="outside lower center", ncols=2 * across, frameon=False, fontsize=FONT_POINTS)
    figure.savefig(path, dpi=140, metadata={"Software": None})


def _draw_line(axes: Axes, found: Outcomes, kind: str, row: str, masks: bool) -> None:
    points = [(epochs, found[at]) for epochs in sorted(LENGTHS) if (at := Asked(epochs, kind, row, masks)) in found]
    style = (0, (3, 2)) if masks else "-"
    face, width = ("white", 0.9) if masks else (COLOUR[row], 1.6)
    if points:
        axes.plot(
            *zip(*points, strict=True),
            linestyle=style,
            linewidth=width,
            color=COLOUR[row],
            marker="o",
            markersize=4.2,
            markerfacecolor=face,
        )


def _dress(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=FONT_POINTS + 1, color=INK)
    axes.set_xscale("log", base=2)
    axes.set_xlim(2.6, 27)
    axes.set_xticks(sorted(LENGTHS), [str(epochs) for epochs in sorted(LENGTHS)])
    axes.set_ylim(0, 0.82)
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=FONT_POINTS - 0.5, colors="#555555", length=2.5)


def outcomes_text(found: Outcomes) -> str:
    """Return the part of the page that is made from the outcomes: the rule, what it says, and the table."""
    rule = "\n".join(f"> {line}" for line in RULE.splitlines())
    first = "The rule, as it stands in the program, where it was written before the outcomes:"
    return "\n\n".join((table(found), first, rule, "What it says of these numbers:", verdict(found)))


def main() -> None:
    """Write the outcomes beside the page, and its table and figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="*", help="JSON files of augmentation_study.py")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs", help="where the page is")
    options = parser.parse_args()
    lines = read(options.results or [options.out / "augmentation.json"])
    (options.out / "augmentation.json").write_text("[\n" + ",\n".join(json.dumps(line) for line in lines) + "\n]\n")
    found, page = outcomes_of(lines), options.out / "augmentation.md"
    page.write_text(filled(page.read_text(), *MARKS, outcomes_text(found)))
    draw(found, options.out / "augmentation.png")


if __name__ == "__main__":
    main()
