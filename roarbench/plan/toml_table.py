"""Write TOML values, and read TOML tables by key and type; unknown keys raise CallerError."""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from roarbench.common.errors import CallerError, Hint, UnknownName

_SIMILAR = 0.75  # minimum similarity, in [0, 1], of a misspelt key; `recipe` and `reference_recipe` have 0.55


def format_toml(value: object) -> str:
    """Write a string, number (also of NumPy) or list as TOML: as JSON, with the character DEL escaped."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_toml, value))}]"
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # `nan`, which JSON writes as `NaN`
    return json.dumps(value, ensure_ascii=False, default=lambda number: number.item()).replace("\x7f", "\\u007f")


def parse_toml(text: str, path: Path) -> "TomlTable":
    """Parse the text of the file at this path; raise CallerError, which names the path, if the text is not TOML."""
    try:
        return TomlTable(tomllib.loads(text), str(path))
    except tomllib.TOMLDecodeError as error:
        raise CallerError(f"{path} is not TOML: {error}; strings are written in quotation marks") from None


class TomlTable:
    """A table of a TOML file; CallerError for a missing or wrong value begins with `where`, the file and the table."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values, self._where = values, where
        self._read_keys: set[str] = set()

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def read_text(self, key: str, default: str | None = None) -> str:
        """Return a string that is not empty; if `default` is None, the key is required."""

        def fits(value: object) -> bool:
            return isinstance(value, str) and bool(value.strip() or value == default)

        return str(self._read_value(key, default, 'a string; write {key} = "…"', fits))

    def read_flag(self, key: str, default: bool) -> bool:
        """Return a boolean value."""
        expected = "true or false; write {key} = " + str(not default).lower()
        return bool(self._read_value(key, default, expected, lambda value: isinstance(value, bool)))

    def read_number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Return a number from `low` to `high`."""
        expected = f"a number from {low:g} to {high:g}; write {{key}} = {default or high:g}"
        return float(self._read_value(key, default, expected, lambda value: _is_number(value) and low <= value <= high))

    def read_integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """Return an integer from `low` to `high`."""
        expected = f"a whole number from {low} to {high}; write {{key}} = {default or low}"
        return int(self._read_value(key, default, expected, lambda value: type(value) is int and low <= value <= high))

    def read_texts(self, key: str, default: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """Return a list of strings without duplicates."""
        expected = 'a list of names; write {key} = ["…"]'
        fits = _make_list_check(lambda value: isinstance(value, str))
        return tuple(dict.fromkeys(self._read_value(key, default, expected, fits)))

    def read_text_or_texts(self, key: str) -> tuple[str, ...]:
        """Return a string, or a list of strings without duplicates, as a tuple."""
        return (self.read_text(key),) if isinstance(self._values.get(key), str) else self.read_texts(key)

    def has_value(self, key: str, value: str) -> bool:
        """Return whether a key has this value; if so, the key counts as read."""
        self._read_keys |= {key} if self._values.get(key) == value else set()
        return bool(self._values.get(key) == value)

    def read_and_sort_numbers(self, key: str, low: float, high: float) -> tuple[float, ...]:
        """Return a list of numbers from `low` to `high`, sorted and without duplicates."""
        expected = f"a list of numbers from {low:g} to {high:g}; write {{key}} = [{(low + high) / 2:.1g}]"
        fits = _make_list_check(lambda value: _is_number(value) and low <= value <= high)
        return tuple(sorted({float(number) for number in self._read_value(key, None, expected, fits)}))

    def read_numbers(self, key: str) -> tuple[float, ...]:
        """Return a list of numbers, unsorted."""
        expected = "a list of numbers; write {key} = [0.485, 0.456, 0.406]"
        return tuple(map(float, self._read_value(key, None, expected, _make_list_check(_is_number))))

    def read_section(self, key: str) -> "TomlTable":
        """Return the table with this key, or an empty table if there is none."""
        expected = "a table; write [{key}] on a line of its own, with its values below"
        if key not in self._values:
            self._refuse_misspelled_key(key, dict)
        value = self._read_value(key, {}, expected, lambda value: isinstance(value, dict))
        return TomlTable(value, f"{self._where}, [{key}]" if "[" not in self._where else f"{self._where[:-1]}.{key}]")

    def read_sections(self, key: str, shared: Iterable[str]) -> "list[TomlTable]":
        """Return the tables of a list, completed by this table's values of the keys in `shared`.

        If there is no list, return one table with these values.
        """
        common = {name: self._values[name] for name in shared if name in self._values}
        self._read_keys |= set(shared)
        for name in shared:
            if name not in common:
                self._refuse_misspelled_key(name, object)
        if key not in self._values:
            return [TomlTable(common, self._where)]
        expected = "a list of tables; write [[{key}]] on a line of its own, with its values below"
        sections = self._read_value(key, None, expected, _make_list_check(lambda value: isinstance(value, dict)))
        return [TomlTable(common | section, f"{self._where}, [[{key}]] {n}") for n, section in enumerate(sections, 1)]

    def take_unread_values(self) -> dict[str, Any]:
        """Return the values that were not read yet, and mark them as read."""
        unread = {key: value for key, value in self._values.items() if key not in self._read_keys}
        self._read_keys |= set(unread)
        return unread

    def refuse_unread_keys(self) -> None:
        """Raise CallerError if a key was not read, because roarbench does not know such a key."""
        for key in self._values:
            if key not in self._read_keys:
                raise CallerError(f"{self._where}: {UnknownName('key', key, self._read_keys)}")

    @contextmanager
    def add_location_to_errors(self) -> Iterator[None]:
        """Put the file and table in front of the message of each CallerError that the `with` block raises."""
        try:
            yield
        except CallerError as error:
            raise self.make_error(str(error), error.hint) from None

    def make_error(self, seen: str, hint: Hint | None = None) -> CallerError:
        """Return an error whose message begins with this file and table."""
        return CallerError(f"{self._where}: {seen}", hint)

    def _refuse_misspelled_key(self, key: str, kind: type) -> None:
        unread = [name for name in self._values if name not in self._read_keys and isinstance(self._values[name], kind)]
        for name in get_close_matches(key, unread, n=1, cutoff=_SIMILAR):
            raise self.make_error(f"no key '{name}'; did you mean '{key}'?")

    def _read_value(self, key: str, default: Any, expected: str, fits: Callable[[Any], object]) -> Any:
        self._read_keys.add(key)
        value = self._values.get(key, default)
        if value is None:  # TOML has no null
            self._refuse_misspelled_key(key, object)
            raise self.make_error(f"{key} is missing, expected {expected.format(key=key)}")
        if key in self._values and not fits(value):
            shown = repr(value) if len(repr(value)) < 60 else f"{repr(value)[:60]}…"
            raise self.make_error(f"{key} is {shown}, expected {expected.format(key=key)}")
        return value


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def _make_list_check(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(fits, value))
