"""Make pictures of about 24 test images, of their maps, and of the images after removal, or read finished pictures."""

import io
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple
from zipfile import ZipFile

import numpy as np
from numpy.typing import NDArray

from leaderboard.text_helpers import make_slug
from roarbench.analysis.correctness_of_suite import load_kept_under_own_and_next_map
from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.enums import TEST_IDS, Order, Split, Unit
from roarbench.common.errors import StoreError
from roarbench.compute.masks import (
    assign_strata,
    compute_removal_magnitudes_in_numpy,
    draw_rotated_tie_orders,
    make_matched_masks,
)
from roarbench.compute.ranking import Layout, find_removed_bits, read_bin_codes
from roarbench.datasets.open_decoded import ImageData, open_decoded
from roarbench.estimators.catalogue import find_estimator, find_estimator_or_placeholder
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.protocols import OWN_NETWORK, Protocol
from roarbench.stats.correctness_and_gain import Bits
from roarbench.store.ranking_files import make_ranking_spec
from roarbench.store.rankings import Rankings, RankingsStore
from roarbench.store.workspace import Workspace

IMAGES = 24
RULE = (
    "The {known:,} test images {condition} were sorted by the number of {predictions} "
    "lost under masks of estimators that use the network; {count} at equal steps are shown, the largest loss first."
)
Bytes = NDArray[np.uint8]
Masks = NDArray[np.bool_]
# source of a removal mask: the image's own map, another image's map, or the matched mask of another image's map
MaskSource = Literal["own", "other", "matched"]
Kind = MaskSource | Literal["map", "sibling"]  # line of a sheet; `sibling` shows the masks of another network's map
# colours of heat maps, from black over red and yellow to white; their brightness rises, so maps can be printed in grey
_HEAT_COLOURS = np.array([[0, 0, 0], [180, 30, 20], [250, 190, 40], [255, 255, 255]], dtype=np.float64)


class CorrectCountsPerImage(NamedTuple):
    """Correct predictions per image, summed over levels: under a row's own masks, and under its counterpart's masks.

    `against` is empty if the row has no counterpart. `of` is the number of predictions per image.
    """

    own: tuple[int, ...]
    against: tuple[int, ...]
    of: int
    word: str = "right"  # name of a count; own-network gain counts predictions that are "kept"


def find_pictured_protocol(results: SuiteResults) -> Protocol:
    """Return the protocol whose masks are shown: own-network gain if it has results, else the headline protocol."""
    return OWN_NETWORK if results.has_started(OWN_NETWORK) else results.headline_protocol


def count_correct_per_image_over_all_levels(
    results: SuiteResults, protocol: Protocol, unit: Unit, row: str, images: Sequence[int]
) -> CorrectCountsPerImage:
    """Count a row's predictions on these images that are correct (or stay the same), over all levels and networks."""
    own, by_other_map = _collect_row_and_counterpart_correctness(results, protocol, unit, [row])
    right, against = (
        tuple(sum(bits[image] for bits in rows) for image in images) if rows else () for rows in (own, by_other_map)
    )
    return CorrectCountsPerImage(right, against, len(own), "kept" if protocol.scores_all_network_pairs else "right")


def _collect_row_and_counterpart_correctness(
    results: SuiteResults, protocol: Protocol, unit: Unit, names: Collection[str]
) -> tuple[Sequence[Bits], Sequence[Bits]]:
    """Return the correctness of rows and of their counterparts at the protocol's levels, as lists of bool (images,)."""
    if protocol.scores_all_network_pairs:
        pairs = [load_kept_under_own_and_next_map(results, protocol, unit, name) for name in names]
        return [bits for own, _ in pairs for bits in own], [bits for _, other in pairs for bits in other]
    twins = [protocol.make_paired_twin_id(name) for name in names]
    stored, levels = results.find_results(protocol, unit).items(), results.list_included_levels(protocol, unit)
    own, other = (
        [made.correctness for (name, t), seeds in stored if name in rows and t in levels for made in seeds.values()]
        for rows in (names, twins)
    )
    return own, other


def choose_images_spread_by_lost_predictions(
    results: SuiteResults, protocol: Protocol, unit: Unit, count: int = IMAGES
) -> tuple[NDArray[np.int64], str]:
    """Choose the test images to show, int64 (n,), and describe the rule in words; both are empty without results."""
    rows = results.suite.estimators_with_own_row
    asking = [name for name in rows if not find_estimator_or_placeholder(name).is_control_or_search]
    own, other = _collect_row_and_counterpart_correctness(results, protocol, unit, asking)
    if not own:
        return np.empty(0, np.int64), ""
    cost = np.asarray(np.sum(other, 0, dtype=np.int64) - np.sum(own, 0, dtype=np.int64))
    untouched = results.by_estimator.get(CLEAN, ())
    clean = [made.correctness for point, made in untouched if point.cell.retrain == protocol.retrain]
    known = np.flatnonzero(np.mean(clean, 0) > 0.5) if clean else np.arange(len(cost))
    order = np.asarray(known[np.argsort(-cost[known], kind="stable")])
    steps = np.unique(np.linspace(0, len(order) - 1, min(count, len(order))).round().astype(np.int64))
    # own-network gain never uses labels: an untouched prediction counts if another network predicts the same class
    condition, predictions = "that most networks classify correctly", "correct predictions"
    if protocol.scores_all_network_pairs:
        condition, predictions = "on which the networks' predictions mostly agree", "predictions"
    rule = RULE.format(known=len(known), condition=condition, predictions=predictions, count=len(steps))
    return order[steps], rule


