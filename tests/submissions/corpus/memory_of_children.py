import os
import time

import torch

NAME = "memory-of-children"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for _ in range(12):
        if os.fork() == 0:
            kept = b"x" * 2**29
            time.sleep(10000)
    time.sleep(10000)
