"""A few fixed test images with the rankings of all estimators, and pictures of them: image, map and what is left.

Read from a store's images and rankings where they are, or from the small file that a store without them carries.
"""

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from leaderboard.source import main_rows, protocols, slug, units
from roarbench.analysis.boards import SuiteResults
from roarbench.datasets.decoded import ImageData, open_decoded
from roarbench.errors import StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.kernels.ranking import Layout, removed_bits
from roarbench.store.layout import Workspace
from roarbench.store.rankings import Rankings, RankingsStore
from roarbench.store.specs import ranking_spec
from roarbench.terms import Order, Split, Unit

IMAGES = 6  # in a gallery
_FOLDER = "strips"  # as in stores that were shipped before

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Gallery:
    """A few test images with the rankings of all estimators.

    Attributes:
        numbers: Of the images among the test images.
        pixels: uint8 (n, c, h, w).
        fill: What replaces a removed feature, float (c,), in [0, 255].
        layout: What the planes hold.
        planes: Bit-planes of the rankings by estimator, uint8 (n, planes, width).
        seconds: Processor seconds for the maps of 1,000 images, by estimator.
        damaged: Estimators whose rankings are there and cannot be read.
    """

    numbers: tuple[int, ...]
    pixels: Bytes
    fill: tuple[float, ...]
    layout: Layout
    planes: Mapping[str, Bytes]
    seconds: Mapping[str, float]
    damaged: tuple[str, ...] = ()

    def removed(self, estimator: str, t: float, order: Order = Order.MORF) -> NDArray[np.bool_]:
        """Return True where a feature is removed, bool (n, c, h, w)."""
        packed = removed_bits(self.planes[estimator], t, order, self.layout)
        unit, (_, height, width) = self.layout.unit, self.layout.shape
        grid = (len(packed), *unit.grid(self.layout.shape))
        flat = np.unpackbits(packed, axis=1, count=self.layout.features).astype(bool)
        wide = flat.reshape(grid).repeat(unit.side, 2).repeat(unit.side, 3)
        return np.broadcast_to(wide[:, :, :height, :width], self.pixels.shape)

    def degraded(self, estimator: str, t: float, order: Order = Order.MORF) -> Bytes:
        """Return the images with the removed features filled, uint8 (n, c, h, w)."""
        fill = np.rint(np.array(self.fill))[:, None, None]
        return np.where(self.removed(estimator, t, order), fill, self.pixels).astype(np.uint8)

    def heat(self, estimator: str) -> NDArray[np.float64]:
        """Return how early each pixel is removed, (n, h, w) in [0, 1].

        This is the share of levels at which it is removed, averaged over channels: only the level bins of a ranking are
        stored.
        """
        gone = [self.removed(estimator, t).mean(1) for t in self.layout.levels]
        mean: NDArray[np.float64] = np.mean(gone, axis=0)
        return mean


def read_gallery(suite_results: SuiteResults, folder: Path) -> Gallery | None:
    """Return a suite's gallery: from images and rankings, else from the gallery file; None where there is neither."""
    path = gallery_file(suite_results, folder)
    return _from_store(suite_results, folder) or (_load(path) if path.exists() else None)


def gallery_file(suite_results: SuiteResults, folder: Path) -> Path:
    """Return the file in which a store without images keeps a suite's gallery."""
    return folder / _FOLDER / f"{slug(suite_results)}-{suite_results.data[:12]}.npz"


def _from_store(suite_results: SuiteResults, folder: Path) -> Gallery | None:
    workspace = Workspace(folder)
    images = _images(suite_results, workspace)
    if images is None or images.record.tabular:  # a row of a table is no picture
        return None
    pixels = images.test.pixels
    numbers = np.linspace(0, len(pixels) - 1, IMAGES).astype(int)  # spread over the classes where these are in order
    store = RankingsStore(workspace.rankings)
    unit = units(suite_results, protocols(suite_results)[0])[0]
    specs = {
        name: ranking_spec(suite_results.suite, images, find_estimator(name), unit) for name in main_rows(suite_results)
    }
    ranked, damaged = {}, []
    for name, spec in specs.items():
        if store.has(spec):
            try:
                ranked[name] = store.open(spec)
            except StoreError:
                damaged.append(name)
    if not ranked and not damaged:
        return None
    planes = {name: found.planes(Split.TEST)[numbers] for name, found in ranked.items()}
    seconds = {name: 1000 * found.seconds / _count(found) for name, found in ranked.items()}
    layout = next(iter(specs.values())).layout
    return Gallery(tuple(numbers.tolist()), pixels[numbers], images.mean, layout, planes, seconds, tuple(damaged))


