"""Input x gradient: the first-order share of each number of the image in the explained logit."""

import torch

NAME = "input-x-gradient"
DESCRIPTION = "gradient of the explained logit times the image, signed: images are 0 at the training mean"
PAPER = "https://arxiv.org/abs/1605.01713"


def estimate(model, images, targets, generator):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    (gradient,) = torch.autograd.grad(logits, inputs)
    return gradient * images
