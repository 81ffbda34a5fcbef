"""Define the identity of rankings, and read and write their files: Arrow files and manifests.

An Arrow file has one row per image: a column of type fixed-size binary holds the image's bit-planes one after the
other. The whole file is one batch, so a reader gets one array. `pyarrow` and Hugging Face `datasets` can read the file.
"""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from roarbench.common.enums import MapNumerics, Split, Unit
from roarbench.common.errors import Hint, StoreError
from roarbench.common.identity import Keyed, check_checksum, encode_canonically, hash_value, make_json_record
from roarbench.compute.ranking import TIE_RULE, TIE_SEED, Layout
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.estimator import Estimator
from roarbench.plan.planned_runs import list_splits_ranked_by, list_stored_levels, make_reference_spec
from roarbench.plan.suite import SuiteSpec


@dataclass(frozen=True)
class RankingSpec(Keyed):
    """Everything that determines an estimator's rankings of a data set.

    A field that was added after a release has a default value; folder names and files omit a field with this value.
    """

    data: str  # fingerprint of the decoded data set
    reference: str  # fingerprint of the explained network; empty for controls
    estimator: str  # fingerprint of the estimator and its parameters
    name: str  # id of the estimator
    unit: Unit
    levels: tuple[float, ...]  # levels at which removal masks can be read from the bit-planes
    shape: tuple[int, int, int]  # channels, height and width of an image
    splits: tuple[Split, ...] = tuple(Split)  # splits whose images are ranked
    # requested settings for maps; the manifest records the actual settings of each file under `made`
    maps: MapNumerics = MapNumerics.FLOAT32

    @property
    def estimator_record(self) -> Estimator:
        return find_estimator(self.name)

    @property
    def layout(self) -> Layout:
        return Layout(self.shape, self.unit, self.levels)


def make_spec_record(spec: RankingSpec) -> dict[str, Any]:
    """Return the spec and the rule for ties as JSON values."""
    identity: dict[str, Any] = json.loads(json.dumps(make_json_record(spec)))
    return identity | {"tie_rule": TIE_RULE, "tie_seed": TIE_SEED}


def make_file_metadata(spec: RankingSpec, split: Split) -> dict[str, Any]:
    """Return the metadata of an Arrow file, with which other programs can read the file."""
    layout = spec.layout
    codes = {"boundaries": list(layout.bin_boundaries), "codes": list(layout.boundary_codes)}
    return make_spec_record(spec) | codes | {"split": split.value}


def make_ranking_spec(
    suite: SuiteSpec, data: str, shape: tuple[int, int, int], estimator: Estimator, unit: Unit, network_number: int = 0
) -> RankingSpec:
    """Return the identity of an estimator's rankings for a suite; suites with equal identities share the rankings.

    The suite need not contain the estimator. `data` is the fingerprint of the images, `shape` has the channels, height
    and width of an image, and `network_number` is the number of the explained network.
    """
    return RankingSpec(
        data=data,
        reference=make_reference_spec(suite, data, network_number).key if estimator.depends_on_network else "",
        estimator=estimator.fingerprint,
        name=estimator.id,
        unit=unit,
        levels=list_stored_levels(suite),
        shape=shape,
        splits=list_splits_ranked_by(suite, estimator, network_number),
        maps=suite.maps if estimator.uses_shared_pass else MapNumerics.FLOAT32,
    )


Planes = NDArray[np.uint8]  # bit-planes of images, (n, planes, width)
_COLUMN = "planes"
FORMAT = 1  # increases when older versions of roarbench cannot read the files
MANIFEST = "manifest.json"
_FILE_KEYS = {"images", "bytes", "sha256", "seconds"}


class MapProvenance(NamedTuple):
    """Provenance of the maps behind stored bit-planes: computing time, network, precision and device."""

    # processor seconds that computed the maps; wall seconds on a GPU; None if not measured, as for given maps
    seconds: float | None
    weights: str = ""  # checksum of the explained network's weights; empty for controls
    precision: str = ""  # precision of the network, with `-stem` if its stem was split off; empty for given maps
    device: str = ""  # `cpu`, or the GPU's name; empty for given maps
    # for each image, the number of noisy copies with the same predicted class as the image; empty if maps have no noisy
    # copies, or if the numbers are not recorded
    stable_copies: Sequence[int] = ()
    # for each image, the share of features that have the map's most frequent value; empty if not recorded
    ties: Sequence[float] = ()
    # counted forward and backward passes, all images together; None if unknown, and for estimators of the table
    passes: tuple[float, float] | None = None


