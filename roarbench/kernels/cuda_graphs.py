"""Steps of small networks on a GPU, each recorded once as a CUDA graph and launched as a whole from then on.

A step of a small network is hundreds of kernels of a few microseconds, and a processor takes longer to launch them
than a GPU to compute them. A graph launches all of them at once, from degrading to the optimiser, with the addresses
and the numbers of its recording. So what changes from step to step lies in tensors that are written before each
launch: which images, what the augmentation drew for them, the learning rate. All are drawn as without a graph.

A graph is believed only after it has changed a network as the step by itself does.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from roarbench.devices import gpu_is_dead, recorded, sent
from roarbench.kernels.augment import Draws

if TYPE_CHECKING:
    from roarbench.kernels.train import Training

LARGEST = 64  # pixels a side: larger images keep a GPU busy for longer than their kernels take to launch
_WARM = 3  # steps of a size before it is recorded, in which libraries choose kernels and take their room
_APART = 0.05  # of what a step changes in a tensor, by which a graph may differ: sums on a GPU have no fixed order
_ROUNDING = 1e-5  # of the tensor itself, by which it may differ as well

_FAILED: list[str] = []  # why recording failed in this process; each try costs memory that no process gets back
_log = logging.getLogger(__name__)


class DrawnPart(NamedTuple):
    """Images that go through a network at once."""

    images: Tensor  # which, int64 (b,)
    drawn: Draws | None = None  # what the augmentation drew for them; None where it draws when they have been read

    @property
    def tensors(self) -> Draws:
        """Return all that differs from step to step."""
        return self.images, *(self.drawn or ())

    def each(self, change: Callable[[Tensor], Tensor]) -> DrawnPart:
        """Return these with each tensor changed."""
        images, *drawn = map(change, self.tensors)
        return DrawnPart(images, tuple(drawn))


class _Graph:
    """One step as a graph: the tensors that it reads, and how it is launched."""

    def __init__(self, training: Training, parts: list[DrawnPart]) -> None:
        self._rate = torch.zeros((), device=parts[0].images.device)
        self._parts = [part.each(torch.zeros_like) for part in parts]  # a number of theirs in the graph is found out
        self._launch, self._loss = recorded(lambda: training.compute(self._parts, self._rate))

    def step(self, parts: list[DrawnPart], rate: float) -> Tensor:
        """Do a step on these images; return its loss."""
        self._rate.fill_(rate)
        for room, part in zip(self._parts, parts, strict=True):
            for one, other in zip(room.tensors, part.tensors, strict=True):
                one.copy_(other)
        self._launch()
        return self._loss.clone()


class Graphs:
    """The graphs of a training, one for each size of its images.

    They do not hold the training: a graph that outlives its training, until Python collects what holds itself, keeps
    the GPU's memory, and must not end while another is recorded.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._graphs: dict[int, _Graph] = {}
        self._met: Counter[int] = Counter()
        self._off = False

    @property
    def sizes(self) -> tuple[int, ...]:
        """Return the sizes of images whose steps are recorded, ascending."""
        return tuple(sorted(self._graphs))

    def forget(self) -> None:
        """Let go of all graphs: the training is over, or the tensors that they change are no longer its own."""
        self._graphs.clear()
        self._met.clear()

    def step(self, training: Training, size: int, parts: list[DrawnPart], rate: float) -> Tensor:
        """Do a step on images of a size: by its graph, or by itself as long as there is none; return its loss."""
        parts = [part.each(lambda tensor: sent(tensor, self._device)) for part in parts]
        if graph := self._graphs.get(size):
            return graph.step(parts, rate)
        self._met[size] += 1
        if self._off or _FAILED or training.draws or self._met[size] <= _WARM:
            return training.by_itself(parts, rate)
        return self._recorded(training, size, parts, rate)

    def _recorded(self, training: Training, size: int, parts: list[DrawnPart], rate: float) -> Tensor:
        """Record a step, do it by the graph, take it back, and do it by itself, which is what counts."""
        changing = training.changing()
        before, by_graph = _copies(changing), None
        try:
            graph = _Graph(training, parts)
            _put_back(changing, before)
            graph.step(parts, rate)
            by_graph = _copies(changing)
        except RuntimeError as error:  # a kernel that cannot be recorded, or no room for a second copy
            if gpu_is_dead():
                raise
            _FAILED.append(str(error))
            _log.warning("steps are launched kernel by kernel: %s", error, exc_info=True)  # its cause is what counts
        _put_back(changing, before)
        loss = training.by_itself(parts, rate)
        if by_graph is not None and _alike(by_graph, changing, before):
            self._graphs[size] = graph
        elif by_graph is not None:
            self._off = True
            self.forget()  # a graph that ends may take along what those beside it use
            what = f"at {size} pixels a graph of a step differs from the step by more than {_APART:.0%}"
            _log.warning("steps are launched kernel by kernel: %s", what)
        return loss


def _copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def _put_back(tensors: list[Tensor], before: list[Tensor]) -> None:
    with torch.no_grad():
        for tensor, value in zip(tensors, before, strict=True):
            tensor.copy_(value)


def _alike(found: list[Tensor], expected: list[Tensor], before: list[Tensor]) -> bool:
    """Return whether each tensor was changed as the expected one was, to rounding."""
    fits = [
        (one.double() - other.double()).norm()
        <= _APART * (other.double() - was.double()).norm() + _ROUNDING * other.double().norm()
        for one, other, was in zip(found, expected, before, strict=True)
    ]
    return bool(torch.stack(fits).all().item())
