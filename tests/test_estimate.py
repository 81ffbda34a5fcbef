"""What runs cost: counts by hand, and rates that are measured."""

from dataclasses import replace

import pytest

from roarbench import estimate
from roarbench.estimate import Rates, Work, count_work, measure
from roarbench.plan import CLEAN, Block, Suite, expand
from roarbench.session import Plan
from roarbench.suites import find_suite
from roarbench.terms import MORF, ROAR, Unit

TRAIN, TEST = 9469, 3925  # images of imagenette64
SUITE = Suite(
    name="hand",
    version=1,
    about="",
    dataset="imagenette64",
    model="resnet-quick",
    recipe="cifar10@1",  # 15 epochs
    reference_recipe="fashion-mnist@1",  # 10 epochs
    blocks=(
        Block(ROAR, ("random", "grad", "var-grad"), (0.5, 0.9), seeds=2),
        Block(MORF, ("random", "grad"), (0.9,), seeds=1),
    ),
)
SCALARS = 3 * 64 * 64


def test_counts_of_a_fresh_suite_by_hand():
    work = count_work(SUITE, expand(SUITE), (), None)
    trainings = 2 + 3 * 2 * 2
    assert work.trainings == trainings + 1  # and the reference
    assert work.scorings == 1 + 2
    assert work.images_trained == (trainings * 15 + 10) * TRAIN
    assert work.images_scored == (trainings + 3) * TEST + TRAIN + TEST  # the reference says its targets
    assert work.images_explained == (1 + 15) * (TRAIN + TEST)  # a gradient, and 15 of noisy copies
    assert work.images_ranked == 3 * (TRAIN + TEST)
    planes = 3 * 3 * SCALARS // 8  # rankings, planes, bytes
    assert work.disk == (TRAIN + TEST) * (SCALARS + planes) + (trainings + 3) * TEST // 8


def test_controls_alone_need_no_reference():
    suite = replace(SUITE, blocks=(Block(ROAR, ("random", "sobel"), (0.9,), seeds=1),))
    work = count_work(suite, expand(suite), (), None)
    assert (work.trainings, work.images_explained) == (3, 0)
    assert work.images_trained == 3 * 15 * TRAIN
    assert work.images_scored == 3 * TEST


def test_the_reference_is_needed_where_it_is_scored():
    suite = replace(SUITE, blocks=(Block(MORF, ("random",), (0.9,), seeds=1),))
    work = count_work(suite, expand(suite), (), None)
    assert (work.trainings, work.scorings, work.images_explained) == (1, 2, 0)
    assert work.images_trained == 10 * TRAIN


def test_what_is_done_is_not_counted_again():
    points = expand(SUITE)
    done = [point for point in points if point.cell.estimator in (CLEAN, "random")]
    todo = [point for point in points if point not in done]
    work = count_work(SUITE, todo, done, None)
    assert work.trainings == 2 * 2 * 2  # the reference was scored, so it is there
    assert work.images_ranked == 2 * (TRAIN + TEST)
    explained = [point for point in points if point.cell.estimator == "grad"]
    rest = [point for point in points if point not in explained]
    assert count_work(SUITE, rest, explained, None).images_explained == 15 * (TRAIN + TEST)
    nothing = count_work(SUITE, [], points, None)
    assert nothing._replace(disk=0) == Work(0, 0, 0, 0, 0, 0, 0)


def test_another_unit_is_another_ranking_of_the_same_map():
    block = Block(ROAR, ("grad",), (0.9,), seeds=1)
    both = replace(SUITE, blocks=(block, replace(block, unit=Unit.PIXEL)))
    points = expand(both)
    work = count_work(both, points, (), None)
    assert work.images_ranked == 2 * (TRAIN + TEST)
    assert work.images_explained == TRAIN + TEST
    scalar = [point for point in points if point.cell.unit is Unit.SCALAR]
    pixel = [point for point in points if point.cell.unit is Unit.PIXEL]
    rest = count_work(both, pixel, scalar, None)
    assert (rest.images_ranked, rest.images_explained) == (TRAIN + TEST, TRAIN + TEST)


