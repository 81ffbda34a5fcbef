"""The validity panel in three formats. Missing is missing: a dash to the eye, null in JSON."""

import json
from itertools import chain
from textwrap import wrap
from typing import Any, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from roarbench.analysis.marks import MARKS, MASKS, SOME, STRONG, Mark, floor_words
from roarbench.analysis.validity import KINDS, Panel, Twin, Validity
from roarbench.protocols.roar import ROAR
from roarbench.report.status import dropped_lines
from roarbench.stats.board import RANDOM
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import POINTS
from roarbench.stats.replication import FEWEST_ROWS, Agreement
from roarbench.text import MISSING, decimals, interval, markdown_table, percent

_HEADINGS = {"blurred": "blurred twin", "untrained": "untrained twin", MASKS: "masks alone"}  # of marks
Columns = dict[str, list[str]]  # cells by heading, one for each row of the panel


class Section(NamedTuple):
    """A part of the panel: its title, and cells by heading, the estimators first."""

    title: str
    columns: Columns

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Return the cells of each estimator."""
        return list(zip(*self.columns.values(), strict=True))


def as_text(panel: Panel, width: int) -> Group:
    """Return the panel for a terminal of this many columns, to be printed without cropping: lines end between words."""
    title, shown = Text(panel.evidence.suite_results.title), sections(panel)
    tables = [_table(part, width) for section in shown for part in _parts(section, width)]
    lines = [*legend(panel), "", *agreement_lines(panel), *doubts(panel)] if shown else doubts(panel)[-1:]
    wrapped = (wrap(line, width, subsequent_indent="  ", break_on_hyphens=False) or [""] for line in lines)
    return Group(*([title] if shown else []), *tables, Text("\n".join(chain.from_iterable(wrapped))))


def as_markdown(panel: Panel) -> str:
    """Return the panel as Markdown."""
    parts = [f"**{panel.evidence.suite_results.title}**"]
    for section in sections(panel):
        parts += [f"*{section.title}*", markdown_table([*section.columns], section.lines)]
    lists = (legend(panel), agreement_lines(panel), doubts(panel))
    return "\n\n".join([*parts, *("\n".join(f"- {line}" for line in lines) for lines in lists if lines)])


def as_json(panel: Panel) -> str:
    """Return the panel as JSON: accuracies are fractions, gains and areas accuracy points, a missing value is null."""
    evidence, results = panel.evidence, panel.evidence.suite_results
    agreements = panel.agreements.items()
    content = {
        "suite": results.suite.name,
        "version": results.suite.version,
        "limit": results.limit,
        "data": results.data or None,
        "reference": results.suite.given or None,
        "reference_accuracy": results.reference_accuracy,
        "complete": results.complete,
        "at_chance": bool(results.at_chance),
        "protocol": evidence.protocol.name,
        "unit": evidence.unit,
        "confidence": evidence.bootstrap.confidence,
        "resamples": evidence.bootstrap.resamples,
        "bootstrap_seed": evidence.bootstrap.seed,
        "chance": 1 / results.classes,
        "retrained_gap_levels": list(evidence.retrained.levels),
        "reference_gap_levels": list(evidence.reference.levels),
        "rows": [_plain(panel, row) for row in panel.rows],
        "mixed": [row._asdict() for row in results.dropped],
        "agreements": {name: found and found._asdict() | {"tau": found.tau._asdict()} for name, found in agreements},
    }
    return json.dumps(content, indent=1)


def _plain(panel: Panel, row: Validity) -> dict[str, Any]:
    levels, mask_levels = panel.evidence.main.levels, panel.evidence.masks.levels
    masks = {
        str(t): {"accuracy": alone._asdict(), "over_random": lead._asdict()}
        for t, alone, lead in zip(mask_levels, row.masks, row.over_random, strict=True)
    }
    return {
        "estimator": row.estimator,
        "flag": row.flag.reason or None,
        "grade": row.flag.grade if any(mark.grade for mark in row.marks) else None,
        "marks": {mark.kind: {"share": mark.share._asdict(), "grade": mark.grade} for mark in row.marks},
        "above_masks": {str(t): above._asdict() for t, above in zip(mask_levels, row.above_masks, strict=True)},
        "floor": list(row.floor),
        "gain": row.gain._asdict(),
        "mask_only": masks,
        "smoothness": {str(t): smooth for t, smooth in zip(levels, row.smoothness, strict=True)},
        "twins": {kind: {name: e._asdict() for name, e in twin._asdict().items()} for kind, twin in row.twins.items()},
        "units": {unit: gain._asdict() for unit, gain in row.units.items()},
        "fills": {fill: gain._asdict() for fill, gain in row.fills.items()},
        "retrained_gap": row.retrained_gap._asdict(),
        "reference_gap": row.reference_gap._asdict(),
    }


def sections(panel: Panel) -> list[Section]:
    """Return the sections of the panel that the suite has; without ROAR those that have any number."""
    parts = {
        "Marks": _marks(panel),
        "Removal masks": _maps(panel),
        "Twins": _twins(panel),
        "Orders, units, fills": _areas(panel),
    }
    names = {"estimator": [row.estimator for row in panel.rows]}
    if panel.evidence.protocol != ROAR:  # what a part lacks is then no run that is missing
        parts = {
            title: {head: cells for head, cells in columns.items() if {*cells} != {MISSING}}
            for title, columns in parts.items()
        }
    return [Section(title, names | columns) for title, columns in parts.items() if columns]


def _marks(panel: Panel) -> Columns:
    kinds = [kind for kind in MARKS if any(kind == mark.kind for row in panel.rows for mark in row.marks)]
    marks = [{mark.kind: _mark(mark) for mark in row.marks} for row in panel.rows]
    return {_HEADINGS.get(kind, kind): [found.get(kind, MISSING) for found in marks] for kind in kinds}


def _mark(mark: Mark) -> str:
    """Return a share in percent with its interval and grade, as far as they are known."""
    return f"{interval(mark.share, '{:.0%}'.format)} {mark.grade or ''}".strip()


def _maps(panel: Panel) -> Columns:
    columns = {}
    for i, t in enumerate(panel.evidence.masks.levels):
        columns[f"mask-only t={t:g}"] = [_accuracy(row.masks[i], row.over_random[i]) for row in panel.rows]
        columns[f"above masks t={t:g}"] = [interval(row.above_masks[i].in_points) for row in panel.rows]
    for i, t in enumerate(panel.evidence.main.levels):
        columns[f"smoothness t={t:g}"] = [decimals(row.smoothness[i], 2) for row in panel.rows]
    return columns


def _twins(panel: Panel) -> Columns:
    columns, absent = {}, Twin(Estimate(), Estimate())
    for kind in (kind for kind in KINDS if any(kind in row.twins for row in panel.rows)):
        twins = [row.twins.get(kind, absent) for row in panel.rows]
        columns[kind] = [_points(twin.gain) for twin in twins]
        columns[f"{kind} - itself"] = [interval(twin.difference) for twin in twins]
    return columns


def _areas(panel: Panel) -> Columns:
    """Return gains, by unit and fill where the suite has several, and the areas between both orders that it has."""
    columns = {"gain": [interval(row.gain) for row in panel.rows]}
    units = {unit: None for row in panel.rows for unit in row.units}
    fills = {fill: None for row in panel.rows for fill in row.fills}
    if len(units) > 1:
        columns |= {f"gain, {unit}": [interval(row.units[unit]) for row in panel.rows] for unit in units}
    if len(fills) > 1:
        columns |= {f"gain, {fill}": [interval(row.fills[fill]) for row in panel.rows] for fill in fills}
    if panel.evidence.retrained.levels:
        columns["LeRF - MoRF, retrained"] = [interval(row.retrained_gap) for row in panel.rows]
    if panel.evidence.reference.levels:
        columns["LeRF - MoRF, reference"] = [interval(row.reference_gap) for row in panel.rows]
    return columns


def _accuracy(alone: Estimate, lead: Estimate) -> str:
    """Return an accuracy in percent, with its difference from Random's where that is known."""
    if alone.value is None:
        return MISSING
    if lead.value is None:
        return percent(alone.value)
    sure = "" if lead.high is None else f" ± {POINTS * (lead.high - lead.value):.1f}"
    return f"{percent(alone.value)} ({POINTS * lead.value:+.1f}{sure})"


