"""Edges and contrast of the image itself, controls that never see the network."""

from roarbench.estimators.estimator import Estimator
from roarbench.estimators.families.gradients import HOOKER
from roarbench.estimators.inputs import MapInput
from roarbench.estimators.lazy_imports import F, Tensor, torch
from roarbench.estimators.papers import Paper

SOBEL = Paper("""@misc{sobel1968isotropic,
    title = {A 3x3 Isotropic Gradient Operator for Image Processing},
    author = {Irwin Sobel and Gary Feldman},
    howpublished = {Talk at the Stanford Artificial Intelligence Project}, year = {1968}}""")


def sobel(inputs: MapInput) -> Tensor:
    """Return the gradient magnitude of the 3x3 Sobel pair on the normalised image, per channel.

    Beyond the border the image is mirrored about its outermost pixels, as in TensorFlow's `sobel_edges`, so the
    border itself is no edge.
    """
    across = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    pair = torch.stack((across, across.T))[:, None].to(inputs.images)  # (2, 1, 3, 3)
    channels = F.pad(inputs.images, (1, 1, 1, 1), mode="reflect").flatten(0, 1)[:, None]  # (n c, 1, h + 2, w + 2)
    return torch.hypot(*F.conv2d(channels, pair).unbind(1)).view(inputs.images.shape)


def sobel_released(inputs: MapInput) -> Tensor:
    """Return `scipy.ndimage.sobel(image, axis=0)` of the normalised image, height x width x channel, signed.

    The code that Hooker et al. 2019 released ranks by it: the derivative in one direction, smoothed by 1, 2, 1 across
    the width and across the channels, whose ends are repeated.
    """
    _, channels, h, w = inputs.images.shape
    images = F.pad(inputs.images, (1, 1, 1, 1), mode="replicate")
    down = images.narrow(2, 2, h) - images.narrow(2, 0, h)
    across = down.narrow(3, 0, w) + 2 * down.narrow(3, 1, w) + down.narrow(3, 2, w)
    ends = torch.cat((across.narrow(1, 0, 1), across, across.narrow(1, channels - 1, 1)), dim=1)
    return ends.narrow(1, 0, channels) + 2 * across + ends.narrow(1, 2, channels)


def contrast(inputs: MapInput) -> Tensor:
    """Return how far each number lies from the mean of the 5 x 5 around it, mirrored about the outermost pixels."""
    around = F.avg_pool2d(F.pad(inputs.images, (2, 2, 2, 2), mode="reflect"), 5, stride=1)
    return (inputs.images - around).abs()


ESTIMATORS = (
    Estimator("sobel", title="Sobel edges", about="Sobel gradient magnitude of each channel", control=True, maps=sobel,
        papers=(SOBEL, HOOKER), neighbours=True),
    Estimator("sobel-released", base="sobel", form="released", title="Sobel as released",
        about="signed Sobel derivative down the image, smoothed across the channels: what the paper's code computes",
        control=True, maps=sobel_released, papers=(SOBEL, HOOKER), neighbours=True),
    Estimator("contrast", title="Local contrast", about="distance of a number from the mean of the 5 x 5 around it",
        control=True, maps=contrast, papers=(), neighbours=True),
)  # fmt: skip
