"""What of a suite a machine cannot do: by the memory of its devices, or for want of disk."""

import shutil
from collections.abc import Collection, Sequence

from roarbench.errors import StoreError
from roarbench.execution.job_graph import Step
from roarbench.execution.leasing import is_made
from roarbench.forecast.workload import Work
from roarbench.store.layout import Workspace
from roarbench.terms import Retrain
from roarbench.text import size


def out_of_reach(steps: Sequence[Step], recipes: Collection[str]) -> list[tuple[Step, str]]:
    """Return the steps that train by one of these recipes, or need one that does, each with that recipe."""
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


def refuse_full_disk(work: Work, data: str, workspace: Workspace) -> None:
    """Refuse a store whose disk has less room than the work on these images needs, once they are decoded."""
    parts = (workspace.rankings / data[:12]).rglob("parts/*.arrow")  # may be of the same rankings, half made
    there = sum(path.stat().st_size for path in parts)
    needed, free = work.disk - work.images - there, shutil.disk_usage(workspace.root).free
    if needed > free:
        room = f"the plan needs {size(needed)} more, {size(free)} are free"
        raise StoreError(f"no space left in {workspace.root}; {room}; free some or choose another --store")


def _recipe(step: Step) -> str:
    """Return the recipe by which a step trains a network; empty if it trains none."""
    if step.kind == "reference":
        return str(step.job.arguments[0].reference.recipe)
    if step.kind in ("network", "tune"):
        return str(step.job.arguments[1].recipe)
    trains = step.run and step.run.cell.retrain not in (Retrain.NONE, Retrain.COMMON)
    return step.run.recipe if step.run and trains else ""
