"""Rankings on disk: parts, atomic sealing, checksums and damage."""

import json
import os
import shutil
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from filelock import FileLock

from roarbench.common.enums import PAPER_LEVELS, MapNumerics, Split, Unit
from roarbench.common.errors import StoreError
from roarbench.store import rankings
from roarbench.store.ranking_files import FORMAT, MapProvenance, RankingSpec
from roarbench.store.rankings import RankingsStore
from tests.helpers.store_rows import flip, halve
from tests.helpers.trainings import encoded

SPEC = RankingSpec("d" * 32, "a" * 32, "e" * 32, "var-grad", Unit.SCALAR, PAPER_LEVELS, (3, 5, 6))
COUNTS = {Split.TRAIN: 50, Split.TEST: 20}


def encode_random_planes(split, spec=SPEC, sign=1):
    importance = sign * np.random.default_rng(COUNTS[split]).standard_normal((COUNTS[split], *spec.layout.shape))
    return encoded(importance, spec.layout)


PLANES = {split: encode_random_planes(split) for split in Split}


def write(store, split, start, stop, **made):
    store.write_part(SPEC, split, start, stop, PLANES[split][start:stop], MapProvenance(**{"seconds": 0.25, **made}))


def write_all(store, **made):
    for split, images in COUNTS.items():
        for start in range(0, images, 16):
            write(store, split, start, min(start + 16, images), **made)


def describe_device(device):
    return {"device": device, "weights": "a"}


def read_contents(store):
    paths = store.get_folder(SPEC).iterdir()
    return {path.name: path.read_bytes() for path in paths if path.suffix in (".arrow", ".json")}


@pytest.fixture
def store(tmp_path):
    return RankingsStore(tmp_path / "rankings")


@pytest.fixture
def sealed(store):
    write_all(store)
    store.join_parts_and_finish(SPEC, COUNTS)
    return store


def get_parts_folder(store):
    return store.get_folder(SPEC) / "parts"


@pytest.mark.parametrize("unknown", [None, 0.0])
def test_time_of_given_maps_is_unknown_and_not_zero(store, unknown):
    """Older rankings of given maps recorded 0."""
    write_all(store, seconds=unknown)
    store.join_parts_and_finish(SPEC, COUNTS)
    assert store.open(SPEC).seconds is None


def test_time_is_unknown_if_that_of_one_part_is(store):
    write_all(store)
    write(store, Split.TEST, 0, 16, seconds=None)
    store.join_parts_and_finish(SPEC, COUNTS)
    assert store.open(SPEC).seconds is None


