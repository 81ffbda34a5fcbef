"""Rankings on disk: the bit-planes of all images of a data set, one folder for each estimator.

    <root>/<data>/<reference or none>/<name>-<unit>-<spec>/
        train.arrow, test.arrow    one row per image: the column `planes`, its bit-planes one after the other;
                                   only test.arrow where no network is trained on degraded images
        manifest.json              what this is, with the files' checksums; written last, so a folder with it is done
        parts/                     ranges of images, while workers make them

The Arrow files are read where they lie, through a memory map: workers on one machine share one copy in memory.
"""

import json
import platform
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow
from numpy.typing import NDArray

from roarbench.calls import propose
from roarbench.errors import StoreError
from roarbench.estimators import Estimator, find_estimator
from roarbench.files import locked, look_anew, sha256, write_whole, writing
from roarbench.identity import fingerprint, record
from roarbench.kernels.ranking import TIE_RULE, TIE_SEED, Layout
from roarbench.store.map_provenance import ExplainedBatches, MapProvenance, merged, without
from roarbench.store.planes import read_planes, write_planes
from roarbench.terms import Precision, Split, Unit

FORMAT = 1  # counts up when older versions of roarbench cannot read the files any more
_MANIFEST = "manifest.json"
_FILE_KEYS = {"images", "bytes", "sha256", "seconds"}


@dataclass(frozen=True)
class RankingSpec:
    """Identity of rankings: all that fixes them.

    A field added after a release gets a default and is left out of folders and files while it has that default.

    Attributes:
        data: Fingerprint of the decoded data set.
        reference: Fingerprint of the explained model; empty for controls.
        estimator: Fingerprint of the estimator and its parameters.
        name: The estimator's id.
        unit: What one feature is.
        levels: Levels that can be read.
        shape: Channels, height and width of an image.
        splits: Whose images are ranked.
        maps: What the explained model was to compute with; what it did is in the manifest, for each file under `made`.
    """

    data: str
    reference: str
    estimator: str
    name: str
    unit: Unit
    levels: tuple[float, ...]
    shape: tuple[int, int, int]
    splits: tuple[Split, ...] = tuple(Split)
    maps: Precision = Precision.FLOAT32

    @property
    def estimator_record(self) -> Estimator:
        """Return what ranks the features."""
        return find_estimator(self.name)

    @property
    def key(self) -> str:
        """Return the hash of the whole record, 32 hex digits."""
        return fingerprint(record(self))

    @property
    def layout(self) -> Layout:
        """Return what the bit-planes hold."""
        return Layout(self.shape, self.unit, self.levels)


@dataclass(frozen=True)
class Rankings:
    """Finished rankings, opened.

    Attributes:
        folder: Where they lie.
        layout: What the bit-planes hold.
        splits: Bit-planes of each split that was ranked, uint8 (n, planes, width), read-only, views of the files.
        files: Size and checksum of each file, and how its maps were made, as the manifest has them.
        seconds: Processor time spent on the maps, all workers together.
        weights: Checksum of the explained model's weights; empty for controls, and where it was not noted.
        kept: Share of the noisy copies of all images that the model puts into the class that it predicts for the image
            itself, in [0, 1]; None for maps without noisy copies, and where it was not noted.
    """

    folder: Path
    layout: Layout
    splits: Mapping[Split, NDArray[np.uint8]]
    files: Mapping[str, Mapping[str, Any]]
    seconds: float
    weights: str
    kept: float | None = None

    def planes(self, split: Split) -> NDArray[np.uint8]:
        """Return the bit-planes of one split, uint8 (n, planes, width)."""
        return self.splits[split]

    @property
    def checksum(self) -> str:
        """Return the hash of the files' contents, as the manifest has them."""
        return _content(self.files)

    def verify(self) -> None:
        """Read every byte and compare.

        Raises:
            StoreError: A file is not the one that was written.
        """
        for split, file in self.files.items():
            path = self.folder / f"{split}.arrow"
            if sha256(path) != file["sha256"]:
                raise StoreError(f"{path} was altered: its checksum is not the manifest's; {_remedy(self.folder)}")


