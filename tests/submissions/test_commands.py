"""Commands for submissions: new-submission, validate, run --submission, export, import, reproduce."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from roarbench.store.results import make_default_url
from roarbench.submissions.submission_file import read_submission
from tests.helpers.command_line import PART, SMALL, record
from tests.helpers.processes import read_results
from tests.helpers.sandboxed import GRADIENT

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("bubblewrap")]

GOOD = f'NAME = "good"\nDESCRIPTION = "\\x1b[2J<script>alert(1)</script> gradient"\n{GRADIENT}'


@pytest.fixture
def call(call, monkeypatch, working_folder):
    """Run a command in an empty folder, on a wide terminal."""
    monkeypatch.setenv("COLUMNS", "200")
    return call


def read_rows(store):
    return read_results(make_default_url(Path(store)))


def flip_first_bit(store, estimator):
    """Flip the first bit of a stored result of the estimator and return the key."""
    with closing(sqlite3.connect(f"{store}/results.sqlite")) as database, database:
        wanted = "SELECT key, bits, correct FROM results WHERE estimator = ? AND t = 0.5 ORDER BY key LIMIT 1"
        key, bits, correct = database.execute(wanted, (estimator,)).fetchone()
        changed = (bytes([bits[0] ^ 128, *bits[1:]]), correct + 1 - 2 * (bits[0] >> 7), key)
        database.execute("UPDATE results SET bits = ?, correct = ? WHERE key = ?", changed)
    return key


def read_flags(call, store):
    """Return the flag of each row, or an empty text."""
    return {row["estimator"]: row["flag"] or "" for row in record(call, "table", *SMALL, "--store", store)["rows"]}


def parse_refusal(answer):
    """Return the error line of a refused command, without the lines of earlier stages."""
    assert (answer.code, answer.out) == (2, "")
    (line,) = (line for line in answer.err.splitlines() if not re.match(r"\d of 4: ", line))
    assert len(line) <= 200
    return line.removeprefix("roarbench: ")


def test_new_writes_a_file_that_validate_accepts(call):
    assert call("new-submission", "my-own").err == "written: my_own.py; next: roarbench validate my_own.py\n"
    answer = call("validate", "my_own.py")
    assert answer.code == 0 and answer.out.startswith("accepted: my-own@")
    *stages, after = answer.err.splitlines()
    assert [line[:8] for line in stages] == [f"{number} of 4: " for number in (1, 2, 3, 4)]
    assert after == "next: roarbench run --suite quick --submission my_own.py"
    assert answer.out.splitlines()[-1] == "maps: my-own-maps.png" and "█" not in answer.out
    assert Path("my-own-maps.png").read_bytes().startswith(b"\x89PNG")
    assert "already exists" in parse_refusal(call("new-submission", "my-own"))


def test_validate_accepts_a_submission_whose_picture_cannot_be_written(call, one_sandbox):
    Path("good.py").write_text(GOOD)
    Path("good-maps.png").write_text("notes")
    answer = call("validate", "good.py")
    assert answer.code == 0 and answer.out.startswith("accepted: good@") and "maps: " not in answer.out
    assert "maps are not drawn: good-maps.png already exists and is no picture" in answer.err
    assert Path("good-maps.png").read_text() == "notes"


def test_validate_prints_refusal_in_one_line_and_explain_adds_traceback(call, one_sandbox):
    fails = "    raise ValueError('\\x1b]0;title\\x07 no\\nway' + 'y' * 300)\n"
    Path("bad.py").write_text(GOOD.split("    inputs")[0] + fails)
    line = parse_refusal(call("validate", "bad.py"))
    assert line.startswith("good: raised ValueError: ]0;title no way")
    assert line.endswith("; `--explain` shows the traceback")
    answer = call("validate", "bad.py", "--explain")
    assert answer.code == 2 and '  File "submission.py", line 6, in estimate' in answer.err.splitlines()
    assert all(letter.isprintable() or letter == "\n" for letter in answer.err)
    assert str(Path.cwd()) not in answer.err


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


def test_submission_row_is_shown_exported_imported_and_reproduced(call, one_sandbox):
    Path("turned.py").write_text(TURNED)
    file = "turned.py(sign=-1)"
    name = read_submission(Path(file)).id
    answer = call("run", *PART, "--store", "there", "--submission", file)
    assert (answer.code, " turned(sign=-1) (added) " in answer.out) == (0, True), answer.err
    assert "accepted: turned@" in answer.err and "\nmaps of planted --max-images 8: " in answer.err
    assert re.search(r" of one core, [1-9]\d* MB of memory\n", answer.err)
    own = record(call, "table", *SMALL, "--store", "there", "--estimators", "turned(sign=-1)")
    assert [row["estimator"] for row in own["rows"]] == [name]
    answer = call("table", *SMALL, "--store", "there", "--estimators", name.replace("sign", "sigm"))
    assert name in parse_refusal(answer)

    before = read_rows("there")
    assert f"{len(before)} results" in call("export", "all.parquet", "--store", "there").err
    assert f"{len(before)} results are new" in call("import", "all.parquet", "--store", "here").err
    assert read_rows("here") == before
    assert read_flags(call, "here")[name].startswith("Self-reported: imported, and not reproduced here")

    assert call("run", *PART, "--store", "there", "--submission", file, "--trust-submission").code == 0
    added = read_rows("there")
    assert {key: added[key] for key in before} == before
    flag = read_flags(call, "there")[f"{name}~trusted"]
    assert flag.startswith("Run without the sandbox, so not verified. Validation found: a map is the gradient of the ")
    assert "sandbox" not in read_flags(call, "there")[name]

    answer = call("reproduce", flip_first_bit("here", name)[:12], "--store", "here")
    assert (answer.code, answer.out.split(":")[0]) == (1, "different")
    assert "correctness differs on 1 image, same rankings" in answer.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--submission", "good.py", "--submission-device", "cuda"), "finds no GPU"),
        (("--trust-submission",), "--submission FILE"),
    ],
)
def test_run_refuses_impossible_options_before_any_run(call, options, words):
    Path("good.py").write_text(GOOD)
    assert words in parse_refusal(call("run", *PART, "--store", "store", *options))
