"""Named suites, parts of suites, and recipes with their learning rates."""

import subprocess
import sys
from dataclasses import replace
from math import prod

import pytest

from roarbench.common.errors import CallerError, UnknownName
from roarbench.common.identity import make_json_record
from roarbench.compute.ranking import count_removed
from roarbench.compute.recipe import Augmentation, Decay, Recipe, compute_image_side, compute_learning_rate
from roarbench.datasets.catalogue import find_dataset
from roarbench.plan.planned_runs import list_planned_runs
from roarbench.plan.protocols import MASK_ONLY
from roarbench.plan.recipes import RECIPES, change_recipe, find_recipe, make_fine_tuning_recipe
from roarbench.plan.settings import Settings
from roarbench.plan.suite_changes import apply_selection_options
from roarbench.plan.suites import (
    SUITE_VERSIONS,
    SUITES,
    find_builtin_suite,
    make_renamed_suite_text,
    parse_suite,
)

MINE = "mine@1a2b3c4d"
MATCHED, PAPER = find_builtin_suite("quick-matched"), find_builtin_suite("imagenette64")
CONTROLS = MATCHED.estimators[:7]


def test_only_the_file_of_a_suite_in_use_is_read():
    code = "from roarbench.plan.suites import *; find_builtin_suite('quick'); print(read_builtin_suite.cache_info())"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "currsize=1" in ended.stdout


def test_find_suite_returns_newest_version():
    newest = {name: max(version for other, version in SUITE_VERSIONS if other == name) for name, _ in SUITE_VERSIONS}
    assert {name: suite.version for name, suite in SUITES.items()} == newest
    assert [(suite.name, suite.version) for suite in SUITE_VERSIONS.values()] == [*SUITE_VERSIONS]
    assert find_builtin_suite("imagenet-noretrain").version == 2
    with pytest.raises(UnknownName, match="no suite 'quikc'; did you mean 'quick'"):
        find_builtin_suite("quikc")


@pytest.mark.parametrize("suite", SUITE_VERSIONS.values(), ids=[f"{name}-v{n}" for name, n in SUITE_VERSIONS])
def test_suite_removes_some_features_and_has_random_controls(suite):
    judged = [block for block in suite.blocks if block.protocol is not MASK_ONLY]  # random masks hold no information
    held = {(block.protocol, block.unit) for block in judged if "random" in block.estimators}
    assert held == {(block.protocol, block.unit) for block in judged}
    for cell in {point.cell for point in list_planned_runs(suite)}:
        features = prod(cell.unit.grid(find_dataset(suite.dataset).shape))
        assert cell.t == 0 or 0 < count_removed(cell.t, features) < features
        assert cell.estimator_record is None or cell.estimator_record.id == cell.estimator


def select(suite, estimators=None, submissions=(), **settings):
    return apply_selection_options(suite, Settings(estimators=estimators, **settings), submissions)


def test_apply_selection_options_keeps_controls():
    assert select(MATCHED, ("grad",)).estimators == (*CONTROLS, "grad")
    assert select(MATCHED, ("deviation",)).estimators == CONTROLS
    assert select(MATCHED) == MATCHED
    assert select(MATCHED, (), [MINE]).estimators == (*CONTROLS, MINE, f"{MINE}~untrained")
    mine = {MINE, f"{MINE}~untrained"}
    assert {*select(MATCHED, None, [MINE]).estimators} == {*MATCHED.estimators} | mine
    chosen, part = (select(PAPER, (), submitted).estimators for submitted in ([MINE], []))
    added = set(chosen) - set(part)
    assert added == {MINE, *(f"{MINE}~{twin}" for twin in ("blurred", "untrained", "other-target"))}
    assert set(select(PAPER, ("grad",)).estimators) >= {"random", "random-blurred", "sobel", "grad"}
    part = select(PAPER, seeds=2, protocol="roar")
    assert {block.protocol.name for block in part.blocks} == {"roar"} and part.references == 2
    with pytest.raises(CallerError, match="--seeds is 0, .* is 1; .* use --seeds 1 or more"):
        select(MATCHED, seeds=0)


IMAGES = {"imagenet@1": 1_281_167, "food101@1": 75_750, "birdsnap@1": 47_386}  # protocol section 5


