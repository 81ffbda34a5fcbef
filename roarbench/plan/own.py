"""Suites that somebody's file describes: what identifies them, and as plain values, as a store keeps them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from roarbench.datasets import DatasetRecord
from roarbench.estimators.catalogue import find_estimator
from roarbench.identity import fingerprint, record
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import Block, Own, Suite
from roarbench.terms import PROTOCOLS, Making, Split, Unit

DIGITS = 8  # of the hash of a suite, of a data set, of a network's file in their names


def own_suite(name: str, about: str, made: Suite) -> Suite:
    """Return a suite with its name, and with the hash of what is computed as its version.

    Equal content has the same version wherever the file lies, whatever its comments, its name and its order.

    Args:
        name: What it is called.
        about: One sentence.
        made: All the rest.
    """
    return replace(made, name=name, about=about, version=fingerprint(_computed(made))[:DIGITS])


def named_dataset(name: str, found: DatasetRecord) -> DatasetRecord:
    """Return the record of somebody's own data set with the hash of what it says in its name."""
    plain = replace(found.anywhere, name="", about="", terms="")
    return replace(found, name=f"{name}-{fingerprint(record(plain))[:DIGITS]}")


def without(suite: Suite, reasons: Mapping[str, str]) -> Suite:
    """Return one's own suite without the estimators that do not apply to its network; it stays the same suite.

    Args:
        suite: Which.
        reasons: By id; a twin goes with what it is made from.
    """
    if suite.own is None:
        return suite
    left = tuple((name, reasons[name]) for name in sorted(reasons))
    blocks = (
        replace(block, estimators=tuple(name for name in block.estimators if name not in reasons))
        for block in suite.own.blocks
    )
    return replace(suite, own=replace(suite.own, left_out=left), blocks=tuple(b for b in blocks if b.estimators))


def suite_record(suite: Suite) -> dict[str, Any]:
    """Return one's own suite as plain JSON values, without the place of its data on this machine."""
    assert suite.own is not None, "the others are in the table"
    return {"name": suite.name, "about": suite.about, **_computed(suite), "left_out": dict(suite.own.left_out)}


def suite_of(values: Mapping[str, Any]) -> Suite:
    """Return the suite that `suite_record` was made of.

    Raises:
        CallerError, KeyError, TypeError, ValueError: The values are not those of a suite.
    """
    blocks = tuple(_block(each) for each in values["blocks"])
    dataset, source = values["dataset"], values.get("source", "")
    found = DatasetRecord(**dataset) if isinstance(dataset, dict) else None
    for title in (values["recipe"], values["reference_recipe"]):
        find_recipe(title)
    texts = (values["name"], values["about"], values["model"], source, found.name if found else dataset)
    if not all(isinstance(text, str) for text in texts) or not isinstance(values["references"], int):
        raise ValueError("its values are of other kinds")
    made = Suite(
        name="",
        version="",
        about="",
        dataset=found.name if found else dataset,
        model=values["model"],
        recipe=values["recipe"],
        reference_recipe=values["reference_recipe"],
        blocks=blocks,
        maps=Making(values["maps"]),
        references=values["references"],
        own=Own(blocks, values["references"], found, source),
        tuned_on=Split(values.get("tuned_on", Split.TRAIN)),
    )
    return without(own_suite(values["name"], values["about"], made), dict(values["left_out"]))


def _computed(suite: Suite) -> dict[str, Any]:
    own = suite.own
    assert own is not None, "the others are in the table"
    optional = {"source": own.source, "tuned_on": suite.tuned_on}
    return {
        "dataset": record(own.dataset.anywhere) if own.dataset else suite.dataset,
        "model": suite.model,
        "recipe": suite.recipe,
        "reference_recipe": suite.reference_recipe,
        "maps": suite.maps,
        "references": own.references,
        "blocks": [record(replace(block, protocol=block.protocol.name)) for block in own.blocks],  # type: ignore[arg-type]
    } | {key: value for key, value in optional.items() if value not in ("", Split.TRAIN)}


def _block(values: Mapping[str, Any]) -> Block:
    for name in values["estimators"]:
        find_estimator(name)
    estimators, levels = tuple(values["estimators"]), tuple(map(float, values["levels"]))
    unit = Unit(values.get("unit", Unit.SCALAR))
    return Block(
        PROTOCOLS[values["protocol"]], estimators, levels, int(values["seeds"]), unit, values.get("fill", "mean")
    )
