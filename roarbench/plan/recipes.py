"""Define frozen, versioned training recipes, look them up by title, and change their settings, without torch."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from roarbench.common.enums import Precision
from roarbench.common.errors import CallerError, UnknownName
from roarbench.compute.recipe import Augmentation, Decay, Optimiser, Recipe


def _make_paper_recipe(name: str, steps: int, images: int, batch: int, rate_per_256: float) -> Recipe:
    """Make a recipe of Hooker et al. 2019, table 1, from its number of steps and its learning rate per 256 images.

    No current GPU holds the activations of 4,096 images, so each batch is computed in chunks of 256 images
    (docs/decisions/0015).
    """
    peak = rate_per_256 * batch / 256
    return Recipe(name, 1, steps * batch / images, batch, peak, 5, Decay.STEPS, Augmentation.CROP_FLIP, micro_batch=256)


def _make_small_recipe(
    name: str, epochs: float, batch: int, peak: float, augmentation: Augmentation, warmup: float = 1
) -> Recipe:
    """Make a recipe of few epochs for small images, with the weight decay of Zagoruyko & Komodakis 2016."""
    return Recipe(name, 1, epochs, batch, peak, warmup, Decay.LINEAR, augmentation, weight_decay=5e-4)


def _make_convergent_recipe(
    name: str, epochs: float, batch: int, peak: float, sides: tuple[float, ...] = (1.0,)
) -> Recipe:
    """Make a recipe that trains explained and retrained networks until convergence, with shifts and flips.

    With flips alone, or after few epochs, networks learn the positions of the masks, which then determine a row's
    accuracy (docs/decisions/0020-shifted-images-and-enough-epochs.md).
    """
    return replace(_make_small_recipe(name, epochs, batch, peak, Augmentation.SHIFT_FLIP), version=2, sides=sides)


_TABLE = (
    _make_paper_recipe("imagenet", steps=32_000, images=1_281_167, batch=4096, rate_per_256=0.1),
    _make_paper_recipe("food101", steps=20_000, images=75_750, batch=256, rate_per_256=0.7),
    _make_paper_recipe("imagenet-100", steps=20_000, images=73_200, batch=256, rate_per_256=0.1),
    _make_paper_recipe("birdsnap", steps=20_000, images=47_386, batch=256, rate_per_256=1.0),
    _make_small_recipe("quick", epochs=3, batch=64, peak=0.4, augmentation=Augmentation.FLIP, warmup=0.5),
    _make_small_recipe("quick-reference", epochs=16, batch=64, peak=0.3, augmentation=Augmentation.NOISE_FLIP),
    # recipes that end in `-fast` have fewer epochs, small images first and a higher learning rate
    replace(
        _make_small_recipe("imagenet-fast", 18, batch=1024, peak=2.0, augmentation=Augmentation.CROP_FLIP, warmup=2.25),
        weight_decay=1e-4,
        sides=(4 / 7, 5 / 7, 6 / 7, 1.0),  # 128, 160, 192, 224 pixels
        micro_batch=256,
    ),
    replace(
        _make_small_recipe(
            "imagenet-augmented", epochs=5, batch=256, peak=0.05, augmentation=Augmentation.CROP_FLIP, warmup=0.5
        ),
        weight_decay=1e-4,
        start="torchvision:resnet50-v1@0676ba61",
    ),
    replace(
        _make_small_recipe("cifar10-fast", 6, batch=128, peak=0.5, augmentation=Augmentation.SHIFT_FLIP, warmup=0.75),
        sides=(0.5, 0.75, 1.0, 1.0),
        micro_batch=256,
    ),
    _make_small_recipe("imagenette", epochs=30, batch=128, peak=0.2, augmentation=Augmentation.CROP_FLIP, warmup=3),
    _make_small_recipe("imagenette64", epochs=30, batch=128, peak=0.2, augmentation=Augmentation.SHIFT_FLIP, warmup=3),
    _make_small_recipe("cifar10", epochs=15, batch=128, peak=0.3, augmentation=Augmentation.SHIFT_FLIP, warmup=2),
    _make_small_recipe("fashion-mnist", epochs=10, batch=128, peak=0.2, augmentation=Augmentation.SHIFT, warmup=2),
    _make_convergent_recipe("quick", epochs=10, batch=64, peak=0.4, sides=(0.5, 0.5, 0.75, 1.0)),
    _make_convergent_recipe("study-cifar10", epochs=12, batch=128, peak=0.4),
    _make_convergent_recipe("study-fashion-mnist", epochs=6, batch=128, peak=0.4),
    _make_convergent_recipe("fashion-mnist", epochs=10, batch=128, peak=0.2),
    # for transformers and ConvNeXts; the weight decay is that of Dosovitskiy et al. 2021, table 3
    replace(
        _make_small_recipe("modern", epochs=20, batch=64, peak=2e-3, augmentation=Augmentation.SHIFT_FLIP, warmup=2),
        optimiser=Optimiser.ADAMW,
        weight_decay=0.05,
    ),
    # for perceptrons on tables; the weight decay is the one that AdamW's authors use
    replace(
        _make_small_recipe("tabular", epochs=20, batch=32, peak=5e-3, augmentation=Augmentation.NONE),
        optimiser=Optimiser.ADAMW,
        weight_decay=0.01,
        precision=Precision.FLOAT32,
    ),
    _make_small_recipe("planted", epochs=8, batch=64, peak=0.1, augmentation=Augmentation.NONE),
    _make_small_recipe("planted-brief", epochs=4, batch=64, peak=0.15, augmentation=Augmentation.NONE, warmup=0.5),
    _make_small_recipe("planted-corners", epochs=6, batch=64, peak=0.3, augmentation=Augmentation.CORNERS, warmup=0.5),
)
RECIPES = {recipe.title: recipe for recipe in _TABLE}


class _Range(NamedTuple):
    kind: type[float] | type[int]
    least: float
    most: float

    def __str__(self) -> str:
        return f"a {'whole ' if self.kind is int else ''}number from {self.least:g} to {self.most:g}"

    def read(self, value: Any) -> float:
        """Convert a value to the precision of titles; raise ValueError, TypeError or OverflowError if it is invalid."""
        number = self.kind(value)
        if isinstance(value, bool) or not self.least <= number <= self.most or number != float(value):
            raise ValueError
        return self.kind(_format_value(number))


_START = re.compile(r"torchvision:[\w.-]+(/[\w.]+|@[0-9a-f]{8})|")  # published weights at the start of training
_SIDE = _Range(float, 0.1, 1)  # fraction of the image side; the training run has equally long parts, one per fraction
SETTINGS: dict[str, Any] = {  # allowed values, in the order of titles
    "epochs": _Range(float, 0.01, 10_000),
    "batch": _Range(int, 1, 65_536),
    "peak": _Range(float, 1e-7, 100),
    "warmup": _Range(float, 0, 1000),
    "decay": Decay,
    "augmentation": Augmentation,
    "precision": Precision,
    "momentum": _Range(float, 0, 0.9999),
    "weight_decay": _Range(float, 0, 10),
    "smoothing": _Range(float, 0, 0.9),
    "sides": "a list of fractions of the image side; write sides = [0.5, 1.0]",
    "micro_batch": _Range(int, 0, 65_536),
    "optimiser": Optimiser,
    "start": "torchvision:NAME/WEIGHTS",
    "compile": "true or false",
}


def _read_setting(key: str, value: Any) -> object:
    setting = SETTINGS[key]
    try:
        if isinstance(setting, _Range):
            return setting.read(value)
        if isinstance(setting, type):
            return setting(value)
        if key == "sides" and value:
            return tuple(map(_SIDE.read, value.split("+") if isinstance(value, str) else value))
        if key == "compile" and str(value).lower() in ("true", "false"):
            return str(value).lower() == "true"
        if key == "start" and _START.fullmatch(str(value)):
            return value
    except (ValueError, TypeError, OverflowError):
        pass
    choices = (f"'{choice}'" for choice in getattr(setting, "__members__", {}).values())
    expected = " or ".join(choices) or setting
    raise CallerError(f"{key} is {value!r}, expected {expected}")


def find_recipe(title: str) -> Recipe:
    """Look up a recipe by its title: `name@version`, or with changed settings `quick@2(epochs=6,sides=0.5+1)`."""
    if title in RECIPES:
        return RECIPES[title]
    match = re.fullmatch(r"([^()]*)\(([^()]*)\)", title)
    name, listed = (match[1], match[2].split(",")) if match else (title, [])
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    return change_recipe(RECIPES[name], dict(part.partition("=")[::2] for part in listed))


def change_recipe(recipe: Recipe, values: Mapping[str, object]) -> Recipe:
    """Return a recipe with these values of `SETTINGS`; the title of the new recipe lists the changed settings."""
    for key in values:
        if key not in SETTINGS:
            raise UnknownName("setting of a recipe", key, SETTINGS)
    valid = {key: _read_setting(key, values[key]) for key in SETTINGS if key in values}
    changes = {key: value for key, value in valid.items() if value != getattr(recipe, key)}
    listed = ",".join(f"{key}={_format_value(value)}" for key, value in changes.items())
    changed: Recipe = replace(recipe, **changes, changes=f"({listed})" if listed else "")  # type: ignore[arg-type]
    if changed.warmup >= changed.epochs:
        seen = f"{changed.title} has a warmup of {changed.warmup:g} epochs and {changed.epochs:g} epochs in all"
        raise CallerError(f"{seen}; write a warmup below epochs")
    return changed


def _format_value(value: object) -> str:
    if isinstance(value, tuple):
        return "+".join(map(_format_value, value))
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def make_fine_tuning_recipe(recipe: Recipe) -> Recipe:
    """Return the recipe that fine-tunes a common network on one row's exchanged masks: one epoch at full image size."""
    return replace(
        recipe,
        name=f"{recipe.name}-tuning",
        epochs=1.0,
        peak=recipe.peak / 8,
        warmup=1 / 8,
        decay=Decay.LINEAR,
        sides=(1.0,),
        start="",
    )
