"""The first 45 minutes on a GPU: its tests, then every benchmark that wants one, the most telling first.

    make first-gpu

Each has a limit of time, and one that fails does not stop the rest. What they print goes to docs/performance-gpu.json
as soon as each has ended, and from there into the table of docs/performance.md; what is missing stays "not measured".
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from roarbench.devices import gpus
from roarbench.files import write_whole
from roarbench.text import markdown_table

ROOT = Path(__file__).parents[1]
PAGE, RECORD = ROOT / "docs/performance.md", ROOT / "docs/performance-gpu.json"
HEADINGS = ("figure", "expected of an H200", "measured", "command")
MISSING = "not measured"
_LAST = 20  # lines of what was printed that are kept of a step that did not end well


class TimedProgram(NamedTuple):
    """Program that is run for at most `limit` seconds."""

    name: str
    command: tuple[str, ...]
    limit: float


class GpuRow(NamedTuple):
    """Line of the table; its figure is each match of the pattern in what a step printed, in these words."""

    figure: str
    expected: str
    command: str
    step: str = ""
    pattern: str = ""
    words: str = ""


STEPS = (
    TimedProgram("tests", ("-m", "pytest", "-q", "-n", "0", "-m", "gpu"), 600),
    TimedProgram("training", ("benchmarks/bench_training.py", "--json"), 600),
    TimedProgram("attribution", ("benchmarks/bench_attribution.py",), 420),
    TimedProgram("many", ("benchmarks/bench_many.py", "--epochs", "2"), 780),
    TimedProgram("precision", ("benchmarks/precision.py",), 300),
)
_TRAINING, _NUMBER = "`python benchmarks/bench_training.py`", r": ([\d.e+-]+)"
ROWS = (
    GpuRow("tests that need a GPU", "all pass", "`pytest -m gpu`", "tests", r"(\d+ (?:passed|failed).*?) in ", "{}"),
    GpuRow("memory copy", "4.8 TB/s (data sheet)", _TRAINING, "training", '"copy, GB/s.*?"' + _NUMBER, "{:,.0f} GB/s"),
    GpuRow(
        "bfloat16 matrix product", "990 TFLOP/s (data sheet)", "the same", "training",
        '"bf16 matrix product.*?"' + _NUMBER, "{:,.0f} TFLOP/s",
    ),
    GpuRow(
        "ResNet-50 training at 224, from resident uint8 and bit-planes, compiled", "3,300 images/s", "the same",
        "training", '"training from memory.*?"' + _NUMBER, "{:,.0f} images/s",
    ),
    GpuRow(
        "the same from files, through pinned buffers", "as much", "the same", "training",
        '"training from files.*?"' + _NUMBER, "{:,.0f} images/s",
    ),
    GpuRow(
        "degrading, share of a step", "under 2 %", "the same", "training", '"degrade, share.*?"' + _NUMBER, "{:.1%}"
    ),
    GpuRow(
        "peak memory of a step of 256 images", "", "the same", "training", '"peak memory.*?"' + _NUMBER, "{:.1f} GB"
    ),
    GpuRow(
        "trainings of ResNet-8 at once on one device, per minute, each also with CUDA graphs (two epochs)", "",
        "`python benchmarks/bench_many.py --epochs 2`", "many", r"(\d+ at once.*?): ([\d.]+) trainings", "{}: {:.2f}",
    ),
    GpuRow(
        "ResNet-50 at 224 px, forward and backward pairs for maps, float32",
        "12,000 pairs/s in bfloat16; float32, which is used, perhaps 2,400 (60 % of 67 TFLOP/s)",
        "`python benchmarks/bench_attribution.py`", "attribution", r"  (.*?): ([\d,]+) pairs/s", "{}: {} pairs/s",
    ),
    GpuRow(
        "a noisy copy drawn by four threads, a ranking on the device, of one image at 224 px", "", "the same",
        "attribution", r"a noisy copy: ([\d.]+) ms; a ranking: ([\d.]+) ms", "{:.2f} ms, {:.2f} ms",
    ),
    GpuRow(
        "features that bfloat16 moves to another bin, on a GPU, in percent", "below, on a processor",
        "`python benchmarks/precision.py`",
        "precision", r"\| `([\w-]+)` \| ([\d.]+) \|", "{}: {}",
    ),
    GpuRow("CIFAR-10, whole protocol", "under 15 min", "`time roarbench run --suite cifar10`"),
    GpuRow("Fashion-MNIST, the same", "under 5 min", "`time roarbench run --suite fashion-mnist`"),
    GpuRow(
        "Imagenette 128 px, ResNet-18, 8 rankings x 3 levels x 2 seeds",
        "under 15 min (13 by the plan's assumed rates)", "`time roarbench run --suite imagenette-brief`",
    ),
)  # fmt: skip


def measured(row: GpuRow, steps: dict[str, Any]) -> str:
    """Return a row's figure from what its step printed; `not measured` where that is missing."""
    printed = steps.get(row.step, {}).get("printed", "")
    matches = [match.groups() for match in re.finditer(row.pattern, printed)] if row.pattern else []
    return "; ".join(row.words.format(*map(_number, groups)) for groups in matches) or MISSING


