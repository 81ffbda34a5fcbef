"""Every protocol says what it is."""

from itertools import product

from roarbench.common.enums import ScoredNetwork
from roarbench.plan import protocols
from roarbench.plan.protocols import PROTOCOLS, SHOWN, Protocol

SAID = ("name", "title", "tab", "dot", "question", "method", "gain", "meaning", "limits", "use")


def test_every_protocol_says_everything_in_words_of_its_own():
    silent = {(name, field) for name, of in SHOWN.items() for field in SAID if not getattr(of, field).strip()}
    masks = [name for name, of in SHOWN.items() if of.retrain is ScoredNetwork.MASKS]
    assert silent == set(product(masks, ("gain", "meaning")))  # these have no gain
    for field in ("title", "tab", "question", "method", "dot"):
        assert len({getattr(protocol, field) for protocol in SHOWN.values()}) == len(SHOWN), field


def test_protocols_are_run_or_made_of_two_that_are():
    declared = [value for value in vars(protocols).values() if isinstance(value, Protocol)]
    assert [SHOWN[protocol.name] for protocol in declared] == declared and len(declared) == len(SHOWN)
    assert SHOWN.keys() - PROTOCOLS.keys() == {"diffroar"}
    assert all(part in PROTOCOLS.values() for part in SHOWN["diffroar"].made_of)
