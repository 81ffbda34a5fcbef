"""Read the named suites from the TOML files of `roarbench/suites/`. Nothing here imports torch.

A published suite never changes; a correction is a new version under the same name.
"""

import re
import sysconfig
from dataclasses import replace
from pathlib import Path

from roarbench.common.errors import UnknownName
from roarbench.datasets.catalogue import find_dataset
from roarbench.plan.protocols import OWN_NETWORK, ROAR, Protocol
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suite_sections import read_suite_sections
from roarbench.plan.toml_table import parse_toml

_SCHEMES = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
_RESULTS_FOLDERS = (  # possible folders of published results: in a checkout, or where pip installs data files
    Path(__file__).parents[2] / "results",
    *(Path(sysconfig.get_path("data", scheme)) / "share" / "roarbench" / "results" for scheme in _SCHEMES),
)
RESULTS = next((folder for folder in _RESULTS_FOLDERS if folder.is_dir()), None)
FOLDER = Path(__file__).parents[1] / "suites"


def read_builtin_suite(path: Path) -> SuiteSpec:
    """Return the suite that one of the package's TOML files describes."""
    top = parse_toml(path.read_text("utf-8"), path)
    version = top.read_integer("version", 1, 9999)
    data = top.read_section("data")
    dataset = find_dataset(data.read_text("known"))
    data.refuse_unread_keys()
    return replace(read_suite_sections(top, dataset, path.parent), version=version, own=None)


def _read_suites() -> dict[tuple[str, int | str], SuiteSpec]:
    """Return all versions of the named suites, quick suites first; old versions are in the published results."""
    files = [*FOLDER.glob("*.toml"), *(RESULTS.glob("*/*/suite.toml") if RESULTS else ())]
    suites = {(suite.name, suite.version): suite for suite in map(read_builtin_suite, files)}
    return {key: suites[key] for key in sorted(suites, key=lambda key: (not key[0].startswith("quick"), *key))}


SUITE_VERSIONS = _read_suites()
# newest version of each name: SUITE_VERSIONS is sorted by version
SUITES = {suite.name: suite for suite in SUITE_VERSIONS.values()}


def find_builtin_suite(name: str) -> SuiteSpec:
    """Return the newest suite of this name, or the version in `NAME@VERSION`; raise UnknownName if there is none."""
    versions = {suite.versioned: suite for suite in SUITE_VERSIONS.values()}
    if name not in SUITES and name not in versions:
        raise UnknownName("suite", name, versions if "@" in name else SUITES, "suites")
    return SUITES.get(name) or versions[name]


def make_renamed_suite_text(name: str) -> str:
    """Return the text of a named suite's file, with a new name and without a version, for a user to change."""
    suite = find_builtin_suite(name)
    newest = SUITES[suite.name].version == suite.version
    current, published = FOLDER / f"{suite.name}.toml", f"{suite.name}/{suite.version}/suite.toml"
    text = (current if newest or not RESULTS else RESULTS / published).read_text("utf-8")
    renamed = f'name = "my-{suite.name}"  # name of your suite; its version will be a hash of all that it computes'
    return re.sub(r'(?m)^name = ".*"\nversion = .*$', renamed, text, count=1)


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
