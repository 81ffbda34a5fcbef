"""Records of options: a command has an option for each of their fields, and gets the records back."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from roarbench.cli.option_records import SubmissionOptions, command, parse_duration
from roarbench.cli.options import Device
from roarbench.errors import CallerError


@dataclass(frozen=True)
class Paint:
    """Two options, one of which is demanded."""

    colour: Annotated[str, typer.Option("--colour", metavar="NAME", help="Which colour.")]
    coats: Annotated[int, typer.Option("--coats", min=1, help="How many layers.")] = 2


def paint(
    *,
    wall: Annotated[str, typer.Argument(help="Where.")],
    with_: Paint,
    dry: Annotated[bool, typer.Option("--dry", help="Wait until it is dry.")] = False,
) -> None:
    """Paint a wall."""
    print(wall, with_, dry)


def call(*words: str) -> str:
    app = typer.Typer()
    app.command()(command(paint))
    return CliRunner().invoke(app, words, env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}).output


def test_the_fields_of_a_record_are_options_where_it_stands() -> None:
    assert call("north", "--colour", "red", "--coats", "3", "--dry") == "north Paint(colour='red', coats=3) True\n"
    assert call("north", "--colour", "red") == "north Paint(colour='red', coats=2) False\n"
    assert "Missing option '--colour'" in call("north")
    assert "Invalid value for '--coats'" in call("north", "--colour", "red", "--coats", "0")
    text = call("--help")
    assert text.index("--colour") < text.index("--coats") < text.index("--dry")


def test_a_time_is_read_with_its_units_and_what_is_none_refused():
    seconds = {"2h": 7200, "90m": 5400, "45s": 45, "1h30m": 5400, "1.5d": 129600, " 2h ": 7200}
    assert {text: parse_duration("--budget", text) for text in seconds} == seconds
    for text in ("soon", "", "2", "0h", "h", "1.2.3h", "-2h", "30m1h"):
        with pytest.raises(CallerError, match=r"^--budget is '.*'; write a time such as 2h, 90m or 1h30m$"):
            parse_duration("--budget", text)


def test_how_a_file_is_run_needs_the_file() -> None:
    for options in ({"trust": True}, {"device": Device.CUDA}):
        with pytest.raises(CallerError, match="add --submission FILE"):
            SubmissionOptions(**options)
