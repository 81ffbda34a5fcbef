"""Measure the peak memory of a worker in each stage of a suite, for several numbers of training images.

    OMP_NUM_THREADS=1 python benchmarks/memory.py [--images 10000 30000 50000] [--size 16]

The stages are those of ROAR and matched gain for `grad` on generated images, with one epoch of training; each stage
runs in its own process. The stage `files` decodes the same number of JPEG files of 64 x 64 pixels from class folders.
The table has the peaks of two kinds of memory, read every 5 ms: *own* is the process's own memory beyond its memory at
the start of the stage; *mapped* are pages of files, which the system drops when it needs memory.
"""

import argparse
import multiprocessing
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from PIL import Image

from roarbench.common.enums import ScoredNetwork
from roarbench.common.job_interface import Job, perform_job
from roarbench.common.text import format_markdown_table
from roarbench.datasets.catalogue import FOLDERS, DatasetRecord, find_dataset, make_user_dataset_record
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.datasets.open_decoded import open_decoded
from roarbench.execution.job_context import JobContext
from roarbench.execution.job_graph import Step, build_job_graph
from roarbench.plan.planned_runs import build_run, list_planned_runs
from roarbench.plan.protocols import MATCHED, ROAR
from roarbench.plan.suite import Block, CustomSuite, SuiteSpec
from roarbench.store.workspace import Workspace

TEST = 2000
STAGES = ("files", "decode", "reference", "rank", "seal", "network", "tune", "train", "score")
_INTERVAL = 0.005  # seconds between readings
_CLASSES, _SIDE = ("one", "two"), 64  # classes and side of the JPEG files
_RECIPE = "planted-brief@1(epochs=1)"


class Peak(NamedTuple):
    """Memory of a process or peak memory of a stage in bytes: its own memory, and mapped files."""

    own: int
    mapped: int


def read_resident_memory() -> Peak:
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    sizes = {words[0]: int(words[1]) * 1024 for words in lines if words[0] in ("RssAnon:", "RssFile:")}
    return Peak(sizes["RssAnon:"], sizes["RssFile:"])


def measure_peak(work: Callable[[], object]) -> Peak:
    """Call a function, and return the peak memory of this process from readings before, every 5 ms, and after."""
    readings, done = [read_resident_memory()], threading.Event()

    def read_repeatedly() -> None:
        while not done.wait(_INTERVAL):
            readings.append(read_resident_memory())

    thread = threading.Thread(target=read_repeatedly, daemon=True)
    thread.start()
    work()
    done.set()
    thread.join()
    readings.append(read_resident_memory())
    own = max(reading.own for reading in readings) - readings[0].own
    return Peak(own, max(reading.mapped for reading in readings))


def make_suite(images: int, size: int) -> SuiteSpec:
    """Make a suite with ROAR and matched gain of one estimator on this number of generated images."""
    data = replace(find_dataset("planted"), name="memory", train_images=images, test_images=TEST, size=size)
    blocks = (Block(ROAR, ("random", "grad"), (0.9,), 1), Block(MATCHED, ("random", "grad"), (0.5,), 1))
    return SuiteSpec(
        name="memory",
        version=1,
        about="",
        dataset=data.name,
        model="resnet-planted",
        recipe=_RECIPE,
        reference_recipe=_RECIPE,
        blocks=blocks,
        own=CustomSuite(blocks, 1, data),
    )


def make_photographs_record(folder: Path, images: int, size: int) -> DatasetRecord:
    record = replace(make_user_dataset_record("files", 3, size), own=FOLDERS, folder=str(folder), classes=len(_CLASSES))
    return replace(record, train_split="train", test_split="test", train_images=images, test_images=TEST)


def write_photographs(folder: Path, images: int) -> None:
    """Write JPEG files of random noise to `train` and `test`, with a folder for each class."""
    noise = np.random.default_rng(0).integers(256, size=(_SIDE, _SIDE, 3), dtype=np.uint8)
    content = BytesIO()
    Image.fromarray(noise).save(content, "JPEG")
    for split, count in (("train", images), ("test", TEST)):
        for name in _CLASSES:
            (folder / split / name).mkdir(parents=True)
        for number in range(count):
            (folder / split / _CLASSES[number % len(_CLASSES)] / f"{number:06}.jpg").write_bytes(content.getvalue())


def find_stage(step: Step) -> str:
    if step.first_run is None:
        return step.kind
    return "train" if step.first_run.cell.retrain is ScoredNetwork.IMAGES else "score"


def measure_stage(folder: Path, images: int, size: int, stage: str) -> Peak:
    """Run a stage after the earlier stages, and return its peak memory."""
    torch.set_num_threads(1)
    suite, workspace = make_suite(images, size), Workspace(folder)
    if stage == "files":
        photographs = make_photographs_record(folder / "photographs", images, size)
        return measure_peak(partial(decode_dataset, photographs, folder / "files"))
    if stage == "decode":
        return measure_peak(partial(decode_dataset, suite.dataset_record, workspace.data))
    decoded = next(path for path in workspace.data.iterdir() if path.is_dir())
    context = JobContext(workspace, open_decoded(decoded), suite)
    runs = [build_run(suite, point, context.images.fingerprint, None) for point in list_planned_runs(suite)]
    jobs = [step.job for step in build_job_graph(context, runs).steps if find_stage(step) == stage]
    return measure_peak(partial(perform_jobs, jobs))


def perform_jobs(jobs: list[Job]) -> None:
    """Run jobs one after the other; raise the error of the first job that fails."""
    for job in jobs:
        _, error, _ = perform_job(job)
        if error:
            raise error


def measure_table_row(images: int, size: int, stages: Sequence[str]) -> list[str]:
    """Measure the peaks of these stages for a number of images, in MB, as cells of the table."""
    spawn = multiprocessing.get_context("spawn")
    cells = [f"{images:,}", f"{images * 3 * size**2 / 1e6:.0f}"]
    with tempfile.TemporaryDirectory() as folder:
        write_photographs(Path(folder, "photographs"), images)
        for stage in stages:
            with spawn.Pool(1) as pool:
                peak = pool.apply(measure_stage, (Path(folder), images, size, stage))
            cells.append(f"{peak.own / 1e6:.0f} + {peak.mapped / 1e6:.0f}")
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, nargs="+", default=[10_000, 30_000, 50_000])
    parser.add_argument("--size", type=int, default=16, help="width and height in pixels")
    stages = "stages in their order; each stage needs the earlier stages, except the first two"
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help=stages)
    arguments = parser.parse_args()
    lines = [measure_table_row(images, arguments.size, arguments.stages) for images in arguments.images]
    heads = ["training images", "their size, MB", *(f"{stage}: own + mapped" for stage in arguments.stages)]
    print(format_markdown_table(heads, lines))


if __name__ == "__main__":
    main()
