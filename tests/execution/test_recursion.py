"""Recursive ROAR: its chain derived again, its levels nested, each stage trained once, and what it refuses."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from roarbench.errors import CallerError, RunError
from roarbench.execution import recursion
from roarbench.execution.job_graph import steps
from roarbench.execution.placed_inputs import without
from roarbench.execution.recursion import recursive_stage
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.ranking import removed_count
from roarbench.kernels.train import fit
from roarbench.plan.runs import check_fill
from roarbench.plan.suite import Block
from roarbench.plan.suites import find_suite, with_entries
from roarbench.protocols.recursive import ROAR_RECURSIVE
from roarbench.protocols.roar import ROAR
from roarbench.terms import Retrain, Split
from tests.helpers import slow_pipeline as slow
from tests.helpers.tiny_suite import SUITE, make_runs, make_work, rankings_of, removed, score_all

pytestmark = pytest.mark.slow

LEVELS, ROWS = (0.1, 0.3, 0.5), ("random", "grad", "class-template")
BLOCKS = (Block(ROAR_RECURSIVE, ROWS, LEVELS, seeds=1), Block(ROAR, ROWS, (0.1,), seeds=1))
RECURSIVE = replace(SUITE, name="recursive", blocks=BLOCKS)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Context, runs by estimator and level, what was scored, and the trainings after the reference's."""
    work, trained = make_work(tmp_path_factory.mktemp("recursion"), RECURSIVE), []
    runs = make_runs(work, RECURSIVE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recursion, "fit", lambda *given: trained.append(given[5]) or fit(*given))
        return work, runs, score_all(work, runs), trained


def run_at(runs, name, t, retrain=Retrain.RECURSIVE):
    return next(r for r in runs if (r.cell.estimator, r.cell.t, r.cell.retrain) == (name, t, retrain))


def gone(work, run, split):
    stage = recursive_stage(work.place, run, rankings_of(work, run))
    return np.unpackbits(stage.removed[split], axis=1, count=3 * 8 * 8).astype(bool)


@pytest.mark.parametrize("name", ROWS)
def test_levels_are_nested_and_exact_from_that_of_roar_on_and_each_is_trained_once(done, name):
    work, runs, scored, trained = done
    assert len(trained) == len(ROWS) * len(LEVELS)
    assert len(scored) == len(ROWS) * (len(LEVELS) + 1) + 1  # ROAR's, and untouched images
    for split in Split:
        before = np.zeros((1, 192), bool)
        for t in LEVELS:
            now = gone(work, run_at(runs, name, t), split)
            assert (now.sum(1) == removed_count(t, 192)).all()
            assert (now >= before).all()
            before = now
    one, other = scored[run_at(runs, name, 0.1)], scored[run_at(runs, name, 0.1, Retrain.IMAGES)]
    assert one.bits == other.bits
    assert one.smoothness == other.smoothness


def test_the_gradient_at_its_second_level_again(done):
    work, runs, scored, _ = done
    run, low = run_at(runs, "grad", 0.3), gone(work, run_at(runs, "grad", 0.1), Split.TRAIN)
    train, norm = work.images.train, Normalisation.of(work.images)
    images = without(work.images, Split.TRAIN, np.packbits(low, axis=1), run.cell)
    model = work.place.start(run.cell.model, run.recipe_record, 0)
    fit(model, images, torch.from_numpy(train.labels), norm, run.recipe_record, 0)
    weights, removed_before = model.state_dict(), low.reshape(train.pixels.shape)
    left = slow.normalised(slow.degraded(train.pixels, removed_before, work.images.mean), *norm)
    maps = slow.gradient_maps(weights, left, slow.logits(weights, torch.from_numpy(left)).argmax(1).numpy())
    maps[removed_before] = np.inf  # they stay removed
    expected = slow.removed_features(maps, 0, 0.3, "morf", "scalar").reshape(low.shape)
    found = gone(work, run, Split.TRAIN)
    assert (found == expected).mean() > 0.999  # a convolution rounds otherwise for another batch
    assert not np.array_equal(found, gone(work, run_at(runs, "random", 0.3), Split.TRAIN))
    assert not np.array_equal(found, removed(rankings_of(work, run), Split.TRAIN, 0.3))  # what ROAR removes there


def test_a_level_waits_for_the_one_below(done, tmp_path):
    _, runs, _, _ = done
    made = {step.run: step for step in steps(make_work(tmp_path, RECURSIVE), runs) if step.run}
    assert run_at(runs, "grad", 0.3).key in made[run_at(runs, "grad", 0.5)].needs
    assert run_at(runs, "grad", 0.1).key not in made[run_at(runs, "grad", 0.5)].needs
    assert not {run.key for run in runs} & set(made[run_at(runs, "grad", 0.1)].needs)


@pytest.mark.parametrize("name", ["random-redrawn", "grad~other-image", "grad~untrained"])
def test_what_cannot_be_explained_anew_fails_in_one_line(done, name):
    work, run = done[0], run_at(done[1], "grad", 0.3)
    other = replace(run, cell=replace(run.cell, estimator=name))
    with pytest.raises(RunError, match=f"^roar-recursive cannot explain {name} by scalar anew; leave it out$"):
        recursive_stage(work.place, other, None if name == "random-redrawn" else rankings_of(work, run))


def test_a_submission_gets_no_row_and_the_fill_is_the_mean():
    added = with_entries(replace(find_suite("quick"), blocks=BLOCKS), ["mine@01234567"])
    assert [("mine@01234567" in block.estimators) for block in added.blocks] == [False, True]
    with pytest.raises(CallerError, match="where importance is found anew write the fill mean"):
        check_fill("blur", Retrain.RECURSIVE)
