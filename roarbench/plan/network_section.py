"""Read the networks of a suite's TOML file (docs/own-data.md). Nothing here imports torch."""

import hashlib
import re
from pathlib import Path

from roarbench.errors import CallerError, UnknownName
from roarbench.models import MODELS
from roarbench.plan.suite import GivenNetwork
from roarbench.plan.toml_table import TomlTable
from roarbench.plan.weights import PUBLISHED, make_weights_title

DIGITS = 8  # of the hash of a suite, of a data set, of a network's file in their names
_TORCHVISION, _TIMM = "torchvision:", "timm:"
_FILE = re.compile(r"(?P<file>.+\.py):(?P<function>[A-Za-z_]\w*)")
_LARGEST = 2**20  # bytes of a file that makes a network


def read_networks(top: TomlTable, base: Path) -> tuple[GivenNetwork, ...]:
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
    return GivenNetwork(model, make_weights_title(file), source, file)


def read_network(section: TomlTable, base: Path) -> tuple[str, str, str]:
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


def read_published_weights(top: TomlTable) -> tuple[str, ...]:
    """Return the titles of the published weights that the suite explains in place of networks that it trains."""
    names = top.texts("explains") if "explains" in top else ()
    for name in names:
        with top.naming():
            if name not in PUBLISHED:
                raise UnknownName("reference", name, PUBLISHED)
    if names and "networks" in top:
        raise top.wrong("has networks and explains; leave one of them out")
    return tuple(map(make_weights_title, names))
