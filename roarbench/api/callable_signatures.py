"""Read the signatures of functions and captum classes that a user passes."""

import inspect
from collections.abc import Callable
from typing import Any

from roarbench.common.errors import CallerError


def read_signature(function: Callable[..., Any]) -> tuple[inspect.Signature, int]:
    """Return a callable's signature (empty if unknown) and the number of its positional arguments without a default."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return inspect.Signature(), 0
    parameters = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return signature, sum(parameter.default is parameter.empty for parameter in parameters)


def refuse_missing_arguments(name: str, attribution: Any) -> None:
    """Raise CallerError if `attribute` of a captum class or object needs other arguments than inputs and target."""
    signature, _ = read_signature(attribution.attribute)
    arguments = (attribution, None) if isinstance(attribution, type) else (None,)
    try:
        signature.bind(*arguments, target=None)
    except TypeError as error:
        if not str(error).startswith("missing"):
            return
        kind = attribution.__name__ if isinstance(attribution, type) else type(attribution).__name__
        seen = f"{name}: {kind}.attribute(inputs, target) is {error}"
        raise CallerError(f"{seen}; pass a function of (model, inputs, targets) that calls it") from None


def is_quantus_signature(signature: inspect.Signature) -> bool:
    """Return whether a function accepts Quantus' call with the keywords `model`, `inputs`, `targets` and others."""
    kinds = {parameter.kind for parameter in signature.parameters.values()}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        return False
    try:
        signature.bind(model=None, inputs=None, targets=None)
    except TypeError:
        return False
    only_variable = kinds <= {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
    return "inputs" in signature.parameters or only_variable
