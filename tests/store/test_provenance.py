import subprocess
import sys
from importlib.metadata import version

import pytest

from roarbench.store import provenance as provenance_module
from roarbench.store.provenance import Provenance, code_version, provenance


@pytest.fixture
def checkout(tmp_path):
    """A folder in a checkout of one commit, with a file of the module's name."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "provenance.py").write_text("1")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")
    return folder


def _git(folder, *arguments):
    return subprocess.run(["git", "-C", folder, *arguments], check=True, capture_output=True, text=True).stdout.strip()


def test_the_machine_and_the_libraries_are_named():
    found = provenance("cuda: some card", "bf16", {"cuda": "12.8"})
    assert found.versions["python"] == sys.version.split()[0]
    assert found.versions["torch"] == version("torch")
    assert (found.hardware["device"], found.hardware["precision"]) == ("cuda: some card", "bf16")
    assert found.versions["cuda"] == "12.8"
    assert all(found.hardware.values()) and found.hardware["cores"] >= 1
    assert found.code_version == code_version()


def test_the_commit_is_named_with_its_changes(checkout, monkeypatch):
    commit = _git(checkout, "rev-parse", "--short", "HEAD")
    assert provenance_module._commit(checkout) == commit
    (checkout / "notes.txt").write_text("not part of the code")
    assert provenance_module._commit(checkout) == commit
    (checkout / "provenance.py").write_text("2")
    assert provenance_module._commit(checkout) == f"{commit}+dirty"
    (checkout / "venv").mkdir()  # an environment inside a checkout is not of it
    (checkout / "venv" / "provenance.py").write_text("1")
    for elsewhere in (checkout / "venv", checkout / "absent"):
        assert provenance_module._commit(elsewhere) == ""
    monkeypatch.setenv("PATH", "")
    assert provenance_module._commit(checkout) == ""


def test_what_is_not_known_is_not_said_and_what_somebody_else_says_is_no_markup():
    """Rows from before workers were asked say `cpu` whatever the device was."""
    old = Provenance("0", {"torch": "2"}, {"cpu": "EPYC", "cores": 2, "device": "cpu"})
    assert old.known == {"torch": "2", "cpu": "EPYC", "cores": "2"}
    assert old.computed_with == {"processor": "EPYC"}
    new = Provenance("0", {"torch": "2", "cuda": "12.8"}, {"cpu": "EPYC", "device": "H200", "precision": "bf16"})
    assert new.computed_with == {"device": "H200", "precision": "bf16", "processor": "EPYC", "CUDA": "12.8"}
    hostile = {"cpu": "[red]x[/red] <b>*[a](http://b)*\x1b\n" + "y" * 100, "precision": ["`", 1]}
    said = Provenance("0", {}, hostile).computed_with
    assert not set("[]<>*:`\x1b\n") & set("".join(said.values()))
    assert len(said["processor"]) == 60