def test_a_redrawn_ranking_costs_a_training_and_no_map():
    suite = replace(SUITE, blocks=(Block(ROAR, ("random-redrawn",), (0.9,), seeds=1),))
    work = count_work(suite, expand(suite), (), None)
    assert (work.trainings, work.images_ranked, work.images_explained) == (2, 0, 0)


@pytest.mark.parametrize("limit, train, test", [(40, 40, 40), (5000, 5000, TEST), (10**6, TRAIN, TEST)])
def test_a_small_version_counts_its_images(limit, train, test):
    work = count_work(SUITE, expand(SUITE), (), limit)
    assert work.images_trained == (14 * 15 + 10) * train
    assert work.images_ranked == 3 * (train + test)


def test_the_papers_eighteen_are_one_shared_pass():
    suite = find_suite("imagenette64")
    points = [point for point in expand(suite) if "~" not in point.cell.estimator]
    assert count_work(suite, points, (), None).images_explained == 400 * (TRAIN + TEST)  # docs/protocol.md, section 3


def test_seconds_are_counts_times_rates():
    work = Work(9, 9, images_trained=2, images_scored=3, images_explained=5, images_ranked=7, disk=9)
    assert work.seconds(Rates(train=1, predict=10, explain=100, rank=1000)) == 2 + 30 + 500 + 7000


def test_rates_are_measured_per_image(monkeypatch):
    """A clock that each kernel moves on by its own seconds an image: the rates are those seconds."""
    clock = {"now": 0.0}

    def taking(seconds, images):
        def kernel(*arguments):
            clock["now"] += seconds * images(*arguments)
            return kernel.value

        kernel.value = {}
        return kernel

    steps = 8
    recipe = {}
    monkeypatch.setattr(estimate.time, "process_time", lambda: clock["now"])

    def fit(model, inputs, labels, norm, short, seed):
        recipe["steps"] = short.epochs * len(inputs) / short.batch
        clock["now"] += 2.0 * recipe["steps"] * short.batch

    monkeypatch.setattr(estimate, "fit", fit)
    monkeypatch.setattr(estimate, "predict", taking(3.0, lambda model, inputs, norm: len(inputs)))
    monkeypatch.setattr(estimate, "importance_maps", taking(5.0, lambda some, model, batch, black: len(batch.ids)))
    monkeypatch.setattr(estimate, "encode", taking(7.0, lambda keys, layout: len(keys)))
    rates = measure(find_suite("planted"))
    assert recipe["steps"] == pytest.approx(steps)
    assert rates == pytest.approx(Rates(2.0, 3.0, 5.0, 7.0))


def test_real_rates_are_seconds_above_zero():
    assert all(0 < rate < 1 for rate in measure(find_suite("planted")))


def test_a_plan_in_words_and_as_a_record():
    work = Work(9, 2, 3600, 10, 7200, 20, 5_000_000)
    plan = Plan("hand v1", 12, 3, work, Rates(1.0, 0.0, 0.5, 0.0), workers=2)
    assert plan.seconds == (3600 + 3600) / 2
    assert plan.text().splitlines() == [
        "hand v1: 12 runs, 3 done, 9 to do",
        "  9 trainings   60 min of one core (3,600 images)",
        "  importance maps  60 min of one core (7,200 passes)",
        "  ranking, scoring 0 s of one core (20 rankings)",
        "  together about 60 min with 2 workers, by a measurement just now",
        "  disk 5 MB",
    ]
    record = plan.record()
    assert (record["suite"], record["runs"], record["done"], record["seconds"]) == ("hand v1", 12, 3, 3600)
    assert record["work"]["trainings"] == 9
    assert record["work"]["core_seconds"] == 7200
