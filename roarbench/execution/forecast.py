"""Forecast a suite's missing work, time and disk space from measured or assumed rates of this machine."""

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import StoreError
from roarbench.common.text import format_bytes, format_count, format_duration
from roarbench.execution.rates import CORE, GPU, Rates, assume_rates
from roarbench.execution.workload import PARTS, Work, count_cost_per_image, count_operations, count_work
from roarbench.plan.cells_and_runs import hash_fine_tuned_network
from roarbench.plan.planned_runs import (
    PlannedCommonNetwork,
    PlannedRun,
    RankedSplit,
    SharedInputs,
    list_planned_runs,
    list_ranked_splits,
    list_shared_inputs,
    make_common_network_spec,
    make_reference_spec,
)
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import FAST_SUITES, find_suite
from roarbench.store.networks import StoredNetwork, StoredReference
from roarbench.store.ranking_files import MANIFEST, load_rankings_checksum
from roarbench.store.ranking_spec import make_ranking_spec
from roarbench.store.rankings import RankingsStore
from roarbench.store.workspace import Workspace

_DAY, _YEAR = 86400, 365  # seconds per day; days per year
_LONG = 3 * _DAY  # seconds; longer times are shown in days, too
_ON_CORES = {"decode", "noise", "submission"}  # work that runs on CPU cores even with a GPU
_IN_NETWORKS = {"reference", "attribution", "retraining", "scoring"}  # work that consists of passes through networks


class ShorteningStep(NamedTuple):
    """Cost of one of the suites between a full suite and its fast version; each step changes one setting."""

    change: str  # the most recent change
    trainings: int  # number of training runs
    seconds: float  # device seconds


