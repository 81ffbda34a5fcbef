"""Evaluate feature-importance estimators by experiment: remove the features that they rank first, and score a network.

    suite = roarbench.load_suite("quick-matched")
    result = roarbench.evaluate(suite, {"mine": my_function}, store="store")

Public names are imported at first use, and torch is imported at the first computation.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from roarbench.common.process_settings import pause_garbage_collection

if TYPE_CHECKING:
    from roarbench.api.all_results import load_all_results
    from roarbench.api.check_table import CheckTable
    from roarbench.api.evaluate import evaluate
    from roarbench.api.evaluated_rows import EvaluatedRows
    from roarbench.api.gain_tables import Difference, OwnNetworkTable, TwoDifferences
    from roarbench.api.inputs import Preprocessing
    from roarbench.api.perturbation_curves import Curve, estimate_mean, perturbation_curve
    from roarbench.api.published_results import load_published_results
    from roarbench.api.removal import fill, rank, remove
    from roarbench.api.submission_from_function import write_submission
    from roarbench.api.suites import Suite, load_suite
    from roarbench.api.training_free_measures import check, own_network_gain
    from roarbench.common.errors import CallerError, RoarbenchError, RunError

_HOMES = {
    "api.all_results": ("load_all_results",),
    "api.evaluate": ("evaluate",),
    "api.check_table": ("CheckTable",),
    "api.gain_tables": ("Difference", "OwnNetworkTable", "TwoDifferences"),
    "api.inputs": ("Preprocessing",),
    "api.perturbation_curves": ("Curve", "estimate_mean", "perturbation_curve"),
    "api.published_results": ("load_published_results",),
    "api.removal": ("fill", "rank", "remove"),
    "api.submission_from_function": ("write_submission",),
    "api.evaluated_rows": ("EvaluatedRows",),
    "api.suites": ("Suite", "load_suite"),
    "api.training_free_measures": ("check", "own_network_gain"),
    "common.errors": ("CallerError", "RoarbenchError", "RunError"),
}
__all__ = [
    "CallerError",
    "CheckTable",
    "Curve",
    "Difference",
    "OwnNetworkTable",
    "Preprocessing",
    "EvaluatedRows",
    "RoarbenchError",
    "RunError",
    "Suite",
    "TwoDifferences",
    "check",
    "estimate_mean",
    "perturbation_curve",
    "evaluate",
    "fill",
    "load_suite",
    "load_all_results",
    "own_network_gain",
    "rank",
    "remove",
    "load_published_results",
    "write_submission",
]


def __getattr__(name: str) -> Any:
    """Import a public name from its module."""
    for home, names in _HOMES.items():
        if name in names:
            with pause_garbage_collection():  # modules make many objects and no garbage
                return getattr(import_module(f"roarbench.{home}"), name)
    raise AttributeError(f"module 'roarbench' has no attribute '{name}'")


def __dir__() -> list[str]:
    return __all__
