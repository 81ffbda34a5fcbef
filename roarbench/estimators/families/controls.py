"""Controls: maps that ignore the explained network or use only its predicted class, and maps of the ground truth.

A control raises DataError if the training images or the ground truth that it needs are not available.
"""

from functools import partial

from roarbench.common.errors import DataError
from roarbench.estimators.estimator import SEED, ClassImages, Estimator, MapInput, blur
from roarbench.estimators.lazy_torch import F, Tensor, planted_images, random_draws, torch

_SMOOTH_SEED = SEED + 3  # differs from the seed of the random control
# standard deviation of the blur in `saturation-deviation` as a share of the image's side, 2 of 64 pixels; this width
# gave the strongest control on development images (studies/corpus)
_FINE = 1 / 32
_GREYS = 8  # brightness levels, half a standard deviation apart, whose entropy measures local detail
_AROUND = 1 / 32  # standard deviation of the window of this entropy as a share of the image's side, 2 of 64 pixels


def centre(inputs: MapInput) -> Tensor:
    """Return a Gaussian around the image centre, (h, w) in (0, 1], which is the same for all images and channels.

    The standard deviation is a quarter of the side; any other share of the side would give the same ranking.
    """
    h, w = inputs.images.shape[2:]
    down, across = (torch.arange(side).to(inputs.images) - (side - 1) / 2 for side in (h, w))
    squared_distance = (4 * down[:, None] / h) ** 2 + (4 * across / w) ** 2  # in standard deviations
    return torch.exp(-squared_distance / 2)


def random(inputs: MapInput) -> Tensor:
    """Return uniform random importance, the same at each call for an image."""
    return random_draws.draw_random_importance(inputs.images, inputs.batch.ids, SEED)


def random_smooth(inputs: MapInput) -> Tensor:
    """Return a random map, blurred with a Gaussian whose standard deviation is `width` times the image's side.

    With the width of the blurred twins, the map is another random draw of `random-blurred`. With another width, an
    estimator can be compared with random maps that are as smooth as the estimator's maps.
    """
    drawn = random_draws.draw_random_importance(inputs.images, inputs.batch.ids, _SMOOTH_SEED)
    return blur(drawn, float(inputs.estimator.get_value("width")))


def deviation(inputs: MapInput) -> Tensor:
    """Return the absolute difference between each value and the baseline."""
    return (inputs.images - inputs.baseline).abs()


def input_x_deviation_from_channel_mean(inputs: MapInput) -> Tensor:
    """Return each value times the difference between the value and the mean of its pixel's channels.

    The training mean of normalised images is 0, so each value is a deviation from the training mean.
    """
    return inputs.images * (inputs.images - inputs.images.mean(1, keepdim=True))


def saturation_x_blurred_deviation(inputs: MapInput) -> Tensor:
    """Return each pixel's saturation times the absolute difference between the blurred image and the training mean, 0.

    The saturation of a pixel is the maximum minus the minimum of its channels.
    """
    images = inputs.images
    return (images.amax(1, keepdim=True) - images.amin(1, keepdim=True)) * blur(images, _FINE).abs()


def sobel(inputs: MapInput) -> Tensor:
    """Compute the gradient magnitude of the 3x3 Sobel filters on the normalised image, per channel.

    The image is mirrored at its border, as in TensorFlow's `sobel_edges`, so the border is not detected as an edge.
    Along a side of one pixel, as signals have, the gradient is 0.
    """
    across = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    pair = torch.stack((across, across.T))[:, None].to(inputs.images)  # (2, 1, 3, 3)
    channels = _pad_by_mirroring(inputs.images, 1).flatten(0, 1)[:, None]  # (n c, 1, h + 2, w + 2)
    return torch.hypot(*F.conv2d(channels, pair).unbind(1)).view(inputs.images.shape)


def _pad_by_mirroring(images: Tensor, width: int) -> Tensor:
    """Add `width` mirrored pixels at each border; along sides too short for mirroring, repeat the border instead."""
    down, across = ("reflect" if width < side else "replicate" for side in images.shape[2:])
    return F.pad(F.pad(images, (width, width, 0, 0), mode=across), (0, 0, width, width), mode=down)


