"""Rates, measured or assumed; plans with their times; and short suites beside full ones."""

import json
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from roarbench.analysis.suite_results import SuiteResults
from roarbench.common.errors import CallerError, MachineError, NoRoom, RunError, StoreError
from roarbench.common.job_interface import JobOutcome
from roarbench.compute.prediction import choose_scoring_batch_size
from roarbench.execution import forecast, rate_measurement
from roarbench.execution.forecast import CORE, GPU, Plan, Rates, assume_rates, estimate_gpu_busy_share, make_plan
from roarbench.execution.rate_measurement import measure_or_assume_rates, measure_worker_rates
from roarbench.execution.workload import WorkCounts, count_cost_per_image, count_work
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.workspace import Workspace
from roarbench.submissions.limits_and_faults import Refusal, SubmissionFault
from roarbench.submissions.submission_file import parse_submission
from roarbench.submissions.submission_validation import SubmissionPace
from tests.helpers.older_suites import OLDER
from tests.helpers.processes import ROOT

PLANTED, NOTHING = find_builtin_suite("planted"), WorkCounts(*[0] * len(WorkCounts._fields))
WORK = NOTHING._replace(
    **{"trainings": 9, "references": 1, "scorings": 2, "images_decoded": 100, "images_reference": 60},
    **{"images_retrained": 3600, "images_scored": 10, "images_explained": 7200, "images_ranked": 20},
    **{"copies_drawn": 150, "disk": 5_000_000, "sealing": 3_000_000},
    **{"memory": 2 * 10**9, "images": 3 * 10**9, "planes": 10**9},
    **{"train": 10_000, "jobs": 1000},
)
HERE = Rates("one core", 0, "", decode=0.1, train=1.0, predict=3.0, explain=0.5, draw=2.0, rank=4.0)
GUESS = replace(HERE, device="a GPU", gpus=4, basis="a guess", train=3600.0)
PLAN = Plan("hand v1", 12, 3, WORK, (HERE, GUESS), 2, PLANTED)
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
  together about 64 min of wall time with 2 workers, measured just now (but decode: assumed)
  together about 1,831 h (76 days) of wall time with 4 GPUs and 2 workers, assuming a guess
  disk 5 MB, 11 MB during the runs; memory 2.0 GB per worker, and for all\
 workers together 3.0 GB for images and 1.0 GB for each ranking in use; with less memory, each\
 epoch reads them from disk"""

BRIEF = """\
hand v1: 9 of 12 runs to do
  time about 64 min of wall time with 2 workers, measured just now (but decode: assumed)
  8 trainings, 1 explained network; disk 11 MB, memory 2.0 GB per worker; details: `roarbench plan`"""


def compute_extra_seconds(plan, other):
    """Compute how much longer a plan takes than another, by HERE and by GUESS."""
    return [plan.estimate_wall_seconds(rates) - other.estimate_wall_seconds(rates) for rates in (HERE, GUESS)]


def test_plan_text_and_record_match_hand_computed_values():
    assert PLAN.format_text() == TEXT
    assert PLAN.format_brief() == BRIEF
    quiet = replace(PLAN, work=WORK._replace(copies_drawn=0))
    assert "noise" not in quiet.format_text()
    assert compute_extra_seconds(PLAN, quiet)[1] == 150 * 2.0 / 2, "CPU cores draw noise"
    submitted = replace(PLAN, work=WORK._replace(images_submitted=40, sandboxes=3))
    assert "  submission  40 maps by submitted code  not measured" in submitted.format_text()
    assert submitted.estimate_wall_seconds(HERE) == PLAN.estimate_wall_seconds(HERE)
    timed = replace(HERE, submission=2.0, sandbox=4.0)
    assert submitted.estimate_wall_seconds(timed) == 3860 + (40 * 2.0 + 3 * 4.0) / 2
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
    assert found["work"].items() >= {"trainings": 9, "images_trained": 3660}.items()
    first = found["estimates"][0]
    assert (first["rates"]["measured"], first["parts"]["attribution"]) == (True, 3600)
    assert first["rates"]["assumed"] == ["decode", "filling", "overhead"]
    unmeasured = replace(HERE, train=0.0, predict=0.0, explain=0.0).make_json_record()
    assert [unmeasured[name] for name in ("train", "predict", "explain")] == [None] * 3
    filled = replace(PLAN, work=WORK._replace(images_filled=1), estimates=(replace(HERE, fill=1.0),))
    assert "measured just now (but decode and filling: assumed)" in filled.format_text()
    no_images = replace(PLAN, work=WORK._replace(images_decoded=0), estimates=(HERE,))
    assert no_images.format_brief().splitlines()[1].endswith("measured just now")


def test_full_disk_is_refused_before_the_runs(tmp_path, monkeypatch):
    work = WORK._replace(images=4 * 10**6)  # the images are decoded already
    for free, refused in ((7 * 10**6, False), (7 * 10**6 - 1, True)):
        monkeypatch.setattr(forecast.shutil, "disk_usage", lambda folder, free=free: SimpleNamespace(free=free))
        with pytest.raises(StoreError, match="the plan needs 7 MB more") if refused else nullcontext():
            forecast.refuse_full_disk(work, "data", Workspace(tmp_path), workers=2)


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
    found = measure_worker_rates(PLANTED, WORK._replace(images_filled=10))  # with a fill that the suite lacks
    sizes = len(find_recipe(PLANTED.recipe).sides)
    half = 8 // sizes
    assert steps == [size for size in range(sizes) for _ in range(2 * half)]
    assert (found.train, found.predict, found.explain) == pytest.approx((2.0, 3.0, 5.0))
    assert (found.rank, found.draw) == pytest.approx((7.0, 13.0))


def test_measured_rates_have_the_mean_time_of_submissions(monkeypatch):
    """Both submissions are timed on the suite's network, on the devices and with the rights that their ids tell."""
    seen, paces = [], {b"one": SubmissionPace(0.1, 2.0), b"two": SubmissionPace(0.3, 1.0)}

    def measure(code, *how):
        seen.append((code, *how))
        if code not in paces:
            raise Refusal(SubmissionFault.RAISED, "ValueError")
        return paces[code]

    monkeypatch.setattr(rate_measurement, "measure_submission_pace", measure)
    codes = {"one@12345678": b"one", "two@12345678(samples=2)~trusted~cuda": b"two"}
    found = measure_worker_rates(PLANTED, NOTHING._replace(images_submitted=1), codes)
    assert (found.submission, found.sandbox) == pytest.approx((0.2, 1.5))
    network = PLANTED.find_network()
    assert seen == [(b"one", network, "cpu", False), (b"two", network, "cuda", True)]
    lost = measure_worker_rates(PLANTED, NOTHING._replace(images_submitted=1), {"bad@12345678": b"bad"})
    assert lost.submission is None
    assert lost.lack == "the maps of bad@12345678 could not be timed (ValueError)"
    assert measure_worker_rates(PLANTED, NOTHING, codes).submission is None, "no map is missing"


