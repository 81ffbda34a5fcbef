"""Read the blocks of cells of a suite's TOML file (docs/own-data.md). Nothing here imports torch."""

from collections.abc import Iterable, Iterator, Mapping
from enum import StrEnum
from itertools import product
from typing import TypeVar

from roarbench.datasets import DatasetRecord
from roarbench.enums import ScoredNetwork, Unit
from roarbench.errors import CallerError
from roarbench.estimators.catalogue import ESTIMATORS, PAPER, find_estimator
from roarbench.plan.controls import list_controls
from roarbench.plan.runs import check_fill, find_fill, find_protocol
from roarbench.plan.suite import Block, list_allowed_controls
from roarbench.plan.toml_table import TomlTable

MOST = 1000  # seeds and references
_SETTINGS = ("protocols", "estimators", "levels", "seeds", "units", "fills")
_Choice = TypeVar("_Choice", bound=StrEnum)


def read_blocks(top: TomlTable, dataset: DatasetRecord) -> tuple[Block, ...]:
    """Return the blocks of a file: those of its `[[block]]` tables, or one of the file's own settings.

    A table has the file's settings where it has none of its own. The usual controls of the data set come first
    everywhere, unless the file has `add_controls = false`.
    """
    lists = _read_lists(top.section("lists"), dataset)
    usual = list_allowed_controls(dataset) if top.flag("add_controls", True) else ()
    tables = top.sections("block", _SETTINGS)
    blocks = tuple(block for table in tables for block in _read_block(table, dataset, lists, usual))
    _check_random(top, blocks)
    return blocks


def _read_lists(section: TomlTable, dataset: DatasetRecord) -> dict[str, tuple[str, ...]]:
    """Return the lists of estimators that a block may name: those of every file, and this file's own."""
    lists = {"paper": PAPER, "controls": list_controls(dataset.channels, dataset.tabular)}
    for name in section:
        if name in lists or name in ESTIMATORS:
            raise section.wrong(f"{name} has a meaning of its own; write another name")
    return lists | {name: tuple(_expand_lists(section.texts(name), lists)) for name in section}


def _expand_lists(names: Iterable[str], lists: Mapping[str, Iterable[str]]) -> Iterator[str]:
    """Yield the ids that names stand for: `paper` for those of a list, `paper~blurred` for the twins of each."""
    for name in names:
        word, mark, twins = name.partition("~")
        yield from (f"{each}{mark}{twins}" for each in lists.get(word, (word,)))


def _read_block(
    table: TomlTable, dataset: DatasetRecord, lists: Mapping[str, Iterable[str]], usual: Iterable[str]
) -> Iterator[Block]:
    """Yield the blocks of a table: one for each protocol, unit and fill."""
    protocols, names = table.texts("protocols"), table.texts("estimators")
    levels, seeds = table.numbers("levels", 0.01, 1.0), table.whole("seeds", 1, MOST, 3)
    units, fills = table.texts("units", (Unit.SCALAR,)), table.texts("fills", ("mean",))
    table.close()
    with table.naming():
        ids = (_find_id(name, dataset) for name in _expand_lists(names, lists))
        estimators = tuple(dict.fromkeys((*usual, *ids)))
        fills = tuple(dict.fromkeys(map(find_fill, fills)))
        for name, unit in product(protocols, [read_choice(Unit, "units", unit) for unit in units]):
            protocol = find_protocol(name)
            masks = protocol.retrain is ScoredNetwork.MASKS  # which have no fill
            for fill in ("mean",) if masks else fills:
                check_fill(fill, protocol.retrain)
                yield Block(protocol, estimators, levels, seeds, unit, fill)


def _check_random(top: TomlTable, blocks: Iterable[Block]) -> None:
    """Refuse a protocol without Random, which its other rows are held against; masks alone need none."""
    judged = [block for block in blocks if block.protocol.retrain is not ScoredNetwork.MASKS]
    held = {(block.protocol, block.unit, block.fill) for block in judged if "random" in block.estimators}
    for block in judged:
        if (block.protocol, block.unit, block.fill) not in held:
            seen = f"{block.protocol.name} has no random, which its rows are compared with"
            raise top.wrong(f'{seen}; write "random" in its estimators, or leave add_controls = false out')


def _find_id(name: str, dataset: DatasetRecord) -> str:
    """Return the id of an estimator that these images can be given to."""
    found = find_estimator(name)
    if found.submitted:
        raise CallerError(f"estimators has '{name}'; a submission is added by run --submission FILE")
    if found.uses_ground_truth and not dataset.generated:
        raise CallerError(f"estimators has '{name}', which is known only for generated images; leave it out")
    return found.id


def read_choice(kind: type[_Choice], key: str, text: str) -> _Choice:
    """Return the member of an enum that a text names; CallerError, with the key, where it names none."""
    try:
        return kind(text)
    except ValueError:
        raise CallerError(f"{key} is '{text}', expected {' or '.join(kind)}") from None
