"""What the doctor finds on machines that are good and on machines that are not."""

import json
import os
from collections import namedtuple
from io import StringIO

import pytest
from rich.console import Console

from roarbench import doctor
from roarbench.doctor import examine, findings_table
from roarbench.errors import SandboxError

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def machine(monkeypatch):
    """A machine that has everything; tests take something away."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 4 * 2**20}
    monkeypatch.setattr(doctor, "cores", lambda: 8)
    monkeypatch.setattr(doctor, "uses_bf16", lambda precision, device: True)
    monkeypatch.setattr(doctor.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: Usage(10**12, 0, 10**11))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(doctor, "version", lambda name: "1.0")
    monkeypatch.setattr(doctor, "check_sandbox", lambda: None)
    monkeypatch.setenv("HF_TOKEN", "secret-token")
    return monkeypatch


def found(store) -> dict[str, doctor.Finding]:
    return {finding.what: finding for finding in examine(store)}


def test_a_machine_that_has_everything_is_good(machine, tmp_path):
    findings = found(tmp_path)
    assert all(finding.good for finding in findings.values())
    assert findings["processor"].found == "8 cores"
    assert findings["free memory"].found == "17.2 GB"
    assert findings["store"].found == f"100.0 GB free in {tmp_path}"
    assert "torch 1.0" in findings["libraries"].found
    assert {name for name in findings if name.startswith("extra")} == {
        "extra leaderboard",
        "extra postgres",
        "extra quantus",
        "extra ray",
    }


def test_a_token_is_never_shown(machine, tmp_path):
    assert "secret" not in repr(examine(tmp_path))


@pytest.mark.parametrize(
    "where, what, value, finding, advice",
    [
        (doctor, "cores", lambda: 1, "processor", "more cores"),
        (doctor, "uses_bf16", lambda precision, device: False, "bfloat16", "float32"),
        (doctor.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 1000}.__getitem__, "free memory", "--workers"),
        (doctor.shutil, "disk_usage", lambda folder: Usage(10**9, 0, 10**8), "store", "--store"),
        (doctor.importlib.util, "find_spec", lambda name: None, "extra ray", "pip install 'roarbench[ray]'"),
    ],
)
def test_what_is_too_little_comes_with_advice(machine, tmp_path, where, what, value, finding, advice):
    machine.setattr(where, what, value)
    assert not found(tmp_path)[finding].good
    assert advice in found(tmp_path)[finding].advice


def test_without_a_token_it_says_when_one_is_needed(machine, tmp_path):
    machine.delenv("HF_TOKEN")
    machine.setenv("HOME", str(tmp_path))
    assert not found(tmp_path)["hub"].good
    assert "HF_TOKEN" in found(tmp_path)["hub"].advice
    (tmp_path / ".cache/huggingface").mkdir(parents=True)
    (tmp_path / ".cache/huggingface/token").write_text("secret-token")
    assert found(tmp_path)["hub"].good


def test_a_store_that_is_not_there_yet_is_looked_up_in_its_nearest_folder(machine, tmp_path):
    assert found(tmp_path / "not" / "yet")["store"].found == f"100.0 GB free in {tmp_path}"
    assert not (tmp_path / "not").exists()


def test_a_store_that_cannot_be_written_is_said(machine, tmp_path):
    machine.setattr(doctor.os, "access", lambda path, mode: mode != os.W_OK)
    assert found(tmp_path)["store"].found == f"{tmp_path} cannot be written"
    assert not found(tmp_path)["store"].good


def test_a_system_that_does_not_tell_its_memory_is_no_trouble(machine, tmp_path):
    machine.setattr(doctor.os, "sysconf_names", {})
    assert found(tmp_path)["free memory"].found == "not known"


def test_an_installed_extra_without_a_version_counts(machine, tmp_path):
    def missing(name):
        raise doctor.PackageNotFoundError(name)

    machine.setattr(doctor, "version", missing)
    assert doctor._extra("ray").found == "installed"


def test_this_machine_can_be_examined_and_printed(tmp_path):
    findings = examine(tmp_path)
    assert json.loads(json.dumps([finding._asdict() for finding in findings]))
    console = Console(file=StringIO(), width=80, highlight=False, markup=False)
    console.print(findings_table(findings))
    text = console.file.getvalue()
    assert max(map(len, text.splitlines())) <= 80
    assert all(finding.what in text for finding in findings)
    assert ("!" in text) == any(not finding.good for finding in findings)


def test_a_machine_without_a_sandbox_is_told_how_to_get_one(machine, tmp_path):
    def missing() -> None:
        raise SandboxError("no-sandbox: bwrap is not installed; write `apt-get install bubblewrap`, or do without")

    machine.setattr(doctor, "check_sandbox", missing)
    expected = ("no-sandbox: bwrap is not installed", False, "write `apt-get install bubblewrap`, or do without")
    assert found(tmp_path)["sandbox"][1:] == expected
