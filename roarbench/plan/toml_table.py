"""Write TOML values, and read TOML tables by key and type; unknown keys raise CallerError."""

import json
import math
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from roarbench.common.errors import CallerError, UnknownName
from roarbench.common.text import fit_on_one_line


def format_toml(value: object) -> str:
    """Write a string, number (also of NumPy) or list as TOML: as JSON, with the character DEL escaped."""
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

    def read_numbers(self, key: str, low: float = -math.inf, high: float = math.inf) -> tuple[float, ...]:
        """Return a list of numbers from `low` to `high`."""
        limits = f" from {low:g} to {high:g}" if math.isfinite(high) else ""
        expected = f"a list of numbers{limits}; write {{key}} = [0.5]"
        fits = _make_list_check(lambda value: _is_number(value) and low <= value <= high)
        return tuple(map(float, self._read_value(key, None, expected, fits)))

    def read_section(self, key: str) -> "TomlTable":
        """Return the table with this key, or an empty table if there is none."""
        expected = "a table; write [{key}] on a line of its own, with its values below"
        value = self._read_value(key, {}, expected, lambda value: isinstance(value, dict))
        return TomlTable(value, f"{self._where}, [{key}]" if "[" not in self._where else f"{self._where[:-1]}.{key}]")

    def read_sections(self, key: str, shared: Iterable[str]) -> "list[TomlTable]":
        """Return the tables of a list, completed by this table's values of the keys in `shared`.

        If there is no list, return one table with these values.
        """
        common = {name: self._values[name] for name in shared if name in self._values}
        self._read_keys |= set(shared)
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

    @contextmanager
    def check_in_block(self) -> Iterator[None]:
        """Add the file and table to each CallerError of the block; refuse keys that the block has not read."""
        try:
            yield
            for key in self._values:
                if key not in self._read_keys:
                    known = UnknownName("key", key, self._read_keys)
                    raise CallerError(f"{known}; some keys exclude others (docs/own-data.md)")
        except CallerError as error:
            has_location = str(error).startswith(self._where)
            raise CallerError(str(error) if has_location else f"{self._where}: {error}", error.hint) from None

    def _read_value(self, key: str, default: Any, expected: str, fits: Callable[[Any], object]) -> Any:
        self._read_keys.add(key)
        value = self._values.get(key, default)
        if value is None:  # TOML has no null
            raise CallerError(f"{self._where}: {key} is missing, expected {expected.format(key=key)}")
        if key in self._values and not fits(value):
            shown = fit_on_one_line(repr(value), 60)
            raise CallerError(f"{self._where}: {key} is {shown}, expected {expected.format(key=key)}")
        return value


def _is_number(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)


def _make_list_check(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(fits, value))
