"""Queue the steps of a job graph, and choose the order in which they start."""

import heapq
from collections import defaultdict
from graphlib import TopologicalSorter

from roarbench.execution.job_graph import Step

_PRIORITY = {"reference": 0, "rank": 1, "seal": 2, "network": 3, "tune": 4, "run": 5}


class StepQueue:
    """Queue of the steps that can start; a failure of a step blocks the steps that need it."""

    def __init__(self, steps: list[Step]) -> None:
        self.steps = {step.job.name: step for step in steps}
        self._position = {name: number for number, name in enumerate(self.steps)}
        self._graph = TopologicalSorter({name: step.needs for name, step in self.steps.items()})
        self._graph.prepare()
        self._ready: list[tuple[int, int, int, str]] = []
        self.interruptions: defaultdict[str, list[str]] = defaultdict(list)  # from names of steps to reasons
        self.in_other_processes: list[str] = []  # names of the steps that other processes are doing
        self.reasons: dict[str, str] = {}  # from names of steps or submissions to reasons of failures

    @property
    def active(self) -> bool:
        """Return whether any step is left or in progress."""
        return self._graph.is_active()

    def take_ready(self, limit: int) -> list[Step]:
        """Remove up to `limit` steps from the queue and return them, the most urgent first."""
        for name in self._graph.get_ready():
            self.enqueue(name)
        count = min(limit, len(self._ready))
        return [self.steps[heapq.heappop(self._ready)[-1]] for _ in range(count)]

    def requeue_steps_of_other_processes(self) -> None:
        """Queue the steps of other processes again, because these processes may have finished or died."""
        while self.in_other_processes:
            self.enqueue(self.in_other_processes.pop())

    def enqueue(self, name: str) -> None:
        """Queue a step; steps that were interrupted come after other steps of the same priority."""
        tries, step = len(self.interruptions[name]), self.steps[name]
        # explained networks are scored first, because a network near chance ends the command
        priority = _PRIORITY["reference" if step.scores_reference else step.kind]
        heapq.heappush(self._ready, (priority, tries, self._position[name], name))

    def replace_and_enqueue_step(self, step: Step) -> None:
        """Replace the queued step of this name."""
        self.steps[step.job.name] = step
        self.enqueue(step.job.name)

    def retry(self, step: Step, reason: str) -> None:
        """Queue a step again after its machine interrupted it for this reason."""
        self.interruptions[step.job.name].append(reason)
        self.enqueue(step.job.name)

    def find_blocking_failure(self, step: Step) -> str:
        """Return why a step, its submission or a step that it needs failed; empty if none of them failed."""
        names = (step.job.name, step.group, *step.needs)
        return next((self.reasons[name] for name in names if name in self.reasons), "")

    def block(self, name: str, reason: str) -> None:
        """Record why the step with this name, or the steps of the submission with this name, cannot be done."""
        self.reasons.setdefault(name, reason)

    def record_end(self, step: Step, reason: str = "") -> None:
        """Record that a step has ended; `reason` says why it failed."""
        if reason:
            self.block(step.job.name, reason)
            if step.group:
                self.block(step.group, reason)
        self._graph.done(step.job.name)
