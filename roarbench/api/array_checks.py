"""Find arrays of maps in another order than the images or networks, turned, or of images with reversed channels.

The search compares maps with gradients. Maps that resemble no gradient, such as class-activation maps, show no order.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.api.explainers import split_into_batches
from roarbench.api.inputs import move_to_model, warn_caller
from roarbench.compute.external_networks import extract_logits

_FEATURES = 2**12  # compared features of a map
_FEWEST_COMPARED, MOST_COMPARED = 20, 400  # images of arrays
_MOST_REVERSED = 100  # images explained with reversed channels, too
_OUTLIERS = 2  # images that a map may fit, such as its own if maps are in another order
# a map fits better elsewhere if its fit is this many deviations above its usual fits, and twice its own fit
_CLEAR, _SHARE = 8.0, 0.25
_EQUAL = 0.99  # fit of the gradients of two images above which a map that fits one of them may be that of a class
_OTHER_IMAGE = "other images than their own; pass them in the order of the images"
_OTHER_NETWORK = "other networks than their own; pass arrays in the order of the networks"
_REVERSED = "the images with channels reversed; make them of the given images, with channels in this order, such as RGB"
_TURNED = "the images mirrored or with height and width exchanged; pass them as the images are"


def warn_of_misplaced_maps(
    maps_by_title: Mapping[str, Iterable[Tensor]], explained: Sequence[tuple[nn.Module, Tensor]]
) -> None:
    """Warn of maps that fit other images, networks or channels; the first images are compared.

    Args:
        maps_by_title: Maps (n, c, h, w), (n, 1, h, w) or (n, h, w) for each network.
        explained: The networks, each with its images (n, c, h, w).
    """
    explained = [(network, images[:MOST_COMPARED]) for network, images in explained]
    shape = explained[0][1].shape
    if not maps_by_title or len(explained[0][1]) < _FEWEST_COMPARED:
        return
    try:
        references = [
            (_compute_views(network, images), _compute_views(network, images[:_MOST_REVERSED].flip(1)))
            for network, images in explained
        ]
    except Exception:  # a network has no gradient
        return
    for title, arrays in maps_by_title.items():
        full = (own[: shape[0]].float().view(shape[0], -1, *shape[2:]).expand(shape) for own in arrays)
        if found := _describe_misplaced_maps(full, references):
            warn_caller(f"many {title} fit {found}")


def _compute_views(network: nn.Module, images: Tensor) -> list[Tensor]:
    """Return what maps of the images may resemble: gradients, input x gradient, and sizes of gradients."""
    views, mean = [], images.mean((0, 2, 3), keepdim=True)
    for part in split_into_batches(images):
        inputs = move_to_model(network, images[part]).clone().requires_grad_()
        with torch.enable_grad():
            largest = extract_logits(network(inputs)).amax(1).sum()
        gradient = torch.autograd.grad(largest, inputs)[0].cpu().float()
        views.append((_thin(gradient), _thin(gradient * (images[part] - mean)), _thin(gradient.abs())))
    return [_standardise(torch.cat(view)) for view in zip(*views, strict=True)]


def _describe_misplaced_maps(maps: Iterable[Tensor], references: Sequence[tuple[list[Tensor], list[Tensor]]]) -> str:
    """Return what many maps fit better than their image or network; empty if there is no sign of that.

    `maps` has an array (n, c, h, w) for each network, `references` the results of `_compute_views` for the images and
    for the first of them with reversed channels.
    """
    for number, own in enumerate(maps):
        transposed = own.transpose(2, 3) if own.shape[2] == own.shape[3] else own
        given = [*map(_thin, (own, own.flip(1), own.flip(2), own.flip(3), transposed))]
        signed, sizes = ([*map(_standardise, parts)] for parts in (given, map(torch.abs, given)))
        for view, (features, reversed_, *turned) in enumerate((signed, signed, sizes)):
            expected, bgr = (views[view] for views in references[number])
            fits = features @ expected.T  # to each image
            others = fits.clone().fill_diagonal_(torch.nan)
            usual = others.sort(1).values[:, : -1 - _OUTLIERS]  # NaN is last
            # fits of independent maps vary as much as the limit; maps of a linear network have few different fits
            middle, spread = usual.mean(1), usual.std(1).clamp(min=features.shape[1] ** -0.5)
            networks = [views[view] for position, (views, _) in enumerate(references) if position != number]
            pairs = [
                *((_OTHER_NETWORK, features, network) for network in networks),
                *((_REVERSED, *pair) for pair in ((reversed_, expected), (features, bgr), (reversed_, bgr))),
                *((_TURNED, part, expected) for part in turned),
            ]
            # maps of labels, or of another class, fit images of this class if a linear network has few of them
            has_twin = ((expected @ expected.T).fill_diagonal_(0) > _EQUAL).any(0)
            other_image = others.nan_to_num(-1).masked_fill(has_twin, -1).amax(1)
            elsewhere = [(found, (part[: len(other)] * other).sum(1)) for found, part, other in pairs]
            fit_own = fits.diagonal() - middle
            for found, fit in ((_OTHER_IMAGE, other_image), *elsewhere):
                some = slice(len(fit))
                better = fit - middle[some]
                clear = (better > _CLEAR * spread[some]) & (better > 2 * fit_own[some])
                if float(clear.float().mean()) > _SHARE:
                    return found
    return ""


def _thin(maps: Tensor) -> Tensor:
    """Return some features of maps (n, c, h, w)."""
    flat = maps.flatten(1)
    return flat[:, :: -(-flat.shape[1] // _FEATURES)]


def _standardise(maps: Tensor) -> Tensor:
    """Return ranks of features, (n, d), minus the mean of all maps, with length 1."""
    numbers = torch.arange(maps.shape[1], dtype=torch.float64).expand(maps.shape)
    order = torch.from_numpy(np.argsort(maps.numpy(), 1))  # several times as fast as torch's
    ranks = torch.empty_like(numbers).scatter_(1, order, numbers)
    ranks -= ranks.mean(0)
    return F.normalize(ranks - ranks.mean(1, keepdim=True)).float()
