"""What runs need: counts by hand, and those of the paper."""

from collections import Counter
from contextlib import ExitStack
from dataclasses import replace

import pytest

from roarbench.datasets.catalogue import find_dataset
from roarbench.estimators import VARIANTS, ensembles
from roarbench.estimators.catalogue import TWINS
from roarbench.estimators.engine import maps_together
from roarbench.execution import importance, jobs, shards
from roarbench.execution.scheduler import complete
from roarbench.forecast.workload import Work, count_work
from roarbench.kernels import train
from roarbench.models.cost import network_cost
from roarbench.plan.points import expand
from roarbench.plan.runs import CLEAN
from roarbench.plan.shared_inputs import inputs_of
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite, with_entries
from roarbench.protocols.roar import ROAR
from roarbench.protocols.unretrained import MORF
from roarbench.submissions.checks import maps_of_run
from tests.helpers import tiny_suite

TRAIN, TEST = 9469, 3925  # images of imagenette64
RECIPES = {"recipe": "cifar10@1", "reference_recipe": "fashion-mnist@1"}  # 15 and 10 epochs
MORF_BLOCK = Block(MORF, ("random", "grad"), (0.9,), seeds=1)
BLOCKS = (Block(ROAR, ("random", "grad", "var-grad"), (0.5, 0.9), seeds=2), MORF_BLOCK)
SUITE = replace(tiny_suite.SUITE, name="hand", dataset="imagenette64", model="resnet-quick", blocks=BLOCKS, **RECIPES)
SCALARS = 3 * 64 * 64


def test_counts_of_a_fresh_suite_by_hand():
    jobs = count_work(SUITE, expand(SUITE))
    trainings = 2 + 3 * 2 * 2
    assert jobs.trainings == trainings + 1  # and the reference
    assert jobs.scorings == 1 + 2
    assert jobs.images_decoded == TRAIN + TEST
    assert jobs.images_retrained == trainings * 15 * TRAIN
    assert jobs.images_reference == 10 * TRAIN
    assert jobs.images_trained == (trainings * 15 + 10) * TRAIN
    assert jobs.images_scored == (trainings + 3) * TEST + TRAIN + TEST  # the reference says its targets
    assert jobs.images_explained == (1 + 15) * (TRAIN + TEST)  # a gradient, and 15 of noisy copies
    assert jobs.copies_drawn == 15 * (TRAIN + TEST)
    assert jobs.images_ranked == 3 * (TRAIN + TEST)
    planes = 3 * 3 * SCALARS // 8  # rankings, planes, bytes
    assert jobs.disk == (TRAIN + TEST) * (SCALARS + planes) + (trainings + 3) * TEST // 8
    assert jobs.sealing == 2 * TRAIN * 3 * SCALARS // 8


def test_noise_is_counted_once_for_all_that_share_it():
    """By both forms, references and the blurred twin; a network with random weights is explained in its own jobs."""
    names = ("random", "grad", "var-grad", "sg-ig", "sg-ig~blurred", "sg-grad~untrained")
    suite = replace(SUITE, references=2, blocks=(Block(ROAR, names, (0.9,), seeds=2),))
    assert count_work(suite, expand(suite)).copies_drawn == 2 * 15 * (TRAIN + TEST)


def test_shapley_values_take_every_coalition_of_the_columns_that_there_are(monkeypatch):
    table = replace(find_dataset("breast-cancer-10"), channels=12)
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: table)
    blocks = (Block(ROAR, ("random", "shapley"), (0.9,), seeds=1),)
    suite = replace(SUITE, dataset="breast-cancer-10", model="mlp", recipe="tabular@1", blocks=blocks)
    rows = table.train_images + table.test_images
    assert count_work(suite, expand(suite)).images_explained == 2**12 * rows


@pytest.mark.slow
def test_a_run_does_what_was_counted(store, tmp_path, monkeypatch):
    """Images are counted where the work is done: those that are trained on, scored, explained and ranked."""
    blocks = (Block(ROAR, ("random", "grad", "var-grad", "ig"), (0.5,), seeds=1), MORF_BLOCK)
    suite = replace(tiny_suite.SUITE, blocks=blocks)
    done = Counter()

    def counting(what, real, count):
        return lambda *arguments: (done.update({what: count(*arguments)}), real(*arguments))[1]

    def maps(subjects, *arguments):
        models = [subject.model for subject in subjects if subject.model is not None]
        with ExitStack() as hooks:
            for model in models:
                hook = model.register_forward_pre_hook(lambda _, images: done.update(explained=len(images[0])))
                hooks.enter_context(hook)
            return maps_together(subjects, *arguments)

    step = train._Training._add_gradients
    trained = counting("trained", step, lambda self, index, drawn: len(index))
    monkeypatch.setattr(train._Training, "_add_gradients", trained)
    monkeypatch.setattr(jobs, "predict", counting("scored", jobs.predict, lambda model, inputs, *_: len(inputs)))
    ranked = counting("ranked", shards.planes_of, lambda importance, *_: len(importance))
    monkeypatch.setattr(shards, "planes_of", ranked)
    monkeypatch.setattr(importance, "maps_together", maps)
    draws = counting("drawn", ensembles.noise_draws, lambda images, ids, *_: len(ids))
    monkeypatch.setattr(ensembles, "noise_draws", draws)
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: tiny_suite.RECORD)
    work = tiny_suite.make_work(tmp_path, suite)
    events = list(complete(work, tiny_suite.make_runs(work, suite), store, tiny_suite.InlineEngine()))
    assert not any(event.failure for event in events)
    counted = count_work(suite, expand(suite))
    kinds = ("trained", "scored", "explained", "ranked")
    assert done == {"drawn": counted.copies_drawn} | {kind: getattr(counted, f"images_{kind}") for kind in kinds}