def test_sealed_rankings_open_with_same_planes_and_in_pyarrow(sealed):
    rankings = sealed.open(SPEC)
    for split in Split:
        np.testing.assert_array_equal(rankings.splits[split], PLANES[split])
    assert (rankings.layout, rankings.seconds, rankings.weights) == (SPEC.layout, 0.25 * 6, "")
    sealed.verify_files(SPEC)
    with pa.memory_map(str(sealed.get_folder(SPEC) / "train.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
    assert table.schema.field("planes").type == pa.binary(3 * 12)
    assert table.column("planes").num_chunks == 1
    assert table.column("planes")[49].as_py() == PLANES[Split.TRAIN][49].tobytes()
    about = {key.decode(): json.loads(value) for key, value in table.schema.metadata.items()}
    expected = {"levels": [0.1, 0.3, 0.5, 0.7, 0.9], "unit": "scalar", "shape": [3, 5, 6], "row": [3, 12]}
    expected |= {"boundaries": [*SPEC.layout.bin_boundaries], "codes": [*SPEC.layout.boundary_codes], "tie_seed": 0}
    assert about.items() >= {"name": "var-grad", "estimator": "e" * 32, "split": "train", **expected}.items()
    assert "Philox" in about["tie_rule"]


def test_rankings_folder_depends_on_every_field_and_keeps_old_name(store):
    """One folder name dates from a spec with seven fields: stored rankings must remain findable."""
    values = {"data": "d" * 31 + "0", "reference": "a" * 31 + "0", "estimator": "e" * 31 + "0", "unit": Unit.PIXEL}
    values |= {"levels": (0.5,), "shape": (3, 6, 5), "splits": (Split.TEST,), "maps": MapNumerics.BF16}
    others = [replace(SPEC, reference=""), *(replace(SPEC, **{name: value}) for name, value in values.items())]
    assert len({store.get_folder(spec) for spec in [SPEC, *others]}) == 10
    assert store.get_folder(SPEC).relative_to(store.root) == Path("d" * 12, "a" * 12, "var-grad-scalar-6975debf")
    assert store.get_folder(others[0]).parent.name == "none"


def test_ranked_ranges_merge_overlapping_parts_before_and_after_seal(store):
    for start, stop in ((0, 7), (7, 16), (12, 30), (40, 50)):
        write(store, Split.TRAIN, start, stop)
    assert store.list_merged_part_ranges(SPEC, Split.TRAIN) == [range(0, 30), range(40, 50)]
    for start, stop, ranked in ((3, 30, True), (3, 31, False), (29, 41, False)):
        assert store.has_ranked_range(SPEC, Split.TRAIN, start, stop) is ranked
    assert not store.has_ranked_range(SPEC, Split.TEST, 0, 16)
    assert not store.has_finished(SPEC)
    write_all(store)
    store.join_parts_and_finish(SPEC, COUNTS)
    assert store.has_finished(SPEC) and store.has_ranked_range(SPEC, Split.TRAIN, 0, 16)


def test_provenance_of_overlapping_parts_counts_each_image_once(sealed, tmp_path):
    """One worker has no bfloat16, and a restart repeats a part."""
    other = RankingsStore(tmp_path / "other")
    for start, stop, precision in ((0, 16, "bf16"), (16, 36, "bf16"), (30, 50, "float32")):
        kept = [image % 16 for image in range(start, stop)]  # augmented copies with an unchanged prediction
        write(other, Split.TRAIN, start, stop, precision=precision, stable_copies=kept, weights="a" * 64)
    write(other, Split.TEST, 0, 20, stable_copies=[15] * 20, weights="a" * 64)
    other.join_parts_and_finish(SPEC, COUNTS)
    found = other.open(SPEC)
    assert [made["precision"] for made in found.files[Split.TRAIN]["made"]] == ["bf16", "float32"]
    assert found.prediction_stability == (sum(image % 16 for image in range(50)) + 300) / (70 * 15)
    assert other.read_annotations() == {f"kept {found.checksum}": found.prediction_stability}
    assert found.weights == "a" * 64
    assert found.checksum == sealed.open(SPEC).checksum  # provenance enters no checksum


def remove_part(store):
    (get_parts_folder(store) / "train-16-32.arrow").unlink()


def truncate_part(store):
    os.truncate(get_parts_folder(store) / "test-0-16.arrow", 900)


def flip_last_plane_bit(store):
    path = get_parts_folder(store) / "test-0-16.arrow"
    content, last = path.read_bytes(), PLANES[Split.TEST][15].tobytes()
    assert content.count(last) == 1
    path.write_bytes(content.replace(last, last[:-1] + bytes([last[-1] ^ 1])))


def change_passes(store):
    path = get_parts_folder(store) / "test-0-16.arrow"
    content = path.read_bytes()
    assert b"[48.0, 32.0]" in content
    path.write_bytes(content.replace(b"[48.0, 32.0]", b"[46.0, 32.0]"))


def write_last_part(store, **made):
    write(store, Split.TEST, 16, 20, **made)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (remove_part, "holds train image 16 of 50; rank these"),
        (flip_last_plane_bit, "test-0-16.arrow is damaged: its CRC-32 .*; delete .*test-0-16.arrow and run"),
        (change_passes, "test-0-16.arrow is damaged"),
        (truncate_part, "cannot read .*test-0-16.arrow: .*; del"),
        (partial(write_last_part, **describe_device("H200")), "maps with different device .H200 and cpu.; delete "),
        (partial(write_last_part, weights="b"), "maps with different weights .a and b.; delete .*parts"),
    ],
)
def test_seal_rejects_missing_damaged_or_mixed_parts(store, spoil, said):
    write_all(store, **describe_device("cpu"), passes=(48.0, 32.0))
    spoil(store)
    with pytest.raises(StoreError, match=said):
        store.join_parts_and_finish(SPEC, COUNTS)
    assert not store.has_finished(SPEC)


