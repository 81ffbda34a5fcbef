"""The one place where stores, kernels and engines meet: from a suite to rows in the results store.

What is missing becomes a graph of jobs: reference, then shards of images ranked by all estimators in one pass, then
sealed rankings, then runs. Controls need no reference, so their runs fill the cores while it trains.
"""

import heapq
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from graphlib import TopologicalSorter
from itertools import groupby
from math import prod
from types import MappingProxyType
from typing import NamedTuple

from roarbench.devices import device
from roarbench.errors import CallerError, MachineError
from roarbench.estimators import CONTROLS, Estimator, find_estimator, ranked_by
from roarbench.estimators.engine import EXPLAINED, job_group, passes
from roarbench.execution import jobs
from roarbench.execution.context import RunContext
from roarbench.execution.jobs import Scored
from roarbench.execution.networks import train_common, tune
from roarbench.plan.common import CommonNetwork
from roarbench.plan.runs import CLEAN, Run, missing
from roarbench.store.leases import Owner
from roarbench.store.rankings import RankingSpec, covers
from roarbench.store.results import Result, ResultsStore, pack_answers, pack_probabilities
from roarbench.terms import Retrain, Split
from roarbench.workers.local import Job, JobOutcome, LocalEngine

SHARD = 512  # images that one job ranks at most
_JOB = 260e6  # features that a core explains in a job: seconds for a small network, minutes for a ResNet-18
TRIES = 3  # of a job that its machine cut off
_PATIENCE = 1.0  # seconds between looks at what another process does


class Step(NamedTuple):
    """A job with its place in the graph.

    Attributes:
        kind: `reference`, `rank`, `seal`, `network`, `tune` or `run`; smaller stages first where several are ready.
        job: What a worker does.
        needs: Names of the steps before it.
        run: The run that it does, for `run`.
        group: The submission that it ranks by; once it failed for some images, it is not tried for others.
    """

    kind: str
    job: Job
    needs: tuple[str, ...]
    run: Run | None = None
    group: str = ""


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


def steps(context: RunContext, runs: list[Run]) -> list[Step]:
    """Return everything that has to be done for these runs and is not yet in the stores."""
    wanted = _rankings_needed(context, runs)
    lacking = {spec: found for spec, found in wanted.items() if not context.rankings.has(spec)}
    needs = {number: _reference_needed(context.explaining(number)) for number in range(context.suite.references)}
    ranking = [step for number in needs for step in _rank_steps(context.explaining(number), lacking, needs[number])]
    sealing = list(_seal_steps(lacking, ranking))
    networks = list(_network_steps(context, runs, lacking))
    by_seed = sorted(runs, key=lambda run: run.seed)  # every row has a whole curve before any has a second one
    scoring = [_run_step(context.of(run), run, lacking, needs) for run in by_seed]
    explained = {name for step in (*ranking, *scoring) for name in step.needs}
    training = [
        Step("reference", Job(name, jobs.train_reference, (context.explaining(number),)), ())
        for number, names in needs.items()
        for name in names
        if name in explained
    ]
    return [*training, *ranking, *sealing, *networks, *scoring]


def _reference_needed(context: RunContext) -> tuple[str, ...]:
    """Return the name of the step that makes a reference; empty if it is there."""
    made = all(context.references.predicted(context.reference, split) for split in context.splits)
    return () if made else (f"reference{_numbered(context)}",)


def _numbered(context: RunContext) -> str:
    """Return what the names of steps say of the reference, where there are several."""
    return f" {context.number + 1}" if context.suite.references > 1 else ""


Lacking = dict[RankingSpec, tuple[Estimator, RunContext]]  # rankings to make, each with what it is made by


def _rankings_needed(context: RunContext, runs: list[Run]) -> Lacking:
    """Return the rankings that runs remove by, for every reference explained; those of controls once."""
    cells = {(run.cell.estimator, run.cell.unit, context.of(run).number) for run in runs}
    cells |= {(name, run.cell.unit, 0) for run in runs if run.cell.retrain is Retrain.COMMON for name in CONTROLS}
    found: Lacking = {}
    for name, unit, number in sorted(cells):
        if name != CLEAN and (estimator := ranked_by(name)):
            made_by = context.explaining(0 if estimator.control else number)
            found.setdefault(made_by.ranking_spec(estimator, unit), (estimator, made_by))
    return found


def _network_steps(context: RunContext, runs: list[Run], lacking: Lacking) -> Iterator[Step]:
    """Yield what makes the networks that score several of these runs: the common ones, then one for each row."""
    made: set[str] = set()
    for run in (run for run in runs if run.cell.retrain is Retrain.COMMON):
        own, common = context.of(run), context.common_network(run)
        for step in (_common_step(context, common, lacking), *_tuning_step(own, run, lacking)):
            if step.job.name not in made:
                made.add(step.job.name)
                yield step


