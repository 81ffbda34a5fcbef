"""What this machine offers, and what to do where that is too little."""

import importlib.util
import os
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple

import torch
from rich.box import SIMPLE_HEAD
from rich.table import Table

from roarbench.errors import SandboxError
from roarbench.recipes import Precision
from roarbench.reports import size
from roarbench.sandbox.preflight import check_sandbox
from roarbench.store.provenance import cores
from roarbench.train import uses_bf16

_DISK, _MEMORY = 4e9, 3e9  # what the suite `quick` takes with two workers, rounded up
_EXTRAS = {"leaderboard": "streamlit", "postgres": "psycopg", "quantus": "quantus", "ray": "ray"}


class Finding(NamedTuple):
    """One thing that was looked at."""

    what: str
    found: str
    good: bool
    advice: str


def examine(store: Path) -> list[Finding]:
    """Look at processor, memory, disk, libraries, the hub and the sandbox."""
    return [*_compute(), _memory(), _disk(store), *_libraries(), _hub(), _sandbox(), *map(_extra, _EXTRAS)]


def findings_table(findings: list[Finding]) -> Table:
    """For a terminal."""
    shown = Table(box=SIMPLE_HEAD)
    for heading in ("", "what", "found", "what to do"):
        shown.add_column(heading)
    for finding in findings:
        shown.add_row(
            "ok" if finding.good else "!", finding.what, finding.found, "" if finding.good else finding.advice
        )
    return shown


def _compute() -> list[Finding]:
    count, cuda = cores(), torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    name = torch.cuda.get_device_name() if cuda else "no GPU; networks are trained on the processor"
    fast = uses_bf16(Precision.BF16, device)
    return [
        Finding("processor", f"{count} cores", count > 1, "one worker per core: more cores finish sooner"),
        Finding("device", name, True, ""),
        Finding(
            "bfloat16", "in hardware" if fast else "not in hardware", fast, "trainings use float32 and take longer"
        ),
    ]


def _memory() -> Finding:
    if "SC_AVPHYS_PAGES" not in os.sysconf_names:  # macOS
        return Finding("free memory", "not known", True, "")
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    return Finding("free memory", size(free), free > _MEMORY, f"quick wants {size(_MEMORY)}; use fewer --workers")


def _disk(store: Path) -> Finding:
    folder = next(path for path in (store.absolute(), *store.absolute().parents) if path.exists())
    free = shutil.disk_usage(folder).free
    writable = os.access(folder, os.W_OK)
    found = f"{size(free)} free in {folder}" if writable else f"{folder} cannot be written"
    return Finding("store", found, writable and free > _DISK, f"choose a --store with {size(_DISK)} free")


def _libraries() -> list[Finding]:
    versions = [f"{name} {version(name)}" for name in ("torch", "torchvision", "captum", "datasets", "sqlalchemy")]
    return [Finding("libraries", ", ".join(versions), True, "")]


def _hub() -> Finding:
    token = bool(os.environ.get("HF_TOKEN")) or (Path.home() / ".cache/huggingface/token").exists()
    found = "a token is set" if token else "no token"
    return Finding("hub", found, token, "only gated data sets need one: hf auth login, or HF_TOKEN; or read --data DIR")


def _sandbox() -> Finding:
    try:
        check_sandbox()
    except SandboxError as error:
        found, _, advice = str(error).partition("; ")
        return Finding("sandbox", found, False, advice)
    return Finding("sandbox", "holds; submissions can be run", True, "")


def _extra(name: str) -> Finding:
    there = importlib.util.find_spec(_EXTRAS[name]) is not None
    found = _version(_EXTRAS[name]) if there else "not installed"
    return Finding(f"extra {name}", found, there, f"pip install 'roarbench[{name}]'")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "installed"
