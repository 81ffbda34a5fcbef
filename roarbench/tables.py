"""The table of a suite in four formats. Missing is missing: a dash to the eye, null in JSON, empty in CSV."""

import csv
import io
import json
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.faithfulness import IMAGES, METRICS, Metric
from roarbench.standings import Standing
from roarbench.stats.board import RANDOM, Board, Covers, Row
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.verdicts import Verdict
from roarbench.terms import Retrain, Unit

MISSING = "–"
SAME = "≈"  # on a terminal: not told apart
_NARROW = 80  # columns that a caption may fill


@dataclass(frozen=True)
class ShownTable:
    """One protocol's board with what it is of.

    Attributes:
        standing: The suite and its results.
        board: The rows, judged.
        unit: What one feature is.
        flags: A plain sentence for each estimator whose row should be doubted.
    """

    standing: Standing
    board: Board
    unit: Unit
    flags: dict[str, str]

    @property
    def rows(self) -> list[Row]:
        """By gain, the best first, then those without a gain in the suite's order; checks of other rows below all."""
        return sorted(self.board.rows, key=lambda row: (row.check, inf if row.gain.value is None else -row.gain.value))

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Quantus' columns; none where nothing was scored."""
        return METRICS if self.standing.quantus else ()

    def quantus(self, row: Row) -> dict[str, float | None]:
        """Quantus' scores of a row's maps; None where one is missing."""
        held = self.standing.quantus.get(row.estimator, {})
        return {metric.id: held.get(metric.id) for metric in self.metrics}

    @property
    def doubts(self) -> dict[str, str]:
        """Why each of these rows has no place or should be doubted, as plain sentences."""
        mixed = self.standing.mixed(self.board.protocol, self.unit)
        names = [row.estimator for row in self.board.rows if row.estimator in {**mixed, **self.flags}]
        return {name: ". ".join(filter(None, (mixed.get(name), self.flags.get(name)))) for name in names}

    @property
    def caption(self) -> str:
        """Of what these numbers are."""
        board, suite = self.board, self.standing.suite
        seeds = sorted({row.seeds for row in board.rows if row.seeds})
        parts = [
            f"{board.protocol.name.upper()} on {suite.dataset} with {suite.model}",
            f"levels {', '.join(f'{t:g}' for t in board.levels)}",
            _seeds(seeds) if suite_trains(board) else "the reference as it is",
            f"{board.images} test images",
            f"unit {self.unit}",
            "fill mean",
        ]
        return "; ".join(parts)

    @property
    def footnote(self) -> str:
        """What the intervals cover, how small a difference could have been found, and what stands apart."""
        return " ".join(
            part for part in (self._certainty, *self._mixtures, self._machines, self._checks, self._beside) if part
        )

    @property
    def _mixtures(self) -> list[str]:
        mixed = self.standing.mixed(self.board.protocol, self.unit)
        shown = [row.estimator for row in self.board.rows if row.estimator in mixed]
        against = " (and so none against it)"
        return [f"No place for {name}{against if name == RANDOM else ''}: {mixed[name]}." for name in shown]

    @property
    def _machines(self) -> str:
        found = self.standing.machines(self.board.protocol, self.unit)
        shown = [row.estimator for row in self.board.rows if row.estimator in found]
        values: dict[str, set[str]] = {}
        for name in shown:
            for what, each in found[name].items():
                values.setdefault(what, set()).update(each)
        if not values:
            return ""
        differ = "; ".join(f"{what} {' or '.join(sorted(each))}" for what, each in values.items())
        more = f" and {len(shown) - 3} more" if len(shown) > 3 else ""
        return f"Within one curve the machines differ ({', '.join(shown[:3])}{more}): {differ}."

    @property
    def _checks(self) -> str:
        count = sum(row.check for row in self.board.rows)
        rows = "row is a check of another row" if count == 1 else f"{count} rows are checks of other rows"
        return f"The last {rows}, without place and verdict." if count else ""

    @property
    def _beside(self) -> str:
        if not self.metrics:
            return ""
        columns = "; ".join(f"{metric.heading}: {metric.about}" for metric in self.metrics)
        return f"By Quantus, on the first {IMAGES} test images at most, no part of gain or place: {columns}."

    @property
    def _certainty(self) -> str:
        board = self.board
        if not board.images:
            return "Nothing of this has been run yet."
        if board.covers is Covers.NOTHING:
            return "One training per cell: no intervals, no verdicts."
        sure = f"{board.bootstrap.confidence:.0%} intervals over {board.covers}"
        draws = f"{board.bootstrap.resamples} paired resamples, seed {board.bootstrap.seed}"
        text = f"{sure} ({draws}); places hold together."
        if board.detectable is not None:
            text += (
                f" Smallest difference of two gains that this suite finds 4 times in 5: {board.detectable:.1f} points."
            )
        if any(row.estimator in self.flags for row in board.rows):
            text += f" (!) roarbench validity --suite {self.standing.suite.name} says why to doubt a row."
        return text


