"""Reads a suite from a TOML file (docs/own-data.md). Nothing here imports torch.

The network is built and tried, where its file is executed, by `execution.network_check`: before hours of work, and only
by the commands that compute.
"""

import hashlib
import re
import tomllib
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from roarbench.datasets import DatasetRecord
from roarbench.datasets.catalogue import DATASETS
from roarbench.enums import FEWEST_NETWORKS, FILL_WORDS, TABULAR_FILLS, Making, ScoredNetwork, Split, Unit
from roarbench.errors import CallerError, UnknownName, make_missing_file_error
from roarbench.estimators.catalogue import find_estimator
from roarbench.models import MODELS
from roarbench.plan.custom_suite import DIGITS, MOST, make_own_suite
from roarbench.plan.data_section import read_data
from roarbench.plan.recipe import Augmentation, Recipe
from roarbench.plan.recipes import RECIPES, SETTINGS, change_recipe, find_recipe
from roarbench.plan.runs import check_fill, fill_word, find_protocol
from roarbench.plan.suite import SIBLINGS, Block, CustomSuite, GivenNetwork, SuiteSpec, controls_on
from roarbench.plan.suites import SUITES
from roarbench.plan.toml_table import TomlTable
from roarbench.plan.weights import title
from roarbench.protocols import PROTOCOLS

_LONGEST = 40  # letters of a name
NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{_LONGEST - 1}}}")
_TORCHVISION, _TIMM = "torchvision:", "timm:"
_FILE = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")
_LARGEST = 2**20  # bytes of a file that makes a network
_Choice = TypeVar("_Choice", bound=StrEnum)


