"""Do a suite's steps with workers, and record their outcomes; only this module connects stores, jobs and engines."""

import heapq
import random
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator
from graphlib import TopologicalSorter
from typing import NamedTuple, Self

from roarbench.common.errors import CallerError, LostLease, MachineError, StoreError
from roarbench.common.job_interface import Engine, JobOutcome
from roarbench.common.text import format_count, list_some
from roarbench.execution.job_context import JobContext
from roarbench.execution.job_graph import Step, list_output_artifacts, name_seal_step
from roarbench.store.annotations_and_scores import make_plan_annotations
from roarbench.store.artifact_checksums import Checksums
from roarbench.store.leases import HEARTBEAT_INTERVAL, Owner
from roarbench.store.results import ResultsStore

TRIES = 3  # maximum tries of a job that its machine interrupts
_WAIT_SECONDS = 1.0  # seconds per wait for the end of a job
# seconds between checks of the leases of other commands; the interval doubles while nothing changes
_MIN_CHECK_INTERVAL, MAX_CHECK_INTERVAL = 0.5, 60.0
_INTERRUPTED_SECONDS = 300.0  # seconds for which a step that was interrupted here is left to other commands
_RELEASE_SECONDS = 1.0  # maximum seconds that an ending command waits for its database
_MAX_CLAIMED = 2000  # maximum steps claimed per transaction
_MIN_CLAIMED = 32  # minimum steps of the first claim
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


class Heartbeat:
    """Context manager that keeps a command's leases alive."""

    def __init__(self, store: ResultsStore, owner: Owner) -> None:
        self._store, self.owner = store, owner
        self._held: dict[str, int] = {}
        self._lost: set[str] = set()
        self._lock, self._stopped_renewing = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._renew_until_stopped, name="heartbeat", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped_renewing.set()
        self._thread.join(0.5)  # the thread may wait for an unreachable database

    def start_renewing(self, keys: Iterable[str], lease_number: int) -> None:
        with self._lock:
            self._held |= dict.fromkeys(keys, lease_number)

    def stop_renewing(self, keys: Iterable[str]) -> None:
        with self._lock:
            for key in keys:
                self._held.pop(key, None)
            self._lost.difference_update(keys)

    def has_lost(self, keys: Iterable[str]) -> bool:
        """Return whether another process has taken a step's lease."""
        with self._lock:
            return not self._lost.isdisjoint(keys)

    def renew_leases(self) -> None:
        """Renew all leases once and find lost leases; raise StoreError if the database stays unreachable."""
        with self._lock:
            before = dict(self._held)
        if not before:
            return
        renewed = self._store.renew_leases(self.owner)
        with self._lock:
            lost = {key for key, number in before.items() if renewed.get(key) != number}
            self._lost |= {key for key in lost if self._held.get(key) == before[key]}

    def _renew_until_stopped(self) -> None:
        while not self._stopped_renewing.wait(HEARTBEAT_INTERVAL * random.SystemRandom().uniform(0.75, 1.25)):
            try:
                self.renew_leases()
            except StoreError:  # the next heartbeat may succeed; work continues meanwhile
                continue


class FinishedStep(NamedTuple):
    """Event that a step has ended."""

    step: Step
    failure: str  # reason of the failure; empty if the step succeeded
    note: str = ""  # message about the step; empty if there is none
    seconds: float = 0.0  # wall seconds of the worker; 0 if no worker of this command did the step
    elsewhere: bool = False  # whether another command did the step


def run_steps(
    work: JobContext,
    steps: list[Step],
    store: ResultsStore,
    engine: Engine,
    show_waiting: Callable[[str], object] = lambda text: None,
) -> Generator[FinishedStep, None, None]:
    """Do the steps of a job graph, and yield an event for each finished step.

    Every step is leased before it starts. A step that another process has leased is left to that process, unless the
    process dies. A failure is stored with its reason, and no process tries the failed step again until a user requests
    a retry. `show_waiting` receives the reason when only steps of other processes are left.
    """
    owner = Owner.of_this_process()
    with Heartbeat(store, owner) as heartbeat:
        runner = _Runner(work, StepQueue(steps), engine, store, heartbeat, show_waiting)
        try:
            for event in runner.run_steps():
                for run in () if event.failure else event.step.runs:  # a stored run needs no checkpoint
                    work.get_checkpoint(run.key).remove()
                yield event
        finally:  # if this process continues, its leases would block other commands
            thread = threading.Thread(target=store.release_all_leases, args=(owner,), name="releasing", daemon=True)
            thread.start()
            thread.join(_RELEASE_SECONDS)


