"""Compute the versions of suites from users' files, and convert such suites to JSON values for the store and back."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from roarbench.common.enums import MapNumerics, Split, Unit
from roarbench.common.errors import CallerError
from roarbench.common.identity import check_field_values, hash_value, make_json_record
from roarbench.datasets.catalogue import DatasetRecord, find_dataset
from roarbench.datasets.preprocessing import check_resizing, parse_mean_and_std
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.fill_names import refuse_unusable_fill
from roarbench.plan.protocols import PROTOCOLS
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import Block, CustomSuite, GivenNetwork, SuiteSpec
from roarbench.plan.suite_sections import HASH_DIGITS, MAX_SEEDS

_MAX_RUNS = 10**6


def set_content_version(suite: SuiteSpec) -> SuiteSpec:
    """Return a suite whose version is the hash of its content; raise CallerError if a name could leave a folder."""
    suite = replace(suite, version=hash_value(_make_content_record(suite))[:HASH_DIGITS])
    try:
        check_field_values(suite)
    except ValueError as error:
        raise CallerError(str(error)) from None
    return suite


def append_record_hash(name: str, record: DatasetRecord) -> DatasetRecord:
    """Return a user's data set with the hash of its record at the end of its name."""
    plain = replace(record.without_location, name="", about="", terms="")
    return replace(record, name=f"{name}-{hash_value(make_json_record(plain))[:HASH_DIGITS]}")


def drop_estimators_of_user_suite(suite: SuiteSpec, reasons: Mapping[str, str]) -> SuiteSpec:
    """Return a user's suite, of the same version, without the estimators whose ids are the keys of `reasons`."""
    if suite.own is None:
        return suite
    blocks = (
        replace(block, estimators=tuple(name for name in block.estimators if name not in reasons))
        for block in suite.own.blocks
    )
    own = replace(suite.own, left_out=tuple(sorted(reasons.items())))
    return replace(suite, own=own, blocks=tuple(block for block in blocks if block.estimators))


def convert_user_suite_to_record(suite: SuiteSpec) -> dict[str, Any]:
    """Return a user's suite as JSON values, without the local path of its data."""
    assert suite.own is not None, "only suites from users' files have records"
    left_out = dict(suite.own.left_out)
    return {"name": suite.name, "about": suite.about, **_make_content_record(suite), "left_out": left_out}


def read_user_suite_record(values: Mapping[str, Any]) -> SuiteSpec:
    """Return the suite from the JSON values that `convert_user_suite_to_record` made."""
    blocks = tuple(_read_block(block) for block in values["blocks"])
    dataset, source = values["dataset"], values.get("source", "")
    given = [GivenNetwork(**network) for network in values.get("networks", ())]
    networks = tuple(replace(network, weights=_find_published_weights_name(network.given)) for network in given)
    own_dataset = _read_dataset(dataset) if isinstance(dataset, dict) else None
    if own_dataset is None:
        find_dataset(dataset)
    model_sources = [(values["model"], source), *((network.model, network.source) for network in networks)]
    _check_values(values, model_sources, blocks)
    unversioned = SuiteSpec(
        name=values["name"],
        version="",
        about=values["about"],
        dataset=own_dataset.name if own_dataset else dataset,
        model=values["model"],
        recipe=values["recipe"],
        reference_recipe=values["reference_recipe"],
        blocks=blocks,
        maps=MapNumerics(values["maps"]),
        references=values["references"],
        given=",".join(network.given for network in networks) or values.get("explains", ""),
        own=CustomSuite(blocks, values["references"], own_dataset, source, values.get("explains", "")),
        tuned_on=Split(values.get("tuned_on", Split.TRAIN)),
        networks=networks,
    )
    suite = drop_estimators_of_user_suite(set_content_version(unversioned), dict(values["left_out"]))
    for item in (suite.own, *networks):
        check_field_values(item)
    return suite


def _find_published_weights_name(given: str) -> str:
    """Return the library's name of published weights; empty for a file, whose path on this machine is unknown."""
    return given.replace("/", "@") if "/" in given or given.startswith("timm:") else ""


def _check_values(
    values: Mapping[str, Any], model_sources: Iterable[tuple[str, str]], blocks: tuple[Block, ...]
) -> None:
    for title in (values["recipe"], values["reference_recipe"]):
        find_recipe(title)
    for model, source in model_sources:
        if source and model.rpartition("@")[2] != sha256(source.encode()).hexdigest()[:HASH_DIGITS]:
            raise ValueError(f"the network's name {model} does not end in the hash of the network's file")
    if not 1 <= values["references"] <= MAX_SEEDS:
        raise ValueError(f"references is {values['references']}, expected 1 to {MAX_SEEDS}")
    if (count := sum(len(block.estimators) * len(block.levels) * block.seeds for block in blocks)) > _MAX_RUNS:
        raise ValueError(f"the suite has {count:,} runs, expected at most {_MAX_RUNS:,}")


def _make_content_record(suite: SuiteSpec) -> dict[str, Any]:
    own = suite.own
    assert own is not None, "only suites from users' files have records"
    networks = [make_json_record(replace(network, weights="")) for network in suite.networks]
    optional = {"source": own.source, "explains": own.explains, "tuned_on": suite.tuned_on, "networks": networks}
    return {
        "dataset": make_json_record(own.dataset.without_location) if own.dataset else suite.dataset,
        "model": suite.model,
        "recipe": suite.recipe,
        "reference_recipe": suite.reference_recipe,
        "maps": suite.maps,
        "references": own.references,
        "blocks": [make_json_record(replace(block, protocol=block.protocol.name)) for block in own.blocks],  # type: ignore[arg-type]
    } | {key: value for key, value in optional.items() if value not in ("", Split.TRAIN, [])}


def _read_dataset(values: Mapping[str, Any]) -> DatasetRecord:
    """Check and return the record of a user's data set, without local paths."""
    record = DatasetRecord(**values).without_location
    check_field_values(record)
    splits = (record.train_split, record.test_split, record.config)
    if record.bundled or any(Path(split).is_absolute() or ".." in split for split in splits):
        raise ValueError(f"the splits of '{record.name}' must be relative paths inside its folder")
    if record.resize:
        check_resizing(record.resize, record.size, record.interpolation)
    if record.mean or record.std:
        parse_mean_and_std(record.mean, record.std, 255, record.channels, record.name)
    if append_record_hash(record.name.rpartition("-")[0], record).name != record.name:
        raise ValueError(f"the name of data set '{record.name}' does not end in the hash of its record")
    return record


def _read_block(values: Mapping[str, Any]) -> Block:
    for name in values["estimators"]:
        find_estimator(name)
    estimators, levels = tuple(values["estimators"]), tuple(map(float, values["levels"]))
    unit, fill, protocol = Unit(values.get("unit", Unit.SCALAR)), values.get("fill", "mean"), values["protocol"]
    if protocol not in PROTOCOLS or not all(0 < t <= 1 for t in levels) or not 1 <= values["seeds"] <= MAX_SEEDS:
        raise ValueError(f"{protocol} at levels {levels} with {values['seeds']} seeds is not a valid block of a suite")
    refuse_unusable_fill(fill, PROTOCOLS[protocol].retrain)
    return Block(PROTOCOLS[protocol], estimators, levels, values["seeds"], unit, fill)
