"""One entry is one column in every format: handwritten tables, and a column added to a suite's table."""

import csv
import json
from dataclasses import replace
from io import StringIO

import pytest

from roarbench.report import suite_table_columns
from roarbench.report.combined_table import present
from roarbench.report.table_record import ROW_KEY, Column, Table, list_texts_beside_gain, make_column
from roarbench.report.table_renderers import (
    format_csv,
    format_html,
    format_plain_text,
    format_text,
    list_all_notes,
    make_data_frame,
    measure_table_width,
    render,
    wrap_columns,
)
from roarbench.stats.intervals import Estimate
from tests.helpers.made_up_results import SUITE, make_suite_results, make_table, make_table_of_both_gains, render_text
from tests.helpers.shown_tables import list_columns

NAMES = Column(ROW_KEY, ("a", "b"), "estimator", ("A", "B"), side="left")
GAIN = Column("gain", (Estimate(1.0, 0.5, 1.5), Estimate()), "gain [95%]", ("+1.0 [+0.5, +1.5]", "–"))
WORD = Column("word", (None, None), "word", ("–", "–"), worth=1, has_words=True, about="Word: none.")
LEVEL = Column("kept{}/0.5", (Estimate(0.1, 0.0, 0.2), None), "kept at 0.5", ("10", "–"), worth=2)
TABLE = Table(
    "T", (GAIN, NAMES, WORD, LEVEL), ("short",), ("all",), {"suite": "s", "hash": "h"}, ("hash",), {"kept": "share"}
)


def test_missing_value_is_dash_in_any_form():
    assert make_column("width", (1.25, None), "width", form="{:.1f}".format).texts == ("1.2", "–")


def test_controls_that_suite_lacks_have_no_column():
    blocks = tuple(replace(block, estimators=("random", "grad")) for block in SUITE.blocks)
    columns = list_columns(make_table(make_suite_results(replace(SUITE, blocks=blocks))))
    headings = [column.heading for column in columns]
    assert "vs Random" in headings and not {"vs Sobel", "vs blurred random"} & set(headings)


def test_wide_letters_take_two_cells_of_a_column():
    names, gains = ("梯度", "grad", "a"), ("+1.0", "+2.0", "0.0")
    lines = format_plain_text(Table("", (make_column("a", names, "row"), make_column("b", gains, "gain")))).split("\n")
    assert lines == ["row   gain", "梯度  +1.0", "grad  +2.0", "a     0.0"]


def test_plain_rows_begin_with_name_and_nest_groups():
    """By hand: an estimate has three keys; in a group the endings belong to the group where the key says so."""
    a, b = json.loads(render(TABLE, "json"))["rows"]
    gain = {"gain": 1.0, "gain_low": 0.5, "gain_high": 1.5, "word": None}
    assert a == {"estimator": "a", **gain, "kept": {"0.5": 0.1}, "kept_low": {"0.5": 0.0}, "kept_high": {"0.5": 0.2}}
    assert list(a)[0] == "estimator" and b["kept_high"] == {"0.5": None} and b["gain"] is None
    (row, _) = csv.DictReader(StringIO(format_csv(TABLE)))
    assert list(row) == [
        "estimator",
        "gain",
        "gain_low",
        "gain_high",
        "word",
        "hash",
        "share_0.5",
        "kept_low_0.5",
        "kept_high_0.5",
    ]


def test_data_frame_keeps_words_and_makes_missing_numbers_nan():
    frame = make_data_frame(TABLE, {"a": "mine"})
    assert list(frame["name"]) == ["mine", "b"] and frame["word"].dtype == object
    assert frame["share_0.5"].dtype == float and frame.attrs == {"suite": "s", "hash": "h"}


