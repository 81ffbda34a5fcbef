"""Commands proposed in messages: their options, quoting and success."""

import json
import shlex
import sys
from dataclasses import replace

import pytest

from roarbench.cli.terminal import (
    append_proposed_command,
    hide_password,
    propose_command,
)
from roarbench.common.errors import EmptyStore, StoreError, UnknownName
from roarbench.plan.protocols import LERF, MATCHED, MORF, ROAR
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.store.database import open_database
from tests.helpers.command_line import SMALL, publish


@pytest.fixture
def set_command_line(monkeypatch):
    """Return a function that sets the words of the current command line."""
    return lambda *words: monkeypatch.setattr(sys, "argv", [*map(str, words)])


def test_propose_command_keeps_options_of_call(set_command_line, monkeypatch):
    said = ("--store", "my store", "--max-images", "40", "--data=it's here", "--db", "sqlite:///x.db", "--workers", "2")
    set_command_line("roarbench", "run", "--suite", "planted", *said)
    taken = ["--suite", "planted", "--store", "my store", "--db", "sqlite:///x.db", "--data", "it's here"]
    assert shlex.split(propose_command("run")) == ["roarbench", "run", *taken, "--max-images", "40"]
    assert propose_command("export", "x.parquet") == "roarbench export x.parquet --store 'my store' --db sqlite:///x.db"
    assert propose_command("doctor") == "roarbench doctor --store 'my store'"
    assert propose_command("suites") == "roarbench suites"
    set_command_line("roarbench", "run", "--suite", "x", "--fill", "linear", "--unit=pixel")
    for command in ("run", "plan", "replicate", "status", "retry", "runs", "table", "compare", "diagnose", "plot"):
        assert propose_command(command).endswith("--suite x --fill linear --unit pixel")
    assert propose_command("runs", "1a2b") == "roarbench runs 1a2b", "a key of any suite"
    set_command_line("roarbench", "run", "--suite", "x", "--reference", "a.pt", "--suite=y", "--reference=b c.pt")
    monkeypatch.setenv("ROARBENCH_STORE", "else where")
    references = "--reference a.pt --reference 'b c.pt'"
    assert propose_command("table") == f"roarbench table --suite y --store 'else where' {references}"


def test_propose_command_names_program_as_shell_finds_it(set_command_line, monkeypatch, tmp_path):
    here = tmp_path / "it's" / "roarbench"
    here.parent.mkdir()
    here.touch(0o755)
    set_command_line(here)
    monkeypatch.setenv("PATH", str(here.parent))
    assert propose_command("suites") == "roarbench suites"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shlex.split(propose_command("suites")) == [str(here), "suites"]


def test_append_proposed_command_adds_hint_to_error(set_command_line):
    set_command_line("roarbench", "table", "--suite", "quick", "--store", "mine")
    empty, unknown = EmptyStore("no results store at mine"), UnknownName("suite", "quikc", ["quick"], "suites")
    assert str(empty) == "no results store at mine"
    assert append_proposed_command(empty) == f"{empty}; `roarbench run --suite quick --store mine` creates one"
    assert append_proposed_command(unknown) == f"{unknown} (list: roarbench suites)" and "roarbench" not in str(unknown)


@pytest.mark.parametrize("password", ["hush", "12@hush", "12/hush", "12#hush", "12?hush", "12:hush", "12%40hush"])
@pytest.mark.parametrize("end", ["localhost:1/name", "/name?host=/nowhere", "localhost:1/name?sslmode=require"])
def test_hide_password_removes_password_from_url(password, end):
    url = f"postgresql://user:{password}@{end}"
    with pytest.raises(StoreError) as error:
        open_database(url, read_only=True)
    assert "hush" not in str(error.value), url
    assert hide_password(url) == f"postgresql://user:***@{end}"


KINDS = {  # protocols, words after `run`, the protocol shown, and the proposed check
    "matched": ((MATCHED,), (), "matched", "replicate"),
    "part": ((MATCHED, ROAR), ("--protocol", "roar"), "roar", "diagnose"),
    "unretrained": ((MORF, LERF), ("--fill", "black", "--unit", "pixel"), "morf", "diagnose"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_proposed_commands_succeed(call, tmp_path, monkeypatch, kind):
    protocols, words, protocol, check = KINDS[kind]
    blocks = tuple(Block(one, ("random", "truth"), (0.5,), seeds=1) for one in protocols)
    publish(monkeypatch, replace(SUITES["planted"], blocks=blocks))
    monkeypatch.chdir(tmp_path)
    asked = (*SMALL, "--store", tmp_path / "a store's")
    ran = call("run", *asked, *words)
    assert ran.code == 0, ran.err
    proposed = [shlex.split(line)[1:] for line in ran.err.partition("next:\n")[2].splitlines()]
    assert [command[0] for command in proposed] == ["table", check, "plot", "status"]
    for command in proposed:
        answer = call(*command)
        assert answer.code == 0, answer.err
        assert command[0] != "table" or answer.out in ran.out
    found = json.loads(call(*proposed[0], "--format", "json").out)
    assert found["protocol"] == protocol  # programs read this key
    assert {row["gain"] for row in found["rows"]} - {None}
