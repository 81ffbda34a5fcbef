"""Networks of a user's file that can be pickled and saved whole: the pickle contains the file's text.

pickle refers to classes by the name of an importable module, but a network file is run without being installed.
"""

import io
import pickle
from copy import deepcopy
from types import FunctionType, ModuleType
from typing import Any

from torch import nn


class SavedWithSource:
    """Base of the class of a network whose pickles contain the source of its definitions."""

    definitions: ModuleType
    source: str

    @classmethod
    def replace_class(cls, network: nn.Module, definitions: ModuleType, source: str) -> None:
        """Change a network's class, in place, to a subclass of the same name whose pickles contain `source`."""
        kind: Any = type(network)
        members = {"definitions": definitions, "source": source, "__module__": kind.__module__, "__doc__": kind.__doc__}
        # the kind is first, so that objects keep the layout of a kind with an abstract base, and torch.fx its copying
        network.__class__ = type(kind.__name__, (kind, cls), members)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Return a function, and its arguments, that rebuild this network."""
        pickled = io.BytesIO()
        _Pickler(pickled, self).dump(self)
        return load_network_with_source, (self.definitions.__name__, self.source, pickled.getvalue())

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy without the detour through a pickle, which not all hooks survive."""
        made: Any = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__setstate__(deepcopy(vars(self), memo))
        return made


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, network: SavedWithSource) -> None:
        super().__init__(file)
        self.network = network

    def persistent_id(self, part: Any) -> str | None:
        """Refer to what the file defines by its name in the file."""
        if isinstance(part, type | FunctionType) and part.__module__ == self.network.definitions.__name__:
            return part.__qualname__
        return None

    def reducer_override(self, part: Any) -> Any:
        """Pickle the network itself as an object of its own class."""
        if part is self.network:
            return make_empty_object, (type(part).__bases__[0],), vars(part)
        return NotImplemented


def make_empty_object(kind: Any) -> Any:
    """Return an object of a class without calling its `__init__`, which a pickle's next step replaces."""
    return kind.__new__(kind)


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, definitions: ModuleType) -> None:
        super().__init__(file)
        self.definitions = definitions

    def persistent_load(self, name: Any) -> Any:
        """Find what the file defines."""
        found: Any = self.definitions
        for part in name.split("."):
            found = getattr(found, part)
        return found


def load_network_with_source(name: str, source: str, pickled: bytes) -> nn.Module:
    """Rebuild a network from its pickle and the text of its file, which is run; pickles are no safer."""
    definitions = ModuleType(name)
    exec(compile(source, f"{name}.py", "exec"), definitions.__dict__)
    network: nn.Module = _Unpickler(io.BytesIO(pickled), definitions).load()
    SavedWithSource.replace_class(network, definitions, source)
    return network
