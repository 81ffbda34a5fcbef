"""Notes on the sources of images. Nothing here imports torch.

Results identify their images by fingerprint. A note records whether images with a fingerprint came from the data set's
own source or from a folder.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, inspect, select

from roarbench.identity import Keyed, check_field_values, hash_value
from roarbench.store.database import Database, insert_new
from roarbench.store.schema import images

LOCAL = "local"  # kind of images from a caller's folder


@dataclass(frozen=True)
class ImageNote(Keyed):
    """A note that these images came from this source."""

    data: str  # fingerprint of the decoded images and labels
    dataset: str
    limit: int | None  # images per split of a reduced data set; None for the whole
    kind: str  # `bundled`, `hub` or `generated`, the data set's own sources; or `LOCAL`
    folder: str = ""  # path of a local source; only the last part of the path if imported
    files: str = ""  # `hash_source` of a local source; empty if unknown


def read_image_notes(database: Database) -> list[ImageNote]:
    """Return all notes of a store, oldest first; empty for an older store, which lacks the table."""
    columns = [images.c[field.name] for field in fields(ImageNote)]
    with database.begin_read() as connection:
        if not inspect(connection).has_table(images.name):
            return []
        rows = connection.execute(select(*columns).order_by(images.c.created, images.c.key))
        return [ImageNote(**row._mapping) for row in rows]


def store_image_notes(database: Database, new: Iterable[ImageNote]) -> None:
    """Store notes; existing notes stay unchanged."""
    with database.begin_write() as connection:
        insert_image_notes(connection, new)


def insert_image_notes(connection: Connection, new: Iterable[ImageNote]) -> None:
    """Store notes within a transaction."""
    insert_new(connection, images, [{"key": note.key, **vars(note)} for note in new])


def check_imported_note(note: ImageNote) -> ImageNote:
    """Check a note from a file; raise ValueError if a value has the wrong type, or its folder is not a plain name."""
    check_field_values(note)
    if "/" in note.folder:
        raise ValueError(f"folder is {note.folder}, expected a name without '/'")
    return note


def read_decoded_notes(folder: Path, dataset: str) -> list[ImageNote]:
    """Return the sources of a data set's decoded images in a folder, the latest last."""
    notes = []
    for path in sorted(folder.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime_ns):
        with suppress(ValueError, LookupError):  # loading the images reports damage
            notes.append(_make_note(json.loads(path.read_text())))
    return [note for note in notes if note.dataset == dataset]


def _make_note(manifest: Mapping[str, Any]) -> ImageNote:
    source, record = manifest["source"], manifest["record"]
    local = source["kind"] == LOCAL
    folder, files = (source["folder"], hash_source(record, source)) if local else ("", "")
    return ImageNote(manifest["fingerprint"], record["name"], manifest["limit"], source["kind"], folder, files)


def hash_source(record: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    """Return a hash of a data set's record and of the names, sizes and times of its files, wherever the folder is."""
    return hash_value({"record": record, "files": source["files"]})