def test_paper_learning_rates_match_manual_values():
    for title, step, expected in (  # 312.785 steps in an epoch of ImageNet, 295.898 of Food-101, 185.102 of Birdsnap
        ("imagenet@1", 1563, 1.6 * 1563 / 312.785 / 5),  # the last step of the warm-up
        ("imagenet@1", 1564, 1.6),
        ("imagenet@1", 31999, 0.0016),
        ("food101@1", 19999, 0.007),  # 68 epochs: the last drop is never reached
        ("birdsnap@1", 14808, 0.01),  # epoch 79.999
        ("birdsnap@1", 14809, 0.001),  # epoch 80.004
    ):
        recipe = find_recipe(title)
        rate = compute_learning_rate(recipe, step, IMAGES[title] / recipe.batch)
        assert rate == pytest.approx(expected, rel=1e-5, abs=1e-12), (title, step)  # manual epochs have six digits
    rates = [compute_learning_rate(find_recipe("imagenet@1"), step, 10) for step in (299, 300, 599, 600)]
    assert rates == pytest.approx([1.6, 0.16, 0.16, 0.016])  # the rate drops at the first step of an epoch


def test_learning_rates_match_manual_linear_schedule():
    line = Recipe("line", 1, 6, 10, 0.5, 1, Decay.LINEAR, Augmentation.NONE)  # 6 epochs, 1 of them to warm up
    for step, expected in ((0, 0.0), (5, 0.25), (10, 0.5), (35, 0.25), (59, 0.01), (60, 0.0)):
        assert compute_learning_rate(line, step, steps_per_epoch=10) == pytest.approx(expected), step
    assert compute_learning_rate(change_recipe(line, {"warmup": 0}), 0, steps_per_epoch=10) == 0.5
    for recipe in RECIPES.values():
        rates = [compute_learning_rate(recipe, step, 3.7) for step in range(round(recipe.epochs * 3.7))]
        assert min(rates) >= 0 and 0 < max(rates) <= recipe.peak
        assert rates[-1] < 0.2 * recipe.peak
    recipe = find_recipe("imagenet-fast@1")
    sides = [compute_image_side(recipe, step, 40, 224) for step in (0, 9, 10, 19, 20, 30)]
    assert sides == [128, 128, 160, 160, 192, 224]


def test_find_recipe_normalizes_changed_settings():
    recipe = find_recipe("quick@2(sides=0.5+1,epochs=6.0)")
    assert recipe.title == "quick@2(epochs=6,sides=0.5+1)"
    assert find_recipe(recipe.title) == recipe
    assert (recipe.epochs, recipe.sides, recipe.peak) == (6, (0.5, 1.0), 0.4)
    assert change_recipe(RECIPES["quick@2"], {"sides": [0.5, 1], "epochs": 6}) == recipe
    compiled = find_recipe("imagenet@1(compile=true)")
    assert compiled == change_recipe(RECIPES["imagenet@1"], {"compile": True}) and compiled.compile
    assert make_json_record(compiled)["compile"] is True and "compile" not in make_json_record(RECIPES["imagenet@1"])
    assert make_fine_tuning_recipe(compiled).compile
    for title, said in (
        ("quick@2(epoch=3)", "no setting of a recipe 'epoch'; did you mean 'epochs'"),
        ("quick@2(epochs=true)", "epochs is 'true', expected a number"),
        ("quick@2(epochs=nan)", "epochs is 'nan', expected a number from 0.01 to 10000"),
        ("quick@2(warmup=20)", "has a warmup of 20 epochs and 10 epochs in all; write a warmup below epochs"),
        ("quick@9(epochs=1)", "no recipe 'quick@9'; did you mean 'quick@2'"),
    ):
        with pytest.raises(CallerError, match=said):
            find_recipe(title)


@pytest.mark.parametrize("suite", SUITE_VERSIONS.values(), ids=[f"{name}-v{n}" for name, n in SUITE_VERSIONS])
def test_copied_suite_file_has_same_runs(suite, tmp_path):
    """Runs do not depend on the name, version or ownership of a suite."""
    mine = parse_suite(make_renamed_suite_text(suite.versioned), tmp_path / "mine.toml")
    assert (mine.name, mine.own is not None) == (f"my-{suite.name}", True)
    assert replace(mine, name=suite.name, version=suite.version, own=None) == suite
