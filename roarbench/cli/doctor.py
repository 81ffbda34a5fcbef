"""Examine this machine, and advise what to change."""

import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from rich.table import Table as RichTable

from roarbench.common.device_settings import can_use_bf16, choose_device, describe_cuda_failure
from roarbench.common.enums import Precision
from roarbench.common.errors import SandboxError
from roarbench.common.text import format_bytes
from roarbench.datasets.catalogue import DATASETS
from roarbench.datasets.file_locations_and_downloads import HUB_TIMEOUT
from roarbench.report.table_record import Table, make_column
from roarbench.report.table_renderers import format_list
from roarbench.store.run_result import count_cores, read_package_version
from roarbench.submissions.sandbox_isolation import check_sandbox_isolation
from roarbench.submissions.sandbox_process import find_parent_control_group

_DISK, _MEMORY = 4e9, 3e9  # bytes of disk and memory for the suite `quick` with two workers, rounded up
_DRIVER_TIMEOUT = 20.0  # seconds for an answer of the driver's program
_EXTRAS = {"leaderboard": "streamlit", "postgres": "psycopg", "quantus": "quantus", "ray": "ray"}


class Diagnosis(NamedTuple):
    """One finding about this machine, with advice."""

    subject: str
    found: str
    ok: bool
    advice: str


def make_findings_table(findings: Iterable[Diagnosis]) -> RichTable:
    """Format the findings for a terminal."""
    rows = [("ok" if one.ok else "!", one.subject, one.found, "" if one.ok else one.advice) for one in findings]
    headed = zip((" ", "what", "found", "what to do"), zip(*rows, strict=True), strict=True)
    columns = (make_column("", cells, heading, side="left") for heading, cells in headed)
    return format_list(Table("", tuple(columns)))


def examine_machine(store: Path) -> Iterator[Diagnosis]:
    """Check processor, device, memory, disk, libraries, the hub, the sandbox and optional packages."""
    count, device = count_cores(), choose_device()
    yield Diagnosis("processor", f"{count} cores", count > 1, "each core runs one worker; more cores save time")
    yield _check_device()
    if device.type == "cuda":  # NVIDIA's MPS runs kernels of several processes concurrently on one GPU
        runs = Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control").exists()
        advice = "for small images several workers share a GPU: run `nvidia-cuda-mps-control -d`"
        yield Diagnosis("MPS", "runs" if runs else "does not run", runs, advice)
    fast = can_use_bf16(Precision.BF16, device)
    advice = "training runs use float32 and take longer"
    yield Diagnosis("bfloat16", f"{'in' if fast else 'not in'} hardware", fast, advice)
    missing = [] if importlib.util.find_spec("triton") else ["triton"]
    missing += [] if shutil.which(os.environ.get("CC", "gcc")) else ["a C compiler"]
    missing += [] if Path(sysconfig.get_path("include"), "Python.h").exists() else ["Python's headers"]
    state = f"lacks {' and '.join(missing)}" if missing else "ready"
    if device.type == "cpu":
        state, missing = "not used without a GPU", []
    yield Diagnosis("torch.compile", state, not missing, "pip install triton; apt-get install gcc python3-dev")
    if "SC_AVPHYS_PAGES" in os.sysconf_names:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
        advice = f"quick needs {format_bytes(_MEMORY)}; use fewer --workers"
        yield Diagnosis("free memory", format_bytes(free), free > _MEMORY, advice)
    else:  # macOS
        yield Diagnosis("free memory", "not known", True, "")
    folder = next(path for path in (store.absolute(), *store.absolute().parents) if path.exists())
    if folder.is_dir():
        space, writable = shutil.disk_usage(folder).free, os.access(folder, os.W_OK)
        state = f"{format_bytes(space)} free in {folder}" if writable else f"{folder} cannot be written"
        advice = f"choose a --store with {format_bytes(_DISK)} free"
        yield Diagnosis("store", state, writable and space > _DISK, advice)
    else:
        yield Diagnosis("store", f"{folder} is a file, not a folder", False, "name a folder with --store")
    names = ("torch", "torchvision", "captum", "datasets", "sqlalchemy")
    versions = ", ".join(f"{name} {read_package_version(name)}" for name in names)
    try:
        importlib.import_module("torchvision")
        yield Diagnosis("libraries", versions, True, "")
    except Exception:  # of many types: a missing operator, a library, or a half-loaded module's attribute
        advice = "`import torchvision` fails, as for another torch: roarbench works, your files that import it do not; "
        yield Diagnosis("libraries", versions, False, f"{advice}install both from one index")
    bundled = ", ".join(record.name for record in DATASETS.values() if record.bundled or not record.hub)
    answers = _does_hub_answer()
    state = "the hub answers" if answers else f"the hub does not answer; available without it: {bundled}"
    yield Diagnosis("data", state, answers, "read a local copy with --data DIR")
    try:
        check_sandbox_isolation()
        has_group = find_parent_control_group() is not None
        group = "a control group" if has_group else "no control group (cgroup v2) is available, see SECURITY.md"
        yield Diagnosis("sandbox", f"works, so submissions can be run; {group}", True, "")
    except SandboxError as error:
        state, _, advice = str(error).partition("; ")
        yield Diagnosis("sandbox", state, False, advice)
    lacking = [name for name, package in _EXTRAS.items() if importlib.util.find_spec(package) is None]
    commands = ", ".join(f"pip install 'roarbench[{name}]'" for name in lacking)
    yield Diagnosis("extras", f"not installed: {commands}" if lacking else "all are installed", True, "")


def _check_device() -> Diagnosis:
    if choose_device().type == "cuda":
        free, total = map(format_bytes, torch.cuda.mem_get_info())
        gpus = f"{torch.cuda.device_count()} x {torch.cuda.get_device_name()}, {free} of {total} free"
        return Diagnosis("device", gpus, True, "")
    listed, newest = _read_gpus_and_cuda_version()
    failure = describe_cuda_failure() or (listed and "this torch is built without CUDA" * (torch.version.cuda is None))
    if not failure:
        return Diagnosis("device", "no GPU; networks run on the CPU", True, "")
    wheel = f"torch for CUDA {newest} or older" if newest else "torch for the CUDA of your driver"
    torch_cuda = "" if torch.version.cuda is None else f"; this torch is for CUDA {torch.version.cuda}"
    state = f"{listed or 'GPUs of the driver'}, but CUDA fails: {failure}{torch_cuda}"
    advice = f"install {wheel}, or a newer driver; torchvision must be from torch's index"
    return Diagnosis("device", state, False, advice)


def _read_gpus_and_cuda_version() -> tuple[str, str]:
    """Return the GPUs that the driver lists, and the newest CUDA version that it supports; empty without a driver."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=_DRIVER_TIMEOUT)
        head = subprocess.run(["nvidia-smi"], capture_output=True, text=True, timeout=_DRIVER_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return "", ""
    names = [line.partition(" (UUID")[0] for line in listed.stdout.splitlines() if line.startswith("GPU ")]
    version = re.search(r"CUDA Version: *([0-9.]+)", head.stdout)
    return ", ".join(names), version.group(1) if version else ""


def _does_hub_answer() -> bool:
    endpoint = os.environ.get("HF_ENDPOINT", "https://huggingface.co")
    try:
        with urllib.request.urlopen(urllib.request.Request(endpoint, method="HEAD"), timeout=HUB_TIMEOUT):
            return True
    except (OSError, ValueError):  # ValueError: HF_ENDPOINT is malformed
        return False