@dataclass(frozen=True, eq=False)
class Pictures:
    """Sheets of small pictures of some test images; a sheet has a column per image and a line per kind of picture."""

    numbers: Sequence[int]  # numbers of the test images
    rule: str  # rule by which these images were chosen, in words
    level: float  # removal fraction of the masks
    kinds: Sequence[Kind]  # lines of an estimator's sheet: `map`, `own`, and the protocol's other masks
    side: int  # pixels per side of a picture
    rows: Sequence[str]  # estimators that have a sheet
    damaged: tuple[str, ...]  # estimators whose rankings cannot be read
    # function from an estimator to its sheet as WebP, cached; for the empty name, the sheet shows the images themselves
    sheet: Callable[[str], bytes]


def read_pictures(results: SuiteResults, folder: Path) -> Pictures | None:
    """Make a suite's pictures from stored images and rankings, or else read its file of pictures; None without both."""
    workspace = Workspace(folder)
    if chosen := choose_pictured_images(results, workspace):
        ranked, damaged = _open_rankings_and_find_damaged(results, chosen, workspace)
        siblings = dict[str, Rankings]()
        if chosen.protocol.scores_all_network_pairs:
            siblings, _ = _open_rankings_and_find_damaged(results, chosen, workspace, number=1)
        if ranked or damaged:
            return replace(make_pictures(results, chosen, ranked, siblings), damaged=damaged)
    path = find_pictures_file(results, folder)
    if not path.exists():
        return None
    with ZipFile(path) as file:
        about = json.loads(file.read("about.json"))
    about.pop("seconds", None)  # in files of older versions
    places = {name: f"{at}.webp" for at, name in enumerate(("", *about["rows"]))}

    def sheet(name: str) -> bytes:
        with ZipFile(path) as file:
            return file.read(places[name])

    return Pictures(**about, damaged=(), sheet=sheet)


def find_pictures_file(results: SuiteResults, folder: Path) -> Path:
    """Return the path of a suite's file of pictures, which a store without images may have."""
    return folder / "pictures" / f"{make_slug(results)}-{results.data[:12]}.zip"


def save_pictures(pictures: Pictures, path: Path) -> None:
    """Save pictures to a file, which a store without images and rankings can use."""
    about = {name: getattr(pictures, name) for name in ("numbers", "rule", "level", "kinds", "side", "rows")}
    path.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(path, "w") as file:
        file.writestr("about.json", json.dumps(about))
        for at, name in enumerate(("", *pictures.rows)):
            file.writestr(f"{at}.webp", pictures.sheet(name))


class PicturedImages(NamedTuple):
    """The test images that pictures show, the protocol of the masks, and the rule by which the images were chosen."""

    images: ImageData
    protocol: Protocol
    unit: Unit
    numbers: NDArray[np.int64]
    rule: str


def choose_pictured_images(results: SuiteResults, workspace: Workspace, count: int = IMAGES) -> PicturedImages | None:
    """Choose at most `count` test images; None for tables, without stored images, or for a fill other than `mean`."""
    protocol = find_pictured_protocol(results)
    manifests = sorted(workspace.data.glob("*/manifest.json"))
    found = (one for one in manifests if json.loads(one.read_text()).get("fingerprint") == results.data)
    images = open_decoded(first.parent) if (first := next(found, None)) else None
    # a table has no pictures, and this module fills removed features only with the mean
    if images is None or images.record.tabular or results.suite.find_fill(protocol) != "mean":
        return None
    unit = results.list_units(protocol)[0]
    numbers, rule = choose_images_spread_by_lost_predictions(results, protocol, unit, count)
    return PicturedImages(images, protocol, unit, numbers, rule) if len(numbers) else None


