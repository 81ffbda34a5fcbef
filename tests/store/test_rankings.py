import json
import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from filelock import FileLock
from numpy.typing import NDArray

from roarbench import files
from roarbench.errors import StoreError
from roarbench.kernels.ranking import encode, sort_keys, tie_order
from roarbench.store import rankings
from roarbench.store.map_provenance import ExplainedBatches, MapProvenance
from roarbench.store.planes import write_planes
from roarbench.store.ranking_manifest import FORMAT
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.rankings import Rankings, RankingsStore
from roarbench.terms import PAPER_LEVELS, Making, Split, Unit

SPEC = RankingSpec("d" * 32, "a" * 32, "e" * 32, "var-grad", Unit.SCALAR, PAPER_LEVELS, (3, 5, 6))
COUNTS = {Split.TRAIN: 50, Split.TEST: 20}
SHARD = 16


def planes_of(split: Split, spec: RankingSpec = SPEC) -> NDArray[np.uint8]:
    importance = np.random.default_rng(COUNTS[split]).standard_normal((COUNTS[split], spec.layout.features))
    ties = tie_order(np.arange(COUNTS[split]), spec.layout.features)
    return encode(sort_keys(importance.astype(np.float32), ties), spec.layout)


PLANES = {split: planes_of(split) for split in Split}


def shards(split: Split, size: int = SHARD) -> list[tuple[int, int]]:
    return [(start, min(start + size, COUNTS[split])) for start in range(0, COUNTS[split], size)]


def write(store: RankingsStore, split: Split, start: int, stop: int, spec: RankingSpec = SPEC) -> None:
    store.write_part(spec, split, start, stop, PLANES[split][start:stop], MapProvenance(0.25))


def write_all(store: RankingsStore) -> None:
    for split in Split:
        for start, stop in shards(split):
            write(store, split, start, stop)


@pytest.fixture
def store(tmp_path: Path) -> RankingsStore:
    return RankingsStore(tmp_path / "rankings")


@pytest.fixture
def sealed(store: RankingsStore) -> RankingsStore:
    write_all(store)
    store.seal(SPEC, COUNTS)
    return store


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.suffix in (".arrow", ".json")}


# --- what is written is read


def test_planes_come_back(sealed: RankingsStore) -> None:
    rankings = sealed.open(SPEC)
    for split in Split:
        np.testing.assert_array_equal(rankings.planes(split), PLANES[split])
    assert rankings.layout == SPEC.layout
    assert rankings.seconds == 0.25 * 6
    sealed.verify(SPEC)


