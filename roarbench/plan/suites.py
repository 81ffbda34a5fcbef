"""Read suites: the named ones from `roarbench/suites/`, and users' suites from TOML files (docs/own-data.md).

A published suite never changes; a correction is a new version under the same name. The version of a user's suite is a
hash of its content. The store keeps users' suites as JSON values.

Nothing here imports torch or executes the Python file that defines a network. Before commands that compute for hours,
`execution.network_trials` executes that file, builds the network and tries it.
"""

import re
from collections import UserDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from roarbench.common.enums import MapNumerics, Split, Unit
from roarbench.common.errors import CallerError, RemovedName, UnknownName, make_missing_suite_file_error
from roarbench.common.files import convert_read_errors
from roarbench.common.identity import check_field_values, hash_value, make_json_record
from roarbench.datasets.catalogue import DatasetRecord, find_dataset
from roarbench.datasets.preprocessing import check_resizing, check_window, parse_mean_and_std
from roarbench.estimators.catalogue import find_estimator
from roarbench.plan.protocols import OWN_NETWORK, PROTOCOLS, ROAR, Protocol
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite import Block, CustomSuite, GivenNetwork, SuiteSpec, find_published_name, refuse_unusable_fill
from roarbench.plan.suite_sections import HASH_DIGITS, MAX_SEEDS, append_record_hash, read_suite_sections
from roarbench.plan.toml_table import parse_toml

# possible folders of published results: in a checkout, or beside or above the folder of the installed packages, which
# need not be this Python's own (`pip install --target`, `uv run --with`)
_ROOT = Path(__file__).parents[2]
_SHARED = [folder / "share" / "roarbench" / "results" for folder in (_ROOT, *_ROOT.parents[:3])]
RESULTS = next((folder for folder in (_ROOT / "results", *_SHARED) if (folder / "index.json").is_file()), None)
FOLDER = Path(__file__).parents[1] / "suites"
_LONGEST = 40  # maximum characters of a name
NAME = re.compile(rf"[a-z0-9][a-z0-9-]{{0,{_LONGEST - 1}}}")
_MAX_RUNS = 10**6  # of a suite in an imported file

Key = TypeVar("Key")


@cache
def read_builtin_suite(path: Path) -> SuiteSpec:
    """Return the suite that one of the package's TOML files describes."""
    top = parse_toml(path.read_text("utf-8"), path)
    version = top.read_integer("version", 1, 9999)
    data = top.read_section("data")
    dataset = find_dataset(data.read_text("known"))
    data.refuse_unread_keys()
    return replace(read_suite_sections(top, dataset, path.parent), version=version, own=None)


class _Suites(UserDict[Key, SuiteSpec]):
    """Suites, each read from its file at first use, because most commands need one or two."""

    def __getitem__(self, key: Key) -> SuiteSpec:
        suite: SuiteSpec | Path = self.data[key]
        return read_builtin_suite(suite) if isinstance(suite, Path) else suite


_NAME_AND_VERSION = re.compile(r'(?m)^name = "(.*)"\nversion = (\d+)$')


# files of all versions, quick suites first; old versions are in the results
_files = (*FOLDER.glob("*.toml"), *(RESULTS.glob("*/*/suite.toml") if RESULTS else ()))
_found = ((next(_NAME_AND_VERSION.finditer(file.read_text("utf-8"))).groups(), file) for file in _files)
_versions: dict[tuple[str, int | str], Any] = {(name, int(version)): file for (name, version), file in _found}
_order = sorted(_versions, key=lambda key: (not key[0].startswith("quick"), *key))
SUITE_VERSIONS = _Suites({key: _versions[key] for key in _order})
# newest version of each name: SUITE_VERSIONS is sorted by version
SUITES = _Suites({name: file for (name, _), file in SUITE_VERSIONS.data.items()})

_REMOVED_SUITES = {"breast-cancer-10", "cifar10-fast", "imagenet-100-64", "imagenet-augmented", "quick-full"}


def find_builtin_suite(name: str) -> SuiteSpec:
    """Return the newest suite of this name, or the version in `NAME@VERSION`; raise UnknownName if there is none."""
    versions = {f"{own}@{version}": (own, version) for own, version in SUITE_VERSIONS}
    if name.partition("@")[0] in _REMOVED_SUITES:
        raise RemovedName("suite", name)
    if name not in SUITES and name not in versions:
        raise UnknownName("suite", name, versions if "@" in name else SUITES, "suites")
    return SUITES[name] if name in SUITES else SUITE_VERSIONS[versions[name]]


def find_builtin_or_own_suite(name: str, own: Iterable[SuiteSpec]) -> SuiteSpec:
    """Return `find_builtin_suite`, else the first of a user's own suites with this name or `NAME@VERSION`."""
    try:
        return find_builtin_suite(name)
    except UnknownName:
        if suite := next((suite for suite in own if name in (suite.name, suite.versioned)), None):
            return suite
        raise


