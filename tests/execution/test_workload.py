"""`count_work` matches hand counts, the paper, and the work of real runs."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest
from torch.nn.modules.module import register_module_forward_pre_hook

from roarbench.common.enums import Split
from roarbench.compute.networks import SmallResNet, count_network_cost
from roarbench.compute.training_batches import TrainingBatches
from roarbench.estimators import compute_maps
from roarbench.estimators.catalogue import TWINS
from roarbench.estimators.compute_maps import compute_maps_of_tasks
from roarbench.estimators.estimator import VARIANTS
from roarbench.execution import ranking_jobs, training_and_scoring
from roarbench.execution.workload import WorkCounts, choose_cpu_explanation_batch_size, count_work
from roarbench.plan.cells_and_runs import CLEAN
from roarbench.plan.planned_runs import list_planned_runs, list_shared_inputs
from roarbench.plan.protocols import MATCHED, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suite_changes import add_estimators_with_twins
from roarbench.plan.suites import find_builtin_suite
from roarbench.submissions.submission_validation import count_maps_and_sandboxes
from tests.helpers import tiny_suite

TRAIN, TEST = 9469, 3925  # images of imagenette64
RECIPES = {"recipe": "cifar10@1", "reference_recipe": "fashion-mnist@1"}  # 15 and 10 epochs
MORF_BLOCK = Block(MORF, ("random", "grad"), (0.9,), seeds=1)
BLOCKS = (Block(ROAR, ("random", "grad", "var-grad"), (0.5, 0.9), seeds=2), MORF_BLOCK)
SUITE = replace(tiny_suite.SUITE, name="hand", dataset="imagenette64", model="resnet-quick", blocks=BLOCKS, **RECIPES)
SCALARS, MINE = 3 * 64 * 64, "mine@1a2b3c4d"
COST = count_network_cost("resnet-quick", 10, 3, 64)


def test_count_work_matches_hand_counts_for_new_suite():
    """Memory: activations of a batch, three copies of the weights, and the masks of one level."""
    jobs = count_work(SUITE, list_planned_runs(SUITE))
    trainings = 2 + 3 * 2 * 2
    assert jobs.trainings == trainings + 1  # and the reference
    assert jobs.scorings == 1 + 2
    assert jobs.images_decoded == TRAIN + TEST
    assert jobs.images_retrained == trainings * 15 * TRAIN
    assert jobs.images_reference == 10 * TRAIN
    targets = TRAIN + TEST  # predicted by the explained network
    assert jobs.images_scored == (trainings + 3) * TEST + targets
    assert jobs.images_explained == (1 + 15) * (TRAIN + TEST)  # a gradient, and 15 of noisy copies
    assert jobs.copies_drawn == 15 * (TRAIN + TEST)
    assert jobs.images_ranked == 3 * (TRAIN + TEST)
    assert jobs.images_filled == 0  # the mean needs no computation
    linear = replace(SUITE, blocks=tuple(replace(block, fill="linear") for block in BLOCKS))
    assert count_work(linear, list_planned_runs(linear)).images_filled == 12 * (TRAIN + TEST) + 2 * TEST
    planes = 3 * 3 * SCALARS // 8  # rankings, planes, bytes
    assert jobs.disk == (TRAIN + TEST) * (SCALARS + planes) + (trainings + 3) * (TEST // 8 + 2000)
    assert jobs.sealing == 2 * TRAIN * 3 * SCALARS // 8
    small = count_work(SUITE, list_planned_runs(SUITE), 5000)  # counts its images, of which there are fewer to test
    assert (small.images_trained, small.images_ranked) == ((14 * 15 + 10) * 5000, 3 * (5000 + TEST))
    step = 128 * (COST.activations + SCALARS) + 3 * COST.parameters  # 128 images at once: the batch of cifar10@1
    assert jobs.memory == 4 * step + TRAIN * SCALARS // 8 + TRAIN * 3 * 72 * 72 * 2


def test_count_disk_bytes_includes_extracted_masks_per_worker():
    """ImageNet has 24.1 GB of masks per training, or 0.9 GB for test images; masks of smaller data stay in memory."""
    suite, bits = find_builtin_suite("imagenet"), 3 * 224 * 224 // 8
    jobs = count_work(suite, points := list_planned_runs(suite))
    assert jobs.extracted == 1_281_167 * bits
    assert jobs._replace(sealing=0).count_disk_bytes(4) - jobs.disk == 4 * jobs.extracted
    assert jobs.count_disk_bytes(4) - jobs.disk == 4 * jobs.sealing, "joining rankings takes more"
    last = count_work(suite, points[-1:], existing=list_shared_inputs(suite, points))
    assert last.count_disk_bytes(4) - last.disk == jobs.extracted == last.extracted, "three workers have nothing to do"
    untouched = count_work(suite, [point for point in points if point.cell.estimator == CLEAN])
    scored = replace(suite, blocks=(MORF_BLOCK,))
    assert (untouched.extracted, count_work(scored, list_planned_runs(scored)).extracted) == (0, 50_000 * bits)
    assert count_work(SUITE, list_planned_runs(SUITE)).extracted == 0


def test_count_work_counts_shared_maps_once():
    """Forms, networks and blurred twins share passes; untrained networks are explained in their own jobs."""
    names = ("random", "grad", "var-grad", "sg-ig", "sg-ig~blurred", "sg-grad~untrained")
    names += (MINE, *(f"{MINE}~{twin}" for twin in TWINS))
    suite = replace(SUITE, references=2, blocks=(Block(ROAR, names, (0.9,), seeds=2),))
    jobs = count_work(suite, list_planned_runs(suite))
    assert jobs.copies_drawn == 2 * 15 * (TRAIN + TEST)
    assert jobs.images_submitted == 2 * (1 + len(VARIANTS)) * (TRAIN + TEST)  # a blurred twin has its submission's maps
    whole = replace(find_builtin_suite("imagenette64"), references=1)
    points = [point for point in list_planned_runs(whole) if "~" not in point.cell.estimator]
    assert count_work(whole, points).images_explained == 400 * (TRAIN + TEST)  # docs/protocol.md, section 3


ROWS = ("random", "grad", "var-grad", "ig")


@pytest.mark.slow
@pytest.mark.parametrize("tuned_on", [None, Split.TEST])
def test_count_work_equals_work_of_a_run(tuned_on, store, tmp_path, monkeypatch):
    """Mocks count images that are trained on, scored, explained and ranked."""
    blocks = tuple(Block(each, ROWS, (0.5,), seeds=1) for each in ((MATCHED,) if tuned_on else (ROAR, MORF)))
    suite, done = replace(tiny_suite.SUITE, blocks=blocks, tuned_on=tuned_on or Split.TRAIN), Counter()

    def note(kind, place, name, images):
        real = getattr(place, name)
        monkeypatch.setattr(place, name, lambda *given: done.update({kind: len(images(*given))}) or real(*given))

    def explained(*given):
        def passed(module, inputs):
            done["explained"] += len(inputs[0]) if isinstance(module, SmallResNet) else 0

        with register_module_forward_pre_hook(passed):
            return compute_maps_of_tasks(*given)

    note("trained", TrainingBatches, "load", lambda self, index, step: index)
    note("scored", training_and_scoring, "predict_logits", lambda model, inputs, *_: inputs)
    note("scored", training_and_scoring, "predict_logits_of_networks", lambda some, inputs, *_: [*some] * len(inputs))
    note("ranked", ranking_jobs, "rank_to_bit_planes", lambda importance, *_: importance)
    note("drawn", compute_maps, "draw_normal_noise", lambda images, ids, *_: ids)
    monkeypatch.setattr(ranking_jobs, "compute_maps_of_tasks", explained)
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: tiny_suite.RECORD)
    work = tiny_suite.make_work(tmp_path, suite)
    inline = tiny_suite.InlineEngine()
    events = tiny_suite.run_missing(work, tiny_suite.make_runs(work, suite), store, inline)
    assert [event.failure for event in events if event.failure] == []
    counted = count_work(suite, list_planned_runs(suite))
    assert len(inline.done) == counted.jobs
    kinds = ("trained", "scored", "explained", "ranked")
    assert done == {"drawn": counted.copies_drawn} | {kind: getattr(counted, f"images_{kind}") for kind in kinds}


def test_count_work_without_retraining_skips_training_images():
    suite = replace(SUITE, given="w@0", blocks=(MORF_BLOCK,))
    jobs = count_work(suite, list_planned_runs(suite))
    assert (jobs.trainings, jobs.scorings) == (0, 1 + 2)
    assert jobs.images_decoded == TRAIN + TEST  # their mean is the fill
    assert (jobs.images_explained, jobs.images_ranked) == (TEST, 2 * TEST)
    assert jobs.images_scored == (1 + 2) * TEST + TEST
    assert jobs.disk == (TRAIN + TEST) * SCALARS + TEST * 2 * 3 * SCALARS // 8 + 3 * (TEST // 8 + 2000)
    assert jobs.memory == 4 * (64 * (COST.activations + 2 * SCALARS) + COST.parameters)  # 64 images' two maps


def test_count_work_skips_existing_shared_inputs():
    points = list_planned_runs(SUITE)
    done = [point for point in points if point.cell.estimator in (CLEAN, "random")]
    jobs = count_work(SUITE, [point for point in points if point not in done], existing=list_shared_inputs(SUITE, done))
    assert jobs.trainings == 2 * 2 * 2  # the reference was scored, so it is there
    assert jobs.images_ranked == 2 * (TRAIN + TEST)
    explained = [point for point in points if point.cell.estimator == "grad"]
    rest = [point for point in points if point not in explained]
    work = count_work(SUITE, rest, existing=list_shared_inputs(SUITE, explained))
    assert work.images_explained == 15 * (TRAIN + TEST)
    assert count_work(SUITE, [])._replace(memory=0, train=0) == WorkCounts(*[0] * len(WorkCounts._fields))


def test_count_maps_and_sandboxes_equals_count_work():
    """Each of three networks needs maps of the submission and of its untrained twin."""
    suite, maps = find_builtin_suite("quick@6"), (TRAIN + 2 * TEST) * 3
    joined = add_estimators_with_twins(suite, [MINE])
    work = count_work(joined, list_planned_runs(joined))
    # 512 images of 64 pixels per sandbox, for each of three networks and its untrained twin
    sandboxes = 3 * (-(-TRAIN // 512) + 2 * -(-TEST // 512))
    assert count_maps_and_sandboxes(suite, MINE) == (maps, sandboxes) == (work.images_submitted, work.sandboxes)
    # a job ranks at most 512 images, however small they are: 2,000 for training and 1,000 for testing
    assert count_maps_and_sandboxes(find_builtin_suite("planted"), MINE) == (3000, 4 + 2)


WIDE = """
from torch import nn
def build(classes, channels, size):
    layers = nn.Conv2d(channels, 256, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, classes)
    return nn.Sequential(*layers)
"""


def test_cpu_explanation_batch_fits_activations_into_one_gigabyte():
    """Built-in networks of any size use batches of 64, because their maps are published."""
    own = SimpleNamespace(dataset=None, source=WIDE)
    wide = replace(SUITE, model="net.build@0", own=own)
    assert [choose_cpu_explanation_batch_size(one) for one in (SUITE, replace(SUITE, model="resnet50"))] == [64, 64]
    large = replace(wide, dataset="imagenette")  # of 128 pixels
    assert choose_cpu_explanation_batch_size(large) == 2**30 // (4 * (256 * 128 * 128 + 256 + 10)) == 63
