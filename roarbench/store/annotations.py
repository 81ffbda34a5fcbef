"""Notes on submissions and rankings that are stored beside results and exported with them. Imports no torch.

Of an entry, what `validate` found; of rankings, on what share of the noisy copies the network keeps its prediction.
That rankings were imported is noted here, too, and stays.
"""

import json
import re
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, inspect, select

from roarbench.estimators.ids import EstimatorId
from roarbench.store.database import Database, insert_new, select_matching
from roarbench.store.schema import remarks
from roarbench.submissions.file import Warned


class Kind(StrEnum):
    """Name what a remark is on: an entry by its id, rankings by their checksum, or a run by its key."""

    VALIDATE = "validate"
    KEPT = "kept"
    IMPORTED = "imported"
    MASKS = "masks"  # two bytes of the hash of each test image's removal mask, in base 64


def note_findings(database: Database, entry: str, found: Collection[Warned]) -> None:
    """Note what `validate` found of an entry; what it found before is replaced."""
    key = f"{Kind.VALIDATE} {entry}"
    with database.write() as connection:
        connection.execute(delete(remarks).where(remarks.c.key == key))
        put_remarks(connection, {key: list(found)})


def put_remarks(connection: Connection, new: Mapping[str, Any]) -> None:
    """Store remarks by kind and subject within a transaction; those that are there already stay as they are."""
    insert_new(connection, remarks, [{"key": key, "value": value} for key, value in new.items()])


def read_annotations(database: Database, kind: Kind, subjects: Collection[str]) -> dict[str, Any]:
    """Return what is noted of these, by subject."""
    with database.read() as connection:
        return find_annotations(connection, kind, subjects)


def find_annotations(connection: Connection, kind: Kind, subjects: Collection[str]) -> dict[str, Any]:
    """Return the same within a transaction."""
    if not subjects or not inspect(connection).has_table(remarks.name):
        return {}
    keys = {f"{kind} {subject}": subject for subject in subjects}
    return {keys[row.key]: row.value for row in select_matching(connection, select(remarks), remarks.c.key, keys)}


def read_findings(database: Database, estimators: Collection[str]) -> dict[str, str]:
    """Return in words what `validate` found of the submissions among these, their twins and other forms included."""
    entries = {name: asked.entry for name in estimators if (asked := EstimatorId.read(name)).submitted}
    found = read_annotations(database, Kind.VALIDATE, set(entries.values()))
    lists = {name: found[entry] for name, entry in entries.items() if found.get(entry)}
    return {name: f"`validate` found: {', '.join(words)}" for name, words in lists.items()}


def export_remarks(database: Database, kept: Mapping[str, float]) -> bytes:
    """Return all remarks for an export, with the shares that the store's folder says."""
    with database.read() as connection:
        here = inspect(connection).has_table(remarks.name)
        own = select(remarks).where(~remarks.c.key.startswith(f"{Kind.IMPORTED} "))
        stored = {row.key: row.value for row in connection.execute(own)} if here else {}
    return json.dumps(stored | {f"{Kind.KEPT} {checksum}": share for checksum, share in kept.items()}).encode()


def check_remarks(text: bytes) -> dict[str, Any]:
    """Return the remarks of an export; ValueError where one is none."""
    found = {}
    for key, value in dict(json.loads(text)).items():
        kind, _, subject = key.partition(" ")
        if len(subject) > 400 or not _is_sound(kind, value):
            raise ValueError(f"'{key[:60]}' is not a remark")
        found[key] = value
    return found


def _is_sound(kind: str, value: Any) -> bool:
    """Return whether a value from outside is what remarks of this kind have."""
    if kind == Kind.KEPT:
        return isinstance(value, float | int) and 0 <= value <= 1
    if kind == Kind.MASKS:
        return isinstance(value, str) and re.fullmatch("[A-Za-z0-9+/]*=*", value) is not None
    return kind == Kind.VALIDATE and isinstance(value, list) and set(value) <= {*Warned}
