"""`run --log-format json`: every line of standard error is an object, and so is every line of the workers' logs."""

import json
import subprocess

import pytest

from roarbench.cli.commands import terminal
from roarbench.store.results import ResultsStore, default_url
from tests.helpers.command_line import PART, RUNS, SMALL
from tests.helpers.commands import PROGRAM

pytestmark = pytest.mark.process

JSON = ("--log-format", "json")
FIELDS = {"time", "level", "message"}


def objects(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_program_can_follow_a_run_and_every_worker(tmp_path):
    words = [PROGRAM, "run", *PART, "--workers", "2", "--store", str(tmp_path), *JSON]
    answer = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert answer.returncode == 0, answer.stderr
    assert "truth" in answer.stdout  # the table
    said = objects(answer.stderr)
    assert all(line.keys() >= FIELDS for line in said)
    with ResultsStore.open(default_url(tmp_path), read_only=True) as store:
        keys = set(store.keys(""))
    ended = [line for line in said if line.get("step") == "run"]
    assert {line["job"] for line in ended} == keys
    assert len(ended) == RUNS
    assert {line["state"] for line in ended} == {"done"}
    assert (ended[-1]["share"], ended[-1]["seconds_left"]) == (1.0, 0)
    logs = [objects(path.read_text()) for path in (tmp_path / "logs").iterdir()]
    assert len(logs) == 2
    assert all(line.keys() >= {*FIELDS, "job"} for lines in logs for line in lines)
    done = {line["job"] for lines in logs for line in lines if line["message"] == "done"}
    assert keys == {name for name in done if " " not in name} - {"rates"}  # what the first worker measured


def test_what_ends_a_command_is_an_object_too(call, monkeypatch, tmp_path):
    monkeypatch.setattr(terminal, "write_log", lambda handler: None)  # it would stay for other tests
    (tmp_path / "logs").touch()
    for words, said in (
        (("run", "--suite", "quikc"), "no suite 'quikc'; did you mean 'quick'? (list: roarbench suites)"),
        (("run", *PART, "--store", tmp_path), f"cannot write {tmp_path / 'logs'}: File exists; "),
    ):
        wrong = call(*words, *JSON)
        (line,) = objects(wrong.err)
        assert (wrong.code, line["level"], line["message"].startswith(said)) == (2, "error", True)
    assert call("run", *SMALL, "--log-format=json", "--seeds", "0").err.startswith('{"time": ')
