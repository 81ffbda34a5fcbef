"""Store the source of each set of decoded images: the data set's own source or a user's folder.

Results identify their images by a fingerprint. Nothing here imports torch.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from roarbench.common.identity import Keyed, check_field_values, hash_value
from roarbench.store.database import Database, insert_new
from roarbench.store.schema import images

LOCAL = "local"  # kind of images from a caller's folder


@dataclass(frozen=True)
class ImageSource(Keyed):
    """Source of a set of images, which a fingerprint identifies."""

    data: str  # fingerprint of the decoded images and labels
    dataset: str
    limit: int | None  # images per split of a reduced data set; None for the whole set
    kind: str  # `bundled`, `hub` or `generated`, the data set's own sources; or `LOCAL`
    folder: str = ""  # path of a local source; only the last part of the path if imported
    files: str = ""  # hash of a local source (`hash_record_and_files`); empty if unknown


def read_image_sources(database: Database) -> list[ImageSource]:
    """Return all image sources of a store, oldest first."""
    columns = [images.c[field.name] for field in fields(ImageSource)]
    with database.begin_read() as connection:
        rows = connection.execute(select(*columns).order_by(images.c.created, images.c.key))
        return [ImageSource(**row._mapping) for row in rows]


def store_image_sources(database: Database, new: Iterable[ImageSource]) -> None:
    """Store image sources; existing ones stay unchanged."""
    with database.begin_exclusive_write() as connection:
        insert_image_sources(connection, new)


def insert_image_sources(connection: Connection, new: Iterable[ImageSource]) -> None:
    """Store image sources within a transaction."""
    insert_new(connection, images, [{"key": source.key, **vars(source)} for source in new])


def check_imported_source(source: ImageSource) -> ImageSource:
    """Check a source that was read from an export; raise ValueError for wrong types or a folder with a path."""
    check_field_values(source)
    if "/" in source.folder:
        raise ValueError(f"folder is {source.folder}, expected a name without '/'")
    return source


def read_sources_of_decoded_images(folder: Path, dataset: str) -> list[ImageSource]:
    """Return the sources of a data set's decoded images in a folder, oldest first."""
    sources = []
    for path in sorted(folder.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime_ns):
        with suppress(ValueError, LookupError):  # the code that loads the images reports a damaged manifest
            sources.append(_make_image_source(json.loads(path.read_text())))
    return [source for source in sources if source.dataset == dataset]


def read_test_labels(folder: Path, fingerprint: str) -> NDArray[np.int64] | None:
    """Return the labels of the decoded test images with a fingerprint, int64 (n,); None if they are not in a folder."""
    for path in folder.glob("*/manifest.json"):
        with suppress(ValueError, LookupError, OSError):
            if json.loads(path.read_text())["fingerprint"] == fingerprint:
                return np.fromfile(path.parent / "test-labels.bin", np.int64)
    return None


def _make_image_source(manifest: Mapping[str, Any]) -> ImageSource:
    source, record = manifest["source"], manifest["record"]
    local = source["kind"] == LOCAL
    folder, files = (source["folder"], hash_record_and_files(record, source)) if local else ("", "")
    return ImageSource(manifest["fingerprint"], record["name"], manifest["limit"], source["kind"], folder, files)


def hash_record_and_files(record: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    """Return a hash of a data set's record and of its files' names, sizes and times, without the folder's path."""
    return hash_value({"record": record, "files": source["files"]})
