"""Settings for the whole process or thread: compute under neutral settings, and restore those found before.

Gradients are on, inference mode, autocast and anomaly detection off, the default dtype float32 and the default device
the CPU. Settings that change results by rounding alone (threads, deterministic algorithms) stay as the caller set them.
"""

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.modules import module as global_hooks
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _python_dispatch as dispatch
from torch.utils._device import DeviceContext

from roarbench.common.device_settings import list_float32_backends
from roarbench.common.errors import CallerError

_AUTOCAST_DEVICES = [name for name in ("cpu", "cuda", "mps", "xpu") if torch.amp.is_autocast_available(name)]
_AS_FOUND = object()
_BACKENDS: Any = torch.backends
_FLAGS = [
    *((_BACKENDS.cudnn, name) for name in ("enabled", "benchmark", "deterministic", "allow_tf32")),
    *((_BACKENDS.cuda.matmul, f"allow_{name}") for name in ("tf32", "fp16_reduced_precision_reduction")),
    (_BACKENDS.cuda.matmul, "allow_bf16_reduced_precision_reduction"),
    *((backend, "fp32_precision") for backend in list_float32_backends()),
    (_BACKENDS.mkldnn, "enabled"),
]
_NUMPY_ERRORS = {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}  # NumPy's own setting
_read_function_modes: Callable[[], list[Any]] = _get_current_function_mode_stack
_read_dispatch_modes: Callable[[], list[Any]] = dispatch._get_current_dispatch_mode_stack
_left_guards: list[Any] = []  # a guard that ended would bring back the inference mode that a function left on


class _Setting(NamedTuple):
    title: str  # follows "changed" in an error; empty if a change is undone without an error
    read: Callable[[], Any]
    write: Callable[[Any], object]
    neutral: Any = _AS_FOUND


def _list_settings(
    title: str,
    read: Callable[[Any], Any],
    write: Callable[[Any, Any], object],
    names: Iterable[Any],
    neutral: Any = _AS_FOUND,
) -> list[_Setting]:
    """Return one setting for each name, the first argument of both functions."""
    return [_Setting(title, partial(read, name), partial(write, name), neutral) for name in names]


def _write_autocast(write: Callable[[str, Any], object], device: str, value: Any) -> None:
    write(device, value)
    torch.clear_autocast_cache()  # weights that a function rounded, maybe to another dtype


def _count_autocast_contexts() -> int:
    torch.autocast_increment_nesting()
    return int(torch.autocast_decrement_nesting())


def _write_inference_mode(enabled: bool) -> None:
    guard = torch.inference_mode(enabled)
    guard.__enter__()
    _left_guards.append(guard)


def _replace_stack(now: list[Any], modes: list[Any], pop: Callable[[], object], push: Callable[[Any], object]) -> None:
    for _ in now:
        pop()
    for mode in modes:
        push(mode)


def _read_flag(flag: tuple[Any, str]) -> Any:
    with suppress(RuntimeError):  # torch refuses to read the older settings if the program has set newer ones
        return getattr(*flag)
    return _AS_FOUND


def _write_flag(flag: tuple[Any, str], value: Any) -> None:
    with suppress(RuntimeError):
        if value is not _AS_FOUND and getattr(*flag) != value:
            setattr(*flag, value)


def _write_deterministic(state: tuple[bool, bool]) -> None:
    enabled, warn_only = state
    imported = "torch._inductor.config" in sys.modules  # the public function imports this compiler, which takes seconds
    write = torch.use_deterministic_algorithms if imported else torch._C._set_deterministic_algorithms
    write(enabled, warn_only=warn_only)


def _write_global_hooks(name: str, hooks: dict[Any, Any]) -> None:
    vars(global_hooks)[name].clear()
    vars(global_hooks)[name].update(hooks)


def _read_saved_tensor_hooks() -> Any:
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def _close_saved_tensor_hooks(before: Any) -> None:
    while _read_saved_tensor_hooks() not in (before, None):
        torch._C._autograd._pop_saved_tensors_default_hooks()


def _write_warning_filters(filters: list[Any]) -> None:
    warnings.resetwarnings()
    warnings.filters[:] = filters  # type: ignore[index]