def test_pyarrow_reads_the_file_by_itself(sealed: RankingsStore) -> None:
    with pa.memory_map(str(sealed.folder(SPEC) / "train.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.schema.field("planes").type == pa.binary(3 * 12)
    assert table.column("planes").num_chunks == 1
    assert table.column("planes")[49].as_py() == PLANES[Split.TRAIN][49].tobytes()
    about = {key.decode(): json.loads(value) for key, value in table.schema.metadata.items()}
    assert about["levels"] == [0.1, 0.3, 0.5, 0.7, 0.9]
    assert about["boundaries"] == list(SPEC.layout.boundaries)
    assert about["codes"] == list(SPEC.layout.codes)
    assert (about["unit"], about["shape"], about["row"]) == ("scalar", [3, 5, 6], [3, 12])
    assert (about["name"], about["estimator"], about["split"]) == ("var-grad", "e" * 32, "train")
    assert "Philox" in about["tie_rule"]
    assert about["tie_seed"] == 0


def test_folders_can_be_read_by_people_and_differ_with_every_field(store: RankingsStore) -> None:
    folder = store.folder(SPEC)
    assert re.fullmatch(r"d{12}/a{12}/var-grad-scalar-[0-9a-f]{8}", str(folder.relative_to(store.root)))
    others = [
        replace(SPEC, data="d" * 31 + "0"),
        replace(SPEC, reference=""),
        replace(SPEC, reference="a" * 31 + "0"),
        replace(SPEC, estimator="e" * 31 + "0"),
        replace(SPEC, unit=Unit.PIXEL),
        replace(SPEC, levels=(0.5,)),
        replace(SPEC, shape=(3, 6, 5)),
        replace(SPEC, splits=(Split.TEST,)),
    ]
    assert len({store.folder(spec) for spec in [SPEC, *others]}) == 9
    assert store.folder(others[1]).parent.name == "none"


def test_rankings_of_both_splits_lie_where_they_lay_before_there_were_others(store: RankingsStore) -> None:
    """Written down when a spec had seven fields: what is stored must be found for ever."""
    assert store.folder(SPEC).name == "var-grad-scalar-6975debf"


def test_rankings_of_the_test_images_alone(store: RankingsStore) -> None:
    spec = replace(SPEC, splits=(Split.TEST,))
    write(store, Split.TEST, 0, COUNTS[Split.TEST], spec)
    store.seal(spec, {Split.TEST: COUNTS[Split.TEST]})
    rankings = store.open(spec)
    np.testing.assert_array_equal(rankings.planes(Split.TEST), PLANES[Split.TEST])
    assert sorted(contents(rankings.folder)) == ["manifest.json", "test.arrow"]
    assert not store.has(SPEC)
    with pytest.raises(KeyError):
        rankings.planes(Split.TRAIN)
    store.verify(spec)


# --- parts


def test_parts_are_known_until_and_after_they_are_joined(store: RankingsStore) -> None:
    assert not store.has_part(SPEC, Split.TRAIN, 0, 16)
    write(store, Split.TRAIN, 0, 16)
    assert store.has_part(SPEC, Split.TRAIN, 0, 16)
    assert not store.has_part(SPEC, Split.TRAIN, 0, 17)
    assert not store.has_part(SPEC, Split.TEST, 0, 16)
    assert not store.has_part(replace(SPEC, levels=(0.5,)), Split.TRAIN, 0, 16)
    assert not store.has(SPEC)
    write_all(store)
    store.seal(SPEC, COUNTS)
    assert store.has(SPEC)
    assert store.has_part(SPEC, Split.TRAIN, 0, 16)
    assert not (store.folder(SPEC) / "parts").exists()


def test_joining_needs_the_room_that_the_plan_counts(store: RankingsStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside the parts, the largest split twice; headers apart."""
    spec = replace(SPEC, shape=(3, 32, 32))
    planes = {split: planes_of(split, spec) for split in Split}
    for split, made in planes.items():
        store.write_part(spec, split, 0, len(made), made, MapProvenance(0.25))

    def room() -> int:
        return sum(file.stat().st_size for file in store.folder(spec).rglob("*") if file.is_file())

    def writing_planes(path: Path, *content: Any) -> None:
        write_planes(path, *content)
        seen.append(room())

    parts, seen = room(), list[int]()
    monkeypatch.setattr(rankings, "write_planes", writing_planes)
    store.seal(spec, COUNTS)
    counted = 2 * max(made.nbytes for made in planes.values())
    assert counted <= max(seen) - parts < 1.1 * counted


def test_a_range_is_done_however_it_was_divided(store: RankingsStore) -> None:
    for start, stop in ((0, 7), (7, 16), (12, 30), (40, 50)):
        write(store, Split.TRAIN, start, stop)
    assert store.ranked(SPEC, Split.TRAIN) == [range(0, 30), range(40, 50)]
    assert store.ranked(SPEC, Split.TEST) == []
    assert store.has_part(SPEC, Split.TRAIN, 3, 30)
    assert not store.has_part(SPEC, Split.TRAIN, 3, 31)
    assert not store.has_part(SPEC, Split.TRAIN, 29, 41)


@pytest.mark.parametrize("ranges", [[(0, 16), (8, 50)], [(0, 50), (8, 16)], [(0, 30), (10, 40), (20, 50)]])
def test_parts_that_overlap_are_joined_like_others(
    sealed: RankingsStore, tmp_path: Path, ranges: list[tuple[int, int]]
) -> None:
    other = RankingsStore(tmp_path / "other")
    for start, stop in ranges:
        write(other, Split.TRAIN, start, stop)
    write(other, Split.TEST, 0, 20)
    assert other.has_part(SPEC, Split.TRAIN, 0, 50)
    other.seal(SPEC, COUNTS)
    assert other.open(SPEC).checksum == sealed.open(SPEC).checksum


# --- how they were made


def making(store: RankingsStore, split: Split) -> list[tuple[int, int, str]]:
    files = json.loads((store.folder(SPEC) / "manifest.json").read_text())["files"]
    return [(part["images"], part["at_once"], part["precision"]) for part in files[split]["made"]]


def test_the_manifest_says_how_each_image_was_made_whoever_made_it(store: RankingsStore) -> None:
    """Workers that explained other numbers at once, one without bfloat16, a part that a restart made again."""
    made = {
        (0, 16): [ExplainedBatches(16, 16, Making.BF16)],
        (16, 36): [ExplainedBatches(16, 16, Making.BF16), ExplainedBatches(4, 4, Making.BF16)],
        (30, 50): [ExplainedBatches(16, 8, Making.FLOAT32), ExplainedBatches(4, 4, Making.FLOAT32)],
    }
    for (start, stop), how in made.items():
        store.write_part(
            SPEC, Split.TRAIN, start, stop, PLANES[Split.TRAIN][start:stop], MapProvenance(0.0, batches=how)
        )
    write(store, Split.TEST, 0, 20)
    store.seal(SPEC, COUNTS)
    assert making(store, Split.TRAIN) == [(32, 16, "bf16"), (4, 4, "bf16"), (10, 8, "float32"), (4, 4, "float32")]
    assert making(store, Split.TEST) == [(20, 0, "")]  # as parts of earlier versions: not noted


def made_on(store: RankingsStore, split: Split, start: int, stop: int, device: str) -> None:
    """A part whose maps were made by this kind of device."""
    made = MapProvenance(0.0, batches=[ExplainedBatches(stop - start, 16, Making.FLOAT32, device)])
    store.write_part(SPEC, split, start, stop, PLANES[split][start:stop], made)


@pytest.mark.parametrize(("split", "first"), [(Split.TRAIN, 30), (Split.TEST, 0)])
def test_maps_by_devices_of_different_kinds_are_no_ranking(store: RankingsStore, split: Split, first: int) -> None:
    """Neither within a split nor from one to the other."""
    for each, count in COUNTS.items():
        if stop := first if each is split else count:
            made_on(store, each, 0, stop, "cpu")
    made_on(store, split, first, COUNTS[split], "NVIDIA H200")
    with pytest.raises(
        StoreError, match="has maps by NVIDIA H200 and cpu, expected one kind of device; delete"
    ) as told:
        store.seal(SPEC, COUNTS)
    assert "\n" not in str(told.value)
    assert not store.has(SPEC)


def test_a_ranking_that_one_kind_of_device_has_begun_takes_no_part_by_another(store: RankingsStore) -> None:
    store.refuse_other_device(SPEC, "cpu")  # nothing is there yet
    made_on(store, Split.TRAIN, 0, 10, "NVIDIA H200")
    store.refuse_other_device(SPEC, "NVIDIA H200")
    with pytest.raises(StoreError, match="has maps by NVIDIA H200 and cpu, expected one kind of device; delete"):
        store.refuse_other_device(SPEC, "cpu")


def write_counted(store: RankingsStore, start: int, stop: int, counted: bool = True) -> None:
    """Training images whose copies keep their class as often as the image's number modulo 16."""
    kept = [image % 16 for image in range(start, stop)] if counted else []
    provenance = MapProvenance(0.0, kept=kept)
    store.write_part(SPEC, Split.TRAIN, start, stop, PLANES[Split.TRAIN][start:stop], provenance)


def test_each_image_counts_once_in_the_copies_that_keep_their_class(sealed: RankingsStore, tmp_path: Path) -> None:
    other = RankingsStore(tmp_path / "other")
    for start, stop in ((0, 36), (30, 50)):
        write_counted(other, start, stop)
    other.write_part(SPEC, Split.TEST, 0, 20, PLANES[Split.TEST], MapProvenance(0.0, kept=[15] * 20))
    other.seal(SPEC, COUNTS)
    files = other.open(SPEC).files
    assert (files["train"]["kept"], files["train"]["copies"]) == (sum(image % 16 for image in range(50)), 50 * 15)
    assert other.open(SPEC).kept == (files["train"]["kept"] + 300) / (70 * 15)
    assert other.kept_shares() == {other.open(SPEC).checksum: other.open(SPEC).kept}
    assert other.open(SPEC).checksum == sealed.open(SPEC).checksum  # what is noted beside them changes no ranking


@pytest.mark.parametrize("test_noted", [True, False])
def test_copies_that_were_not_counted_are_missing_not_lost(store: RankingsStore, test_noted: bool) -> None:
    """A part of an earlier version among those of the training images, or all of the test images."""
    write_counted(store, 0, 36)
    write_counted(store, 36, 50, counted=not test_noted)
    kept = [15] * 20 if test_noted else []
    store.write_part(SPEC, Split.TEST, 0, 20, PLANES[Split.TEST], MapProvenance(0.0, kept=kept))
    store.seal(SPEC, COUNTS)
    assert store.open(SPEC).kept is None
    assert store.kept_shares() == {}


def test_what_was_asked_for_is_part_of_the_identity(sealed: RankingsStore) -> None:
    short = replace(SPEC, maps=Making.BF16)
    assert sealed.folder(short) != sealed.folder(SPEC)
    assert not sealed.has(short)
    shutil.copytree(sealed.folder(SPEC), sealed.folder(short))
    with pytest.raises(StoreError, match="holds rankings with maps None, expected bf16; delete"):
        sealed.open(short)
    assert "maps" not in json.loads((sealed.folder(SPEC) / "manifest.json").read_text())


# --- of which explained model


def write_of(store: RankingsStore, train: str, test: str) -> None:
    for split, weights in ((Split.TRAIN, train), (Split.TEST, test)):
        store.write_part(SPEC, split, 0, COUNTS[split], PLANES[split], MapProvenance(0.0, weights))


def test_rankings_know_the_weights_that_they_were_made_from(sealed: RankingsStore, tmp_path: Path) -> None:
    other = RankingsStore(tmp_path / "other")
    write_of(other, "a" * 64, "a" * 64)
    other.seal(SPEC, COUNTS)
    assert other.open(SPEC).weights == "a" * 64
    assert sealed.open(SPEC).weights == ""
    assert other.open(SPEC).checksum == sealed.open(SPEC).checksum  # the same bits are the same rankings


def test_parts_of_two_references_are_not_joined(store: RankingsStore) -> None:
    write_of(store, "a" * 64, "b" * 64)
    with pytest.raises(StoreError, match="parts was made from 2 different references; delete .*parts and run again"):
        store.seal(SPEC, COUNTS)
    assert not store.has(SPEC)


def part_of_others(store: RankingsStore) -> None:
    other = replace(SPEC, levels=(0.2, *PAPER_LEVELS[1:]))
    store.write_part(other, Split.TRAIN, 16, 32, planes_of(Split.TRAIN, other)[16:32], MapProvenance(0.0))
    shutil.copy(store.folder(other) / "parts" / "train-16-32.arrow", store.folder(SPEC) / "parts")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda store: (parts_of(store) / "train-16-32.arrow").unlink(), "holds train image 16 of 50; rank these"),
        (
            lambda store: os.truncate(parts_of(store) / "test-0-16.arrow", 900),
            r"cannot read .*test-0-16.arrow: .*; delete",
        ),
        (part_of_others, "is a part of other rankings"),
    ],
)
def test_parts_that_do_not_do_are_named(
    store: RankingsStore, spoil: Callable[[RankingsStore], object], said: str
) -> None:
    write_all(store)
    spoil(store)
    with pytest.raises(StoreError, match=said):
        store.seal(SPEC, COUNTS)
    assert not store.has(SPEC)


