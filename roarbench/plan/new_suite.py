"""Write a suite's TOML file, with a comment on each line, for a user's images or table. Nothing here imports torch."""

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from roarbench.common.errors import CallerError
from roarbench.common.files import write_new_file
from roarbench.common.text import fit_on_one_line, name_item
from roarbench.compute.recipe import Augmentation
from roarbench.datasets.catalogue import FOLDERS, DatasetRecord
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.plan.read_suite_file import make_suite_name
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suites import SUITES
from roarbench.plan.toml_table import format_toml

_SMALL_DATASET = 2000  # suites with fewer training images get smaller batches and more epochs
_IMAGES_SEEN = 14_000  # epochs times training images of a small data set (docs/own-data.md)
IMAGE_RECIPE, _TABLE_RECIPE = find_recipe("quick@2"), find_recipe("tabular@1")
# tables with at most this many training rows get 20 explained networks, which take minutes; larger tables get 5
_SMALL_TABLE = 5000
_ROWS_SEEN = 20 * _SMALL_TABLE  # epochs times training rows of a larger table
_IMAGE_ESTIMATORS = '"grad", "ig(baseline=mean)", "input-x-grad", "gb", "sgsq-grad"'
_TABLE_ESTIMATORS = '"grad", "input-x-grad", "ig(baseline=mean)", "sgsq-grad", "var-grad"'


def write_new_suite_file(
    folder: Path,
    warn: Callable[[str], object] = lambda line: None,
    network: str = "",
    tune_recipe: Callable[[str, Path], str] = lambda text, path: text,
) -> Path:
    """Write NAME.toml to the current folder, for the images or the table in `folder`; return its path.

    `network` is the value of `name` in section `[network]`; an empty string selects the default network. `tune_recipe`
    takes the file's text and path and returns the text to write.
    """
    record = infer_dataset(folder, warn)
    name = make_suite_name(record.name)
    name = f"my-{name}" if name in SUITES else name
    path = Path(f"{name}.toml")
    if not record.folder.isprintable():
        seen = f"the path {fit_on_one_line(record.folder)} has characters that cannot be printed"
        raise CallerError(f"{seen}; rename the folder")
    text = compose_suite_text(name, record, os.path.relpath(record.folder, Path.cwd()))
    if network:
        line = f"name = {format_toml(network)}"
        text = re.sub(r'^name = "(resnet-quick|mlp)"', lambda _: line, text, flags=re.MULTILINE)
    if not path.exists():
        text = tune_recipe(text, path)
    write_new_file(path, lambda target: target.write_text(text, "utf-8"))
    return path


def compose_suite_text(name: str, record: DatasetRecord, location: str) -> str:
    """Return the text of a suite's file; `location` is the path of the images relative to that file."""
    items, tabular = f"{name_item(record.tabular)}s", record.tabular
    seeds = 3 if not tabular else 20 if record.train_images <= _SMALL_TABLE else 5
    network = (
        '"mlp"  # two hidden layers of 64' if tabular else '"resnet-quick"  # or resnet18, torchvision:NAME, timm:NAME'
    )
    estimators = _TABLE_ESTIMATORS if tabular else _IMAGE_ESTIMATORS
    roar_controls, roar_levels = ('"controls", ', "[0.1, 0.5, 0.9]") if tabular else ("", "[0.9]")
    data, recipe = "\n".join(_list_data_lines(record, location)), "\n".join(_list_recipe_lines(record))
    return f"""\
name = {format_toml(name)}  # name of the suite; its version is a hash of all that it computes
about = "{record.classes:,} classes, {record.train_images:,} training and {record.test_images:,} test {items}"
levels = [0.1, 0.5, 0.9]  # fractions of the features to remove
seeds = {seeds}  # training runs per row and level; each uses the maps of another explained network
references = {seeds}  # explained networks; with only one, verdicts hold for this network only

[data]
{data}

[network]  # the network that is explained, and trained anew on degraded {items}
name = {network}; or FILE.py:FUNCTION (docs/own-data.md)

{recipe}

# Each block is an experiment, the most important one first (docs/protocols.md). `roarbench estimators` lists all
# estimators; "controls" are rankings, made with at most the predicted class, that estimators should beat

[[block]]  # is accuracy lower under a map's own mask than under a matched mask of another {name_item(tabular)}?
protocols = ["matched"]
estimators = ["controls", {estimators}]

[[block]]  # does accuracy fall when a new network is trained without the top-ranked features?
protocols = ["roar"]
estimators = [{roar_controls}{estimators}]  # the usual controls are always added
levels = {roar_levels}  # a network is trained for each row, level and seed
"""


def _list_data_lines(record: DatasetRecord, location: str) -> Iterator[str]:
    """Yield the lines of section `[data]`."""
    kind = "table" if record.tabular else "images" if record.own == FOLDERS else "parquet"
    yield f"{kind} = {format_toml(location)}  # relative to this file"
    if record.image_column:
        yield f"image_column = {format_toml(record.image_column)}  # the images, as the bytes of image files"
    if record.label_column:
        yield f"label_column = {format_toml(record.label_column)}  # the classes, as numbers or as names"
    if record.columns:
        yield f"columns = {format_toml(record.columns)}  # the features"
    if record.share:
        yield f"test_share = {record.share:g}  # fraction of each class that is drawn for testing"
        yield "seed = 0  # seed of the draw"
    else:
        yield f"train = {format_toml(record.train_split)}  # the training images"
        yield f"test = {format_toml(record.test_split)}  # the test images"
    if not record.tabular:
        yield f"size = {record.size}  # pixels per side; the short side is scaled to this size, then the centre is cut"
        yield f"channels = {record.channels}  # 3 for colour, 1 for grey"
    if record.depth:
        yield f"depth = {record.depth}  # bits that the values use: white is 2^{record.depth} - 1"


def _list_recipe_lines(record: DatasetRecord) -> list[str]:
    if not record.tabular:
        # a mirrored grey digit or spectrogram may belong to another class
        augmentation = Augmentation.SHIFT if record.channels == 1 else Augmentation.SHIFT_FLIP
        return compose_recipe_lines(record.train_images, augmentation)
    is_small = record.train_images <= _SMALL_TABLE
    epochs = _TABLE_RECIPE.epochs if is_small else max(2, round(_ROWS_SEEN / record.train_images))
    return _format_recipe_lines(_TABLE_RECIPE.title, epochs, _TABLE_RECIPE.batch, _TABLE_RECIPE.peak)


def compose_recipe_lines(images: int, augmentation: Augmentation) -> list[str]:
    """Return the lines of section `[recipe]` for this many training images."""
    is_small = images < _SMALL_DATASET
    epochs = min(40, max(int(IMAGE_RECIPE.epochs), round(_IMAGES_SEEN / images)))
    batch, peak = (32, 0.2) if is_small else (IMAGE_RECIPE.batch, IMAGE_RECIPE.peak)
    comment = "flip mirrors left and right; or none, flip, shift, shift-flip, noise-flip, crop-flip"
    lines = _format_recipe_lines(IMAGE_RECIPE.title, epochs, batch, peak)
    return [*lines, f'augmentation = "{augmentation}"  # {comment}']


def _format_recipe_lines(title: str, epochs: float, batch: int, peak: float) -> list[str]:
    return [
        "[recipe]  # how every network is trained; [reference_recipe] may differ",
        f'like = "{title}"  # a recipe of roarbench; the lines below override its numbers',
        f"epochs = {epochs:g}  # passes over the training data",
        f"batch = {batch}",
        f"peak = {peak:g}  # learning rate after the warm-up",
    ]
