"""Every submission of `corpus.toml` against the real sandbox: its verdict, in one line, and nothing left."""

import os
import tomllib
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from roarbench.submissions import sandbox_command, submission_validation
from roarbench.submissions.file import Refusal, read_submission
from roarbench.submissions.limits import Limits
from roarbench.submissions.submission_validation import validate_submission

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("bubblewrap")]

CORPUS = tomllib.loads(Path(__file__).with_name("corpus.toml").read_text("utf-8"))
EXAMPLES = sorted((Path(__file__).parents[2] / "submissions").glob("*.py"))
HEAD = """import torch

NAME = "{}"
DESCRIPTION = "of the corpus"


def gradient(model, images, targets):
    inputs = images.clone().requires_grad_()
    logits = model(inputs).gather(1, targets[:, None]).sum()
    return torch.autograd.grad(logits, inputs)[0]


"""
LITTLE = Limits(cpu=6, wall=40, memory=2**30)  # some machines need seconds of CPU time to fill each GiB
# the clocks begin with the submission's own code, and these files use up all that they have
SOONER = {"time": replace(LITTLE, cpu=2), "clock": replace(LITTLE, wall=3)}


@pytest.fixture(autouse=True)
def little(monkeypatch):
    """What needs endless time or memory is as endless after a part of it."""
    monkeypatch.setattr(submission_validation, "CHECK", LITTLE)


def verdict(path):
    """Verdict, and the line that tells it."""
    try:
        validate_submission(read_submission(path)).format_report()
    except Refusal as refusal:
        return refusal.fault.kind, str(refusal)
    return "accepted", ""


@pytest.mark.parametrize("name", CORPUS)
def test_verdict(name, monkeypatch, tmp_path, request):
    entry, path = CORPUS[name], tmp_path / "some.py"
    if entry.get("shared"):
        request.getfixturevalue("one_sandbox")
    monkeypatch.setattr(submission_validation, "CHECK", SOONER.get(entry["verdict"], LITTLE))
    path.write_text(("" if entry.get("whole") else HEAD.format(name.replace("_", "-"))) + entry["code"])
    seen, line = verdict(path)
    assert seen in entry["verdict"].split(" or "), line  # what comes first may depend on the machine
    assert len(f"roarbench: {line}") <= 200
    assert line.isprintable()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_worked_examples_are_accepted(one_sandbox, path):
    assert verdict(path) == ("accepted", "")


def test_what_is_no_file(tmp_path):
    (tmp_path / "latin.py").write_bytes(b'NAME = "\xe9"\n')
    (tmp_path / "null.py").write_bytes(b'NAME = "a"\0\n')
    (tmp_path / "large.py").write_bytes(b"#" * (256 * 1024 + 1))
    os.mkfifo(tmp_path / "pipe.py")
    expected = {"latin": "encoding", "null": "syntax", "large": "too-large", "pipe": "unreadable", "no": "unreadable"}
    assert {name: verdict(tmp_path / f"{name}.py")[0] for name in expected} == expected
    assert verdict(tmp_path)[0] == "unreadable"


@pytest.fixture(autouse=True)
def nothing_left(run_in_one_sandbox):
    """After each test there are no more open files and processes here, and nothing that a sandbox made."""
    before = open_files(), processes()
    yield
    assert (open_files(), processes()) == before
    assert not [*files(), *ports()]


def open_files():
    """Memory files and pipes of this process."""
    places = [str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()]
    kinds = [place.partition(":")[0] for place in places]
    return sorted(kind for kind in kinds if kind in ("/memfd", "pipe"))


def processes():
    """Command lines of sandboxes of this process, and of those whose starter is gone."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            line = (folder / "cmdline").read_text(errors="replace")
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent in (1, os.getpid()) and ("bwrap\0" in line or "/harness/" in line):
                found.append(line)
    return found


def of_a_sandbox(user):
    """The users that sandboxes of root have; an ordinary user's have its own number, which says nothing."""
    return 0 <= user - sandbox_command._FIRST_UID < 2**24


def files():
    """Files that a sandbox's user made where everybody may write."""
    found = []
    for folder in map(Path, ("/tmp", "/var/tmp", "/dev/shm", "/dev/mqueue", "/run/lock")):
        for path in folder.glob("*"):
            with suppress(OSError):
                found += [str(path)] if of_a_sandbox(path.lstat().st_uid) else []
    return found


def ports():
    """Sockets of this machine's network that a sandbox's user has, listening or not."""
    tables = [Path(f"/proc/net/{name}") for name in ("tcp", "tcp6", "udp", "udp6", "raw", "raw6")]
    lines = [line for table in tables if table.exists() for line in table.read_text().splitlines()[1:]]
    return [line for line in lines if of_a_sandbox(int(line.split()[7]))]
