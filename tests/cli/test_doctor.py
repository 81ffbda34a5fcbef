"""`doctor`: findings and advice on good and faulty machines."""

import os
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from roarbench.cli import doctor
from roarbench.cli.doctor import examine_machine
from roarbench.common.errors import SandboxError

_DRIVER = doctor._read_gpus_and_cuda_version


@pytest.fixture
def machine(monkeypatch):
    """Simulate a machine that passes every check; tests remove single parts."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 4 * 2**20}
    monkeypatch.setattr(doctor, "count_cores", lambda: 8)
    monkeypatch.setattr(doctor, "can_use_bf16", lambda precision, device: True)
    monkeypatch.setattr(doctor.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor, "_does_hub_answer", lambda: True)
    monkeypatch.setattr(doctor, "_read_gpus_and_cuda_version", lambda: ("", ""))
    monkeypatch.setattr(doctor.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**11))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(doctor.importlib, "import_module", lambda name: object())
    monkeypatch.setattr(doctor, "check_sandbox_isolation", lambda: None)
    return monkeypatch


def examine_store(store):
    return {finding.subject: finding for finding in examine_machine(store)}


def test_doctor_reports_complete_machine_as_good(machine, call, tmp_path):
    findings = examine_store(tmp_path / "not" / "yet")
    assert all(finding.ok for finding in findings.values())
    assert findings["free memory"].found == "17.2 GB"
    assert findings["libraries"].found.startswith(f"torch {version('torch')}, torchvision ")
    assert findings["store"].found == f"100.0 GB free in {tmp_path}"
    text = call("doctor", "--store", tmp_path / "not").out
    assert max(map(len, text.splitlines())) <= 80
    assert all(what in text for what in findings)
    assert list(tmp_path.iterdir()) == []


NO_OPERATOR = RuntimeError("operator torchvision::nms does not exist")
NO_SANDBOX = SandboxError("no-sandbox: bwrap is not installed; write `apt-get`, or do without")


@pytest.mark.parametrize(
    ("where", "name", "value", "what", "seen", "advice"),
    [
        (doctor, "count_cores", lambda: 1, "processor", "1 cores", "more cores"),
        (doctor, "can_use_bf16", lambda *_: False, "bfloat16", "not in hardware", "float32"),
        (doctor.os, "sysconf", lambda name: 4000, "free memory", "16 MB", "--workers"),
        (doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**8), "store", "100 MB free in", "--store"),
        (doctor.os, "access", lambda path, mode: mode != os.W_OK, "store", "/", "--store"),
        (doctor, "_does_hub_answer", lambda: False, "data", "the hub does not answer", "--data DIR"),
        (doctor.importlib, "import_module", Mock(side_effect=NO_OPERATOR), "libraries", "torch 2", "from one index"),
        (doctor.importlib, "import_module", Mock(side_effect=AttributeError), "libraries", "torch 2", "from one index"),
        (doctor, "check_sandbox_isolation", Mock(side_effect=NO_SANDBOX), "sandbox", "no-sandbox", "write `apt-get`"),
    ],
)
def test_doctor_gives_advice_for_failed_check(machine, tmp_path, where, name, value, what, seen, advice):
    machine.setattr(where, name, value)
    found = examine_store(tmp_path)[what]
    assert not found.ok and found.found.startswith(seen) and advice in found.advice


def test_doctor_names_lacking_extras_and_rejects_file_as_store(machine, tmp_path):
    machine.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    assert "pip install 'roarbench[quantus]'" in examine_store(tmp_path)["extras"].found
    (tmp_path / "file").touch()
    found = examine_store(tmp_path / "file" / "below")["store"]
    assert (found.found, found.ok) == (f"{tmp_path / 'file'} is a file, not a folder", False)


@pytest.mark.process
def test_does_hub_answer_detects_unreachable_endpoint(monkeypatch):
    for endpoint, answers in (("http://127.0.0.1:9", False), ("no-address", False), (Path(__file__).as_uri(), True)):
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        assert doctor._does_hub_answer() == answers


def test_doctor_shows_gpus_and_their_requirements(machine, tmp_path):
    memory = (140 * 10**9, 150 * 10**9)
    two = {"is_available": True, "device_count": 2, "get_device_name": "H200", "mem_get_info": memory}
    for name, value in two.items():
        machine.setattr(doctor.torch.cuda, name, lambda value=value: value)
    machine.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    machine.setattr(doctor.shutil, "which", lambda program: f"/usr/bin/{program}")
    machine.setattr(doctor.sysconfig, "get_path", lambda kind: str(tmp_path))
    for name in ("Python.h", "control"):
        (tmp_path / name).touch()
    found = examine_store(tmp_path)
    assert found["device"].found == "2 x H200, 140.0 GB of 150.0 GB free"
    assert (found["torch.compile"].found, found["MPS"].found) == ("ready", "runs")
    machine.setattr(doctor.shutil, "which", lambda program: None)
    machine.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    for name in ("Python.h", "control"):
        (tmp_path / name).unlink()
    found = examine_store(tmp_path)
    assert found["torch.compile"][1:3] == ("lacks triton and a C compiler and Python's headers", False)
    assert (found["MPS"].found, found["MPS"].ok) == ("does not run", False)


def test_doctor_advises_torch_build_for_unusable_gpus(machine, tmp_path):
    printed = {1: "| NVIDIA-SMI 550.54   CUDA Version: 12.4 |", 2: "GPU 0: NVIDIA H100 (UUID: GPU-1)"}
    machine.setattr(doctor.subprocess, "run", lambda words, **_: SimpleNamespace(stdout=printed[len(words)]))
    machine.setattr(doctor, "_read_gpus_and_cuda_version", _DRIVER)
    machine.setattr(doctor.torch.version, "cuda", "13.0")
    machine.setattr(doctor, "describe_cuda_failure", lambda: "the driver is too old")
    seen = examine_store(tmp_path)["device"]
    assert not seen.ok
    assert seen.found == "GPU 0: NVIDIA H100, but CUDA fails: the driver is too old; this torch is for CUDA 13.0"
    assert seen.advice.startswith("install torch for CUDA 12.4 or older, or a newer driver")
    machine.setattr(doctor, "describe_cuda_failure", lambda: "")
    machine.setattr(doctor.torch.version, "cuda", None)
    assert examine_store(tmp_path)["device"].found.endswith("CUDA fails: this torch is built without CUDA")
    machine.setattr(doctor.subprocess, "run", Mock(side_effect=FileNotFoundError))
    assert examine_store(tmp_path)["device"].ok