def _seeds(counts: list[int]) -> str:
    return "1 seed" if counts == [1] else f"{' or '.join(map(str, counts)) or 'no'} seeds"


def suite_trains(board: Board) -> bool:
    """Whether the board's networks were trained for it."""
    return board.protocol.retrain is not Retrain.NONE


def render(table: ShownTable, style: str) -> str:
    """The table as `json`, `csv` or `markdown`."""
    return {"json": _json, "csv": _csv, "markdown": _markdown}[style](table)


def as_text(table: ShownTable, width: int) -> Table:
    """The table for a terminal of this many columns: what does not fit is left out whole, and the note says so."""
    columns = _columns(table)
    kept = _fitting(columns, width)
    left = [column.heading for column in columns if column not in kept]
    notes = [table.caption, table.footnote, f"Random, Sobel, Blurred: its gain against theirs; {SAME} not told apart."]
    notes += [f"Left out here: {', '.join(left)}; --format csv has all."] if left else []
    shown = Table(
        title=table.standing.title, caption="\n".join(notes), caption_justify="left", box=SIMPLE_HEAD, padding=0
    )
    for column in kept:
        shown.add_column(column.short, justify=column.justify, no_wrap=True)
    for number, row in enumerate(table.rows):
        if row.check and not table.rows[number - 1].check:
            shown.add_section()
        shown.add_row(
            *(column.cells[number].replace(Verdict.SAME, SAME) for column in kept), style="" if row.place else "dim"
        )
    shown.width = max(min(width, _NARROW), _wide(kept))  # numbers cut by a narrow terminal would be wrong ones
    return shown


class _Column(NamedTuple):
    """One column of words.

    Attributes:
        heading: Its name.
        short: The same for a terminal.
        justify: To which side.
        cells: One for each row.
        worth: Columns of less worth are left out first; those of worth 0 stay.
    """

    heading: str
    short: str
    justify: Literal["left", "right"]
    cells: tuple[str, ...]
    worth: float


def _columns(table: ShownTable) -> list[_Column]:
    board = table.board
    ways: list[tuple[str, str, Literal["left", "right"], float]] = [
        ("place", "place", "right", 0),
        ("estimator", "estimator", "left", 0),
        ("gain [95%]", "gain [95%]", "right", 0),
        ("vs Random", "Random", "left", 0),
        ("vs Sobel", "Sobel", "left", 0),
        ("vs Random blurred", "Blurred", "left", 0),
    ]
    ways += [(f"t={t:g}", f"t={t:g}", "right", 2 + t) for t in board.levels]  # the more is gone, the more it says
    ways += [(metric.heading, metric.heading, "right", 1) for metric in table.metrics]
    rows = [_cells(table, row) for row in table.rows]
    cells = zip(*rows, strict=True) if rows else [()] * len(ways)
    return [_Column(*way[:3], tuple(column), way[3]) for way, column in zip(ways, cells, strict=True)]


def _fitting(columns: list[_Column], width: int) -> list[_Column]:
    kept = columns
    while _wide(kept) > width and any(column.worth for column in kept):
        least = min((column for column in kept if column.worth), key=lambda column: column.worth)
        kept = [column for column in kept if column is not least]
    return kept


def _wide(columns: list[_Column]) -> int:
    """Letters of a line: the columns, one space between two, and one at either side."""
    lengths = (
        max(len(cell.replace(Verdict.SAME, SAME)) for cell in (column.short, *column.cells)) for column in columns
    )
    return sum(lengths) + len(columns) + 1


