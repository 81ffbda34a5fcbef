"""Decorate public functions so that they compute under neutral settings of torch; only their calls import torch."""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


def use_neutral_settings(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a public function: it computes under neutral settings of torch and restores the caller's at the end.

    The decorated function raises CallerError inside transforms of torch that change what every operation does.
    """

    @wraps(function)
    def call(*args: _P.args, **options: _P.kwargs) -> _R:
        from roarbench.api.torch_settings import set_neutral_settings

        with set_neutral_settings():
            return function(*args, **options)

    return call
