"""Format ranks, intervals, signed numbers, counts and texts from users for terminal, files and pages."""

import csv
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from textwrap import fill
from typing import TypeAlias

SAME = "≈"  # sign for "not significantly different"
MISSING = "–"
TABLE_WORDS = "a table: its rows are called images, its columns pixels"
Measured: TypeAlias = tuple[float | None, float | None, float | None]  # value, low, high
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # characters with which formulas begin (OWASP, "CSV Injection")


def fold_name(name: str) -> str:
    """Return a name without differences in case, spaces, invisible characters and the form of letters and accents."""
    visible = (letter for letter in unicodedata.normalize("NFKC", name) if unicodedata.category(letter) != "Cf")
    return " ".join("".join(visible).casefold().split())


def format_signed(number: float) -> str:
    """Format a number with its sign and one decimal; a number that rounds to 0 becomes `0.0`, without a sign."""
    text = f"{number:+.1f}"
    return text[1:] if text[1:] == "0.0" else text


def format_percent_number(fraction: float | None) -> str:
    """Format a fraction in percent with one decimal, without `%`; a dash for None."""
    return MISSING if fraction is None else f"{100 * fraction:.1f}"


def format_decimals(number: float | None, count: int) -> str:
    """Format a number with this many decimals; a dash for None."""
    return MISSING if number is None else f"{number:.{count}f}"


def format_interval(measured: Measured, form: Callable[[float], str] = format_signed) -> str:
    """Format a value with its interval, `+7.4 [+6.4, +8.4]`, or the value alone if there is no interval."""
    value, low, high = measured
    if value is None:
        return MISSING
    return form(value) + ("" if low is None or high is None else f" [{form(low)}, {form(high)}]")


def format_half_width(measured: Measured) -> str:
    """Format a value with half the width of its interval, `+7.4 ± 1.0`; an interval that is not central stays."""
    value, low, high = measured
    if value is None or low is None or high is None or abs(high - value - (value - low)) >= 0.1:
        return format_interval(measured)
    return f"{format_signed(value)} ± {(high - low) / 2:.1f}"


def format_passes(passes: float) -> str:
    """Return a number of passes: whole if the count is whole, else with one decimal place."""
    if passes == round(passes):
        return f"{passes:,.0f}"
    return f"{passes:,.1f}" if passes >= 0.05 else "less than 0.1"


def format_rank(interval: tuple[int, int | None, int | None, bool] | None) -> str:
    """Format a rank interval, such as `2-4`; the rank of a row that was added to the suite is in brackets."""
    if interval is None:
        return MISSING
    position, low, high, added = interval
    words = str(position if low is None else low) if low == high else f"{low}-{high}"
    return f"({words})" if added else words


def blank_control_characters(text: str) -> str:
    """Replace control, format and private-use characters, which can move or hide other characters, by spaces."""
    return "".join(" " if unicodedata.category(letter)[0] == "C" else letter for letter in text)


def wrap_lines(text: str, width: int) -> str:
    """Wrap each line to a width; continuation lines are indented by 4."""

    def fold(line: str) -> str:
        rest = " " * (len(line) - len(line.lstrip()) + 4)
        return fill(line, width, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)

    return "\n".join(line if len(line) <= width else fold(line) for line in text.split("\n"))


def fit_on_one_line(text: str, longest: int | None = None) -> str:
    """Format any text as one printable line; if it is longer than `longest`, cut it and add an ellipsis."""
    line = " ".join(blank_control_characters(text).split())
    return line if longest is None or len(line) <= longest else line[: longest - 1] + "…"


def describe_error(error: Exception) -> str:
    """Describe an error by its class and message, on one printable line of at most 160 characters."""
    return fit_on_one_line(f"{type(error).__name__}: {error}".removesuffix(": "), 160)


def describe_type(value: object) -> str:
    """Describe what an object is, for messages: `an int`, `None`, `the class CNN`."""
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value).__name__
    return f"{'an' if kind[0] in 'aeiouAEIOU' or kind == 'ndarray' else 'a'} {kind}"


def capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def typeset_minus_and_percent_signs(text: str) -> str:
    """Replace hyphens before numbers by minus signs, and put a narrow space before percent signs."""
    return re.sub(r"(?<!\w)-(?=\d)", "−", re.sub(" ?%", "\N{NARROW NO-BREAK SPACE}%", text))


def format_markdown_table(headings: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    """Format a Markdown table; the text of the cells is not changed."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def format_records_as_csv(rows: Iterable[Mapping[str, object]]) -> str:
    """Format records with the same fields as CSV; None becomes empty, and an apostrophe is put before formulas."""
    records, text = list(rows), io.StringIO()
    writer = csv.DictWriter(text, list(records[0] if records else {}), lineterminator="\n")
    writer.writeheader()
    for row in records:
        formulas = {name for name, value in row.items() if isinstance(value, str) and value.startswith(FORMULA)}
        writer.writerow({name: f"'{value}" if name in formulas else value for name, value in row.items()})
    return text.getvalue()


def list_some(names: Sequence[object], count: int = 3) -> str:
    """List the first names and the number of further names: `3, 17, 40 and 5 more`."""
    more = f" and {len(names) - count} more" if len(names) > count else ""
    return ", ".join(map(str, names[:count])) + more


def list_quoted(names: Iterable[str], count: int = 3) -> str:
    """List the first names in quotation marks, and the number of further names."""
    return list_some(list(map(repr, names)), count)


def join_with_and(words: Iterable[str]) -> str:
    """Join at least one word to a list in a sentence: `a`, `a and b`, `a, b and c`."""
    *others, last = words
    return f"{', '.join(others)} and {last}" if others else last


def format_count(count: int, noun: str) -> str:
    """Format a count: `no results`, `1 result`, `1,234 results`."""
    return f"{count or 'no':{',' if count else ''}} {noun}{'s' * (count != 1)}"


def format_duration(seconds: float) -> str:
    """Format seconds: `40 s`, `7 min`, `3.5 h`, `5,933 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 360_000 else f"{seconds / 3600:,.0f} h"


def format_bytes(count: float) -> str:
    """Format bytes: `48 kB`, `926 MB`, `1.4 GB`, `2.0 TB`."""
    unit = next((unit for unit in _BYTES if count < 1000 * unit), 1e12)
    return f"{count / unit:.{0 if unit < 1e9 else 1}f} {_BYTES[unit]}"


_BYTES = {1e3: "kB", 1e6: "MB", 1e9: "GB", 1e12: "TB"}
