"""The one place where stores, kernels and engines meet: from the steps of a suite to rows in the results store."""

import heapq
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from types import MappingProxyType
from typing import NamedTuple

from roarbench.errors import CallerError, MachineError
from roarbench.execution.context import RunContext
from roarbench.execution.graph import Step, seal_name, steps
from roarbench.execution.jobs import Scored
from roarbench.plan.runs import CLEAN, Run, missing
from roarbench.store.leases import Owner
from roarbench.store.results import Result, ResultsStore, pack_answers, pack_probabilities
from roarbench.terms import Retrain
from roarbench.workers.local import JobOutcome, LocalEngine

TRIES = 3  # of a job that its machine cut off
_PATIENCE = 1.0  # seconds between looks at what another process does


class Event(NamedTuple):
    """A step that ended.

    Attributes:
        step: Which.
        failure: The reason if it failed.
        note: A line on what happened meanwhile; empty if there is nothing to say.
        seconds: By the clock, that a worker took for it; 0 where none did.
        running: Steps that are under way, each with its seconds so far.
    """

    step: Step
    failure: str
    note: str = ""
    seconds: float = 0.0
    running: tuple[tuple[Step, float], ...] = ()


_PRIORITY = {"reference": 0, "rank": 1, "seal": 2, "network": 3, "tune": 4, "run": 5}


def _priority(step: Step) -> int:
    """Rank a step, smaller first; how good the reference is, known in seconds, comes before all that it explains."""
    scores_reference = step.run and (step.run.cell.estimator, step.run.cell.retrain) == (CLEAN, Retrain.NONE)
    return _PRIORITY["reference" if scores_reference else step.kind]


class Schedule:
    """Order of the steps; a failed step takes those that need it with it.

    Args:
        steps: What is to do.
        reasons: Why steps failed before, by name; they are not tried again.
    """

    def __init__(self, steps: list[Step], reasons: Mapping[str, str] = MappingProxyType({})) -> None:
        self._steps = {step.job.name: step for step in steps}
        self._place = {name: number for number, name in enumerate(self._steps)}
        self._graph = TopologicalSorter({name: step.needs for name, step in self._steps.items()})
        self._graph.prepare()
        self._ready: list[tuple[int, int, int, str]] = []
        self._cut_off: defaultdict[str, list[str]] = defaultdict(list)
        self._preparing = sum(step.run is None for step in steps)
        self.reasons = dict(reasons)

    @property
    def prepared(self) -> bool:
        """Return whether nothing but runs is left."""
        return self._preparing == 0

    @property
    def active(self) -> bool:
        """Return whether anything is left to do or under way."""
        return self._graph.is_active()

    def next(self) -> Step | None:
        """Take the most urgent step that can start now."""
        for name in self._graph.get_ready():
            self._push(name)
        return self._steps[heapq.heappop(self._ready)[-1]] if self._ready else None

    def _push(self, name: str) -> None:
        """Make it wait for its turn; what was cut off before comes after the others of its kind."""
        tries = len(self._cut_off[name])
        heapq.heappush(self._ready, (_priority(self._steps[name]), tries, self._place[name], name))

    def again(self, step: Step, reason: str) -> bool:
        """Put a step back that its machine cut off for this reason; False if it had all its tries."""
        self._cut_off[step.job.name].append(reason)
        if len(self._cut_off[step.job.name]) == TRIES:
            return False
        self._push(step.job.name)
        return True

    def cut_off(self, step: Step) -> list[str]:
        """Return why its machine cut a step off, once for each time."""
        return self._cut_off[step.job.name]

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
        self._preparing -= step.run is None
        self._graph.done(step.job.name)

    def step(self, name: str) -> Step:
        """Return the step of this name."""
        return self._steps[name]


def complete(context: RunContext, runs: list[Run], store: ResultsStore, engine: LocalEngine) -> Iterator[Event]:
    """Do whatever is missing of these runs, and tell what ended.

    A run that another process is doing is left to it; if that process dies, it is done here. A run that fails is
    recorded with its reason and not tried again by this call.
    """
    owner = Owner.here()
    try:
        for event in _passes(context, runs, store, engine, owner):
            if event.step.run and not event.failure:  # its row is stored
                context.checkpoint(event.step.run.key).remove()
            yield event
    finally:  # this process may live on, and what it leases nobody else does
        store.release([*(run.key for run in runs), context.reference.key], owner)


