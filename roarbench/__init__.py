"""Judge feature-importance estimators by experiment: remove what they call important, and measure.

    suite = roarbench.load("quick-matched")
    result = roarbench.evaluate(suite, {"mine": my_function}, store="store")

Names are imported when they are asked for, and torch when something is computed.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roarbench.api.check import CheckTable, check
    from roarbench.api.curve import Curve, curve
    from roarbench.api.evaluate import evaluate
    from roarbench.api.finding import load
    from roarbench.api.functions import submission
    from roarbench.api.own_network import OwnNetworkTable, own_network_gain
    from roarbench.api.preprocessing import Preprocessing
    from roarbench.api.primitives import bootstrap, degraded, fill, matched, rank, remove
    from roarbench.api.published import load_all_results, results
    from roarbench.api.suite_result import Difference, Result, TwoDifferences
    from roarbench.api.suites import Suite
    from roarbench.errors import CallerError, RoarbenchError, RunError

_HOMES = {
    "api.check": ("CheckTable", "check"),
    "api.curve": ("Curve", "curve"),
    "api.evaluate": ("evaluate",),
    "api.functions": ("submission",),
    "api.own_network": ("OwnNetworkTable", "own_network_gain"),
    "api.preprocessing": ("Preprocessing",),
    "api.primitives": ("bootstrap", "degraded", "fill", "matched", "rank", "remove"),
    "api.published": ("load_all_results", "results"),
    "api.suite_result": ("Difference", "Result", "TwoDifferences"),
    "api.finding": ("load",),
    "api.suites": ("Suite",),
    "errors": ("CallerError", "RoarbenchError", "RunError"),
}
__all__ = [
    "CallerError",
    "CheckTable",
    "Curve",
    "Difference",
    "OwnNetworkTable",
    "Preprocessing",
    "Result",
    "RoarbenchError",
    "RunError",
    "Suite",
    "TwoDifferences",
    "bootstrap",
    "check",
    "curve",
    "degraded",
    "evaluate",
    "fill",
    "load",
    "load_all_results",
    "matched",
    "own_network_gain",
    "rank",
    "remove",
    "results",
    "submission",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"roarbench.{home}"), name)
    raise AttributeError(f"module 'roarbench' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