def test_where_nothing_is_retrained_the_training_images_are_neither_ranked_nor_predicted():
    suite = replace(SUITE, given="w@0", blocks=(MORF_BLOCK,))
    jobs = count_work(suite, expand(suite))
    assert (jobs.trainings, jobs.scorings) == (0, 1 + 2)
    assert jobs.images_decoded == TRAIN + TEST  # their mean is the fill
    assert (jobs.images_explained, jobs.images_ranked) == (TEST, 2 * TEST)
    assert jobs.images_scored == (1 + 2) * TEST + TEST
    assert jobs.disk == (TRAIN + TEST) * SCALARS + TEST * 2 * 3 * SCALARS // 8 + 3 * TEST // 8
    cost = network_cost("resnet-quick", 10, 3, 64)
    assert jobs.memory == 4 * (64 * (cost.activations + 2 * SCALARS) + cost.parameters)  # 64 images' two maps


def test_a_blurred_twin_shares_the_maps_of_its_submission_and_others_have_their_own():
    names = ("random", "mine@12345678", *(f"mine@12345678~{twin}" for twin in TWINS))
    suite = replace(SUITE, blocks=(Block(ROAR, names, (0.9,), seeds=1),))
    assert count_work(suite, expand(suite)).images_submitted == (1 + len(VARIANTS)) * (TRAIN + TEST)


def test_what_is_done_is_not_counted_again():
    points = expand(SUITE)
    done = [point for point in points if point.cell.estimator in (CLEAN, "random")]
    todo = [point for point in points if point not in done]
    jobs = count_work(SUITE, todo, there=inputs_of(SUITE, done))
    assert jobs.trainings == 2 * 2 * 2  # the reference was scored, so it is there
    assert jobs.images_ranked == 2 * (TRAIN + TEST)
    explained = [point for point in points if point.cell.estimator == "grad"]
    rest = [point for point in points if point not in explained]
    assert count_work(SUITE, rest, there=inputs_of(SUITE, explained)).images_explained == 15 * (TRAIN + TEST)
    nothing = count_work(SUITE, [])
    assert nothing._replace(memory=0, train=0) == Work(*[0] * len(Work._fields))


def test_a_small_version_counts_its_images():
    for limit, fitted, asked in ((40, 40, 40), (5000, 5000, TEST)):
        jobs = count_work(SUITE, expand(SUITE), limit)
        assert (jobs.images_trained, jobs.images_ranked) == ((14 * 15 + 10) * fitted, 3 * (fitted + asked))


def test_the_papers_eighteen_are_one_shared_pass():
    suite = replace(find_suite("imagenette64"), references=1)
    points = [point for point in expand(suite) if "~" not in point.cell.estimator]
    assert count_work(suite, points).images_explained == 400 * (TRAIN + TEST)  # docs/protocol.md, section 3


def test_memory_is_that_of_a_training_step_or_of_a_batch_of_maps():
    """By hand: numbers that the layers put out for a batch, three copies of the weights, one level's removed bits.

    And all images in bfloat16, 72 pixels a side with what is mirrored around them.
    """
    cost = network_cost("resnet-quick", 10, 3, 64)
    step = 128 * (cost.activations + SCALARS) + 3 * cost.parameters  # 128 images at once: the batch of cifar10@1
    jobs = count_work(SUITE, expand(SUITE))
    assert jobs.memory == 4 * step + TRAIN * SCALARS // 8 + TRAIN * 3 * 72 * 72 * 2
    assert count_work(SUITE, expand(SUITE), 20).memory < jobs.memory / 2


@pytest.mark.parametrize(
    ("name", "maps"), [("quick-matched", 1000 * 3 * 2), ("quick", (9469 + 2 * 3925) * 3)], ids=["tested", "trained"]
)
def test_validate_and_a_forecast_count_the_same_maps(name: str, maps: int) -> None:
    """Three references, and of each the submission's own maps and those of its untrained twin."""
    suite, row = find_suite(name), "mine@1a2b3c4d"
    joined = with_entries(suite, [row])
    assert maps_of_run(suite, row) == maps == count_work(joined, expand(joined)).images_submitted
