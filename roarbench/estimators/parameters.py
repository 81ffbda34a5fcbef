"""Parameters in the name of an estimator, `ig(steps=100,baseline=blur)`, and how they are read. No torch here."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from roarbench.errors import CallerError

Value = float | int | str


class Parameter(NamedTuple):
    """A value that may stand in the name of an estimator."""

    about: str
    expected: str  # which values there are
    read: Callable[[str], Value | None]  # takes one as it is written; returns None for what is none


def _number(most: float) -> tuple[str, Callable[[str], Value | None]]:
    def read(text: str) -> float | None:
        try:
            value = float(f"{float(text):g}")  # as exact as names are
        except ValueError:
            return None
        return value if 0 < value <= most else None  # NaN is not

    return f"a number above 0, at most {most:g}", read


def _count(least: int, most: int) -> tuple[str, Callable[[str], Value | None]]:
    def read(text: str) -> int | None:
        return int(text) if re.fullmatch("[0-9]{1,9}", text) and least <= int(text) <= most else None

    return f"a whole number from {least} to {most}", read


def _word(pattern: str, expected: str) -> tuple[str, Callable[[str], Value | None]]:
    return expected, lambda text: text if re.fullmatch(pattern, text) else None


PARAMETERS = {  # in the order in which names have them
    "noise": Parameter("standard deviation of the noise on copies, as a share of the image's range", *_number(2.0)),
    "samples": Parameter("noisy copies, masks or coalitions that are drawn", *_count(2, 100_000)),
    "steps": Parameter("points on the path to the image", *_count(1, 10_000)),
    "baseline": Parameter(
        "what an image is without its features: black, the mean of the training images, or the image blurred",
        "black, mean or blur",
        lambda text: {"zero": "black", "black": "black", "mean": "mean", "blur": "blur"}.get(text),
    ),
    "patches": Parameter("squares along a side of the image that features are joined to", *_count(2, 64)),
    "layer": Parameter(
        "block of convolutions whose output is looked at, counted from the image on",
        *_word("last|block[1-9][0-9]?", "last, block1, block2 …"),
    ),
    "width": Parameter("standard deviation of the Gaussian, as a share of the image's side", *_number(0.2)),
}


def read_values(
    owner: str, own: Mapping[str, Value], written: str, name: str, table: Mapping[str, Parameter] = PARAMETERS
) -> dict[str, Value]:
    """Return the non-default parameters in an estimator's name, in the order of the table.

    `format_value` stands between the parentheses of the name; `own` are the owner's parameters with their defaults.
    CallerError where it does not have these parameters, or not with these values.
    """
    values: dict[str, Value] = {}
    for part in written.split(","):
        key, equals, text = (word.strip() for word in part.partition("="))
        if not equals or key in values:
            example = ",".join(f"{known}={own[known]}" for known in own) or "noise=0.05"
            raise CallerError(f"cannot read the parameters of '{name}'; write each once, as in ID({example})")
        if key not in own:
            raise CallerError(f"'{owner}' has no parameter '{key}'; it has: {', '.join(own) or 'none'}")
        value = table[key].read(text)
        if value is None:
            expected = f"expected {table[key].expected}: {table[key].about}"
            raise CallerError(f"{key} of '{owner}' is '{text}', {expected}")
        values[key] = value
    return {key: values[key] for key in table if key in values and values[key] != own[key]}


def format_value(value: Value) -> str:
    """Return a value as names have it, each number in its shortest form."""
    return f"{value:g}" if isinstance(value, float) else str(value)
