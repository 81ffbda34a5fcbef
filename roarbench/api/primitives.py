"""The steps of a suite one at a time, on arrays or tensors, and the perturbation curve of any torch model."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.inputs import check_labels, read_images, read_labels, to_array, to_tensor
from roarbench.api.removal import (
    Removal,
    check_model,
    compute_feature_importance,
    compute_logits,
    hash_images,
    make_replacer,
    mark_removed,
    rank_maps,
    read_fill,
    read_order,
    read_pixels,
    set_evaluation_mode,
    split_into_batches,
)
from roarbench.compute import degrade as fills
from roarbench.compute import masks, ranking
from roarbench.compute.degrade import degrade
from roarbench.enums import FILL_WORDS, FILLS, PAPER_LEVELS, Order, Unit
from roarbench.errors import CallerError, UnknownName
from roarbench.stats.bootstrap import Bootstrap, Estimate, Sample, make_estimate
from roarbench.stats.curves import compute_area_weights
from roarbench.stats.resampling import draw_image_weights

if TYPE_CHECKING:
    import pandas


def rank(maps: Any, shape: tuple[int, int, int] | None = None, seed: int = 0) -> NDArray[np.int64]:
    """Return the features of each image, most important first, ties broken at random for each image.

    Args:
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w), finite.
        shape: Channels, height and width of an image; those of the maps if None.
        seed: Of the chance that breaks ties.

    Returns:
        int64 (n, c h w), indices into each image's numbers, flattened.

    Raises:
        CallerError: A value is not finite, or the maps have another shape.
    """
    flat = compute_feature_importance(maps, shape)
    return ranking.rank(flat, ranking.draw_tie_order(np.arange(len(flat)), flat.shape[1], seed)).copy()


def remove(images: Any, maps: Any, t: float, order: str = "morf", fill: Any = None) -> Tensor:
    """Replace the fraction t of each image's features that a map calls most, or least, important.

    Args:
        images: (n, c, h, w), any range.
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w), larger is more important.
        t: Fraction to remove, in [0, 1].
        order: `morf` removes the most important features, `lerf` the least important.
        fill: What replaces them, (c,); the mean of these images' channels if None.

    Returns:
        float32 (n, c, h, w), a new tensor; kept values are exact.
    """
    pixels = read_pixels(images)
    return degrade(pixels, mark_removed(rank_maps(pixels, maps), pixels.shape, t, order), read_fill(pixels, fill))


def fill(images: Any, removed: Any, by: str = "linear", mean: Any = None) -> Tensor:
    """Replace removed features by something other than a constant.

    Args:
        images: uint8 (n, c, h, w).
        removed: bool (n, c, h, w) or (n, 1, h, w), True where a feature goes.
        by: `mean`, `black`, `blur`, `noise`, `linear` (the interpolation of ROAD, Rong et al. 2022) or `neighbours`.
        mean: (c,), in [0, 255], for `mean` and where nothing of a channel is left; that of these images if None.

    Returns:
        float32 (n, c, h, w), in [0, 255].
    """
    by = FILL_WORDS.get(by, by)
    if by not in FILLS:
        raise UnknownName("fill", by, FILLS)
    pixels, gone = _bytes(images), to_tensor(removed, "the mask").bool()
    return fills.replace_features(pixels, gone, by, read_fill(pixels, mean), hash_images(pixels))


def match_masks(images: Any, maps: Any, others: Any, t: float, order: str = "morf", fill: Any = None) -> Tensor:
    """Return masks that follow another image's map, and change each image as much as its own mask does.

    Args:
        images: uint8 (n, c, h, w).
        maps: Each image's own map, (n, c, h, w), (n, 1, h, w) or (n, h, w).
        others: The map of another image for each, of the same shape.
        t: Fraction to remove, in [0, 1].
        order: `morf` or `lerf`.
        fill: What replaces a removed feature, (c,), in [0, 255]; the mean of these images' channels if None.

    Returns:
        bool (n, c, h, w), True where removed: in each of the 64 strata as many as the own mask removes.
    """
    pixels = _bytes(images)
    shape = tuple(pixels.shape)
    replaced = read_fill(pixels, fill)[:, None, None].expand(pixels.shape)
    strata = masks.assign_strata(fills.compute_removal_magnitude(pixels, replaced, Unit.SCALAR))
    own = mark_removed(rank_maps(pixels, maps), pixels.shape, t, order).flatten(1).numpy()
    ranked = rank_maps(pixels, others)
    n, d = ranked.shape
    places = np.empty((n, d), np.int64)
    np.put_along_axis(places, ranked, np.arange(d)[None], 1)
    bins = (places * 256 // d).astype(np.uint8)
    ties = places if read_order(order) is Order.MORF else d - 1 - places
    return torch.from_numpy(masks.match_removed(own, bins, strata, read_order(order), ties)).view(shape)


def mix_maps(maps: Any, others: Any, share: float, square: int = 8, seed: int = 0) -> Tensor:
    """Make maps worse by a known step: a share of each comes from another image's map by the same estimator.

    Of two maps of which one is degraded further, that one knows less of its image; a protocol is right that says so
    (after F-Fidelity's test, Zheng et al. 2024, arXiv 2410.02970). Whole squares are exchanged, so that a map stays as
    smooth, and what is exchanged at a smaller share is so at a larger one, too.

    Args:
        maps: (n, c, h, w) or (n, h, w), larger is more important.
        others: The map of another image for each, of the same shape. Where an `other image` of a protocol is asked,
            too, take a third one's.
        share: Of the squares, in [0, 1].
        square: Side of a square in pixels.
        seed: Of the chance that orders an image's squares.

    Returns:
        float32 of the maps' shape: instead of values, which have no common scale, the fraction of the image's features
        that a map calls less important, in [0, 1). Ties stay ties.
    """
    own, other = to_tensor(maps, "maps"), to_tensor(others, "the others")
    if own.shape != other.shape or own.ndim not in (3, 4):
        seen = f"maps have shape {tuple(own.shape)}, others {tuple(other.shape)}"
        raise CallerError(f"{seen}; expected the same, (n, c, h, w) or (n, h, w)")
    if not 0 <= share <= 1 or square < 1:
        raise CallerError(f"share {share} and square {square}; expected a share in [0, 1] and 1 pixel or more")
    taken = _squares(len(own), own.shape[-2], own.shape[-1], share, square, seed)
    return torch.where(taken if own.ndim == 3 else taken[:, None], _places(other), _places(own))


def _squares(n: int, height: int, width: int, share: float, square: int, seed: int) -> Tensor:
    """Draw a share of the squares of each image, bool (n, height, width)."""
    rows, columns = -(-height // square), -(-width // square)
    drawn = torch.rand((n, rows * columns), generator=torch.Generator().manual_seed(seed))
    taken = (drawn.argsort(1).argsort(1) < round(share * rows * columns)).view(n, rows, columns)
    return taken.repeat_interleave(square, 1).repeat_interleave(square, 2)[:, :height, :width]


def _places(maps: Tensor) -> Tensor:
    """Return the fraction of its image's features that lie below each one, float32 of the maps' shape."""
    flat = maps.float().flatten(1).contiguous()
    below = torch.searchsorted(flat.sort(1).values, flat)
    return (below / flat.shape[1]).view(maps.shape)


def bootstrap(correct: Any, other: Any = None, bootstrap: Bootstrap | None = None) -> Estimate:
    """Return a mean over images with its interval, or the mean difference of two, paired.

    Args:
        correct: (n,) or (seeds, n), answers as bool or numbers.
        other: The same shape; subtracted image by image.
        bootstrap: Resamples, seed and confidence; 2,000 from seed 0 and 95% if None.

    Returns:
        Value, low and high; images are drawn with replacement, seeds are averaged.
    """
    bootstrap_settings = bootstrap or Bootstrap()
    values = np.atleast_2d(to_array(correct)).astype(np.float64)
    less = np.zeros_like(values) if other is None else np.atleast_2d(to_array(other)).astype(np.float64)
    if values.shape != less.shape:
        raise CallerError(f"answers have shapes {values.shape} and {less.shape}; expected the same, (n,) or (seeds, n)")
    (drawn,) = bootstrap_means((values - less).mean(0)[None], bootstrap_settings)
    return make_estimate(drawn, bootstrap_settings.confidence)


def bootstrap_means(values: NDArray[np.float64], bootstrap_settings: Bootstrap) -> list[Sample]:
    """Return the mean of each row, (rows, images), with its draws; the same images are drawn for all rows."""
    draws = (
        np.concatenate([weights @ values.T for weights in draw_image_weights(values.shape[1], bootstrap_settings)])
        / values.shape[1]
    )
    return [Sample(float(one.mean()), draws[:, number]) for number, one in enumerate(values)]


def _bytes(images: Any) -> Tensor:
    if (seen := to_tensor(images, "images").dtype) != torch.uint8:
        raise CallerError(f"images are {seen}, expected uint8 in 0 … 255")
    return read_pixels(images).byte()


@dataclass(frozen=True)
class Curve:
    """Accuracy of a network by the fraction of features removed.

    Attributes:
        order: `morf` or `lerf`: which features go first.
        levels: Fractions of features removed, 0 among them.
        accuracy: In [0, 1], with intervals of 95% over the images.
        probability: Mean softmax probability of the class that is predicted for the untouched image, in [0, 1].
        area: Mean accuracy over the levels, by the trapezoid rule, with its interval.
    """

    order: str
    levels: tuple[float, ...]
    accuracy: tuple[Estimate, ...]
    probability: tuple[float, ...]
    area: Estimate

    def to_dataframe(self) -> "pandas.DataFrame":
        """Return one row for each level."""
        import pandas

        rows = zip(self.levels, *zip(*self.accuracy, strict=True), self.probability, strict=True)
        frame = pandas.DataFrame(rows, columns=["t", "accuracy", "low", "high", "probability"])
        frame.attrs["order"] = self.order
        return frame


def perturbation_curve(
    model: nn.Module,
    images: Any,
    labels: Any,
    maps: Any,
    order: str = "morf",
    levels: Sequence[float] = PAPER_LEVELS,
    fill: Any = None,
    seed: int = 0,
) -> Curve:
    """Measure how a network's accuracy falls as the features go that maps call most, or least, important.

    Nothing is trained, so that what is measured is also how the network takes damage that it has never seen.

    Args:
        model: Any network, logits out, or one logit z of a binary network, whose class 1 has the probability
            sigmoid(z); it is put into eval mode and back.
        images: Float (n, c, h, w), as the network takes them.
        labels: Whole numbers (n,), the true classes, from 0 on.
        maps: (n, c, h, w), (n, 1, h, w) or (n, h, w), larger is more important.
        order: `morf` removes the most important features first, `lerf` the least important.
        levels: Fractions of features to remove, ascending in (0, 1].
        fill: What replaces a removed feature, (c,); the mean of these images' channels if None. Or the name of a fill
            of suites, such as `linear`, ROAD's; `black` is the least value of a channel then.
        seed: Of the chance that breaks ties, which belongs to an image wherever it stands among the others.

    Raises:
        CallerError: These do not fit together, or the network's logits depend on more than the image.
    """
    pixels = read_images(images)
    classes = read_labels(labels, len(pixels))
    removal, replace = Removal.read(order, levels), make_replacer(pixels, fill)
    steps = (0.0, *removal.levels)
    ranked = rank_maps(pixels, maps, seed)
    removed = (mark_removed(ranked, pixels.shape, t, order) for t in steps)
    with set_evaluation_mode([model]):
        network = check_model(model, pixels)
        logits = torch.stack(
            [
                torch.cat([compute_logits(network, replace(part, mask[part])) for part in split_into_batches(pixels)])
                for mask in removed
            ]
        )
    check_labels(classes, logits.shape[2])
    if logits.isnan().any():
        t = steps[int(logits.isnan().flatten(1).any(1).int().argmax())]
        raise CallerError(f"the network gives logits that are NaN where the fraction {t:g} of an image is removed")
    correct = (logits.argmax(2) == torch.from_numpy(classes)).double().numpy()
    predicted = logits[0].argmax(1)
    probability = logits.softmax(2)[:, torch.arange(len(pixels)), predicted].mean(1)
    rows = np.vstack([correct, np.asarray(compute_area_weights(steps)) @ correct])  # the last one's mean is the area
    *found, area = (make_estimate(one, Bootstrap().confidence) for one in bootstrap_means(rows, Bootstrap()))
    return Curve(order, steps, tuple(found), tuple(probability.tolist()), area)
