"""The named suites are made of things that exist; a part of one has its controls, its rows, what was submitted."""

from dataclasses import replace

import pytest

from roarbench.datasets.catalogue import DATASETS, find_dataset
from roarbench.errors import CallerError, UnknownName
from roarbench.estimators.catalogue import find_estimator
from roarbench.kernels.ranking import removed_count
from roarbench.models import MODELS
from roarbench.plan.choosing import part_of
from roarbench.plan.points import expand
from roarbench.plan.recipe import Augmentation
from roarbench.plan.recipes import RECIPES, find_recipe
from roarbench.plan.suites import FAST, SUITES, VERSIONS, find_suite
from roarbench.protocols.mask_only import MASK_ONLY
from roarbench.protocols.roar import ROAR
from roarbench.terms import Unit

MINE = "mine@1a2b3c4d"
MATCHED, EXCHANGED = find_suite("quick-matched"), find_suite("quick-exchanged")
CONTROLS = MATCHED.estimators[:7]


def test_a_name_stands_for_its_newest_version():
    newest = {name: max(version for other, version in VERSIONS if other == name) for name, _ in VERSIONS}
    assert {name: suite.version for name, suite in SUITES.items()} == newest
    assert find_suite("imagenet-noretrain").version == 2
    for name in newest:  # those without a row anywhere are gone
        numbers = [number for other, number in VERSIONS if other == name]
        assert numbers == sorted(set(numbers))


@pytest.mark.parametrize("suite", VERSIONS.values(), ids=[f"{name}-v{n}" for name, n in VERSIONS])
def test_a_suite_is_made_of_things_that_exist_and_can_be_judged(suite):
    assert (suite.dataset in DATASETS, suite.model in MODELS) == (True, True)
    assert {suite.recipe, suite.reference_recipe} <= set(RECIPES)
    assert {block.fill for block in suite.blocks} == {"mean"}
    assert ("truth" in suite.estimators) == suite.dataset.startswith("planted")  # where it is known
    for estimator in suite.estimators:
        find_estimator(estimator)
    judged = [block for block in suite.blocks if block.protocol is not MASK_ONLY]  # masks of Random say nothing
    held = {(block.protocol, block.unit) for block in judged if "random" in block.estimators}
    assert held == {(block.protocol, block.unit) for block in judged}
    for cell in {point.cell for point in expand(suite)}:
        record = find_dataset(suite.dataset)
        d = record.size**2 * (record.channels if cell.unit is Unit.SCALAR else 1)
        assert cell.t == 0 or 0 < removed_count(cell.t, d) < d  # something goes, and something stays
        estimator = cell.estimator_record  # twins of other images, which paired protocols ask for, among them
        assert estimator is None or estimator.id == cell.estimator
        assert estimator is None or cell.ranked_by or estimator.form == "redrawn"


def test_a_fast_suite_is_the_other_ones_experiment_by_another_recipe():
    for name, of in FAST.items():
        fast, slow = find_suite(name), find_suite(of.of)
        assert fast.recipe == f"{slow.name}-fast@1"
        told = {"name": slow.name, "about": slow.about, "recipe": slow.recipe}
        assert replace(fast, **told) == slow  # the same reference, so the same rankings


def test_second_versions_retrain_with_moved_images_by_as_many_references_as_seeds():
    moved = {Augmentation.SHIFT_FLIP, Augmentation.CROP_FLIP}
    for suite in SUITES.values():
        trained = [block for block in suite.blocks if block.protocol is ROAR]
        if trained and suite.version > 1:
            assert find_recipe(suite.recipe).augmentation in moved
            assert suite.references == max(block.seeds for block in trained) >= 3


def test_an_unknown_suite_is_guessed():
    with pytest.raises(UnknownName, match="no suite 'quikc'; did you mean 'quick'"):
        find_suite("quikc")
    with pytest.raises(UnknownName, match="no suite 'zzz'; known: birdsnap, breast-cancer, breast-cancer-10, cifar10"):
        find_suite("zzz")


def test_rows_that_are_named_and_what_was_submitted_stand_beside_every_control():
    assert part_of(MATCHED, ["grad"]).estimators == (*CONTROLS, "grad")
    assert part_of(MATCHED, ["deviation"]).estimators == CONTROLS
    assert part_of(MATCHED) == MATCHED
    assert part_of(MATCHED, [], [MINE]).estimators == (*CONTROLS, MINE, f"{MINE}~untrained")
    assert {*part_of(MATCHED, None, [MINE]).estimators} == {*MATCHED.estimators, MINE, f"{MINE}~untrained"}
    added = set(part_of(EXCHANGED, [], [MINE]).estimators) - set(part_of(EXCHANGED, []).estimators)
    assert added == {MINE, f"{MINE}~other-image", f"{MINE}~same-class"}
    assert set(part_of(EXCHANGED, ["grad"]).estimators) == {"random", "random-blurred", "sobel", "grad"}


def test_a_part_may_have_one_protocol_and_fewer_seeds():
    part = part_of(EXCHANGED, None, (), 2, "roar")
    assert {block.protocol.name for block in part.blocks} == {"roar"} and part.references == 2
    with pytest.raises(CallerError, match="--seeds 0 and 1 references: .* write --seeds 1 or more"):
        part_of(MATCHED, seeds=0)
