"""What a researcher types: new, validate, run --submission, export, import, reproduce."""

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roarbench.execution import reproduce
from roarbench.store.results import ResultsStore, default_url
from roarbench.submissions.file import read_submission
from tests.helpers.command_line import PART, SMALL

pytestmark = pytest.mark.process

GOOD = """
import torch
NAME = "good"
DESCRIPTION = "\\x1b[2J<script>alert(1)</script> gradient"
def estimate(model, images, targets, generator):
    inputs = images.clone().requires_grad_()
    return torch.autograd.grad(model(inputs).gather(1, targets[:, None]).sum(), inputs)[0]
"""
LATE = GOOD.replace('"good"', '"late"').replace("    inputs", "    assert len(images) != 8, 'a full batch'\n    inputs")


@pytest.fixture(autouse=True)
def bubblewrap(require):
    require("bwrap", "apt-get install bubblewrap")


@pytest.fixture
def call(call, monkeypatch, tmp_path):
    """Run a command in an empty folder, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.chdir(tmp_path)
    return call


def write(name, source):
    path = Path(name)
    path.write_text(source)
    return path


def rows(store):
    """Every stored result by key."""
    with ResultsStore.open(default_url(Path(store)), read_only=True) as results:
        return results.results(results.keys(""))


def answers_of(store, estimator):
    """The answers of an estimator's networks by cell and seed."""
    runs = [(found.run.cell, found.run.seed, found.bits) for found in rows(store).values()]
    own = [(cell, seed, bits) for cell, seed, bits in runs if cell.estimator == estimator]
    return {(cell.t, cell.order, cell.retrain, cell.unit, seed): bits for cell, seed, bits in own}


def one_key(store, estimator):
    with closing(sqlite3.connect(f"{store}/results.sqlite")) as database:
        wanted = "SELECT key FROM results WHERE estimator = ? AND t = 0.5 ORDER BY key LIMIT 1"
        return str(database.execute(wanted, (estimator,)).fetchone()[0])


def flags(call, store):
    """Why each row should be doubted; empty where nothing says so."""
    found = json.loads(call("table", *SMALL, "--store", store, "--format", "json").out)
    return {row["estimator"]: row["flag"] or "" for row in found["rows"]}


def refused(answer):
    """The one line of a refusal, after those of the stages before it."""
    assert (answer.code, answer.out) == (2, "")
    (line,) = (line for line in answer.err.splitlines() if not re.match(r"\d of 4: ", line))
    assert len(line) <= 200
    assert line.startswith("roarbench: ")
    return line.removeprefix("roarbench: ")


def test_new_writes_a_file_that_validate_accepts(call):
    assert call("new", "my-own").err == "written: my_own.py; next: roarbench validate my_own.py\n"
    answer = call("validate", "my_own.py")
    assert answer.code == 0 and answer.out.startswith("accepted: my-own@")
    *stages, after = answer.err.splitlines()
    assert [line[:8] for line in stages] == [f"{number} of 4: " for number in (1, 2, 3, 4)]
    assert after == "next: roarbench run --suite quick-matched --submission my_own.py"
    assert max(map(len, answer.out.splitlines()[1:25])) == 48  # the map as a picture
    assert "is there already" in refused(call("new", "my-own"))


def test_a_refusal_is_one_line_and_explain_adds_the_traceback(call):
    fails = "    raise ValueError('\\x1b]0;title\\x07 no\\nway' + 'y' * 300)\n"
    write("bad.py", GOOD.split("    inputs")[0] + fails)
    line = refused(call("validate", "bad.py"))
    assert line.startswith("raised ValueError: ]0;title no way")
    assert line.endswith("; `--explain` shows the traceback")
    assert "--explain" not in refused(call("run", *PART, "--store", "store", "--submission", "bad.py"))
    answer = call("validate", "bad.py", "--explain")
    assert answer.code == 2
    assert '  File "submission.py", line 6, in estimate' in answer.err.splitlines()
    assert "--explain" not in answer.err
    assert all(letter.isprintable() or letter == "\n" for letter in answer.err)
    assert str(Path.cwd()) not in answer.err


