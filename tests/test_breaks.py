"""The list of deliberate breaks, which `scripts/breaks.py` makes: each can still be made, and its tests are there."""

from breaks import Break, listed, wrong_with


def test_every_break_can_be_made_and_looked_for():
    assert {one.name: why for one in listed() if (why := wrong_with(one))} == {}


def test_a_break_that_cannot_be_made_says_why():
    sound = Break("commands", "a-name", "roarbench/text.py", 'MISSING = "–"', 'MISSING = "0"', ("tests/test_text.py",))
    assert wrong_with(sound) == ""
    for changes, why in (
        ({"file": "roarbench/nothing.py"}, "no file roarbench/nothing.py"),
        ({"text": "nothing of the kind"}, "0 times, expected once"),
        ({"into": "MISSING = '–'"}, "it changes nothing"),
        ({"into": "MISSING = ("}, "would be no Python"),
        ({"tests": ("tests/test_text.py::test_nothing",)}, "no test tests/test_text.py::test_nothing"),
    ):
        assert why in wrong_with(sound._replace(**changes))
