import csv
import io
import json
from dataclasses import replace

import pytest

from leaderboard.boards import board_table
from leaderboard.downloads import board_csv, board_json, board_records, to_csv, to_latex, to_markdown
from leaderboard.rows import BoardTable
from leaderboard.text import LONGEST, plain
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.evidence import Evidence
from roarbench.stats.bootstrap import Estimate
from roarbench.text import interval


@pytest.fixture(scope="module")
def table(quick: SuiteResults) -> BoardTable:
    return board_table(Evidence.of(quick))


def renamed(table: BoardTable, name: str) -> BoardTable:
    return replace(table, rows=(replace(table.rows[0], estimator=name), *table.rows[1:]))


def test_csv_and_json_hold_the_same_numbers(table: BoardTable) -> None:
    gains = (Estimate(1.23456789, -0.5, 2.0), Estimate(-2 / 3, -1 / 3, 0.0))
    both = [replace(entry, gain=gain) for entry, gain in zip(table.rows, gains, strict=False)]
    table = replace(table, rows=(replace(both[0], estimator="one"), replace(both[1], estimator="other")))
    rows = list(csv.DictReader(io.StringIO(to_csv(board_records(table)))))
    found = json.loads(board_json(table))
    assert [(row["estimator"], row["gain"]) for row in rows] == [("one", "1.234568"), ("other", "-0.666667")]
    assert [(row["gain"], row["gain_low"]) for row in found["rows"]] == [(1.234568, -0.5), (-0.666667, -0.333333)]
    assert (found["protocol"], found["levels"], found["unit"]) == ("roar", [0.5, 0.9], "scalar")
    assert "300 test images" in found["caption"]


def test_missing_is_null_and_empty(table: BoardTable) -> None:
    assert json.loads(board_json(table))["rows"][0]["seconds_per_1000_images"] is None
    assert next(csv.DictReader(io.StringIO(to_csv(board_records(table)))))["seconds_per_1000_images"] == ""


def test_an_empty_table_is_an_empty_file() -> None:
    assert to_csv([]).strip() == ""


@pytest.mark.parametrize("name", ["=1+1", "+cmd", "@SUM(A1)", "-2"])
def test_no_text_is_a_formula(table: BoardTable, name: str) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(board_records(renamed(table, name))))))
    assert rows[0]["estimator"] == f"'{name}"
    assert float(rows[-1]["gain"]) < 0  # numbers stay numbers


def test_markdown_has_a_line_per_row_and_no_markup_from_outside(table: BoardTable) -> None:
    text = to_markdown(renamed(table, "a|b ![x](http://evil) <script>"))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + len(table.rows)
    assert r"a\|b \!\[x\](http://evil) \<script\>" in text


def cells_of(table: BoardTable) -> list[list[str]]:
    """What a reader of any format should find, from the records."""
    return [
        [entry.estimator, interval(entry.gain), *(word or "–" for word in (entry.beats, entry.random, entry.sobel))]
        for entry in table.rows
    ]


def test_markdown_is_read_back(table: BoardTable) -> None:
    lines = [line for line in to_markdown(table).splitlines() if line.startswith("|")]
    rows = [[cell.strip().replace("\\", "") for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    assert [row[1:6] for row in rows] == cells_of(table)
    assert "300 test images" in to_markdown(table) and "KAR gain: levels 0.9, 1 seed." in to_markdown(table)


def test_latex_is_read_back(table: BoardTable) -> None:
    text = to_latex(table)
    body = text[text.index(r"\midrule") : text.index(r"\bottomrule")].splitlines()[1:]
    rows = [
        [cell.strip() for cell in line.removesuffix(r" \\").replace(r"\textless{}", "<").split(" & ")] for line in body
    ]
    assert [[cell.replace("--", "–").replace("$", "") for cell in row[1:6]] for row in rows] == cells_of(table)
    assert "300 test images" in text and text.count("{") == text.count("}")


def test_csv_of_the_board_says_of_what_its_numbers_are(table: BoardTable) -> None:
    rows = list(csv.DictReader(io.StringIO(board_csv(table))))
    assert {row["suite"] for row in rows} == {"quick v1"}
    assert {row["numbers_are_of"] for row in rows} == {table.caption}


def test_latex_escapes(table: BoardTable) -> None:
    text = to_latex(renamed(table, r"50%_\input{x}$&#~^"))
    assert r"50\%\_\textbackslash{}input\{x\}\$\&\#\textasciitilde{}\textasciicircum{}" in text
    assert text.count(r"\\") == 1 + len(table.rows)


def test_plain_text() -> None:
    assert plain("a\x1b[31mb‮c\n\td​e") == "a [31mb c d e"
    assert len(plain("x" * 10_000)) == LONGEST
    assert plain("x" * LONGEST) == "x" * LONGEST
    assert plain("<b>ü 漢</b>") == "<b>ü 漢</b>"
