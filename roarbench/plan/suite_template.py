"""Write a suite's TOML file, with a comment on each line, for a user's images or table. Nothing here imports torch."""

import os
import re
from collections.abc import Callable
from pathlib import Path

from roarbench.common.enums import OWN_NETWORK_LEVELS, PAPER_LEVELS
from roarbench.common.errors import CallerError
from roarbench.common.files import write_file_refusing_existing
from roarbench.common.text import fit_on_one_line
from roarbench.compute.recipe import Augmentation
from roarbench.datasets.catalogue import FOLDERS, WHOLE_PATH, DatasetRecord
from roarbench.datasets.contact_sheet import write_contact_sheet
from roarbench.datasets.infer_dataset import infer_dataset
from roarbench.datasets.undecoded_splits import list_user_images
from roarbench.datasets.value_scale import format_window
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.recipes import find_recipe
from roarbench.plan.resolution import choose_levels
from roarbench.plan.suites import SUITES, make_suite_name, parse_suite
from roarbench.plan.toml_table import format_toml

_SMALL_DATASET = 2000  # suites with fewer training images get smaller batches and more epochs
_IMAGES_SEEN = 14_000  # epochs times training images of a small data set (docs/own-data.md)
IMAGE_RECIPE, _TABLE_RECIPE = find_recipe("quick@2"), find_recipe("tabular@1")
# tables with at most this many training rows get 20 explained networks, which take minutes; larger tables get 5
_SMALL_TABLE = 5000
_ROWS_SEEN = 20 * _SMALL_TABLE  # epochs times training rows of a larger table


def write_new_suite_file(
    folder: Path,
    warn: Callable[[str], object] = lambda line: None,
    network: str = "",
    paper: bool = False,
    tune_recipe: Callable[[str, Path], str] = lambda text, path: text,
) -> Path:
    """Write NAME.toml to the current folder, for the images or the table in `folder`; return its path.

    Beside it, NAME-classes.png shows some images of each class.

    `network` is the value of `name` in section `[network]`; an empty string selects the default network, and a name
    that no suite file may have raises CallerError. With `paper`, the suite has the experiment of Hooker et al. 2019 in
    place of the two questions of README.md. `tune_recipe` takes the file's text and path and returns the text to write.
    """
    record = infer_dataset(folder, warn)
    name = make_suite_name(record.name)
    name = f"my-{name}" if name in SUITES else name
    path = Path(f"{name}.toml")
    location = os.path.relpath(record.folder, Path.cwd())
    if not record.folder.isprintable():
        seen = f"the path {fit_on_one_line(record.folder)} has characters that cannot be printed"
        raise CallerError(f"{seen}; rename the folder")
    text = compose_suite_text(name, record, location, paper)
    if network:
        line = f"name = {format_toml(network)}"
        text = re.sub(r'^name = "(resnet-quick|mlp)"', lambda _: line, text, flags=re.MULTILINE)
        parse_suite(text, path)  # refuses an unknown network before a file is written
    if not record.tabular:
        augmentation = _choose_augmentation(record)
        other = 'with left-right mirror images; write "shift" if they may belong to another class, as spectrograms do'
        if augmentation is Augmentation.SHIFT:
            other = 'without mirror images; write "shift-flip" if left-right mirror images belong to the same class'
        warn(f'augmentation = "{augmentation}", {other}')
        if not path.exists():
            sheet = path.with_name(f"{name}-classes.png")
            write_contact_sheet(list_user_images(record), sheet)
            warn(f"written: {sheet}, with images of each class as networks will see them; look at it before you run")
    if not path.exists():
        text = tune_recipe(text, path)
    write_file_refusing_existing(path, lambda target: target.write_text(text, "utf-8"))
    return path


