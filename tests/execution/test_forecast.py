"""Rates, measured or assumed; plans with their times; and short suites beside full ones."""

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import MachineError, NoRoom, RunError, StoreError
from roarbench.common.job_interface import JobOutcome
from roarbench.compute.networks import NetworkCost
from roarbench.execution import forecast, rate_measurement, rates
from roarbench.execution.forecast import Plan, make_plan
from roarbench.execution.rate_measurement import measure_or_assume_rates, measure_worker_rates
from roarbench.execution.rates import CORE, GPU, Rates, assume_rates, estimate_gpu_busy_share
from roarbench.execution.workload import Work, count_cost_per_image, count_work
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.workspace import Workspace
from tests.helpers.older_suites import OLDER

PLANTED, NOTHING = find_builtin_suite("planted"), Work(*[0] * len(Work._fields))
WORK = NOTHING._replace(
    **{"trainings": 9, "references": 1, "scorings": 2, "images_decoded": 100, "images_reference": 60},
    **{"images_retrained": 3600, "images_scored": 10, "images_explained": 7200, "images_ranked": 20},
    **{"copies_drawn": 150, "disk": 5_000_000, "sealing": 3_000_000},
    **{"memory": 2 * 10**9, "images": 3 * 10**9, "planes": 10**9},
    **{"train": 10_000, "jobs": 1000},
)
HERE = Rates("one core", 0, "", decode=0.1, train=1.0, predict=3.0, explain=0.5, draw=2.0, rank=4.0)
GUESS = replace(HERE, device="a GPU", gpus=4, basis="a guess", train=3600.0)
PLAN = Plan("hand v1", 12, 3, WORK, 1.77e21, (HERE, GUESS), 2, PLANTED)
TEXT = """\
hand v1: 12 runs, 3 done, 9 to do
                                         one core    a GPU
  decode      100 images                     10 s     10 s
  reference   60 images                      60 s   60.0 h
  attribution 7,200 passes                 60 min   60 min
  noise       150 noisy copies              5 min    5 min
  ranking     20 rankings                    80 s     80 s
  retraining  8 trainings, 3,600 images    60 min  3,600 h
  scoring     10 images                      30 s     30 s
  overhead    1,000 jobs                     20 s     20 s
  together about 64 min of wall time with 2 workers, measured just now
  together about 1,831 h (76 days) of wall time with 4 GPUs and 2 workers, assuming a guess
  disk 5 MB, up to 11 MB while rankings are joined; memory 2.0 GB per worker, and for all\
 workers together 3.0 GB for images and 1.0 GB for each ranking in use; with less memory, each\
 epoch reads them from disk
  1.8e+21 floating-point operations"""

BRIEF = """\
hand v1: 9 of 12 runs to do
  time about 64 min of wall time with 2 workers, measured just now
  8 trainings, 1 reference; disk 5 MB, memory 2.0 GB per worker; details: `roarbench plan`"""


def compute_extra_seconds(plan, other):
    """Compute how much longer a plan takes than another, by HERE and by GUESS."""
    return [plan.estimate_wall_seconds(rates) - other.estimate_wall_seconds(rates) for rates in (HERE, GUESS)]


def test_plan_text_and_record_match_hand_computed_values():
    assert PLAN.format_text() == TEXT
    assert PLAN.format_brief() == BRIEF
    quiet = replace(PLAN, work=WORK._replace(copies_drawn=0))
    assert "noise" not in quiet.format_text()
    assert compute_extra_seconds(PLAN, quiet)[1] == 150 * 2.0 / 2, "CPU cores draw noise"
    more = replace(PLAN, workers=8)
    unranked = replace(more, work=WORK._replace(images_ranked=0))  # GPUs sort, if present
    assert compute_extra_seconds(more, unranked) == [20 * 4.0 / 8, 20 * 4.0 / 4]
    idle = replace(PLAN, work=WORK._replace(jobs=0))  # one process dispatches all jobs
    assert compute_extra_seconds(PLAN, idle) == [20, 20]
    # at load 2, other programs leave half of a core to a worker
    assert PLAN.estimate_wall_seconds(replace(HERE, load=2.0)) == 2 * PLAN.estimate_wall_seconds(HERE)
    found = json.loads(json.dumps(PLAN.make_json_record()))
    expected = {"suite": "hand v1", "runs": 12, "done": 3, "seconds": 3860}  # a core does 3840 each
    assert found.items() >= expected.items()
    assert found["work"].items() >= {"trainings": 9, "images_trained": 3660, "core_seconds": 7700}.items()
    assert (found["rates"]["measured"], found["estimates"][0]["parts"]["attribution"]) == (True, 3600)


