"""About 24 test images, their maps and what masks leave of them: from stored answers and rankings alone.

A store with images and rankings has them all; one that was shipped without carries the finished pictures in a file.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from zipfile import ZipFile

import numpy as np
from PIL import Image

from leaderboard.remains import Makes
from leaderboard.source import slug
from roarbench.analysis.boards import SuiteResults
from roarbench.analysis.shown_images import chosen
from roarbench.datasets.decoded import ImageData, open_decoded
from roarbench.errors import StoreError
from roarbench.estimators.catalogue import find_estimator
from roarbench.store.layout import Workspace
from roarbench.store.ranking_spec import ranking_spec
from roarbench.store.rankings import Rankings, RankingsStore
from roarbench.terms import MATCHED_IMAGE, Unit


@dataclass(frozen=True, eq=False)
class Pictures:
    """A few test images, and sheets of small pictures of them: one column for each image, one line for each kind.

    Attributes:
        numbers: Of the images among the test images, chosen by the `rule`; features are removed at this `level`.
        kinds: What the lines of a row's sheet show: `map`, `own`, and where the protocol has them, other masks.
        side: Height and width of a picture in pixels.
        rows: Estimators that have a sheet.
        damaged: Those whose rankings are there and cannot be read.
        seconds: Processor seconds for the maps of 1,000 images, by estimator.
        sheet: Returns the sheet of a row as WebP, made once; of the empty name that of the images themselves.
    """

    numbers: Sequence[int]
    rule: str
    level: float
    kinds: Sequence[str]
    side: int
    rows: Sequence[str]
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

    return Pictures(**about, damaged=(), sheet=sheet)


def _from_store(results: SuiteResults, folder: Path) -> Pictures | None:
    workspace = Workspace(folder)
    images = _images(results, workspace)
    protocol, unit = results.leading, results.units(results.leading)[0]
    if images is None or images.record.tabular or results.suite.fill(protocol) != "mean":  # no picture, or not by us
        return None
    numbers, rule = chosen(results, protocol, unit)
    ranked, damaged = _rankings(results, images, unit, workspace)
    if not len(numbers) or not (ranked or damaged):
        return None
    levels = results.levels(protocol, unit)
    others = ["matched", "other"] if protocol.against == MATCHED_IMAGE else ["other"] if protocol.paired else []
    level, kinds = levels[len(levels) // 2], ("map", "own", *others)
    makes = Makes(images, numbers, protocol, level, min(point.seed for point in results.results))

    @cache  # an open page is rendered again and again
    def sheet(name: str) -> bytes:
        lines = [makes.rgb(makes.pixels)] if not name else makes.lines(ranked[name], kinds)
        picture, file = np.concatenate([np.concatenate(list(line), 1) for line in lines]), io.BytesIO()
        Image.fromarray(picture).save(file, "WEBP", quality=60, method=4)
        return file.getvalue()

    images_of = {name: sum(int(file["images"]) for file in found.files.values()) for name, found in ranked.items()}
    seconds = {name: 1000 * found.seconds / images_of[name] for name, found in ranked.items()}
    side = images.record.size
    return Pictures(tuple(numbers.tolist()), rule, level, kinds, side, tuple(ranked), damaged, seconds, sheet)


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
    for name in results.suite.placed:
        spec = ranking_spec(results.suite, results.data, images.record.shape, find_estimator(name), unit)
        if store.has(spec):
            try:
                ranked[name] = store.open(spec)
            except StoreError:
                damaged.append(name)
    return ranked, tuple(damaged)
