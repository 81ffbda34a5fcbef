"""The logits of a network, however it returns them."""

from typing import Any

import torch
from torch import nn


def logits_of(output: Any) -> Any:
    """Return the logits of an output: `output.logits`, as Hugging Face's classifiers have it, or the output itself."""
    return getattr(output, "logits", output)


def return_logits(model: nn.Module) -> None:
    """Make a network return its logits from now on, in place; names of its weights stay."""
    if not isinstance(model, torch.jit.ScriptModule):  # it takes no hooks, and its outputs are tensors
        model.register_forward_hook(_take_logits)


def _take_logits(module: nn.Module, images: Any, output: Any) -> Any:
    return logits_of(output)