class _Runner:
    """Does the steps of a queue on an engine, and records the outcomes in a store."""

    def __init__(
        self,
        work: JobContext,
        queue: StepQueue,
        engine: Engine,
        store: ResultsStore,
        heartbeat: Heartbeat,
        show_waiting: Callable[[str], object],
    ) -> None:
        self._work, self._queue, self._engine, self._store = work, queue, engine, store
        self._show_waiting, self._is_waiting = show_waiting, False
        self._data = work.images.fingerprint
        self._checksums = Checksums(store.database, work.workspace)
        self._owner, self._heartbeat = heartbeat.owner, heartbeat
        self._lease_numbers: dict[str, int] = {}  # from names of running steps to the numbers of their leases
        self._stopped: set[str] = set()  # names of jobs that lost their lease and have not ended yet
        self._check_interval = _MIN_CHECK_INTERVAL
        self._interrupted_at: dict[str, float] = {}

    def run_steps(self) -> Iterator[FinishedStep]:
        """Do all steps, and yield an event for each finished step."""
        next_check = 0.0  # time of the next check of other commands' steps, by `time.monotonic`
        while self._queue.active:
            is_checking = self._engine.idle > 0 and time.monotonic() >= next_check
            while is_checking and self._queue.in_other_processes:  # the processes may have finished or died
                self._queue.enqueue(self._queue.in_other_processes.pop())
            # the first claim is small: most claims succeed, and the database looks up the keys of every claimed step
            count = max(_MIN_CLAIMED, self._engine.idle)
            while self._engine.idle and (ready := self._queue.take_ready(count)):
                count = min(2 * count, _MAX_CLAIMED)
                yield from self._claim_and_start(ready)
            if is_checking and self._queue.in_other_processes:
                next_check = time.monotonic() + self._check_interval * random.SystemRandom().uniform(0.5, 1.5)
                self._check_interval = min(2 * self._check_interval, MAX_CHECK_INTERVAL)
            if not self._lease_numbers and self._engine.idle:  # other commands do all remaining steps
                if not self._is_waiting and (text := self._describe_other_processes()):
                    self._is_waiting = True
                    self._show_waiting(text)
                self._store.close()
                time.sleep(max(0.0, next_check - time.monotonic()))
                continue
            # without leases, workers have not started yet, or all have left
            ended = self._engine.wait(_WAIT_SECONDS)
            # outcomes with a CallerError come last, because this error ends the command
            for outcome in sorted(ended, key=lambda outcome: isinstance(outcome.error, CallerError)):
                if event := self._record_outcome(self._queue.steps[outcome.name], outcome):
                    yield event._replace(seconds=outcome.seconds)
            for name in self._lease_numbers.keys() - self._stopped:
                if self._heartbeat.has_lost(self._queue.steps[name].keys):
                    self._stopped.add(name)
                    self._engine.stop_job(name)

    def _describe_other_processes(self) -> str:
        """Name the processes that do the remaining steps, or work on these images; "" if all have ended meanwhile."""
        names = self._queue.in_other_processes
        keys = {key for name in names for key in self._queue.steps[name].keys}
        leases = self._store.list_leases() if names else []
        doing = [lease for lease in leases if lease.key in keys] or [one for one in leases if one.data == self._data]
        processes = sorted({f"process {lease.owner.pid} on {lease.owner.host.split()[0]}" for lease in doing})
        return f"waiting for {format_count(len(names), 'step')} of {list_some(processes)}" if processes else ""

    def _claim_and_start(self, ready: list[Step]) -> Iterator[FinishedStep]:
        """Lease and start these steps; yield an event for each step that ends without a job."""
        todo = [step for step in ready if not self._leave_interrupted_step_to_others(step)]
        requests = {step.make_lease_request(self._data): step for step in todo}
        if not requests:
            return
        answer = self._store.claim_leases(list(requests), self._owner, self._engine.idle)
        for request, step in requests.items():
            keys = set(request.keys)
            if request in answer.granted:
                yield from self._start_step(step, answer.granted[request])
            elif keys <= answer.done:
                yield self._record_done_elsewhere(step)
            elif keys & answer.done:  # another command did some runs of this step
                self._queue.replace_and_enqueue_step(step.drop_runs(answer.done))
            elif stopped := keys & answer.stopped.keys():
                yield self._drop_previously_failed_runs(step, stopped, answer.stopped[min(stopped)])
            elif keys & answer.leased:
                self._queue.in_other_processes.append(step.job.name)
            else:
                self._queue.enqueue(step.job.name)

    def _drop_previously_failed_runs(self, step: Step, stopped: set[str], reason: str) -> FinishedStep:
        """End a step whose runs failed before; if only some of its runs failed, queue a step with the other runs."""
        self._check_interval = _MIN_CHECK_INTERVAL
        if step.runs and len(stopped) < len(step.keys):
            self._queue.replace_and_enqueue_step(step.drop_runs(stopped))
            step = step.drop_runs({*step.keys} - stopped)
        else:
            self._queue.record_end(step, reason)
        return FinishedStep(step, reason)

    def _start_step(self, step: Step, lease_number: int) -> Iterator[FinishedStep]:
        """Start a leased step, or record its output if that exists; yield an event only if a failure blocks it."""
        self._heartbeat.start_renewing(step.keys, lease_number)
        self._lease_numbers[step.job.name] = lease_number
        self._check_interval, self._is_waiting = _MIN_CHECK_INTERVAL, False
        if reason := self._queue.find_blocking_failure(step):
            yield self._record_failure(step, reason)
        elif step.is_made():
            self._record_checksums_and_release_leases(step)
            self._remove_running(step)
            self._record_done_elsewhere(step)
        else:
            # raises before hours of training if a network made in another folder is recorded
            if step.kind in ("reference", "network", "tune"):
                self._checksums.record_or_compare_checksums(list_output_artifacts(step))
            self._engine.start_job(step.job)

    def _record_checksums_and_release_leases(self, step: Step) -> None:
        self._checksums.record_or_compare_checksums(list_output_artifacts(step), made_here=True)
        self._store.release_leases(step.keys, self._owner)

    def _leave_interrupted_step_to_others(self, step: Step) -> bool:
        """Leave a step that was interrupted here to other processes for a while, if any works on these images."""
        if time.monotonic() > self._interrupted_at.get(step.job.name, -_INTERRUPTED_SECONDS) + _INTERRUPTED_SECONDS:
            return False
        foreign_leases = (lease for lease in self._store.list_leases() if lease.owner.id != self._owner.id)
        if left := any(lease.data == self._data for lease in foreign_leases):
            self._queue.in_other_processes.append(step.job.name)
        return left

    def _record_done_elsewhere(self, step: Step) -> FinishedStep:
        self._check_interval = _MIN_CHECK_INTERVAL
        self._queue.record_end(step)
        return FinishedStep(step, "", elsewhere=True)

    def _remove_running(self, step: Step) -> None:
        del self._lease_numbers[step.job.name]
        self._heartbeat.stop_renewing(step.keys)

    def _record_outcome(self, step: Step, outcome: JobOutcome) -> FinishedStep | None:
        """Record a job's output or failure; None if the step is tried again or another process has its lease."""
        try:
            if step.job.name in self._stopped:
                raise LostLease
            if outcome.error is not None:
                return self._retry_or_record_failure(step, outcome.error)
            if step.runs:
                done = outcome.value
                annotations = {**done.annotations, **make_plan_annotations(self._work.suite, step.runs)}
                self._store.add_results(done.results, self._lease_numbers[step.job.name], annotations)
            else:
                self._record_checksums_and_release_leases(step)
        except LostLease:
            self._stopped.discard(step.job.name)
            self._remove_running(step)
            self._queue.in_other_processes.append(step.job.name)
            return None
        if step.kind == "rank":
            for spec, reason in outcome.value.items():
                self._queue.block(name_seal_step(self._work, spec), f"rank {spec.name} failed: {reason}")
        self._remove_running(step)
        self._queue.record_end(step)
        reasons = self._queue.interruptions[step.job.name]
        notes = [*dict.fromkeys(reasons), f"tried {1 + len(reasons)} times"] if reasons else []
        return FinishedStep(step, "", "; ".join(notes))

    def _retry_or_record_failure(self, step: Step, error: Exception) -> FinishedStep | None:
        """Queue a step again if its machine interrupted it and tries are left; None if so."""
        if isinstance(error, CallerError):
            raise error
        reason = str(error)
        if isinstance(error, MachineError):
            if self._store.failures.record_interruption(step.keys[0], reason) < TRIES:
                self._queue.interruptions[step.job.name].append(reason)
                self._queue.enqueue(step.job.name)
                self._interrupted_at[step.job.name] = time.monotonic()
                self._remove_running(step)
                self._store.release_leases(step.keys, self._owner)
                return None
            reason += f"; tried {TRIES} times"
        if not step.runs:  # all steps of a submission report the submission's first failure
            reason = self._queue.reasons.get(step.group, f"{step.job.name} failed: {reason}")
        return self._record_failure(step, reason)

    def _record_failure(self, step: Step, reason: str) -> FinishedStep:
        if step.runs:
            self._store.failures.record_runs_failed_until_retry(step.runs, reason, self._lease_numbers[step.job.name])
        else:
            request = step.make_lease_request(self._data)
            self._store.failures.record_step_failed_until_retry(request, reason, self._owner)
        self._remove_running(step)
        self._queue.record_end(step, reason)
        return FinishedStep(step, reason)
