import os

import torch

NAME = "writes-files"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for reach in (
        lambda: open("/canary", "w"),
        lambda: open("/usr/lib/canary", "w"),
        lambda: open("/harness/roarbench/models/__init__.py", "a"),
        lambda: open(torch.__file__, "a"),
        lambda: open("/dev/canary", "w"),
        lambda: open("/proc/sys/kernel/hostname", "w"),
        lambda: open("/proc/sysrq-trigger", "w"),
        lambda: os.chmod("/harness", 0o777),
        lambda: os.mkdir("/sys/fs/cgroup/canary"),
    ):
        try:
            reach()
        except Exception:
            continue
        raise RuntimeError("got through")
    return gradient(model, images, targets)
