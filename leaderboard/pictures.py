"""About 24 test images, their maps and what masks leave of them: from stored answers and rankings alone.

A store with images and rankings has them all; one that was shipped without carries the finished pictures in a file.
"""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from leaderboard.source import lookup_estimator, main_rows, protocols, slug, units
from roarbench.analysis.boards import SuiteResults
from roarbench.datasets.decoded import ImageData, open_decoded
from roarbench.errors import StoreError
from roarbench.estimators import BLUR
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.pairing import other_images, other_images_of_class
from roarbench.kernels.matching import matched, matching_ties, strata
from roarbench.kernels.ranking import Layout, bin_codes, removed_bits
from roarbench.plan.runs import CLEAN
from roarbench.protocols import Protocol
from roarbench.stats.curves import Bits
from roarbench.store.layout import Workspace
from roarbench.store.rankings import Rankings, RankingsStore
from roarbench.store.specs import ranking_spec
from roarbench.terms import MATCHED_IMAGE, SAME_CLASS, TEST_IDS, Order, Split, Unit

IMAGES = 24
RULE = (
    "Of the {known:,} test images that most networks know untouched, {count} at even steps: from the one on which "
    "masks of the estimators that ask a network cost most answers, to the one on which they cost fewest."
)
Bytes = NDArray[np.uint8]
Masks = NDArray[np.bool_]
# Heat from black over red and yellow to white: four anchors, read off in grey as rising brightness
_ANCHORS = np.array([[0, 0, 0], [180, 30, 20], [250, 190, 40], [255, 255, 255]], dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Pictures:
    """A few test images, and sheets of small pictures of them: one column for each image, one line for each kind.

    Attributes:
        numbers: Of the images among the test images.
        rule: By which they were chosen, in a sentence.
        level: At which features are removed.
        kinds: What the lines of a row's sheet show: `map`, `own`, and where the protocol has them, other masks.
        side: Height and width of a picture in pixels.
        rows: Estimators that have a sheet.
        damaged: Those whose rankings are there and cannot be read.
        seconds: Processor seconds for the maps of 1,000 images, by estimator.
        sheet: Returns the sheet of a row as WebP; of the empty name that of the images themselves.
    """

    numbers: tuple[int, ...]
    rule: str
    level: float
    kinds: tuple[str, ...]
    side: int
    rows: tuple[str, ...]
    damaged: tuple[str, ...]
    seconds: Mapping[str, float]
    sheet: Callable[[str], bytes]


def read_pictures(results: SuiteResults, folder: Path) -> Pictures | None:
    """Return a suite's pictures: from images and rankings, else from the file; None where there is neither."""
    path = pictures_file(results, folder)
    return _from_store(results, folder) or (_from_file(path) if path.exists() else None)


def pictures_file(results: SuiteResults, folder: Path) -> Path:
    """Return the file in which a store without images keeps a suite's pictures."""
    return folder / "pictures" / f"{slug(results)}-{results.data[:12]}.zip"


def save_pictures(found: Pictures, path: Path) -> None:
    """Write pictures into a file that a store without images and rankings can carry."""
    about = {name: getattr(found, name) for name in ("numbers", "rule", "level", "kinds", "side", "rows", "seconds")}
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as file:
        file.writestr("about.json", json.dumps(about | {"seconds": dict(found.seconds)}))
        for at, name in enumerate(("", *found.rows)):
            file.writestr(f"{at}.webp", found.sheet(name))


def _from_file(path: Path) -> Pictures:
    with ZipFile(path) as file:
        about = json.loads(file.read("about.json"))
    places = {name: f"{at}.webp" for at, name in enumerate(("", *about["rows"]))}

    def sheet(name: str) -> bytes:
        with ZipFile(path) as file:
            return file.read(places[name])

    tuples = {name: tuple(about[name]) for name in ("numbers", "kinds", "rows")}
    return Pictures(**(about | tuples), damaged=(), sheet=sheet)


def answers_of(
    results: SuiteResults, protocol: Protocol, unit: Unit, name: str, numbers: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return how many answers to each image are right, over all levels: with a row's own masks, and with the others."""
    found = [_answers(results, protocol, unit, each) for each in (name, protocol.counterpart(name))]
    own, others = (tuple(sum(each[number] for each in held) for number in numbers) if held else () for held in found)
    return own, others


def _answers(results: SuiteResults, protocol: Protocol, unit: Unit, name: str) -> list[Bits]:
    """Return the answers of a row's networks above level 0, bool (images,) each."""
    asked = (protocol.order, protocol.retrain, unit, results.suite.fill(protocol))
    found = [(point.cell, result) for point, result in results.by_estimator.get(name, [])]
    return [made.answers for c, made in found if c.t > 0 and (c.order, c.retrain, c.unit, c.fill) == asked]


def chosen(results: SuiteResults, protocol: Protocol, unit: Unit, count: int = IMAGES) -> tuple[NDArray[np.int64], str]:
    """Return the numbers of the test images that are shown, int64 (n,), and the rule; none where no result says it."""
    asking = [name for name in main_rows(results) if not lookup_estimator(name).control]
    own, other = (
        [made for name in asking for made in _answers(results, protocol, unit, form(name))]
        for form in (str, protocol.counterpart)
    )
    if not own:
        return np.empty(0, np.int64), ""
    cost = np.sum(other, 0, dtype=np.int64) - np.sum(own, 0, dtype=np.int64)
    clean = [
        made.answers for point, made in results.by_estimator.get(CLEAN, ()) if point.cell.retrain == protocol.retrain
    ]
    known = np.flatnonzero(np.mean(clean, 0) > 0.5) if clean else np.arange(len(cost))
    order = known[np.argsort(-cost[known], kind="stable")]
    steps = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(np.int64))
    return order[steps], RULE.format(known=len(known), count=len(steps))


def _from_store(results: SuiteResults, folder: Path) -> Pictures | None:
    workspace = Workspace(folder)
    images = _images(results, workspace)
    protocol = protocols(results)[0]
    unit = units(results, protocol)[0]
    if images is None or images.record.tabular:  # a row of a table is no picture
        return None
    numbers, rule = chosen(results, protocol, unit)
    ranked, damaged = _rankings(results, images, unit, workspace)
    if not len(numbers) or not (ranked or damaged):
        return None
    levels = results.levels(protocol, unit)
    level, kinds = levels[len(levels) // 2], ("map", "own", *_others(protocol))
    makes = Makes(images, numbers, protocol, level)

    def sheet(name: str) -> bytes:
        lines = [makes.rgb(makes.pixels)] if not name else makes.lines(ranked[name], kinds)
        return _webp(np.concatenate([np.concatenate(list(line), 1) for line in lines]))

    seconds = {name: 1000 * found.seconds / _count(found) for name, found in ranked.items()}
    side = images.record.size
    return Pictures(tuple(numbers.tolist()), rule, level, kinds, side, tuple(ranked), damaged, seconds, sheet)


def _others(protocol: Protocol) -> tuple[str, ...]:
    """Return whose masks are shown beside the own one."""
    if not protocol.paired:
        return ()
    return ("matched", "other") if protocol.against == MATCHED_IMAGE else ("other",)


def _images(results: SuiteResults, workspace: Workspace) -> ImageData | None:
    """Return the decoded images that the suite's results were made on."""
    for manifest in sorted(workspace.data.glob("*/manifest.json")):
        if json.loads(manifest.read_text()).get("fingerprint") == results.data:
            return open_decoded(manifest.parent)
    return None


def _rankings(
    results: SuiteResults, images: ImageData, unit: Unit, workspace: Workspace
) -> tuple[dict[str, Rankings], tuple[str, ...]]:
    """Return the rankings of the rows by the first reference, and the rows whose rankings are damaged."""
    store, ranked, damaged = RankingsStore(workspace.rankings), dict[str, Rankings](), []
    for name in main_rows(results):
        spec = ranking_spec(results.suite, images, find_estimator(name), unit)
        if store.has(spec):
            try:
                ranked[name] = store.open(spec)
            except StoreError:
                damaged.append(name)
    return ranked, tuple(damaged)


def _count(rankings: Rankings) -> int:
    return sum(int(file["images"]) for file in rankings.files.values())


class Makes:
    """Makes pictures of some test images under a protocol.

    Args:
        images: The data set.
        numbers: Which test images, int64 (n,).
        protocol: Says which masks there are.
        level: At which features are removed.
    """

    def __init__(self, images: ImageData, numbers: NDArray[np.int64], protocol: Protocol, level: float) -> None:
        self.pixels: Bytes = images.test.pixels[numbers]
        self.fill = np.array(images.mean, np.float32)[:, None, None]
        self.numbers, self.protocol, self.level = numbers, protocol, level
        labels = images.test.labels
        if protocol.against == SAME_CLASS:
            self.others = other_images_of_class(labels, TEST_IDS, 0)[numbers]
        else:
            self.others = other_images(len(labels), TEST_IDS, 0)[numbers]

    def lines(self, rankings: Rankings, kinds: Iterable[str]) -> list[Bytes]:
        """Return the pictures of a row by its rankings, uint8 (n, h, w, 3) for each kind."""
        return [self._heat(rankings) if kind == "map" else self._left(rankings, kind) for kind in kinds]

    def _left(self, rankings: Rankings, kind: str) -> Bytes:
        removed = wide(self.mask(rankings, kind), rankings.layout)
        return self.rgb(np.where(removed, np.rint(self.fill), self.pixels).astype(np.uint8))

    def mask(self, rankings: Rankings, kind: str) -> Masks:
        """Return what the `own` mask, that of the `other` image or the `matched` one removes, bool (n, d)."""
        planes, layout = rankings.planes(Split.TEST), rankings.layout
        whose = self.others if kind == "other" else self.numbers
        own = _unpacked(removed_bits(planes[whose], self.level, self.protocol.order, layout), layout)
        if kind != "matched":
            return own
        codes, ties = bin_codes(planes[self.others], layout), matching_ties(0, self.numbers, layout.features)
        return matched(own, codes, strata(changes(self.pixels, self.fill, layout.unit)), self.protocol.order, ties)

    def _heat(self, rankings: Rankings) -> Bytes:
        """Return how early each pixel is removed, the share of levels averaged over channels, as colours."""
        planes, layout = rankings.planes(Split.TEST)[self.numbers], rankings.layout
        gone = [wide(_unpacked(removed_bits(planes, t, Order.MORF, layout), layout), layout) for t in layout.levels]
        values = np.mean(gone, axis=0).mean(1) * (len(_ANCHORS) - 1)
        low = np.minimum(values.astype(int), len(_ANCHORS) - 2)
        share = (values - low)[..., None]
        return np.rint(_ANCHORS[low] * (1 - share) + _ANCHORS[low + 1] * share).astype(np.uint8)

    @staticmethod
    def rgb(pixels: Bytes) -> Bytes:
        """Return images in colours, uint8 (n, h, w, 3)."""
        colour = np.moveaxis(pixels, 1, -1)
        return np.broadcast_to(colour, (*colour.shape[:3], 3))


def _unpacked(packed: Bytes, layout: Layout) -> Masks:
    return np.unpackbits(packed, axis=1, count=layout.features).view(bool)


def wide(removed: Masks, layout: Layout) -> Masks:
    """Return removed features, bool (n, d), as removed numbers of the images, bool (n, c or 1, h, w)."""
    side, (_, height, width) = layout.unit.side, layout.shape
    grid = removed.reshape(len(removed), *layout.unit.grid(layout.shape))
    return grid.repeat(side, 2).repeat(side, 3)[:, :, :height, :width]


def changes(pixels: Bytes, fill: NDArray[np.float32], unit: Unit) -> list[Bytes]:
    """Return what `kernels.fill.change_numbers` does for the fill by the mean, without torch."""
    change = np.abs(pixels.astype(np.float32) - fill)
    rows, columns = (_blur_matrix(side) for side in change.shape[2:])
    made = [change, rows.T @ change @ columns]
    if unit is not Unit.SCALAR:
        made = [each.mean(1, keepdims=True) for each in made]
        made = [_pooled(each, unit.side) for each in made]
    return [each.reshape(len(each), -1).round().astype(np.uint8) for each in made]


def _pooled(change: NDArray[np.float32], side: int) -> NDArray[np.float32]:
    """Return the mean over each square; those that the border cuts have fewer pixels."""
    for axis in (2, 3):
        starts = np.arange(0, change.shape[axis], side)
        sums, counts = np.add.reduceat(change, starts, axis), np.diff(np.append(starts, change.shape[axis]))
        change = sums / counts.reshape(-1, *(1,) * (3 - axis)).astype(np.float32)
    return change


def _blur_matrix(side: int) -> NDArray[np.float32]:
    """Return a (side, side) matrix; row i is the blur of a line that is 1 at i and 0 elsewhere."""
    sigma = BLUR * side
    radius = round(4 * sigma)
    kernel = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    lines = np.pad(np.eye(side), ((0, 0), (radius, radius)), mode="reflect")
    return np.stack([np.convolve(line, kernel / kernel.sum(), "valid") for line in lines]).astype(np.float32)


def _webp(picture: Bytes) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(picture)).save(file, "WEBP", quality=60, method=4)
    return file.getvalue()
