"""Read networks, recipes and blocks from a suite's TOML file (docs/own-data.md). Nothing here imports torch.

Files of `roarbench/suites/` and files of users have the same format.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TypeVar

from roarbench.common.enums import FEWEST_NETWORKS, MapNumerics, ScoredNetwork, Split, Unit
from roarbench.common.errors import CallerError, UnknownName
from roarbench.common.files import convert_read_errors
from roarbench.common.identity import hash_value, make_json_record
from roarbench.compute.builtin_network_table import MODELS
from roarbench.compute.recipe import Augmentation, Recipe
from roarbench.datasets.catalogue import DATASETS, DatasetRecord
from roarbench.estimators.catalogue import ESTIMATORS, PAPER_IDS, find_estimator
from roarbench.plan.cells_and_runs import PUBLISHED_WEIGHTS, make_weights_title
from roarbench.plan.protocols import find_protocol
from roarbench.plan.recipes import RECIPES, SETTINGS, change_recipe, find_recipe
from roarbench.plan.suite import (
    MAX_COMPARED_NETWORKS,
    Block,
    CustomSuite,
    GivenNetwork,
    SuiteSpec,
    find_recorded_fill_name,
    list_applicable_controls,
    list_controls_to_beat,
    refuse_impossible_cells,
)
from roarbench.plan.toml_table import TomlTable

MAX_SEEDS = 1000  # maximum number of seeds or references
_BLOCK_SETTINGS = ("protocols", "estimators", "levels", "seeds", "units", "fills")
_Choice = TypeVar("_Choice", bound=StrEnum)
HASH_DIGITS = 8  # hex digits of hashes in the names of suites, data sets and network files
_TORCHVISION, _TIMM = "torchvision:", "timm:"
_NETWORK_FILE = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")
_MAX_FILE_BYTES = 2**20  # of a Python file that defines a network


def read_blocks(top: TomlTable, dataset: DatasetRecord) -> tuple[Block, ...]:
    """Return the blocks of a file's `[[block]]` tables, or of the top-level settings if the file has no such table.

    Settings that a table lacks are taken from the file's top level. The usual controls of the data set come first in
    every block, unless the file has `add_controls = false`.
    """
    section = top.read_section("lists")
    # built-in lists of estimators that blocks may name, and those of the file, which may name built-in ones
    lists = {"paper": PAPER_IDS, "controls": list_controls_to_beat(dataset.channels, dataset.tabular)}
    for name in section:
        if name in lists or name in ESTIMATORS:
            raise section.make_error(f"{name} is the name of a built-in list or estimator; write another name")
    lists |= {name: tuple(_expand_lists(section.read_texts(name), lists)) for name in section}
    default_controls = list_applicable_controls(dataset) if top.read_flag("add_controls", True) else ()
    tables = top.read_sections("block", _BLOCK_SETTINGS)
    blocks = tuple(block for table in tables for block in _read_block(table, dataset, lists, default_controls))
    # tables compare the other estimators with Random, except under mask-only
    compared = [block for block in blocks if block.protocol.retrain is not ScoredNetwork.MASKS]
    with_random = {(block.protocol, block.unit, block.fill) for block in compared if "random" in block.estimators}
    for block in compared:
        if (block.protocol, block.unit, block.fill) not in with_random:
            seen = f"{block.protocol.name} lacks random, with which its rows are compared"
            raise top.make_error(f'{seen}; write "random" in its estimators, or remove add_controls = false')
    return blocks


def _expand_lists(names: Iterable[str], lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the ids that names denote: `paper` denotes the ids in the list `paper`, and `paper~blurred` their twins."""
    for name in names:
        word, mark, twins = name.partition("~")
        yield from (f"{base}{mark}{twins}" for base in lists.get(word, (word,)))