def test_narrow_terminal_shortens_texts_and_drops_columns():
    """A table of several gains shortens texts before it drops columns, other tables only afterwards."""
    wide = Table("T", (NAMES, Column("x", (1, 2), "x", ("12345678", "2"), narrow=("1", "2")), WORD), ("n",))
    whole = (25, ["12345678", "word"])
    first, last = ((24, ["word"]), (18, ["word"]), (17, [])), ((24, ["12345678"]), (20, ["12345678"]), (19, []))
    for table, cases in ((replace(wide, parts={"own": wide}), (whole, *first)), (wide, (whole, *last))):
        for width, found in cases:
            shown = render_text(format_text(table, width), width)
            assert [word for word in ("12345678", "word") if word in shown] == found, width
            assert max(map(len, shown.splitlines())) <= width
    assert list_all_notes(wide, wide.texts) == ["Word: none."]
    assert list_all_notes(wide, [NAMES])[-1] == "Columns not shown: x, word (--format csv has all)."


def test_narrowest_table_breaks_a_verdict_before_its_sign():
    verdict = Column("verdict", (1, 2), "verdict", ("better\N{NO-BREAK SPACE}(!!)", "worse"), side="left")
    columns = (NAMES, verdict)
    fitting = measure_table_width(column.terminal_cells for column in columns)
    assert wrap_columns(columns, fitting)[1][1] == "better\N{NO-BREAK SPACE}(!!)"
    assert wrap_columns(columns, fitting - 4)[1] == ("verdict", "better\n(!!)", "worse")


def test_checks_without_a_result_are_one_note_in_texts_and_rows_in_data():
    """A row of dashes above the line is a row that the suite plans; both checks below lose theirs together."""
    names = make_column(ROW_KEY, ("grad", "ig", "ig~u", "gb~u", "sg~u"), "estimator")
    table = Table("T", (names, make_column("gain", (2.0, None, 1.0, None, None), "gain")), sections={2}, dim={2, 3, 4})
    shown = table.leave_out_empty_checks()
    assert (shown.names, shown.sections, shown.dim) == (("grad", "ig", "ig~u"), {2}, {2})
    assert shown.notes == shown.all_notes == ("Not shown: 2 rows without a result, such as gb~u.",)
    for text in (render(table, "markdown"), format_html(table), render_text(format_text(table, 99), 99)):
        assert "sg~u" not in text and "ig~u" in text and "Not shown: 2 rows" in text
    assert "sg~u" in render(table, "csv") and "sg~u" in render(table, "json")
    assert shown.leave_out_empty_checks() is shown
    table = replace(table, columns=(names, make_column("gain", (2.0, None, None, None, 1.0), "gain")))
    assert table.leave_out_empty_checks().sections == {2}  # the line stands above the first check with a result


@pytest.mark.parametrize("make", [lambda: make_table(make_suite_results()), make_table_of_both_gains])
def test_new_column_is_one_entry_and_appears_in_every_format(make, monkeypatch):
    """Every suite's table gets a column `half`; the table of both gains shows what its entry has `beside`."""
    found = suite_table_columns.list_columns

    def list_columns(table):
        texts = tuple("one half" for _ in table.rows)
        beside = Column("", (), "half", texts, side="left")
        return [*found(table), Column("half", (0.5,) * len(texts), "half", texts, beside=beside)]

    monkeypatch.setattr(suite_table_columns, "list_columns", list_columns)
    table = present(make())
    for shown in (render(table, "markdown"), format_html(table), render_text(format_text(table, 250), 250)):
        assert "half" in shown.replace("one half", "") and shown.count("one half") >= len(table.names)
    assert '"half":0.5' in render(table, "json")
    assert {name for name in make_data_frame(table, {}) if name.endswith("half")} == {
        name for name in next(csv.reader(StringIO(format_csv(table)))) if name.endswith("half")
    }
    assert any(name.endswith("half") for name in table.flat_rows[0])


def test_pages_show_gain_at_each_level_below_gain():
    """A missing value, and a gain of 0 by construction, has no text."""
    columns = suite_table_columns.list_columns(make_table_of_both_gains().own_network)
    found = list_texts_beside_gain(columns)
    assert (found["grad"], found["gb"], found["random"]) == (("+8.6 at .05", "-2.4 at .5"), (), ())