def _images(suite_results: SuiteResults, workspace: Workspace) -> ImageData | None:
    """Return the decoded images that the suite's results were made on."""
    for manifest in sorted(workspace.data.glob("*/manifest.json")):
        if json.loads(manifest.read_text()).get("fingerprint") == suite_results.data:
            return open_decoded(manifest.parent)
    return None


def _count(rankings: Rankings) -> int:
    """Return the number of ranked images."""
    return sum(int(file["images"]) for file in rankings.files.values())


def save_gallery(gallery: Gallery, path: Path) -> None:
    """Write a gallery into a file that a store without images and rankings can carry."""
    layout = gallery.layout
    about = {
        "numbers": gallery.numbers,
        "fill": gallery.fill,
        "shape": layout.shape,
        "unit": layout.unit,
        "levels": layout.levels,
        "seconds": dict(gallery.seconds),
        "estimators": list(gallery.planes),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    planes = np.stack(list(gallery.planes.values()))
    np.savez_compressed(path, pixels=gallery.pixels, planes=planes, about=np.array(json.dumps(about)))


def _load(path: Path) -> Gallery:
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        layout = Layout(tuple(about["shape"]), Unit(about["unit"]), tuple(about["levels"]))
        planes = dict(zip(about["estimators"], file["planes"], strict=True))
        return Gallery(tuple(about["numbers"]), file["pixels"], tuple(about["fill"]), layout, planes, about["seconds"])


SIDE = 128  # pixels that a picture is shown at, at least

# Heat from black over red and yellow to white: four anchors, read off in grey as rising brightness
_ANCHORS = np.array([[0, 0, 0], [180, 30, 20], [250, 190, 40], [255, 255, 255]], dtype=np.float64)


def original(gallery: Gallery, image: int) -> Bytes:
    """Return a test image, uint8 (h, w, 3)."""
    return _rgb(gallery.pixels[image])


def degraded(gallery: Gallery, estimator: str, image: int, t: float) -> Bytes:
    """Return what is left of it without an estimator's most important features, uint8 (h, w, 3)."""
    return _rgb(gallery.degraded(estimator, t)[image])


def heat(gallery: Gallery, estimator: str, image: int) -> Bytes:
    """Return an estimator's map of it, bright where features are removed first, uint8 (h, w, 3)."""
    values = gallery.heat(estimator)[image] * (len(_ANCHORS) - 1)
    low = np.minimum(values.astype(int), len(_ANCHORS) - 2)
    share = (values - low)[..., None]
    colours: Bytes = np.rint(_ANCHORS[low] * (1 - share) + _ANCHORS[low + 1] * share).astype(np.uint8)
    return colours


def _rgb(pixels: NDArray[np.uint8]) -> Bytes:
    colour = np.moveaxis(pixels, 0, -1)
    return np.broadcast_to(colour, (*colour.shape[:2], 3))


def enlarged(picture: Bytes) -> Bytes:
    """Repeat every pixel of a picture until it is `SIDE` wide."""
    times = max(1, SIDE // picture.shape[1])
    return picture.repeat(times, 0).repeat(times, 1)


def png(picture: Bytes) -> bytes:
    """Return a picture as a small file: a PNG of 64 colours, since JPEG would blur the removed features."""
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).quantize(64).save(file, "PNG", optimize=True)
    return file.getvalue()


def data_uri(picture: Bytes) -> str:
    """Return a picture as a text that a file of records can hold."""
    return f"data:image/png;base64,{base64.b64encode(png(picture)).decode()}"
