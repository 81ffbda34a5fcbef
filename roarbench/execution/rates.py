"""Rates of a machine: seconds per image for each kind of work, measured or assumed from published figures."""

from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from roarbench.compute.prediction import choose_scoring_batch_size
from roarbench.execution.workload import (
    EXPLAIN,
    TRAIN,
    Work,
    choose_explanation_batch_size,
    compute_micro_batch_size,
    count_cost_per_image,
)
from roarbench.plan.suite import SuiteSpec

# side of a made-up photograph / decoded side; ImageNet's photographs are about 400 x 350 and are decoded to 224
PHOTO = 2
# seconds per job besides its images: 8 ms of the command for leases and commits, and with three runs 17 ms of a worker
# (benchmarks/bench_jobs.py)
JOB_OVERHEAD = 0.02


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
    # capabilities that the measured device lacks, one line each; work continues without them
    lacks: tuple[str, ...] = ()
    # recipes whose trainings exceed the device's memory: `name@version` and the reason
    too_large: tuple[tuple[str, str], ...] = ()

    @property
    def measured(self) -> bool:
        """Return whether the rates were just measured on this machine."""
        return not self.basis

    def make_record(self) -> dict[str, Any]:
        """Return the rates as JSON values."""
        return asdict(self) | {"measured": self.measured}

    def estimate_seconds(self, work: Work) -> dict[str, float | None]:
        """Return the seconds of the device, or of a core, for each part in `PARTS`; None if the rate is unknown."""
        return {
            "decode": work.images_decoded * self.decode,
            "reference": work.images_reference * self.train,
            "attribution": work.images_explained * self.explain,
            "noise": work.copies_drawn * self.draw,
            "submission": _multiply(work.images_submitted, self.submission),
            "ranking": work.images_ranked * self.rank,
            "filling": _multiply(work.images_filled, self.fill),
            "retraining": work.images_retrained * self.train,
            "scoring": work.images_scored * self.predict,
            "overhead": work.jobs * JOB_OVERHEAD,
        }


def _multiply(images: int, seconds: float | None) -> float | None:
    """Multiply; None if there are images and their seconds are unknown."""
    return None if images and seconds is None else images * (seconds or 0.0)


class AssumedSpeeds(NamedTuple):
    """Assumed speeds of a device, present or not: operations per second, except where a comment says seconds."""

    device: str
    gpus: int
    basis: str
    train: float
    predict: float
    explain: float
    rank: float  # seconds per feature of a ranking
    step: float = 0.0  # minimum seconds of a forward and backward pass, for any network


CORE = AssumedSpeeds(
    *("one core", 0, "60 GFLOP/s a core in training, 40 otherwise"), train=6e10, predict=4e10, explain=4e10, rank=2.5e-8
)
GPU = AssumedSpeeds(  # 3,300 images per second of ResNet-50 in bfloat16; 60 % of an H200's 67 TFLOP/s in float32
    "one GPU",
    1,
    "an H200 at 81 TFLOP/s in training, 40 otherwise (not measured; ResNet-50 at 224 may reach them)",
    train=8.1e13,
    predict=4e13,
    explain=4e13,
    rank=1e-9,  # sorted on the GPU; not measured
    step=0.001,  # about 200 kernel launches of 5 microseconds each; not measured
)
_DECODE = 4e-8  # core-seconds per pixel of a photograph
_DRAW = 1.2e-8  # core-seconds per number of a noisy copy
_FILL = 1e-6  # core-seconds per feature of an image, for fill values that depend on the kept features


def assume_rates(suite: SuiteSpec, machine: AssumedSpeeds) -> Rates:
    """Estimate rates from counted operations, without timing."""
    record, flops = suite.dataset_record, count_cost_per_image(suite).flops
    recipe = suite.recipe_record
    together = compute_micro_batch_size(recipe, record.train_images)
    return Rates(
        device=machine.device,
        gpus=machine.gpus,
        basis=machine.basis,
        decode=_DECODE * (PHOTO * record.size) ** 2,
        train=max(TRAIN * recipe.mean_pixel_share * flops / machine.train, machine.step / together),
        predict=max(flops / machine.predict, machine.step / 2 / choose_scoring_batch_size(record.size)),
        explain=max(EXPLAIN * flops / machine.explain, machine.step / choose_explanation_batch_size(suite)),
        draw=_DRAW * record.channels * record.size**2,
        rank=machine.rank * record.channels * record.size**2,
        fill=None if machine.gpus else _FILL * record.channels * record.size**2,
    )
