"""The order of a suite's steps: what can start now, the most urgent first, and what falls with a step that failed."""

import heapq
from collections import defaultdict
from collections.abc import Collection, Sequence
from graphlib import TopologicalSorter

from roarbench.enums import ScoredNetwork
from roarbench.execution.job_graph import Step
from roarbench.plan.runs import CLEAN

_PRIORITY = {"reference": 0, "rank": 1, "seal": 2, "network": 3, "tune": 4, "run": 5}


def _priority(step: Step) -> int:
    """Rank a step, smaller first; how good the reference is, known in seconds, comes before all that it explains."""
    scores_reference = step.run and (step.run.cell.estimator, step.run.cell.retrain) == (CLEAN, ScoredNetwork.NONE)
    return _PRIORITY["reference" if scores_reference else step.kind]


class Schedule:
    """Order of the steps; a failed step takes those that need it with it.

    Attributes:
        steps: By name.
        cut_off: Why its machine cut a step off, once for each time, by name.
        elsewhere: Names of the steps in other hands, which are doing them.
        reasons: Why steps failed, by name.
    """

    def __init__(self, steps: list[Step]) -> None:
        self.steps = {step.job.name: step for step in steps}
        self._place = {name: number for number, name in enumerate(self.steps)}
        self._graph = TopologicalSorter({name: step.needs for name, step in self.steps.items()})
        self._graph.prepare()
        self._ready: list[tuple[int, int, int, str]] = []
        self.cut_off: defaultdict[str, list[str]] = defaultdict(list)
        self.elsewhere: list[str] = []
        self.reasons: dict[str, str] = {}

    @property
    def active(self) -> bool:
        """Return whether anything is left to do or under way."""
        return self._graph.is_active()

    def ready(self, most: int) -> list[Step]:
        """Take up to `most` of the steps that can start now, the most urgent first."""
        for name in self._graph.get_ready():
            self.wait(name)
        count = min(most, len(self._ready))
        return [self.steps[heapq.heappop(self._ready)[-1]] for _ in range(count)]

    def look_again(self) -> None:
        """Let the steps in other hands wait for their turn: who has them may be through, or dead."""
        while self.elsewhere:
            self.wait(self.elsewhere.pop())

    def wait(self, name: str) -> None:
        """Let a step wait for its turn; what was cut off before comes after the others of its kind."""
        tries = len(self.cut_off[name])
        heapq.heappush(self._ready, (_priority(self.steps[name]), tries, self._place[name], name))

    def change(self, step: Step) -> None:
        """Put another step in the place of the one of its name, which waits for its turn."""
        self.steps[step.job.name] = step
        self.wait(step.job.name)

    def again(self, step: Step, reason: str) -> None:
        """Put a step back that its machine cut off for this reason."""
        self.cut_off[step.job.name].append(reason)
        self.wait(step.job.name)

    def obstacle(self, step: Step) -> str:
        """Return why a step cannot be done: its own reason, that of the first failed one before it, or nothing."""
        names = (step.job.name, step.group, *step.needs)
        return next((self.reasons[name] for name in names if name in self.reasons), "")

    def block(self, name: str, reason: str) -> None:
        """Note why a step that is still to come cannot be done."""
        self.reasons.setdefault(name, reason)

    def ended(self, step: Step, reason: str = "") -> None:
        """Note that a step is over, with its reason if it failed."""
        if reason:
            self.block(step.job.name, reason)
            if step.group:
                self.block(step.group, reason)
        self._graph.done(step.job.name)


def find_unreachable(steps: Sequence[Step], recipes: Collection[str]) -> list[tuple[Step, str]]:
    """Return the steps that train by one of these recipes, or need one that does, each with that recipe."""
    made: set[str] = set()
    lost: dict[str, str] = {}
    found = []
    for step in steps if recipes else ():
        if made.issuperset(step.needs) and step.made():
            made.add(step.job.name)
        elif (recipe := next((lost[name] for name in step.needs if name in lost), step.recipe)) in recipes:
            lost[step.job.name] = recipe
            found.append((step, recipe))
    return found
