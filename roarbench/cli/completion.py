"""What the shell completes: names of suites, protocols and estimators. Nothing here imports torch."""

import typer

from roarbench.estimators.catalogue import ESTIMATORS, split_names
from roarbench.plan.suites import SUITES
from roarbench.protocols import PROTOCOLS, SHOWN


def suites(incomplete: str) -> list[str]:
    """Return the suites whose names begin like this."""
    return [name for name in SUITES if name.startswith(incomplete)]


def protocols(incomplete: str) -> list[str]:
    """Return the protocols that are run whose names begin like this."""
    return [name for name in PROTOCOLS if name.startswith(incomplete)]


def shown_protocols(incomplete: str) -> list[str]:
    """Return the protocols that a table can be of whose names begin like this."""
    return [name for name in SHOWN if name.startswith(incomplete)]


def estimators(context: typer.Context, incomplete: str) -> list[str]:
    """Return the list with its last id completed: by ids of the suite that was named, or by all of the table.

    After a parenthesis the names of parameters are completed.
    """
    *before, last = split_names(incomplete)
    suite = SUITES.get(context.params.get("suite") or "")
    known = suite.estimators if suite else tuple(ESTIMATORS)
    if "(" in last:
        known = tuple(f"{name}({key}=" for name in known if name in ESTIMATORS for key in ESTIMATORS[name].parameters)
    return [",".join([*before, name]) for name in known if name.startswith(last) and name not in before]