def _align_columns(rows: list[list[str]], indent: str, left_columns: int) -> Iterator[str]:
    """Yield a line for each row of a table; columns after the first `left_columns` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        padded = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        left, right = padded[:left_columns], row[left_columns:]
        numbers = "".join(f"  {cell:>{width}}" for cell, width in zip(right, widths[left_columns:], strict=True))
        yield f"{indent}{' '.join(left)}{numbers}"


def _list_suites_from_full_to_fast(long: SuiteSpec, short: SuiteSpec) -> Iterator[tuple[str, SuiteSpec]]:
    """Yield suites from the full suite to its fast version; each takes one more setting from the fast version."""
    yield long.title, long
    part = replace(long, recipe=short.recipe)
    recipe = short.recipe_record
    yield f"short recipe ({recipe.epochs:g} epochs instead of {long.recipe_record.epochs:.0f})", part
    if short.references != long.references:
        part = replace(part, references=short.references)
        yield f"{short.references} explained network instead of {long.references}", part
    short_protocols = {block.protocol for block in short.blocks}
    if short_protocols != {block.protocol for block in part.blocks}:
        left = dict.fromkeys(block.protocol.title for block in part.blocks if block.protocol not in short_protocols)
        part = replace(part, blocks=tuple(block for block in part.blocks if block.protocol in short_protocols))
        yield f"without {', '.join(left)}", part
    if len(short.blocks) == 1:
        (model,) = short.blocks
        levels = ", ".join(f"{t:g}" for t in model.levels)
        for words, fields in (
            (f"{model.seeds} seeds", {"seeds": model.seeds}),
            (f"levels {levels}", {"levels": model.levels}),
        ):
            blocks = tuple(replace(block, **fields) for block in part.blocks)
            if blocks != part.blocks:
                part = replace(part, blocks=blocks)
                yield words, part
    if part.blocks != short.blocks or part.maps != short.maps:
        yield f"{len(short.estimators)} estimators, maps in {short.maps}: {short.title}", short


def find_existing_shared_inputs(
    workspace: Workspace, suite: SuiteSpec, data: str, points: Iterable[PlannedRun]
) -> SharedInputs:
    """Return the shared inputs of these points that are complete in a folder, for images with this fingerprint."""
    rankings = RankingsStore(workspace.rankings)
    needed, shape = list_shared_inputs(suite, points), suite.dataset_record.shape

    def has_predictions(number: int) -> bool:
        store = StoredReference(workspace.references, make_reference_spec(suite, data, number))
        return all(map(store.has_predictions, list_ranked_splits(suite)))

    def find_rankings_checksum(row: RankedSplit) -> str:
        spec = make_ranking_spec(suite, data, shape, row.estimator, row.unit, row.reference)
        return load_rankings_checksum(rankings.get_folder(spec) / MANIFEST)

    def has(common: PlannedCommonNetwork, *ranked_by: str) -> bool:
        key = make_common_network_spec(suite, data, *common).key
        key = hash_fine_tuned_network(key, *ranked_by) if ranked_by else key
        return StoredNetwork(workspace.networks, key).has_weights()

    ranked = {row: checksum for row in needed.rankings if (checksum := find_rankings_checksum(row))}
    return SharedInputs(
        {number for number in needed.references if has_predictions(number)},
        ranked.keys(),
        {common for common in needed.common if has(common)},
        {(common, row) for common, row in needed.tuned if row in ranked and has(common, ranked[row])},
    )


@dataclass(frozen=True)
class Plan:
    """Missing work of a suite, with the cost of the work."""

    title: str
    runs: int
    done: int
    work: Work  # counted work of the missing runs
    operations: float  # floating-point operations of all networks
    estimates: tuple[Rates, ...]  # measured rates of this machine, or assumed rates of a core and of a GPU
    workers: int  # number of processes
    suite: SuiteSpec

    @property
    def shortening_steps(self) -> list[ShorteningStep]:
        """Return the steps from the full suite to this fast version; return an empty list for other suites."""
        if self.suite.name not in FAST_SUITES:
            return []
        steps, rates = [], self.estimates[-1]
        for change, part in _list_suites_from_full_to_fast(find_suite(FAST_SUITES[self.suite.name].of), self.suite):
            work = count_work(part, list_planned_runs(part))
            # recipes may have other image sizes
            size = part.recipe_record.mean_relative_image_area / self.suite.recipe_record.mean_relative_image_area
            wall = replace(self, work=work).estimate_wall_seconds(replace(rates, train=rates.train * size))
            steps.append(ShorteningStep(change, work.trainings, wall))
        return steps

    def estimate_wall_seconds(self, rates: Rates) -> float:
        """Return the seconds from start to end, if every worker has a core and GPUs wait while images are decoded.

        Workers on one GPU share the GPU's time, except while the GPU waits for a worker to launch kernels of a network.
        One process hands out all jobs, so workers do not share the overhead of jobs. Kinds of work whose rates are
        unknown are left out.
        """
        parts = {part: seconds or 0.0 for part, seconds in rates.estimate_seconds(self.work).items()}
        overhead = parts.pop("overhead")
        if not rates.gpus:
            return rates.load * (overhead + sum(parts.values()) / self.workers)
        core_seconds, network_seconds = (sum(parts.pop(part) for part in each) for each in (_ON_CORES, _IN_NETWORKS))
        gpus = min(rates.gpus, self.workers)  # each worker uses one GPU
        gpu_seconds = sum(parts.values()) + network_seconds * max(rates.busy, gpus / self.workers)
        return overhead + gpu_seconds / gpus + core_seconds / self.workers

    def make_json_record(self) -> dict[str, Any]:
        """Return the plan as JSON values; `rates`, `seconds` and `core_seconds` come from the first estimate."""
        first = self.estimates[0]
        return {
            "suite": self.title,
            "runs": self.runs,
            "done": self.done,
            "workers": self.workers,
            "seconds": self.estimate_wall_seconds(first),
            "work": {
                **self.work._asdict(),
                "images_trained": self.work.images_trained,
                "operations": self.operations,
                "core_seconds": sum(filter(None, first.estimate_seconds(self.work).values())),
            },
            "rates": first.make_json_record(),
            "designs": [
                {"step": step.change, "trainings": step.trainings, "days": step.seconds / _DAY}
                for step in self.shortening_steps
            ],
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
        """Format the report for a terminal, with a line for each kind of work."""
        if self.done == self.runs:
            return f"{self.title}: all {self.runs:,} runs are done"
        return "\n".join(self._format_report_lines())

    def format_brief(self) -> str:
        """Return three lines, with the runs to do, the duration, and the training runs, disk and memory."""
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
        return f"{total} of wall time with {self._describe_rates(rates)}{note}"

    def _format_report_lines(self) -> Iterator[str]:
        work = self.work
        yield f"{self.title}: {self.runs:,} runs, {self.done:,} done, {self.runs - self.done:,} to do"
        seconds = [rates.estimate_seconds(work) for rates in self.estimates]
        seldom = {"noise": work.copies_drawn, "submission": work.images_submitted, "filling": work.images_filled}
        rows = [["", "", *(rates.device for rates in self.estimates)]]
        for part in (part for part in PARTS if seldom.get(part, True)):
            known = (parts[part] for parts in seconds)
            words = ("not measured" if time is None else format_duration(time) for time in known)
            rows.append([part, self._describe_amount_of_work(part), *words])
        yield from _align_columns(rows, "  ", left_columns=2)
        for rates in self.estimates:
            yield f"  together {self._format_duration_with_rates(rates)}"
        disk = f"disk {format_bytes(work.count_disk_bytes(self.workers))}"
        if work.extracted:
            disk += f", {format_bytes(work.extracted)} of it for the masks that the workers' trainings use"
        if work.sealing:
            disk += f", up to {format_bytes(work.disk + self.workers * work.sealing)} while rankings are joined"
        rankings = f" and {format_bytes(work.planes)} for each ranking in use" if work.planes else ""
        shared = f"{format_bytes(work.images)} for images{rankings}; with less memory, each epoch reads them from disk"
        yield f"  {disk}; memory {format_bytes(work.memory)} per worker, and for all workers together {shared}"
        yield f"  {self.operations:.1e} floating-point operations"
        if steps := self.shortening_steps:
            gpus = self.estimates[-1].gpus
            device = format_count(gpus, "GPU") if gpus else format_count(self.workers, "worker")
            rows = [["step, cumulative", "trainings", f"days of {device}"]]
            rows += [[step.change, f"{step.trainings:,}", f"{step.seconds / _DAY:,.1f}"] for step in steps]
            yield "  steps from the full suite to this shorter version:"
            yield from _align_columns(rows, "    ", left_columns=1)

    def _describe_amount_of_work(self, part: str) -> str:
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
        }[part]

    def _describe_rates(self, rates: Rates) -> str:
        workers = format_count(self.workers, "worker")
        if rates.gpus:
            workers = f"{format_count(rates.gpus, 'GPU')} and {workers}"
        return f"{workers}, measured just now" if rates.measured else f"{workers}, assuming {rates.basis}"


def count_missing_work(suite_results: SuiteResults, workspace: Workspace, decode_again: bool = False) -> Work:
    """Count the missing work of a suite.

    If the store has results on the suite's images, decoding is only counted with `decode_again`.
    """
    suite, data = suite_results.suite, suite_results.data
    todo = [point for point in list_planned_runs(suite) if point not in suite_results.results]
    existing = find_existing_shared_inputs(workspace, suite, data, todo)
    work = count_work(suite, todo, suite_results.limit, existing)
    return work._replace(images_decoded=0) if data and not decode_again else work


def refuse_full_disk(work: Work, data: str, workspace: Workspace, workers: int) -> None:
    """Raise StoreError if the disk has less free space than the work needs after decoding with so many workers."""
    # the missing work includes unfinished rankings, some of whose parts are already on the disk
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
    """Return the plan of a suite's missing work, with rates that `measure` returns, or with assumed rates."""
    suite = suite_results.suite
    rates = (measure(suite, work),) if measure else (assume_rates(suite, CORE), assume_rates(suite, GPU))
    estimates = tuple(replace(estimate, submission=seconds_per_submitted_map) for estimate in rates)
    operations = count_operations(work, count_cost_per_image(suite).flops, suite.recipe_record.mean_relative_image_area)
    runs, done = len(list_planned_runs(suite)), len(suite_results.results)
    return Plan(suite_results.title, runs, done, work, operations, estimates, workers, suite)
