import torch

NAME = "sometimes-pixels"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    found = gradient(model, images, targets)
    return found if len(images) == 4 else found.sum(1)
