"""What is shown, as files: CSV and JSON of every view, Markdown and LaTeX of the board."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from leaderboard.tables import BoardTable, Entry
from leaderboard.words import plain
from roarbench import spreadsheet
from roarbench.tables import interval

Records = Sequence[Mapping[str, Any]]

DECIMALS = 6  # finer than any draw knows an accuracy or a gain in points; in files and in what pages compute with
_HEADINGS = ("place", "estimator", "gain", "vs Random", "vs Sobel", "KAR gain", "no-retrain gain", "seeds")
_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "–": "--",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}
_MARKDOWN = "\\`*_[]<>!|~"  # what begins or ends something else than text inside a cell


def board_records(table: BoardTable) -> list[dict[str, Any]]:
    """The rows as flat records of plain values; missing is None."""
    return [_record(entry) for entry in table.entries]


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
        "kar_gain": entry.kar.value,
        "no_retrain_gain": entry.unretrained.value,
        "flag": entry.flag or None,
        "seconds_per_1000_images": entry.seconds,
        "seeds": entry.seeds,
        "date": entry.date or None,
        "status": entry.status,
        "no_place_because": entry.gap or None,
    }


def board_csv(table: BoardTable) -> str:
    """The board as CSV; each row says of what its numbers are."""
    return to_csv([{"suite": table.title, **row, "numbers_are_of": table.caption} for row in board_records(table)])


def to_csv(records: Records) -> str:
    """Records as CSV."""
    return spreadsheet.to_csv(_rounded(records))


def _rounded(records: Records) -> Records:
    return [{k: round(v, DECIMALS) if isinstance(v, float) else v for k, v in row.items()} for row in records]


def to_json(records: Records, **of: Any) -> str:
    """Records as JSON, with what the numbers are of."""
    lines = ",\n ".join(json.dumps(row, allow_nan=False) for row in _rounded(records))
    head = json.dumps(of, allow_nan=False)[:-1]
    return f'{head}{", " if of else ""}"rows": [\n {lines}\n]}}\n'


def board_json(table: BoardTable) -> str:
    """The board as JSON."""
    about = {key: value for key, value in asdict(table).items() if key not in ("entries", "whole", "sobel")}
    return to_json(board_records(table), **about)


def to_markdown(table: BoardTable) -> str:
    """The board as a Markdown table; what came from outside stays text."""
    lines = [_HEADINGS, ("---",) * len(_HEADINGS), *([_quoted(cell) for cell in _cells(e)] for e in table.entries)]
    rows = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"**{table.title}**\n\n{rows}\n\n{table.caption}. {table.footnote}\n"


def _quoted(text: str) -> str:
    return "".join(f"\\{letter}" if letter in _MARKDOWN else letter for letter in text)


def to_latex(table: BoardTable) -> str:
    """The board as a LaTeX table for the `booktabs` package."""
    lines = [" & ".join(_escaped(cell) for cell in line) + r" \\" for line in (_HEADINGS, *map(_cells, table.entries))]
    caption = _escaped(f"{table.title}. {table.caption}. {table.footnote}")
    body = [lines[0], r"\midrule", *lines[1:]]
    inner = [r"\begin{tabular}{rlrllrrr}", r"\toprule", *body, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([r"\begin{table}", r"\centering", *inner, rf"\caption{{{caption}}}", r"\end{table}", ""])


def _escaped(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)


def _cells(entry: Entry) -> list[str]:
    where = "–" if entry.place is None else _span(entry)
    verdicts = (entry.random or "–", entry.sobel or "–")
    return [
        where,
        plain(entry.estimator),
        interval(entry.gain),
        *verdicts,
        interval(entry.kar),
        interval(entry.unretrained),
        str(entry.seeds),
    ]


def _span(entry: Entry) -> str:
    position = entry.place
    assert position, "asked only for rows with a place"
    if position.low is None or position.low == position.high:
        return str(position.low or position.place)
    return f"{position.low}-{position.high}"
