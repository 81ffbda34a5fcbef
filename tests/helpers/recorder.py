"""A CUDA graph's stand-in on a processor: it repeats the operations of a recording, with their tensors and numbers.

Every operation that torch dispatches while some work is done is noted with the very tensors that it read and wrote. A
launch does them again, in the same tensors. So what goes wrong with a graph goes wrong here: a number that is not in a
tensor stays that of the recording, and a tensor that was replaced is no longer the one that is read.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recorder(TorchDispatchMode):
    """Notes all operations that are dispatched."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[tuple[Any, Any, Any, list[Tensor]]] = []

    def __torch_dispatch__(self, call: Any, types: Any, arguments: Any = (), options: Any = None) -> Any:
        options = options or {}
        made = call(*arguments, **options)
        self.noted.append((call, arguments, options, tensors(made)))
        return made

    def launch(self) -> None:
        """Do all of it again."""
        with torch.no_grad():
            for call, arguments, options, made in self.noted:
                for old, new in zip(made, tensors(call(*arguments, **options)), strict=True):
                    if new.data_ptr() != old.data_ptr():
                        old.copy_(new)


def tensors(made: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]


def recorded(work: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """Stand in for `devices.recorded`; the work is also done while it is noted, which a GPU does not."""
    recorder = Recorder()
    with recorder:
        made = work()
    return recorder.launch, made
