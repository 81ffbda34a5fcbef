"""Every file of the corpus against the real sandbox: its expected verdict, in one line, and nothing left."""

import csv
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from roarbench import validation
from roarbench.sandbox.limits import Limits
from roarbench.submission import Refusal
from roarbench.validation import validate

CORPUS = Path(__file__).parent / "corpus"
EXAMPLES = sorted((Path(__file__).parents[2] / "submissions").glob("*.py"))
with (CORPUS / "verdicts.csv").open() as table:
    VERDICTS = {row["file"]: row["verdict"] for row in csv.DictReader(table)}


@pytest.fixture(autouse=True)
def sandbox(require: Callable[[str, str], str]) -> None:
    require("bwrap", "apt-get install bubblewrap")


@pytest.fixture(autouse=True)
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """What needs endless time or memory is as endless after a part of it."""
    monkeypatch.setattr(validation, "CHECK", Limits(cpu=6, wall=40, memory=2**31))


def verdict(path: Path) -> tuple[str, str]:
    """Verdict, and the line that tells it."""
    try:
        validate(path)
    except Refusal as refusal:
        return refusal.fault.kind, str(refusal)
    return "accepted", ""


def test_every_file_has_a_verdict() -> None:
    assert {path.stem for path in CORPUS.glob("*.py")} == set(VERDICTS)
    assert len(VERDICTS) >= 60


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_verdict(name: str) -> None:
    seen, line = verdict(CORPUS / f"{name}.py")
    assert seen in VERDICTS[name].split(" or "), line  # what comes first may depend on the machine
    assert len(f"roarbench: {line}") <= 200
    assert line.isprintable()
    assert not left_over()


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_worked_examples_are_accepted(path: Path) -> None:
    assert verdict(path) == ("accepted", "")


def test_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "latin.py").write_bytes(b'NAME = "\xe9"\n')
    (tmp_path / "null.py").write_bytes(b'NAME = "a"\0\n')
    (tmp_path / "large.py").write_bytes(b"#" * (256 * 1024 + 1))
    os.mkfifo(tmp_path / "pipe.py")
    expected = {"latin": "encoding", "null": "syntax", "large": "too-large", "pipe": "unreadable", "no": "unreadable"}
    assert {name: verdict(tmp_path / f"{name}.py")[0] for name in expected} == expected
    assert verdict(tmp_path)[0] == "unreadable"


def left_over() -> list[str]:
    """Command lines of sandboxes of this process that are still there."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            found.append(Path(f"/proc/{child}/cmdline").read_text())
    return [line for line in found if "bwrap" in line or "/harness/" in line]