def compose_suite_text(name: str, record: DatasetRecord, location: str, paper: bool = False) -> str:
    """Return the text of a suite's file; `location` is the path of the images relative to that file."""
    noun, shape = ("rows", "") if record.tabular else ("images", "\n")
    references = f"{_count_seeds(record, False)}  # explained networks: many show how much networks differ"
    network = 'name = "mlp"  # two hidden layers of 64; or FILE.py:FUNCTION, which takes (n, columns, 1, 1)'
    if not record.tabular:
        references = "5  # explained networks; with only one, verdicts hold for this network only"
        others = "resnet18, torchvision:NAME, timm:NAME, FILE.py:FUNCTION (docs/own-data.md)"
        network = f'name = "resnet-quick"  # or {others}'
        comment = "pixels per side; the short side is scaled to this size, then the centre is cut out"
        shape += f"size = {record.size}  # {comment}\nchannels = {record.channels}  # 3 for colour, 1 for grey"
    if record.window:
        comment = "values that become black and white: 1st and 99th percentile of training images; others are clipped"
        shape += f"\nwindow = {format_window(record.window)}  # {comment}"
    elif record.depth:
        shape += f"\ndepth = {record.depth}  # bits that the values use: white is 2^{record.depth} - 1"
    lines = compose_recipe_lines(record.train_images, None if record.tabular else _choose_augmentation(record))
    recipe = "\n".join(f"{line}  # {comment}" for line, comment in lines.items())
    text = f"""\
name = {format_toml(name)}  # name of the suite; its version is a hash of all that it computes
references = {references}

[data]
{_compose_location(record, location)}
{_compose_split(record)}{shape}

[network]  # the network that is explained, and trained anew on degraded {noun}
{network}

{recipe}
{_compose_blocks(record, paper)}"""
    commented = [line.rpartition("  # ") for line in text.split("\n")]
    width = max(len(code) for code, _, _ in commented if len(code) < 60)  # aligns the comments of short lines
    return "\n".join(f"{code:<{width if code.strip() else 0}}{mark}{comment}" for code, mark, comment in commented)


def _choose_augmentation(record: DatasetRecord) -> Augmentation:
    """Mirror colour images only, because a mirrored grey digit or spectrogram may belong to another class."""
    return Augmentation.SHIFT if record.channels == 1 else Augmentation.SHIFT_FLIP


def _compose_location(record: DatasetRecord, location: str) -> str:
    """Return the lines that say where images or rows are, and which folders, files or columns have their classes."""
    place = format_toml(location)
    if record.tabular:
        comment = "the features; the columns that new-suite listed as left out are missing"
        columns = f"\ncolumns = {format_toml(record.columns)}  # {comment}"
        return f"""\
table = {place}  # a parquet or CSV file, relative to this file
label_column = {format_toml(record.label_column)}  # the classes\
{columns if record.columns else "; every other column is a feature"}"""
    if record.own != FOLDERS:
        return f"""\
parquet = {place}  # parquet files of images and labels; relative to this file
image_column = {format_toml(record.image_column)}  # the images, as the bytes of image files
label_column = {format_toml(record.label_column)}  # the classes, as numbers from 0 or as names"""
    lines = [f"images = {place}  # one folder per class; relative to this file"]
    if record.label_files:
        files: object = record.label_files if len(record.label_files) > 1 else record.label_files[0]
        lines = [
            f"images = {place}  # folder of images and label files; relative to this file",
            f"labels = {format_toml(files)}  # files that give the class of each image; relative to the folder",
        ]
    named = {
        "path_column": (record.path_column, "the column of the images' names, or a pattern of columns in braces"),
        "label_column": (record.label_column, "the column of the classes"),
        "split_column": (record.split_column, "the column of the splits"),
    }
    lines += [f"{key} = {format_toml(value)}  # {comment}" for key, (value, comment) in named.items() if value]
    if record.class_depth != 1:
        depth: object = record.class_depth if record.class_depth != WHOLE_PATH else "last"
        lines.append(f"class_depth = {format_toml(depth)}  # level of the folders that name classes")
    if record.left_out:
        lines.append(
            f"leave_out = {format_toml(record.left_out)}  # folders and files that are left out, such as masks"
        )
    return "\n".join(lines)