def test_plan_disk_includes_masks_extracted_by_all_workers(tmp_path, monkeypatch):
    extracting = WORK._replace(extracted=10**6, images=4 * 10**6)
    text = replace(PLAN, work=extracting).format_text()
    assert "  disk 7 MB, 1 MB of it for the masks that the workers' trainings use, up to 11 MB while" in text
    assert "; disk 7 MB, memory" in replace(PLAN, work=extracting).format_brief()
    for free, refused in ((3 * 10**6, False), (3 * 10**6 - 1, True)):  # the images are decoded already
        monkeypatch.setattr(forecast.shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        with pytest.raises(StoreError, match="the plan needs 3 MB more") if refused else nullcontext():
            forecast.refuse_full_disk(extracting, "data", Workspace(tmp_path), workers=2)


def test_plan_uses_measured_rates_of_submissions_and_fills():
    submitted = replace(PLAN, estimates=(HERE,), work=WORK._replace(images_submitted=40))
    assert "  submission  40 maps by submitted code  not measured\n" in submitted.format_text()
    assert submitted.estimate_wall_seconds(HERE) == PLAN.estimate_wall_seconds(HERE)
    assert submitted.make_json_record()["estimates"][0]["parts"]["submission"] is None
    filled = replace(submitted, work=submitted.work._replace(images_filled=30))
    measured = replace(HERE, submission=2.0, fill=4.0)
    known = replace(filled, estimates=(measured,))
    assert known.estimate_wall_seconds(measured) == PLAN.estimate_wall_seconds(HERE) + 40 * 2.0 / 2 + 30 * 4.0 / 2
    assert "  filling     30 images                     2 min\n" in known.format_text()
    assert "not measured" not in known.format_text()


def test_measure_worker_rates_returns_seconds_per_image(monkeypatch):
    """Each mocked kernel advances the clock by its own seconds per image, and the rates must equal them."""
    now, steps = [0.0], []
    monkeypatch.setattr(rate_measurement.time, "process_time", lambda: now[0])

    def take(kernel, seconds, images):
        def kernel_that_takes(*arguments):
            now[0] += seconds * images(*arguments)
            return {}

        monkeypatch.setattr(rate_measurement, kernel, kernel_that_takes)

    class Steps:
        """Steps that take 2 seconds per image; the first step of each size takes 100 seconds more."""

        def __init__(self, model, inputs, labels, norm, short, seed):
            assert len(labels) == len(inputs) >= short.batch
            self.steps, self.recipe, self.sizes = round(short.epochs * len(inputs) / short.batch), short, set()

        def do_optimiser_step(self):
            size = len(steps) * len(self.recipe.sides) // self.steps
            now[0] += 2.0 * self.recipe.batch + 100.0 * (size not in self.sizes)
            self.sizes.add(size)
            steps.append(size)

    monkeypatch.setattr(rate_measurement, "Training", Steps)
    take("predict_logits", 3.0, lambda model, inputs, norm, batch: len(inputs))
    take("compute_importance_maps", 5.0, lambda some, model, batch, *rest: len(batch.ids))
    take("rank_to_bit_planes", 7.0, lambda importance, ties, layout: len(importance))
    take("draw_normal_noise", 13.0, lambda images, ids, *rest: len(ids))
    take("decode_image", 11.0, lambda photo, record: 1)
    found = measure_worker_rates(PLANTED, WORK._replace(images_filled=10))  # with a fill that the suite lacks
    sizes = len(find_recipe(PLANTED.recipe).sides)
    half = 8 // sizes
    assert steps == [size for size in range(sizes) for _ in range(2 * half)]
    assert (found.train, found.predict, found.explain) == pytest.approx((2.0, 3.0, 5.0))
    assert (found.rank, found.decode, found.draw, found.fill) == pytest.approx((7.0, 11.0, 13.0, 0.0))
    steps.clear()
    assert rate_measurement.time_training_per_image(PLANTED, PLANTED.recipe_record) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("kind", "flops", "batch", "sizes", "steps"),
    [
        ("cuda", 8.2e9, 256, 4, 5),  # ResNet-50 at 224 pixels by imagenet's recipe: 4e13 operations are six steps
        ("cuda", 8.2e9, 256, 1, 6),
        ("cuda", 25e6, 128, 1, 80),  # as for ResNet-8: at most so many
        ("cpu", 8.2e9, 256, 4, 1),
    ],
)
def test_count_timed_steps_returns_several_steps_on_gpu(kind, flops, batch, sizes, steps):
    assert rate_measurement._count_timed_steps(flops, batch, sizes, torch.device(kind)) == steps


