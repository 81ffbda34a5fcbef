"""scripts/gpu_resnet50.py and pack_for_gpu.py on a few images: parts, times beside plans, rows, stops, pixels."""

import io
import operator
import re
import signal
import subprocess
import sys
import time
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import Mock

import gpu_resnet50
import numpy as np
import pack_for_gpu
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sqlalchemy import text

from roarbench.common.errors import CallerError
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_image import decode_image
from roarbench.execution.forecast import GPU, Rates, assume_rates
from roarbench.execution.workload import WorkCounts, count_work
from roarbench.plan.planned_runs import SharedInputs, list_planned_runs, list_shared_inputs
from roarbench.plan.suites import find_builtin_suite
from tests.helpers.tiny_suite import InlineEngine

ROOT = Path(__file__).parents[1]

SUITE = gpu_resnet50.SUITE


def make_photograph(generator, width=200, height=160):
    """Return a smooth picture as JPEG."""
    pixels = generator.integers(256, size=(5, 6, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((width, height), Image.Resampling.BICUBIC).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture(scope="module")
def photographs(tmp_path_factory):
    """Write a parquet file of 20 photographs for each split, two of each class."""
    folder, generator = tmp_path_factory.mktemp("photographs"), np.random.default_rng(0)
    for split in ("train", "validation"):
        images = [{"bytes": make_photograph(generator), "path": None} for _ in range(20)]
        pq.write_table(pa.table({"image": images, "label": [n % 10 for n in range(20)]}), folder / f"{split}-0.parquet")
    return folder


@pytest.fixture(scope="module")
def packed(photographs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("packed")
    pack_for_gpu.pack_images(photographs, folder, 64)
    return folder


def write_small_suite(folder, changes):
    """Write the script's suite with a network of 38,000 weights and one epoch, and with these further changes."""
    text = (ROOT / "roarbench" / "suites" / f"{SUITE}.toml").read_text()
    changes = {f'"{SUITE}"': '"small"', "version = 1\n": "", '"resnet50"': '"resnet-quick"'} | changes
    for old, new in {"epochs = 16, warmup = 2": "epochs = 1, warmup = 0.5, batch = 5", **changes}.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "small.toml"
    path.write_text(text)
    return path


def run_parts(patch, capsys, suite, data, out):
    """Run the script's parts in this process; return the printed lines without their times."""
    patch.setattr(gpu_resnet50, "start_local_workers", lambda workers: nullcontext(InlineEngine()))
    out.joinpath("store").mkdir(parents=True, exist_ok=True)
    gpu_resnet50.run_parts(data, out, 1, str(suite), 10)
    return [line[10:] for line in capsys.readouterr().out.splitlines()]


def test_every_run_of_suite_belongs_to_one_part_in_order_of_plan():
    suite = find_builtin_suite(SUITE)
    counts = dict.fromkeys(gpu_resnet50.PARTS, 0)
    for planned in list_planned_runs(suite):
        counts[gpu_resnet50.name_part(planned.cell)] += 1
    # by hand: 4 networks; 8 rows x 2 seeds for each training, and 2 networks on untouched images; 16 pairs of networks;
    # own-network: 16 untouched, twice (own and other image) 4 rows x 16 pairs + 4 controls x 4, at 2 levels; MoRF and
    # LeRF: 8 rows x 4 networks x 2 levels x 2 orders
    assert counts["networks"] == 4
    assert (counts["roar-0.9"], counts["roar-0.5"], counts["kar-0.9"]) == (18, 16, 16)
    assert sum(counts.values()) == len(list_planned_runs(suite))
    page = (ROOT / "studies" / "resnet50" / "plan.md").read_text()
    assert tuple(re.findall(r"^\| `([\w.-]+)` \|", page, re.MULTILINE)) == gpu_resnet50.PARTS


@pytest.fixture
def suite(tmp_path):
    text = (ROOT / f"roarbench/suites/{SUITE}.toml").read_text()
    (rows,) = re.findall(r"estimators = \[.*?\]\n", text, re.DOTALL)
    fewer = 'estimators = ["random", "grad", "sgsq-ig(samples=2)"]\n'
    levels = {"[0.05, 0.5]": "[0.5]", "levels = [0.1, 0.5]": "levels = [0.5]"}
    return write_small_suite(
        tmp_path, {rows: fewer, "references = 4": "references = 3", "seeds = 2": "seeds = 1", **levels}
    )


def test_script_runs_all_parts_after_stop(suite, packed, tmp_path, monkeypatch, capsys):
    real, out = gpu_resnet50.do_steps_on_workers, tmp_path / "out"

    def stop_in_second_part(request, store, console, work, graph, measure):
        for number, event in enumerate(real(request, store, console, work, graph, measure)):
            yield event
            if number and any(run.cell.retrain.trains for step in graph.steps for run in step.runs):
                with store.database.begin_exclusive_write() as connection:
                    rows = connection.execute(text("INSERT INTO roarbench_version VALUES ('a') RETURNING version_num"))
                    assert rows.returns_rows, "this frame has an unfinished statement"
                    raise KeyboardInterrupt

    monkeypatch.setattr(gpu_resnet50, "do_steps_on_workers", stop_in_second_part)
    with pytest.raises(KeyboardInterrupt):
        run_parts(monkeypatch, capsys, suite, packed, out)
    first = pq.read_table(out / "rows.parquet")["key"].to_pylist()
    assert "s  roar-0.9, stopped: " in capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setattr(gpu_resnet50, "do_steps_on_workers", real)
    lines = run_parts(monkeypatch, capsys, suite, packed, out)
    rows = pq.read_table(out / "rows.parquet")["key"].to_pylist()
    assert 0 < len(first) < len(rows) and set(first) < set(rows)
    assert lines[0] == f"images decoded; {len(rows) - len(first)} of {len(rows)} runs to do"
    parts = [line for line in lines if line.partition(":")[0] in gpu_resnet50.PARTS]
    assert [line.partition(":")[0] for line in parts] == list(gpu_resnet50.PARTS[1:])  # the first is done
    times = r"\d+ s \(plan \d+( \(!\))?, measured \d+( \(!\))?\)"
    assert all(re.fullmatch(rf"[\w.-]+: {times}(; (networks|maps|runs) {times})*", line) for line in parts), parts
    assert (out / "log.txt").read_text().count("networks:") == 1


@pytest.mark.soak
def test_command_runs_whole_suite_on_few_images_after_stop(packed, tmp_path):
    """All rows, blocks and levels of the suite with a small network; workers are processes, which the limit stops."""
    suite = write_small_suite(tmp_path, {'"sgsq-ig"': '"sgsq-ig(samples=2)"'})  # 375 passes would take minutes
    out = tmp_path / "out"
    command = [sys.executable, str(ROOT / "scripts" / "gpu_resnet50.py"), "--suite", str(suite), "--max-images", "20"]
    command += ["--data", str(packed), "--out", str(out), "--minutes"]
    stopped = subprocess.run([*command, "0.25"], capture_output=True, text=True, timeout=300, check=True)
    assert stopped.stdout.splitlines()[-1] == "stopped after 0.25 minutes; the same command resumes"
    stored = pq.read_table(out / "rows.parquet").num_rows if (out / "rows.parquet").exists() else 0  # a busy machine
    done = subprocess.run([*command, "20"], capture_output=True, text=True, timeout=1200, check=True)
    print(stopped.stdout, done.stdout)
    rows, runs = pq.read_table(out / "rows.parquet").num_rows, len(list_planned_runs(find_builtin_suite(SUITE)))
    assert rows == runs and f"images decoded; {runs - stored} of {runs} runs to do" in done.stdout
    assert "failed" not in done.stdout


def test_script_compares_each_stage_with_both_plans():
    plans = {"plan": {"networks": 10.0, "maps": 30.0, "runs": 9.0}, "measured": {"networks": 14.0, "maps": 20.0}}
    line = gpu_resnet50.compare_with_plans("p", {"networks": 21.0, "maps": 21.4}, plans)
    # by hand: 21 / 10 is above 1.5 and 21 / 14 is not; 21.4 / 30 is above 1 / 1.5; 42.4 / 49 and 42.4 / 34 agree
    stages = ["networks 21 s (plan 10 (!), measured 14)", "maps 21 s (plan 30, measured 20)"]
    assert line == "; ".join(["p: 42 s (plan 49, measured 34)", *stages])


def test_page_lists_plan_of_each_part():
    suite, made, rows = find_builtin_suite(SUITE), SharedInputs(), []
    for part in gpu_resnet50.PARTS:
        runs = [planned for planned in list_planned_runs(suite) if gpu_resnet50.name_part(planned.cell) == part]
        plan = gpu_resnet50.plan_stages(count_work(suite, runs, None, made), assume_rates(suite, GPU), 4)
        made = SharedInputs(*map(operator.or_, made, list_shared_inputs(suite, runs)))
        rows.append(f"| {part} | {' | '.join(f'{seconds:.0f} s' for seconds in plan.values())} |")
    assert "\n".join(rows) in (ROOT / "docs" / "gpu.md").read_text(), "\n".join(rows)


@pytest.mark.parametrize(("gpus", "seconds"), [(1, (8.0, 6.0, 6.0)), (0, (2.0, 3.0, 1.5))])
def test_workers_share_a_gpu_and_draw_noise_on_their_own_cores(gpus, seconds):
    rates = Rates("", gpus, "", decode=1, train=2, predict=0.5, explain=3, draw=4, rank=1)
    work = WorkCounts(*[0] * len(WorkCounts._fields))._replace(images_reference=4, images_explained=1, copies_drawn=2)
    work = work._replace(images_ranked=1, images_retrained=2, images_scored=4)
    # by hand, four workers: 4 x 2; 3, 2 x 4 / 4 and 1; 2 x 2 and 4 x .5; without a GPU a quarter of 8, 3 + 8 + 1 and 6
    assert tuple(gpu_resnet50.plan_stages(work, rates, 4).values()) == seconds


def test_script_stops_at_time_limit(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(gpu_resnet50, "run_parts", lambda *arguments: time.sleep(30))
    options = ["gpu_resnet50.py", "--data", str(tmp_path), "--out", str(tmp_path / "out"), "--minutes", "0.001"]
    monkeypatch.setattr(sys, "argv", options)
    before = signal.getsignal(signal.SIGALRM)
    try:
        gpu_resnet50.main()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert capsys.readouterr().out == "stopped after 0.001 minutes; the same command resumes\n"


@pytest.mark.parametrize("gpu_works", [True, False])
def test_script_prints_one_line_for_bad_input(gpu_works, monkeypatch, capsys, tmp_path):
    """The folder is absent; or CUDA fails, for example because of MPS, before the folder is read."""
    if not gpu_works:
        monkeypatch.setattr(gpu_resnet50, "list_gpu_ids", Mock(side_effect=CallerError("CUDA fails")))
    options = ["gpu_resnet50.py", "--data", str(tmp_path / "absent"), "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", options)
    before = signal.getsignal(signal.SIGALRM)
    try:
        with pytest.raises(SystemExit) as error:
            gpu_resnet50.main()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    printed = capsys.readouterr().err
    assert (error.value.code, printed.count("\n"), "CUDA fails" in printed) == (2, 1, not gpu_works)


def test_packed_image_decodes_to_pixels_of_record(photographs):
    record = find_dataset("imagenette")
    content = pq.read_table(photographs / "train-0.parquet")["image"][0].as_py()["bytes"]
    files = content, pack_for_gpu.pack_image(content, 100)
    kept, packed = (decode_image(file, record).pixels.astype(int) for file in files)
    # a shift by one pixel changes this picture more than WebP does
    error, shifted = (np.abs(kept[:, :, :-1] - other).mean() for other in (packed[:, :, :-1], packed[:, :, 1:]))
    assert error < 1.5 and error < shifted / 2


def test_pack_without_images_says_what_is_expected(tmp_path):
    with pytest.raises(SystemExit, match=r"has no train-\*\.parquet; expected the files of frgfm/imagenette"):
        pack_for_gpu.pack_images(tmp_path, tmp_path / "out", 64)
