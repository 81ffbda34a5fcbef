"""Canonical records and their hashes: what makes a run, a reference, a ranking the same. Nothing here imports torch."""

import hashlib
import json
from dataclasses import MISSING, fields


def record(item: object) -> dict[str, object]:
    """Return a frozen record as plain JSON values, without later fields that still have their default."""
    kept = {}
    for field in fields(item):  # type: ignore[arg-type]
        value = getattr(item, field.name)
        if field.default is not MISSING and value == field.default:  # see Run
            continue
        kept[field.name] = record(value) if hasattr(value, "__dataclass_fields__") else value
    return kept


def canonical(value: object) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, ASCII, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def fingerprint(value: object) -> str:
    """Return the hash of a value's canonical JSON, 32 hex digits (128 bits)."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:32]
