"""Show the progress of a command: a bar on a terminal, or lines in a log."""

import time
from collections.abc import Callable, Iterable
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from roarbench.common.text import format_bytes, format_duration
from roarbench.datasets import parallel_decoding
from roarbench.execution.job_graph import Step
from roarbench.execution.scheduler import FinishedStep
from roarbench.plan.planned_runs import find_protocol_name
from roarbench.plan.protocols import PROTOCOLS

_BAR_WIDTH = 20  # in characters
_LINE_EVERY = 10.0  # seconds between log lines
_EQUAL_WEIGHT_SHARE = 0.02  # share of the work after which the measured time weighs as much as the estimate


class ProgressDisplay:
    """Context manager that shows a bar on a terminal, or prints an occasional line if there is no terminal."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._last_line = 0.0
        description = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # a narrow terminal cuts only this column
        self._bar = Progress(
            BarColumn(_BAR_WIDTH),
            TextColumn("{task.fields[left]}"),
            TimeElapsedColumn(),  # shows progress during long steps
            TextColumn("{task.description}", table_column=description),
            console=console,
            expand=True,
            refresh_per_second=2,  # rich's 10 take a hundredth of a core
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._bar.start()
            self._task = self._bar.add_task("", total=1.0, left="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._task is not None:
            self._bar.stop()

    def show(self, fraction_done: float, seconds_left: float, text: str) -> None:
        """Show the fraction done, in [0, 1], the time left, and a text about the most recent event."""
        left = f"about {format_duration(seconds_left)} left"
        if self._task is not None:
            self._bar.update(self._task, completed=fraction_done, description=text, left=left)
        elif time.monotonic() - self._last_line >= _LINE_EVERY:
            self._last_line = time.monotonic()
            self.console.print(f"{min(1.0, fraction_done):4.0%}  {left:>18}  {text}", soft_wrap=True)

    def show_waiting(self, text: str) -> None:
        """Show that the command waits, for an unknown time."""
        if self._task is not None:
            self._bar.update(self._task, description=text, left="")
        else:
            self.console.print(text, soft_wrap=True)


class StageDisplay(ProgressDisplay):
    """Display of the current stage among a fixed number of stages."""

    def __init__(self, console: Console, count: int) -> None:
        super().__init__(console)
        self._count = count
        self._stage = 0

    def begin_stage(self, text: str) -> None:
        """Show that the next stage begins."""
        self._stage += 1
        number = f"{self._stage} of {self._count}"
        if self._task is not None:
            self._bar.update(self._task, completed=(self._stage - 1) / self._count, description=text, left=number)
        else:
            self.console.print(f"{number}: {text}", soft_wrap=True)


class StepDisplay(ProgressDisplay):
    """Display of the progress of steps and of the time left; measured times replace the estimates gradually.

    `cost` returns the expected core-seconds of a step; `load` is the expected wall seconds per core-second.
    """

    def __init__(
        self, console: Console, steps: Iterable[Step], cost: Callable[[Step], float], workers: int, load: float = 1.0
    ) -> None:
        super().__init__(console)
        self._cost, self._workers, self._load = cost, workers, load
        self._total, self._done = sum(map(cost, steps)), 0.0  # core-seconds by estimate
        self._timed, self._wall_seconds = 0.0, 0.0  # work that this command's workers did, and their wall seconds
        self._reported = set[str]()  # reasons of failures

    def show_event(self, event: FinishedStep) -> None:
        """Show that a step ended."""
        run = event.step.first_run
        if run is None:
            # given weights are not trained, so the text does not say so
            text = "explained network ready" if event.step.kind == "reference" else event.step.job.name
        elif event.step.scores_reference:
            text = "explained network scored"
        else:
            details = "" if len(event.step.runs) > 1 else f" t={run.cell.t:g} seed {run.seed}"
            text = f"{PROTOCOLS[find_protocol_name(run.cell)].title}: {run.cell.estimator}{details}"
        text += ", done by another command" if event.elsewhere else ""
        self._done += self._cost(event.step)
        self._timed += self._cost(event.step) if event.seconds else 0.0
        self._wall_seconds += event.seconds
        if event.note:
            self.console.print(f"{text}: {event.note}", soft_wrap=True)
        if not event.failure:
            self.show(min(1.0, self._done / max(self._total, 1e-9)), self.seconds_left, text)
        elif event.failure not in self._reported:  # the failure of a step fails all runs that need the step
            self._reported.add(event.failure)
            self.console.print(f"failed: {text}: {event.failure}" if event.step.runs else event.failure, soft_wrap=True)

    @property
    def seconds_left(self) -> float:
        """Return the wall seconds left: at first by the expected pace, then gradually by the measured pace."""
        weight = _EQUAL_WEIGHT_SHARE * self._total
        pace = (self._wall_seconds + weight * self._load) / max(self._timed + weight, 1e-9)
        return pace * max(0.0, self._total - self._done) / self._workers


class DecodingDisplay(ProgressDisplay):
    """Display of the disk space that a data set needs, and of the progress of decoding it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._first: parallel_decoding.DecodingProgress | None = None
        self._start = 0.0

    @property
    def has_decoded(self) -> bool:
        """Return whether any image was decoded; False if all images were decoded before."""
        return self._first is not None

    def show_progress(self, progress: parallel_decoding.DecodingProgress) -> None:
        """Show the progress."""
        if self._first is None:
            self._first, self._start = progress, time.monotonic()
            before = f", {progress.done:,} of them already decoded" if progress.done else ""
            disk = f"{format_bytes(progress.size)} of disk space needed, {format_bytes(progress.free)} free"
            self.console.print(f"{progress.name}: decoding {progress.total:,} images{before}; {disk}", soft_wrap=True)
            return
        elapsed = time.monotonic() - self._start
        left = elapsed * (progress.total - progress.done) / (progress.done - self._first.done)
        self.show(progress.done / progress.total, left, f"{progress.name} decoded")