def make_renamed_suite_text(name: str) -> str:
    """Return the text of a named suite's file, with a new name and without a version, for a user to change."""
    suite = find_builtin_suite(name)
    newest = SUITES[suite.name].version == suite.version
    current, published = FOLDER / f"{suite.name}.toml", f"{suite.name}/{suite.version}/suite.toml"
    text = (current if newest or not RESULTS else RESULTS / published).read_text("utf-8")
    renamed = f'name = "my-{suite.name}"  # name of your suite; its version will be a hash of all that it computes'
    return _NAME_AND_VERSION.sub(renamed, text, count=1)


def make_suite_option_value(suite: SuiteSpec) -> str:
    """Return the value of `--suite` that selects exactly this version, or only the name for the newest version."""
    newest = SUITES.get(suite.name)
    return suite.versioned if newest and newest.version != suite.version else suite.name_in_commands


def find_headline_protocols(suite: SuiteSpec) -> tuple[Protocol, ...]:
    """Return the protocols whose tables `run` shows: the suite's first protocol, ROAR and own-network gain."""
    first, *others = (block.protocol for block in suite.blocks)
    return tuple(dict.fromkeys((first, *(other for other in others if other in (ROAR, OWN_NETWORK)))))


def find_default_explained_weights(suite: SuiteSpec) -> str:
    """Return the given weights that a suite explains without `--reference`, in the format of `SuiteSpec.given`."""
    if suite.networks:
        return ",".join(network.given for network in suite.networks)
    if suite.own:
        return suite.own.explains
    return SUITE_VERSIONS.get((suite.name, suite.version), suite).given


def read_suite(path: Path) -> SuiteSpec:
    """Read a suite's file; raise CallerError, which names the file and its section, if the file is invalid."""
    advice = "`roarbench new-suite FOLDER` writes one"
    with convert_read_errors(path, advice, CallerError):
        if not path.exists():
            raise make_missing_suite_file_error(path, advice)
        text = path.read_bytes().decode("utf-8-sig")  # editors on Windows put a byte order mark first
    return parse_suite(text, path)


def parse_suite(text: str, path: Path) -> SuiteSpec:
    """Parse the text of the suite's file at this path; raise CallerError if it is invalid."""
    from roarbench.plan.data_section import read_data_section  # the import takes half a second

    top = parse_toml(text, path)
    name = top.read_text("name")
    if not NAME.fullmatch(name):
        seen = f"name is '{name}', expected 1 to 40 lowercase letters, digits, hyphens"
        raise top.make_error(f'{seen}; write name = "{make_suite_name(name)}"')
    if name in SUITES:
        raise top.make_error(f"name is '{name}', which is a suite of roarbench; write another name")
    if "version" in top:
        raise top.make_error("has a version, which only roarbench's own suites have; leave it out")
    dataset = read_data_section(top.read_section("data"), path.parent, name)
    suite = read_suite_sections(top, dataset, path.parent)
    with top.add_location_to_errors():
        return set_version_to_content_hash(suite)


def make_suite_name(text: str) -> str:
    """Return a valid suite name that resembles a string."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:_LONGEST] or "mine"


def set_version_to_content_hash(suite: SuiteSpec) -> SuiteSpec:
    """Return a suite whose version is the hash of its content; raise CallerError if a name could leave a folder."""
    suite = replace(suite, version=hash_value(_make_content_record(suite))[:HASH_DIGITS])
    try:
        check_field_values(suite)
    except ValueError as error:
        raise CallerError(str(error)) from None
    return suite


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


def read_known_suites(records: Iterable[Mapping[str, Any]]) -> Iterator[SuiteSpec]:
    """Yield the users' suites of a file; skip those with a protocol that this version lacks."""
    for values in records:
        names = {str(dict(block).get("protocol")) for block in values.get("blocks", ())}
        if names <= {*PROTOCOLS}:
            yield read_user_suite_record(values)


def read_user_suite_record(values: Mapping[str, Any]) -> SuiteSpec:
    """Return the suite from the JSON values that `convert_user_suite_to_record` made."""
    blocks = tuple(_read_block(block) for block in values["blocks"])
    dataset, source = values["dataset"], values.get("source", "")
    given = [GivenNetwork(**network) for network in values.get("networks", ())]
    networks = tuple(replace(network, weights=find_published_name(network.given)) for network in given)
    own_dataset = _read_dataset(dataset) if isinstance(dataset, dict) else None
    if own_dataset is None:
        find_dataset(dataset)
    model_sources = [(values["model"], source), *((network.model, network.source) for network in networks)]
    for title in (values["recipe"], values["reference_recipe"]):
        find_recipe(title)
    for model, text in model_sources:
        if text and model.rpartition("@")[2] != sha256(text.encode()).hexdigest()[:HASH_DIGITS]:
            raise ValueError(f"the network's name {model} does not end in the hash of the network's file")
    if not 1 <= values["references"] <= MAX_SEEDS:
        raise ValueError(f"references is {values['references']}, expected 1 to {MAX_SEEDS}")
    if (count := sum(len(block.estimators) * len(block.levels) * block.seeds for block in blocks)) > _MAX_RUNS:
        raise ValueError(f"the suite has {count:,} runs, expected at most {_MAX_RUNS:,}")
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
    suite = drop_estimators_of_user_suite(set_version_to_content_hash(unversioned), dict(values["left_out"]))
    for item in (suite.own, *networks):
        check_field_values(item)
    return suite


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
    check_window(record.window)
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
