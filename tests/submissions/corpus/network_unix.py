import socket

import torch

NAME = "network-unix"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    for reach in (
        lambda: socket.socket(socket.AF_UNIX),
        lambda: socket.socketpair(),
        lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
        lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
        lambda: socket.socket(socket.AF_VSOCK),
    ):
        try:
            reach()
        except Exception:
            continue
        raise RuntimeError("got through")
    return gradient(model, images, targets)
