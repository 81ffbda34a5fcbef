import torch

NAME = "object-that-runs-code"
DESCRIPTION = "of the corpus"


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit",)

    def __array__(self):
        raise SystemExit

    __class__ = torch.Tensor


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


def estimate(model, images, targets, generator):
    return Bomb()
