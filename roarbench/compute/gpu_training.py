"""Make the training steps of networks on a GPU faster: compile networks, or replay steps as CUDA graphs.

After a failure of the compiler, this process compiles no more. A training step of a small network consists of several
hundred short kernels, and Python takes longer to launch them than the GPU takes to compute them. A CUDA graph launches
all kernels of a step in one call.
"""

import gc
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import is_machine_failure, is_out_of_memory
from roarbench.common.text import fit_on_one_line

_FAILURES: list[str] = []  # the compiler's errors in this process
_log = logging.getLogger(__name__)
# maximum number of compiled variants of a network per process, which differ in side, batch size, channels or classes; a
# suite has up to six
VARIANTS = 64


def can_compile() -> bool:
    """Return whether the compiler has not failed in this process."""
    return not _FAILURES


def compile_network(model: nn.Module) -> Callable[[Tensor], Tensor] | None:
    """Return a compiled network, or None if the compiler cannot start.

    Torch compiles the network in the first forward and backward pass of each image size.
    By default, torch silently runs all networks of a class eagerly after eight compiled variants; a worker can need
    more variants, so this function raises the limit.
    """
    _announce_compilation()
    try:
        torch._dynamo.config.recompile_limit = VARIANTS
        import torch._inductor.config as inductor  # the import takes a second, and CPUs do not compile

        # this option, which only some versions of torch have, can make convolutions six times slower (pytorch #189488)
        if hasattr(inductor, "loop_reindexing_after_fusion"):
            inductor.loop_reindexing_after_fusion = False
        # the compiler advises to use TensorFloat32, which would round float32
        warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
        forward: Callable[[Tensor], Tensor] = torch.compile(model, dynamic=False)
        return forward
    except Exception as error:
        if is_machine_failure(cause := unwrap_compiler_error(error)):
            raise cause from None
        record_compiler_failure(cause)
        return None


@cache
def _announce_compilation() -> None:
    _log.warning("networks are compiled; the first step of each image size can take minutes")


def unwrap_compiler_error(error: Exception) -> Exception:
    """Return the error that caused an error of the compiler."""
    while isinstance(inner := getattr(error, "inner_exception", None) or error.__cause__, Exception):
        error = inner
    return error


def record_compiler_failure(error: Exception) -> None:
    """Record an error, for example that of a machine without a C compiler; this process then compiles no more."""
    _FAILURES.append(str(error))


def describe_compilation_failure() -> str:
    """Explain in one line why compilation failed in this process; return an empty string if it has not failed."""
    if not _FAILURES:
        return ""
    return f"training is not compiled and therefore slower ({fit_on_one_line(_FAILURES[0], 120)}); see roarbench doctor"


# steps of each image shape before the capture, in which the optimiser allocates its tensors and cuDNN chooses kernels
_EAGER_STEPS = 3
# packages whose modules launch the same kernels in every step; torchvision's transforms, for example, do not
_KNOWN_CODE = ("torch.nn.", "torchvision.models.", "torchvision.ops.", "roarbench.")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# error of this process's first failed capture; each further attempt would cost memory that torch does not free
_CAPTURE_FAILURES: list[str] = []


def is_replayable(model: nn.Module) -> bool:
    """Return whether all modules of a network are layers or networks of torch, torchvision or this package.

    A replay repeats kernels without running Python code. If the Python code of a network chose between computations,
    every replay would repeat the first choice, so networks with other modules, with hooks or with a replaced `forward`
    are not replayed.
    """
    hooked = any(parameter._backward_hooks for parameter in model.parameters())
    return not hooked and all(map(_has_known_code, model.modules()))


def _has_known_code(module: nn.Module) -> bool:
    state = vars(module)
    replaced = "forward" in state or any(state.get(hooks) for hooks in _HOOKS)
    return type(module).__module__.startswith(_KNOWN_CODE) and not replaced


class ReplayedSteps:
    """Training steps on a GPU; after a few ordinary steps, each further step is launched as one CUDA graph.

    Only the graph of the latest image shape is kept. If CUDA cannot capture a step, this process runs all further steps
    without a graph; if GPU memory runs out during the capture, only this training run does.
    """

    def __init__(self) -> None:
        self._shape = torch.Size()
        self._steps_done = 0  # steps of this shape that ran without a graph
        self._graph: _StepGraph | None = None
        self._failed = bool(_CAPTURE_FAILURES)

    @property
    def has_graph(self) -> bool:
        """Return whether the next step of the same shape is a replay."""
        return self._graph is not None

    def run_or_replay(self, step: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> Tensor:
        """Run or replay `step(images, labels)`, which updates the weights; return its loss, a scalar on the GPU.

        All calls must pass the same function `step`, and `step` must always change the same tensors.
        """
        if images.shape != self._shape:
            self._shape, self._steps_done, self._graph = images.shape, 0, None
        if not self._failed and self._steps_done < _EAGER_STEPS:
            self._steps_done += 1
            return _run_on_own_stream(step, images, labels)
        if not self._failed and self._graph is None:
            self._graph = self._capture(step, images, labels)
        return step(images, labels) if self._graph is None else self._graph.replay(images, labels)

    def _capture(self, step: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> "_StepGraph | None":
        try:
            return _StepGraph(step, images, labels)
        except RuntimeError as error:
            out_of_memory = is_out_of_memory(error)
            if is_machine_failure(error) and not (out_of_memory or "captur" in str(error)):
                raise
            seen = fit_on_one_line(str(error), 120)
            _log.warning("training steps are launched kernel by kernel, because CUDA captures none: %s", seen)
            self._failed = True
            if not out_of_memory:
                _CAPTURE_FAILURES.append(seen)
            return None


class _StepGraph:
    """A CUDA graph of one training step, with the tensors that it reads and writes."""

    def __init__(self, step: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> None:
        self._images, self._labels = images.clone(), labels.clone()
        self._graph = torch.cuda.CUDAGraph()
        # other threads of this process may allocate GPU memory during the capture
        with _pause_garbage_collection(), torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            self._loss = step(self._images, self._labels)

    def replay(self, images: Tensor, labels: Tensor) -> Tensor:
        loss = torch.empty_like(self._loss)  # allocated first, so that a step that runs out of memory changes nothing
        self._images.copy_(images)
        self._labels.copy_(labels)
        self._graph.replay()
        return loss.copy_(self._loss)


def _run_on_own_stream(step: Callable[[Tensor, Tensor], Tensor], images: Tensor, labels: Tensor) -> Tensor:
    """Run a step on another stream than the default, as PyTorch's notes on CUDA graphs demand before a capture."""
    stream, default = _get_training_stream(), torch.cuda.current_stream()
    stream.wait_stream(default)
    try:
        with torch.cuda.stream(stream):
            return step(images, labels)
    finally:
        default.wait_stream(stream)


@contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Collect no cycles in this block, because freeing the graph of another training run would spoil a capture."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@cache
def _get_training_stream() -> torch.cuda.Stream:
    """Return one stream for all training runs of this process, because torch keeps freed memory per stream."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]
