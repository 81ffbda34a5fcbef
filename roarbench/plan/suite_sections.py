"""Read the sections of a suite's TOML file: networks, recipes, blocks (docs/own-data.md). Nothing here imports torch.

Files of `roarbench/suites/` and of users are read alike.
"""

from pathlib import Path

from roarbench.datasets import DatasetRecord
from roarbench.datasets.catalogue import DATASETS
from roarbench.enums import FEWEST_NETWORKS, TABULAR_FILLS, Making, Split, Unit
from roarbench.plan.block_section import MOST, read_blocks, read_choice
from roarbench.plan.network_section import read_network, read_networks, read_published_weights
from roarbench.plan.recipe import Augmentation, Recipe
from roarbench.plan.recipes import RECIPES, SETTINGS, change_recipe, find_recipe
from roarbench.plan.runs import find_fill_word
from roarbench.plan.suite import SIBLINGS, Block, CustomSuite, SuiteSpec
from roarbench.plan.toml_table import TomlTable


def read_sections(top: TomlTable, dataset: DatasetRecord, base: Path) -> SuiteSpec:
    """Return the suite on a data set that a file describes, without a version; paths begin at `base`."""
    name, about = top.text("name"), top.text("about", "a suite from a file")
    networks = read_networks(top, base) if "networks" in top else ()
    if networks:
        model, source, start = networks[0].model, networks[0].source, ""
    else:
        model, source, start = read_network(top.section("network"), base)
    recipe = _recipe(top.section("recipe"), None, start)
    reference_recipe = _recipe(top.section("reference_recipe"), recipe, start)
    given = read_published_weights(top)
    references = len(networks) or len(given) or top.whole("references", 1, MOST, 3)
    blocks = read_blocks(top, dataset)
    with top.naming():
        maps = read_choice(Making, "maps", top.text("maps", Making.FLOAT32))
        tuned_on = read_choice(Split, "tuned_on", top.text("tuned_on", Split.TRAIN))
    top.close()
    if dataset.tabular:
        _check_tabular(top, blocks, (recipe, reference_recipe))
    _check_seeds(top, blocks, references)
    _check_trained(top, blocks, dataset)
    own = CustomSuite(
        blocks, references, dataset if dataset.own or dataset.name not in DATASETS else None, source, ",".join(given)
    )
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
        given=",".join(each.given for each in networks) or own.explains,
        references=references,
        own=own,
        tuned_on=tuned_on,
        networks=networks,
    )


def _recipe(section: TomlTable, default: Recipe | None, start: str) -> Recipe:
    """Return a recipe of the table with the values of a section in place of its own."""
    with section.naming():
        like = find_recipe(section.text("like", default.title if default else None))
        table = RECIPES[like.title.partition("(")[0]]
        values = {key: getattr(like, key) for key in SETTINGS if getattr(like, key) != getattr(table, key)}
        return change_recipe(table, values | section.rest() | ({"start": start} if start else {}))


def _check_tabular(top: TomlTable, blocks: tuple[Block, ...], recipes: tuple[Recipe, ...]) -> None:
    """Refuse what a table cannot have: it has no pixels, no neighbours, and nothing to move."""
    for block in blocks:
        if block.unit is not Unit.SCALAR:
            raise top.wrong(f"units has '{block.unit}', and a table has no pixels; write units = [\"scalar\"]")
        if block.fill not in TABULAR_FILLS:
            seen = f"fills has '{block.fill}', which is made of neighbouring pixels"
            raise top.wrong(f"{seen}; a table has {', '.join(map(find_fill_word, TABULAR_FILLS))}")
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


def _check_trained(top: TomlTable, blocks: tuple[Block, ...], dataset: DatasetRecord) -> None:
    """Refuse protocols that train where the networks have weights of their own, or no image is to train on."""
    trains = next((block.protocol.name for block in blocks if block.protocol.trains), "")
    if trains and "networks" in top:
        seen = f"networks has weights of their own, and {trains} trains networks"
        raise top.wrong(f'{seen}; write name = "…" under [network], or protocols that train nothing: "own-network"')
    if trains and dataset.test_only:
        seen = f"{trains} trains networks, and [data] has only test images"
        raise top.wrong(f'{seen}; write train = "…" under [data], or protocols that train nothing, such as "morf"')
