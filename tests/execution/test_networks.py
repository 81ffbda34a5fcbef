"""Networks that score many runs: trained once, tuned once for each row, and asked twice about every image."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from roarbench.analysis.boards import SuiteResults
from roarbench.estimators import CONTROLS
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.pairing import other_images
from roarbench.execution import common_networks as networks
from roarbench.execution import jobs as execution_jobs
from roarbench.execution.job_graph import steps
from roarbench.execution.placed_inputs import without
from roarbench.forecast.plan import missing_work
from roarbench.forecast.workload import count_work
from roarbench.kernels.bit_planes import removed_bits
from roarbench.kernels.exchange import ExchangedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.scoring import predict
from roarbench.kernels.streaming import Cut
from roarbench.kernels.train import fit
from roarbench.plan.common import common_network, tuning_of
from roarbench.plan.points import expand
from roarbench.plan.recipes import find_recipe
from roarbench.plan.runs import CLEAN
from roarbench.plan.shared_inputs import SharedInputs, inputs_of
from roarbench.plan.suite import Block
from roarbench.protocols.augmented import AUGMENTED
from roarbench.protocols.exchanged import ROAR_EXCHANGED
from roarbench.protocols.matched import MATCHED
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.store.made_inputs import made_inputs
from roarbench.store.references import checksum
from roarbench.terms import PAPER_LEVELS, Order, Retrain, Split, Unit
from tests.helpers.tiny_suite import RECORD, SUITE, TEST, TRAIN, completed, rankings_of, score

pytestmark = pytest.mark.slow

ROWS = ("random", "grad", "truth")
BLOCKS = (
    *(Block(protocol, ROWS, (0.5, 0.9), seeds=2) for protocol in (SPECIFIC, AUGMENTED)),
    *(Block(protocol, ROWS[:2], (0.9,), seeds=1) for protocol in (ROAR_EXCHANGED, ROAR)),
)
COMMON = replace(SUITE, name="common", blocks=BLOCKS, references=2)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    with completed(tmp_path_factory.mktemp("common"), COMMON) as made:
        yield made


def test_each_network_is_made_once_before_the_runs_that_it_scores(done):
    work, runs, jobs, _ = done
    made = [name for name in jobs if name.startswith("network")]
    tuned = [name for name in jobs if name.startswith("tune")]
    assert sorted(made) == ["network morf scalar 0", "network morf scalar 1"]
    assert sorted(tuned) == sorted(f"tune {row} morf scalar {seed}" for row in ROWS for seed in (0, 1))
    scored = [run.key for run in runs if run.cell.retrain is Retrain.COMMON and run.cell.estimator != CLEAN]
    assert max(map(jobs.index, made)) < min(map(jobs.index, tuned))
    assert max(map(jobs.index, tuned)) < min(map(jobs.index, scored))
    assert steps(work, []) == []


def cuts(work, names, number=0, split=Split.TRAIN):
    """What the training images lose by the maps of these rows, in the order in which it is drawn."""
    specs = [work.ranking_spec(find_estimator(name), Unit.SCALAR, number) for name in names]
    found = [work.place.rankings.open(spec) for spec in specs]
    return [Cut(each.planes(split), each.layout, t, Order.MORF) for each in found for t in (0.0, *PAPER_LEVELS)]


def trained(work, seed, draws, chosen, model=None, recipe=None, mean=None, lent=False):
    """A network trained here on exchanged masks, without the jobs."""
    mean = torch.tensor(work.images.mean) if mean is None else mean
    model = model or work.place.network("resnet-planted", seed)
    pixels = torch.from_numpy(work.images[Split.TRAIN].pixels)
    generator = torch.Generator().manual_seed(networks.EXCHANGE + draws)
    inputs = ExchangedImages(pixels, tuple(chosen), mean, Unit.SCALAR, generator, lent=lent)
    labels = torch.from_numpy(work.images.train.labels)
    fit(model, inputs, labels, Normalisation.of(work.images), recipe or find_recipe("planted@1"), draws)
    return model


@pytest.fixture(scope="module")
def lent(tmp_path_factory):
    """The specific part of the suite with networks tuned on masks of test images."""
    suite = replace(COMMON, name="lent", blocks=BLOCKS[:2], tuned_on=Split.TEST)
    with completed(tmp_path_factory.mktemp("lent"), suite) as made:
        yield made


@pytest.mark.parametrize("tuned_on", Split)
def test_the_common_network_has_met_the_controls_and_the_tuned_one_its_row(request, tuned_on):
    """Its masks of training images or, lent to them, of test images."""
    is_lent = tuned_on is Split.TEST
    work, runs, _, _ = request.getfixturevalue("lent" if is_lent else "done")
    run = next(run for run in runs if (run.cell.estimator, run.cell.retrain, run.seed) == ("grad", "common", 1))
    common = trained(work, 1, 1, cuts(work, CONTROLS))
    key = common_network(work.suite, work.images.fingerprint, Order.MORF, Unit.SCALAR, 1).key
    assert checksum(work.place.networks.weights(key)) == checksum(common.state_dict())
    recipe, masks = tuning_of(find_recipe("planted@1")), cuts(work, ["grad"], 1, tuned_on)
    tuned = trained(work, 1, 1_000_001, masks, common, recipe, lent=is_lent)
    found = networks.scoring_network(work.place, run, rankings_of(work, run))
    assert checksum(found.state_dict()) == checksum(tuned.state_dict())


def answers(work, run, donors):
    """Correct answers of the network that scores a run; image i loses what image donors[i] ranks first."""
    rankings = rankings_of(work, run)
    bits = removed_bits(rankings.planes(Split.TEST), run.cell.t, Order.MORF, rankings.layout)
    images = without(work.images, Split.TEST, bits[donors], run.cell)
    model = networks.scoring_network(work.place, run, rankings)
    return predict(model, images, Normalisation.of(work.images), 64).argmax(1).numpy() == work.images.test.labels


def test_each_image_is_answered_with_its_own_map_and_with_another_ones(done):
    work, runs, _, store = done
    for run in runs:
        if run.cell.retrain is Retrain.COMMON and run.cell.estimator != CLEAN:
            own, others = np.arange(TEST), other_images(TEST, 2**32, run.seed)
            assert all(others != own)
            expected = answers(work, run, others if "~" in run.cell.estimator else own)
            np.testing.assert_array_equal(store.results([run.key])[run.key].answers, expected, err_msg=str(run.cell))


FILLED = tuple(Block(MATCHED, ROWS[:2], (0.5,), 1, fill=fill) for fill in ("zero", "mean"))
BLACK = replace(COMMON, name="black", blocks=FILLED, references=1)


def test_a_common_network_meets_the_fill_that_its_runs_have(tmp_path):
    """Black is the mean of a data set whose mean is black: networks, strata and answers are derived with that."""
    with completed(tmp_path, BLACK) as (work, runs, jobs, store):
        made = [name for name in jobs if name.startswith("network")]
        assert made == ["network morf scalar zero 0", "network morf scalar 0"]
        untouched = [run for run in runs if run.cell.estimator == CLEAN]
        assert [run.cell.fill for run in untouched] == ["zero", "mean"]
        assert len({run.network for run in runs}) == 2
        black = torch.zeros(3)
        common = trained(work, 0, 0, cuts(work, CONTROLS), mean=black)
        assert checksum(work.place.networks.weights(untouched[0].network)) == checksum(common.state_dict())
        tuned = trained(work, 0, 1_000_000, cuts(work, ["grad"]), common, tuning_of(find_recipe("planted@1")), black)
        for run in (run for run in runs if (run.cell.fill, run.cell.ranked_by) == ("zero", find_estimator("grad"))):
            own = networks.scoring_network(work.place, run, rankings_of(work, run))
            assert checksum(own.state_dict()) == checksum(tuned.state_dict())
            norm = Normalisation.of(work.images)
            blackened = replace(work, images=replace(work.images, mean=(0.0, 0.0, 0.0)))
            found = store.results([run.key])[run.key].answers
            mean = replace(run, cell=replace(run.cell, fill="mean"))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(execution_jobs, "scoring_network", lambda *_, own=own: own)
                patch.setattr(Normalisation, "of", lambda _, norm=norm: norm)
                np.testing.assert_array_equal(found, score(blackened, mean).answers)


def test_exchanged_roar_trains_on_other_images_maps_and_is_tested_on_its_own(done, monkeypatch):
    work, runs, _, store = done
    run = next(run for run in runs if (run.cell.estimator, run.cell.retrain) == ("grad", Retrain.EXCHANGED))
    rankings = rankings_of(work, run)
    model = trained(work, 0, 0, [Cut(rankings.planes(Split.TRAIN), rankings.layout, 0.9, Order.MORF)])
    monkeypatch.setattr(networks, "scoring_network", lambda *_: model)
    np.testing.assert_array_equal(store.results([run.key])[run.key].answers, answers(work, run, np.arange(TEST)))


def test_a_row_needs_maps_of_test_images_alone_where_networks_are_tuned_on_theirs(lent, done):
    work, _, jobs, _ = lent
    assert {name for name in jobs if name.startswith("rank trained")} == {"rank trained test 0"}
    controls = {name for name in jobs if name.startswith("rank controls")}
    assert controls == {"rank controls train 0", "rank controls test 0"}
    assert {name for name in done[2] if name.startswith("rank trained")} >= {"rank trained train 0"}
    for name, splits in (("grad", {Split.TEST}), ("random", set(Split))):
        assert work.place.rankings.open(work.ranking_spec(find_estimator(name), Unit.SCALAR)).splits.keys() == splits


def test_the_plan_counts_common_trainings_once_tuning_by_rows_and_training_maps_where_they_are_needed():
    suite = replace(COMMON, blocks=BLOCKS[:2])
    before, after = (count_work(each, expand(each)) for each in (suite, replace(suite, tuned_on=Split.TEST)))
    recipe, record = find_recipe("planted@1"), suite.dataset_record
    train, test = record.train_images, record.test_images
    assert before.trainings - before.references == 2
    assert before.images_retrained == train * (2 * recipe.epochs + 6 * 1)
    assert before.images_ranked - after.images_ranked == 3 * train  # truth, and grad by two references
    assert before.images_explained * test == after.images_explained * (train + test)
    assert after.disk < before.disk


def test_a_plan_counts_nothing_that_the_folder_has(done, monkeypatch):
    monkeypatch.setattr("roarbench.plan.suite.find_dataset", lambda name: RECORD)
    work, points, data = done[0], expand(COMMON), done[0].images.fingerprint
    assert made_inputs(work.workspace, COMMON, data, points) == inputs_of(COMMON, points)
    plan = missing_work(SuiteResults(COMMON, data, None, {}), work.workspace)
    own = sum(point.cell.retrain in (Retrain.IMAGES, Retrain.EXCHANGED) for point in points)
    assert (plan.trainings, plan.references, plan.images_ranked, plan.images_explained) == (own, 0, 0, 0)
    assert plan.images_retrained == own * TRAIN * find_recipe(COMMON.recipe).epochs  # and no tuning
    assert plan.images_scored == len(points) * TEST
    assert made_inputs(work.workspace, COMMON, "other", points) == SharedInputs()


def test_the_networks_key_has_all_that_fixes_it():
    keys = {
        common_network(suite, data, order, unit, seed, fill).key
        for suite in (COMMON, replace(COMMON, recipe="quick@2"))
        for data in ("da7a", "0ther")
        for order in Order
        for unit in Unit
        for seed in (0, 1)
        for fill in ("mean", "zero")
    }
    assert len(keys) == 2 * 2 * 2 * len(Unit) * 2 * 2