def _points(gain: Estimate) -> str:
    return MISSING if gain.value is None else f"{gain.value:+.1f}"


def legend(panel: Panel) -> list[str]:
    """Return in a few lines what the panel's numbers are."""
    evidence, results = panel.evidence, panel.evidence.suite_results
    suite, bootstrap = results.suite, evidence.bootstrap
    question = f"{evidence.protocol.title} on " if evidence.main.levels else ""
    lines = [f"{question}{suite.dataset} with {suite.model}; unit {evidence.unit}; gains and areas in accuracy points"]
    lines += filter(None, [results.reference_words])
    if any(row.marks for row in panel.rows):
        lines += [
            "marks: share of the row's gain that a weaker baseline also achieves; masks alone: of the accuracy above "
            f"chance at t = {evidence.mask_level:g}. Grade by the interval's lower end: above {SOME:.0%} some, above "
            f"{STRONG:.0%} strong, each wrong at most 2.5% of the time"
        ]
    if evidence.masks.levels:
        lines += [f"mask-only: percent (minus Random's), chance {percent(1 / results.classes)}; smoothness: Random 1"]
    for network, areas in (("retrained", evidence.retrained), ("reference", evidence.reference)):
        if areas.levels:
            lines += [f"LeRF - MoRF, {network}: area over t = {', '.join(f'{t:g}' for t in (0.0, *areas.levels))}"]
    if evidence.main.repeated:
        draws = f"{bootstrap.resamples} paired resamples, seed {bootstrap.seed}"
        lines += [f"{bootstrap.confidence:.0%} intervals ({draws})"]
    if not results.complete:
        lines += [f"{MISSING}: needs runs that are missing"]
    return lines


