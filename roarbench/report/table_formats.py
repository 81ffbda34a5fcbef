"""The table of a suite in five formats. Missing is missing: a dash to the eye, null in JSON, empty in CSV."""

import json
from typing import Any, Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.console import Group
from rich.table import Table
from rich.text import Text

from roarbench.analysis.marks import Grade
from roarbench.analysis.probability_drop import Fall
from roarbench.report.latex import latex_table
from roarbench.report.table import CONFUSED, STOPPED, SuiteTable, suite_trains
from roarbench.stats.board import Row
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import POINTS
from roarbench.stats.verdicts import Verdict
from roarbench.text import MISSING, decimals, interval, markdown_table, percent, place_interval, signed, to_csv

_AOPC = "AOPC [95%]"
SAME = "≈"  # on a terminal: not significantly different
_JUDGED = (
    "place",
    "gain [95%]",
    "vs Random",
    "vs Sobel",
    "vs Random blurred",
    "over other image",
    "vs other image",
)  # columns of tables that judge
_ENDS = {"": "value", "_low": "low", "_high": "high"}  # of the names of a number and of its interval
_NARROW = 80  # columns that a caption may fill


def render(table: SuiteTable, style: str) -> str:
    """Return the table as `json`, `csv`, `markdown` or `latex`."""
    return {"json": _json, "csv": _csv, "markdown": _markdown, "latex": _latex}[style](table)


def as_text(table: SuiteTable, width: int) -> Group:
    """Return the table for a terminal of this many columns, less the columns that do not fit, which the note names.

    To be printed without cropping: a line that proposes a command is longer, so that it can be copied.
    """
    columns = _columns(table)
    kept = _fitting(columns, width)
    gained = table.board.levels if table.by_difference else ()  # where there are gains at levels
    accuracies = {f"t={t:g}" for t in gained}
    names = [column.heading for column in columns if column not in kept]
    left = [f"accuracy {name}" if name in accuracies else name for name in names]
    notes = [table.caption, table.remarks]
    notes += (
        [f"Random, Sobel, Blurred: its gain against theirs; {SAME} not significantly different."]
        if table.judged
        else []
    )
    notes += [table.falling] if any(column.heading == _AOPC for column in kept) else []
    notes += [f"Left out here: {', '.join(left)}; --format csv has all."] if left else []
    shown = Table(
        title=table.suite_results.title, caption="\n".join(notes), caption_justify="left", box=SIMPLE_HEAD, padding=0
    )
    for column in kept:
        shown.add_column(column.short, justify=column.justify, no_wrap=True)
    for number, row in enumerate(table.rows):
        if row.check and not table.rows[number - 1].check:
            shown.add_section()
        shown.add_row(
            *(column.cells[number].replace(Verdict.SAME, SAME) for column in kept),
            style="" if row.place or not table.judged else "dim",
        )
    shown.width = max(min(width, _NARROW), _wide(kept))  # numbers cut by a narrow terminal would be wrong ones
    advice = [Text(table.advice, no_wrap=True, overflow="ignore")] if table.advice else []
    return Group(shown, *advice)


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


def _columns(table: SuiteTable) -> list[_Column]:
    board = table.board
    ways: list[tuple[str, str, Literal["left", "right"], float]] = [
        ("place", "place", "right", 0),
        ("estimator", "estimator", "left", 0),
        ("gain [95%]", "gain [95%]", "right", 0),
        ("vs Random", "Random", "left", 0),
        ("vs Sobel", "Sobel", "left", 0),
        ("vs Random blurred", "Blurred", "left", 0),
    ]
    if any(row.over_other_image.value is not None for row in board.rows):
        ways += [("over other image", "over other image", "right", 3.1), ("vs other image", "other", "left", 3.2)]
    if table.by_difference:
        ways += [(f"gain t={t:g}", f"at {t:g}", "right", 3) for t in board.levels]
    ways += [(f"t={t:g}", f"t={t:g}", "right", 2 + t) for t in board.levels]  # the more is gone, the more it says
    ways += [(f"above masks t={t:g}", f"above masks t={t:g}", "right", 1.7 + t / 10) for t in table.mask_levels]
    if not suite_trains(board):
        ways += [(_AOPC, _AOPC, "right", 1.9)]
        ways += [(f"p t={t:g}", f"p t={t:g}", "right", 1.5 + t / 10) for t in board.levels]
        ways += [(f"change t={t:g}", f"change t={t:g}", "right", 1.2 + t / 10) for t in board.levels]
    ways += [(metric.heading, metric.heading, "right", 1) for metric in table.metrics]
    rows = [_cells(table, row) for row in table.rows]
    cells = zip(*rows, strict=True) if rows else [()] * len(ways)
    columns = [_Column(*way[:3], tuple(column), way[3]) for way, column in zip(ways, cells, strict=True)]
    return [column for column in columns if table.judged or column.heading not in _JUDGED]


