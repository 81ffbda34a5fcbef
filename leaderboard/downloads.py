"""What is shown, as files: CSV and JSON of every page, Markdown and LaTeX of the board; and as HTML."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leaderboard.rows import BoardRow, BoardTable
from leaderboard.text import COLUMNS, GAINED, HEADINGS, TEXTS, plain
from roarbench import text as formatting
from roarbench.analysis.marks import MASKS
from roarbench.estimators.catalogue import shown_name
from roarbench.protocols import SHOWN
from roarbench.report.latex import latex_table
from roarbench.report.table_values import plain_beating, with_ends
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.curves import POINTS
from roarbench.text import MISSING, interval, percent, place_interval, signed

ASSETS = Path(__file__).parent / "assets"
Records = Sequence[Mapping[str, Any]]

DECIMALS = 6  # finer than any draw knows an accuracy or a gain in points; in files and in what pages compute with
_COLUMNS = (
    "place",
    "estimator",
    "gain",
    "beats",
    "random",
    "sobel",
    "blurred",
    "kar",
    "no-retrain",
    "seeds",
)  # with gains
_MARKDOWN = "\\`*_[]<>!|~"  # what begins or ends something else than text inside a cell


def board_records(table: BoardTable) -> list[dict[str, Any]]:
    """Return the rows as flat records of plain values; missing is None."""
    return [{**_record(row), **_accuracies(row, table)} for row in table.rows]


def _record(row: BoardRow) -> dict[str, Any]:
    place = row.place
    return {
        "estimator": plain(row.estimator),
        "about": row.about,
        "family": row.family,
        "control": row.control,
        "place": place.place if place else None,
        "place_low": place.low if place else None,
        "place_high": place.high if place else None,
        "tie_groups": " ".join(map(str, place.groups)) if place else "",
        **with_ends("gain", row.gain),
        **plain_beating(row.beating),
        "vs_random": row.random or None,
        "vs_sobel": row.sobel or None,
        "vs_random_blurred": row.blurred or None,
        "kar_gain": row.kar.value,
        "no_retrain_gain": row.unretrained.value,
        **with_ends("over_other_image", row.other_image),
        "vs_other_image": row.vs_other_image or None,
        "flag": row.flag or None,
        "sign": row.sign or None,
        "blurred_twin_share": row.mark("blurred").share.value,
        "masks_share": row.mark(MASKS).share.value,
        **with_ends("above_masks", row.above_masks),
        "seconds_per_1000_images": row.seconds,
        "seeds": row.seeds,
        "date": row.date or None,
        "status": row.status or None,
        "no_place_because": row.gap or None,
    }


def _accuracies(row: BoardRow, table: BoardTable) -> dict[str, float | None]:
    """Return the accuracies with their intervals where a protocol has no gains; else nothing."""
    found = {} if table.gained else dict(zip(table.levels, row.accuracies, strict=True))
    return dict(chain(*(with_ends(f"accuracy_{t:g}", accuracy).items() for t, accuracy in found.items())))


def board_files(table: BoardTable) -> dict[str, str]:
    """Return the board in every format, by ending."""
    return {"csv": board_csv(table), "json": board_json(table), "tex": to_latex(table), "md": to_markdown(table)}


def board_csv(table: BoardTable) -> str:
    """Return the board as CSV; each row says of what its numbers are."""
    return to_csv([{"suite": table.title, **row, "numbers_are_of": table.caption} for row in board_records(table)])


def to_csv(records: Records) -> str:
    """Return records as CSV."""
    return formatting.to_csv([{key: _cell(value) for key, value in row.items()} for row in _rounded(records)])


def _rounded(records: Records) -> Records:
    return [{k: round(v, DECIMALS) + 0.0 if isinstance(v, float) else v for k, v in row.items()} for row in records]


def _cell(value: object) -> object:
    """Return a value as a browser would write it, too, so that both boards' files are the same to the letter."""
    if isinstance(value, bool):
        return str(value).lower()
    return Decimal(_digits(value)) if isinstance(value, float) else value


def _digits(number: float) -> str:
    return f"{number:.{DECIMALS}f}".rstrip("0").rstrip(".")


def to_json(records: Records, **of: Any) -> str:
    """Return records as JSON, with what the numbers are of."""
    lines = ",\n ".join(json.dumps(row, allow_nan=False) for row in _rounded(records))
    head = json.dumps(of, allow_nan=False)[:-1]
    return f'{head}{", " if of else ""}"rows": [\n {lines}\n]}}\n'


def board_json(table: BoardTable) -> str:
    """Return the board as JSON."""
    return to_json(board_records(table), **header_fields(table))


def header_fields(table: BoardTable) -> dict[str, Any]:
    """Return of what a board's numbers are: all its fields but the rows."""
    fields = asdict(replace(table, rows=()))
    return {key: value for key, value in fields.items() if key not in ("rows", "whole", "lines")}


def to_markdown(table: BoardTable) -> str:
    """Return the board as a Markdown table; text from outside stays text."""
    cells = [[_quoted(cell) for cell in _cells(row, table)] for row in table.rows]
    lines = [_headings(table), ["---"] * len(_headings(table)), *cells]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{table.title}**\n\n{rows}\n\n{table.caption}. {table.footnote}\n"


def _quoted(text: str) -> str:
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in text)


def to_latex(table: BoardTable) -> str:
    """Return the board as a LaTeX table for the `booktabs` package."""
    sides = "rlrllllrrr" if table.gained else f"l{'r' * len(table.levels)}r"
    headings = dict(zip(_headings(table), sides, strict=True))
    lines = [_cells(row, table) for row in table.rows]
    return latex_table(headings, lines, f"{table.title}. {table.caption}. {table.footnote}") + "\n"


def _headings(table: BoardTable) -> list[str]:
    if table.gained:
        return [HEADINGS[key] for key in _COLUMNS]
    return ["estimator", *(f"accuracy at t = {t:g}" for t in table.levels), "seeds"]


def _cells(row: BoardRow, table: BoardTable) -> list[str]:
    if not table.gained:
        return [plain(row.estimator), *(accuracy_text(accuracy) for accuracy in row.accuracies), str(row.seeds)]
    return [
        place_interval(row.place),
        plain(row.estimator),
        interval(row.gain),
        *(verdict or MISSING for verdict in (row.beats, row.random, row.sobel, row.blurred)),
        interval(row.kar),
        interval(row.unretrained),
        str(row.seeds),
    ]


def above_text(above: Estimate) -> str:
    """Return a difference of accuracies in points with its interval, as far as they are there."""
    return interval(above, lambda accuracy: signed(POINTS * accuracy))


def accuracy_text(accuracy: Estimate) -> str:
    """Return an accuracy in percent with its interval in brackets, as far as they are there."""
    return interval(accuracy, percent, "%")


@cache
def templates() -> Environment:
    """Return the templates, which escape whatever they are given and fail where something is missing."""
    loader = FileSystemLoader(ASSETS)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "plain": plain,
        "shown": shown_name,
        "cell": cell_text,
        "signed": signed,
        "place": place_interval,
        "accuracy": accuracy_text,
        "protocol": lambda name: SHOWN[name].title,
    }
    made.filters |= {
        "share": "{:.0%}".format,
        "above": above_text,
        "digits": lambda value: "" if value is None else _digits(value),
    }
    made.globals |= {"headings": HEADINGS, "columns": COLUMNS, "gained": GAINED, "texts": TEXTS}
    return made


def cell_text(value: object) -> str:
    """Return a value as text: missing is a dash, numbers have four significant digits."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return plain(str(value))
