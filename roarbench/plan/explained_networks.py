"""Suites that explain given weights in place of networks of their own. Nothing here imports torch."""

from collections.abc import Sequence

from roarbench.enums import FEWEST_NETWORKS
from roarbench.errors import CallerError
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import set_explained_weights
from roarbench.plan.weights import PUBLISHED, make_weights_title


def set_explained_networks(suite: SuiteSpec, references: Sequence[str], known: Sequence[str] = ()) -> SuiteSpec:
    """Return a suite that explains given weights, one reference for each; without any the suite itself.

    Each is what `title` takes, or the start of one of the titles that a store knows, if it fits no other.

    Raises:
        CallerError: There are no such weights, two are the same, they are too few to be held against each other, they
            are published ones of another network than the suite's, or the suite names its own. Those of a file are held
            against the network when they are read.
    """
    if suite.networks and references:
        seen = f"suite '{suite.name}' says which networks it explains"
        change = "change networks in its file, or " if suite.own else ""
        raise CallerError(f"{seen}; {change}leave --reference out")
    names: dict[str, str] = {}
    for reference in references:
        begun = [one for one in known if one.startswith(reference)] if "@" in reference else []
        given = begun[0] if len(begun) == 1 else make_weights_title(reference)
        if given in names:
            same = "is named twice" if reference == names[given] else f"has the weights of {names[given]}"
            raise CallerError(f"--reference {reference} {same}; name each network once")
        _check_published(suite, given)
        names[given] = reference
    by_networks = [block.protocol.name for block in suite.blocks if block.protocol.by_networks]
    if by_networks and 0 < len(names) < FEWEST_NETWORKS:
        seen = f"suite '{suite.name}' holds networks against each other ({by_networks[0]})"
        raise CallerError(f"{seen}, and --reference names {len(names)}; name {FEWEST_NETWORKS} or more")
    return set_explained_weights(suite, ",".join(names)) if names else suite


def _check_published(suite: SuiteSpec, given: str) -> None:
    name, record = given.partition("@")[0], suite.dataset_record
    known, wanted = PUBLISHED.get(name), (suite.model, record.classes, record.channels)
    if known and known[1:] != wanted:
        seen = f"{name} is a {known.model} of {known.classes:,} classes"
        asked = f"suite '{suite.name}' explains a {suite.model} of {record.classes:,}"
        raise CallerError(f"{seen}, {asked}; give weights of that network, or leave --reference out")
