"""Forecast the time and disk space of a suite's missing work from measured or assumed rates of a machine."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from math import prod
from typing import Any, NamedTuple

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import StoreError
from roarbench.common.text import format_bytes, format_count, format_duration
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.external_networks import TORCHVISION
from roarbench.compute.prediction import choose_scoring_batch_size
from roarbench.execution.workload import (
    EXPLAIN,
    SHARD,
    SMALL,
    TRAIN,
    WorkCounts,
    choose_cpu_explanation_batch_size,
    compute_micro_batch_size,
    count_cost_per_image,
    count_work,
)
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.workspace import Workspace

_DAY = 86400  # seconds
_LONG = 3 * _DAY  # seconds; longer times are shown in days, too
_ON_CORES = ("decode", "noise", "submission")  # kinds of work that run on CPU cores even with a GPU
_IN_NETWORKS = ("reference", "attribution", "retraining", "scoring")  # kinds of work that pass images through networks
# seconds per job besides the time for images: the command takes 8 ms for leases and commits, and a worker takes 17 ms
# for a job of three runs
JOB_OVERHEAD = 0.02
_RATES_WITHOUT_WORK = ("train", "predict", "explain")  # rates that are 0 if a suite has no such work
_ASSUMED = ("decode", "filling", "overhead")  # kinds of work whose rates are assumed even if others are measured


@dataclass(frozen=True)
class Rates:
    """Seconds per image for each kind of work; 0 for kinds without work."""

    device: str  # device that trains, scores, explains and ranks; CPU cores decode images
    gpus: int  # number of GPUs; 0 if the device is a core
    basis: str  # source of the rates; empty if just measured on this machine
    decode: float  # to read and crop an image; assumed, not measured
    train: float  # to train on an image once, in an epoch
    predict: float  # to score an image
    explain: float  # for one forward and backward pass
    draw: float  # to draw the random numbers of one noisy copy
    rank: float  # to rank the features for one estimator
    submission: float | None = None  # to explain an image by a submission in the sandbox; None if not measured
    sandbox: float = 0.0  # to start a sandbox, seconds per sandbox
    fill: float = 0.0  # to fill with values that depend on the kept features; assumed, not measured
    load: float = 1.0  # wall seconds per CPU second; above 1 if other programs compute, too
    # share of a worker's training time in which the GPU computes; in the rest, it waits for this worker to launch
    # kernels and may compute for other workers
    busy: float = 1.0
    lack: str = ""  # optional capability that the measured device lacks, one line

    @property
    def measured(self) -> bool:
        return not self.basis

    def make_json_record(self) -> dict[str, Any]:
        """Return the rates as JSON values; those of kinds without work, which were not measured, are None."""
        unmeasured = [name for name in _RATES_WITHOUT_WORK if not getattr(self, name)]
        return asdict(self) | dict.fromkeys(unmeasured) | {"measured": self.measured, "assumed": list(_ASSUMED)}

    def estimate_seconds(self, work: WorkCounts) -> dict[str, float | None]:
        """Return the device's or a core's seconds for each kind of work; None if the rate is unknown."""
        submitted: float | None = None if work.images_submitted else 0.0
        if self.submission is not None:
            submitted = work.images_submitted * self.submission + work.sandboxes * self.sandbox
        return {
            "decode": work.images_decoded * self.decode,
            "reference": work.images_reference * self.train,
            "attribution": work.images_explained * self.explain,
            "noise": work.copies_drawn * self.draw,
            "submission": submitted,
            "ranking": work.images_ranked * self.rank,
            "filling": work.images_filled * self.fill,
            "retraining": work.images_retrained * self.train,
            "scoring": work.images_scored * self.predict,
            "overhead": work.jobs * JOB_OVERHEAD,
        }


class AssumedSpeeds(NamedTuple):
    """Assumed speeds of a device, in operations per second except where a comment says seconds."""

    device: str
    gpus: int
    basis: str
    train: float
    train_small: float  # training with images of at most `SMALL` pixels per side
    infer: float  # scoring and explaining
    rank: float  # seconds per feature of a ranking
    step: float = 0.0  # minimum seconds of a training step, for any network
    replayed_step: float = 0.0  # the same if CUDA graphs replay the steps
    explanation: float = 0.0  # minimum seconds of a forward and backward pass that explains images


CORE = AssumedSpeeds(
    "one core",
    0,
    "60 GFLOP/s a core in training, 40 otherwise, and 5 ms for the smallest step",
    train=6e10,
    train_small=6e10,
    infer=4e10,
    rank=2.5e-8,
    # `resnet-quick` with 8 images of 32 x 32 on a busy AMD EPYC: 5.8 ms per step, 5.2 per explanation. `mlp` takes 1.4
    # and 0.9 ms
    step=0.005,
    replayed_step=0.005,
    explanation=0.005,
)
# one H100 trained ResNet-50 at 90 TFLOP/s with images of 224 pixels per side, and at 34 TFLOP/s with 64 (docs/gpu.md);
# the assumed 40 TFLOP/s in float32 are 60 % of the card's 67
GPU = AssumedSpeeds(
    "one GPU",
    1,
    "an H100 at 81 TFLOP/s in training (34 up to 64 pixels), 40 otherwise (not measured)",
    train=8.1e13,
    train_small=3.4e13,
    infer=4e13,
    rank=1e-9,  # the GPU sorts the features; not measured
    # times of `resnet-quick`: a process launches kernels, or prepares batches, more slowly than the GPU computes
    step=0.007,
    replayed_step=0.0012,
    explanation=0.006,  # like a step, but without the optimiser and the next batch; 15 workers took 5.9 ms per pass
)
# 15 workers on one H100 took 6,500 steps/s, eight times as many as one worker with 1.23 ms per step (docs/gpu.md); more
# workers were not tried
_LEAST_BUSY = 0.125
_DECODE = 1.6e-7  # core-seconds per decoded pixel, from photographs that are about twice as wide and twice as high
_DRAW = 1.2e-8  # core-seconds per number of a noisy copy
_FILL = 1e-6  # core-seconds per feature of an image, for fill values that depend on the kept features


def assume_rates(suite: SuiteSpec, machine: AssumedSpeeds) -> Rates:
    """Estimate rates from counted operations, without timing."""
    record, flops = suite.dataset_record, count_cost_per_image(suite).flops
    recipe = suite.recipe_record
    batch = compute_micro_batch_size(recipe, record.train_images)
    computing = _estimate_computing_seconds_per_image(suite, machine)
    # a GPU replays the training steps of known networks from CUDA graphs
    is_replayed = (suite.model in MODELS or suite.model.startswith(TORCHVISION)) and not recipe.uses_micro_batches
    step = machine.replayed_step if is_replayed else machine.step
    explained = min(SHARD if machine.gpus else choose_cpu_explanation_batch_size(suite), record.train_images)
    train = max(computing, step / batch)
    return Rates(
        device=machine.device,
        gpus=machine.gpus,
        basis=machine.basis,
        decode=_DECODE * record.size**2,
        train=train,
        predict=max(flops / machine.infer, machine.explanation / 2 / choose_scoring_batch_size(record.size)),
        explain=max(EXPLAIN * flops / machine.infer, machine.explanation / explained),
        draw=_DRAW * record.channels * record.size**2,
        rank=machine.rank * record.channels * record.size**2,
        fill=_FILL * prod(record.shape),
        busy=estimate_gpu_busy_share(suite, train),
    )


def estimate_gpu_busy_share(suite: SuiteSpec, seconds_per_image: float) -> float:
    """Return the share of training time in which a GPU computes; in the rest, it waits for launches of kernels."""
    computing = _estimate_computing_seconds_per_image(suite, GPU) / seconds_per_image
    return min(1.0, max(computing, _LEAST_BUSY))


def _estimate_computing_seconds_per_image(suite: SuiteSpec, machine: AssumedSpeeds) -> float:
    speed = machine.train_small if suite.dataset_record.size <= SMALL else machine.train
    return TRAIN * suite.recipe_record.mean_relative_image_area * count_cost_per_image(suite).flops / speed


class ShorteningStep(NamedTuple):
    """Cost of a suite between a full suite and its short version; the suite before it differs in one setting."""

    step: str  # description of the changed setting
    trainings: int  # number of training runs
    days: float  # wall time


_FULL_SUITES = {"imagenet": "imagenet-paper"}  # from a short suite to the suite that it shortens


@dataclass(frozen=True)
class Plan:
    """Missing work of a suite, with the cost of the work."""

    title: str
    runs: int
    done: int
    work: WorkCounts  # counted work of the missing runs
    estimates: tuple[Rates, ...]  # measured rates of this machine, or assumed rates of a core and of a GPU
    workers: int  # number of processes
    suite: SuiteSpec

    @property
    def steps_from_full_suite(self) -> list[ShorteningStep]:
        """Return the cost of each step from the full suite to this suite; empty if this suite shortens no other.

        Each step takes one more setting from the short version.
        """
        if self.suite.name not in _FULL_SUITES:
            return []
        short = find_builtin_suite(self.suite.name)  # without the call's selection of estimators or seeds
        full = find_builtin_suite(_FULL_SUITES[short.name])
        changed, recipe, (block,) = replace(full, recipe=short.recipe), short.recipe_record, short.blocks
        changes = [(full.title, full)]
        changes.append((f"short recipe ({recipe.epochs:g} epochs instead of {full.recipe_record.epochs:.0f})", changed))
        changed = replace(changed, references=short.references)
        changes.append((f"{short.references} explained network instead of {full.references}", changed))
        dropped = dict.fromkeys(each.protocol.title for each in full.blocks if each.protocol != block.protocol)
        kept = tuple(each for each in full.blocks if each.protocol == block.protocol)
        changes.append((f"without {', '.join(dropped)}", replace(changed, blocks=kept)))
        kept = tuple(replace(each, seeds=block.seeds) for each in kept)
        changes.append((f"{block.seeds} seeds", replace(changed, blocks=kept)))
        kept = tuple(replace(each, levels=block.levels) for each in kept)
        changes.append((f"levels {', '.join(f'{t:g}' for t in block.levels)}", replace(changed, blocks=kept)))
        changes.append((f"{len(short.estimators)} estimators, maps in {short.maps}: {short.title}", short))
        steps, rates = [], self.estimates[-1]
        for change, suite in changes:
            work = count_work(suite, list_planned_runs(suite))
            # recipes may have other image sizes
            area = suite.recipe_record.mean_relative_image_area / self.suite.recipe_record.mean_relative_image_area
            seconds = replace(self, work=work).estimate_wall_seconds(replace(rates, train=rates.train * area))
            steps.append(ShorteningStep(change, work.trainings, seconds / _DAY))
        return steps

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
            "designs": [step._asdict() for step in self.steps_from_full_suite],
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
        work = self.work
        lines = [f"{self.title}: {self.runs:,} runs, {self.done:,} done, {self.runs - self.done:,} to do"]
        seconds = [rates.estimate_seconds(work) for rates in self.estimates]
        seldom = {"noise": work.copies_drawn, "submission": work.images_submitted, "filling": work.images_filled}
        amounts = {
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
        }
        rows = [["", "", *(rates.device for rates in self.estimates)]]
        for kind in (kind for kind in amounts if seldom.get(kind, True)):
            times = (estimate[kind] for estimate in seconds)
            cells = ("not measured" if time is None else format_duration(time) for time in times)
            rows.append([kind, amounts[kind], *cells])
        lines += _align_columns(rows, left=2)
        lines += [f"  together {self._format_duration_with_rates(rates)}" for rates in self.estimates]
        disk = f"disk {format_bytes(work.disk)}, {format_bytes(work.count_disk_bytes(self.workers))} during the runs"
        rankings = f" and {format_bytes(work.planes)} for each ranking in use" if work.planes else ""
        shared = f"{format_bytes(work.images)} for images{rankings}; with less memory, each epoch reads them from disk"
        lines.append(f"  {disk}; memory {format_bytes(work.memory)} per worker, and for all workers together {shared}")
        if steps := self.steps_from_full_suite:
            gpus = self.estimates[-1].gpus
            device = format_count(gpus, "GPU") if gpus else format_count(self.workers, "worker")
            lines.append("  steps from the full suite to this shorter version:")
            costs = [(f"  {step}", f"{trainings:,}", f"{days:,.1f}") for step, trainings, days in steps]
            lines += _align_columns([("  step, cumulative", "trainings", f"days of {device}"), *costs], left=1)
        return "\n".join(lines)

    def format_brief(self) -> str:
        """Return three lines of text: the number of runs; the duration; and training runs, disk and memory."""
        work, disk = self.work, format_bytes(self.work.count_disk_bytes(self.workers))
        trainings = format_count(work.trainings - work.references, "training")
        lines = (
            f"{self.title}: {self.runs - self.done:,} of {format_count(self.runs, 'run')} to do",
            f"  time {self._format_duration_with_rates(self.estimates[0])}",
            f"  {trainings}, {format_count(work.references, 'explained network')}; disk {disk}, "
            f"memory {format_bytes(work.memory)} per worker; details: `roarbench plan`",
        )
        return "\n".join(lines)

    def _format_duration_with_rates(self, rates: Rates) -> str:
        parts, seconds = rates.estimate_seconds(self.work), self.estimate_wall_seconds(rates)
        days = f" ({seconds / _DAY:,.0f} days)" if seconds > _LONG else ""
        gpus = f"{format_count(rates.gpus, 'GPU')} and " if rates.gpus else ""
        assumed = " and ".join(kind for kind in _ASSUMED[:2] if parts[kind])
        basis = "measured just now" + f" (but {assumed}: assumed)" * bool(assumed)
        if not rates.measured:
            basis = f"assuming {rates.basis}"
        note = "; parts without a measurement are not included" if None in parts.values() else ""
        workers = f"{gpus}{format_count(self.workers, 'worker')}"
        return f"about {format_duration(seconds)}{days} of wall time with {workers}, {basis}{note}"


def refuse_full_disk(work: WorkCounts, data: str, workspace: Workspace, workers: int) -> None:
    """Raise StoreError if the disk lacks space for the work of these workers; the images are already decoded."""
    # the missing work includes unfinished rankings, and some parts of unfinished rankings are already on the disk
    parts = (workspace.rankings / data[:12]).rglob("parts/*.arrow")
    stored = sum(path.stat().st_size for path in parts)
    needed, free = work.count_disk_bytes(workers) - work.images - stored, shutil.disk_usage(workspace.root).free
    if needed > free:
        seen = f"the plan needs {format_bytes(needed)} more, but only {format_bytes(free)} are free"
        raise StoreError(f"no space left in {workspace.root}; {seen}; free disk space or use another --store")


def make_plan(suite_results: SuiteResults, work: WorkCounts, workers: int, measured: Rates | None = None) -> Plan:
    """Return the plan of a suite's missing work with measured rates, or else with assumed rates."""
    suite = suite_results.suite
    estimates = (measured,) if measured else (assume_rates(suite, CORE), assume_rates(suite, GPU))
    runs, done = len(list_planned_runs(suite)), len(suite_results.results)
    return Plan(suite_results.title, runs, done, work, estimates, workers, suite)


def _align_columns(rows: Sequence[Sequence[str]], left: int) -> Iterator[str]:
    """Yield a line for each row of a table; the columns after the first `left` columns are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        names = " ".join(name.ljust(width) for name, width in zip(row[:left], widths[:left], strict=True))
        numbers = (f"  {number:>{width}}" for number, width in zip(row[left:], widths[left:], strict=True))
        yield f"  {names}{''.join(numbers)}"
