"""What of a suite a machine cannot do, since trainings by some recipes do not fit in the memory of its devices."""

from collections.abc import Collection, Sequence

from roarbench.execution.claims import is_made
from roarbench.execution.graph import Step
from roarbench.terms import Retrain


def out_of_reach(steps: Sequence[Step], recipes: Collection[str]) -> list[tuple[Step, str]]:
    """Return the steps that train by one of these recipes, or need one that does, each with that recipe.

    Args:
        steps: Each after those that it needs.
        recipes: `name@version` of those that do not fit.
    """
    made: set[str] = set()
    lost: dict[str, str] = {}
    found = []
    for step in steps if recipes else ():
        if made.issuperset(step.needs) and is_made(step):
            made.add(step.job.name)
        elif (recipe := next((lost[name] for name in step.needs if name in lost), _recipe(step))) in recipes:
            lost[step.job.name] = recipe
            found.append((step, recipe))
    return found


def _recipe(step: Step) -> str:
    """Return the recipe by which a step trains a network; empty if it trains none."""
    context, *rest = step.job.arguments
    if step.kind == "reference":
        return str(context.reference.recipe)
    if step.kind == "network":
        return str(rest[0].recipe)
    if step.kind == "tune":
        return str(context.common_network(rest[0]).recipe)
    trains = step.run and step.run.cell.retrain not in (Retrain.NONE, Retrain.COMMON)
    return step.run.recipe if step.run and trains else ""