class Killed(BaseException):
    """Stands for a kill at a certain step: the code never catches this exception."""


@contextmanager
def kill_at_step(step):
    """Raise at the n-th call that changes or flushes a file."""
    calls = count(1)

    def counted(function):
        def call(*arguments, **options):
            if next(calls) == step:
                raise Killed
            return function(*arguments, **options)

        return call

    steps = [(os, "replace"), (os, "fsync"), (Path, "unlink"), (shutil, "rmtree")]
    steps += [(rankings, "write_planes"), (rankings, "compute_sha256")]
    with pytest.MonkeyPatch.context() as monkeypatch:
        for owner, name in steps:
            monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
        yield


@pytest.mark.slow
def test_seal_killed_at_any_step_and_repeated_gives_same_bytes(sealed, tmp_path):
    expected = read_contents(sealed)
    assert set(expected) == {"train.arrow", "test.arrow", "manifest.json"}
    finished = 0
    for step in range(1, 23):
        store = RankingsStore(tmp_path / str(step))
        write_all(store)
        with suppress(Killed), kill_at_step(step):
            store.join_parts_and_finish(SPEC, COUNTS)
            finished += 1
        if store.has_finished(SPEC):
            assert read_contents(store) == expected  # finished rankings are complete
        else:
            with pytest.raises(StoreError, match="no finished rankings"):
                store.open(SPEC)
        store.join_parts_and_finish(SPEC, COUNTS)
        assert read_contents(store) == expected
        assert not get_parts_folder(store).exists()
    assert 0 < finished < 8  # the steps cover the whole of sealing


@pytest.mark.parametrize("step", [1, 2, 3])
def test_write_part_killed_midway_leaves_no_part(store, step):
    with pytest.raises(Killed), kill_at_step(step):
        write(store, Split.TRAIN, 0, 16)
    assert not store.has_ranked_range(SPEC, Split.TRAIN, 0, 16)


def test_lock_batches_blocks_ranges_with_shared_batch(store):
    with store.lock_batches(SPEC.data, "trained", Split.TRAIN, [16, 32]):
        paths = [next(store.root.rglob(f"trained-train-{start}.lock")) for start in (16, 32)]
        with (
            store.lock_batches(SPEC.data, "trained", Split.TRAIN, [48]),
            store.lock_batches(SPEC.data, "controls", Split.TRAIN, [16]),
        ):
            for path in paths:  # a range with a shared batch has to wait
                with pytest.raises(TimeoutError):
                    FileLock(path, timeout=0).acquire()
    for path in paths:
        with FileLock(path, timeout=0):
            pass


def put_train_in_place_of_test(path):
    manifest = json.loads(path.read_text())
    shutil.copy(path.with_name("train.arrow"), path.with_name("test.arrow"))
    manifest["files"]["test"] = manifest["files"]["train"]
    del manifest["checksum"]  # as if written by an earlier version
    path.write_text(json.dumps(manifest))


def remove_checksum(path):
    manifest = json.loads(path.read_text())
    del manifest["files"]["test"]["sha256"], manifest["checksum"]
    path.write_text(json.dumps(manifest))


def change_seconds(path):
    manifest = json.loads(path.read_text())
    manifest["files"]["test"]["seconds"] += 1
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("name", "damage", "said"),
    [
        ("train.arrow", lambda path: os.truncate(path, path.stat().st_size - 1), r"bytes, expected \d+; delete .* and"),
        ("train.arrow", lambda path: flip(path, PLANES[Split.TRAIN].tobytes()), "train.arrow was altered: .*; delete "),
        ("test.arrow", Path.unlink, "test.arrow has 0 bytes"),
        ("test.arrow", lambda path: path.write_bytes(bytes(path.stat().st_size)), "cannot read .*test.arrow"),
        ("manifest.json", put_train_in_place_of_test, "test.arrow does not match its manifest"),
        ("manifest.json", remove_checksum, "manifest.json lacks sizes or checksums of its files; delete .* and"),
        (
            "manifest.json",
            change_seconds,
            "manifest.json: .*do not have the recorded checksum.*; delete .* and",
        ),
        ("manifest.json", halve, "manifest.json.*; delete .* and"),
        ("manifest.json", lambda path: path.write_text("{}"), "manifest.json.*; delete .* and"),
        ("manifest.json", lambda path: path.write_text(json.dumps({"format": FORMAT + 1})), "; upgrade roarbench"),
    ],
)
def test_verify_files_rejects_damaged_files(sealed, name, damage, said):
    damage(sealed.get_folder(SPEC) / name)
    with pytest.raises(StoreError, match=said):
        sealed.verify_files(SPEC)


