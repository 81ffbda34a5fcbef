"""The file that results travel in, and how one is read that a stranger made. Nothing here imports torch.

A few kilobytes of Parquet can unpack to any size. So the footer has to promise no more than an export takes, and then
the file is read a few rows at a time, with repeated values still packed while they are measured.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from roarbench.errors import StoreError
from roarbench.text import fit_on_one_line, format_bytes

FORMAT = "1"  # counts up when older versions of roarbench cannot read the files any more
COLUMNS = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("record", pa.string()),  # canonical JSON of the run; the key is its hash
        *(pa.field(name, pa.int64()) for name in ("correct", "total")),
        *(pa.field(name, pa.binary()) for name in ("bits", "probability")),
        *(pa.field(name, pa.float64()) for name in ("seconds", "smoothness", "loss")),
        *(pa.field(name, pa.string()) for name in ("rankings", "weights", "code_version", "versions", "hardware")),
        pa.field("created", pa.string()),  # ISO 8601, UTC
        pa.field("source", pa.binary()),  # of a submission; null for others
        pa.field("sha256", pa.string()),  # of the row's other values
    ],
    metadata={"roarbench_format": FORMAT},
)
_SIZED = [field.name for field in COLUMNS if field.type in (pa.string(), pa.binary())]
_BATCH, _ROWS = 64, 5_000_000
_VALUE = 2**22  # bytes of one value: the probabilities of a million images
_TIMES, _SMALL = 50, 2**24  # a file unpacks to so many times its size, or to so many bytes if it is small
_TEXTS = 2**24  # bytes of what a file says of images and suites
_CODECS = {"SNAPPY", "UNCOMPRESSED"}  # others make gigabytes of kilobytes
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED", "RLE_DICTIONARY", "PLAIN_DICTIONARY"}  # others repeat parts of values


class ExportedFile:
    """A file that somebody's `export` wrote, by what it says.

    Attributes:
        metadata: What it says of itself, of images and of suites.

    Raises:
        StoreError: It cannot be read, is of another format, or asks for more than an export takes.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with _report_read_errors(path):
            self._most = max(_TIMES * path.stat().st_size, _SMALL)
            self._file = pq.ParquetFile(path, thrift_string_size_limit=_TEXTS)
            schema = self._file.schema_arrow
            self.metadata: dict[bytes, bytes] = schema.metadata or {}
            found = self.metadata.get(b"roarbench_format", b"").decode(errors="replace")[:20]
        if found != FORMAT or not schema.equals(COLUMNS):
            seen = f"format {found}" if found and found != FORMAT else "no export"
            raise StoreError(f"{path} is {seen}, this version reads format {FORMAT}; export it again with this version")
        self._check_footer()

    def _check_footer(self) -> None:
        about = self._file.metadata
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        chunks = [group.column(number) for group in groups for number in range(group.num_columns)]
        rows = [about.num_rows, *(group.num_rows for group in groups), *(chunk.num_values for chunk in chunks)]
        if not all(0 <= count <= _ROWS for count in rows):
            raise self._too_large(f"{max(rows, key=abs):,} rows, expected {_ROWS:,} at most")
        self._check_size(sum(max(chunk.total_uncompressed_size, chunk.total_compressed_size) for chunk in chunks))
        odd = {chunk.compression for chunk in chunks} - _CODECS
        odd |= {encoding for chunk in chunks for encoding in chunk.encodings} - _ENCODINGS
        if odd:
            raise StoreError(f"{self._path} is packed by {min(odd)}, which no export is; export it again")

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows by column names; StoreError where the file is damaged, or unpacks to too much."""
        unpacked = 0
        with _report_read_errors(self._path):
            packed = pq.ParquetFile(self._path, metadata=self._file.metadata, read_dictionary=_SIZED)
            for batch in packed.iter_batches(_BATCH):
                for name in _SIZED:
                    unpacked += self._unpacked(name, batch.column(name))
                    self._check_size(unpacked)
                yield from batch.to_pylist()

    def _unpacked(self, name: str, column: pa.DictionaryArray) -> int:
        """Return how many bytes the values of a column take; those of a submission's file once, as they are kept."""
        used = pc.value_counts(column.indices.drop_null())
        lengths = pc.binary_length(column.dictionary.take(used.field("values")))
        if (longest := pc.max(lengths).as_py() or 0) > _VALUE:
            raise self._too_large(
                f"a value of {format_bytes(longest)} in {name}, expected {format_bytes(_VALUE)} at most"
            )
        return int(pc.sum(lengths if name == "source" else pc.multiply(lengths, used.field("counts"))).as_py() or 0)

    def _check_size(self, unpacked: int) -> None:
        if unpacked > self._most:
            raise self._too_large(f"{format_bytes(unpacked)} unpacked, expected {format_bytes(self._most)} at most")

    def _too_large(self, seen: str) -> StoreError:
        return StoreError(f"{self._path} asks for {seen}; nothing was added, name what `roarbench export` wrote")


@contextmanager
def _report_read_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as error:
        seen = fit_on_one_line(str(error) or type(error).__name__, 90)
        raise StoreError(f"{path} is not a Parquet file ({seen}); name what `roarbench export` wrote") from None
