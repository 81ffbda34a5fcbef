"""Reads a suite from a TOML file (docs/own-data.md). Nothing here imports torch.

The network is built and tried, where its file is executed, by `execution.fitness`: before hours of work, and only by
the commands that compute.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from roarbench.datasets import DATASETS, FOLDERS, OWN_IMAGES, PARQUET, DatasetRecord, find_dataset, own_images
from roarbench.datasets.sources import counted
from roarbench.errors import CallerError
from roarbench.estimators import CONTROLS, find_estimator
from roarbench.plan.networks import named_network
from roarbench.plan.own import named_dataset, own_suite
from roarbench.plan.recipes import RECIPES, SETTINGS, Recipe, changed, find_recipe
from roarbench.plan.runs import Block, Own, Suite, check_fill, find_protocol
from roarbench.plan.suites import SUITES
from roarbench.plan.toml_table import TomlTable
from roarbench.terms import PROTOCOLS, Precision, Retrain, Split, Unit

ENDING = ".toml"
_LONGEST = 40  # letters of a name
NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{_LONGEST - 1}}}")
_MOST = 1000  # seeds and references
_MANY = 10**9
_SPLIT_KEYS = ("train", "test")
_Choice = TypeVar("_Choice", bound=StrEnum)


def read_suite(path: Path) -> Suite:
    """Return the suite that a file describes; its data are counted, no image is read.

    Raises:
        CallerError: It cannot be read, or says something that is no suite; the message has the place in the file.
    """
    return _suite(TomlTable(_parsed(path), str(path)), path)


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise CallerError(f"cannot read {path}: {error.strerror}; `roarbench new-suite FOLDER` writes one") from None
    except UnicodeDecodeError as error:
        raise CallerError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise CallerError(f"{path} is no TOML: {error}; texts are written in quotation marks") from None


@contextmanager
def _of(section: TomlTable) -> Iterator[None]:
    """Add file and table to what is found wrong with a value."""
    try:
        yield
    except CallerError as error:
        raise section.wrong(str(error)) from None


def _suite(top: TomlTable, path: Path) -> Suite:
    name, about = top.text("name"), top.text("about", "a suite from a file")
    if not NAME.fullmatch(name):
        raise top.wrong(
            f"name is '{name}', expected small letters, digits and hyphens, 40 at most; write name = \"{slug(name)}\""
        )
    if name in SUITES:
        raise top.wrong(f"name is '{name}', which is a suite of roarbench; write another")
    dataset = _dataset(top.section("data"), path.parent, name)
    model, source, start = _network(top.section("network"), path.parent)
    recipe = _recipe(top.section("recipe"), None, start)
    reference_recipe = _recipe(top.section("reference_recipe"), recipe, start)
    references = top.whole("references", 1, _MOST, 3)
    blocks = _blocks(top, dataset)
    with _of(top):
        maps = _one(Precision, "maps", top.text("maps", Precision.FLOAT32))
        tuned_on = _one(Split, "tuned_on", top.text("tuned_on", Split.TRAIN))
    top.close()
    trained = [block.seeds for block in blocks if block.protocol.retrain is not Retrain.NONE]
    if trained and max(trained) < references:
        seen = f"references is {references} and seeds is {max(trained)}: each seed is ranked by one reference"
        raise top.wrong(f"{seen}; write references = {max(trained)}, or seeds = {references}")
    made = Suite(
        name="",
        version="",
        about="",
        dataset=dataset.name,
        model=model,
        recipe=recipe.title,
        reference_recipe=reference_recipe.title,
        blocks=blocks,
        maps=maps,
        references=references,
        own=Own(blocks, references, dataset if dataset.own or dataset.name not in DATASETS else None, source),
        tuned_on=tuned_on,
    )
    return own_suite(name, about, made)


def slug(text: str) -> str:
    """Return the name of a suite that is nearest to a text."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST] or "mine"


def _dataset(section: TomlTable, base: Path, name: str) -> DatasetRecord:
    """Return the record of the data, counted."""
    kinds = [kind for kind in ("images", "parquet", "hub", "known") if kind in section]
    if len(kinds) != 1:
        seen = f"has {' and '.join(kinds)}" if kinds else "says nothing of where the data are"
        raise section.wrong(
            f'{seen}; write one of images = "FOLDER", parquet = "FOLDER", hub = "OWNER/NAME", known = "cifar10"'
        )
    if kinds == ["known"]:
        with _of(section):
            found = find_dataset(section.text("known"))
        section.close()
        return found
    record = replace(
        own_images(section.text("name", name), section.whole("channels", 1, 3, 3), section.whole("size", 8, 512)),
        about=section.text("about", OWN_IMAGES),
        crop=section.number("crop", 0.1, 1.0, 1.0),
    )
    if record.channels == 2:
        raise section.wrong("channels is 2, expected 1 for grey or 3 for colour")
    read = {"images": _images, "parquet": _parquet, "hub": _hub}[kinds[0]]
    record = read(section, base, record)
    section.close()
    with _of(section):
        return named_dataset(record.name, counted(record) if record.own else record)