def test_open_rejects_rankings_in_wrong_folder(sealed):
    wanted = replace(SPEC, maps=MapNumerics.BF16)
    assert not sealed.has_finished(wanted)
    sealed.get_folder(SPEC).rename(sealed.get_folder(wanted))
    with pytest.raises(StoreError, match="holds rankings with maps None, expected bf16; delete"):
        sealed.open(wanted)


TEST_ALONE = replace(SPEC, splits=(Split.TEST,))
MORE_LEVELS = replace(SPEC, levels=(0.05, *PAPER_LEVELS))


def rank_and_seal(store, spec, sign=1, **made):
    """Rank the images of the spec's splits, seal the rankings and return their checksum."""
    for split in spec.splits:
        planes = encode_random_planes(split, spec, sign)
        store.write_part(spec, split, 0, COUNTS[split], planes, MapProvenance(0.25, **made))
    store.join_parts_and_finish(spec, {split: COUNTS[split] for split in spec.splits})
    return store.open(spec).checksum


@pytest.mark.parametrize(
    "first, second", [(TEST_ALONE, SPEC), (SPEC, TEST_ALONE), (SPEC, MORE_LEVELS), (MORE_LEVELS, TEST_ALONE)]
)
def test_rankings_checksum_is_independent_of_splits_and_levels(store, first, second):
    checksum = rank_and_seal(store, first)
    assert rank_and_seal(store, second) == checksum
    assert store.list_checksums_with_any_levels(first) == store.list_checksums_with_any_levels(second) == {checksum}
    assert {*store.find_folders(checksum)} == {store.get_folder(first), store.get_folder(second)}
    store.verify_files(second)


def test_rankings_checksum_differs_by_estimator_maps_unit_and_network(store):
    first = rank_and_seal(store, TEST_ALONE)
    for changes in ({"estimator": "f" * 32}, {"maps": MapNumerics.BF16}, {"unit": Unit.PIXEL}):
        other = replace(SPEC, **changes)
        assert rank_and_seal(store, other) != first, "equal planes of another spec"
        assert store.list_checksums_with_any_levels(other).isdisjoint({first})
    assert rank_and_seal(store, MORE_LEVELS, weights="b" * 32) != first, "of another network"
    second = rank_and_seal(store, SPEC, sign=-1)
    assert second != first, "made by another machine, say"
    known = {first, second, store.open(MORE_LEVELS).checksum}
    assert store.list_checksums_with_any_levels(SPEC) == known, "and the store knows both"


def test_passes_per_image_are_means_and_unknown_if_a_part_lacks_a_count(store):
    """Parts overlap: images 0 to 29 and 20 to 49 of 50, with 3 and 5 forward passes each; test images have 7."""
    for start, stop, each in ((0, 30, 3.0), (20, 50, 5.0)):
        write(store, Split.TRAIN, start, stop, passes=((stop - start) * each, 0.5 * (stop - start)))
    write(store, Split.TEST, 0, 20, passes=(140.0, 10.0))
    store.join_parts_and_finish(SPEC, COUNTS)
    assert store.open(SPEC).passes == pytest.approx((50 / 70 * 4 + 20 / 70 * 7, 0.5), rel=1e-12)


@pytest.mark.parametrize("first", [{}, {"passes": (16.0, 16.0)}])
def test_passes_are_unknown_without_counts_of_all_parts(store, first):
    write_all(store)
    write(store, Split.TEST, 0, 16, **first)
    store.join_parts_and_finish(SPEC, COUNTS)
    assert store.open(SPEC).passes is None