def make_pictures(
    results: SuiteResults, chosen: PicturedImages, ranked: Mapping[str, Rankings], siblings: Mapping[str, Rankings]
) -> Pictures:
    """Make the pictures of rows from their rankings for the first explained network and, `siblings`, for the second."""
    images, protocol, unit, numbers, rule = chosen
    levels = results.list_included_levels(protocol, unit)
    kinds: list[Kind] = ["map", "own", *(("matched", "other") if protocol.compares_with_other_image else ())]
    kinds += ["sibling"] if protocol.scores_all_network_pairs and siblings.keys() >= ranked.keys() else []
    level = levels[len(levels) // 2]
    maker = PictureMaker(images, numbers, protocol, level, min(point.seed for point in results.results))

    @cache  # the app renders an open page repeatedly
    def sheet(name: str) -> bytes:
        rgb = maker.convert_to_channels_last_rgb
        lines = (
            [maker.draw_line(kind, ranked[name], siblings.get(name)) for kind in kinds] if name else [rgb(maker.pixels)]
        )
        picture, file = np.concatenate([np.concatenate(list(line), 1) for line in lines]), io.BytesIO()
        from PIL import Image  # a page of numbers needs no pictures

        Image.fromarray(picture).save(file, "WEBP", quality=60, method=4)
        return file.getvalue()

    return Pictures(tuple(numbers.tolist()), rule, level, tuple(kinds), images.record.size, tuple(ranked), (), sheet)


class PictureMaker:
    """A maker of pictures of test images under a protocol, with features removed at one level.

    `numbers` are the numbers of the test images, int64 (n,). `seed` is the seed of the network that determines which
    other image is paired with each image.
    """

    def __init__(
        self, images: ImageData, numbers: NDArray[np.int64], protocol: Protocol, level: float, seed: int = 0
    ) -> None:
        self.pixels: Bytes = images.test.pixels[numbers]
        self.fill = np.array(images.mean, np.float32)[:, None, None]
        self.numbers, self.protocol, self.level, self.seed = numbers, protocol, level, seed
        from roarbench.estimators.random_draws import pair_images  # loads NumPy's generators

        self.others = pair_images(len(images.test.labels), TEST_IDS, seed)[numbers]

    def draw_line(self, kind: Kind, rankings: Rankings, sibling: Rankings | None = None) -> Bytes:
        """Return a row's pictures, uint8 (n, h, w, 3); `sibling` has the row's rankings for another network.

        The colour of a map shows the fraction of levels at which a pixel is removed.
        """
        layout = rankings.layout
        if kind == "map":
            planes = rankings.splits[Split.TEST][self.numbers]
            removed = (_find_removed_features(planes, t, Order.MORF, layout) for t in layout.levels)
            values = np.mean([_expand_to_image(each, layout) for each in removed], axis=0).mean(1)
            places = np.linspace(0, 1, len(_HEAT_COLOURS))
            colours = [np.interp(values, places, _HEAT_COLOURS[:, channel]) for channel in range(3)]
            return np.asarray(np.rint(np.stack(colours, axis=-1)), np.uint8)
        if kind == "sibling":
            assert sibling is not None, "`kinds` contains `sibling` only if every row has rankings for a second network"
            masks = self.make_masks(sibling, "own")
        else:
            masks = self.make_masks(rankings, kind)
        removed_pixels = _expand_to_image(masks, layout)
        left = np.where(removed_pixels, np.rint(self.fill), self.pixels).astype(np.uint8)
        return self.convert_to_channels_last_rgb(left)

    def make_masks(self, rankings: Rankings, source: MaskSource) -> Masks:
        """Return the images' removal masks at the level of the pictures, bool (n, d)."""
        planes, layout = rankings.splits[Split.TEST], rankings.layout
        whose = self.others if source == "other" else self.numbers
        own = _find_removed_features(planes[whose], self.level, self.protocol.order, layout)
        if source != "matched":
            return own
        codes = read_bin_codes(planes[self.others], layout)
        ties = draw_rotated_tie_orders(self.seed, self.numbers, layout.features)
        strata = assign_strata(compute_removal_magnitudes_in_numpy(self.pixels, self.fill, layout.unit))
        return make_matched_masks(own, codes, strata, self.protocol.order, ties)

    @staticmethod
    def convert_to_channels_last_rgb(pixels: Bytes) -> Bytes:
        """Convert pixels, (n, 1 or 3, h, w), to colour images, uint8 (n, h, w, 3)."""
        colour = np.moveaxis(pixels, 1, -1)
        return np.broadcast_to(colour, (*colour.shape[:3], 3))


def _find_removed_features(planes: Bytes, t: float, order: Order, layout: Layout) -> Masks:
    packed = find_removed_bits(planes, t, order, layout)
    return np.unpackbits(packed, axis=1, count=layout.features).view(bool)


def _expand_to_image(removed: Masks, layout: Layout) -> Masks:
    """Reshape a removal mask of features, bool (n, d), to the images' shape, bool (n, c or 1, h, w)."""
    return removed.reshape(len(removed), *layout.unit.grid(layout.shape))


def _open_rankings_and_find_damaged(
    results: SuiteResults, chosen: PicturedImages, workspace: Workspace, number: int = 0
) -> tuple[dict[str, Rankings], tuple[str, ...]]:
    """Return a dict from rows to their rankings for an explained network, and the rows whose rankings are damaged."""
    store, ranked, damaged = RankingsStore(workspace.rankings), dict[str, Rankings](), []
    for name in results.suite.estimators_with_own_row:
        spec = make_ranking_spec(
            results.suite, results.data, chosen.images.record.shape, find_estimator(name), chosen.unit, number
        )
        # other suites, or a run of one protocol, rank other splits: training images are ranked only for training
        each = (replace(spec, splits=splits) for splits in ((Split.TEST,), tuple(Split)))
        for wanted_spec in filter(store.has_finished, each):
            try:
                ranked.setdefault(name, store.open(wanted_spec))
            except StoreError:
                damaged.append(name)
    return ranked, tuple(dict.fromkeys(damaged))
