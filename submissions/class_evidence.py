"""Input x gradient of what a network answers, over half images, at two scales, where there is detail.

It changes `half_images.py` in three ways. The gradient is that of all classes' logits, weighed by how probable the
network finds them: half of the weight goes to the asked class. The gradient counts twice, as it is and blurred, for
neighbouring numbers say the same. And the map is weighed by the detail around a pixel, the entropy of its greys.
"""

import torch
from torch.nn import functional as F

NAME = "class-evidence"
DESCRIPTION = "input x gradient of the network's answer on half images, as it is and blurred, where there is detail"
SHIFTS = ((0, 0), (3, 2), (-2, 3), (2, -3))  # pixels down, pixels to the right
COPIES = tuple((shift, mirrored) for shift in SHIFTS for mirrored in (False, True))
FAR, AROUND = 3, 2  # pixels: of the blurred gradient, and of the window in which greys are counted
GREYS = 8


def estimate(model, images, targets, generator):
    with torch.no_grad():
        answer = sum(model(moved(images, *copy)) for copy in COPIES).div(len(COPIES)).softmax(1)
    answer = (answer + F.one_hot(targets, answer.shape[1])) / 2
    total = torch.zeros_like(images)
    for number, (shift, mirrored) in enumerate(COPIES):
        chance = torch.Generator().manual_seed(number)  # the same half for all images
        kept = torch.rand(images.shape[1:], generator=chance) > 0.5
        half = moved(images * kept, shift, mirrored).requires_grad_()
        (gradient,) = torch.autograd.grad((answer * model(half)).sum(), half)
        gradient = gradient.flip(3) if mirrored else gradient
        total += gradient.roll([-pixels for pixels in shift], (2, 3))
    return images * (scaled(total) + scaled(blurred(total, FAR)) / 2) * detail(images)


def moved(images, shift, mirrored):
    images = images.roll(shift, (2, 3))
    return images.flip(3) if mirrored else images


def scaled(x):
    return x / x.flatten(1).std(1)[:, None, None, None].clamp(min=1e-12)


def blurred(x, sigma):
    """Blur by a Gaussian of this many pixels, mirrored about the outermost ones."""
    at = torch.arange(-3 * sigma, 3 * sigma + 1)
    kernel = torch.exp(-((at / sigma) ** 2) / 2)
    kernel = (kernel / kernel.sum()).view(1, 1, -1, 1)
    flat = F.pad(x.flatten(0, 1)[:, None], (3 * sigma,) * 4, mode="reflect")
    return F.conv2d(F.conv2d(flat, kernel), kernel.mT).view(x.shape)


def detail(images):
    level = ((images.mean(1) + 2) * 2).long().clamp(0, GREYS - 1)
    share = blurred(F.one_hot(level, GREYS).permute(0, 3, 1, 2).float(), AROUND).clamp(min=1e-6)
    return -(share * share.log()).sum(1, keepdim=True)
