"""Compile networks that are trained on a GPU; after a failure of the compiler, this process compiles no more."""

import logging
import os
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn

from roarbench.common.device_settings import COMPILING
from roarbench.common.text import fit_on_one_line

_FAILURES: list[str] = []  # the compiler's errors in this process
_log = logging.getLogger(__name__)
# maximum number of compiled variants of a network per process, which differ in side, batch size, channels or classes; a
# suite has up to six
VARIANTS = 64


def is_compilation_on(in_recipe: bool) -> bool:
    """Return whether this process should compile the networks that it trains on a GPU."""
    return (in_recipe or COMPILING in os.environ) and not _FAILURES


def compile_network(model: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a compiled network; torch compiles it in the first forward and backward pass of each image size.

    By default, torch silently runs all networks of a class eagerly after eight compiled variants; a worker can need
    more variants, so this function raises the limit.
    """
    _announce_compilation()
    torch._dynamo.config.recompile_limit = VARIANTS
    import torch._inductor.config as inductor  # the import takes a second, and CPUs do not compile

    # this option, which only some versions of torch have, can make convolutions six times slower (pytorch #189488)
    if hasattr(inductor, "loop_reindexing_after_fusion"):
        inductor.loop_reindexing_after_fusion = False
    # the compiler advises to use TensorFloat32, which would round float32
    warnings.filterwarnings("ignore", "TensorFloat32 tensor cores")
    forward: Callable[[Tensor], Tensor] = torch.compile(model, dynamic=False, mode=os.environ.get(COMPILING))
    return forward


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
