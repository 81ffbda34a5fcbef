import os

import torch

NAME = "becomes-root"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for reach in (
        lambda: os.setuid(0),
        lambda: os.setgroups([0]),
        lambda: os.setresuid(0, 0, 0),
        lambda: os.chroot("/tmp"),
        lambda: os.mknod("/tmp/disk", 0o60600, 0x800),
        lambda: os.nice(-5),
    ):
        try:
            reach()
        except Exception:
            continue
        raise RuntimeError("got through")
    return gradient(model, images, targets)
