"""Formats of numbers, and of text from outside, for readers."""

from roarbench.common.text import (
    blank_control_characters,
    describe_error,
    fit_on_one_line,
    format_decimals,
    format_interval,
    format_percent_number,
    format_rank,
    join_with_and,
    wrap_lines,
)
from roarbench.stats.intervals import Estimate
from roarbench.stats.rank_intervals import RankInterval


def test_number_formats_show_digits_signs_intervals_or_dash():
    places = (None, "–"), (RankInterval(3), "3"), (RankInterval(3, 2, 4), "2-4"), (RankInterval(1, 1, 1), "1")
    places += (RankInterval(3, 2, 4, added=True), "(2-4)"), (RankInterval(3, added=True), "(3)")
    assert [format_rank(place) for place, _ in places] == [words for _, words in places]
    for gain, words in (
        (Estimate(), "–"),
        (Estimate(7.38, 6.4, 8.42), "+7.4 [+6.4, +8.4]"),
        (Estimate(-0.04), "0.0"),  # no sign where it is zero in print
        (Estimate(-0.04, -0.96, -0.0), "0.0 [-1.0, 0.0]"),
    ):
        assert format_interval(gain) == words
    accuracy = Estimate(0.523, 0.51, 0.536)
    assert format_interval(accuracy, format_percent_number) == "52.3 [51.0, 53.6]"
    assert format_interval(accuracy, "{:.2f}".format) == "0.52 [0.51, 0.54]"
    assert format_interval(accuracy._replace(high=None), format_percent_number) == "52.3"
    assert [format_percent_number(share) for share in (0.12345, 1.0, None)] == ["12.3", "100.0", "–"]
    assert (format_decimals(0.12345, 3), format_decimals(None, 3)) == ("0.123", "–")


def test_join_with_and_has_commas_before_the_last_two_words():
    joined = [join_with_and(words) for words in (["a"], ["a", "b"], iter("abc"))]
    assert joined == ["a", "a and b", "a, b and c"]


def test_external_text_is_printable_on_one_line():
    assert fit_on_one_line("a\x1b[2J\nb\u202ec\td ") == "a [2J b c d"
    assert blank_control_characters("a\nb") == "a b"
    assert describe_error(ValueError("a\nb")) == "ValueError: a b"
    assert describe_error(AssertionError()) == "AssertionError"
    assert (fit_on_one_line("12345", 5), fit_on_one_line("123456", 5)) == ("12345", "1234…")
    lines = ("as it is", "  one two", "      three", "      four", "unbreakable-and-long")
    assert wrap_lines("as it is\n  one two three four\nunbreakable-and-long", 12) == "\n".join(lines)
