"""Every protocol says what it is."""

from itertools import product
from pathlib import Path

import pytest

from roarbench import protocols
from roarbench.protocols import PROTOCOLS, SHOWN
from roarbench.protocols.declaration import Protocol
from roarbench.terms import Retrain

FILES = [
    path.stem for path in Path(protocols.__file__).parent.glob("*.py") if path.stem not in ("__init__", "declaration")
]
SAID = ("name", "title", "tab", "dot", "question", "method", "gain", "meaning", "zero", "limits", "use")


@pytest.mark.parametrize(("name", "field"), list(product(SHOWN, SAID)))
def test_it_says_everything(name, field):
    without = SHOWN[name].retrain is Retrain.MASKS and field in ("gain", "meaning", "zero")  # these have no gain
    assert bool(getattr(SHOWN[name], field).strip()) is not without, f"{field} of {name}"


@pytest.mark.parametrize("file", FILES)
def test_a_file_declares_protocols_with_names_and_questions_of_their_own(file):
    declared = [value for value in vars(getattr(protocols, file)).values() if isinstance(value, Protocol)]
    assert declared
    assert [SHOWN[protocol.name] for protocol in declared] == declared
    for field in ("title", "tab", "question", "method", "dot"):
        assert len({getattr(protocol, field) for protocol in SHOWN.values()}) == len(SHOWN)


def test_a_protocol_is_run_or_made_of_two_that_are():
    assert SHOWN.keys() - PROTOCOLS.keys() == {"diffroar"}
    assert all(part in PROTOCOLS.values() for part in SHOWN["diffroar"].made_of)
