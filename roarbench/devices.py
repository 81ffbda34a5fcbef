"""Where tensors are computed."""

import torch


def device() -> torch.device:
    """The GPU that this process sees first, else the processor; each worker is shown one GPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")