def _passes(
    context: RunContext, runs: list[Run], store: ResultsStore, engine: LocalEngine, owner: Owner
) -> Iterator[Event]:
    failed: set[str] = set()
    reasons: dict[str, str] = {}
    while todo := [run for run in missing(runs, store.done([run.key for run in runs])) if run.key not in failed]:
        idle = True
        schedule = Schedule(steps(context, todo), reasons)
        if not schedule.prepared:
            store.lease([context.reference.key], owner)  # stands for all that is no run, and is there to be seen
        for event in _one_pass(schedule, engine, store, owner):
            if schedule.prepared and not event.step.run:
                store.release([context.reference.key], owner)
            if event.step.job.name not in failed:  # told before
                idle = False
                failed |= {event.step.job.name} if event.failure else set()
                yield event
        reasons = schedule.reasons
        if idle:  # all that is left is in other hands
            time.sleep(_PATIENCE)


def _one_pass(schedule: Schedule, engine: LocalEngine, store: ResultsStore, owner: Owner) -> Iterator[Event]:
    begun: dict[str, float] = {}
    while schedule.active:
        while engine.idle and (step := schedule.next()):
            if step.run and not store.lease([step.run.key], owner):
                schedule.ended(step)  # done meanwhile, or in other hands
            elif reason := schedule.obstacle(step):
                yield _fail(schedule, step, reason, store, owner)
            else:
                engine.submit(step.job)
                begun[step.job.name] = time.monotonic()
        ended = engine.wait(_PATIENCE)
        for outcome in sorted(ended, key=lambda outcome: isinstance(outcome.error, CallerError)):  # they end it all
            del begun[outcome.name]
            if not _put_back(schedule, outcome, store, owner):
                running = tuple((schedule.step(name), time.monotonic() - start) for name, start in begun.items())
                yield _record(schedule, outcome, store, owner)._replace(seconds=outcome.seconds, running=running)
        store.beat(owner)


def _put_back(schedule: Schedule, outcome: JobOutcome, store: ResultsStore, owner: Owner) -> bool:
    """Return whether a job that its machine cut off is tried again, by this process or, if it is a run, by any."""
    step = schedule.step(outcome.name)
    if not isinstance(outcome.error, MachineError) or not schedule.again(step, str(outcome.error)):
        return False
    if step.run:
        store.release([step.run.key], owner)
    return True


def _record(schedule: Schedule, outcome: JobOutcome, store: ResultsStore, owner: Owner) -> Event:
    step = schedule.step(outcome.name)
    if isinstance(outcome.error, CallerError):
        raise outcome.error
    if outcome.error is not None:
        tries = f"; tried {TRIES} times" if isinstance(outcome.error, MachineError) else ""
        reason = f"{outcome.error}{tries}"
        if not step.run:  # of a submission's jobs the first one speaks for all
            reason = schedule.reasons.get(step.group, f"{step.job.name} failed: {reason}")
        return _fail(schedule, step, reason, store, owner)
    schedule.ended(step)
    cut_off = schedule.cut_off(step)
    notes = [*dict.fromkeys(cut_off), f"tried {1 + len(cut_off)} times"] if cut_off else []
    notes += [outcome.value] if step.kind in ("reference", "network") else []
    if step.run:
        store.add(result_of(step.run, outcome.value))
        notes.append(outcome.value.note)
    if step.kind == "rank":
        for spec, reason in outcome.value.items():
            schedule.block(seal_name(step.job.arguments[0], spec), f"rank {spec.name} failed: {reason}")
    return Event(step, "", "; ".join(filter(None, notes)))


def _fail(schedule: Schedule, step: Step, reason: str, store: ResultsStore, owner: Owner) -> Event:
    """Note that a step failed, by itself or, with the same words, because of one before it."""
    schedule.ended(step, reason)
    if step.run:
        store.add_failure(step.run, reason)
        store.release([step.run.key], owner)
    return Event(step, reason)


def result_of(run: Run, scored: Scored) -> Result:
    """Make the row of a run."""
    return Result(
        run=run,
        correct=int(scored.correct.sum()),
        total=len(scored.correct),
        bits=pack_answers(scored.correct),
        seconds=scored.seconds,
        provenance=scored.provenance,
        probability=None if scored.probability is None else pack_probabilities(scored.probability),
        rankings=scored.rankings,
        smoothness=scored.smoothness,
        weights=scored.weights,
        loss=scored.loss,
    )
