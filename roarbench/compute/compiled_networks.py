"""Compile networks that are trained on a GPU, and run them eagerly if the compiler fails."""

import logging
import os
import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import COMPILING, is_machine_failure
from roarbench.common.text import fit_on_one_line

_COMPILER_FAILURES: list[str] = []  # compiler's errors in this process; after one, networks are no longer compiled
_COMPILED_SHAPES: set[torch.Size] = set()  # image shapes with a compiled network in this process
_log = logging.getLogger(__name__)
# maximum number of compiled variants of a network per process, which differ in side, batch size, channels or classes; a
# suite has up to six
VARIANTS = 64


def is_compilation_on() -> bool:
    """Return whether this process should compile the networks that it trains on a GPU."""
    return COMPILING in os.environ


def compile_network(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """Compile a network; if the compiler fails once, this process runs all networks eagerly from then on.

    The compiler fails on a machine without a C compiler, for example. The caller must run the backward pass, which is
    compiled later, with `run_compiled_backward`. By default, torch silently runs all networks of a class eagerly after
    eight compiled variants; a worker can need more variants, so this function raises the limit.
    """
    try:
        forward = _compile_with_settings(model)
    except Exception as error:
        _record_or_raise_compiler_failure(error)
        return model

    def compiled_or_not(images: Tensor) -> Tensor:
        if not _COMPILER_FAILURES:
            if images.shape not in _COMPILED_SHAPES:
                _COMPILED_SHAPES.add(images.shape)
                _log.warning("compiling the network for images of shape %s; this can take minutes", tuple(images.shape))
            try:
                return forward(images)
            except Exception as error:  # the compiler may raise many exception types, all before any computation
                _record_or_raise_compiler_failure(error)
        logits: Tensor = model(images)  # an error of the network itself, not of the compiler, is raised here
        return logits

    return compiled_or_not


def _compile_with_settings(model: nn.Module) -> Callable[[Tensor], Tensor]:
    torch._dynamo.config.recompile_limit = VARIANTS
    import torch._inductor.config as inductor  # the import takes a second, and CPUs do not compile

    # this option, which only some versions of torch have, can make convolutions six times slower (pytorch #189488)
    if hasattr(inductor, "loop_reindexing_after_fusion"):
        inductor.loop_reindexing_after_fusion = False
    # the compiler advises to use TensorFloat32, which would round float32
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
    forward: Callable[[Tensor], Tensor] = torch.compile(model, dynamic=False, mode=os.environ.get(COMPILING))
    return forward


class CompilerFailed(Exception):
    """Raised if the compiler fails in a backward pass; gradients are missing, and networks run eagerly from then on."""


def run_compiled_backward(loss: Tensor) -> None:
    """Run the backward pass of a compiled network; raise CompilerFailed at the compiler's first failure."""
    eager = bool(_COMPILER_FAILURES)
    try:
        loss.backward()  # type: ignore[no-untyped-call]
    except Exception as error:
        if eager:
            raise
        _record_or_raise_compiler_failure(error)
        raise CompilerFailed from None


def _record_or_raise_compiler_failure(error: Exception) -> None:
    """Record a compiler's error, so that this process compiles no more; raise the error if the machine caused it."""
    if is_machine_failure(cause := _unwrap_compiler_error(error)):
        raise cause from None
    _COMPILER_FAILURES.append(str(cause))


def _unwrap_compiler_error(error: Exception) -> Exception:
    while isinstance(inner := getattr(error, "inner_exception", None) or error.__cause__, Exception):
        error = inner
    return error


def describe_compilation_failure() -> str:
    """Explain in one line why compilation failed in this process; return an empty string if it has not failed."""
    if not _COMPILER_FAILURES:
        return ""
    seen = fit_on_one_line(_COMPILER_FAILURES[0], 120)
    return f"training is not compiled and therefore slower ({seen}); see roarbench doctor"
