"""Python in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_python(program: str, *words: object, folder: Path | None = None, **variables: str) -> str:
    """Run a program in a folder, with this process's modules but torch, which `datasets` would import for long.

    Returns the output; fails if the program does.
    """
    environment = (
        os.environ | {"USE_TORCH": "0", "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"} | variables
    )
    command = [sys.executable, "-c", program, *map(str, words)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr or done.stdout
    return done.stdout


_CALLS = """
import json, os, sys
from contextlib import redirect_stdout
from io import StringIO
from roarbench.cli.main import main
heavy = {"torch", "torchvision", "captum", "datasets", "scipy", "sqlalchemy", "matplotlib", "numpy"}
ended = []
for words, variables in json.loads(sys.argv[1]):
    sys.argv, code = ["roarbench", *words], 0
    os.environ |= variables
    with redirect_stdout(StringIO()) as said:
        try:
            main()
        except SystemExit as stop:
            code = stop.code
    ended.append((code, said.getvalue(), sorted(heavy & set(sys.modules))))
print(json.dumps(ended))
"""


def call_in_new_process(asked: Sequence[tuple[Sequence[object], dict[str, str]]], folder: Path | None = None) -> Any:
    """Exit code, output, and what heavy is imported by then, of commands in one process with words and variables."""
    variables = {"PYTHONPATH": str(folder)} if folder else {}
    return json.loads(run_python(_CALLS, json.dumps(asked, default=str), folder=folder, **variables))
