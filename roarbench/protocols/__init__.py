"""The protocols: every file of this folder declares one, or a family, as constants; the tables are made of them."""

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from roarbench.enums import Order, ScoredNetwork
from roarbench.protocols.protocol import Protocol


def _read_declared() -> Iterator[Protocol]:
    for file in iter_modules(__path__):
        module = import_module(f"{__name__}.{file.name}")
        yield from (value for value in vars(module).values() if isinstance(value, Protocol))


def _position(protocol: Protocol) -> tuple[bool, int, int, str]:
    """Return where lists have a protocol: by the network that is scored, then by the end that goes first."""
    networks, ends = list(ScoredNetwork), list(Order)
    return bool(protocol.made_of), networks.index(protocol.retrain), ends.index(protocol.order), protocol.name


SHOWN = {protocol.name: protocol for protocol in sorted(_read_declared(), key=_position)}  # what a table can be of
PROTOCOLS = {name: protocol for name, protocol in SHOWN.items() if not protocol.made_of}  # those that are run
