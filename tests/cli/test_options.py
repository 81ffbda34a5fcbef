"""Values of options that are read, and options that need another."""

import pytest

from roarbench.cli.option_records import SubmissionOptions, parse_budget
from roarbench.errors import CallerError


def test_a_time_is_read_with_its_units_and_what_is_none_refused():
    seconds = {"2h": 7200, "90m": 5400, "45s": 45, "1h30m": 5400, "1.5d": 129600, " 2h ": 7200}
    assert {text: parse_budget(text) for text in seconds} == seconds
    for text in ("soon", "", "2", "0h", "h", "1.2.3h", "-2h", "30m1h"):
        with pytest.raises(CallerError, match=r"^--budget is '.*'; write a time such as 2h, 90m or 1h30m$"):
            parse_budget(text)


def test_how_a_file_is_run_needs_the_file() -> None:
    for options in ({"trust": True}, {"device": "cuda"}):
        with pytest.raises(CallerError, match="add --submission FILE"):
            SubmissionOptions(**options)
