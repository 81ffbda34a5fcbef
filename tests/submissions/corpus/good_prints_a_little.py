import sys

import torch

NAME = "good-prints-a-little"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    print("a line", file=sys.stderr)
    print("\x1b[31mred")
    return gradient(model, images, targets)
