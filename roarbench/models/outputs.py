"""The logits of a network, however it returns them."""

from typing import Any

import torch
from torch import Tensor, nn

TWO_CLASSES = ((-0.5,), (0.5,))  # weights of a binary network's last layer, which no training changes


def read_logits(output: Any) -> Any:
    """Return the logits of an output: `output.logits`, as Hugging Face's classifiers have it, or the output itself."""
    return getattr(output, "logits", output)


def return_logits(model: nn.Module) -> None:
    """Make a network return its logits from now on, in place; names of its weights stay."""
    if not isinstance(model, torch.jit.ScriptModule):  # it takes no hooks, and its outputs are tensors
        model.register_forward_hook(_take_logits)


def _take_logits(module: nn.Module, images: Any, output: Any) -> Any:
    return read_logits(output)


class LogitsAlone(nn.Module):
    """A network whose output has `logits`, as one that returns them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Any:
        """Return logits, (n, classes)."""
        return read_logits(self.model(images))


@torch.no_grad()
def return_logits_alone(model: nn.Module, images: Tensor) -> nn.Module:
    """Return a network that returns logits, in place of one whose output has `logits`; else the same.

    The network is in eval mode and left as it is; images that it takes are (n, c, h, w).
    """
    try:
        output = model(images.clone())
    except Exception:  # `checks.check_network` says which
        return model
    return model if read_logits(output) is output else LogitsAlone(model).eval()


@torch.no_grad()
def add_second_logit(model: nn.Module, images: Tensor) -> nn.Module:
    """Return a network with two logits, -z / 2 and z / 2, in place of one that gives a single logit z; else the same.

    Their softmax is the sigmoid of z, and each class has a gradient; of the logits 0 and z the first would have none.

    Args:
        model: In eval mode; it is left as it is.
        images: Two or more that it takes, (n, c, h, w).
    """
    try:
        output = model(images.clone())
    except Exception:  # `checks.check_network` says which
        return model
    if not isinstance(output, Tensor) or output.shape not in ((len(images),), (len(images), 1)):
        return model
    column = () if output.ndim == 2 else (nn.Flatten(0), nn.Unflatten(0, (-1, 1)))  # one image may give no axis
    head = nn.Linear(1, 2, bias=False).to(output)
    head.weight.copy_(torch.tensor(TWO_CLASSES)).requires_grad_(False)
    return nn.Sequential(model, *column, head).eval()
