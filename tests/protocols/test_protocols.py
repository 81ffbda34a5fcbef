"""Every protocol says what it is."""

import re
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
FORMS = {  # of what a declaration says
    "name": r"[a-z]+(-[a-z]+)*",
    "title": r"[A-Z][^.,:]+",  # stands within sentences
    "tab": r"[A-Z].{5,31}",
    "dot": r"Each dot: .+\.",
    "question": r"[A-Z][^.?]{20,79}\?",
    "method": r".{20,}[^.]",  # a full stop or a caption follows
    "gain": r"[^.,:]+",
    "meaning": r"Gain: .+\.",
    "zero": r"\S.+[^.]",
    "limits": r"[A-Z].+[^.]",
    "use": r"[A-Z].+[^.]",
}


@pytest.mark.parametrize(("name", "field"), list(product(SHOWN, FORMS)))
def test_it_says_everything(name, field):
    said = getattr(SHOWN[name], field)
    if field in ("gain", "meaning", "zero") and SHOWN[name].retrain is Retrain.MASKS:
        assert said == ""  # these networks have no gain
    else:
        assert re.fullmatch(FORMS[field], said), f"{field} of {name}: {said!r}"


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
