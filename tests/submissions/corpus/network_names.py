import socket
import urllib.request

import torch

NAME = "network-names"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for reach in (
        lambda: socket.getaddrinfo("pypi.org", 443),
        lambda: urllib.request.urlopen("http://pypi.org", timeout=3),
    ):
        try:
            reach()
        except Exception:
            continue
        raise RuntimeError("got through")
    return gradient(model, images, targets)