def test_a_row_a_failure_and_a_row_without_the_sandbox(call):
    good, late = write("good.py", GOOD), write("late.py", LATE)
    names = {path.stem: read_submission(path).id for path in (good, late)}
    answer = call("run", *PART, "--store", "store", "--submission", good)
    assert answer.code == 0
    assert f"accepted: {names['good']}" in answer.err
    assert [line for line in answer.err.splitlines() if line.startswith("maps of ")][0].startswith("maps of planted: ")
    assert names["good"] in answer.out
    before = rows("store")
    own = json.loads(call("table", *SMALL, "--store", "store", "--estimators", names["good"], "--format", "json").out)
    assert [row["estimator"] for row in own["rows"]] == [names["good"]]
    for command in (("table",), ("plot", "-o", "x.png")):
        line = refused(call(*command, *SMALL, "--store", "store", "--estimators", "good"))
        assert line.startswith(f"no estimator 'good'; did you mean '{names['good']}'?")
    assert call("plot", *SMALL, "--store", "store", "-o", "curves.svg").code == 0
    assert names["good"] in Path("curves.svg").read_text()

    answer = call("run", *PART, "--store", "store", "--submission", late)
    assert answer.code == 1
    reason = "raised: raised AssertionError: a full batch"
    said = f"rank {names['late']} train 0 failed: {reason} (line 6)"
    assert [line for line in answer.err.splitlines() if " failed: " in line] == [said]  # of two jobs and ten runs
    assert rows("store") == before
    status = call("status", *SMALL, "--store", "store").out
    assert [line for line in status.splitlines() if line.startswith("failed")] == [
        f"failed: roar {names['late']} t=0.1 scalar seed 0 and 9 more: {said}"
    ]

    answer = call("run", *PART, "--store", "store", "--submission", good, "--trust-submission")
    assert answer.code == 0
    added = rows("store")
    assert {key: added[key] for key in before} == before
    assert flags(call, "store")[f"{names['good']}~trusted"] == "Run without the sandbox, so not verified."
    assert "sandbox" not in flags(call, "store")[names["good"]]


TURNED = """
import torch
NAME = "turned"
DESCRIPTION = "gradient, or the other end first"
class Gradient:
    sign = 1
    def __init__(self):
        self.kept = self.sign  # before anybody could set an attribute
    def __call__(self, model, images, targets, generator):
        inputs = images.clone().requires_grad_()
        return self.kept * torch.autograd.grad(model(inputs).gather(1, targets[:, None]).sum(), inputs)[0]
estimate = Gradient()
"""


def test_results_of_a_file_with_a_parameter_move_and_are_self_reported_until_they_are_reproduced(call, monkeypatch):
    plain, by_hand = write("turned.py", TURNED), write("by_hand.py", TURNED.replace("sign = 1", "sign = -1"))
    name, written = f"{read_submission(plain).id}(sign=-1)", read_submission(by_hand).id
    answer = call("run", *PART, "--store", "there", "--submission", f"{plain}(sign=-1)", "--submission", by_hand)
    assert answer.code == 0, answer.err
    assert "parameters: (sign=-1); other values, another row: --submission 'FILE(sign=-1)'" in answer.err
    assert answers_of("there", name) == answers_of("there", written) != {}
    assert f"{len(rows('there'))} results" in call("export", "all.parquet", "--store", "there").err
    assert f"{len(rows('there'))} results are new" in call("import", "all.parquet", "--store", "here").err
    assert rows("here") == rows("there")
    before = Path("here/results.sqlite").read_bytes()
    assert "0 results are new" in call("import", "all.parquet", "--store", "here").err
    assert Path("here/results.sqlite").read_bytes() == before
    assert flags(call, "here")[name].startswith("Self-reported: imported and not reproduced here")
    assert flags(call, "here")["random"] == "Self-reported: imported and not reproduced here."

    damaged = bytearray(Path("all.parquet").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    Path("damaged.parquet").write_bytes(damaged)
    assert "damaged.parquet" in refused(call("import", "damaged.parquet", "--store", "here"))
    assert rows("here") == rows("there")

    key = one_key("here", name)
    answer = call("reproduce", key[:12], "--store", "here")
    assert "again, from nothing: " in answer.err and re.search(r"^ *\d+%  +about .* left  ", answer.err, re.MULTILINE)
    assert (answer.code, answer.out.split(":")[0]) == (0, "equal")
    change_first_answer("here", key)
    answer = call("reproduce", key, "--store", "here")
    assert (answer.code, answer.out.split(":")[0]) == (0, "within the interval")
    assert "1 answers differ, same rankings" in answer.out
    monkeypatch.setattr(reproduce, "_margin", lambda *_: 0.0)
    answer = call("reproduce", key, "--store", "here")
    assert (answer.code, answer.out.split(":")[0]) == (1, "different")
    assert "no difference of versions or hardware is known" in answer.out


def change_first_answer(store, key):
    with closing(sqlite3.connect(f"{store}/results.sqlite")) as database, database:
        bits, correct = database.execute("SELECT bits, correct FROM results WHERE key = ?", (key,)).fetchone()
        was_right = bits[0] >> 7
        changed = (bytes([bits[0] ^ 128, *bits[1:]]), correct + 1 - 2 * was_right, key)
        database.execute("UPDATE results SET bits = ?, correct = ? WHERE key = ?", changed)


def test_what_cannot_be_is_said_before_anything_runs(call):
    run = ("run", *PART, "--store", "store", "--submission", write("good.py", GOOD))
    assert "sees no GPU" in refused(call(*run, "--submission-device", "cuda"))
    assert "--submission FILE" in refused(call(*run[:-2], "--trust-submission"))
    assert "no Parquet" in refused(call("import", "good.py", "--store", "store"))
