"""Parse and format the ids of estimators and their parameters, such as `ig(steps=100,baseline=blur)`. No torch."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import NamedTuple

from roarbench.common.enums import OTHER_REFERENCE
from roarbench.common.errors import CallerError

TRUSTED = "trusted"  # mark in the id of a submission that ran without the sandbox: NAME@hash~trusted
CUDA = "cuda"  # mark in the id of a submission whose maps were made on a GPU: NAME@hash~cuda, NAME@hash~trusted~cuda
_ID = re.compile(r"([^@(~]*)(?:@([^(~]*))?(?:\(([^()]*)\))?((?:~[^~()]*)*)")
Value = float | int | str


@dataclass(frozen=True)
class EstimatorId:
    """The parts of an id; the estimator need not exist.

    `NAME(listed)~twin` is an estimator of the table, and `NAME@digits(listed)~trusted~cuda~twin` is a submission. If a
    string has neither form, the whole string is the name, so `str` always returns the string that was parsed.
    """

    name: str  # name of an estimator in the table, or of a submission
    digits: str | None = None  # first digits of the hash of a submission's file; None for estimators of the table
    listed: str | None = None  # text between the parentheses; None without parentheses
    marks: tuple[str, ...] = ()  # `trusted`, if a submission ran without the sandbox, and `cuda`, if it ran on a GPU
    twins: tuple[str, ...] = ()  # kinds of twins: the first is made from the estimator, the second from the first twin

    @classmethod
    @lru_cache(4096)  # a store with 25,000 results parses each id about a hundred times
    def parse(cls, text: str) -> "EstimatorId":
        """Parse an id."""
        if not (match := _ID.fullmatch(text)):
            return cls(text)
        name, digits, listed, tail = match.groups()
        tags = tuple(tail.split("~")[1:])
        marks = () if digits is None else tuple(takewhile(lambda tag: tag in (TRUSTED, CUDA), tags))
        return cls(name, digits, listed, marks, tags[len(marks) :])

    def __str__(self) -> str:
        return "~".join([self.id_without_marks_and_twins, *self.marks, *self.twins])

    @property
    def id_without_parameters(self) -> str:
        """Return the id of the submitted file, `NAME@digits`; for an estimator of the table, its name."""
        return self.name if self.digits is None else f"{self.name}@{self.digits}"

    @property
    def id_without_marks_and_twins(self) -> str:
        return self.id_without_parameters if self.listed is None else f"{self.id_without_parameters}({self.listed})"

    @property
    def submitted(self) -> bool:
        return self.digits is not None

    @cached_property
    def parent(self) -> "EstimatorId":
        """Return the id without its last twin, from which that twin was made; the id itself if it has no twin."""
        return replace(self, twins=self.twins[:-1])

    @property
    def untwinned(self) -> "EstimatorId":
        return replace(self, twins=())

    @property
    def without_parameters(self) -> "EstimatorId":
        """Return the id without parameters; all parameters then have their defaults."""
        return replace(self, listed=None)

    @property
    def explains_next_network(self) -> bool:
        """Return whether the id is a twin that explains the next of a suite's explained networks."""
        return OTHER_REFERENCE in self.twins


def make_twin_id(estimator: str, twin: str) -> str:
    return f"{estimator}~{twin}"


class Parameter(NamedTuple):
    """A parameter that an id may contain."""

    about: str
    expected: str  # description of the allowed values
    read: Callable[[str], Value | None]  # converts a string to a value; None if the string is not allowed


def _make_number_parser(maximum: float) -> tuple[str, Callable[[str], Value | None]]:
    def read(text: str) -> float | None:
        try:
            value = float(f"{float(text):g}")  # rounds to the precision of names
        except ValueError:
            return None
        return value if 0 < value <= maximum else None  # comparisons with NaN are false

    return f"a number above 0, at most {maximum:g}", read


def _make_integer_parser(minimum: int, maximum: int) -> tuple[str, Callable[[str], Value | None]]:
    def read(text: str) -> int | None:
        return int(text) if re.fullmatch("[0-9]{1,9}", text) and minimum <= int(text) <= maximum else None

    return f"a whole number from {minimum} to {maximum}", read


PARAMETERS = {  # in the order of names
    "noise": Parameter("standard deviation of the noise in noisy copies, as a fraction of the image's range",
        *_make_number_parser(2.0)),
    "samples": Parameter("number of noisy copies, masks or coalitions", *_make_integer_parser(2, 100_000)),
    "passes": Parameter("number of forward passes of a search", *_make_integer_parser(2, 100_000)),
    "order": Parameter("order of removal for which a search looks for masks", "morf or lerf",
        lambda text: text if text in ("morf", "lerf") else None),
    "steps": Parameter("number of points on the path from the baseline to the image", *_make_integer_parser(1, 10_000)),
    "baseline": Parameter("image without information: black, the mean of the training images, or the blurred image",
        "black, mean or blur",
        lambda text: {"zero": "black", "black": "black", "mean": "mean", "blur": "blur"}.get(text)),
    "patches": Parameter("number of squares along a side of the image, each removed as a whole",
        *_make_integer_parser(2, 64)),
    "layer": Parameter("block of convolutions whose output is used, counted from the input", "last, block1, block2 …",
        lambda text: text if re.fullmatch("last|block[1-9][0-9]?", text) else None),
    "width": Parameter("standard deviation of the Gaussian, as a fraction of the image's side",
        *_make_number_parser(0.2)),
}  # fmt: skip


def parse_nondefault_parameters(
    estimator: str, defaults: Mapping[str, Value], text: str, full_id: str, table: Mapping[str, Parameter] = PARAMETERS
) -> dict[str, Value]:
    """Parse the parameters of an estimator's id; return those that differ from `defaults`, in the order of `table`.

    `text` is the part of `full_id` between the parentheses. Raises CallerError for unknown parameters and unsuitable
    values.
    """
    values: dict[str, Value] = {}
    for part in text.split(","):
        key, equals, value_text = (word.strip() for word in part.partition("="))
        if not equals or key in values:
            example = ",".join(f"{known}={default}" for known, default in defaults.items()) or "noise=0.05"
            raise CallerError(f"cannot read the parameters of '{full_id}'; write each once, as in ID({example})")
        if key not in defaults:
            raise CallerError(f"'{estimator}' has no parameter '{key}'; it has: {', '.join(defaults) or 'none'}")
        value = table[key].read(value_text)
        if value is None:
            expected = f"expected {table[key].expected}: {table[key].about}"
            raise CallerError(f"{key} of '{estimator}' is '{value_text}', {expected}")
        values[key] = value
    return {key: values[key] for key in table if key in values and values[key] != defaults[key]}


def format_value(value: Value) -> str:
    """Format a value as in ids, with each number in its shortest form."""
    return f"{value:g}" if isinstance(value, float) else str(value)
