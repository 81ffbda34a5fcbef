import os

import torch

NAME = "reads-files"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for reach in (
        lambda: open("/etc/passwd"),
        lambda: open("/etc/shadow"),
        lambda: open("/etc/hostname"),
        lambda: os.listdir("/home"),
        lambda: os.listdir("/root/.ssh"),
        lambda: os.listdir("/srv"),
        lambda: os.listdir("/var"),
        lambda: os.listdir("/proc/1/root/etc"),
        lambda: os.listdir("/proc/1/cwd/"),
        lambda: os.listdir("/proc/1/fd"),
    ):
        try:
            reach()
        except Exception:
            continue
        raise RuntimeError("got through")
    return gradient(model, images, targets)