def test_submission_of_a_twin_alone_is_timed(tmp_path):
    """`reproduce` of a twin's run plans the twin without its submission."""
    source = (
        b'NAME = "mine"\nDESCRIPTION = "a test"\ndef estimate(model, images, targets, generator):\n    return images\n'
    )
    submission, workspace = parse_submission(source), Workspace(tmp_path)
    workspace.save_submission(submission.id, submission.source)
    twins = tuple(f"{submission.id}~{twin}" for twin in ("blurred", "untrained"))
    alone = replace(PLANTED, blocks=(replace(PLANTED.blocks[0], estimators=("random", *twins)),))
    assert rate_measurement.read_submitted_codes(alone, workspace) == {submission.id: source}


@pytest.mark.parametrize(("kind", "steps"), [("cuda", 5), ("cpu", 1)])
def test_count_timed_steps_returns_several_steps_on_gpu(kind, steps):
    """4e13 operations are six steps of ResNet-50 at 224 pixels by imagenet's recipe."""
    assert rate_measurement._count_timed_steps(8.2e9, 256, 4, torch.device(kind)) == steps


def test_recipe_that_exceeds_gpu_memory_is_refused_after_one_step(monkeypatch):
    def fit(model, inputs, labels, norm, recipe, seed):
        assert recipe.epochs * len(inputs) == len(labels) == recipe.batch == find_recipe(recipe.title).batch
        raise NoRoom("too large")

    monkeypatch.setattr(rate_measurement, "fit", fit)
    for nothing, tried in (("references", "quick@1"), ("images_retrained", "quick-reference@1")):
        with pytest.raises(CallerError, match=f"training by {tried} does not fit this machine: too large"):
            rate_measurement._refuse_too_large_recipes(OLDER["quick@1"], WORK._replace(**{nothing: 0}))


