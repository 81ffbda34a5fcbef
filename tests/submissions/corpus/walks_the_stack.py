import gc
import sys

import torch

NAME = "walks-the-stack"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    frame, names = sys._getframe(), set()
    while frame:
        names |= set(frame.f_locals) | set(frame.f_globals)
        frame = frame.f_back
    names |= {name for thing in gc.get_objects() if isinstance(thing, dict) and len(thing) < 100 for name in thing
              if isinstance(name, str) and type(thing.get(name)) is torch.Tensor}
    assert not {"labels", "correct", "truth"} & names, names
    return gradient(model, images, targets)