def _split(section: TomlTable, record: DatasetRecord, only: str) -> DatasetRecord:
    """Return the record with its splits: two names, or a share of the only one that is drawn."""
    named = [key for key in _SPLIT_KEYS if key in section]
    if "test_share" in section:
        if named:
            raise section.wrong(f"has {named[0]} and test_share; write train and test, or test_share alone")
        share, seed = section.number("test_share", 0.01, 0.9), section.whole("seed", 0, 2**31, 0)
        return replace(record, train_split=only, test_split=only, share=share, seed=seed)
    if len(named) != 2:
        raise section.wrong('says of no split; write train = "…" and test = "…", or test_share = 0.2 to have it drawn')
    train, test = (section.text(key) for key in _SPLIT_KEYS)
    if train == test:
        raise section.wrong(f"train and test are both '{train}'; write two, or test_share = 0.2 alone")
    return replace(record, train_split=train, test_split=test)


def _images(section: TomlTable, base: Path, record: DatasetRecord) -> DatasetRecord:
    folder = _folder(section, "images", base)
    return replace(_split(section, record, "."), own=FOLDERS, folder=folder)


def _parquet(section: TomlTable, base: Path, record: DatasetRecord) -> DatasetRecord:
    folder = _folder(section, "parquet", base)
    return replace(_columns(section, _split(section, record, "train")), own=PARQUET, folder=folder)


def _columns(section: TomlTable, record: DatasetRecord) -> DatasetRecord:
    image, label = (section.text(f"{kind}_column", kind) for kind in ("image", "label"))
    return replace(record, image_column=image, label_column=label)


def _hub(section: TomlTable, base: Path, record: DatasetRecord) -> DatasetRecord:
    hub, revision = section.text("hub"), section.text("revision")
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", hub):
        raise section.wrong(f"hub is '{hub}', expected OWNER/NAME as in the address of its page")
    if not re.fullmatch(r"[0-9a-f]{40}", revision):
        seen = f"revision is '{revision}', expected the 40 digits of a commit, so that the data stay the same"
        raise section.wrong(f"{seen}; its page on the hub lists them under Files, History")
    return replace(
        _columns(section, _split(section, record, "train")),
        hub=hub,
        revision=revision,
        config=section.text("config", ""),
        classes=section.whole("classes", 2, _MANY),
        train_images=section.whole("train_images", 2, _MANY),
        test_images=section.whole("test_images", 1, _MANY),
    )


def _folder(section: TomlTable, key: str, base: Path) -> str:
    """Return the path of a folder of the data, which a file names from where it lies itself."""
    folder = (base / section.text(key)).resolve()
    if not folder.is_dir():
        what = "a file" if folder.exists() else "missing"
        raise section.wrong(f"{key} is {what}: {folder}; write a folder, from where this file lies")
    return str(folder)


def _network(section: TomlTable, base: Path) -> tuple[str, str, str]:
    """Return name and source of the network, and the published weights that trainings begin with."""
    name, weights = section.text("name"), section.text("weights", "")
    section.close()
    with _of(section):
        return named_network(name, weights, base)


def _recipe(section: TomlTable, default: Recipe | None, start: str) -> Recipe:
    """Return a recipe of the table with the values of a section in place of its own."""
    with _of(section):
        like = find_recipe(section.text("like", default.title if default else None))
        table = RECIPES[like.title.partition("(")[0]]
        values = {key: getattr(like, key) for key in SETTINGS} | section.rest()
        return changed(table, values | ({"start": start} if start else {}))


def _blocks(top: TomlTable, dataset: DatasetRecord) -> tuple[Block, ...]:
    """Return the cells: each protocol with its estimators, levels, seeds, units and fills, or those of all."""
    names = top.texts("protocols")
    for name in names:
        with _of(top):
            find_protocol(name)
    special = top.section("protocol")
    defaults = _asked(top, dataset, None)
    blocks: list[Block] = []
    for name in names:
        one = special.section(name)
        asked = _asked(one, dataset, defaults)
        one.close()
        for unit in asked["units"]:
            fills = ("mean",) if PROTOCOLS[name].retrain is Retrain.MASKS else asked["fills"]  # masks have no fill
            for fill in fills:
                with _of(top):
                    check_fill(fill, PROTOCOLS[name].retrain)
                blocks.append(
                    Block(PROTOCOLS[name], asked["estimators"], asked["levels"], asked["seeds"], Unit(unit), fill)
                )
    special.close()
    return tuple(blocks)


def _asked(section: TomlTable, dataset: DatasetRecord, defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    get = defaults or {"levels": None, "estimators": None, "seeds": 3, "units": (Unit.SCALAR,), "fills": ("mean",)}
    ids = section.texts("estimators", get["estimators"])
    units, fills = section.texts("units", get["units"]), section.texts("fills", get["fills"])
    with _of(section):
        estimators = tuple(dict.fromkeys((*CONTROLS, *(_estimator(name, dataset) for name in ids))))
        units = tuple(_one(Unit, "units", unit) for unit in units)
        for fill in fills:
            check_fill(fill, Retrain.IMAGES)
    levels = section.numbers("levels", 0.01, 1.0, get["levels"])
    return {
        "estimators": estimators,
        "levels": levels,
        "seeds": section.whole("seeds", 1, _MOST, get["seeds"]),
        "units": units,
        "fills": fills,
    }


def _estimator(name: str, dataset: DatasetRecord) -> str:
    """Return the id of an estimator that these images can be given to."""
    found = find_estimator(name)
    if found.submitted:
        raise CallerError(f"estimators has '{name}'; a submission is added by run --submission FILE")
    if found.base in ("truth", "leak") and not dataset.generated:
        raise CallerError(f"estimators has '{name}', which is known of generated images alone; leave it out")
    return found.id


def _one(kind: type[_Choice], key: str, text: str) -> _Choice:
    try:
        return kind(text)
    except ValueError:
        raise CallerError(f"{key} is '{text}', expected {' or '.join(kind)}") from None