def _fitting(columns: list[_Column], width: int) -> list[_Column]:
    kept = columns
    while _wide(kept) > width and any(column.worth for column in kept):
        least = min((column for column in kept if column.worth), key=lambda column: column.worth)
        kept = [column for column in kept if column is not least]
    return kept


def _wide(columns: list[_Column]) -> int:
    """Count the letters of a line: the columns, one space between two, and one at either side."""
    lengths = (
        max(len(cell.replace(Verdict.SAME, SAME)) for cell in (column.short, *column.cells)) for column in columns
    )
    return sum(lengths) + len(columns) + 1


def _cells(table: SuiteTable, row: Row) -> list[str]:
    signs = (STOPPED * row.stopped, CONFUSED * (row.estimator in table.confused), table.sign(row.estimator))
    other = [interval(row.over_other_image), row.other_image.verdict.value if row.other_image else MISSING]
    above, nothing = table.above_masks.get(row.estimator, {}), Estimate()
    return [
        place_interval(row.place),
        " ".join(filter(None, (row.estimator, *signs))),
        interval(row.gain),
        row.random.verdict.value if row.random else MISSING,
        row.sobel.verdict.value if row.sobel else MISSING,
        row.random_blurred.verdict.value if row.random_blurred else MISSING,
        *(other if any(each.over_other_image.value is not None for each in table.board.rows) else []),
        *(MISSING if gain is None else signed(gain) for gain in table.gains(row)),
        *(percent(estimate.value) for estimate in row.accuracies),
        *(interval(above.get(t, nothing), _points) for t in table.mask_levels),
        *_falling(table, row),
        *(decimals(value, 3) for value in table.quantus(row).values()),
    ]


def _points(accuracy: float) -> str:
    return signed(POINTS * accuracy)


def _falling(table: SuiteTable, row: Row) -> list[str]:
    """Return the cells on the probability of the predicted class; none where networks were retrained."""
    if suite_trains(table.board):
        return []
    found = table.falls.get(row.estimator)
    if found is None:
        return [MISSING] * (1 + 2 * len(table.board.levels))
    return [
        interval(found.aopc, "{:.3f}".format),
        *(decimals(each.value, 3) for each in (*found.probabilities, *found.changes)),
    ]


def _json(table: SuiteTable) -> str:
    suite_results, board = table.suite_results, table.board
    content = {
        "suite": suite_results.suite.name,
        "version": suite_results.suite.version,
        "levels": list(board.levels),
        "protocol": board.protocol.name,
        "unit": table.unit,
        "fill": "mean",
        "images": board.images,
        "limit": suite_results.limit,
        "data": suite_results.data or None,
        "reference": suite_results.suite.given or None,
        "reference_accuracy": suite_results.reference_accuracy,
        "complete": suite_results.complete,
        "at_chance": bool(suite_results.at_chance),
        "confidence": board.bootstrap.confidence,
        "resamples": board.bootstrap.resamples,
        "bootstrap_seed": board.bootstrap.seed,
        "intervals_cover": board.covers,
        "one_network": board.one_network,
        "references": board.references,
        "reference_deviation": board.reference_deviation,
        "reference_rows": board.reference_rows,
        "reference_freedom": board.reference_freedom,
        "family": board.family,
        "detectable": board.detectable,
        "chance": table.chance,
        "rows": [_plain(table, row) for row in table.rows],
    }
    return json.dumps(content, indent=1)


