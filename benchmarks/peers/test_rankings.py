"""What a ranking takes on disk, and to read: bit-planes beside float32 maps and beside maps as 8-bit PNG files."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from peers.beside import Beside, Figure
from PIL import Image

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.loading import decode_dataset
from roarbench.estimators.base import Batch
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.kernels.bit_planes import encode, removed_bits
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.kernels.ranking import removed_count, sort_keys, tie_order
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.recipes import find_recipe
from roarbench.store.map_provenance import MapProvenance
from roarbench.store.ranking_spec import RankingSpec
from roarbench.store.rankings import RankingsStore
from roarbench.terms import PAPER_LEVELS, Order, Split, Unit

TRAINED, IMAGES, T = 1280, 200, 0.9
NAMES = ("grad", "sgsq-grad")
READ = np.random.default_rng(0).integers(IMAGES, size=2000).tolist()


def spec_of(name: str) -> RankingSpec:
    return RankingSpec("d" * 32, "", "e" * 32, name, Unit.SCALAR, PAPER_LEVELS, (3, 64, 64), (Split.TEST,))


SPEC = spec_of("grad")
LAYOUT = SPEC.layout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make maps of bundled photographs by a briefly trained network, and keep them in three ways.

    Those of random weights would be smooth, for each block begins as its shortcut, and make small pictures.
    """
    folder = tmp_path_factory.mktemp("maps")
    data = decode_dataset(find_dataset("imagenette64"), folder / "data", limit=TRAINED)
    norm, ids = Normalisation(data.mean, data.std), torch.arange(IMAGES)
    inputs = DegradedImages(torch.from_numpy(data.train.pixels), None, torch.tensor(data.mean), Unit.SCALAR)
    model = build("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(0))
    fit(model, inputs, torch.from_numpy(data.train.labels), norm, find_recipe("quick@2"), seed=0)
    model.eval()
    pixels = normalise(torch.from_numpy(data.test.pixels[:IMAGES]), norm)
    asked, black = [find_estimator(name) for name in NAMES], torch.full((3, 1, 1), -2.0)
    store = RankingsStore(folder / "rankings")
    for name, made in importance_maps(asked, model, Batch(pixels, ids % 10, ids), black).items():
        maps = np.ascontiguousarray(made.numpy())
        np.save(folder / f"{name}.npy", maps)
        for number, each in enumerate(maps):
            (folder / f"{name}-{number}.png").write_bytes(as_png(each))
        store.write_part(spec_of(name), Split.TEST, 0, IMAGES, planes_of(maps), MapProvenance(0.0))
        store.seal(spec_of(name), {Split.TEST: IMAGES})
    return folder


def planes_of(maps: NDArray[np.generic]) -> NDArray[np.uint8]:
    keys = sort_keys(maps.reshape(IMAGES, -1).astype(np.float32), tie_order(np.arange(IMAGES), LAYOUT.features))
    return encode(keys, LAYOUT)


def as_png(importance: NDArray[np.float32]) -> bytes:
    """Return a map as one saves it for later: its range as 0 to 255, one channel of the picture for each of its own."""
    low, high = importance.min(), importance.max()
    shades = np.round(255 * (importance - low) / (high - low)).astype(np.uint8)
    file = BytesIO()
    Image.fromarray(shades.transpose(1, 2, 0)).save(file, "PNG", optimize=True)
    return file.getvalue()


def shades(folder: Path, name: str, number: int) -> NDArray[np.uint8]:
    return np.asarray(Image.open(folder / f"{name}-{number}.png")).transpose(2, 0, 1)


def partitioned(importance: NDArray[np.generic]) -> NDArray[np.bool_]:
    """Return which features are gone, bool (d,), without sorting them all."""
    flat = importance.ravel()
    count = removed_count(T, flat.size)
    removed = np.zeros(flat.size, bool)
    removed[np.argpartition(flat, flat.size - count)[flat.size - count :]] = True
    return removed


def sorted_out(importance: NDArray[np.floating]) -> NDArray[np.bool_]:
    """Return the same as public code of ROAR does."""
    flat = importance.ravel()
    removed = np.zeros(flat.size, bool)
    removed[np.argsort(-flat)[: removed_count(T, flat.size)]] = True
    return removed


Read = Callable[[int], NDArray[np.generic]]


def from_planes(folder: Path) -> Read:
    planes = RankingsStore(folder / "rankings").open(SPEC).planes(Split.TEST)
    return lambda i: np.unpackbits(removed_bits(planes[i : i + 1], T, Order.MORF, LAYOUT))


def from_pngs(folder: Path) -> Read:
    return lambda i: partitioned(shades(folder, "grad", i))


def from_floats(folder: Path) -> Read:
    maps = np.load(folder / "grad.npy", mmap_mode="r")
    return lambda i: partitioned(maps[i])


def from_sorted_floats(folder: Path) -> Read:
    maps = np.load(folder / "grad.npy", mmap_mode="r")
    return lambda i: sorted_out(maps[i])


@pytest.mark.parametrize("name", NAMES)
def test_storage(beside: Beside, folder: Path, name: str) -> None:
    maps = np.load(folder / f"{name}.npy")
    kept = sum(file.stat().st_size for file in RankingsStore(folder / "rankings").folder(spec_of(name)).glob("*.arrow"))
    pictures = sum(file.stat().st_size for file in folder.glob(f"{name}-*.png"))
    floats = IMAGES * 4 * LAYOUT.features
    from_png = planes_of(np.stack([shades(folder, name, number) for number in range(IMAGES)]))
    true = RankingsStore(folder / "rankings").open(spec_of(name)).planes(Split.TEST)
    moved = np.unpackbits(np.bitwise_or.reduce(true ^ from_png, axis=1)).mean()
    mine, theirs = beside.seconds(lambda: planes_of(maps), lambda: [as_png(each) for each in maps], rounds=1)
    np.testing.assert_array_equal(true, planes_of(maps))
    assert IMAGES * LAYOUT.planes * LAYOUT.width < kept < floats == maps.nbytes, "the planes, and little beside them"
    figure, sizes = f"size of a ranking by {name}", "{:,.0f} against {:,.0f} bytes an image"
    beside.keep(Figure(figure, "float32 maps", floats / kept, 10, sizes.format(kept / IMAGES, floats / IMAGES)))
    made = f"made in {1000 * mine / IMAGES:.1f} against {1000 * theirs / IMAGES:.1f} core-ms"
    detail = f"{sizes.format(kept / IMAGES, pictures / IMAGES)}, {moved:.0%} of features in another bin, {made}"
    beside.keep(Figure(figure, "8-bit PNG maps", pictures / kept, 1, detail))


WAYS = {
    "PNG map by Pillow, partition": from_pngs,
    "float32 map, argsort": from_sorted_floats,
    "float32 map, partition": from_floats,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_random_read(beside: Beside, folder: Path, way: str) -> None:
    ours, theirs = from_planes(folder), WAYS[way](folder)
    assert ours(3).sum() == theirs(3).sum() == removed_count(T, LAYOUT.features)
    mine, other = beside.seconds(lambda: [ours(i) for i in READ * 50], lambda: [theirs(i) for i in READ], rounds=3)
    detail = f"{50 * len(READ) / mine:,.0f} against {len(READ) / other:,.0f} images a core-second"
    beside.keep(Figure("random read of one removed map", way, 50 * other / mine, 20, detail))
