"""Descriptions and components of protocols."""

from itertools import product

from roarbench.common.enums import ScoredNetwork
from roarbench.plan.protocols import SHOWN, describe_levels, has_opposite_order

DESCRIPTIVE_FIELDS = ("name", "title", "dot_meaning", "question", "method", "gain_name", "gain_meaning")


def test_protocols_have_complete_distinct_descriptions():
    silent = {
        (name, field) for name, of in SHOWN.items() for field in DESCRIPTIVE_FIELDS if not getattr(of, field).strip()
    }
    masks = [name for name, of in SHOWN.items() if of.retrain is ScoredNetwork.MASKS]
    assert silent == set(product(masks, ("gain_name", "gain_meaning")))  # mask-only protocols have no gain
    for field in ("title", "question", "method", "dot_meaning", "gain_name"):
        assert len({getattr(protocol, field) for protocol in SHOWN.values()}) == len(SHOWN), field


OPPOSITES = {("roar", "kar"), ("morf", "lerf"), ("own-network", "own-network-lerf")}


def test_protocols_with_opposite_orders_differ_in_every_description():
    assert {name for name, of in SHOWN.items() if has_opposite_order(of)} == set().union(*OPPOSITES)
    for names in OPPOSITES:
        most, least = (SHOWN[name] for name in names)
        definitions = [of.gain_meaning.partition(". ")[0] for of in (most, least)]
        assert "most important" in definitions[0] and "least important" in definitions[1]
        assert most.describe_removal((0.9,)) == "90 % removed, most important first"
        assert least.describe_removal((0.9,)) == "90 % removed, least important first"
    assert SHOWN["diffroar"].describe_removal((0.1, 0.9)) == "10 and 90 % removed"


def test_describe_levels_lists_up_to_three():
    assert describe_levels((0.9,)) == "90 % removed"
    assert describe_levels((0.1, 0.5, 0.9)) == "10, 50 and 90 % removed"
    assert describe_levels((0.1, 0.3, 0.5, 0.9)) == "10 to 90 % removed"
