import torch

NAME = "error-that-cannot-be-told"
DESCRIPTION = "of the corpus"


class Silent(Exception):
    def __str__(self):
        raise ValueError


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    raise Silent
