"""Numbers and text from outside as a reader sees them."""

import pytest

from roarbench.stats.bootstrap import Estimate
from roarbench.stats.places import Place
from roarbench.text import decimals, folded, interval, markdown_table, one_line, percent, place_interval, printable


@pytest.mark.parametrize(
    "place, words",
    [(None, "–"), (Place(3), "3"), (Place(3, 2, 4), "2-4"), (Place(1, 1, 1), "1"), (Place(2, 1, 2), "1-2")],
)
def test_a_place_is_an_interval(place, words):
    assert place_interval(place) == words


@pytest.mark.parametrize(
    "gain, words",
    [
        (Estimate(), "–"),
        (Estimate(7.38), "+7.4"),
        (Estimate(7.38, 6.4, 8.42), "+7.4 [+6.4, +8.4]"),
        (Estimate(-0.04), "0.0"),
        (Estimate(-0.04, -0.96, -0.0), "0.0 [-1.0, 0.0]"),
        (Estimate(-1.26, -2.0, 0.04), "-1.3 [-2.0, 0.0]"),
    ],
)
def test_a_gain_has_its_sign_unless_it_is_zero_in_print(gain, words):
    assert interval(gain) == words


def test_an_interval_of_any_number():
    accuracy = Estimate(0.523, 0.51, 0.536)
    assert interval(accuracy, percent, "%") == "52.3% [51.0, 53.6]"
    assert interval(accuracy, "{:.2f}".format) == "0.52 [0.51, 0.54]"
    assert interval(accuracy._replace(high=None), percent, "%") == "52.3%"


def test_numbers_that_are_missing_are_a_dash():
    assert (percent(0.12345), percent(1.0), percent(None)) == ("12.3", "100.0", "–")
    assert (decimals(0.12345, 3), decimals(None, 3)) == ("0.123", "–")


def test_text_from_outside_is_one_line_that_hides_nothing():
    assert one_line("a\x1b[2J\nb\u202ec\td ") == "a [2J b c d"
    assert printable("a\nb") == "a b"
    assert (one_line("12345", 5), one_line("123456", 5)) == ("12345", "1234…")


def test_a_markdown_table():
    assert markdown_table(("a", "b"), [("1", "2"), ("3", "4")]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"


def test_wide_lines_are_folded_at_words_and_go_on_further_in():
    assert folded("as it is\n  one two three four\nunbreakable-and-long", 12) == (
        "as it is\n  one two\n      three\n      four\nunbreakable-and-long"
    )
