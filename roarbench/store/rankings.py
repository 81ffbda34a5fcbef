"""Store rankings on disk as bit-planes; each estimator has one folder for the images of a data set.

    <root>/<data>/<reference or none>/<name>-<unit>-<spec>/
        train.arrow, test.arrow    bit-planes of a split, one row per image (see `ranking_files`); train.arrow is
                                   missing if no network is trained on degraded images
        manifest.json              description and checksums of the files; written last, when the rankings are finished
        parts/                     Arrow files of ranges of images, until all images are ranked

The Arrow files are memory-mapped, so workers on one machine share one copy in memory.
"""

import json
import platform
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from importlib.metadata import version
from itertools import islice, product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roarbench.common.enums import Order, Split
from roarbench.common.errors import StoreError
from roarbench.common.files import (
    compute_sha256,
    convert_write_errors,
    lock_file,
    record_verified_checksum,
    refresh_folder_listings,
    refuse_altered_file,
    write_atomically,
)
from roarbench.common.identity import add_checksum, hash_value
from roarbench.compute.ranking import Layout, find_removed_bits
from roarbench.store.annotations_and_scores import AnnotationKind
from roarbench.store.ranking_files import (
    FORMAT,
    MANIFEST,
    MapProvenance,
    Planes,
    RankingSpec,
    compute_checksum_of_part,
    extract_rankings_checksum,
    hash_ranking_files,
    is_within_one_range,
    load_rankings_checksum,
    make_file_metadata,
    make_spec_record,
    read_manifest,
    read_planes,
    write_advice_to_delete,
    write_planes,
)

_IMAGES_PER_COMPARISON = 512
_MADE = ("seconds", "weights", "precision", "device")  # metadata of a part alone, which each part has
_MEASURED = (*_MADE, "kept", "ties", "passes")  # and that of some parts
_CHECKSUM = "crc32"  # of a part; parts of earlier versions have none


@dataclass(frozen=True)
class Rankings:
    """Finished rankings of an estimator; the bit-planes are memory-mapped."""

    folder: Path
    layout: Layout
    splits: Mapping[Split, Planes]  # bit-planes of each split, uint8 (n, planes, width), read-only
    files: Mapping[str, Mapping[str, Any]]  # size, checksum and map settings of each split's file, from the manifest
    seconds: float | None  # processor seconds that computed the maps, summed over all workers; None if not measured
    weights: str  # checksum of the explained network's weights; empty for controls, or if not recorded
    checksum: str  # checksum from the manifest (`extract_rankings_checksum`)
    # share of noisy copies with the same predicted class as their image, in [0, 1]; None if maps have no noisy copies,
    # or if the share is not recorded
    prediction_stability: float | None = None
    tied_share: float | None = None  # mean share of tied features per map, in [0, 1]; None if not recorded
    passes: tuple[float, float] | None = None  # counted forward and backward passes per image; None if not recorded