def read_suite(path: Path) -> SuiteSpec:
    """Return the suite that a file describes; CallerError, with the place in the file, where it is none."""
    try:
        text = path.read_bytes().decode()
    except FileNotFoundError:
        raise make_missing_file_error(path, ".toml", "`roarbench new-suite FOLDER` writes one") from None
    except OSError as error:
        raise CallerError(f"cannot read {path}: {error.strerror}; `roarbench new-suite FOLDER` writes one") from None
    except UnicodeDecodeError as error:
        raise CallerError(f"{path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None
    return parse_suite(text, path)


def parse_suite(text: str, path: Path) -> SuiteSpec:
    """Return the suite that a text describes as the file at this path; CallerError where it is none."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise CallerError(f"{path} is not TOML: {error}; texts are written in quotation marks") from None
    return _suite(TomlTable(values, str(path)), path)


def _suite(top: TomlTable, path: Path) -> SuiteSpec:
    name, about = top.text("name"), top.text("about", "a suite from a file")
    _check_name(top, name)
    dataset = read_data(top.section("data"), path.parent, name)
    networks = _networks(top, path.parent) if "networks" in top else ()
    if networks:
        model, source, start = networks[0].model, networks[0].source, ""
    else:
        model, source, start = _network(top.section("network"), path.parent)
    recipe = _recipe(top.section("recipe"), None, start)
    reference_recipe = _recipe(top.section("reference_recipe"), recipe, start)
    references = len(networks) or top.whole("references", 1, MOST, 3)
    blocks = _blocks(top, dataset)
    with top.naming():
        maps = _one(Making, "maps", top.text("maps", Making.FLOAT32))
        tuned_on = _one(Split, "tuned_on", top.text("tuned_on", Split.TRAIN))
    top.close()
    if dataset.tabular:
        _check_tabular(top, blocks, (recipe, reference_recipe))
    _check_seeds(top, blocks, references)
    if networks and (trains := [block.protocol.name for block in blocks if block.protocol.trains]):
        seen = f"networks has weights of their own, and {trains[0]} trains networks"
        raise top.wrong(f'{seen}; write name = "…" under [network], or protocols that train nothing: "own-network"')
    if dataset.test_only and (trains := [block.protocol.name for block in blocks if block.protocol.trains]):
        seen = f"{trains[0]} trains networks, and [data] has only test images"
        raise top.wrong(f'{seen}; write train = "…" under [data], or protocols that train nothing, such as "morf"')
    made = SuiteSpec(
        name=name,
        version="",
        about=about,
        dataset=dataset.name,
        model=model,
        recipe=recipe.title,
        reference_recipe=reference_recipe.title,
        blocks=blocks,
        maps=maps,
        given=",".join(each.given for each in networks),
        references=references,
        own=CustomSuite(
            blocks,
            references,
            dataset if dataset.own or dataset.name not in DATASETS else None,
            source,
        ),
        tuned_on=tuned_on,
        networks=networks,
    )
    with top.naming():
        return make_own_suite(made)


def _check_name(top: TomlTable, name: str) -> None:
    if not NAME.fullmatch(name):
        raise top.wrong(
            f"name is '{name}', expected 1 to 40 lowercase letters, digits, hyphens; write name = \"{slug(name)}\""
        )
    if name in SUITES:
        raise top.wrong(f"name is '{name}', which is a suite of roarbench; write another")


def slug(text: str) -> str:
    """Return the name of a suite that is nearest to a text."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST] or "mine"


def _networks(top: TomlTable, base: Path) -> tuple[GivenNetwork, ...]:
    """Return networks with weights of their own; CallerError where one is not understood, or two have the same."""
    found: dict[str, GivenNetwork] = {}
    for text in top.texts("networks"):
        with top.naming():
            one = _given_network(text, base)
            if one.given in found:
                raise CallerError(f"networks has '{text}', whose weights are those of another one; name each once")
            found[one.given] = one
    return tuple(found.values())


def _given_network(text: str, base: Path) -> GivenNetwork:
    name, at, weights = text.partition("@")
    if not at and re.fullmatch(rf"{_TIMM}[\w.]+", name):
        return GivenNetwork(name, name, "", name)
    if not at:
        ways = f"NETWORK@FILE, {_TORCHVISION}NAME@WEIGHTS or {_TIMM}NAME"
        raise CallerError(f"networks has '{text}', which names no weights; write {ways}")
    model, source = _named_network(name, base, "networks has")
    if name.startswith(_TORCHVISION) and re.fullmatch(r"[A-Z0-9_]+", weights):
        return GivenNetwork(model, f"{name}/{weights}", "", text)
    file = str(base / weights)
    if not Path(file).is_file():
        raise CallerError(f"networks has '{text}', and {weights} is no file; write NETWORK@FILE")
    return GivenNetwork(model, title(file), source, file)


def _network(section: TomlTable, base: Path) -> tuple[str, str, str]:
    """Return what the network is called, the source of its file, and the weights that its trainings begin with.

    Its name is one of `MODELS`, `torchvision:NAME`, `timm:NAME`, or `FILE.py:FUNCTION`, whose path begins at `base`.
    Weights are torchvision's, such as `IMAGENET1K_V1`; random ones if empty.
    """
    name, weights = section.text("name"), section.text("weights", "")
    section.close()
    if weights and not name.startswith(_TORCHVISION):
        raise section.wrong(f"weights is '{weights}' and name is '{name}'; weights are those of a torchvision:NAME")
    with section.naming():
        model, source = _named_network(name, base, "name is")
    return model, source, f"{name}/{weights}" if weights else ""


def _named_network(name: str, base: Path, said: str) -> tuple[str, str]:
    """Return what a network is called, and the source of its file; empty for one that is known by its name."""
    if name in MODELS or re.fullmatch(rf"({_TORCHVISION}|{_TIMM})[\w.]+", name):
        return name, ""
    if found := _FILE.fullmatch(name):
        return _network_file(base / found["file"], found["function"])
    if ":" in name or name.endswith(".py"):
        raise CallerError(f"{said} '{name}', expected torchvision:NAME, timm:NAME or FILE.py:FUNCTION")
    raise UnknownName("network", name, sorted(MODELS))


def _network_file(path: Path, function: str) -> tuple[str, str]:
    try:
        content = path.read_bytes()
        source = content.decode()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not UTF-8"
        raise CallerError(f"cannot read the network's file {path}: {why}; write FILE.py:FUNCTION") from None
    if len(content) > _LARGEST:
        raise CallerError(f"{path} has {len(content):,} bytes; a file that makes a network has {_LARGEST:,} at most")
    stem = re.sub(r"\W+", "-", path.stem)
    return f"{stem}.{function}@{hashlib.sha256(content).hexdigest()[:DIGITS]}", source


def _recipe(section: TomlTable, default: Recipe | None, start: str) -> Recipe:
    """Return a recipe of the table with the values of a section in place of its own."""
    with section.naming():
        like = find_recipe(section.text("like", default.title if default else None))
        table = RECIPES[like.title.partition("(")[0]]
        values = {key: getattr(like, key) for key in SETTINGS} | section.rest()
        return change_recipe(table, values | ({"start": start} if start else {}))


def _blocks(top: TomlTable, dataset: DatasetRecord) -> tuple[Block, ...]:
    """Return the cells: each protocol with its estimators, levels, seeds, units and fills, or those of all."""
    names = top.texts("protocols")
    for name in names:
        with top.naming():
            find_protocol(name)
    special = top.section("protocol")
    defaults = _read_block(top, dataset, None)
    blocks: list[Block] = []
    for name in names:
        one = special.section(name)
        asked = _read_block(one, dataset, defaults)
        one.close()
        if Unit.SUPERPIXEL in asked["units"] and "random-redrawn" in asked["estimators"]:
            raise top.wrong("random-redrawn draws pixels, and units has superpixel; leave one of them out")
        for unit in asked["units"]:
            fills = (
                ("mean",) if PROTOCOLS[name].retrain is ScoredNetwork.MASKS else asked["fills"]
            )  # masks have no fill
            for fill in fills:
                with top.naming():
                    check_fill(fill, PROTOCOLS[name].retrain)
                blocks.append(
                    Block(PROTOCOLS[name], asked["estimators"], asked["levels"], asked["seeds"], Unit(unit), fill)
                )
    special.close()
    return tuple(blocks)


def _check_tabular(top: TomlTable, blocks: tuple[Block, ...], recipes: tuple[Recipe, ...]) -> None:
    """Refuse what a table cannot have: it has no pixels, no neighbours, and nothing to move."""
    for block in blocks:
        if block.unit is not Unit.SCALAR:
            raise top.wrong(f"units has '{block.unit}', and a table has no pixels; write units = [\"scalar\"]")
        if block.fill not in TABULAR_FILLS:
            seen = f"fills has '{block.fill}', which is made of neighbouring pixels"
            raise top.wrong(f"{seen}; a table has {', '.join(map(fill_word, TABULAR_FILLS))}")
    for recipe in recipes:
        if recipe.augmentation is not Augmentation.NONE or recipe.sides != (1.0,):
            seen = f"{recipe.title} moves or shrinks images, which rows of a table are not"
            raise top.wrong(f'{seen}; write like = "tabular@1" under [recipe]')


def _check_seeds(top: TomlTable, blocks: tuple[Block, ...], references: int) -> None:
    """Refuse references that no seed is ranked by, and too few or too many to be held against each other."""
    by_networks = [block.protocol.name for block in blocks if block.protocol.by_networks]
    if by_networks and not FEWEST_NETWORKS <= references <= SIBLINGS:
        named = f"networks has {references}" if "networks" in top else f"references is {references}"
        seen = f"{named}, and {by_networks[0]} holds networks against each other"
        raise top.wrong(f"{seen}; {FEWEST_NETWORKS} at least and {SIBLINGS} at most, such as 5, are needed")
    trained = [block.seeds for block in blocks if block.protocol.trains]
    if trained and max(trained) < references and not by_networks:
        seen = f"references is {references} and seeds is {max(trained)}: each seed is ranked by one reference"
        raise top.wrong(f"{seen}; write references = {max(trained)}, or seeds = {references}")


def _read_block(section: TomlTable, dataset: DatasetRecord, defaults: Mapping[str, Any] | None) -> dict[str, Any]:
    get = defaults or {"levels": None, "estimators": None, "seeds": 3, "units": (Unit.SCALAR,), "fills": ("mean",)}
    ids = section.texts("estimators", get["estimators"])
    units, fills = section.texts("units", get["units"]), section.texts("fills", get["fills"])
    fills = tuple(dict.fromkeys(FILL_WORDS.get(fill, fill) for fill in fills))
    with section.naming():
        estimators = tuple(dict.fromkeys((*controls_on(dataset), *(_estimator(name, dataset) for name in ids))))
        units = tuple(_one(Unit, "units", unit) for unit in units)
        for fill in fills:
            check_fill(fill, ScoredNetwork.IMAGES)
    levels = section.numbers("levels", 0.01, 1.0, get["levels"])
    return {
        "estimators": estimators,
        "levels": levels,
        "seeds": section.whole("seeds", 1, MOST, get["seeds"]),
        "units": units,
        "fills": fills,
    }


def _estimator(name: str, dataset: DatasetRecord) -> str:
    """Return the id of an estimator that these images can be given to."""
    found = find_estimator(name)
    if found.submitted:
        raise CallerError(f"estimators has '{name}'; a submission is added by run --submission FILE")
    if found.uses_ground_truth and not dataset.generated:
        raise CallerError(f"estimators has '{name}', which is known only for generated images; leave it out")
    return found.id


def _one(kind: type[_Choice], key: str, text: str) -> _Choice:
    try:
        return kind(text)
    except ValueError:
        raise CallerError(f"{key} is '{text}', expected {' or '.join(kind)}") from None