def _read_block(
    table: TomlTable, dataset: DatasetRecord, lists: Mapping[str, Iterable[str]], default_controls: Iterable[str]
) -> Iterator[Block]:
    """Yield the blocks of a table: one for each protocol, unit and fill."""
    protocols, names = table.read_texts("protocols"), table.read_texts("estimators")
    levels, seeds = table.read_and_sort_numbers("levels", 0.01, 1.0), table.read_integer("seeds", 1, MAX_SEEDS, 3)
    units, fills = table.read_texts("units", (Unit.SCALAR,)), table.read_texts("fills", ("mean",))
    table.refuse_unread_keys()
    with table.add_location_to_errors():
        rows = dict.fromkeys(default_controls)
        for row in _expand_lists(names, lists):
            estimator = find_estimator(row)
            if estimator.submitted:
                raise CallerError(f"estimators has the submission '{row}'; leave it out, and use run --submission FILE")
            if estimator.uses_ground_truth and not dataset.generated:
                raise CallerError(f"estimators has '{row}', which needs generated images; leave it out")
            rows[estimator.id] = None
        fills = tuple(dict.fromkeys(map(find_recorded_fill_name, fills)))
        for name, unit in product(protocols, [read_choice(Unit, "units", unit) for unit in units]):
            protocol = find_protocol(name)
            masks = protocol.retrain is ScoredNetwork.MASKS  # masks have no fill
            for fill in ("mean",) if masks else fills:
                block = Block(protocol, tuple(rows), levels, seeds, unit, fill)
                refuse_impossible_cells(block, dataset.tabular)
                yield block


def read_choice(kind: type[_Choice], key: str, text: str) -> _Choice:
    """Return the enum member with this value; raise CallerError, which names the key, if there is no such member."""
    try:
        return kind(text)
    except ValueError:
        raise CallerError(f"{key} is '{text}', expected {' or '.join(kind)}") from None


def read_given_networks(top: TomlTable, base: Path) -> tuple[GivenNetwork, ...]:
    """Read networks with given weights; raise CallerError if one is unknown or two have equal weights."""
    networks: dict[str, GivenNetwork] = {}
    for text in top.read_texts("networks"):
        name, at, weights = text.partition("@")
        with top.add_location_to_errors():
            if not at and re.fullmatch(rf"{_TIMM}[\w.]+", name):
                network = GivenNetwork(name, name, "", name)
            elif not at:
                ways = f"NETWORK@FILE, {_TORCHVISION}NAME@WEIGHTS or {_TIMM}NAME"
                raise CallerError(f"networks has '{text}', which specifies no weights; write {ways}")
            else:
                model, source = _read_network_name_and_source(name, base, "networks has")
                if name.startswith(_TORCHVISION) and re.fullmatch(r"[A-Z0-9_]+", weights):
                    network = GivenNetwork(model, f"{name}/{weights}", "", text)
                elif not (file := base / weights).is_file():
                    raise CallerError(f"networks has '{text}', but {weights} is not a file; write NETWORK@FILE")
                else:
                    network = GivenNetwork(model, make_weights_title(str(file)), source, str(file))
            if network.given in networks:
                seen = f"networks has '{text}' with the same weights as another network"
                raise CallerError(f"{seen}; list each network once")
            networks[network.given] = network
    return tuple(networks.values())


def _read_network_name_and_source(name: str, base: Path, subject: str) -> tuple[str, str]:
    if name in MODELS or re.fullmatch(rf"({_TORCHVISION}|{_TIMM})[\w.]+", name):
        return name, ""
    if match := _NETWORK_FILE.fullmatch(name):
        path = base / match["file"]
        with convert_read_errors(path, "write FILE.py:FUNCTION", CallerError):
            content = path.read_bytes()
            source = content.decode()
        if len(content) > _MAX_FILE_BYTES:
            limit = f"a file that defines a network may have at most {_MAX_FILE_BYTES:,}"
            raise CallerError(f"{path} has {len(content):,} bytes; {limit}")
        stem, digits = re.sub(r"\W+", "-", path.stem), hashlib.sha256(content).hexdigest()[:HASH_DIGITS]
        return f"{stem}.{match['function']}@{digits}", source
    if ":" in name or name.endswith(".py"):
        raise CallerError(f"{subject} '{name}', expected torchvision:NAME, timm:NAME or FILE.py:FUNCTION")
    raise UnknownName("network", name, sorted(MODELS))


