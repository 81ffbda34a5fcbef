"""Every protocol says what it is."""

from roarbench.protocols import PROTOCOLS, SHOWN


def test_every_protocol_has_words_of_its_own_and_one_that_is_not_run_is_made_of_two_that_are():
    for field in ("title", "tab", "question", "method", "dot"):
        assert len({getattr(protocol, field) for protocol in SHOWN.values()}) == len(SHOWN), field
    assert SHOWN.keys() - PROTOCOLS.keys() == {"diffroar"}
    assert all(part in PROTOCOLS.values() for part in SHOWN["diffroar"].made_of)
