"""Forecast the time and disk space of a suite's missing work from measured or assumed rates of a machine."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import StoreError
from roarbench.common.text import format_bytes, format_count, format_duration
from roarbench.execution.rates import CORE, GPU, Rates, assume_rates
from roarbench.execution.workload import Work
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.suite import SuiteSpec
from roarbench.store.workspace import Workspace

_DAY, _YEAR = 86400, 365  # seconds per day; days per year
_LONG = 3 * _DAY  # seconds; longer times are shown in days, too
_ON_CORES = {"decode", "noise", "submission"}  # kinds of work that run on CPU cores even with a GPU
_IN_NETWORKS = {"reference", "attribution", "retraining", "scoring"}  # kinds of work that pass images through networks


@dataclass(frozen=True)
class Plan:
    """Missing work of a suite, with the cost of the work."""

    title: str
    runs: int
    done: int
    work: Work  # counted work of the missing runs
    estimates: tuple[Rates, ...]  # measured rates of this machine, or assumed rates of a core and of a GPU
    workers: int  # number of processes

    def estimate_wall_seconds(self, rates: Rates) -> float:
        """Return the seconds from start to end, if every worker has a core and GPUs wait while images are decoded.

        Workers on one GPU share the GPU's time, except while the GPU waits for a worker to launch kernels of a network.
        One process hands out all jobs, so workers do not share the overhead of jobs. Kinds of work whose rates are
        unknown are left out.
        """
        seconds = {kind: known or 0.0 for kind, known in rates.estimate_seconds(self.work).items()}
        overhead = seconds.pop("overhead")
        if not rates.gpus:
            return rates.load * (overhead + sum(seconds.values()) / self.workers)
        core_seconds, network_seconds = (sum(map(seconds.pop, kinds)) for kinds in (_ON_CORES, _IN_NETWORKS))
        gpus = min(rates.gpus, self.workers)  # each worker uses one GPU
        gpu_seconds = sum(seconds.values()) + network_seconds * max(rates.busy, gpus / self.workers)
        return overhead + gpu_seconds / gpus + core_seconds / self.workers

    def make_json_record(self) -> dict[str, Any]:
        """Return the plan as JSON values; `seconds` is the first of the estimates."""
        return {
            "suite": self.title,
            "runs": self.runs,
            "done": self.done,
            "workers": self.workers,
            "seconds": self.estimate_wall_seconds(self.estimates[0]),
            "work": self.work._asdict() | {"images_trained": self.work.images_trained},
            "estimates": [
                {
                    "rates": rates.make_json_record(),
                    "parts": rates.estimate_seconds(self.work),
                    "seconds": self.estimate_wall_seconds(rates),
                }
                for rates in self.estimates
            ],
        }

    def format_text(self) -> str:
        """Return the plan as text, with a line for each kind of work."""
        if self.done == self.runs:
            return f"{self.title}: all {self.runs:,} runs are done"
        return "\n".join(self._format_report_lines())

    def format_brief(self) -> str:
        """Return three lines of text: the number of runs; the duration; and training runs, disk and memory."""
        work, disk = self.work, format_bytes(self.work.count_disk_bytes(self.workers))
        trainings = format_count(work.trainings - work.references, "training")
        lines = (
            f"{self.title}: {self.runs - self.done:,} of {format_count(self.runs, 'run')} to do",
            f"  time {self._format_duration_with_rates(self.estimates[0])}",
            f"  {trainings}, {format_count(work.references, 'reference')}; disk {disk}, "
            f"memory {format_bytes(work.memory)} per worker; details: `roarbench plan`",
        )
        return "\n".join(lines)

    def _format_duration_with_rates(self, rates: Rates) -> str:
        is_partial = None in rates.estimate_seconds(self.work).values()
        note = "; parts without a measurement are not included" if is_partial else ""
        seconds = self.estimate_wall_seconds(rates)
        days = seconds / _DAY
        long = f" ({days:,.0f} days)" if days < 2 * _YEAR else f" ({days / _YEAR:,.0f} years)"
        total = f"about {format_duration(seconds)}{long if seconds > _LONG else ''}"
        return f"{total} of wall time with {self._describe_workers(rates)}{note}"

    def _format_report_lines(self) -> Iterator[str]:
        work = self.work
        yield f"{self.title}: {self.runs:,} runs, {self.done:,} done, {self.runs - self.done:,} to do"
        seconds = [rates.estimate_seconds(work) for rates in self.estimates]
        seldom = {"noise": work.copies_drawn, "submission": work.images_submitted, "filling": work.images_filled}
        rows = [["", "", *(rates.device for rates in self.estimates)]]
        for kind in (kind for kind in seconds[0] if seldom.get(kind, True)):
            times = (estimate[kind] for estimate in seconds)
            cells = ("not measured" if time is None else format_duration(time) for time in times)
            rows.append([kind, self._describe_amount_of_work(kind), *cells])
        yield from _align_columns(rows)
        for rates in self.estimates:
            yield f"  together {self._format_duration_with_rates(rates)}"
        disk = f"disk {format_bytes(work.disk)}, {format_bytes(work.count_disk_bytes(self.workers))} during the runs"
        rankings = f" and {format_bytes(work.planes)} for each ranking in use" if work.planes else ""
        shared = f"{format_bytes(work.images)} for images{rankings}; with less memory, each epoch reads them from disk"
        yield f"  {disk}; memory {format_bytes(work.memory)} per worker, and for all workers together {shared}"

    def _describe_amount_of_work(self, kind: str) -> str:
        work = self.work
        return {
            "decode": f"{work.images_decoded:,} images",
            "reference": f"{work.images_reference:,.0f} images",
            "attribution": f"{work.images_explained:,} passes",
            "noise": f"{work.copies_drawn:,} noisy copies",
            "submission": f"{work.images_submitted:,} maps by submitted code",
            "ranking": f"{work.images_ranked:,} rankings",
            "filling": f"{work.images_filled:,} images",
            "retraining": f"{work.trainings - work.references:,} trainings, {work.images_retrained:,.0f} images",
            "scoring": f"{work.images_scored:,} images",
            "overhead": format_count(work.jobs, "job"),
        }[kind]

    def _describe_workers(self, rates: Rates) -> str:
        workers = format_count(self.workers, "worker")
        if rates.gpus:
            workers = f"{format_count(rates.gpus, 'GPU')} and {workers}"
        return f"{workers}, measured just now" if rates.measured else f"{workers}, assuming {rates.basis}"


def refuse_full_disk(work: Work, data: str, workspace: Workspace, workers: int) -> None:
    """Raise StoreError if the disk lacks space for the work of these workers; the images are already decoded."""
    # the missing work includes unfinished rankings, and some parts of unfinished rankings are already on the disk
    parts = (workspace.rankings / data[:12]).rglob("parts/*.arrow")
    stored = sum(path.stat().st_size for path in parts)
    needed, free = work.count_disk_bytes(workers) - work.images - stored, shutil.disk_usage(workspace.root).free
    if needed > free:
        seen = f"the plan needs {format_bytes(needed)} more, but only {format_bytes(free)} are free"
        raise StoreError(f"no space left in {workspace.root}; {seen}; free disk space or use another --store")


def make_plan(
    suite_results: SuiteResults,
    work: Work,
    workers: int,
    measure: Callable[[SuiteSpec, Work], Rates] | None = None,
    seconds_per_submitted_map: float | None = None,
) -> Plan:
    """Return the plan of a suite's missing work with the rates that `measure` returns, or else with assumed rates."""
    suite = suite_results.suite
    rates = (measure(suite, work),) if measure else (assume_rates(suite, CORE), assume_rates(suite, GPU))
    estimates = tuple(replace(estimate, submission=seconds_per_submitted_map) for estimate in rates)
    runs, done = len(list_planned_runs(suite)), len(suite_results.results)
    return Plan(suite_results.title, runs, done, work, estimates, workers)


def _align_columns(rows: list[list[str]]) -> Iterator[str]:
    """Yield a line for each row of a table; the columns after the first two are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for kind, amount, *times in rows:
        aligned = (f"  {time:>{width}}" for time, width in zip(times, widths[2:], strict=True))
        yield f"  {kind.ljust(widths[0])} {amount.ljust(widths[1])}{''.join(aligned)}"
