"""Run roarbench on a GPU for the first time in six steps, each with its expected result and advice.

    python scripts/first_gpu.py [--out FOLDER]      # at most 26 minutes; the report is FOLDER/report.md

Each step is a command with a time limit, so that a step that fails or hangs does not stop the others. The expected
results come from plans, which docs/gpu.md compares with measurements on one H100.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from roarbench.common.device_settings import choose_device, name_device
from roarbench.common.text import format_markdown_table


class Step(NamedTuple):
    """A test of the machine."""

    name: str
    limit: int  # seconds
    command: tuple[str, ...]  # words after `roarbench`, or after `python` for pytest
    expected: str  # expected result
    advice: str  # what to do if the result is worse


TESTS = ("-m", "pytest", "-q", "-n", "0", "-m", "gpu")
CIFAR10 = ("--max-images", "10000", "--seeds", "1", "--protocol", "roar", "--estimators", "grad")
NETWORKS = ("--protocol", "own-network", "--estimators", "grad,sgsq-grad,input-x-grad,gradcam")
STEPS = (
    Step("doctor", 50, ("doctor",), "no line that begins with !", "do what the last column says"),
    Step("tests", 320, TESTS, "no failure", "report the failing test with `roarbench doctor`"),
    Step("rates", 180, ("plan", "--suite", "imagenet-100-64", "--workers", "8", "--measure"),
        "about 14 days, as plans assume", "nvidia-smi: another process, a low clock?"),
    Step("quick", 240, ("run", "--suite", "quick", "--seeds", "1", "--protocol", "roar"),
        "within a factor of two of the printed plan", "--workers 1, then 8; nvidia-smi dmon while it runs"),
    Step("cifar10", 420, ("run", "--suite", "cifar10", *CIFAR10), "within a factor of two of the printed plan",
        "the data set comes from the hub, or from --data; else as for quick"),
    Step("networks", 300, ("run", "--suite", "imagenet-networks", "--max-images", "1000", *NETWORKS),
        "within 2 minutes (plan)", "ImageNet is gated: hf auth login, or --data; pip install timm"),
)  # fmt: skip
_SHOWN = ("time about", "together about", "! ")  # beginnings of the printed lines that the report repeats


def run_step(step: Step, store: Path) -> tuple[str, float]:
    """Run a step in its own process; return its result or a description of its failure, and its seconds."""
    program = sys.executable if step.command is TESTS else str(Path(sys.executable).with_name("roarbench"))
    environment = os.environ | {"ROARBENCH_STORE": str(store), "ROARBENCH_DB": ""}  # the store's own database
    environment["COLUMNS"] = "1000"  # tables are not wrapped, so that the report has whole lines
    start = time.monotonic()
    try:
        done = subprocess.run(
            [program, *step.command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=step.limit,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        code, printed = None, error.stdout or b""
    else:
        code, printed = done.returncode, done.stdout
    seconds, output = time.monotonic() - start, printed.decode(errors="replace")
    (store / f"{step.name}.txt").write_text(output)
    return describe_result(step, code, output), seconds


def describe_result(step: Step, code: int | None, output: str) -> str:
    """Describe a step's result from its exit code (None if it was stopped) and what it printed."""
    lines = [" ".join(line.split()) for line in output.splitlines() if line.strip()] or ["no output"]
    shown = [line for line in lines if line.startswith(_SHOWN)]
    if code is None:
        return "; ".join([f"not done after {step.limit} s", *(shown or lines[-1:])])
    if code:
        return f"failed ({code}): {lines[-1]}"
    return "; ".join(["done", *(shown or lines[-1:])])


def write_report(results: list[tuple[Step, str, float]], path: Path) -> None:
    rows = [(step.name, result, step.expected, step.advice, f"{seconds:.0f}") for step, result, seconds in results]
    table = format_markdown_table(("step", "result", "expected", "if worse", "s"), rows)
    path.write_text(f"# First run on {name_device(choose_device())}\n\n{table}\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("build/gpu"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    if choose_device().type != "cuda":
        sys.exit("torch finds no GPU on this machine; `roarbench doctor` explains why")
    results: list[tuple[Step, str, float]] = []
    for step in STEPS:
        results.append((step, *run_step(step, out)))
        print(f"{step.name}: {results[-1][1]} (expected: {step.expected})", flush=True)
        write_report(results, out / "report.md")
    sys.exit(any(result.startswith(("failed", "not done")) for _, result, _ in results))


if __name__ == "__main__":
    main()
