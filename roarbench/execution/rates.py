"""Rates of a machine: seconds per image for each kind of work, measured or assumed from published figures."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.external_networks import TORCHVISION
from roarbench.compute.prediction import choose_scoring_batch_size
from roarbench.execution.workload import EXPLAIN, SHARD, TRAIN, Work, compute_micro_batch_size, count_cost_per_image
from roarbench.plan.suite import SuiteSpec

# side of a made-up photograph / decoded side; ImageNet's photographs are about 400 x 350 and are decoded to 224
PHOTO = 2
# seconds per job besides its images: 8 ms of the command for leases and commits, and with three runs 17 ms of a worker
# (benchmarks/bench_jobs.py)
JOB_OVERHEAD = 0.02
SMALL = 64  # maximum pixels per side of the images with which one process leaves a GPU idle between kernels


@dataclass(frozen=True)
class Rates:
    """Seconds per image for each kind of work; 0 for kinds without work."""

    device: str  # device that trains, scores, explains and ranks; CPU cores decode
    gpus: int  # number of such devices; 0 for a core
    basis: str  # source of the rates; empty if just measured on this machine
    decode: float  # read and crop
    train: float  # one training epoch
    predict: float  # score
    explain: float  # one forward and backward pass
    draw: float  # random numbers of one noisy copy
    rank: float  # rank by one estimator
    submission: float | None = None  # explain by a submission in the sandbox; None if not measured
    fill: float | None = None  # fill with values that depend on the kept features; None if not measured
    load: float = 1.0  # wall seconds per CPU second; above 1 if other programs compute too
    # share of a worker's training steps in which its GPU computes; others may use it while it waits for launches
    busy: float = 1.0
    # capabilities that the measured device lacks, one line each; work continues without them
    lacks: tuple[str, ...] = ()
    # recipes whose trainings exceed the device's memory: `name@version` and the reason
    too_large: tuple[tuple[str, str], ...] = ()

    @property
    def measured(self) -> bool:
        """Return whether the rates were just measured on this machine."""
        return not self.basis

    def make_json_record(self) -> dict[str, Any]:
        """Return the rates as JSON values."""
        return asdict(self) | {"measured": self.measured}

    def estimate_seconds(self, work: Work) -> dict[str, float | None]:
        """Return the seconds of the device, or of a core, for each part in `PARTS`; None if the rate is unknown."""
        return {
            "decode": work.images_decoded * self.decode,
            "reference": work.images_reference * self.train,
            "attribution": work.images_explained * self.explain,
            "noise": work.copies_drawn * self.draw,
            "submission": _multiply_if_known(work.images_submitted, self.submission),
            "ranking": work.images_ranked * self.rank,
            "filling": _multiply_if_known(work.images_filled, self.fill),
            "retraining": work.images_retrained * self.train,
            "scoring": work.images_scored * self.predict,
            "overhead": work.jobs * JOB_OVERHEAD,
        }


def _multiply_if_known(images: int, seconds: float | None) -> float | None:
    """Multiply; None if there are images and their seconds are unknown."""
    return None if images and seconds is None else images * (seconds or 0.0)


class AssumedSpeeds(NamedTuple):
    """Assumed speeds of a device, present or not: operations per second, except where a comment says seconds."""

    device: str
    gpus: int
    basis: str
    train: float
    train_small: float  # training with images of at most `SMALL` pixels per side
    predict: float
    explain: float
    rank: float  # seconds per feature of a ranking
    step: float = 0.0  # minimum seconds of a training step, for any network
    replayed_step: float = 0.0  # the same if CUDA graphs replay the steps
    explanation: float = 0.0  # minimum seconds of a forward and backward pass that explains images


CORE = AssumedSpeeds(
    *("one core", 0, "60 GFLOP/s a core in training, 40 otherwise", 6e10, 6e10), predict=4e10, explain=4e10, rank=2.5e-8
)
# one H100 (docs/gpu.md) trained ResNet-50 at 90 TFLOP/s with 224 pixels and at 34 with 64; 40 in float32 is an
# assumption, 60 % of its 67
GPU = AssumedSpeeds(
    "one GPU",
    1,
    "an H100 at 81 TFLOP/s in training (34 up to 64 pixels), 40 otherwise (not measured)",
    train=8.1e13,
    train_small=3.4e13,
    predict=4e13,
    explain=4e13,
    rank=1e-9,  # sorted on the GPU; not measured
    # of `resnet-quick`; the process launches kernels, or prepares batches, more slowly than the GPU computes them
    step=0.007,
    replayed_step=0.0012,
    explanation=0.006,  # a step without the optimiser and the next batch; 15 workers took 5.9 ms per pass
)
# 15 workers on one H100 did 6,500 steps/s, eight times as many as one with 1.23 ms a step (docs/gpu.md); more were not
# tried
_LEAST_BUSY = 0.125
_DECODE = 4e-8  # core-seconds per pixel of a photograph
_DRAW = 1.2e-8  # core-seconds per number of a noisy copy
_FILL = 1e-6  # core-seconds per feature of an image, for fill values that depend on the kept features


def assume_rates(suite: SuiteSpec, machine: AssumedSpeeds) -> Rates:
    """Estimate rates from counted operations, without timing."""
    record, flops = suite.dataset_record, count_cost_per_image(suite).flops
    recipe = suite.recipe_record
    together = compute_micro_batch_size(recipe, record.train_images)
    computing = _estimate_computing_seconds_per_image(suite, machine)
    step = machine.replayed_step if _has_replayed_steps(suite) else machine.step
    train = max(computing, step / together)
    return Rates(
        device=machine.device,
        gpus=machine.gpus,
        basis=machine.basis,
        decode=_DECODE * (PHOTO * record.size) ** 2,
        train=train,
        predict=max(flops / machine.predict, machine.explanation / 2 / choose_scoring_batch_size(record.size)),
        explain=max(EXPLAIN * flops / machine.explain, machine.explanation / min(SHARD, record.train_images)),
        draw=_DRAW * record.channels * record.size**2,
        rank=machine.rank * record.channels * record.size**2,
        fill=None if machine.gpus else _FILL * record.channels * record.size**2,
        busy=max(computing / train, _LEAST_BUSY),
    )


def _has_replayed_steps(suite: SuiteSpec) -> bool:
    """Return whether a GPU replays the suite's training steps; False for networks of which this is not known."""
    recipe, known = suite.recipe_record, suite.model in MODELS or suite.model.startswith(TORCHVISION)
    return known and not recipe.compile and not recipe.has_several_passes


def estimate_gpu_busy_share(suite: SuiteSpec, seconds_per_image: float, launching_share: float) -> float:
    """Return the share of measured training steps in which a GPU computes; assume it if `seconds_per_image` is 0.

    A step lasts as long as its launches or its computation. Where the launches, a share of `launching_share`, are
    shorter, the GPU is busy meanwhile; otherwise it computes for the time that its operations are assumed to take.
    """
    if not seconds_per_image:
        return assume_rates(suite, GPU).busy
    computing = _estimate_computing_seconds_per_image(suite, GPU) / seconds_per_image
    return min(1.0, max(computing, 1.0 - launching_share, _LEAST_BUSY))


def _estimate_computing_seconds_per_image(suite: SuiteSpec, machine: AssumedSpeeds) -> float:
    """Return the seconds for which a device computes one training image, by its operations."""
    speed = machine.train_small if suite.dataset_record.size <= SMALL else machine.train
    return TRAIN * suite.recipe_record.mean_pixel_share * count_cost_per_image(suite).flops / speed
