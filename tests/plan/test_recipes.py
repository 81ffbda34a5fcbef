"""Recipes: the paper's table by hand, and the learning rate at chosen steps."""

import pytest

from roarbench.errors import CallerError
from roarbench.plan.recipe import Augmentation, Decay, Recipe, learning_rate, side
from roarbench.plan.recipes import RECIPES, changed, find_recipe

IMAGES = {"imagenet@1": 1_281_167, "food101@1": 75_750, "birdsnap@1": 47_386}  # protocol section 5


@pytest.mark.parametrize(
    ("title", "step", "expected"),
    [  # 312.785 steps in an epoch of ImageNet, 295.898 of Food-101, 185.102 of Birdsnap
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
    ],
)
def test_paper_schedule_by_hand(title: str, step: int, expected: float) -> None:
    recipe = find_recipe(title)
    rate = learning_rate(recipe, step, IMAGES[title] / recipe.batch)
    assert rate == pytest.approx(expected, rel=1e-5, abs=1e-12)  # the hand's steps per epoch have six digits


def test_the_rate_falls_with_the_first_step_of_an_epoch() -> None:
    recipe = find_recipe("imagenet@1")
    rates = [learning_rate(recipe, step, 10) for step in (299, 300, 599, 600)]
    assert rates == pytest.approx([1.6, 0.16, 0.16, 0.016])


@pytest.mark.parametrize(
    ("title", "full", "expected"),
    [
        ("imagenet-fast@1", 224, [128, 160, 192, 224]),
        ("cifar10-fast@1", 32, [16, 24, 32, 32]),
    ],
)
def test_sides_by_hand(title: str, full: int, expected: list[int]) -> None:
    recipe = find_recipe(title)
    assert [side(recipe, step, 40, full) for step in (0, 10, 20, 30)] == expected
    assert [side(recipe, step, 40, full) for step in (9, 19, 29, 39)] == expected


def linear(epochs: float = 6, warmup: float = 1) -> Recipe:
    return Recipe("line", 1, epochs, 10, 0.5, warmup, Decay.LINEAR, Augmentation.NONE)


@pytest.mark.parametrize(("step", "expected"), [(0, 0.0), (5, 0.25), (10, 0.5), (35, 0.25), (59, 0.01), (60, 0.0)])
def test_linear_schedule_by_hand(step: int, expected: float) -> None:
    assert learning_rate(linear(), step, steps_per_epoch=10) == pytest.approx(expected)


def test_every_recipe_has_a_rate_for_each_of_its_steps() -> None:
    assert learning_rate(linear(warmup=0), 0, steps_per_epoch=10) == 0.5
    for recipe in RECIPES.values():
        rates = [learning_rate(recipe, step, 3.7) for step in range(round(recipe.epochs * 3.7))]
        assert min(rates) >= 0 and 0 < max(rates) <= recipe.peak
        assert rates[-1] < 0.2 * recipe.peak


def test_other_numbers_stand_in_the_title_in_one_order() -> None:
    recipe = find_recipe("quick@2(sides=0.5+1,epochs=6.0)")
    assert recipe.title == "quick@2(epochs=6,sides=0.5+1)"
    assert find_recipe(recipe.title) == recipe
    assert (recipe.epochs, recipe.sides, recipe.peak) == (6, (0.5, 1.0), 0.4)
    assert changed(RECIPES["quick@2"], {"sides": [0.5, 1], "epochs": 6}) == recipe


@pytest.mark.parametrize(
    ("title", "said"),
    [
        ("quick@2(epoch=3)", "no setting of a recipe 'epoch'; did you mean 'epochs'"),
        ("quick@2(epochs=nan)", "epochs is 'nan', expected a number from 0.01 to 10000"),
        ("quick@2(warmup=20)", "warms up for 20 of 10 epochs; write a warmup below epochs"),
        ("quick@9(epochs=1)", "no recipe 'quick@9'; did you mean 'quick@2'"),
    ],
)
def test_numbers_that_no_recipe_can_have_are_refused(title: str, said: str) -> None:
    with pytest.raises(CallerError, match=said):
        find_recipe(title)
