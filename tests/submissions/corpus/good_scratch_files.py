import tempfile

import torch

NAME = "good-scratch-files"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    with tempfile.NamedTemporaryFile() as file:
        torch.save(images, file.name)
        images = torch.load(file.name)
    return gradient(model, images, targets)
