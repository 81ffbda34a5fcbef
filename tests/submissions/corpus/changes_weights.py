import torch

NAME = "changes-weights"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    return gradient(model, images, targets)
