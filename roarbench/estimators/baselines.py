"""Baselines of paths, such as blurred or black images, and the Gaussian blur of a map."""

from roarbench.estimators.estimator import BLUR
from roarbench.estimators.lazy_imports import F, Tensor, torch


def make_baseline_images(name: str, images: Tensor, black: Tensor) -> Tensor:
    """Return for each image, float (n, c, h, w), normalised, what it is without its features, a new tensor.

    That is `black`, (c, 1, 1), the normalised pixel; `mean`, the mean colour of the images that normalise, which is 0;
    or `blur`, the image after the Gaussian of the blurred twins.
    """
    if name == "black":
        return torch.empty_like(images).copy_(black)
    return torch.zeros_like(images) if name == "mean" else blur(images)


def blur(importance: Tensor, width: float = BLUR) -> Tensor:
    """Blur each channel of a map (n, c, h, w) by a Gaussian: it adds no information (Song et al., arXiv 2304.13836).

    Its standard deviation is `width` of the side, at most 0.2. The kernel ends at 4 of them, and beyond the border the
    map is mirrored about its outermost features.
    """
    h, w = importance.shape[2:]
    return _blur_matrix(h, width, importance).T @ importance @ _blur_matrix(w, width, importance)


def _blur_matrix(side: int, width: float, like: Tensor) -> Tensor:
    """Return a (side, side) matrix; row i is the blur of a line that is 1 at i and 0 elsewhere."""
    sigma = width * side
    radius = round(4 * sigma)
    offsets = torch.arange(-radius, radius + 1, dtype=torch.float64)
    kernel = torch.exp(-0.5 * (offsets / sigma) ** 2)
    lines = F.pad(torch.eye(side, dtype=torch.float64)[:, None], (radius, radius), mode="reflect")
    return F.conv1d(lines, (kernel / kernel.sum())[None, None])[:, 0].to(like)