@dataclass(frozen=True)
class RankingsStore:
    """All rankings under one folder. Cheap to make and to send to a worker: it holds nothing but the path.

    Attributes:
        root: The folder; made when something is written.
    """

    root: Path

    def folder(self, spec: RankingSpec) -> Path:
        """Return where these rankings lie, finished or not."""
        name = f"{spec.name}-{spec.unit.stem}-{fingerprint(_identity(spec))[:8]}"
        return self.root / spec.data[:12] / (spec.reference[:12] or "none") / name

    def finished(self, checksum: str) -> list[Path]:
        """Return the folders of finished rankings of this checksum."""
        return [path.parent for path in sorted(self.root.glob(f"*/*/*/{_MANIFEST}")) if _checksum(path) == checksum]

    def kept_shares(self) -> dict[str, float]:
        """Return `Rankings.kept` by checksum, of those finished rankings that say it."""
        found = {}
        for path in sorted(self.root.glob(f"*/*/*/{_MANIFEST}")):
            with suppress(OSError, ValueError, TypeError, LookupError, AttributeError):  # damaged: says nothing
                files = json.loads(path.read_text())["files"]
                if (share := _kept(files)) is not None:
                    found[_content(files)] = share
        return found

    @contextmanager
    def lock(self, data: str, group: str, split: Split, starts: Iterable[int]) -> Iterator[None]:
        """Keep other processes from ranking the same images by the same group of estimators at the same time.

        Args:
            data: Fingerprint of the images.
            group: Of estimators that are computed together.
            split: Of which images.
            starts: First images of the batches, ascending, so that no two processes wait for each other.
        """
        folder = self.root / data[:12] / "locks"
        with ExitStack() as locks:
            for start in starts:
                locks.enter_context(locked(folder / f"{group}-{split}-{start}.lock"))
            yield

    def has(self, spec: RankingSpec) -> bool:
        """Return whether these rankings are finished."""
        return (self.folder(spec) / _MANIFEST).exists()

    def has_part(self, spec: RankingSpec, split: Split, start: int, stop: int) -> bool:
        """Return whether the images `start` … `stop - 1` are done by now, however they were divided; lists folders."""
        look_anew(*self._folders(spec))
        return self.has(spec) or covers(self.ranked(spec, split), start, stop)

    def has_file(self, spec: RankingSpec, split: Split, start: int, stop: int) -> bool:
        """Return whether these rankings are finished, or have just this part; looks at two names and lists nothing."""
        return self._part(spec, split, start, stop).exists() or self.has(spec)

    def ranked(self, spec: RankingSpec, split: Split) -> list[range]:
        """Return the ranges of images of which there are parts, ascending; ranges that meet are one."""
        done: list[range] = []
        for part in _parts(self.folder(spec) / "parts", split):
            if done and part.start <= done[-1].stop:
                done[-1] = range(done[-1].start, max(done[-1].stop, part.stop))
            else:
                done.append(range(part.start, part.stop))
        return done

    def write_part(
        self,
        spec: RankingSpec,
        split: Split,
        start: int,
        stop: int,
        planes: NDArray[np.uint8],
        provenance: MapProvenance,
    ) -> None:
        """Keep the bit-planes of the images `start` … `stop - 1`; a part that is there already is replaced.

        Args:
            spec: Which rankings.
            split: Of which images.
            start: First image.
            stop: First image beyond.
            planes: uint8 (stop - start, planes, width).
            provenance: How their maps were computed.

        Raises:
            StoreError: The folder cannot be written.
            ValueError: The planes are not those of these images.
        """
        expected = (stop - start, spec.layout.planes, spec.layout.width)
        if planes.shape != expected:
            raise ValueError(f"planes of images {start} … {stop - 1} have shape {planes.shape}, expected {expected}")
        seconds, weights, batches, kept = provenance
        about = _about(spec, split) | {"seconds": seconds, "weights": weights, "made": batches}
        about |= {"kept": list(kept)} if kept else {}
        path = self._part(spec, split, start, stop)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            own = path.with_suffix(f".{secrets.token_hex(8)}")  # two workers may be at the same part
            write_whole(path, lambda temporary: write_planes(temporary, planes, about), own)

    def seal(self, spec: RankingSpec, counts: Mapping[Split, int]) -> None:
        """Join the parts into the finished files; done already is done.

        Needs room for the parts three times while it joins them. Whatever moment it is killed at, the parts are still
        there and sealing again writes the same bytes.

        Args:
            spec: Which rankings.
            counts: Number of images of each split of these rankings.

        Raises:
            StoreError: Images are missing, a part is broken, parts are of different explained models or were explained
                by devices of different kinds, or the folder cannot be written.
        """
        folder = self.folder(spec)
        parts = folder / "parts"
        with locked(folder / "seal.lock", *self._folders(spec)), writing(folder):
            if not self.has(spec):
                parts.mkdir(exist_ok=True)
                told = _told(parts, counts)
                about = {"format": FORMAT, **_identity(spec), "weights": _weights(parts, told)}
                _refuse_mixed(parts, told)
                files = {str(split): self._join(spec, split, count) for split, count in counts.items()}
                manifest = about | {"files": files, "versions": _versions()}
                text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
                write_whole(folder / _MANIFEST, lambda path: path.write_text(text), parts / "manifest.tmp")
            shutil.rmtree(parts, ignore_errors=True)

    def open(self, spec: RankingSpec) -> Rankings:
        """Open finished rankings; reads no more of them than sizes and headers.

        Raises:
            StoreError: They are not there, not finished, not these, or damaged.
        """
        folder = self.folder(spec)
        manifest = _read_manifest(folder, spec.splits)
        for key, value in _identity(spec).items():
            if manifest.get(key) != value:
                found = f"{folder} holds rankings with {key} {manifest.get(key)}, expected {value}"
                raise StoreError(f"{found}; {_remedy(folder)}")
        files = manifest["files"]
        splits = {split: _view(folder / f"{split}.arrow", spec, split, files[split]) for split in spec.splits}
        seconds = sum(file["seconds"] for file in files.values())
        return Rankings(folder, spec.layout, splits, files, seconds, manifest.get("weights", ""), _kept(files))

    def _folders(self, spec: RankingSpec) -> tuple[Path, ...]:
        """Return the folders that lead to the parts of a ranking, from the root on."""
        folder = self.folder(spec)
        return (*reversed(folder.parents[:3]), folder, folder / "parts")

    def _part(self, spec: RankingSpec, split: Split, start: int, stop: int) -> Path:
        return self.folder(spec) / "parts" / f"{split}-{start}-{stop}.arrow"

    def _join(self, spec: RankingSpec, split: Split, count: int) -> dict[str, Any]:
        """Write the file of one split from its parts; returns what the manifest says about it."""
        path, parts = self.folder(spec) / f"{split}.arrow", self.folder(spec) / "parts"
        about, seconds, made, kept = _about(spec, split), 0.0, list[ExplainedBatches](), list[int]()
        raw = parts / f"{split}.raw"  # a batch is written in one piece, which may be larger than the memory
        with raw.open("wb") as file:
            for part, first in _chain(parts, split, count):
                planes, metadata = read_planes(part.path)
                seconds += metadata.pop("seconds", 0.0)
                metadata.pop("weights", "")
                noted = _noted(metadata.pop("made", [])) or [ExplainedBatches(len(planes), 0, "")]
                made += without(first - part.start, noted)
                kept += metadata.pop("kept", [])[first - part.start :]
                if metadata != about:
                    raise StoreError(f"{part.path} is a part of other rankings; {_remedy(part.path)}")
                planes[first - part.start :].tofile(file)
        shape = (count, spec.layout.planes, spec.layout.width)
        joined = np.memmap(raw, np.uint8, "r", shape=shape)
        write_whole(path, lambda temporary: write_planes(temporary, joined, about), parts / f"{split}.tmp")
        raw.unlink()
        entry = {"images": count, "bytes": path.stat().st_size, "sha256": sha256(path), "seconds": seconds}
        samples = int(spec.estimator_record.value("samples"))
        copies = {"copies": count * samples, "kept": sum(kept)} if len(kept) == count else {}
        return entry | {"made": [part._asdict() for part in merged(made)]} | copies


