import torch

NAME = "infinite-once"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    found = gradient(model, images, targets)
    found[-1, 0, 0, 0] = float("inf")
    return found
