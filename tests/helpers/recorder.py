"""A CUDA graph's stand-in on a processor: it repeats the operations of a recording, with their tensors and numbers.

Every operation that torch dispatches while some work is done is noted with the very tensors that it read and wrote. A
launch does them again, in the same tensors. So what goes wrong with a graph goes wrong here: a number that is not in a
tensor stays that of the recording, and a tensor that was replaced is no longer the one that is read.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """Notes all operations that are dispatched, and what they wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[Callable[[], Any], list[Tensor]]] = []

    def __torch_dispatch__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        operation = partial(call, *arguments, **(options or {}))
        made = operation()
        self.noted.append((operation, tensors(made)))
        return made

    @torch.no_grad()
    def launch(self) -> None:
        """Do all of it again."""
        for operation, written in self.noted:
            for old, new in zip(written, tensors(operation()), strict=True):
                if new.data_ptr() != old.data_ptr():
                    old.copy_(new)


def tensors(made: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]


def recorded(work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """Stand in for `devices.recorded`; the work is also done while it is noted, which a GPU does not."""
    with Recorder() as recorder:
        return recorder.launch, work()