def covers(done: Iterable[range], start: int, stop: int) -> bool:
    """Return whether one of the ranges holds all of `start` … `stop - 1`."""
    return any(part.start <= start and stop <= part.stop for part in done)


def _identity(spec: RankingSpec) -> dict[str, Any]:
    """Return the spec and the rule for ties as JSON has them."""
    identity: dict[str, Any] = json.loads(json.dumps(record(spec)))
    return identity | {"tie_rule": TIE_RULE, "tie_seed": TIE_SEED}


def _about(spec: RankingSpec, split: Split) -> dict[str, Any]:
    """Describe an Arrow file within itself, enough to read it without this package."""
    layout = spec.layout
    codes = {"boundaries": list(layout.boundaries), "codes": list(layout.codes)}
    return _identity(spec) | codes | {"split": split.value}


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), "numpy": np.__version__, "pyarrow": pyarrow.__version__}


class _RankedRange(NamedTuple):
    """The bit-planes of the images `start` … `stop - 1`."""

    start: int
    stop: int
    path: Path


def _parts(folder: Path, split: Split) -> list[_RankedRange]:
    """List what there is of a split, by the first image; of those that begin together the longest first."""
    found = []
    for path in folder.glob(f"{split}-*-*.arrow"):
        start, stop = (int(number) for number in path.stem.split("-")[1:])
        found.append(_RankedRange(start, stop, path))
    return sorted(found, key=lambda part: (part.start, -part.stop))


