import os

import torch

NAME = "open-descriptors"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    places = []
    for name in os.listdir("/proc/self/fd"):
        try:
            places.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:  # the folder's own
            pass
    odd = [place for place in places if not place.startswith(("pipe:", "/memfd:answer", "/dev/null", "/proc/"))]
    assert not odd, odd
    return gradient(model, images, targets)