def sobel_released(inputs: MapInput) -> Tensor:
    """Compute `scipy.ndimage.sobel(image, axis=0)` of the normalised image (height, width, channel), signed.

    The released code of Hooker et al. 2019 uses this result as importance. The result is the derivative down the image,
    smoothed by (1, 2, 1) across the width and across the channels; values at the borders are repeated.
    """
    _, channels, h, w = inputs.images.shape
    images = F.pad(inputs.images, (1, 1, 1, 1), mode="replicate")
    down = images.narrow(2, 2, h) - images.narrow(2, 0, h)
    across = down.narrow(3, 0, w) + 2 * down.narrow(3, 1, w) + down.narrow(3, 2, w)
    ends = torch.cat((across.narrow(1, 0, 1), across, across.narrow(1, channels - 1, 1)), dim=1)
    return ends.narrow(1, 0, channels) + 2 * across + ends.narrow(1, 2, channels)


def contrast(inputs: MapInput) -> Tensor:
    """Return the absolute difference between each value and the mean of the 5 x 5 window around it.

    The image is mirrored at its border.
    """
    around = F.avg_pool2d(_pad_by_mirroring(inputs.images, 2), 5, stride=1)
    return (inputs.images - around).abs()


def input_x_class_mean(inputs: MapInput) -> Tensor:
    """Return the image times the mean training image of its class, weighted by local detail and nearness to the centre.

    The image times the mean image is input x gradient of the nearest-class-mean classifier.
    """
    means = _find_class_images(inputs).means[inputs.batch.targets]
    return inputs.images * means * _compute_local_entropy(inputs.images) * centre(inputs)


def input_x_linear_classifier_weights(inputs: MapInput) -> Tensor:
    """Return the image times the weights of a linear classifier of thumbnails, weighted by local detail.

    The image times the weights is input x gradient of the classifier. A row of a table is an image of one pixel, so its
    local detail is constant.
    """
    weights = _find_class_images(inputs).weights[inputs.batch.targets]
    return inputs.images * weights * _compute_local_entropy(inputs.images)


def _find_class_images(inputs: MapInput) -> ClassImages:
    if inputs.batch.class_images is None:
        raise DataError(f"'{inputs.estimator.id}' needs the training images, which are not available here")
    return inputs.batch.class_images


def _compute_local_entropy(images: Tensor) -> Tensor:
    """Return the entropy of the grey values in a Gaussian window around each pixel, (n, 1, h, w)."""
    levels = ((images.mean(1) + 2) * 2).long().clamp(0, _GREYS - 1)
    shares = blur(F.one_hot(levels, _GREYS).movedim(-1, 1).to(images), _AROUND).clamp(min=1e-6)
    return -(shares * shares.log()).sum(1, keepdim=True)


def read_true_importance(inputs: MapInput) -> Tensor:
    """Return the true importance of each feature of planted data."""
    if inputs.batch.truth is None:
        raise DataError("this data set has no true importance; 'truth' and 'truth-inverted' need planted data")
    return inputs.batch.truth


def mark_patch_of_network(inputs: MapInput, next_share: float = 0.0) -> Tensor:
    """Mark the patch in the corner from which the explained network reads the class (data set `planted-corners`).

    Each explained network of a suite reads the class from a different corner. On a random share `next_share` of the
    images, the map marks the patch of the next network instead.
    """
    corner = planted_images.find_corner_of_network(inputs.batch.seed)
    stream = random_draws.RngStream.CORNER
    drawn = [random_draws.make_rng(SEED, stream, image).random() for image in inputs.batch.ids.tolist()]
    return _mark_corners(inputs.images, [corner + (number < next_share) for number in drawn])


def mark_all_patches(inputs: MapInput) -> Tensor:
    """Mark the patches in all corners; the map is the same for every network."""
    patches = [_mark_corners(inputs.images, [corner] * len(inputs.images)) for corner in range(planted_images.CORNERS)]
    return torch.stack(patches).amax(0)


def _mark_corners(images: Tensor, corners: list[int]) -> Tensor:
    """Make maps that are 1 in the patch of each image's corner, and 0 elsewhere; corners are numbered modulo 4."""
    maps = torch.zeros_like(images)
    for importance, corner in zip(maps, corners, strict=True):
        rows, columns = planted_images.locate_patch(corner % planted_images.CORNERS, images.shape[3])
        importance[:, rows, columns] = 1
    return maps