_SETTINGS = (
    # modes come first, because they may change what the other functions return
    _Setting(
        "the modes of torch functions, such as the default device",
        _read_function_modes,
        lambda modes: _replace_stack(_read_function_modes(), modes, _pop_mode, _push_mode),
        [],
    ),
    _Setting(
        "the dispatch modes",
        _read_dispatch_modes,
        lambda modes: _replace_stack(_read_dispatch_modes(), modes, dispatch._pop_mode, dispatch._push_mode),
    ),
    _Setting("inference mode", torch.is_inference_mode_enabled, _write_inference_mode),
    _Setting("gradients (grad mode)", torch.is_grad_enabled, torch.set_grad_enabled, True),
    *_list_settings(
        "autocast",
        torch.is_autocast_enabled,
        partial(_write_autocast, torch.set_autocast_enabled),
        _AUTOCAST_DEVICES,
        False,
    ),
    *_list_settings(
        "autocast", torch.get_autocast_dtype, partial(_write_autocast, torch.set_autocast_dtype), _AUTOCAST_DEVICES
    ),
    # contexts that a function left open: until the outermost one ends, torch keeps rounded weights
    _Setting(
        "",
        _count_autocast_contexts,
        lambda count: [torch.autocast_decrement_nesting() for _ in range(_count_autocast_contexts() - count)],
    ),
    _Setting("the default dtype", torch.get_default_dtype, torch.set_default_dtype, torch.float32),
    _Setting(
        "anomaly detection",
        lambda: (torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()),
        lambda state: torch.set_anomaly_enabled(*state),
        (False, True),
    ),
    _Setting(
        "deterministic algorithms",
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        _write_deterministic,
    ),
    _Setting("the number of threads", torch.get_num_threads, torch.set_num_threads),
    _Setting(
        "the handling of denormal numbers",
        lambda: not bool(torch.tensor(1e-310, dtype=torch.float64, device="cpu") * 1),
        torch.set_flush_denormal,
        False,
    ),
    *_list_settings("precision and kernels (torch.backends)", _read_flag, _write_flag, _FLAGS),
    *_list_settings(
        "the kernels of attention",
        lambda name: getattr(torch.backends.cuda, f"{name}_enabled")(),
        lambda name, enabled: getattr(torch.backends.cuda, f"enable_{name}")(enabled),
        ("flash_sdp", "mem_efficient_sdp", "math_sdp", "cudnn_sdp"),
    ),
    *_list_settings(
        "the hooks of all modules (torch.nn.modules.module)",
        lambda name: dict(vars(global_hooks)[name]),
        _write_global_hooks,
        [name for name, value in vars(global_hooks).items() if name.startswith("_global_") and isinstance(value, dict)],
    ),
    _Setting("the hooks of saved tensors", _read_saved_tensor_hooks, _close_saved_tensor_hooks),
    # of these, a function that changes them would lose this package's warnings, or make the computation of others fail
    _Setting("", lambda: list(warnings.filters), _write_warning_filters),
    _Setting("", np.geterr, lambda state: np.seterr(**state), _NUMPY_ERRORS),
)


def read_settings() -> list[Any]:
    return [setting.read() for setting in _SETTINGS]


def restore_settings(before: list[Any]) -> list[str]:
    """Write the settings that differ from `before`, the result of `read_settings`; return their titles."""
    changed = []
    for setting, value in zip(_SETTINGS, before, strict=True):
        if setting.read() != value:
            setting.write(value)
            changed.append(setting.title)
    return list(filter(None, dict.fromkeys(changed)))


@contextmanager
def set_neutral_settings() -> Iterator[None]:
    """Set neutral settings in the block, and restore the caller's at its end.

    CallerError where each operation of torch is transformed, traced or replaced.
    """
    modes = [mode for mode in _read_function_modes() if not isinstance(mode, DeviceContext)]
    seen = ", ".join(type(mode).__name__ for mode in (*modes, *_read_dispatch_modes()))
    if torch._C._functorch.peek_interpreter_stack() is not None:
        seen = "a transform of torch.func (vmap, grad …)"
    elif torch._C._is_tracing() or torch.compiler.is_compiling():
        seen = "a tracer or compiler of torch"
    if seen:
        raise CallerError(f"{seen} is active, which changes what torch computes; call roarbench outside of it")
    with torch.inference_mode(False):  # at its end, this restores the caller's grad mode, too
        before = read_settings()
        try:
            for setting in _SETTINGS:
                if setting.neutral is not _AS_FOUND and setting.read() != setting.neutral:
                    setting.write(setting.neutral)
            yield
        finally:
            restore_settings(before)