def test_assumed_rates_count_operations_and_launches():
    """The operations of a small network take less time than launching them."""
    core = assume_rates(PLANTED, CORE)  # 4,415,744 operations of one pass forward (tests/compute/test_networks.py)
    expected = (220.787e-6, 110.394e-6, 220.787e-6)  # three times that at 60 GFLOP/s, once and twice at 40
    assert (core.train, core.predict, core.explain) == pytest.approx(expected, rel=1e-5)
    digits = find_builtin_suite("benchmark-digits")  # batches of 32 and of 64 images of 8 x 8
    small = assume_rates(digits, CORE)
    assert (small.train, small.explain) == pytest.approx((0.005 / 32, 0.005 / 64))
    assert small.predict == pytest.approx(0.0025 / choose_scoring_batch_size(digits.dataset_record.size))
    suite = find_builtin_suite("benchmark-cifar10")
    found, recipe = assume_rates(suite, GPU), suite.recipe_record
    assert found.busy == 0.125, "no more than 15 workers were tried"
    assert found.train == pytest.approx(0.0012 / recipe.batch)
    assert (found.explain, found.predict) == pytest.approx((0.006 / 512, 0.003 / 128))
    paper = find_builtin_suite("imagenet-paper")
    for suite, speed in ((paper, 8.1e13), (replace(paper, dataset="imagenet-100-64"), 3.4e13)):
        large = assume_rates(suite, GPU)
        assert large.train == pytest.approx(3 * count_cost_per_image(suite).flops / speed)
        assert large.busy == 1


def test_workers_share_gpu_only_while_it_waits_for_launches():
    shared = replace(HERE, gpus=1, busy=0.25)  # of the GPU, 80 s of networks, 80 of rankings
    work = {"images_reference": 4, "images_retrained": 6, "images_explained": 80, "images_scored": 10}
    plan = replace(PLAN, work=NOTHING._replace(**work, images_ranked=20))
    assert [replace(plan, workers=n).estimate_wall_seconds(shared) for n in (1, 2, 4, 8)] == [160, 120, 100, 100]
    assert replace(plan, workers=8).estimate_wall_seconds(replace(shared, busy=1.0, gpus=4)) == 40
    assert replace(plan, workers=2).estimate_wall_seconds(replace(shared, gpus=4)) == 80, "two GPUs are idle"


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
    busy = estimate_gpu_busy_share(suite, 0.00123 / batch)
    measured = replace(assumed, train=0.00123 / batch, busy=busy)
    for each in (assumed, measured):
        assert seconds / 2 < plan.estimate_wall_seconds(each) < seconds * 2


def test_plan_lists_steps_from_full_to_short_suite():
    suite = find_builtin_suite("imagenet")
    plan = make_plan(SuiteResults(suite, "", None, {}), count_work(suite, list_planned_runs(suite)), workers=2)
    steps = plan.steps_from_full_suite
    assert [step.trainings for step in steps] == [1010, 1010, 1006, 506, 203, 123, 87]
    assert [round(step.days, 1) for step in steps] == [477.4, 67.0, 55.5, 29.4, 13.7, 9.5, 7.6]
    page = (ROOT / "docs/gpu.md").read_text()
    assert all(f"{step.trainings:,} training runs, {step.days:.1f} days" in page for step in (steps[0], steps[-1]))
    assert steps[-1].days * 86400 == pytest.approx(plan.estimate_wall_seconds(plan.estimates[-1]))
    assert plan.format_text().splitlines()[-1].split() == [
        "14",
        "estimators,",
        "maps",
        "in",
        "bf16:",
        "imagenet",
        "v3",
        "87",
        "7.6",
    ]
    assert make_plan(SuiteResults(PLANTED, "", None, {}), WORK, 2).steps_from_full_suite == []


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
    made = replace(assume_rates(PLANTED, GPU), basis="", lack="training is not compiled")
    worker, lines, said = OneWorker(None if error else made, error, gpus), [], made.lack
    if error:
        made = assume_rates(PLANTED, GPU if gpus else CORE)
        said = f"the speed could not be measured ({error}); the times below use assumed rates"
    assert measure_or_assume_rates(worker, PLANTED, "what there is to do", lines.append) == replace(made, gpus=gpus)
    assert lines == [f"planted v1: {said}"]
    assert worker.jobs == ((measure_worker_rates, (PLANTED, "what there is to do", {})),)


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
    found = rate_measurement.measure_rates_of_this_machine(PLANTED, WORK, lines.append, {})
    assert (found.gpus, found.measured) == (2, False)
    (line,) = lines
    assert "the GPU of this process is no longer available" in line