def _cells(table: ShownTable, row: Row) -> list[str]:
    flag = " (!)" if row.estimator in table.doubts else ""
    return [
        place(row),
        row.estimator + flag,
        interval(row.gain),
        row.random.verdict.value if row.random else MISSING,
        row.sobel.verdict.value if row.sobel else MISSING,
        row.random_blurred.verdict.value if row.random_blurred else MISSING,
        *(percent(estimate) for estimate in row.accuracies),
        *(MISSING if value is None else f"{value:.3f}" for value in table.quantus(row).values()),
    ]


def place(row: Row) -> str:
    """A place interval such as 2-4; a dash where a cell is missing."""
    if row.place is None:
        return MISSING
    low, high = row.place.low, row.place.high
    if low is None or high is None:
        return str(row.place.place)
    return str(low) if low == high else f"{low}-{high}"


def interval(gain: Estimate) -> str:
    """A gain in accuracy points with its interval in brackets, as far as they are there."""
    if gain.value is None:
        return MISSING
    if gain.low is None or gain.high is None:
        return _signed(gain.value)
    return f"{_signed(gain.value)} [{_signed(gain.low)}, {_signed(gain.high)}]"


def _signed(points: float) -> str:
    """With its sign, unless it is 0 in print."""
    text = f"{points:+.1f}"
    return text[1:] if text[1:] == "0.0" else text


def percent(accuracy: Estimate) -> str:
    """An accuracy in percent."""
    return MISSING if accuracy.value is None else f"{100 * accuracy.value:.1f}"


def _json(table: ShownTable) -> str:
    standing, board = table.standing, table.board
    content = {
        "suite": standing.suite.name,
        "version": standing.suite.version,
        "levels": list(board.levels),
        "protocol": board.protocol.name,
        "unit": table.unit,
        "fill": "mean",
        "images": board.images,
        "limit": standing.limit,
        "data": standing.data or None,
        "reference": standing.suite.given or None,
        "complete": standing.complete,
        "confidence": board.bootstrap.confidence,
        "resamples": board.bootstrap.resamples,
        "bootstrap_seed": board.bootstrap.seed,
        "intervals_cover": board.covers,
        "detectable": board.detectable,
        "rows": [_plain(table, row) for row in table.rows],
    }
    return json.dumps(content, indent=1)


def _plain(table: ShownTable, row: Row) -> dict[str, Any]:
    """A row as plain values: accuracies are fractions, gains accuracy points."""
    position = row.place
    levels = (0.0, *table.board.levels)
    curve = {str(t): estimate.value for t, estimate in zip(levels, (row.clean, *row.accuracies), strict=True)}
    return {
        "estimator": row.estimator,
        "place": position.place if position else None,
        "place_low": position.low if position else None,
        "place_high": position.high if position else None,
        "verdict": row.random.verdict if row.random else None,
        "verdict_sobel": row.sobel.verdict if row.sobel else None,
        "verdict_random_blurred": row.random_blurred.verdict if row.random_blurred else None,
        "flag": table.doubts.get(row.estimator),
        "gain": row.gain.value,
        "gain_low": row.gain.low,
        "gain_high": row.gain.high,
        "seeds": row.seeds,
        "limit": table.standing.limit,
        "curve": curve,
    } | ({"quantus": table.quantus(row)} if table.metrics else {})


def _csv(table: ShownTable) -> str:
    rows = [_plain(table, row) for row in table.rows]
    flat = [_flat(row, accuracy=row.pop("curve"), quantus=row.pop("quantus", {})) for row in rows]
    text = io.StringIO()
    writer = csv.DictWriter(text, list(flat[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue().rstrip("\n")


def _flat(row: dict[str, Any], **groups: dict[str, Any]) -> dict[str, Any]:
    """A row with the values of each group as columns `GROUP_NAME`."""
    return row | {f"{group}_{name}": value for group, values in groups.items() for name, value in values.items()}


def _markdown(table: ShownTable) -> str:
    headings = [column.heading for column in _columns(table)]
    lines = [headings, ["---"] * len(headings), *(_cells(table, row) for row in table.rows)]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{table.standing.title}**\n\n{rows}\n\n{table.caption}. {table.footnote}"
