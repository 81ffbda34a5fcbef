"""Reading which features of random images are gone: from the store's bit-planes, and from a float map per image."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from roarbench.kernels.ranking import encode, removed_bits, removed_count
from roarbench.store.map_provenance import MapProvenance
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.rankings import RankingsStore
from roarbench.terms import PAPER_LEVELS, Order, Split, Unit

SPEC = RankingSpec("d" * 32, "", "e" * 32, "random", Unit.SCALAR, PAPER_LEVELS, (3, 64, 64))
IMAGES, BATCH = 4096, 128
PART = 256


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a sealed store, and the same importances as one file of float maps."""
    root = tmp_path_factory.mktemp("store")
    maps = np.memmap(root / "maps", np.float32, "w+", shape=(IMAGES, SPEC.layout.features))
    store = RankingsStore(root)
    rng = np.random.default_rng(0)
    for start in range(0, IMAGES, PART):
        keys = rng.permuted(np.tile(np.arange(SPEC.layout.features), (PART, 1)), axis=1)
        maps[start : start + PART] = keys
        for split in Split:
            store.write_part(SPEC, split, start, start + PART, encode(keys, SPEC.layout), MapProvenance(0.0))
    maps.flush()
    store.seal(SPEC, dict.fromkeys(Split, IMAGES))
    return root


def assert_removed(removed: NDArray[np.uint8], images: int, t: float) -> None:
    features = SPEC.layout.features
    counts = np.unpackbits(removed, axis=1, count=features).sum(axis=1, dtype=int)
    assert counts.tolist() == [removed_count(t, features)] * images


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_random_batch_from_bit_planes(benchmark: Any, folder: Path, t: float) -> None:
    planes = RankingsStore(folder).open(SPEC).planes(Split.TRAIN)
    index = np.random.default_rng(1).permutation(IMAGES)[:BATCH]
    benchmark._timer = time.process_time
    assert_removed(benchmark(lambda: removed_bits(planes[index], t, Order.MORF, SPEC.layout)), BATCH, t)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_random_batch_from_float_maps(benchmark: Any, folder: Path, t: float) -> None:
    maps = np.memmap(folder / "maps", np.float32, "r", shape=(IMAGES, SPEC.layout.features))
    index = np.random.default_rng(1).permutation(IMAGES)[:BATCH]
    kept = SPEC.layout.features - removed_count(t, SPEC.layout.features)

    def batch() -> np.ndarray:
        chosen = maps[index]
        return np.packbits(chosen >= np.partition(chosen, kept, axis=1)[:, kept, None], axis=1)

    benchmark._timer = time.process_time
    assert_removed(benchmark(batch), BATCH, t)


@pytest.mark.parametrize("t", [0.1, 0.5, 0.9])
def test_whole_split(benchmark: Any, folder: Path, t: float) -> None:
    rankings = RankingsStore(folder).open(SPEC)
    benchmark._timer = time.process_time
    removed = benchmark(lambda: removed_bits(rankings.planes(Split.TRAIN), t, Order.MORF, rankings.layout))
    assert_removed(removed, IMAGES, t)


def test_open(benchmark: Any, folder: Path) -> None:
    store = RankingsStore(folder)
    assert benchmark(lambda: store.open(SPEC)).layout == SPEC.layout