def test_find_too_large_recipes_tries_one_step_of_each_needed_recipe(monkeypatch):
    def fit(model, inputs, labels, norm, recipe, seed):
        assert recipe.epochs * len(inputs) == len(labels) == recipe.batch == find_recipe(recipe.title).batch
        raise NoRoom(recipe.title)

    monkeypatch.setattr(rate_measurement, "fit", fit)
    for nothing, tried in (("references", "quick@1"), ("images_retrained", "quick-reference@1")):
        found = rate_measurement._find_too_large_recipes(OLDER["quick@1"], WORK._replace(**{nothing: 0}))
        assert found == ((tried, tried),)


def test_assume_rates_divides_operations_by_speed():
    found = assume_rates(PLANTED, CORE)  # 4,415,744 operations of one pass forward (tests/compute/test_networks.py)
    assert found.train == pytest.approx(220.787e-6, rel=1e-5)  # three times that at 60 GFLOP/s
    assert found.predict == pytest.approx(110.394e-6, rel=1e-5)  # once at 40
    assert found.explain == pytest.approx(220.787e-6, rel=1e-5)  # twice at 40


def test_assume_rates_uses_launch_time_for_small_networks_on_gpu():
    """A GPU computes the operations of a small network faster than it launches the kernels."""
    suite = find_builtin_suite("benchmark-cifar10")
    found, recipe = assume_rates(suite, GPU), suite.recipe_record
    assert found.busy == 0.125, "no more than 15 workers were tried"
    assert found.train == pytest.approx(0.0012 / recipe.batch)
    assert (found.explain, found.predict) == pytest.approx((0.006 / 512, 0.003 / 128))
    for name, speed in (("imagenet-paper", 8.1e13), ("imagenet-100-64", 3.4e13)):
        large = assume_rates(find_builtin_suite(name), GPU)
        assert large.train == pytest.approx(3 * count_cost_per_image(find_builtin_suite(name)).flops / speed)
        assert large.busy == 1


@pytest.mark.parametrize(("network", "change"), [("resnet-quick", "compile=true"), ("timm:some", "epochs=9")])
def test_assume_rates_excludes_replay_for_compiled_and_external_networks(network, change, monkeypatch):
    suite = find_builtin_suite("cifar10")
    monkeypatch.setattr(rates, "count_cost_per_image", lambda suite: NetworkCost(10**6, 0, 0))
    changed = replace(suite, model=network, recipe=f"{suite.recipe}({change})")
    assert assume_rates(changed, GPU).train == pytest.approx(0.007 / suite.recipe_record.batch)


