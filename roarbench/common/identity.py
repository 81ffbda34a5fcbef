"""Convert records to canonical JSON, hash them, and check records from files. Nothing here imports torch."""

import hashlib
import json
import math
import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import MISSING, fields
from datetime import datetime
from functools import cache, lru_cache
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

# maximum characters of a text; PostgreSQL's largest integer; maximum items in a list
_LONGEST, _MOST, _ITEMS = 1000, 2**31 - 1, 1000
_CODE = 2**20  # maximum characters of a Python file
_YEARS = range(2000, 2200)
_NAME = re.compile(r"\w[\w .:@-]{0,99}")  # allowed names, because names become parts of paths, addresses and pages
_SHOWN = 60  # maximum characters of a refused value that a message shows
_NAMES = ("name", "dataset", "model")
# a function that encodes a value as canonical JSON: sorted keys, no spaces, ASCII, no NaN
encode_canonically = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode


def make_json_record(item: object) -> dict[str, object]:
    """Convert a frozen record to JSON values; fields with their default value are left out."""
    values = {}
    for name, default in _list_fields_with_defaults(item.__class__):  # type: ignore[arg-type]  # mypy takes records for unhashable
        value = getattr(item, name)
        # newer fields at their default stay out of the hash, see `plan.cells_and_runs.Run`
        if default is MISSING or value != default:
            values[name] = make_json_record(value) if hasattr(value, "__dataclass_fields__") else value
    return values


@cache
def _list_fields_with_defaults(kind: Any) -> list[tuple[str, object]]:
    return [(field.name, field.default) for field in fields(kind)]


def hash_value(value: object) -> str:
    """Return the hash of a value's canonical JSON, 32 hex digits (128 bits)."""
    return hashlib.sha256(encode_canonically(value).encode()).hexdigest()[:32]


def add_checksum(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a JSON file with their own hash as `checksum`."""
    return {**values, "checksum": hash_value(values)}


def check_checksum(values: Mapping[str, Any]) -> None:
    """Raise ValueError if the values of a JSON file do not have the hash of `add_checksum`; earlier files have none."""
    plain = {name: value for name, value in values.items() if name != "checksum"}
    if values.get("checksum", right := hash_value(plain)) != right:
        raise ValueError("its values do not have the recorded checksum")


@lru_cache(4096)
def hash_record(item: Hashable) -> str:
    """Return the hash of a frozen record; hashes are cached, because many runs contain the same records."""
    return hash_value(make_json_record(item))


class Keyed:
    """Mixin for frozen records that are identified by their content."""

    @property
    def key(self) -> str:
        """Return the hash of the whole record, 32 hex digits."""
        return hash_record(self)


def check_field_values(item: Any, checked: Collection[str] = ()) -> None:
    """Raise ValueError if a value of a record from a file does not fit the type of its field.

    The fields `name`, `dataset` and `model` must be plain names, `source` must be the content of a file, and every
    other string must be one printable line; numbers must be finite and fit into a database. Fields in `checked` were
    checked before and are left out.
    """
    for name, kind in _list_field_types(type(item)).items():  # type: ignore[arg-type]  # mypy takes records for unhashable
        if name not in checked:
            _check_value(name, getattr(item, name), kind)


@cache
def _list_field_types(record: Any) -> dict[str, Any]:
    hints = get_type_hints(record)
    return {field.name: hints[field.name] for field in fields(record)}


@cache
def _resolve_type(kind: Any, seen: Any) -> tuple[Any, Any, tuple[Any, ...], bool]:
    """Return the type (of a union, the part for class `seen`), its origin and arguments, and whether it is a record."""
    origin, parts = get_origin(kind), get_args(kind)
    if isinstance(kind, UnionType):
        return _resolve_type(next((part for part in parts if seen is part), parts[0]), seen)
    is_record = hasattr(seen, "__dataclass_fields__") and origin not in (tuple, dict, frozenset)
    return kind, origin, parts, is_record and issubclass(seen, kind)


def _check_value(name: str, value: Any, kind: Any) -> None:
    kind, origin, parts, is_record = _resolve_type(kind, value.__class__)
    if is_record:
        check_field_values(value)
        return
    if origin in (tuple, dict, frozenset):
        fits = isinstance(value, origin) and len(value) <= _ITEMS
        expected = f"a {origin.__name__} of at most {_ITEMS} items"
    elif kind is int:
        fits, expected = type(value) is int and 0 <= value <= _MOST, f"a whole number from 0 to {_MOST:,}"
    elif kind is float:
        fits, expected = type(value) in (int, float) and math.isfinite(value), "a number"
    elif kind is datetime:
        fits = isinstance(value, datetime) and value.tzinfo is not None and value.year in _YEARS
        expected = f"a time with a time zone, in the years {_YEARS[0]} to {_YEARS[-1]}"
    elif kind is not str:
        fits, expected = isinstance(value, kind), f"a {kind.__name__}"
    elif name == "source":
        fits, expected = isinstance(value, str) and len(value) <= _CODE, f"a file of at most {_CODE:,} characters"
    elif name in _NAMES:
        fits = isinstance(value, str) and bool(_NAME.fullmatch(value)) and ".." not in value
        expected = "a name of at most 100 letters, digits, blanks and . _ : @ -, without two dots in a row"
    else:
        fits = isinstance(value, str) and len(value) <= _LONGEST and value.isprintable()
        expected = f"one line of at most {_LONGEST} printable characters"
    if not fits:
        seen = ascii(value)
        raise ValueError(f"{name} is {seen if len(seen) <= _SHOWN else f'{seen[:_SHOWN]}…'}, expected {expected}")
    if origin is not None:
        kinds = parts if origin is dict else parts[:1]
        for items in value.items() if origin is dict else ((item,) for item in value):
            for item, item_kind in zip(items, kinds, strict=True):
                _check_value(name, item, item_kind)
