"""One Arrow file of bit-planes: a row per image, its planes one after the other in a column of fixed-size binary.

The whole file is one batch, so a reader sees one array; `pyarrow` and Hugging Face `datasets` read it as it is.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.errors import StoreError

_COLUMN = "planes"


class PlanesFile(NamedTuple):
    """Content of an Arrow file of bit-planes.

    Attributes:
        planes: uint8 (n, planes, width), read-only, a view of the memory-mapped file.
        about: What was written with them.
    """

    planes: NDArray[np.uint8]
    about: dict[str, Any]


def write_planes(path: Path, planes: NDArray[np.uint8], about: Mapping[str, Any]) -> None:
    """Write bit-planes, uint8 (n, planes, width), and what they are, JSON values, as the file's metadata."""
    import pyarrow as pa

    count, *row = planes.shape
    kind = pa.binary(row[0] * row[1])
    metadata = {key: json.dumps(value) for key, value in {**about, "row": row}.items()}
    schema = pa.schema([pa.field(_COLUMN, kind, nullable=False)], metadata=metadata)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(planes))]
    column = pa.FixedSizeBinaryArray.from_buffers(kind, count, buffers)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([column], schema=schema))


def read_planes(path: Path) -> PlanesFile:
    """Open bit-planes where they lie; nothing but the header is read.

    Raises:
        StoreError: There is no such file, or it is damaged.
    """
    import pyarrow as pa  # takes .2 s, and a table needs no ranking

    try:
        with pa.memory_map(str(path)) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        about = {key.decode(): json.loads(value) for key, value in batch.schema.metadata.items()}
        shape = (batch.num_rows, *about.pop("row"))
        flat = np.frombuffer(batch.column(_COLUMN).buffers()[1], np.uint8, int(np.prod(shape)))
    except (OSError, pa.ArrowException, ValueError, KeyError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error}; delete it and run again") from error
    return PlanesFile(flat.reshape(shape), about)