def read_suite_sections(top: TomlTable, dataset: DatasetRecord, base: Path) -> SuiteSpec:
    """Return the suite that a file describes, on this data set and without a version; paths are relative to `base`."""
    name, about = top.read_text("name"), top.read_text("about", "a suite from a file")
    networks = read_given_networks(top, base) if "networks" in top else ()
    start = ""  # torchvision's weights at the start of training, such as `torchvision:NAME/IMAGENET1K_V1`
    if networks:
        model, source = networks[0].model, networks[0].source
    else:
        section = top.read_section("network")
        network, weights = section.read_text("name"), section.read_text("weights", "")
        section.refuse_unread_keys()
        if weights and not network.startswith(_TORCHVISION):
            seen = f"weights is '{weights}' and name is '{network}'"
            raise section.make_error(f"{seen}; weights need name = 'torchvision:NAME'")
        with section.add_location_to_errors():
            model, source = _read_network_name_and_source(network, base, "name is")
        start = f"{network}/{weights}" if weights else ""
    recipe = _read_recipe_from_start(top.read_section("recipe"), None, start)
    reference_recipe = _read_recipe_from_start(top.read_section("reference_recipe"), recipe, start)
    published = top.read_texts("explains", ())  # names of weights that the suite explains instead of trained networks
    for each in published:
        with top.add_location_to_errors():
            if each not in PUBLISHED_WEIGHTS:
                raise UnknownName("reference", each, PUBLISHED_WEIGHTS)
    if published and "networks" in top:
        raise top.make_error("has both networks and explains; leave one of them out")
    given = tuple(map(make_weights_title, published))
    references = len(networks) or len(given) or top.read_integer("references", 1, MAX_SEEDS, 3)
    blocks = read_blocks(top, dataset)
    with top.add_location_to_errors():
        maps = read_choice(MapNumerics, "maps", top.read_text("maps", MapNumerics.FLOAT32))
        tuned_on = read_choice(Split, "tuned_on", top.read_text("tuned_on", Split.TRAIN))
    top.refuse_unread_keys()
    for used in (recipe, reference_recipe) if dataset.tabular else ():
        if used.augmentation is not Augmentation.NONE or used.sides != (1.0,):
            seen = f"{used.title} moves or shrinks images, but a table has no images"
            raise top.make_error(f'{seen}; write like = "tabular@1" under [recipe]')
    _refuse_impossible_protocols(top, dataset, blocks, references)
    own_dataset = dataset if dataset.own or dataset.name not in DATASETS else None
    own = CustomSuite(blocks, references, own_dataset, source, ",".join(given))
    return SuiteSpec(
        name=name,
        version="",
        about=about,
        dataset=dataset.name,
        model=model,
        recipe=recipe.title,
        reference_recipe=reference_recipe.title,
        blocks=blocks,
        maps=maps,
        given=",".join(network.given for network in networks) or own.explains,
        references=references,
        own=own,
        tuned_on=tuned_on,
        networks=networks,
    )


def _read_recipe_from_start(section: TomlTable, default: Recipe | None, start: str) -> Recipe:
    with section.add_location_to_errors():
        base = find_recipe(section.read_text("like", default.title if default else None))
        table = RECIPES[base.title.partition("(")[0]]
        values = {key: getattr(base, key) for key in SETTINGS if getattr(base, key) != getattr(table, key)}
        return change_recipe(table, values | section.take_unread_values() | ({"start": start} if start else {}))


def _refuse_impossible_protocols(
    top: TomlTable, dataset: DatasetRecord, blocks: tuple[Block, ...], references: int
) -> None:
    sibling_protocols = [block.protocol.name for block in blocks if block.protocol.scores_all_network_pairs]
    if sibling_protocols and not FEWEST_NETWORKS <= references <= MAX_COMPARED_NETWORKS:
        setting = f"networks lists {references}" if "networks" in top else f"references is {references}"
        seen = f"{setting}, but {sibling_protocols[0]} compares networks with each other"
        raise top.make_error(f"{seen}; use {FEWEST_NETWORKS} to {MAX_COMPARED_NETWORKS} networks, such as 5")
    trained = [block.seeds for block in blocks if block.protocol.trains]
    if trained and max(trained) < references and not sibling_protocols:
        seen = f"references is {references} and seeds is {max(trained)}, but each seed explains only one network"
        raise top.make_error(f"{seen}; write references = {max(trained)}, or seeds = {references}")
    training_protocol = next((block.protocol.name for block in blocks if block.protocol.trains), "")
    alternative = "or protocols that train no network, such as"
    if training_protocol and "networks" in top:
        seen = f"networks lists given weights, but {training_protocol} trains networks"
        raise top.make_error(f'{seen}; write name = "…" under [network], {alternative} "own-network"')
    if training_protocol and dataset.test_only:
        seen = f"{training_protocol} trains networks, but [data] has only test images"
        raise top.make_error(f'{seen}; write train = "…" under [data], {alternative} "morf"')


def append_record_hash(name: str, record: DatasetRecord) -> DatasetRecord:
    """Return a user's data set with the hash of its record at the end of its name."""
    plain = replace(record.without_location, name="", about="", terms="")
    return replace(record, name=f"{name}-{hash_value(make_json_record(plain))[:HASH_DIGITS]}")
