"""Measure the rates of a worker of this machine, which are seconds per image, on generated images."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from statistics import fmean
from types import MappingProxyType

import torch
from torch import nn

from roarbench.common.device_settings import (
    choose_device,
    choose_precision,
    choose_processor_or_gpu_clock,
    find_device,
    list_gpu_ids,
    use_exact_float32,
)
from roarbench.common.enums import Unit
from roarbench.common.errors import CallerError, MachineError, NoRoom
from roarbench.common.job_interface import Engine, Job, JobOutcome
from roarbench.common.local_workers import LocalEngine
from roarbench.common.process_settings import keep_freed_cpu_memory
from roarbench.compute.degraded_images import DegradedImages
from roarbench.compute.gpu_training import describe_compilation_failure
from roarbench.compute.map_ranking import rank_to_bit_planes
from roarbench.compute.prediction import Normalisation, choose_scoring_batch_size, predict_logits
from roarbench.compute.ranking import Layout
from roarbench.compute.recipe import Recipe
from roarbench.compute.train import Training, fit
from roarbench.datasets.catalogue import DatasetRecord
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.estimators.ids import CUDA, TRUSTED, EstimatorId
from roarbench.estimators.random_draws import draw_normal_noise
from roarbench.execution.forecast import CORE, GPU, Rates, assume_rates, estimate_gpu_busy_share
from roarbench.execution.network_weights import build_suite_network
from roarbench.execution.ranking_jobs import choose_map_batch_size, read_submitted_code
from roarbench.execution.run_inputs import refuse_too_large_filled_images
from roarbench.execution.workload import (
    EXPLAIN,
    SHARD,
    TRAIN,
    WorkCounts,
    compute_micro_batch_size,
    count_cost_per_image,
)
from roarbench.plan.planned_runs import list_stored_levels
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import SuiteSpec
from roarbench.store.workspace import Workspace
from roarbench.submissions.submission_validation import SubmissionPace, measure_submission_pace

_WAIT_SECONDS = 1.0  # seconds per wait for a worker
_MAX_STEPS = {"cpu": 8, "cuda": 80}  # maximum timed training steps, over all image sizes
# minimum timed steps per image size; as many untimed steps come first, in which a GPU chooses kernels and captures a
# graph
_MIN_STEPS = {"cpu": 1, "cuda": 5}
_MAX_OPERATIONS = {"cpu": 1e10, "cuda": 4e13}  # per measurement, which takes a fraction of a second
_MIN_IMAGES = 2  # per measurement


def measure_rates_of_this_machine(
    suite: SuiteSpec, work: WorkCounts, say: Callable[[str], object], codes: Mapping[str, bytes]
) -> Rates:
    """Start a worker on this machine, and measure its rates as `measure_or_assume_rates` does."""
    gpus = list_gpu_ids()
    with LocalEngine(1, gpus) as engine:
        return replace(measure_or_assume_rates(engine, suite, work, say, codes), gpus=len(gpus))


def read_submitted_codes(suite: SuiteSpec, workspace: Workspace) -> dict[str, bytes]:
    """Return the code of each submission of a suite, by the id of its row, which the suite may lack beside a twin."""
    submitted = {estimator.untwinned_id: estimator for estimator in suite.estimator_records if estimator.submitted}
    return {name: read_submitted_code(workspace, estimator) for name, estimator in submitted.items()}


def measure_or_assume_rates(
    engine: Engine,
    suite: SuiteSpec,
    work: WorkCounts,
    say: Callable[[str], object],
    codes: Mapping[str, bytes] = MappingProxyType({}),
) -> Rates:
    """Measure the rates of the first idle worker, or return assumed rates if that fails.

    `say` receives messages. `codes` has the code of each submission that is timed, by the id of its row.
    """
    while not engine.idle:
        engine.wait(_WAIT_SECONDS)
    engine.start_job(Job("rates", measure_worker_rates, (suite, work, dict(codes))))
    outcomes: list[JobOutcome] = []
    while not outcomes:
        outcomes = engine.wait(_WAIT_SECONDS)
    rates: Rates = outcomes[0].value
    error = outcomes[0].error
    if isinstance(error, CallerError):
        raise error
    if error is not None:
        say(f"{suite.title}: the speed could not be measured ({error}); the times below use assumed rates")
        rates = assume_rates(suite, GPU if engine.gpus else CORE)
    if rates.lack:
        say(f"{suite.title}: {rates.lack}")
    return replace(rates, gpus=engine.gpus or rates.gpus)


def measure_worker_rates(
    suite: SuiteSpec, work: WorkCounts, codes: Mapping[str, bytes] = MappingProxyType({})
) -> Rates:
    """Time noise, ranking and other kinds of work in `work` on a few random images in this process."""
    record, recipe, device = suite.dataset_record, suite.recipe_record, choose_device()
    for fill in sorted({block.fill for block in suite.blocks}):
        refuse_too_large_filled_images(fill, work.images)  # raises before hours of computing maps
    keep_freed_cpu_memory()  # workers have the same setting
    if device.type == "cuda":
        _refuse_too_large_recipes(suite, work)
    flops = count_cost_per_image(suite).flops
    batch = _count_affordable_images(TRAIN * flops, compute_micro_batch_size(recipe, record.train_images), device)
    explained = _count_affordable_images(EXPLAIN * flops, min(SHARD, choose_map_batch_size(suite, 1)), device)
    n = max(batch, explained)
    inputs = draw_random_degraded_images(record.shape, n, device)
    generator, norm = torch.Generator().manual_seed(0), _make_fixed_normalisation(record)
    model = build_suite_network(suite, generator).to(device)
    labels = torch.randint(record.classes, (n,), generator=generator)
    images = inputs.batch(torch.arange(explained)) / 64 - 2
    precision = choose_precision(suite.maps.precision, device)
    explained_batch = Batch(images, labels[:explained].to(device), torch.arange(explained))
    black = torch.full((record.channels, 1, 1), -2.0, device=device)
    layout = Layout(record.shape, Unit.SCALAR, list_stored_levels(suite))
    importance = torch.rand(explained, *layout.shape, generator=generator).to(device)
    assumed, scored = assume_rates(suite, CORE), min(n, choose_scoring_batch_size(record.size))
    predict = partial(predict_logits, model, inputs, norm, scored)
    explain = partial(compute_importance_maps, [find_estimator("grad")], model, explained_batch, black, precision)
    rank = partial(rank_to_bit_planes, importance, explained_batch.ids.numpy(), layout)
    wall_start, processor_start = time.perf_counter(), time.process_time()
    # a step has two passes if the recipe's steps have several, because CUDA graphs only replay steps of one pass
    several = recipe.uses_micro_batches
    timed_recipe = replace(recipe, batch=(1 + several) * batch, micro_batch=several * batch)
    train = _time_training(timed_recipe, model, record, flops) if work.images_trained else 0.0
    model.eval()
    rates = Rates(
        device="one core" if device.type == "cpu" else torch.cuda.get_device_name(),
        gpus=torch.cuda.device_count(),
        basis="",
        decode=assumed.decode,
        train=train,
        predict=measure_mean_seconds(predict) / n if work.images_scored else 0.0,  # per image, not per padded batch
        explain=measure_mean_seconds(explain) / explained if work.images_explained else 0.0,
        draw=measure_mean_seconds(lambda: draw_normal_noise(images.cpu(), explained_batch.ids, 0, 0)) / explained,
        rank=measure_mean_seconds(rank) / explained,
        fill=assumed.fill,
    )
    wall, processor = time.perf_counter() - wall_start, time.process_time() - processor_start
    if work.images_submitted:
        rates = _time_submissions(rates, suite, codes)
    if device.type == "cuda":  # a GPU's rates are wall times, so `load` does not apply
        torch.cuda.empty_cache()  # frees the measurement's memory for jobs
        busy = estimate_gpu_busy_share(suite, train or assume_rates(suite, GPU).train)
        lacks = filter(None, (rates.lack, describe_compilation_failure()))
        return replace(rates, busy=busy, lack="; ".join(lacks))
    return replace(rates, load=max(1.0, wall / processor))


def _time_submissions(rates: Rates, suite: SuiteSpec, codes: Mapping[str, bytes]) -> Rates:
    """Return rates with the mean seconds of submissions per map and per sandbox; `lack` names one that failed."""
    paces = list[SubmissionPace]()
    for name, code in codes.items():
        marks = EstimatorId.parse(name).marks
        try:
            paces.append(
                measure_submission_pace(code, suite.find_network(), CUDA if CUDA in marks else "cpu", TRUSTED in marks)
            )
        except (CallerError, MachineError) as error:  # the job that needs the maps will report it
            return replace(rates, lack=f"the maps of {name} could not be timed ({error})")
    per_map, start = (fmean(values) for values in zip(*paces, strict=True))
    return replace(rates, submission=per_map, sandbox=start)


def _make_fixed_normalisation(record: DatasetRecord) -> Normalisation:
    return Normalisation((128.0,) * record.channels, (64.0,) * record.channels)


def _time_training(recipe: Recipe, model: nn.Module, record: DatasetRecord, flops: int) -> float:
    """Return the mean seconds per image of a short training run; at each image size, half of the steps are timed.

    The share of steps at each image size is that of a complete training run. The first half of the steps includes
    one-time work, such as preparing shared images and choosing kernels.
    """
    device, sizes, batch = find_device(model), len(recipe.sides), recipe.batch
    half = _count_timed_steps(flops, batch, sizes, device)
    steps = 2 * half * sizes
    images = max(batch, math.ceil(steps * batch / recipe.epochs))
    short, labels = replace(recipe, epochs=steps * batch / images), torch.arange(images) % record.classes
    inputs, seconds = draw_random_degraded_images(record.shape, images, device), 0.0
    training = Training(model, inputs, labels, _make_fixed_normalisation(record), short, 0)
    clock = choose_processor_or_gpu_clock(device)
    with use_exact_float32(benchmark=True):
        for _ in range(sizes):
            for _ in range(half):
                training.do_optimiser_step()
            start = clock()
            for _ in range(half):
                training.do_optimiser_step()
            seconds += clock() - start
    return seconds / (sizes * half * batch)


def _count_timed_steps(flops: int, batch: int, sizes: int, device: torch.device) -> int:
    """Return how many steps are timed at each of `sizes` image sizes; a forward pass of one image takes `flops`."""
    affordable = _count_affordable_images(TRAIN * flops, _MAX_STEPS[device.type] * batch, device) // batch
    return max(_MIN_STEPS[device.type], affordable // sizes)


def _refuse_too_large_recipes(suite: SuiteSpec, work: WorkCounts) -> None:
    """Try a training step by each needed recipe; raise CallerError if a step exceeds the GPU's memory."""
    record = suite.dataset_record
    recipes = [suite.reference_recipe] if not suite.given and work.references else []
    recipes += [suite.recipe] if work.images_retrained else []
    for name in dict.fromkeys(recipes):
        recipe = find_recipe(name)
        batch = compute_micro_batch_size(recipe, work.train)
        inputs = draw_random_degraded_images(record.shape, batch, choose_device())
        model = build_suite_network(suite, torch.Generator().manual_seed(0)).to(choose_device())
        one_step = replace(recipe, batch=batch, micro_batch=0, epochs=1.0, sides=(1.0,))
        try:
            fit(model, inputs, torch.zeros(batch, dtype=torch.int64), _make_fixed_normalisation(record), one_step, 0)
        except NoRoom as error:
            seen = f"training by {name} does not fit this machine: {error}"
            raise CallerError(f"{seen}, or protocols that train no network") from error


def _count_affordable_images(flops: float, most: int, device: torch.device) -> int:
    """Return how many images, at most `most`, a measurement uses if each image takes `flops` operations."""
    return max(_MIN_IMAGES, min(most, int(_MAX_OPERATIONS[device.type] / flops)))


def measure_mean_seconds(call: Callable[[], object], rounds: int = 1) -> float:
    """Return the mean time of calls after an untimed call: processor seconds, or wall seconds until a GPU is done."""
    clock = choose_processor_or_gpu_clock(choose_device())
    call()
    start = clock()
    for _ in range(rounds):
        call()
    return (clock() - start) / rounds


def draw_random_degraded_images(shape: tuple[int, int, int], n: int, device: torch.device) -> DegradedImages:
    """Draw n random images of shape (c, h, w), with half of their features removed, on a device."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (n, *shape), dtype=torch.uint8, generator=generator)
    width = -(-pixels[0].numel() // 8)
    removed = torch.randint(256, (n, width), dtype=torch.uint8, generator=generator)
    fill = torch.full((shape[0],), 128.0)
    return DegradedImages(pixels.to(device), removed.to(device), fill.to(device), Unit.SCALAR)
