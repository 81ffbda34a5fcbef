"""The first session on a GPU, with stubs for what it runs: limits, failures, the table made of what was printed."""

import json
from importlib import import_module

import pytest

first_gpu = import_module("first_gpu")

TRAINING = {
    "copy, GB/s read and written": 4321.4,
    "bf16 matrix product, TFLOP/s": 7.9e2,
    "training from memory, images/s": 3210.6,
    "degrade, share of a step": 0.0123,
    "augment and normalise, share of a step": 0.05,
    "training from files, images/s": 3100.0,
    "peak memory, GB": 41.26,
}
PRINTED = {
    "tests": "...\n41 passed, 2 skipped in 61.02s (0:01:01)\n",
    "training": json.dumps(TRAINING),
    "many": "NVIDIA H200: resnet8\n  1 at once: 2.50 trainings per minute\n"
    "  1 at once, CUDA graphs: 9.75 trainings per minute\n",
    "attribution": "NVIDIA H200: resnet50\n  gradient: 2,345 pairs/s, 40 TFLOP/s, 9 images/s\n"
    "  a noisy copy: 2.25 ms; a ranking: 0.4 ms, an image\n",
    "precision": "| estimator | bf16: bins | 0.1 |\n|---|---|---|\n| `grad` | 1.25 | 0.5 |\n| `gb-sq` | 0.75 | 0.4 |\n",
}
READ = {
    "tests": ["41 passed, 2 skipped"],
    "training": ["4,321 GB/s", "790 TFLOP/s", "3,211 images/s", "3,100 images/s", "1.2%", "41.3 GB"],
    "many": ["1 at once: 2.50; 1 at once, CUDA graphs: 9.75"],
    "attribution": ["gradient: 2,345 pairs/s", "2.25 ms, 0.40 ms"],
    "precision": ["grad: 1.25; gb-sq: 0.75"],
}


def measured(name: str, printed: dict[str, str]) -> list[str]:
    steps = {step: {"printed": text} for step, text in printed.items()}
    return [first_gpu.measured(row, steps) for row in first_gpu.ROWS if row.step == name]


def test_figures_are_read_from_what_each_benchmark_prints():
    assert {name: measured(name, PRINTED) for name in READ} == READ
    steps = {step.name for step in first_gpu.STEPS}
    for name in steps:
        assert set(measured(name, {})) == set(measured(name, {name: "Traceback"})) == {"not measured"}
    assert {row.step for row in first_gpu.ROWS} == steps | {""}, "each step has a line, and each line its step"
    assert sum(step.limit for step in first_gpu.STEPS) <= 45 * 60


def test_the_table_of_the_page_is_this_programs():
    """With what docs/performance-gpu.json has, once there is one."""
    record = json.loads(first_gpu.RECORD.read_text()) if first_gpu.RECORD.exists() else {}
    page = first_gpu.PAGE.read_text()
    assert first_gpu.with_table(page, record) == page


@pytest.mark.process
def test_a_failure_and_a_stop_do_not_end_the_rest(tmp_path, capsys):
    """And nothing of what was stopped goes on."""
    record, page, child = tmp_path / "record.json", tmp_path / "page.md", tmp_path / "child"
    page.write_text(f"# Page\n\n{first_gpu.table({})}\n\nMore.\n")
    late = f"import time, pathlib; time.sleep(6); pathlib.Path({str(child)!r}).touch()"
    hanging = f"import subprocess, sys; print('begun', flush=True); subprocess.run([sys.executable, '-c', {late!r}])"
    steps = (
        first_gpu.TimedProgram("many", ("-c", hanging), 3.0),
        first_gpu.TimedProgram("attribution", ("-c", "print('why'); raise SystemExit(3)"), 60.0),
        first_gpu.TimedProgram("training", ("-c", f"print({PRINTED['training']!r})"), 60.0),
    )
    bad = first_gpu.measure_all(steps, "NVIDIA H200, 143771 MiB", record, page)
    assert bad == ["many: stopped after 3 s", "attribution: exit code 3"]
    found = json.loads(record.read_text())["steps"]
    assert [found[step.name]["ended"] for step in steps] == ["stopped after 3 s", "exit code 3", "done"]
    assert found["many"]["printed"] == "begun\n"
    text = page.read_text()
    assert "| the device | NVIDIA H200 | NVIDIA H200, 143771 MiB |" in text
    assert "| 3,300 images/s | 3,211 images/s | the same |" in text
    assert "why" in capsys.readouterr().out
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.md", "record.json"]
