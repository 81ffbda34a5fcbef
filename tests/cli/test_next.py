"""What `run` proposes at its end, for every kind of suite: each command works, and `table` shows what `run` did."""

import json
import re
import shlex
import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest

from roarbench.execution import reach
from roarbench.plan.suite import Block
from roarbench.plan.suites import SUITES
from roarbench.protocols.roar import ROAR
from roarbench.protocols.specific import SPECIFIC
from roarbench.protocols.unretrained import LERF, MORF
from tests.helpers.command_line import SMALL, Call, publish

ROWS = ("random", "truth")
_ROAR, _MORF, _LERF = (Block(protocol, ROWS, (0.5,), seeds=1) for protocol in (ROAR, MORF, LERF))
_SPECIFIC = Block(SPECIFIC, ROWS, (0.5,), seeds=1)
KINDS = {  # blocks, words after `run`, the protocol that is shown, and what checks the rows
    "specific": ((_SPECIFIC,), (), "specific", "replicate"),
    "part": ((_SPECIFIC, _ROAR), ("--protocol", "roar"), "roar", "validity"),
    "unretrained": ((_MORF, _LERF), (), "morf", "validity"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_proposed_command_works(call: Call, tmp_path, monkeypatch, kind: str) -> None:
    blocks, words, protocol, check = KINDS[kind]
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
    found = json.loads(call("table", *asked, "--format", "json").out)
    assert found["protocol"] == protocol  # programs rely on it
    assert {row["gain"] for row in found["rows"]} - {None}


def test_a_run_that_the_disk_cannot_hold_is_refused_before_it_begins(call: Call, tmp_path, monkeypatch) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(reach, "shutil", SimpleNamespace(disk_usage=lambda folder: usage._replace(free=1000)))
    answer = call("run", *SMALL, "--store", tmp_path / "store")
    assert answer.code == 2 and answer.out == ""
    assert re.search(r"the plan needs .* more, .* are free; free some or choose another --store$", answer.err)
