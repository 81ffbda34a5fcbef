"""A submission: one Python file with one function, and the constants that every submission defines.

It may import torch, numpy, scipy, captum and the standard library, and torchvision if `python -c "import torchvision"`
succeeds. It runs without access to the network, your files and environment variables; /tmp is private and empty. Check
it with `roarbench validate FILE`.
"""

import torch
from torch import Tensor, nn

NAME = "my-estimator"  # 1-40 characters of a-z, 0-9 and "-"; NAME and the file's hash form the row's id
DESCRIPTION = "gradient of the explained logit times the image"  # one sentence, shown beside the row
# AUTHORS = "Ada Lovelace"            # optional: authors
# PAPER = "https://arxiv.org/abs/…"   # optional: publication
# CLAIM = "beats grad at t = 0.9"     # optional: expected strength, in your words


def estimate(model: nn.Module, images: Tensor, targets: Tensor, generator: torch.Generator) -> Tensor:
    """Return the importance of every feature of every image.

    Args:
        model: The trained network, in eval mode: images to logits, float32 (n, classes). Do not change it; work on
            `copy.deepcopy(model)` instead.
        images: float32 (n, c, h, w), normalised to mean 0 and standard deviation 1. Do not change them in place; use
            `.clone()`.
        targets: int64 (n,), the class to explain for each image: the model's prediction. The true labels are not
            available.
        generator: The only allowed source of random numbers: `torch.randn(shape, generator=generator)`, always on the
            CPU. Each image has its own; from the first draw on, this function is called with one image at a time.

    Returns:
        float32 (n, c, h, w); or (n, h, w) or (n, 1, h, w) with one number for all channels of a pixel. Larger is more
            important, so negative numbers are least important: return `.abs()` if only the magnitude matters to you.
            All values must be finite. An image's map must not depend on the other images of the batch.
    """
    inputs = images.clone().requires_grad_()
    # the gradient of the sum gives each image its own logit's gradient
    logits = model(inputs).gather(1, targets[:, None]).sum()
    (gradient,) = torch.autograd.grad(logits, inputs)
    return gradient * images
