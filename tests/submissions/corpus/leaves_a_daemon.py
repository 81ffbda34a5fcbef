import os
import time

import torch

NAME = "leaves-a-daemon"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for name in range(64):
                try:
                    os.close(name)
                except OSError:
                    pass
            time.sleep(10000)
        os._exit(0)
    return gradient(model, images, targets)
