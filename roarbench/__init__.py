"""Judge feature-importance estimators by experiment: remove what they call important, and measure.

    suite = roarbench.load("quick-matched")
    result = roarbench.evaluate(suite, {"mine": my_function}, store="store")

Names are imported when they are asked for, and torch when something is computed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roarbench.api.evaluate import evaluate
    from roarbench.api.functions import submission
    from roarbench.api.result import Difference, Result
    from roarbench.api.suites import Suite, load
    from roarbench.errors import CallerError, RoarbenchError, RunError

__all__ = [
    "CallerError",
    "Difference",
    "Result",
    "RoarbenchError",
    "RunError",
    "Suite",
    "evaluate",
    "load",
    "submission",
]
_HOMES = {
    "api.evaluate": ("evaluate",),
    "api.functions": ("submission",),
    "api.result": ("Difference", "Result"),
    "api.suites": ("Suite", "load"),
    "errors": ("CallerError", "RoarbenchError", "RunError"),
}


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"roarbench.{home}"), name)
    raise AttributeError(f"module 'roarbench' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
