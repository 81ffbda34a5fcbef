"""Does the shape of what was removed tell the class, and do the paper's claims hold? Small networks, four data sets.

Run: python -m studies.small_networks.run (writes tables.md from results.sqlite; suites that it lacks are left out)
"""

import argparse
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np

from roarbench.analysis.validity import agreements
from roarbench.protocols.roar import ROAR
from roarbench.report.claim_table import SignificantCells, claim_records, significant_cells
from roarbench.stats.agreement import Agreement, agreement
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import POINTS
from roarbench.terms import Unit
from roarbench.text import MISSING, interval, markdown_table, percent
from studies.small_networks.masks import StudyPart, T, explained, leaks, luck_along_curves, read_parts, seed_likeness


def accuracy_table(part: StudyPart) -> str:
    """Tabulate gains, verdicts and accuracies of all rows, best first; checks, twins among them, have no verdicts."""
    board = part.evidence.board(ROAR, part.unit, part.evidence.roar.scores.estimators)
    if board is None:
        return ""
    heading = (
        "estimator",
        "gain [95%]",
        "vs Random",
        "vs Sobel",
        "vs Random blurred",
        *(f"t = {t:g}" for t in board.levels),
        "masks alone",
    )
    begun = [row for row in board.rows if any(accuracy.value is not None for accuracy in row.accuracies)]
    rows = sorted(begun, key=lambda row: np.inf if row.gain.value is None else -row.gain.value)
    lines = [
        (
            row.estimator,
            interval(row.gain),
            row.random.verdict if row.random else MISSING,
            row.sobel.verdict if row.sobel else MISSING,
            row.random_blurred.verdict if row.random_blurred else MISSING,
            *(_percent(accuracy) for accuracy in row.accuracies),
            _percent(part.evidence.masks.accuracy(row.estimator, T)),
        )
        for row in rows
    ]
    clean = _percent(board.rows[0].clean)
    smallest = MISSING if board.detectable is None else f"{board.detectable:.1f} points"
    note = (
        f"Untouched images: {clean}; {board.images} test images; minimum detectable difference (80% power): {smallest}."
    )
    return f"### {part.title}\n\n{markdown_table(heading, lines)}\n\n{note}"


def leak_table(part: StudyPart) -> str:
    """Tabulate what masks alone tell beside what is kept."""
    images, masks = part.evidence.roar, part.evidence.masks
    both = masks if images.repeated else images  # has intervals where both have
    heading = ("estimator", "images", "masks alone", "images - masks", "masks - Random's images")
    lines = [
        (
            row.estimator,
            _percent(images.estimate(row.images)),
            _percent(masks.estimate(row.masks)),
            _points(both.estimate(row.images.minus(row.masks))),
            _points(both.estimate(row.masks.minus(row.random))),
        )
        for row in sorted(leaks(part), key=lambda row: row.images.value)
    ]
    return f"### {part.title}\n\n{markdown_table(heading, lines)}"


def explained_table(parts: Sequence[StudyPart]) -> str:
    """Tabulate how far masks explain what is kept, one line per data set and unit."""
    heading = (
        "",
        "tau of masks and images [95%]",
        "rows above Random",
        "masks above Random's images",
        "masks as images",
    )
    lines = []
    for part in parts:
        repeated = part.evidence.masks.repeated
        found = explained(leaks(part), part.evidence.bootstrap.confidence, repeated)
        counts = [str(len(found.above))]
        counts += [str(len(names)) if repeated else MISSING for names in (found.beat, found.whole)]
        lines.append((part.title, _tau(found.order), *counts))
    return markdown_table(heading, lines)


def claims_table(parts: Sequence[StudyPart]) -> str:
    """Count the cells in which each claim holds, and of those that differ significantly the ones for and against it."""
    records = [
        (
            {row["claim"]: row for row in claim_records(part.evidence)},
            significant_cells(part.evidence),
        )
        for part in parts
    ]
    lines = [
        (claim, f"{row['published']['agree']}/{row['published']['cells']}")
        + tuple(_claim(held[claim]["ours"], clear.get(claim)) for held, clear in records)
        for claim, row in (records[0][0].items() if records else ())
    ]
    legend = (
        "Cells in which the claim holds / all its cells; in brackets the cells whose two accuracies differ "
        "significantly, adjusted for all cells of all claims: + for the claim, - against it."
    )
    return f"{legend}\n\n{markdown_table(('claim', 'published', *(part.title for part in parts)), lines)}"


