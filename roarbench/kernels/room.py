"""How much of a batch goes through a network at once: as much as fits in this process's share of the GPU."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from roarbench.devices import gpu_memory, gpu_share, out_of_memory
from roarbench.errors import NoRoom
from roarbench.text import size

if TYPE_CHECKING:
    from roarbench.kernels.train import Training

_OURS = 0.8  # of its share that a process has at least where no other holds the memory that it lacks


def find_room(training: Training) -> None:
    """Try a step at full size and take it back; halve what goes through the network at once until it fits.

    Parts share their draws, and add up to the gradients of the whole but for rounding, unless batch norm takes mean
    and variance of each: then nothing is halved. NoRoom where a step takes more than this process's share of the GPU.
    """
    while (error := _tried(training)) is not None:
        if gpu_memory() < _OURS * gpu_share():  # others hold it, and may give it back
            raise error
        if training.normed or training.at_once == 1:
            why = "; batch norm allows no smaller parts" if training.normed else ""
            seen = f"a step of {training.at_once} images takes more than {size(gpu_share())} of GPU memory"
            raise NoRoom(f"{seen}, the share of each worker{why}; write fewer --workers, or use a larger GPU")
        training.at_once //= 2


def _tried(training: Training) -> RuntimeError | None:
    """Do a step at full size, put all back as it was, and return the error if memory ran out."""
    now, found = training.state(), None
    weights = {name: value.clone() for name, value in now["model"].items()}
    before = now | {"model": weights, "optimiser": copy.deepcopy(now["optimiser"])}
    training.full_size = True
    try:
        training.advance()
    except RuntimeError as error:
        if not out_of_memory(error):
            raise
        found = error.with_traceback(None)  # its frames would keep what filled the memory
    training.full_size = False
    training.restore(before)
    return found
