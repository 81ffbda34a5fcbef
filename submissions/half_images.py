"""Input x gradient, averaged over copies of the image that lack a random half of their numbers.

A gradient says what a number adds to a whole image. Where half of the image is missing, it says what the number adds
when others are gone, too, as Shapley values ask. Copies are shifted by a few pixels and every other one is mirrored:
what a network makes of one exact position averages out.
"""

import torch

NAME = "half-images"
DESCRIPTION = "input x gradient, averaged over eight moved or mirrored copies that lack a random half of their numbers"
SHIFTS = ((0, 0), (3, 2), (-2, 3), (2, -3))  # pixels down, pixels to the right


def estimate(model, images, targets, generator):
    total = torch.zeros_like(images)
    for copy in range(2 * len(SHIFTS)):
        chance = torch.Generator().manual_seed(copy)  # the same half for all images
        kept = torch.rand(images.shape[1:], generator=chance) > 0.5
        total += moved_gradient(model, images * kept, targets, SHIFTS[copy // 2], mirrored=copy % 2 == 1)
    return images * total


def moved_gradient(model, images, targets, shift, mirrored):
    """Take the gradient on shifted and mirrored images, and move it back."""
    moved = images.roll(shift, (2, 3))
    moved = (moved.flip(3) if mirrored else moved).requires_grad_()
    logits = model(moved).gather(1, targets[:, None]).sum()
    (gradient,) = torch.autograd.grad(logits, moved)
    gradient = gradient.flip(3) if mirrored else gradient
    return gradient.roll([-pixels for pixels in shift], (2, 3))
