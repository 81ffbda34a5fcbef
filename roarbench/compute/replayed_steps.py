"""Replay the training steps of small networks on a GPU as CUDA graphs.

A step of a small network consists of several hundred short kernels, and Python takes longer to launch them than the GPU
takes to compute them. A CUDA graph launches all kernels of a step in one call.
"""

import logging
from collections.abc import Callable

import torch
from torch import Tensor, nn

from roarbench.device_settings import is_machine_failure, is_out_of_memory
from roarbench.text import fit_on_one_line

# steps of each image shape before the capture: the optimiser allocates its tensors, and cuDNN chooses kernels
_EAGER_STEPS = 3
_KNOWN_CODE = ("torch.", "torchvision.", "roarbench.")  # packages whose modules compute the same kernels in every step
_log = logging.getLogger(__name__)


def is_replayable(model: nn.Module) -> bool:
    """Return whether all modules of a network come from torch, torchvision or this package.

    A replay repeats kernels without their Python code. A network whose Python code chooses what to compute would always
    repeat the first choice, so networks with modules of other packages are not replayed.
    """
    return all(type(module).__module__.startswith(_KNOWN_CODE) for module in model.modules())


class ReplayedSteps:
    """Training steps on a GPU that are launched as one CUDA graph, after a few steps without one.

    Only the graph of the last image shape is kept. If a step cannot be captured, all steps run without a graph.
    """

    def __init__(self) -> None:
        self._shape = torch.Size()
        self._steps_done = 0  # of this shape, without a graph
        self._graph: _StepGraph | None = None
        self._failed = False

    def run(self, step: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """Run or replay `step(images, labels)`, which updates the weights; return its loss, a scalar on the GPU.

        All calls need the same `step`, and what it changes must stay in the same tensors.
        """
        if images.shape != self._shape:
            self._shape, self._steps_done, self._graph = images.shape, 0, None
        if self._failed:
            return step(images, labels)
        if self._steps_done < _EAGER_STEPS:
            self._steps_done += 1
            return _run_on_own_stream(step, images, labels)
        if self._graph is None:
            try:
                self._graph = _StepGraph(step, images, labels)
            except RuntimeError as error:
                if is_machine_failure(error) and not (is_out_of_memory(error) or "captur" in str(error)):
                    raise
                self._failed = True
                seen = fit_on_one_line(str(error), 120)
                _log.warning("training steps are launched kernel by kernel, because CUDA captures none: %s", seen)
                return step(images, labels)
        return self._graph.replay(images, labels)


class _StepGraph:
    """A CUDA graph of one training step, with the tensors that it reads and writes."""

    def __init__(self, step: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> None:
        self._images, self._labels = images.clone(), labels.clone()
        self._graph = torch.cuda.CUDAGraph()
        # other threads of this process may allocate GPU memory during the capture
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._loss = step(self._images, self._labels)

    def replay(self, images: Tensor, labels: Tensor) -> Tensor:
        self._images.copy_(images)
        self._labels.copy_(labels)
        self._graph.replay()
        return self._loss.clone()


def _run_on_own_stream(step: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """Run a step outside the default stream, as before every capture (PyTorch, CUDA semantics, CUDA graphs)."""
    stream: torch.cuda.Stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    default = torch.cuda.current_stream()
    stream.wait_stream(default)
    with torch.cuda.stream(stream):
        loss = step(images, labels)
    default.wait_stream(stream)
    return loss
