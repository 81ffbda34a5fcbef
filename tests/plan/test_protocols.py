"""Descriptions and components of protocols."""

from itertools import product

from roarbench.common.enums import ScoredNetwork
from roarbench.plan import protocols
from roarbench.plan.protocols import PROTOCOLS, SHOWN, Protocol

DESCRIPTIVE_FIELDS = (
    *("name", "title", "dot_meaning", "question", "method", "gain_name", "gain_meaning"),
    *("known_failures", "purpose"),
)


def test_protocols_have_complete_distinct_descriptions():
    silent = {
        (name, field) for name, of in SHOWN.items() for field in DESCRIPTIVE_FIELDS if not getattr(of, field).strip()
    }
    masks = [name for name, of in SHOWN.items() if of.retrain is ScoredNetwork.MASKS]
    assert silent == set(product(masks, ("gain_name", "gain_meaning")))  # mask-only protocols have no gain
    for field in ("title", "question", "method", "dot_meaning"):
        assert len({getattr(protocol, field) for protocol in SHOWN.values()}) == len(SHOWN), field


def test_protocols_are_run_or_derived_from_run_protocols():
    declared = [value for value in vars(protocols).values() if isinstance(value, Protocol)]
    assert [SHOWN[protocol.name] for protocol in declared] == declared and len(declared) == len(SHOWN)
    assert SHOWN.keys() - PROTOCOLS.keys() == {"diffroar"}
    assert all(part in PROTOCOLS.values() for part in SHOWN["diffroar"].computed_from)
