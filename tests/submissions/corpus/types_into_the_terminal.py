import fcntl

import torch

NAME = "types-into-the-terminal"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    try:
        fcntl.ioctl(0, 0x5412, b"x")
    except OSError:
        pass
    else:
        raise RuntimeError("typed")
    try:
        open("/dev/tty")
    except OSError:
        pass
    else:
        raise RuntimeError("opened")
    return gradient(model, images, targets)