def _claim(own: dict[str, int], clear: SignificantCells | None) -> str:
    if not own["cells"] or clear is None:
        return MISSING
    return f"{own['agree']}/{own['cells']} (+{clear.agree} -{clear.differ})"


def agreement_lines(parts: Sequence[StudyPart]) -> str:
    """Compare the order of the estimators at the scalar and at the pixel unit, and on each two data sets."""
    lines = []
    firsts = [part for part in parts if part.unit is Unit.SCALAR]
    for part in firsts:
        pairs = agreements(part.evidence, part.rows, [])
        lines += [(f"{part.title} and {pair.other}", *_agreed(pair.found)) for pair in pairs]
    for one, other in combinations(firsts, 2):
        gains = [part.evidence.roar.areas for part in (one, other)]
        rows = [name for name in one.rows if all(name in areas for areas in gains)]
        own, theirs = ({name: areas[name] for name in rows} for areas in gains)
        found = agreement(own, theirs, one.evidence.bootstrap.confidence)
        lines.append((f"{one.dataset} and {other.dataset}, scalar", *_agreed(found)))
    return markdown_table(
        ("orders", "Kendall's tau [95%]", "pairs that differ significantly on both", "of them opposed"), lines
    )


def _agreed(found: Agreement | None) -> tuple[str, str, str]:
    return (_tau(found), str(found.settled), str(found.opposed)) if found else (MISSING,) * 3


def seeds_table(parts: Sequence[StudyPart]) -> str:
    """Tabulate how much same-seed trainings of different cells have in common."""
    lines = []
    for part in parts:
        correct = {point: bits for point, bits in part.evidence.roar.scores.correct.items() if len(bits) == 2}
        points, cells = list(correct), list(correct.values())
        everyone = list(combinations(range(len(points)), 2))
        curve = [(i, j) for i, j in everyone if points[i][0] == points[j][0]]
        if not curve:
            continue
        likeness = [seed_likeness(cells, pairs, part.evidence.bootstrap) for pairs in (everyone, curve)]
        gaps = POINTS * np.array([bits[0].mean() - bits[1].mean() for bits in cells])
        mean = f"{gaps.mean():+.2f} ± {gaps.std(ddof=1) / np.sqrt(len(gaps)):.2f}"
        lines.append((part.title, str(len(cells)), *map(_share, likeness), f"{gaps.std(ddof=1):.2f}", mean))
    if not lines:
        return "No two seeds of any cell."
    r, p, pairs = luck_along_curves(parts)
    text = f"Luck along a curve (accuracy, level by level): correlation {r:+.2f} over {pairs} pairs, p = {p:.2f}."
    heading = ("", "cells", "all pairs of cells", "cells of one estimator", "sd of seed 0 - seed 1", "its mean ± se")
    return f"{markdown_table(heading, lines)}\n\n{text}"


def _share(found: Estimate) -> str:
    return interval(found, "{:+.3f}".format)


def _tau(found: Agreement | None) -> str:
    return interval(found.tau, "{:+.2f}".format) if found else MISSING


def _percent(found: Estimate) -> str:
    if found.value is None:
        return MISSING
    return percent(found.value) + (f" ± {POINTS * (found.high - found.value):.1f}" if found.high else "")


def _points(found: Estimate) -> str:
    return interval(Estimate(*(None if value is None else POINTS * value for value in found)))


def report(parts: Sequence[StudyPart]) -> str:
    """Join all tables into one page."""
    leaky = list(filter(leaks, parts))
    chapters = {
        "Accuracies and gains": "\n\n".join(map(accuracy_table, parts)),
        "The paper's claims": claims_table(parts),
        "Masks alone against images at t = .9": "\n\n".join([explained_table(leaky), *map(leak_table, leaky)]),
        "Agreement of units and data sets": agreement_lines(parts),
        "Seeds": seeds_table(parts),
    }
    made = "Made by `python -m studies.small_networks.run`; [README.md](README.md) says what they mean."
    body = [f"## {title}\n\n{text}" for title, text in chapters.items()]
    return "\n\n".join(["# Tables of the study", made, *body]) + "\n"


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path(__file__).parent)
    parts = read_parts(parser.parse_args().store)
    Path(__file__).with_name("tables.md").write_text(report(parts), encoding="utf-8")


if __name__ == "__main__":
    main()
