"""A submission: one Python file with one function. What lies around it here is what every submission has.

It may import torch, numpy, scipy, captum and the standard library, and torchvision where `roarbench doctor` says that
it imports. It runs where there is no network, no file of yours and no environment; /tmp is private and empty. Check it
with `roarbench validate FILE`.
"""

import torch
from torch import Tensor, nn

NAME = "my-estimator"  # 1-40 characters of a-z, 0-9 and "-"; NAME and the file's hash form the row's id
DESCRIPTION = "gradient of the explained logit times the image"  # one sentence, shown beside the row
# AUTHORS = "Ada Lovelace"            # optional: authors
# PAPER = "https://arxiv.org/abs/…"   # optional: publication
# CLAIM = "beats grad at t = 0.9"     # optional: expected strength, in your words


def estimate(model: nn.Module, images: Tensor, targets: Tensor, generator: torch.Generator) -> Tensor:
    """Say how important every feature of every image is.

    Args:
        model: The trained network, in eval mode: images to logits, float32 (n, classes). Leave it as it is; to change
            something, work on `copy.deepcopy(model)`.
        images: float32 (n, c, h, w), normalised to mean 0 and standard deviation 1. To change them, `.clone()` them.
        targets: int64 (n,), the class to explain of each image: what the model predicts. The true labels are not here.
        generator: The only source of chance: `torch.randn(shape, generator=generator)`, always on the processor. Each
            image has its own; from the first draw on, this function is called with one image at a time.

    Returns:
        float32 (n, c, h, w), or (n, h, w) or (n, 1, h, w) with one number for all channels of a pixel. Larger is more
        important, and a sign counts: return `.abs()` if its size is what matters to you. Every value is finite. An
        image's map must not depend on the other images of the batch.
    """
    inputs = images.clone().requires_grad_()
    # the gradient of the sum gives each image its own logit's gradient
    logits = model(inputs).gather(1, targets[:, None]).sum()
    (gradient,) = torch.autograd.grad(logits, inputs)
    return gradient * images