def agreement_lines(panel: Panel) -> list[str]:
    """Return a sentence on the agreement of the main protocol's order of the rows with each other order."""
    main = panel.evidence.protocol.title
    return [f"{main} and {other}: {_agreement(found)}" for other, found in panel.agreements.items()]


def _agreement(found: Agreement | None) -> str:
    if found is None:
        return f"unknown; fewer than {FEWEST_ROWS} rows have a gain under both."
    tau = f"Kendall's tau {interval(found.tau, '{:+.2f}'.format)} over {found.rows} rows"
    if found.settled is None:
        return f"{tau}, without interval: one training per cell."
    return f"{tau}; of {found.settled} pairs that differ significantly in both, {found.opposed} in opposite order."


def _smooth_random(panel: Panel) -> list[str]:
    """Return what smoothness alone gains and who gains more, where random-blurred is significantly above Random."""
    twins = [row.twins["blurred"] for row in panel.rows if row.estimator == RANDOM and "blurred" in row.twins]
    blurred = twins[0].gain if twins else Estimate()
    if blurred.value is None or blurred.low is None or blurred.low <= 0:
        return []
    more = [row.estimator for row in panel.rows if row.gain.value is not None and row.gain.value > blurred.value]
    names = ", ".join(more) or "none"
    return [f"Smoothness alone (random-blurred) gains {interval(blurred)} points; rows that gain more: {names}."]


def doubts(panel: Panel) -> list[str]:
    """Return rows without a place, what smoothness alone gains, rows at the floor, and the marks, one line each."""
    evidence, results = panel.evidence, panel.evidence.suite_results
    dropped = dropped_lines(row for row in results.dropped if row.unit is evidence.unit)
    if results.at_chance:
        return [*dropped, results.at_chance]
    flagged = [f"{row.estimator} {row.flag.sign} {row.flag.reason}" for row in panel.rows if row.flag.reason]
    if evidence.protocol != ROAR:
        less = f"Marks by twins, masks alone and retrained orders need ROAR, which {results.suite.name} does not have."
        return [*dropped, *flagged, less]
    if not evidence.main.repeated:
        return [*dropped, *flagged, "One training per cell: no intervals, no marks."]
    floor = floor_words({row.estimator: row.floor for row in panel.rows if row.floor})
    return [*dropped, *_smooth_random(panel), *filter(None, [floor]), *(flagged or ["No row is marked."])]


def _parts(section: Section, width: int) -> list[Section]:
    """Divide a section into several that fit a terminal, one below the other, each with the estimators."""
    names, *columns = section.columns.items()
    parts = [dict([names])]
    for heading, cells in columns:
        wider = parts[-1] | {heading: cells}
        if len(parts[-1]) > 1 and _wide(wider) > width:
            parts.append(dict([names, (heading, cells)]))
        else:
            parts[-1] = wider
    return [section._replace(columns=part) for part in parts]


def _wide(columns: Columns) -> int:
    """Count the letters of a table's line: the columns, a space after each, and one at either side and between two."""
    return sum(max(map(len, (heading, *cells))) + 2 for heading, cells in columns.items()) + 1


def _table(section: Section, width: int) -> Table:
    shown = Table(title=section.title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    names, *numbers = section.columns
    shown.add_column(names, overflow="fold")
    for heading in numbers:  # one that is cut would be another one
        shown.add_column(heading, justify="right", no_wrap=True)
    for line in section.lines:
        shown.add_row(*line)
    shown.width = min(width, _wide(section.columns))
    return shown