@dataclass(frozen=True)
class RankingsStore:
    """Store of all rankings in one folder; the object holds only the path, so sending it to a worker is cheap."""

    root: Path  # folder of all rankings; the first write creates the folder

    def get_folder(self, spec: RankingSpec) -> Path:
        """Return the folder of these rankings, which need not exist."""
        name = f"{spec.name}-{spec.unit}-{hash_value(make_spec_record(spec))[:8]}"
        return self.root / spec.data[:12] / (spec.reference[:12] or "none") / name

    def find_folders(self, rankings_checksum: str) -> list[Path]:
        """Return the folders of finished rankings with this checksum."""
        manifests = sorted(self.root.glob(f"*/*/*/{MANIFEST}"))
        return [path.parent for path in manifests if load_rankings_checksum(path) == rankings_checksum]

    def read_annotations(self) -> dict[str, float]:
        """Return the recorded prediction stability and shares of ties of all finished rankings, as annotations."""
        annotations = {}
        for path in sorted(self.root.glob(f"*/*/*/{MANIFEST}")):
            # a damaged manifest has no share
            with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
                manifest = json.loads(path.read_text())
                for kind, denominator in ((AnnotationKind.STABILITY, "copies"), (AnnotationKind.TIES, "images")):
                    if (share := _compute_share(manifest["files"], kind, denominator)) is not None:
                        annotations[f"{kind} {extract_rankings_checksum(manifest)}"] = share
        return annotations

    @contextmanager
    def lock_batches(self, data: str, group: str, split: Split, first_images: Iterable[int]) -> Iterator[None]:
        """Lock batches of images for one group of estimators against other processes.

        `first_images` has the number of each batch's first image, in ascending order, so that two processes never wait
        for each other.
        """
        folder = self.root / data[:12] / "locks"
        with ExitStack() as locks:
            for start in first_images:
                locks.enter_context(lock_file(folder / f"{group}-{split}-{start}.lock"))
            yield

    def has_finished(self, spec: RankingSpec) -> bool:
        return (self.get_folder(spec) / MANIFEST).exists()

    def has_ranked_range(self, spec: RankingSpec, split: Split, start: int, stop: int) -> bool:
        """Return whether images `start` to `stop - 1` are ranked, in any division into parts; reads folder listings."""
        refresh_folder_listings(*self._list_folders_down_to_parts(spec))
        return self.has_finished(spec) or is_within_one_range(self.list_merged_part_ranges(spec, split), start, stop)

    def have_part_or_all(self, specs: Iterable[RankingSpec], split: Split, start: int, stop: int) -> bool:
        """Return whether all these rankings are finished or have exactly this part; reads no folder listing."""
        return all(self._make_part_path(each, split, start, stop).exists() or self.has_finished(each) for each in specs)

    def list_merged_part_ranges(self, spec: RankingSpec, split: Split) -> list[range]:
        """Return the ranges of images that have parts, in ascending order; adjacent ranges are merged."""
        done: list[range] = []
        for part in _list_parts(self.get_folder(spec) / "parts", split):
            if done and part.start <= done[-1].stop:
                done[-1] = range(done[-1].start, max(done[-1].stop, part.stop))
            else:
                done.append(range(part.start, part.stop))
        return done

    def write_part(
        self, spec: RankingSpec, split: Split, start: int, stop: int, planes: Planes, provenance: MapProvenance
    ) -> None:
        """Store, or replace, the bit-planes of images `start` to `stop - 1`, uint8 (stop - start, planes, width)."""
        expected = (stop - start, spec.layout.planes, spec.layout.bytes_per_plane)
        if planes.shape != expected:
            raise ValueError(f"planes of images {start} … {stop - 1} have shape {planes.shape}, expected {expected}")
        metadata = make_file_metadata(spec, split) | {name: getattr(provenance, name) for name in _MADE}
        metadata |= {"kept": list(provenance.stable_copies)} if provenance.stable_copies else {}
        metadata |= {"ties": [round(share, 6) for share in provenance.ties]} if provenance.ties else {}
        metadata |= {"passes": list(provenance.passes)} if provenance.passes else {}
        metadata[_CHECKSUM] = compute_checksum_of_part(planes, metadata)
        path = self._make_part_path(spec, split, start, stop)
        with convert_write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            own = path.with_suffix(f".{secrets.token_hex(8)}")  # two workers may write the same part
            write_atomically(path, lambda temporary: write_planes(temporary, planes, metadata), own)

    def refuse_other_device(self, spec: RankingSpec, device: str) -> None:
        """Raise StoreError if the first part found is from another kind of device."""
        parts = self.get_folder(spec) / "parts"
        descriptions = [read_planes(path).metadata for path in islice(parts.glob("*.arrow"), 1)]
        _find_value_shared_by_parts(parts, [*descriptions, {"device": device}], "device")

    def join_parts_and_finish(self, spec: RankingSpec, counts: Mapping[Split, int]) -> None:
        """Finish rankings: join the parts into one file per split, and write the manifest.

        `counts` has the number of images of each split. Finished rankings stay unchanged. Joining needs three times the
        disk space of the parts. If the process is killed, the parts remain, and a second call writes the same bytes.

        Raises:
            StoreError: Images are missing, a part is damaged, parts are from different explained networks or kinds of
                devices, or the folder cannot be written.
        """
        folder = self.get_folder(spec)
        parts = folder / "parts"
        with lock_file(folder / "seal.lock", *self._list_folders_down_to_parts(spec)), convert_write_errors(folder):
            if not self.has_finished(spec):
                parts.mkdir(exist_ok=True)
                chosen = (_choose_parts_and_first_images(parts, split, count) for split, count in counts.items())
                used = [part.path for covering in chosen for part, _ in covering]
                descriptions = [read_planes(path).metadata for path in used]
                weights = _find_value_shared_by_parts(parts, descriptions, "weights")
                _find_value_shared_by_parts(parts, descriptions, "device")
                files = {str(split): self._join_split(spec, split, count) for split, count in counts.items()}
                versions = {"python": platform.python_version(), "numpy": np.__version__, "pyarrow": version("pyarrow")}
                manifest = {"format": FORMAT, **make_spec_record(spec), "weights": weights}
                manifest |= {"files": files, "versions": versions}
                if before := self._find_checksum_of_duplicate(spec, weights):
                    manifest["same_as"] = before
                text = json.dumps(add_checksum(manifest), indent=1, sort_keys=True) + "\n"
                write_atomically(folder / MANIFEST, lambda path: path.write_text(text), parts / "manifest.tmp")
            shutil.rmtree(parts, ignore_errors=True)

    def open(self, spec: RankingSpec) -> Rankings:
        """Open finished rankings after checking the sizes and metadata of their files."""
        folder = self.get_folder(spec)
        manifest = read_manifest(folder, spec.splits)
        for key, value in make_spec_record(spec).items():
            if manifest.get(key) != value:
                mismatch = f"{folder} holds rankings with {key} {manifest.get(key)}, expected {value}"
                raise StoreError(f"{mismatch}; {write_advice_to_delete(folder)}")
        files, splits = manifest["files"], {}
        for split in spec.splits:
            path, file = folder / f"{split}.arrow", files[split]
            size = path.stat().st_size if path.exists() else 0
            if size != file["bytes"]:
                raise StoreError(f"{path} has {size} bytes, expected {file['bytes']}; {write_advice_to_delete(folder)}")
            splits[split], metadata = read_planes(path)
            shape = (file["images"], spec.layout.planes, spec.layout.bytes_per_plane)
            if metadata != make_file_metadata(spec, split) or splits[split].shape != shape:
                raise StoreError(f"{path} does not match its manifest; {write_advice_to_delete(folder)}")
        # older rankings of given maps recorded 0 seconds
        times = [file["seconds"] for file in files.values()]
        forward, backward = (_compute_share(files, name, "images") for name in ("forward", "backward"))
        return Rankings(
            folder,
            spec.layout,
            splits,
            files,
            seconds=sum(times) if all(times) else None,
            weights=manifest.get("weights", ""),
            checksum=extract_rankings_checksum(manifest),
            prediction_stability=_compute_share(files, "kept", "copies"),
            tied_share=_compute_share(files, "ties", "images"),
            passes=None if forward is None or backward is None else (forward, backward),
        )

    def list_checksums_with_any_levels(self, spec: RankingSpec) -> set[str]:
        """Return the checksums of all finished rankings whose spec equals `spec`, if splits and levels are ignored."""
        specs = self._find_specs_with_any_levels(spec)
        return {load_rankings_checksum(self.get_folder(ranked) / MANIFEST) for ranked in specs} - {""}

    def find_recorded_checksum(self, spec: RankingSpec, checksum: str) -> str:
        """Return the checksum that results with these rankings record, given that of the same files in another store.

        Both differ if this store's rankings have the checksum of earlier ones. Without these rankings, the given
        checksum is returned.
        """
        with suppress(StoreError):
            manifest = read_manifest(self.get_folder(spec), spec.splits)
            if hash_ranking_files(manifest) == checksum:
                return extract_rankings_checksum(manifest)
        return checksum

    def verify_files(self, spec: RankingSpec, whole: bool = True) -> None:
        """Raise StoreError if files differ from the manifest; `refuse_altered_file` explains `whole`."""
        rankings = self.open(spec)
        for split, file in rankings.files.items():
            path, description = rankings.folder / f"{split}.arrow", f"ranking of {spec.name} ({spec.unit})"
            refuse_altered_file(path, file["sha256"], description, write_advice_to_delete(rankings.folder), whole)

    def _find_checksum_of_duplicate(self, spec: RankingSpec, weights: str) -> str:
        """Return the checksum of finished rankings with other levels that remove the same features; empty if none."""
        planes = {split: read_planes(self.get_folder(spec) / f"{split}.arrow").planes for split in spec.splits}
        for sibling in self._find_specs_with_any_levels(spec):
            with suppress(StoreError):  # damage of other rankings does not concern these rankings
                other = self.open(sibling)
                if other.weights == weights and _are_equal_at_shared_levels(planes, spec.layout, other):
                    return other.checksum
        return ""

    def _find_specs_with_any_levels(self, spec: RankingSpec) -> Iterator[RankingSpec]:
        """Yield the identities of finished rankings that differ from these at most in splits and levels."""
        for manifest in sorted(self.get_folder(spec).parent.glob(f"*/{MANIFEST}")):
            # a damaged folder is not a duplicate
            with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):
                record = json.loads(manifest.read_text())
                splits = tuple(map(Split, record.get("splits", [*Split])))
                other = replace(spec, splits=splits, levels=tuple(record["levels"]))
                identity, names = make_spec_record(other), {field.name for field in fields(other)}
                if all(record.get(name) == identity.get(name) for name in names | identity.keys()):
                    yield other

    def _list_folders_down_to_parts(self, spec: RankingSpec) -> tuple[Path, ...]:
        folder = self.get_folder(spec)
        return (*reversed(folder.parents[:3]), folder, folder / "parts")

    def _make_part_path(self, spec: RankingSpec, split: Split, start: int, stop: int) -> Path:
        return self.get_folder(spec) / "parts" / f"{split}-{start}-{stop}.arrow"

    def _join_split(self, spec: RankingSpec, split: Split, count: int) -> dict[str, Any]:
        """Join a split's parts into one file; return the file's entry for the manifest."""
        path, parts = self.get_folder(spec) / f"{split}.arrow", self.get_folder(spec) / "parts"
        metadata = make_file_metadata(spec, split)
        measured, images = list[dict[str, Any]](), 0  # of the chosen parts, which may overlap
        raw = parts / f"{split}.raw"  # Arrow writes a batch in one piece, and all images together may exceed memory
        with raw.open("wb") as file:
            for part, first in _choose_parts_and_first_images(parts, split, count):
                planes, part_metadata = read_planes(part.path)
                checksum = part_metadata.pop(_CHECKSUM, None)
                if checksum not in (None, compute_checksum_of_part(planes, part_metadata)):
                    seen = f"{part.path} is damaged: its CRC-32 is not the recorded {checksum}"
                    raise StoreError(f"{seen}; {write_advice_to_delete(part.path)}")
                own = {name: part_metadata.pop(name) for name in _MEASURED if name in part_metadata}
                measured.append(own | {name: own.get(name, [])[first - part.start :] for name in ("kept", "ties")})
                images += len(planes)
                if part_metadata != metadata:
                    raise StoreError(f"{part.path} is a part of other rankings; {write_advice_to_delete(part.path)}")
                planes[first - part.start :].tofile(file)
        shape = (count, spec.layout.planes, spec.layout.bytes_per_plane)
        joined = np.memmap(raw, np.uint8, "r", shape=shape)
        write_atomically(path, lambda temporary: write_planes(temporary, joined, metadata), parts / f"{split}.tmp")
        raw.unlink()
        record_verified_checksum(path, digest := compute_sha256(path))
        times = [own["seconds"] for own in measured]
        seconds = None if None in times else sum(filter(None, times))
        entry = {"images": count, "bytes": path.stat().st_size, "sha256": digest, "seconds": seconds}
        stable_copies, ties = ([value for own in measured for value in own[name]] for name in ("kept", "ties"))
        if len(stable_copies) == count:  # only maps from noisy copies record the counts
            entry |= {"copies": count * spec.estimator_record.get_integer("samples"), "kept": sum(stable_copies)}
        entry |= {"ties": sum(ties)} if len(ties) == count else {}
        if measured and all("passes" in own for own in measured):
            passes = zip(*(own["passes"] for own in measured), strict=True)
            forward, backward = (sum(values) * count / images for values in passes)
            entry |= {"forward": forward, "backward": backward}
        made = {(own.get("precision", ""), own.get("device", "")) for own in measured}
        return entry | {"made": [{"precision": precision, "device": device} for precision, device in sorted(made)]}


