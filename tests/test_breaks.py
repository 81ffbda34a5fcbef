"""The list of deliberate breaks, which `scripts/breaks.py` makes: each can still be made, and its tests are there."""

import pytest
from breaks import Break, listed, tried, wrong_with


def test_every_break_can_be_made_and_looked_for():
    assert {one.name: why for one in listed() if (why := wrong_with(one))} == {}


def test_a_break_that_cannot_be_made_says_why():
    sound = Break("commands", "a-name", "roarbench/text.py", 'MISSING = "–"', 'MISSING = "0"', ("tests/test_text.py",))
    assert wrong_with(sound) == ""
    for changes, why in (
        ({"file": "roarbench/nothing.py"}, "no file roarbench/nothing.py"),
        ({"text": "nothing of the kind"}, "0 times, expected once"),
        ({"into": "MISSING = ("}, "would be no Python"),
        ({"tests": ("tests/test_text.py::test_nothing",)}, "no test tests/test_text.py::test_nothing"),
    ):
        assert why in wrong_with(sound._replace(**changes))


STUCK = """
import time
import source

def test_it():
    time.sleep(source.SECONDS)
    assert source.SECONDS == 0
"""


@pytest.mark.process
@pytest.mark.parametrize(("seconds", "hangs", "found"), [(0.1, False, True), (600, False, False), (600, True, True)])
def test_what_only_runs_into_the_limit_is_not_found_unless_it_hangs(tmp_path, capfd, seconds, hangs, found):
    (tmp_path / "source.py").write_text("SECONDS = 0\n")
    (tmp_path / "test_it.py").write_text(STUCK)
    one = Break("room", "name", "source.py", "= 0", f"= {seconds}", ("test_it.py",), hangs)
    with capfd.disabled():
        there, by = tried(one, tmp_path, most=1.0 if seconds == 600 else 60.0)
    assert there is found
    assert by == ("no end in 1 s" if seconds == 600 else "test_it.py::test_it")