def test_rates_of_micro_batch_steps_exclude_replay():
    suite = find_builtin_suite("cifar10")
    parts = replace(suite, recipe=f"{suite.recipe}(micro_batch=32)")
    assert assume_rates(parts, GPU).train == pytest.approx(0.007 / 32)
    for recipe, steps in ((parts.recipe_record, (16, 8)), (suite.recipe_record, (8, 0))):
        short = rate_measurement._set_images_per_pass(recipe, 8)
        assert (short.batch, short.micro_batch) == steps


def test_workers_share_gpu_only_while_it_waits_for_launches():
    shared = replace(HERE, gpus=1, busy=0.25)  # of the GPU, 80 s of networks, 80 of rankings
    work = {"images_reference": 4, "images_retrained": 6, "images_explained": 80, "images_scored": 10}
    plan = replace(PLAN, work=NOTHING._replace(**work, images_ranked=20))
    assert [replace(plan, workers=n).estimate_wall_seconds(shared) for n in (1, 2, 4, 8)] == [160, 120, 100, 100]
    assert replace(plan, workers=8).estimate_wall_seconds(replace(shared, busy=1.0, gpus=4)) == 40
    assert replace(plan, workers=2).estimate_wall_seconds(replace(shared, gpus=4)) == 80, "two GPUs are idle"


@pytest.mark.parametrize(
    ("launching", "train", "busy"),
    [(1.0, 2.0, 0.5), (0.3, 2.0, 0.7), (0.9, 1.0, 1.0), (1.0, 0.5, 1.0), (1.0, 1000.0, 0.125)],
)
def test_gpu_busy_share_is_larger_of_operation_and_launch_estimates(launching, train, busy):
    """Times are relative to those of the suite's operations; the number of tried workers limits sharing."""
    suite = find_builtin_suite("imagenet-100-64")
    computing = assume_rates(suite, GPU).train
    assert estimate_gpu_busy_share(suite, train * computing, launching) == pytest.approx(busy)
    assert estimate_gpu_busy_share(PLANTED, 0.0, launching) == assume_rates(PLANTED, GPU).busy == 0.125, "not measured"


def test_time_training_measures_launches_in_first_step(monkeypatch):
    """Steps take 4 seconds on the GPU's clock; the call that launches a step returns after 1 second."""
    device, wall = [0.0], [0.0]

    class Steps:
        def __init__(self, *arguments):
            pass

        def do_optimiser_step(self):
            device[0], wall[0] = device[0] + 4.0, wall[0] + (1.0 if wall[0] == device[0] else 4.0)

    def read_clock():
        wall[0] = device[0]  # waits for the GPU
        return device[0]

    monkeypatch.setattr(rate_measurement, "Training", Steps)
    monkeypatch.setattr(rate_measurement, "choose_processor_or_gpu_clock", lambda device: read_clock)
    monkeypatch.setattr(rate_measurement.time, "perf_counter", lambda: wall[0])
    recipe, model = PLANTED.recipe_record, torch.nn.Linear(1, 1)
    found = rate_measurement._time_training(recipe, model, PLANTED.dataset_record, flops=10**6)
    assert found == pytest.approx((4.0 / recipe.batch, 0.25))


@pytest.mark.parametrize(
    ("data", "ensembles", "trainings", "references", "runs", "seconds"),
    [
        ("cifar10", False, 174, 2, 979, 201),
        ("fashion-mnist", False, 174, 0, 979, 142),
        ("fashion-mnist", True, 36, 0, 236, 98),
    ],
)
def test_plan_for_h100_is_within_factor_two_of_measured_time(data, ensembles, trainings, references, runs, seconds):
    """15 workers ran ROAR of the benchmark's estimators, first without ensembles of integrated gradients."""
    suite = find_builtin_suite(f"benchmark-{data}")
    roar, own = (next(b for b in suite.blocks if b.protocol.name == name) for name in ("roar", "own-network"))
    long = {"sg-ig", "sg-ig-sq", "sgsq-ig", "var-ig"}
    chosen = long if ensembles else {*roar.estimators, CLEAN} - long
    suite = replace(suite, blocks=(roar, own))
    points = [point for point in list_planned_runs(suite) if point.cell.estimator in chosen]
    work = count_work(suite, points)
    assert (work.trainings - work.references, len(points)) == (trainings, runs)
    work = work._replace(images_reference=work.images_reference / work.references * references)
    plan, batch = make_plan(SuiteResults(suite, "", None, {}), work, workers=15), suite.recipe_record.batch
    assumed = plan.estimates[-1]
    busy = estimate_gpu_busy_share(suite, 0.00123 / batch, launching_share=1.0)
    measured = replace(assumed, train=0.00123 / batch, busy=busy)
    for each in (assumed, measured):
        assert seconds / 2 < plan.estimate_wall_seconds(each) < seconds * 2


