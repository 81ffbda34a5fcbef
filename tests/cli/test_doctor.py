"""What the doctor finds on machines that are good and on machines that are not."""

import json
import os
import threading
from collections import namedtuple
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO

import huggingface_hub
import pytest
from rich.console import Console

from roarbench.cli import doctor
from roarbench.cli.doctor import examine, findings_table
from roarbench.errors import SandboxError

Usage = namedtuple("Usage", "total used free")


@pytest.fixture
def machine(monkeypatch):
    """A machine that has everything; tests take something away."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 4 * 2**20}
    monkeypatch.setattr(doctor, "cores", lambda: 8)
    monkeypatch.setattr(doctor, "uses_bf16", lambda precision, device: True)
    monkeypatch.setattr(doctor.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor, "_hub_answers", lambda: True)
    monkeypatch.setattr(doctor.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: Usage(10**12, 0, 10**11))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(doctor, "version", lambda name: "1.0")
    monkeypatch.setattr(doctor, "check_sandbox", lambda: None)
    monkeypatch.setattr(doctor, "_torchvision", lambda: doctor.Diagnosis("torchvision", "imports", True, ""))
    monkeypatch.setenv("HF_TOKEN", "secret-token")
    return monkeypatch


def found(store) -> dict[str, doctor.Diagnosis]:
    return {finding.what: finding for finding in examine(store)}


def test_a_machine_that_has_everything_is_good(machine, tmp_path):
    findings = found(tmp_path)
    assert all(finding.good for finding in findings.values())
    assert findings["processor"].found == "8 cores"
    assert findings["free memory"].found == "17.2 GB"
    assert findings["torch.compile"].found == "not used without a GPU"
    assert findings["data"].found == "the hub answers"
    assert findings["store"].found == f"100.0 GB free in {tmp_path}"
    assert "torch 1.0" in findings["libraries"].found
    assert {name for name in findings if name.startswith("extra")} == {
        "extra leaderboard",
        "extra postgres",
        "extra quantus",
        "extra ray",
        "extra superpixels",
    }


@pytest.mark.parametrize(
    "content, finding, good",
    [
        ("", "imports", True),
        (
            "raise RuntimeError('operator torchvision::nms does not exist')",
            "your own `import torchvision` fails: RuntimeError: operator torchvision::nms does not exist",
            False,
        ),
        ("import sys; sys.exit(3)", "your own `import torchvision` fails: no reason given", False),
    ],
)
def test_torchvision_is_imported_as_a_users_own_code_does(monkeypatch, tmp_path, content, finding, good):
    """Not as here, where missing operators are declared before the networks are built."""
    (tmp_path / "torchvision.py").write_text(content)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = doctor._torchvision()
    assert (found.found, found.good) == (finding, good)
    assert good or "from one index (README, Use it)" in found.advice


def test_a_token_is_never_shown(machine, tmp_path):
    assert "secret" not in repr(examine(tmp_path))


@pytest.mark.parametrize(
    "where, what, value, finding, advice",
    [
        (doctor, "cores", lambda: 1, "processor", "more cores"),
        (doctor, "uses_bf16", lambda precision, device: False, "bfloat16", "float32"),
        (doctor.os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 1000}.__getitem__, "free memory", "--workers"),
        (doctor.shutil, "disk_usage", lambda folder: Usage(10**9, 0, 10**8), "store", "--store"),
        (doctor.importlib.util, "find_spec", lambda name: None, "extra quantus", "pip install 'roarbench[quantus]'"),
    ],
)
def test_what_is_too_little_comes_with_advice(machine, tmp_path, where, what, value, finding, advice):
    machine.setattr(where, what, value)
    assert not found(tmp_path)[finding].good
    assert advice in found(tmp_path)[finding].advice


def test_without_a_token_it_says_when_one_is_needed(machine, tmp_path):
    machine.delenv("HF_TOKEN")
    machine.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    assert not found(tmp_path)["hub token"].good
    assert "HF_TOKEN" in found(tmp_path)["hub token"].advice
    (tmp_path / "token").write_text("secret-token")
    assert found(tmp_path)["hub token"].good


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
    assert doctor._extra("quantus").found == "installed"


def test_without_the_hub_it_names_what_is_bundled(machine, tmp_path):
    machine.setattr(doctor, "_hub_answers", lambda: False)
    finding = found(tmp_path)["data"]
    assert not finding.good
    assert "imagenette64" in finding.found and "cifar10" not in finding.found
    assert "--data DIR" in finding.advice


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "no-address"])
def test_a_hub_that_cannot_be_reached_does_not_answer(monkeypatch, endpoint):
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    assert not doctor._hub_answers()


def test_a_hub_that_answers(monkeypatch):
    monkeypatch.setattr(SimpleHTTPRequestHandler, "log_message", lambda *_: None)
    with ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert doctor._hub_answers()
        server.shutdown()


@pytest.fixture
def gpu(machine, tmp_path):
    """The same machine with two GPUs."""
    machine.setattr(doctor.torch.cuda, "is_available", lambda: True)
    machine.setattr(doctor.torch.cuda, "device_count", lambda: 2)
    machine.setattr(doctor.torch.cuda, "get_device_name", lambda: "H200")
    machine.setattr(doctor.torch.cuda, "mem_get_info", lambda: (140 * 10**9, 150 * 10**9))
    machine.setattr(doctor.shutil, "which", lambda program: f"/usr/bin/{program}")
    machine.setattr(doctor.sysconfig, "get_path", lambda kind: str(tmp_path / kind))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "Python.h").touch()
    return machine


def test_gpus_with_their_memory_and_a_compiler(gpu, tmp_path):
    assert found(tmp_path)["device"].found == "2 x H200, 140.0 GB of 150.0 GB free"
    assert found(tmp_path)["torch.compile"] == doctor.Diagnosis(
        "torch.compile", "ready", True, "pip install triton; apt-get install gcc python3-dev"
    )


def test_a_gpu_without_what_compiling_needs(gpu, tmp_path):
    gpu.setattr(doctor.shutil, "which", lambda program: None)
    assert found(tmp_path)["torch.compile"].found == "lacks a C compiler"
    gpu.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert found(tmp_path)["torch.compile"].found == "lacks triton and a C compiler"
    (tmp_path / "include" / "Python.h").unlink()
    assert found(tmp_path)["torch.compile"].found == "lacks triton and a C compiler and Python's headers"
    assert not found(tmp_path)["torch.compile"].good


@pytest.mark.slow
def test_this_machine_can_be_examined_and_printed(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_hub_answers", lambda: False)
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