_PAPER = ("hooker2019benchmark",)
_control = partial(Estimator, control=True, papers=())
_truth = partial(_control, neighbours=False, addable=False, uses_ground_truth=True)
_corner = partial(_truth, neighbours=True, uses_prediction=True)
ESTIMATORS = (
    _control("centre", title="Nearness to centre", maps=centre, neighbours=True,
        about="nearness to the middle of the image, the same for all images"),
    _control("random", title="Random", about="random ranking, fixed for each image", maps=random, papers=_PAPER,
        neighbours=False, addable=False),
    _control("random-blurred", base="random", title="Blurred random", about="the random control's map, blurred",
        twin="blurred", maps=random, papers=_PAPER, neighbours=True),
    _control("random-redrawn", base="random", form="redrawn", title="Redrawn random",
        about="a random ranking drawn anew each epoch", papers=_PAPER, neighbours=False, addable=False),
    _control("random-smooth", title="Smooth random", about="a random map, blurred with the given width",
        maps=random_smooth, parameters={"width": 0.1}, neighbours=True),
    _control("deviation", title="Deviation from the mean", about="distance of each value from the baseline",
        maps=deviation, parameters={"baseline": "mean"}, neighbours=False),
    _control("deviation-blurred", title="Blurred deviation", about="the deviation map, blurred",
        maps=lambda inputs: blur(deviation(inputs)), parameters={"baseline": "mean"}, neighbours=True),
    _control("colour-deviation", title="Colour deviation", maps=input_x_deviation_from_channel_mean, neighbours=False,
        about="value minus training mean, times the value minus its pixel's mean"),
    _control("saturation-deviation", title="Saturation", maps=saturation_x_blurred_deviation, neighbours=True,
        about="saturation times the distance of the blurred image from the training mean"),
    _control("sobel", title="Sobel edges", about="Sobel gradient magnitude of each channel", maps=sobel,
        papers=("sobel1968isotropic", *_PAPER), neighbours=True),
    _control("sobel-released", base="sobel", form="released", title="Sobel as released", maps=sobel_released,
        about="signed Sobel derivative down the image, smoothed across the channels: what the paper's code computes",
        papers=("sobel1968isotropic", *_PAPER), neighbours=True),
    _control("contrast", title="Local contrast", maps=contrast, neighbours=True,
        about="distance of each value from the mean of the 5 x 5 around it"),
    _control("class-template", title="Class template", uses_prediction=True, maps=input_x_class_mean, neighbours=True,
        about="image times mean training image of the predicted class, weighted by local detail and centrality"),
    _control("linear-classifier", title="Linear classifier", uses_prediction=True,
        about="image times weights of a linear classifier for the predicted class, weighted by local detail",
        maps=input_x_linear_classifier_weights, neighbours=False),
    _truth("truth", title="The truth", about="the true ranking of planted data", maps=read_true_importance),
    _truth("truth-inverted", base="truth", form="inverted", title="The truth, inverted",
        about="the true ranking of planted data, least important first",
        maps=lambda inputs: -read_true_importance(inputs)),
    _corner("corner-own", title="Own corner", about="the patch that the explained network reads",
        maps=mark_patch_of_network),
    _corner("corner-mixed-25", title="Next corner on 25 %", maps=partial(mark_patch_of_network, next_share=0.25),
        about="the next network's patch on a quarter of the images, the own patch on the others"),
    _corner("corner-mixed-50", title="Next corner on 50 %", maps=partial(mark_patch_of_network, next_share=0.5),
        about="the next network's patch on half of the images, the own patch on the others"),
    _corner("corner-mixed-75", title="Next corner on 75 %", maps=partial(mark_patch_of_network, next_share=0.75),
        about="the next network's patch on three quarters of the images, the own patch on the others"),
    _corner("corner-next", title="Next corner", maps=partial(mark_patch_of_network, next_share=1.0),
        about="the patch that the next network reads"),
    _corner("corner-all", title="All corners", about="the patches in all corners", maps=mark_all_patches),
)  # fmt: skip