def _common_step(context: RunContext, common: CommonNetwork, lacking: Lacking) -> Step:
    first = context.explaining(0)
    specs = [first.ranking_spec(find_estimator(name), common.unit) for name in CONTROLS]
    needs = tuple(_seal_name(first, spec) for spec in specs if spec in lacking)
    return Step("network", Job(_common_name(common), train_common, (context, common)), needs)


def _tuning_step(context: RunContext, run: Run, lacking: Lacking) -> Iterator[Step]:
    """Yield what tunes the common network on the row of a run; nothing for untouched images."""
    if estimator := run.cell.ranked_by:
        spec = context.ranking_spec(estimator, run.cell.unit)
        needs = (_common_name(context.common_network(run)), *((_seal_name(context, spec),) if spec in lacking else ()))
        yield Step("tune", Job(_tuning_name(run, estimator), tune, (context, run)), needs)


def _common_name(common: CommonNetwork) -> str:
    return f"network {common.order} {common.unit} {common.seed}"


def _tuning_name(run: Run, estimator: Estimator) -> str:
    return f"tune {estimator.id} {run.cell.order} {run.cell.unit} {run.seed}"


def _rank_steps(context: RunContext, lacking: Lacking, reference: tuple[str, ...]) -> Iterator[Step]:
    """Yield what ranks by one reference, and by the controls where it is the first."""
    groups: dict[str, list[RankingSpec]] = {}
    mine = [(spec, estimator) for spec, (estimator, made_by) in lacking.items() if made_by == context]
    for spec, estimator in sorted(mine, key=lambda item: not item[1].control):
        groups.setdefault(job_group(estimator), []).append(spec)
    for group, specs in groups.items():
        controls = group == "controls"
        named = group if controls else f"{group}{_numbered(context)}"
        for todo, split, start, stop in _shards(context, specs):
            job = Job(f"rank {named} {split} {start}", jobs.rank_shard, (context, todo, split, start, stop))
            submitted = todo[0].estimator_record.submitted
            yield Step("rank", job, () if controls else reference, group=named if submitted else "")


def _shards(context: RunContext, specs: list[RankingSpec]) -> Iterator[tuple[tuple[RankingSpec, ...], Split, int, int]]:
    """Yield ranges of images with the rankings that lack them, however those that are done were divided."""
    size = _shard_size(specs)
    for split in context.splits:
        n = len(context.images(split).labels)
        ranked = {spec: context.rankings.ranked(spec, split) for spec in specs}
        ends = {start: min(start + EXPLAINED, n) for start in range(0, n, EXPLAINED)}
        todo = {s: tuple(spec for spec in specs if not covers(ranked[spec], s, stop)) for s, stop in ends.items()}
        for (_, lacking), batches in groupby(ends, key=lambda start: (start // size, todo[start])):
            starts = list(batches)
            if lacking:
                yield lacking, split, starts[0], ends[starts[-1]]


def _shard_size(specs: list[RankingSpec]) -> int:
    """Return the images of one job, whole batches: on a core the fewer, the more passes each of them takes.

    On a GPU `SHARD` images are a minute's work for a ResNet-50, and fewer would not keep it busy.
    """
    if device().type == "cuda":
        return SHARD
    looks = max(1, passes(spec.estimator_record for spec in specs).forward)
    batches = _JOB // (looks * prod(specs[0].shape) * EXPLAINED)
    return min(SHARD, max(1, int(batches)) * EXPLAINED)


def _seal_steps(lacking: Lacking, ranking: list[Step]) -> Iterator[Step]:
    needs: dict[RankingSpec, list[str]] = {spec: [] for spec in lacking}
    for step in ranking:
        for spec in step.job.arguments[1]:
            needs[spec].append(step.job.name)
    for spec, names in needs.items():
        made_by = lacking[spec][1]
        yield Step("seal", Job(_seal_name(made_by, spec), jobs.seal, (made_by, spec)), tuple(names))


def _seal_name(context: RunContext, spec: RankingSpec) -> str:
    return f"seal {spec.name} {spec.unit}{_numbered(context) if spec.reference else ''}"


def _run_step(context: RunContext, run: Run, lacking: Lacking, references: Mapping[int, tuple[str, ...]]) -> Step:
    needs = references[context.number] if run.cell.retrain is Retrain.NONE else ()
    if estimator := run.cell.ranked_by:
        spec = context.ranking_spec(estimator, run.cell.unit)
        needs += (_seal_name(context, spec),) if spec in lacking else ()
    if run.cell.retrain is Retrain.COMMON:
        tuned = run.cell.ranked_by
        needs += (_tuning_name(run, tuned) if tuned else _common_name(context.common_network(run)),)
    return Step("run", Job(run.key, jobs.score, (context, run)), needs, run)


class Schedule:
    """Which step comes next; a failed step takes those that need it with it.

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
            schedule.block(_seal_name(step.job.arguments[0], spec), f"rank {spec.name} failed: {reason}")
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