def _chain(folder: Path, split: Split, count: int) -> list[tuple[_RankedRange, int]]:
    """Choose parts that hold the images 0 … count - 1, in order, each with the image from which on it counts.

    Parts may overlap, where commands divided the images in different ways: an image's planes do not depend on that.
    """
    chain, done = [], 0
    for part in _parts(folder, split):
        if part.start <= done < part.stop <= count:
            chain.append((part, done))
            done = part.stop
    if done < count:
        raise StoreError(f"no part of {folder} holds {split} image {done} of {count}; rank these images first")
    return chain


def _told(parts: Path, counts: Mapping[Split, int]) -> list[dict[str, Any]]:
    """Return what each part that is used says of itself."""
    used = [part.path for split, count in counts.items() for part, _ in _chain(parts, split, count)]
    return [read_planes(path).about for path in used]


def _noted(made: Iterable[Iterable[Any]]) -> list[ExplainedBatches]:
    return [ExplainedBatches(*entry) for entry in made]


def _refuse_mixed(parts: Path, told: Iterable[Mapping[str, Any]]) -> None:
    """Refuse maps by devices of different kinds, which round differently: no other machine could make them again."""
    kinds = {batches.device for about in told for batches in _noted(about.get("made", []))} - {""}
    if len(kinds) > 1:
        names = " and ".join(sorted(kinds))
        raise StoreError(f"{parts} has maps by {names}, expected one kind of device; {_remedy(parts)} on one kind")


def _weights(parts: Path, told: Iterable[Mapping[str, Any]]) -> str:
    """Return the checksum of the explained model that all parts are of; empty where one does not say."""
    checksums = {about.get("weights", "") for about in told}
    if len(checksums - {""}) > 1:
        raise StoreError(f"{parts} was made from {len(checksums - {''})} different references; {_remedy(parts)}")
    return checksums.pop() if len(checksums) == 1 else ""


def _view(path: Path, spec: RankingSpec, split: Split, file: Mapping[str, Any]) -> NDArray[np.uint8]:
    """Map the bit-planes of one split, uint8 (n, planes, width), without a copy."""
    size = path.stat().st_size if path.exists() else 0
    if size != file["bytes"]:
        raise StoreError(f"{path} has {size} bytes, expected {file['bytes']}; {_remedy(path.parent)}")
    planes, about = read_planes(path)
    if about != _about(spec, split) or planes.shape != (file["images"], spec.layout.planes, spec.layout.width):
        raise StoreError(f"{path} is not the file of its manifest; {_remedy(path.parent)}")
    return planes


def _content(files: Mapping[str, Mapping[str, Any]]) -> str:
    return fingerprint({split: file["sha256"] for split, file in files.items()})


def _kept(files: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return `Rankings.kept` from what a manifest says of its files."""
    if not files or not all("kept" in file for file in files.values()):
        return None
    return float(sum(file["kept"] for file in files.values()) / sum(file["copies"] for file in files.values()))


def _checksum(manifest: Path) -> str:
    """Return the checksum of the rankings that a manifest describes; empty where it cannot be read."""
    try:
        return _content(json.loads(manifest.read_text())["files"])
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return ""


def _read_manifest(folder: Path, splits: Iterable[Split]) -> dict[str, Any]:
    path = folder / _MANIFEST
    try:
        manifest: dict[str, Any] = json.loads(path.read_text())
        if manifest["format"] > FORMAT:
            found = f"{path} has format {manifest['format']}, this version reads up to {FORMAT}"
            raise StoreError(f"{found}; upgrade roarbench")
        if not all(manifest["files"][split].keys() >= _FILE_KEYS for split in splits):
            raise StoreError(f"{path} does not describe its files; {_remedy(folder)}")
    except FileNotFoundError as error:
        raise StoreError(f"no finished rankings in {folder}; `{propose('run')}` makes them") from error
    except (OSError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise StoreError(f"cannot read {path}: {error!r}; {_remedy(folder)}") from error
    return manifest


def _remedy(path: Path) -> str:
    return f"delete {path} and run again"
