"""What is shown, as files: CSV and JSON of every view, Markdown and LaTeX of the board; and as HTML."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from leaderboard.rows import BoardTable, Entry
from leaderboard.text import COLUMNS, GAINED, HEADINGS, TEXTS, plain, protocol_name, signed
from roarbench import text as formatting
from roarbench.report.latex import latex_table
from roarbench.stats.bootstrap import Estimate
from roarbench.stats.places import Place
from roarbench.text import MISSING, interval

ASSETS = Path(__file__).parent / "assets"
Records = Sequence[Mapping[str, Any]]

DECIMALS = 6  # finer than any draw knows an accuracy or a gain in points; in files and in what pages compute with
_COLUMNS = ("place", "estimator", "gain", "random", "sobel", "blurred", "kar", "no-retrain", "seeds")  # with gains
_MARKDOWN = "\\`*_[]<>!|~"  # what begins or ends something else than text inside a cell


def board_records(table: BoardTable) -> list[dict[str, Any]]:
    """The rows as flat records of plain values; missing is None."""
    return [{**_record(entry), **_accuracies(entry, table)} for entry in table.entries]


def _record(entry: Entry) -> dict[str, Any]:
    position = entry.place
    return {
        "estimator": plain(entry.estimator),
        "about": entry.about,
        "family": entry.family,
        "control": entry.control,
        "place": position.place if position else None,
        "place_low": position.low if position else None,
        "place_high": position.high if position else None,
        "tie_groups": " ".join(map(str, position.groups)) if position else "",
        "gain": entry.gain.value,
        "gain_low": entry.gain.low,
        "gain_high": entry.gain.high,
        "vs_random": entry.random or None,
        "vs_sobel": entry.sobel or None,
        "vs_random_blurred": entry.blurred or None,
        "kar_gain": entry.kar.value,
        "no_retrain_gain": entry.unretrained.value,
        "flag": entry.flag or None,
        "blurred_twin_lead": entry.concerns.twin.size,
        "mask_only_accuracy": entry.concerns.masks.size,
        "seconds_per_1000_images": entry.seconds,
        "seeds": entry.seeds,
        "date": entry.date or None,
        "status": entry.status or None,
        "no_place_because": entry.gap or None,
    }


def _accuracies(entry: Entry, table: BoardTable) -> dict[str, float | None]:
    """What there is instead of gains where a protocol has none."""
    found = {} if table.gained else dict(zip(table.levels, entry.accuracies, strict=True))
    return {
        f"accuracy_{t:g}{end}": value
        for t, estimate in found.items()
        for end, value in zip(("", "_low", "_high"), estimate, strict=True)
    }


def board_files(table: BoardTable) -> dict[str, str]:
    """The board in every format, by ending."""
    return {"csv": board_csv(table), "json": board_json(table), "tex": to_latex(table), "md": to_markdown(table)}


def board_csv(table: BoardTable) -> str:
    """The board as CSV; each row says of what its numbers are."""
    return to_csv([{"suite": table.title, **row, "numbers_are_of": table.caption} for row in board_records(table)])


def to_csv(records: Records) -> str:
    """Records as CSV."""
    return formatting.to_csv([{key: _cell(value) for key, value in row.items()} for row in _rounded(records)])


def _rounded(records: Records) -> Records:
    return [{k: round(v, DECIMALS) + 0.0 if isinstance(v, float) else v for k, v in row.items()} for row in records]


def _cell(value: object) -> object:
    """A value as a browser would write it, too, so that both boards' files are the same to the letter."""
    if isinstance(value, bool):
        return str(value).lower()
    return Decimal(_digits(value)) if isinstance(value, float) else value


def _digits(number: float) -> str:
    return f"{number:.{DECIMALS}f}".rstrip("0").rstrip(".")


def to_json(records: Records, **of: Any) -> str:
    """Records as JSON, with what the numbers are of."""
    lines = ",\n ".join(json.dumps(row, allow_nan=False) for row in _rounded(records))
    head = json.dumps(of, allow_nan=False)[:-1]
    return f'{head}{", " if of else ""}"rows": [\n {lines}\n]}}\n'


def board_json(table: BoardTable) -> str:
    """The board as JSON."""
    return to_json(board_records(table), **header_fields(table))


def header_fields(table: BoardTable) -> dict[str, Any]:
    """Of what a board's numbers are."""
    parts = asdict(replace(table, entries=()))
    return {key: value for key, value in parts.items() if key not in ("entries", "whole", "lines")}


def to_markdown(table: BoardTable) -> str:
    """The board as a Markdown table; what came from outside stays text."""
    cells = [[_quoted(cell) for cell in _cells(entry, table)] for entry in table.entries]
    lines = [_headings(table), ["---"] * len(_headings(table)), *cells]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{table.title}**\n\n{rows}\n\n{table.caption}. {table.footnote}\n"


def _quoted(text: str) -> str:
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in text)


def to_latex(table: BoardTable) -> str:
    """The board as a LaTeX table for the `booktabs` package."""
    sides = "rlrlllrrr" if table.gained else f"l{'r' * len(table.levels)}r"
    headings = dict(zip(_headings(table), sides, strict=True))
    lines = [_cells(entry, table) for entry in table.entries]
    return latex_table(headings, lines, f"{table.title}. {table.caption}. {table.footnote}") + "\n"


def _headings(table: BoardTable) -> list[str]:
    if table.gained:
        return [HEADINGS[key] for key in _COLUMNS]
    return ["estimator", *(f"accuracy at t = {t:g}" for t in table.levels), "seeds"]


def _cells(entry: Entry, table: BoardTable) -> list[str]:
    if not table.gained:
        return [plain(entry.estimator), *(share(accuracy) for accuracy in entry.accuracies), str(entry.seeds)]
    return [
        span(entry.place) or MISSING,
        plain(entry.estimator),
        interval(entry.gain),
        *(verdict or MISSING for verdict in (entry.random, entry.sobel, entry.blurred)),
        interval(entry.kar),
        interval(entry.unretrained),
        str(entry.seeds),
    ]


def span(position: Place | None) -> str:
    """A place interval such as 2-4; empty where there is none."""
    if position is None:
        return ""
    low, high = position.low or position.place, position.high or position.place
    return str(low) if low == high else f"{low}-{high}"


def share(accuracy: Estimate) -> str:
    """An accuracy in percent with its interval in brackets, as far as they are there."""
    value, low, high = accuracy
    if value is None:
        return MISSING
    ends = "" if low is None or high is None else f" [{100 * low:.1f}, {100 * high:.1f}]"
    return f"{100 * value:.1f}%{ends}"


@cache
def templates() -> Environment:
    """Templates that escape whatever they are given, and fail where something is missing."""
    loader = FileSystemLoader(ASSETS)
    made = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    made.filters |= {
        "plain": plain,
        "cell": cell,
        "signed": signed,
        "span": span,
        "share": share,
        "protocol": protocol_name,
    }
    made.filters |= {"percent": "{:.1%}".format, "digits": lambda value: "" if value is None else _digits(value)}
    made.globals |= {"headings": HEADINGS, "columns": COLUMNS, "gained": GAINED, "texts": TEXTS}
    return made


def cell(value: object) -> str:
    """A value as text: missing is a dash, numbers have as many digits as a reader wants."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return plain(str(value))
