"""Repeat imports of a torchvision that was built for another torch, after declaring its operators.

If torchvision was built for another torch (for example a CUDA wheel next to a torch for the CPU), importing torchvision
fails with "operator torchvision::nms does not exist", because torchvision registers shape rules for operators that were
not loaded. Classification networks need none of these operators, so they are declared without a kernel.
"""

from collections.abc import Callable
from typing import TypeVar

import torch

T = TypeVar("T")
_BOXES = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
_declared: list[torch.library.Library] = []  # a declaration is valid only as long as its Library object exists


def call_despite_missing_operators(function: Callable[[], T]) -> T:
    """Call a function that may import torchvision; if torchvision's operators are missing, declare them and repeat.

    The repetition starts with the same state of torch's global generator.
    """
    state = torch.get_rng_state()
    try:
        return function()
    except RuntimeError as error:
        if "operator torchvision::nms does not exist" not in str(error):
            raise
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    _declared.append(library)
    for operator in ("nms", "qnms"):
        library.define(operator + _BOXES)  # type: ignore[no-untyped-call]
    torch.set_rng_state(state)
    return function()
