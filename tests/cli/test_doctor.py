"""What the doctor finds on machines that are good and on machines that are not."""

import os
import re
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
    """A machine that has everything; tests take something away."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 4 * 2**20}
    monkeypatch.setattr(doctor, "count_cores", lambda: 8)
    monkeypatch.setattr(doctor, "can_use_bf16", lambda precision, device: True)
    monkeypatch.setattr(doctor.torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(doctor, "_does_hub_answer", lambda: True)
    monkeypatch.setattr(doctor, "_read_gpus_and_cuda_version", lambda: ("", ""))
    monkeypatch.setattr(doctor.os, "sysconf", pages.__getitem__)
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**11))
    monkeypatch.setattr(doctor.importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr(doctor, "read_package_version", lambda name: "1.0")
    monkeypatch.setattr(doctor, "check_sandbox_isolation", lambda: None)
    return monkeypatch


def found(store):
    return {finding.what: finding for finding in examine_machine(store)}


def test_a_machine_that_has_everything_is_good_and_the_command_prints_what_it_has(machine, call, tmp_path):
    findings = found(tmp_path / "not" / "yet")
    assert all(finding.good for finding in findings.values())
    assert findings["free memory"].found == "17.2 GB"
    assert findings["torch.compile"].found == "not used without a GPU"
    assert findings["store"].found == f"100.0 GB free in {tmp_path}"
    machine.setattr(doctor, "_does_hub_answer", lambda: False)
    text = call("doctor", "--store", tmp_path / "not").out
    assert max(map(len, text.splitlines())) <= 80
    assert all(what in text for what in findings) and "!" in text
    assert list(tmp_path.iterdir()) == []


def test_a_suite_adds_a_row_on_how_its_network_trains_and_an_unknown_one_is_refused_first(machine, call, tmp_path):
    told = call("doctor", "--store", tmp_path, "--suite", "quick").out
    assert re.search("ok +training +networks are compiled on GPUs only", told)
    machine.setattr(doctor, "examine_machine", Mock(side_effect=AssertionError))
    refused = call("doctor", "--store", tmp_path, "--suite", "quikc")
    assert refused.code == 2 and "quikc" in refused.err and refused.err.count("\n") == 1


def test_a_file_is_no_store(machine, tmp_path):
    (tmp_path / "file").touch()
    for store in (tmp_path / "file", tmp_path / "file" / "below"):
        what, seen, good, advice = found(store)["store"]
        assert (what, seen, good) == ("store", f"{tmp_path / 'file'} is a file, not a folder", False)
        assert "--store" in advice


def test_what_is_too_little_comes_with_advice(machine, tmp_path):
    pages = {"SC_PAGE_SIZE": 4096, "SC_AVPHYS_PAGES": 1000}
    no_sandbox = Mock(side_effect=SandboxError("no-sandbox: bwrap is not installed; write `apt-get`, or do without"))
    for where, name, value, what, seen, advice in (
        (doctor, "count_cores", lambda: 1, "processor", "1 cores", "more cores"),
        (doctor, "can_use_bf16", lambda precision, device: False, "bfloat16", "not in hardware", "float32"),
        (doctor.os, "sysconf", pages.__getitem__, "free memory", "4 MB", "--workers"),
        (doctor.shutil, "disk_usage", lambda folder: SimpleNamespace(free=10**8), "store", "100 MB free in", "--store"),
        (doctor.os, "access", lambda path, mode: mode != os.W_OK, "store", f"{tmp_path} cannot be", "--store"),
        (doctor.importlib.util, "find_spec", lambda name: None, "extra quantus", "not inst", "roarbench[quantus]"),
        (doctor, "_does_hub_answer", lambda: False, "data", "the hub does not answer; available without", "--data DIR"),
        (
            doctor,
            "check_sandbox_isolation",
            no_sandbox,
            "sandbox",
            "no-sandbox: bwrap is not installed",
            "write `apt-get`, or ",
        ),
    ):
        machine.setattr(where, name, value)
        told = found(tmp_path)[what]
        assert not told.good and told.found.startswith(seen) and advice in told.advice, told
        assert what != "data" or ("imagenette64" in told.found and "cifar10" not in told.found)  # what is bundled
    machine.setattr(doctor.os, "sysconf_names", {})
    assert found(tmp_path)["free memory"][1:3] == ("not known", True)


@pytest.mark.process
def test_a_hub_answers_or_cannot_be_reached(monkeypatch):
    for endpoint, answers in (("http://127.0.0.1:9", False), ("no-address", False), (Path(__file__).as_uri(), True)):
        monkeypatch.setenv("HF_ENDPOINT", endpoint)
        assert doctor._does_hub_answer() == answers


def test_gpus_with_their_memory_and_what_compiling_needs(machine, tmp_path):
    memory = (140 * 10**9, 150 * 10**9)
    two = {"is_available": True, "device_count": 2, "get_device_name": "H200", "mem_get_info": memory}
    for name, value in two.items():
        machine.setattr(doctor.torch.cuda, name, lambda value=value: value)
    machine.setattr(doctor.shutil, "which", lambda program: f"/usr/bin/{program}")
    machine.setattr(doctor.sysconfig, "get_path", lambda kind: str(tmp_path))
    (tmp_path / "Python.h").touch()
    assert found(tmp_path)["device"].found == "2 x H200, 140.0 GB of 150.0 GB free"
    assert found(tmp_path)["torch.compile"][1:3] == ("ready", True)
    machine.setattr(doctor.shutil, "which", lambda program: None)
    machine.setattr(doctor.importlib.util, "find_spec", lambda name: None)
    (tmp_path / "Python.h").unlink()
    lacks = "lacks triton and a C compiler and Python's headers"
    assert found(tmp_path)["torch.compile"][1:3] == (lacks, False)


def test_gpus_that_cuda_cannot_use_come_with_the_wheel_to_install(machine, tmp_path):
    """The driver's program and CUDA are mocks."""
    printed = {1: "| NVIDIA-SMI 550.54   CUDA Version: 12.4 |", 2: "GPU 0: NVIDIA H100 (UUID: GPU-1)"}
    machine.setattr(doctor.subprocess, "run", lambda words, **_: SimpleNamespace(stdout=printed[len(words)]))
    machine.setattr(doctor, "_read_gpus_and_cuda_version", _DRIVER)
    machine.setattr(doctor.torch.version, "cuda", "13.0")
    machine.setattr(doctor, "describe_cuda_failure", lambda: "the driver is too old")
    seen = found(tmp_path)["device"]
    assert not seen.good
    assert seen.found == "GPU 0: NVIDIA H100, but CUDA fails: the driver is too old; this torch is for CUDA 13.0"
    assert seen.advice.startswith("install torch for CUDA 12.4 or older, or a newer driver")
    machine.setattr(doctor, "describe_cuda_failure", lambda: "")
    machine.setattr(doctor.torch.version, "cuda", None)
    assert found(tmp_path)["device"].found.endswith("CUDA fails: this torch is built without CUDA")
    machine.setattr(doctor.subprocess, "run", Mock(side_effect=FileNotFoundError))
    assert found(tmp_path)["device"].good


def test_whether_mps_runs(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert (doctor._check_nvidia_mps().good, doctor._check_nvidia_mps().found) == (False, "does not run")
    (tmp_path / "control").touch()
    assert doctor._check_nvidia_mps().good