def test_make_plan_lists_steps_from_full_to_short_suite():
    suite = find_builtin_suite("imagenet")
    made = make_plan(SuiteResults(suite, "", None, {}), count_work(suite, list_planned_runs(suite)), workers=2)
    steps = made.steps_from_full_suite
    assert [each.trainings for each in steps] == [1010, 1010, 1006, 506, 203, 123, 87]
    assert [each.seconds for each in steps] == sorted((each.seconds for each in steps), reverse=True)
    gpu = made.estimates[-1]
    assert steps[-1].seconds == pytest.approx(made.estimate_wall_seconds(gpu))
    assert steps[0].seconds > 5.6 * steps[1].seconds, "102 epochs at full size instead of 18"
    assert [line for line in made.format_text().splitlines() if "imagenet v3" in line][-1].split()[-1] == "7.6"
    assert make_plan(SuiteResults(PLANTED, "", None, {}), NOTHING, 2).steps_from_full_suite == []


@pytest.mark.gpu
def test_measure_worker_rates_on_gpu_returns_plausible_rates():
    suite = find_builtin_suite("cifar10")
    found = measure_worker_rates(suite, count_work(suite, list_planned_runs(suite)))
    assert found.gpus >= 1
    assert 0 < found.train < 1e-3
    assert 0 < found.busy < 1, "a small network waits for its launches"


class OneWorker:
    """An engine whose worker is ready after one wait and ends its job with this value or error."""

    idle, jobs = 0, ()

    def __init__(self, value, error, gpus):
        self.gpus, self._outcome = gpus, JobOutcome("rates", value, error)

    def start_job(self, job):
        assert self.idle
        self.jobs += ((job.call, job.arguments),)

    def wait(self, timeout):
        self.idle = 1
        return [self._outcome] if self.jobs else []


@pytest.mark.parametrize(("gpus", "error"), [(4, None), (0, RunError("KeyError: 'a'")), (2, MachineError("is busy"))])
def test_measure_rates_falls_back_to_assumed_rates_with_message(gpus, error):
    made = replace(assume_rates(PLANTED, GPU), basis="", lacks=("training is not compiled",))
    worker, lines, said = OneWorker(None if error else made, error, gpus), [], made.lacks[0]
    if error:
        made = assume_rates(PLANTED, GPU if gpus else CORE)
        said = f"the speed could not be measured ({error}); the times below use assumed rates"
    assert measure_or_assume_rates(worker, PLANTED, "what there is to do", lines.append) == replace(made, gpus=gpus)
    assert lines == [f"planted v1: {said}"]
    assert worker.jobs == ((measure_worker_rates, (PLANTED, "what there is to do")),)


@pytest.mark.process
def test_planning_process_does_not_initialise_cuda(monkeypatch):
    """The machine reports two GPUs, but its workers find none; planning still succeeds."""

    def opened():
        raise AssertionError("the planning process initialised CUDA")

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "_lazy_init", opened)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    lines = []
    with rate_measurement.start_rate_measurement(lines.append) as ask:
        found = ask(PLANTED, WORK)
    assert (found.gpus, found.measured) == (2, False)
    (line,) = lines
    assert "the GPU of this process is no longer available" in line