def _number(text: str) -> float | str:
    return float(text) if re.fullmatch(r"\d[\d.]*(e[+-]?\d+)?", text) else text


def table(record: dict[str, Any]) -> str:
    """Return the table of docs/performance.md, in Markdown."""
    rows = [(row.figure, row.expected, measured(row, record.get("steps", {})), row.command) for row in ROWS]
    device = ("the device", "NVIDIA H200", record.get("device") or MISSING, "`make first-gpu`, which fills this table")
    return markdown_table(HEADINGS, [device, *rows])


def with_table(page: str, record: dict[str, Any]) -> str:
    """Return the page with this table in the place of its own."""
    start = page.index(f"| {HEADINGS[0]} | {HEADINGS[1]} |")
    end = page.index("\n\n", start)
    return page[:start] + table(record) + page[end:]


def done(step: TimedProgram) -> dict[str, Any]:
    """Run a step in a process group of its own, which ends with it; return how it ended and what it printed."""
    start = time.monotonic()
    command = [sys.executable, *step.command]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    ) as process:
        try:
            printed, _ = process.communicate(timeout=step.limit)
            ended = "done" if process.returncode == 0 else f"exit code {process.returncode}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            printed, _ = process.communicate()
            ended = f"stopped after {step.limit:g} s"
    shown = " ".join(("python", *step.command))
    return {"command": shown, "ended": ended, "seconds": round(time.monotonic() - start, 1), "printed": printed}


def measure_all(steps: Sequence[TimedProgram], device: str, record: Path, page: Path) -> list[str]:
    """Run all steps, and write record and page after each; return how those ended that did not end well."""
    found: dict[str, Any] = {"device": device, "steps": {}}
    bad = []
    for step in steps:
        print(f"{step.name}: up to {step.limit:g} s", flush=True)
        outcome = found["steps"][step.name] = done(step)
        print(f"{step.name}: {outcome['ended']} ({outcome['seconds']:g} s)", flush=True)
        if outcome["ended"] != "done":
            print("\n".join(outcome["printed"].splitlines()[-_LAST:]), flush=True)
            bad.append(f"{step.name}: {outcome['ended']}")
        for path, text in ((record, json.dumps(found, indent=1) + "\n"), (page, with_table(page.read_text(), found))):
            write_whole(path, partial(Path.write_text, data=text), path.with_suffix(".tmp"))
    return bad


def main() -> None:
    """Measure all and say what did not end well; on a machine without a GPU say so."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if not gpus():
        print("no GPU here, expected one that torch sees; run `make first-gpu` on a machine with one", file=sys.stderr)
        sys.exit(2)
    names = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    asked = subprocess.run(names, capture_output=True, text=True, check=False)
    bad = measure_all(STEPS, asked.stdout.strip(), RECORD, PAGE)
    print(f"the table is in {PAGE.relative_to(ROOT)}; not done: {', '.join(bad) or 'none'}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