def is_within_one_range(done: Iterable[range], start: int, stop: int) -> bool:
    """Return whether one of the ranges contains all numbers from `start` to `stop - 1`."""
    return any(part.start <= start and stop <= part.stop for part in done)


def write_advice_to_delete(path: Path) -> str:
    """Return the advice to delete a damaged or unexpected folder or file."""
    return f"delete {path} and run again"


class PlanesFile(NamedTuple):
    """Content of an Arrow file."""

    planes: Planes  # uint8 (n, planes, width), read-only view of the memory-mapped file
    metadata: dict[str, Any]


def write_planes(path: Path, planes: Planes, metadata: Mapping[str, Any]) -> None:
    """Write bit-planes, uint8 (n, planes, width), to a file with JSON values as metadata."""
    import pyarrow as pa

    count, *row = planes.shape
    kind = pa.binary(row[0] * row[1])
    json_metadata = {key: json.dumps(value) for key, value in {**metadata, "row": row}.items()}
    schema = pa.schema([pa.field(_COLUMN, kind, nullable=False)], metadata=json_metadata)
    buffers = [None, pa.py_buffer(np.ascontiguousarray(planes))]
    column = pa.FixedSizeBinaryArray.from_buffers(kind, count, buffers)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, schema) as writer:
        writer.write_batch(pa.record_batch([column], schema=schema))


def read_planes(path: Path) -> PlanesFile:
    """Memory-map the bit-planes of a file; raise StoreError if the file is missing or damaged."""
    import pyarrow as pa  # the import takes 0.2 s, and commands that only show tables read no ranking

    try:
        with pa.memory_map(str(path)) as source:
            batch = pa.ipc.open_file(source).get_batch(0)
        metadata = {key.decode(): json.loads(value) for key, value in batch.schema.metadata.items()}
        shape = (batch.num_rows, *metadata.pop("row"))
        flat = np.frombuffer(batch.column(_COLUMN).buffers()[1], np.uint8, int(np.prod(shape)))
    except (OSError, pa.ArrowException, ValueError, KeyError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error}; delete it and run again") from error
    return PlanesFile(flat.reshape(shape), metadata)


def compute_checksum_of_part(planes: Planes, metadata: Mapping[str, Any]) -> int:
    """Return the CRC-32 of a part's metadata, JSON values, and bit-planes, uint8 (n, planes, width)."""
    return zlib.crc32(np.ascontiguousarray(planes).data, zlib.crc32(encode_canonically(metadata).encode()))


def extract_rankings_checksum(manifest: Mapping[str, Any]) -> str:
    """Return the checksum of the rankings with this manifest, or of earlier rankings that they duplicate.

    The checksum is the hash of the files' contents. Under `same_as`, a manifest records the checksum of earlier
    rankings with other splits or levels that remove the same features, so results with either have one checksum.
    """
    return manifest.get("same_as") or hash_ranking_files(manifest)


def hash_ranking_files(manifest: Mapping[str, Any]) -> str:
    """Return the hash of the contents of the files that a manifest lists, with `same_as` left aside."""
    return hash_value({name: file["sha256"] for name, file in manifest["files"].items()})


def load_rankings_checksum(manifest: Path) -> str:
    """Return the checksum of a manifest's rankings; empty if the manifest cannot be read."""
    try:
        return extract_rankings_checksum(json.loads(manifest.read_text()))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return ""


def read_manifest(folder: Path, splits: Iterable[Split]) -> dict[str, Any]:
    """Read the manifest of finished rankings; raise StoreError if it does not describe the files of all splits."""
    path = folder / MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
        if manifest["format"] > FORMAT:
            mismatch = f"{path} has format {manifest['format']}, this version reads up to {FORMAT}"
            raise StoreError(f"{mismatch}; upgrade roarbench")
        check_checksum(manifest)
        if not all(manifest["files"][split].keys() >= _FILE_KEYS for split in splits):
            raise StoreError(f"{path} lacks sizes or checksums of its files; {write_advice_to_delete(folder)}")
    except FileNotFoundError as error:
        raise StoreError(f"no finished rankings in {folder}", Hint("; `{}` creates them", "run")) from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error!r}; {write_advice_to_delete(folder)}") from error
    return manifest
