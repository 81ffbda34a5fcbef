"""Python in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python(program: str, *words: object, folder: Path | None = None, **variables: str) -> subprocess.Popen[str]:
    """Start a program in a folder, with this process's modules but torch, which `datasets` would import for long."""
    environment = os.environ | {"USE_TORCH": "0", "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    command = [sys.executable, "-c", program, *map(str, words)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=folder, env=environment | variables, stdout=pipe, stderr=pipe, text=True)


def said_by(process: subprocess.Popen[str]) -> str:
    """Return what it prints; fail where it does."""
    said, complaint = process.communicate(timeout=600)
    assert process.returncode == 0, complaint or said
    return said