def _plain(table: SuiteTable, row: Row) -> dict[str, Any]:
    """Return a row as plain values: accuracies are fractions, gains accuracy points."""
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
        "grade": _grade(table, row),
        "verdict_other_image": row.other_image.verdict if row.other_image else None,
        "over_other_image": row.over_other_image.value,
        "over_other_image_low": row.over_other_image.low,
        "over_other_image_high": row.over_other_image.high,
        "gain": row.gain.value,
        "gain_low": row.gain.low,
        "gain_high": row.gain.high,
        "seeds": row.seeds,
        "looks": row.looks or None,
        "kept": table.suite_results.kept.get(row.estimator),
        "limit": table.suite_results.limit,
        "curve": curve,
        **_plain_above(table, row),
        **_plain_gains(table, row),
        **({} if suite_trains(table.board) else _plain_fall(table, row)),
    } | ({"quantus": table.quantus(row)} if table.metrics else {})


def _grade(table: SuiteTable, row: Row) -> str | None:
    """Return the highest grade of a row's marks; None where no mark of it is known."""
    if not any(mark.grade for mark in table.marks.get(row.estimator, ())):
        return None
    return table.flags[row.estimator].grade if row.estimator in table.flags else Grade.NONE


def _plain_gains(table: SuiteTable, row: Row) -> dict[str, dict[str, float | None]]:
    """Return gains by level in accuracy points; nothing where gains are areas between curves."""
    if not table.by_difference:
        return {}
    return {"gains": dict(zip(map(str, table.board.levels), table.gains(row), strict=True))}


def _plain_above(table: SuiteTable, row: Row) -> dict[str, dict[str, float | None]]:
    """Return accuracies minus those of masks alone with their intervals, by level; nothing where none is known."""
    curve, nothing = table.above_masks.get(row.estimator, {}), Estimate()
    return {
        f"above_masks{end}": {str(t): getattr(curve.get(t, nothing), part) for t in table.mask_levels}
        for end, part in _ENDS.items()
        if table.mask_levels
    }


def _plain_fall(table: SuiteTable, row: Row) -> dict[str, Any]:
    """Return the probability of the predicted class as plain values; those of each level under its name."""
    nothing, levels = Estimate(), table.board.levels
    found = table.falls.get(row.estimator) or Fall(nothing, (nothing,) * len(levels), (nothing,) * len(levels), nothing)
    curves = {
        "probability": dict(zip((0.0, *levels), (found.untouched, *found.probabilities), strict=True)),
        "relative_change": dict(zip(levels, found.changes, strict=True)),
    }
    plain: dict[str, Any] = {f"aopc{end}": getattr(found.aopc, part) for end, part in _ENDS.items()}
    for name, curve in curves.items():
        for end, part in _ENDS.items():
            plain[f"{name}{end}"] = {str(t): getattr(estimate, part) for t, estimate in curve.items()}
    return plain


def _csv(table: SuiteTable) -> str:
    rows = [_plain(table, row) for row in table.rows]
    return to_csv([_flat(row | {"chance": table.chance}) for row in rows]).rstrip("\n")


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the values of each group as columns `GROUP_NAME`, after all others."""
    single = {name: value for name, value in row.items() if not isinstance(value, dict)}
    groups = {"accuracy" if name == "curve" else name: row[name] for name in row if name not in single}
    return single | {f"{group}_{name}": value for group, values in groups.items() for name, value in values.items()}


def _markdown(table: SuiteTable) -> str:
    columns = _columns(table)
    lines = zip(*(column.cells for column in columns), strict=True)
    rows = markdown_table([column.heading for column in columns], lines)
    return f"**{table.suite_results.title}**\n\n{rows}\n\n{table.caption}. {table.footnote} {table.falling}".rstrip()


def _latex(table: SuiteTable) -> str:
    columns = _columns(table)
    caption = f"{table.suite_results.title}. {table.caption}. {table.footnote} {table.falling}".rstrip()
    lines = zip(*(column.cells for column in columns), strict=True)
    return latex_table({column.heading: column.justify[0] for column in columns}, lines, caption)