def parts_of(store: RankingsStore) -> Path:
    return store.folder(SPEC) / "parts"


def test_planes_of_another_size_are_refused(store: RankingsStore) -> None:
    with pytest.raises(ValueError, match=re.escape("have shape (15, 3, 12), expected (16, 3, 12)")):
        store.write_part(SPEC, Split.TRAIN, 0, 16, PLANES[Split.TRAIN][:15], MapProvenance(0.0))


# --- done is the last write


class Killed(BaseException):
    """Stands for a kill at a certain step: nothing in the code catches it."""


def killed_at(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise at the n-th call that changes or flushes a file."""
    calls = 0

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            nonlocal calls
            calls += 1
            if calls == step:
                raise Killed
            return function(*arguments, **options)

        return call

    monkeypatch.setattr(files.os, "replace", counted(os.replace))
    monkeypatch.setattr(files.os, "fsync", counted(os.fsync))
    monkeypatch.setattr(Path, "unlink", counted(Path.unlink))
    monkeypatch.setattr(shutil, "rmtree", counted(shutil.rmtree))
    monkeypatch.setattr("roarbench.store.rankings.write_planes", counted(write_planes))
    monkeypatch.setattr("roarbench.store.rankings.sha256", counted(files.sha256))


@pytest.mark.slow
def test_sealing_killed_at_any_step_and_begun_again_gives_the_same_bytes(sealed: RankingsStore, tmp_path: Path) -> None:
    expected = contents(sealed.folder(SPEC))
    assert set(expected) == {"train.arrow", "test.arrow", "manifest.json"}
    finished = 0
    for step in range(1, 23):
        store = RankingsStore(tmp_path / str(step))
        write_all(store)
        with pytest.MonkeyPatch.context() as monkeypatch:
            killed_at(step, monkeypatch)
            try:
                store.seal(SPEC, COUNTS)
                finished += 1
            except Killed:
                pass
        if store.has(SPEC):
            assert contents(store.folder(SPEC)) == expected  # done means all of it
        else:
            with pytest.raises(StoreError, match="no finished rankings"):
                store.open(SPEC)
        store.seal(SPEC, COUNTS)
        assert contents(store.folder(SPEC)) == expected
        assert not (store.folder(SPEC) / "parts").exists()
    assert 0 < finished < 8  # the steps do cover the whole of it


def test_a_part_killed_while_it_is_written_does_not_exist(store: RankingsStore) -> None:
    for step in (1, 2, 3):
        with pytest.MonkeyPatch.context() as monkeypatch:
            killed_at(step, monkeypatch)
            with pytest.raises(Killed):
                write(store, Split.TRAIN, 0, 16)
        assert not store.has_part(SPEC, Split.TRAIN, 0, 16)


def test_two_sealers(store: RankingsStore) -> None:
    write_all(store)
    errors: list[BaseException] = []

    def seal() -> None:
        try:
            store.seal(SPEC, COUNTS)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=seal) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    store.verify(SPEC)


def test_lock_keeps_others_from_the_same_images(store: RankingsStore) -> None:
    with store.lock(SPEC.data, "trained", Split.TRAIN, [16, 32]):
        paths = [next(store.root.rglob(f"trained-train-{start}.lock")) for start in (16, 32)]
        with store.lock(SPEC.data, "trained", Split.TRAIN, [48]), store.lock(SPEC.data, "controls", Split.TRAIN, [16]):
            for path in paths:  # a range that shares one batch with ours has to wait
                with pytest.raises(TimeoutError):
                    FileLock(path, timeout=0).acquire()
    for path in paths:
        with FileLock(path, timeout=0):
            pass


# --- what can be wrong with files


def test_rankings_that_are_not_there(store: RankingsStore) -> None:
    with pytest.raises(StoreError, match="no finished rankings in "):
        store.open(SPEC)
    assert not store.root.exists()


def changed_places(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    shutil.copy(folder / "train.arrow", folder / "test.arrow")
    manifest["files"]["test"] = manifest["files"]["train"]
    path.write_text(json.dumps(manifest))


def truncated(size: int) -> Callable[[Path], None]:
    return lambda folder: os.truncate(path := folder / "train.arrow", size % path.stat().st_size)


def zeroed(folder: Path) -> None:
    (folder / "test.arrow").write_bytes(bytes((folder / "test.arrow").stat().st_size))


def manifest(text: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "manifest.json").write_text(text, encoding="latin-1")


BAD_MANIFEST = r"manifest.json.*; delete .* and run again"
NEWER = f"has format {FORMAT + 1}, this version reads up to {FORMAT}; upgrade roarbench"


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        *(
            (truncated(size), r"train.arrow has \d+ bytes, expected \d+; delete .* and run again")
            for size in (0, 100, -1)
        ),
        (lambda folder: (folder / "test.arrow").unlink(), "test.arrow has 0 bytes"),
        (zeroed, "cannot read .*test.arrow"),
        (changed_places, "test.arrow is not the file of its manifest"),
        *((manifest(text), BAD_MANIFEST) for text in ("", "{", "[]", "{}", '{"format": 1}', "\xff")),
        (manifest('{"format": 1, "files": {"train": {}}}'), BAD_MANIFEST),
        (manifest(json.dumps({"format": FORMAT + 1})), NEWER),
    ],
)
def test_damaged_files_are_refused(sealed: RankingsStore, damage: Callable[[Path], object], said: str) -> None:
    damage(sealed.folder(SPEC))
    with pytest.raises(StoreError, match=said):
        sealed.open(SPEC)


def flipped(rankings: Rankings) -> None:
    """One bit of the data changed on disk."""
    path = rankings.folder / "train.arrow"
    content = bytearray(path.read_bytes())
    content[content.index(PLANES[Split.TRAIN].tobytes())] ^= 1
    path.write_bytes(content)


def test_an_altered_bit_is_found_when_every_byte_is_read(sealed: RankingsStore) -> None:
    flipped(sealed.open(SPEC))
    with pytest.raises(StoreError, match=r"^ranking of var-grad \(scalar\): .*train.arrow was altered, .*; delete "):
        sealed.verify(SPEC)


def test_rankings_in_the_wrong_folder(sealed: RankingsStore) -> None:
    other = replace(SPEC, data="d" * 31 + "0")
    sealed.folder(other).parent.mkdir(parents=True, exist_ok=True)
    sealed.folder(SPEC).rename(sealed.folder(other))
    with pytest.raises(StoreError, match=f"holds rankings with data {SPEC.data}, expected {other.data}"):
        sealed.open(other)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk(store: RankingsStore) -> None:
    """The scratch file of the planes is a link to a device that is always full."""
    write_all(store)
    scratch = store.folder(SPEC) / "parts" / "train.tmp"
    scratch.symlink_to("/dev/full")
    with pytest.raises(StoreError, match=r"cannot write .*No space left on device"):
        store.seal(SPEC, COUNTS)
    assert not store.has(SPEC)
    store.seal(SPEC, COUNTS)
    np.testing.assert_array_equal(store.open(SPEC).planes(Split.TRAIN), PLANES[Split.TRAIN])


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RankingsStore(tmp_path / "file" / "rankings")
    with pytest.raises(StoreError, match=r"cannot write .*: Not a directory; free space or choose another --store"):
        write(store, Split.TRAIN, 0, 16)
    with pytest.raises(StoreError, match="cannot write"):
        store.seal(SPEC, COUNTS)
    with pytest.raises(StoreError, match="cannot write"), store.lock(SPEC.data, "trained", Split.TRAIN, [0]):
        pass
