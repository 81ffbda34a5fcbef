"""Proposed command lines: the shell takes them as they stand, and so does the command line here."""

import os
import shlex
import sys
from pathlib import Path

import typer

from roarbench.cli import main
from roarbench.cli.proposals import TAKEN, propose, worded
from roarbench.errors import EmptyStore, UnknownName

COMMANDS = typer.main.get_command(main.app).commands


def calling(monkeypatch, *words):
    monkeypatch.delenv("ROARBENCH_STORE", raising=False)
    monkeypatch.setattr(sys, "argv", [*words])


def program(folder: Path) -> Path:
    folder.mkdir(parents=True)
    path = folder / "roarbench"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_what_the_call_said_of_store_images_and_references_is_taken_over(monkeypatch):
    said = ("--store", "my store", "--limit", "40", "--data=it's here", "--db", "sqlite:///x.db", "--workers", "2")
    calling(monkeypatch, "roarbench", "run", "--suite", "planted", *said)
    assert shlex.split(propose("run")) == (
        ["roarbench", "run", "--suite", "planted", "--store", "my store", "--db", "sqlite:///x.db"]
        + ["--data", "it's here", "--limit", "40"]
    )
    assert propose("export", "x.parquet") == "roarbench export x.parquet --store 'my store' --db sqlite:///x.db"
    assert propose("suites") == "roarbench suites"
    calling(monkeypatch, "roarbench", "run", "--suite", "x", "--reference", "a.pt", "--suite=y", "--reference=b c.pt")
    monkeypatch.setenv("ROARBENCH_STORE", "else where")
    assert propose("table") == "roarbench table --suite y --store 'else where' --reference a.pt --reference 'b c.pt'"


def test_the_program_is_named_as_the_shell_finds_it(monkeypatch, tmp_path):
    here, other = program(tmp_path / "it's" / "bin"), program(tmp_path / "other")
    monkeypatch.setenv("PATH", str(here.parent))
    calling(monkeypatch, str(here))
    assert propose("suites") == "roarbench suites"
    monkeypatch.setenv("PATH", os.pathsep.join([str(other.parent), str(here.parent)]))  # another one comes first
    assert shlex.split(propose("suites")) == [str(here), "suites"]
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    calling(monkeypatch, "other/roarbench")
    assert propose("suites") == "other/roarbench suites"


def test_what_is_taken_over_is_what_the_command_takes():
    """A command that takes an option of the call is told of it, and none is told what it does not take."""
    takes = {name: {word for one in command.params for word in one.opts} for name, command in COMMANDS.items()}
    assert set(TAKEN) == {name for name, options in takes.items() if "--store" in options}
    carried = {"--suite", "--store", "--db", "--data", "--reference", "--limit", "-o"}
    assert {name: set(taken) for name, taken in TAKEN.items()} == {name: takes[name] & carried for name in TAKEN}


def test_an_error_says_its_hint_on_the_command_line_alone(monkeypatch):
    calling(monkeypatch, "roarbench", "table", "--suite", "quick", "--store", "mine")
    empty, unknown = EmptyStore("no results store at mine"), UnknownName("suite", "quikc", ["quick"], "suites")
    assert str(empty) == "no results store at mine"
    assert worded(empty) == "no results store at mine; `roarbench run --suite quick --store mine` makes one"
    assert worded(unknown) == f"{unknown} (list: roarbench suites)" and "roarbench" not in str(unknown)