class _PartFile(NamedTuple):
    """Arrow file with the bit-planes of images `start` to `stop - 1` of a split."""

    start: int
    stop: int
    path: Path


def _list_parts(folder: Path, split: Split) -> list[_PartFile]:
    """List the part files of a split by first image; among files with the same first image, the longest is first."""
    files = []
    for path in folder.glob(f"{split}-*-*.arrow"):
        start, stop = (int(number) for number in path.stem.split("-")[1:])
        files.append(_PartFile(start, stop, path))
    return sorted(files, key=lambda part: (part.start, -part.stop))


def _choose_parts_and_first_images(folder: Path, split: Split, count: int) -> list[tuple[_PartFile, int]]:
    """Choose part files that cover images 0 to `count - 1`; return each with the number of its first image to use.

    Part files overlap if commands divided the images differently. The planes of an image do not depend on the division.
    """
    chosen, done = [], 0
    for part in _list_parts(folder, split):
        if part.start <= done < part.stop <= count:
            chosen.append((part, done))
            done = part.stop
    if done < count:
        raise StoreError(f"no part of {folder} holds {split} image {done} of {count}; rank these images first")
    return chosen


def _find_value_shared_by_parts(parts_folder: Path, part_metadata: Iterable[Mapping[str, Any]], key: str) -> str:
    """Return the value of `weights` or `device` that all parts record; empty if a part records none.

    Raises:
        StoreError: Parts record different values; maps from different kinds of devices could not be reproduced.
    """
    values = {metadata.get(key, "") for metadata in part_metadata}
    if len(values - {""}) > 1:
        seen = f"{parts_folder} has maps with different {key} ({' and '.join(sorted(values - {''}))})"
        raise StoreError(f"{seen}; {write_advice_to_delete(parts_folder)}")
    return values.pop() if len(values) == 1 else ""


def _compute_share(files: Mapping[str, Mapping[str, Any]], numerator: str, denominator: str) -> float | None:
    """Divide the sum of one number over a manifest's files by the sum of another; return None if not recorded."""
    if not files or not all(numerator in file for file in files.values()):
        return None
    return float(sum(file[numerator] for file in files.values()) / sum(file[denominator] for file in files.values()))


def _are_equal_at_shared_levels(planes: Mapping[Split, Planes], layout: Layout, other: Rankings) -> bool:
    """Return whether two rankings of the same images remove the same features, in both orders at all shared levels."""
    for split in planes.keys() & other.splits.keys():
        own, their = planes[split], other.splits[split]
        levels = {*layout.levels} & {*other.layout.levels}
        for start, t, order in product(range(0, len(own), _IMAGES_PER_COMPARISON), levels, Order):
            rows = slice(start, start + _IMAGES_PER_COMPARISON)
            removed = find_removed_bits(own[rows], t, order, layout)
            if not np.array_equal(removed, find_removed_bits(their[rows], t, order, other.layout)):
                return False
    return True
