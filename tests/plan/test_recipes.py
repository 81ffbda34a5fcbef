"""Recipes: the paper's table by hand, and the learning rate at chosen steps."""

import pytest

from roarbench.errors import CallerError
from roarbench.plan.recipe import Augmentation, Decay, Recipe, learning_rate, side
from roarbench.plan.recipes import RECIPES, changed, find_recipe

IMAGES = {"imagenet@1": 1_281_167, "food101@1": 75_750, "birdsnap@1": 47_386}  # protocol section 5


def test_paper_schedule_by_hand():
    for title, step, expected in (  # 312.785 steps in an epoch of ImageNet, 295.898 of Food-101, 185.102 of Birdsnap
        ("imagenet@1", 0, 0.0),
        ("imagenet@1", 782, 1.6 * 782 / 312.785 / 5),  # in the middle of the warm-up
        ("imagenet@1", 1563, 1.6 * 1563 / 312.785 / 5),  # its last step
        ("imagenet@1", 1564, 1.6),
        ("imagenet@1", 9383, 1.6),  # epoch 29.998
        ("imagenet@1", 9384, 0.16),  # epoch 30.001
        ("imagenet@1", 18768, 0.016),
        ("imagenet@1", 31999, 0.0016),
        ("food101@1", 19999, 0.007),  # 68 epochs: the last drop is never reached
        ("birdsnap@1", 14808, 0.01),
        ("birdsnap@1", 14809, 0.001),
    ):
        recipe = find_recipe(title)
        rate = learning_rate(recipe, step, IMAGES[title] / recipe.batch)
        assert rate == pytest.approx(expected, rel=1e-5, abs=1e-12), (title, step)  # the hand's epochs have six digits
    rates = [learning_rate(find_recipe("imagenet@1"), step, 10) for step in (299, 300, 599, 600)]
    assert rates == pytest.approx([1.6, 0.16, 0.16, 0.016])  # it falls with the first step of an epoch


def test_linear_schedule_by_hand_and_every_recipe_has_a_rate_for_each_of_its_steps():
    line = Recipe("line", 1, 6, 10, 0.5, 1, Decay.LINEAR, Augmentation.NONE)  # 6 epochs, 1 of them to warm up
    for step, expected in ((0, 0.0), (5, 0.25), (10, 0.5), (35, 0.25), (59, 0.01), (60, 0.0)):
        assert learning_rate(line, step, steps_per_epoch=10) == pytest.approx(expected), step
    assert learning_rate(changed(line, {"warmup": 0}), 0, steps_per_epoch=10) == 0.5
    for recipe in RECIPES.values():
        rates = [learning_rate(recipe, step, 3.7) for step in range(round(recipe.epochs * 3.7))]
        assert min(rates) >= 0 and 0 < max(rates) <= recipe.peak
        assert rates[-1] < 0.2 * recipe.peak


def test_sides_by_hand():
    for title, full, expected in (
        ("imagenet-fast@1", 224, [128, 160, 192, 224]),
        ("cifar10-fast@1", 32, [16, 24, 32, 32]),
    ):
        recipe = find_recipe(title)
        assert [side(recipe, step, 40, full) for step in (0, 10, 20, 30)] == expected
        assert [side(recipe, step, 40, full) for step in (9, 19, 29, 39)] == expected


def test_other_numbers_stand_in_the_title_in_one_order():
    recipe = find_recipe("quick@2(sides=0.5+1,epochs=6.0)")
    assert recipe.title == "quick@2(epochs=6,sides=0.5+1)"
    assert find_recipe(recipe.title) == recipe
    assert (recipe.epochs, recipe.sides, recipe.peak) == (6, (0.5, 1.0), 0.4)
    assert changed(RECIPES["quick@2"], {"sides": [0.5, 1], "epochs": 6}) == recipe
    for title, said in (
        ("quick@2(epoch=3)", "no setting of a recipe 'epoch'; did you mean 'epochs'"),
        ("quick@2(epochs=nan)", "epochs is 'nan', expected a number from 0.01 to 10000"),
        ("quick@2(warmup=20)", "warms up for 20 of 10 epochs; write a warmup below epochs"),
        ("quick@9(epochs=1)", "no recipe 'quick@9'; did you mean 'quick@2'"),
    ):
        with pytest.raises(CallerError, match=said):
            find_recipe(title)
