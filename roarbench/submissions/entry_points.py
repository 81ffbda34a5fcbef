"""Find a submission's entry point, and adapt entry points for captum and Quantus. This module runs in the sandbox.

Entry points for captum and Quantus take no generator. They may draw from the global generators of
torch, NumPy and Python; this module seeds these generators from the image's generator before each call.
"""

import inspect
import random
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault

EstimateFunction = Callable[[nn.Module, Tensor, Tensor, torch.Generator], Any]
CONTRACT = ("model", "images", "targets", "generator")
_EXPECTED = f"def estimate({', '.join(CONTRACT)})"


def find_entry_point(module: ModuleType) -> EstimateFunction:
    """Return a submission's entry point as a function with the arguments of `CONTRACT`.

    The submission must define exactly one of three entry points. `estimate` takes the arguments of `CONTRACT`.
    `estimator` follows captum's convention: the function takes the model and returns an object with
    `attribute(inputs, target=…)`. `explain_func` follows Quantus' convention: the function takes `model` and the NumPy
    arrays `inputs` and `targets` by name and returns a NumPy array.

    Raises:
        Refusal: The module has no entry point or several, or `estimate` takes other arguments.
    """
    names = [name for name in _CONVENTIONS if callable(getattr(module, name, None))]
    if not names:
        raise Refusal(SubmissionFault.SIGNATURE, f"no function 'estimate'; write {_EXPECTED}")
    if len(names) > 1:
        seen = f"both '{names[0]}' and '{names[1]}' are defined"
        raise Refusal(SubmissionFault.SIGNATURE, f"{seen}, but only one can be run; rename the other")
    return _CONVENTIONS[names[0]](getattr(module, names[0]))


def _check_signature(estimate: EstimateFunction) -> EstimateFunction:
    try:
        signature = inspect.signature(estimate)
        signature.bind(*CONTRACT)
    except (TypeError, ValueError):
        seen = f"estimate{signature}" if "signature" in locals() else "estimate"
        message = f"{seen} does not take four arguments; write {_EXPECTED}"
        raise Refusal(SubmissionFault.SIGNATURE, message) from None
    return estimate


def adapt_function(function: Callable[[nn.Module, Tensor, Tensor], Any]) -> EstimateFunction:
    """Adapt a callable that takes a model, images and targets and returns their maps.

    The adapted function seeds the global generators from the image's generator. If the callable uses a global
    generator, the function also draws a number from the image's generator. On seeing the changed state, the caller
    explains images one at a time from then on.
    """

    def estimate(model: nn.Module, images: Tensor, targets: Tensor, generator: torch.Generator) -> Any:
        twin = torch.Generator()
        twin.set_state(generator.get_state())
        seed = int(torch.randint(2**31, (), generator=twin))
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002 (submissions may draw from the global generator)
        random.seed(seed)
        before = _read_global_generator_states()
        maps = function(model, images, targets)
        if _read_global_generator_states() != before:
            torch.rand((), generator=generator)
        return maps

    return estimate


def adapt_captum(make_attribution: Callable[[nn.Module], Any]) -> EstimateFunction:
    """Adapt a callable that takes a model and returns an object with `attribute(inputs, target=…)`."""

    def explain(model: nn.Module, images: Tensor, targets: Tensor) -> Any:
        return make_attribution(model).attribute(images.detach().clone().requires_grad_(), target=targets)

    return adapt_function(explain)


def adapt_quantus(explain_func: Callable[..., Any]) -> EstimateFunction:
    """Adapt a callable that takes `model` and the NumPy arrays `inputs` and `targets` by name and returns an array."""

    def explain(model: nn.Module, images: Tensor, targets: Tensor) -> Any:
        inputs, classes = images.cpu().numpy().copy(), targets.cpu().numpy().copy()
        maps = explain_func(model=model, inputs=inputs, targets=classes)
        return torch.as_tensor(maps, dtype=torch.float32).to(images.device) if isinstance(maps, np.ndarray) else maps

    return adapt_function(explain)


_CONVENTIONS: dict[str, Callable[[Any], EstimateFunction]] = {
    "estimate": _check_signature,
    "estimator": adapt_captum,
    "explain_func": adapt_quantus,
}


def _read_global_generator_states() -> tuple[Any, ...]:
    gpu = torch.cuda.get_rng_state().numpy().tobytes() if torch.cuda.is_available() else b""
    _, numbers, *position = np.random.get_state()  # noqa: NPY002
    return torch.get_rng_state().numpy().tobytes(), gpu, np.asarray(numbers).tobytes(), position, random.getstate()
