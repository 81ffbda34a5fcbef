import os

import torch

NAME = "reads-memory-of-others"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for reach in (
        lambda: open("/proc/1/mem", "rb").read(1),
        lambda: open("/proc/1/maps").read(1) or 1 / 0,
        lambda: open("/proc/kcore", "rb").read(1),
        lambda: open("/dev/mem", "rb"),
    ):
        try:
            reach()
        except Exception:
            continue
        raise RuntimeError("got through")
    return gradient(model, images, targets)