def _compose_split(record: DatasetRecord) -> str:
    if record.share:
        return f"""\
test_share = {record.share:g}  # fraction of each class that is drawn for testing
seed = 0  # seed of the draw of test {"rows" if record.tabular else "images"}"""
    noun = "folder" if record.own == FOLDERS else "split"
    if record.split_column:
        noun = "value in split_column"
    elif record.own == FOLDERS and (Path(record.folder) / record.train_split).is_file():
        noun = "list"
    return f"""\
train = {format_toml(record.train_split)}  # the {noun} of the training images
test = {format_toml(record.test_split)}  # the {noun} of the test images"""


def compose_recipe_lines(count: int, augmentation: Augmentation | None) -> dict[str, str]:
    """Return the lines of a recipe for this many training images, each with its comment.

    Without an augmentation, the recipe is for rows of a table.
    """
    base, noun, is_small = IMAGE_RECIPE, "images", count < _SMALL_DATASET
    epochs = min(40, max(base.epochs, round(_IMAGES_SEEN / count)))
    if augmentation is None:
        base, noun, is_small = _TABLE_RECIPE, "rows", False
        epochs = base.epochs if count <= _SMALL_TABLE else max(2, round(_ROWS_SEEN / count))
    choices = "none, flip, shift, shift-flip, noise-flip or crop-flip"
    return {
        "[recipe]": "how every network is trained; [reference_recipe] may differ",
        f'like = "{base.title}"': "a recipe of roarbench; the lines below override its numbers",
        f"epochs = {epochs:g}": f"passes over the training {noun}",
        f"batch = {32 if is_small else base.batch}": f"{noun} per step",
        f"peak = {0.2 if is_small else base.peak:g}": "learning rate after the warm-up",
    } | ({f'augmentation = "{augmentation}"': choices} if augmentation else {})


def _count_seeds(record: DatasetRecord, paper: bool) -> int:
    """Return the number of training runs of a row at a level; Hooker et al. 2019 have five."""
    if not record.tabular:
        return 5 if paper else 3
    return 20 if record.train_images <= _SMALL_TABLE else 5


def _compose_blocks(record: DatasetRecord, paper: bool) -> str:
    """Return the suite's experiments: the two questions of README.md, or those of Hooker et al. 2019."""
    introduction = """
# Each block is an experiment, the most important one first (docs/protocols.md). `roarbench estimators` lists all
# estimators; random, sobel and random-blurred, which see no network, are added to every block. Estimators that do not
# suit the network or the data are left out
"""
    comment = "training runs per row and level; each uses the maps of another explained network"
    seeds = f"seeds = {_count_seeds(record, paper)}  # {comment}"
    usual = choose_levels(record.channels) if record.tabular else ()
    if paper:
        return f"""{introduction}
[[block]]  # Hooker et al. 2019: networks are trained without the top-ranked features, and with these alone
protocols = ["roar", "kar"]
estimators = ["paper"]  # the paper's 18
levels = {format_toml(usual or PAPER_LEVELS)}  # fractions of the features to remove
{seeds}
"""
    # the estimators of the suite `quick`; columns of a table have no neighbours
    rows = [[find_estimator(name) for name in block.estimators] for block in SUITES["quick"].blocks]
    suited = [[row for row in block if not (record.tabular and row.uses_neighbouring_features)] for block in rows]
    retrained, explaining = (format_toml([row.id for row in block if not row.is_control_or_search]) for block in suited)
    searches = format_toml([row.id for row in suited[1] if row.is_search])
    return f"""{introduction}
[[block]]  # does accuracy fall when a new network is trained without the top-ranked features?
protocols = ["roar"]
estimators = {retrained}
levels = {format_toml(usual or (0.9,))}  # fractions of the features to remove; each level takes further training runs
{seeds}

[[block]]  # does a map explain its network rather than another? Nothing is trained
protocols = ["own-network"]
estimators = [
    {explaining[1:-1]},
    {searches[1:-1]},  # controls: what as many passes earn without an explanation
]
levels = {format_toml(usual or OWN_NETWORK_LEVELS)}
seeds = 1
"""
