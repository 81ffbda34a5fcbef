"""Peak memory of a worker in each stage, at several numbers of training images, beside the images themselves.

    OMP_NUM_THREADS=1 python benchmarks/memory.py [--images 10000 30000 50000] [--size 16]

Generated images, one epoch, the stages of ROAR and of matched gain for `grad`; each stage in a process of its own.
*Files* decodes as many JPEG files of 64 x 64, in a folder for each class, which is how photographs come.
*Own* is memory that only this process has, at its peak, above what it had when the stage began; *mapped* are pages of
files, which the system drops when it needs them. Both are looked at every 5 ms.
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
_LOOK = 0.005  # seconds between readings
_CLASSES, _SIDE = ("one", "two"), 64  # classes and side of the JPEG files
_RECIPE = "planted-brief@1(epochs=1)"


class Peak(NamedTuple):
    """Most memory of a stage, bytes: its own beyond what it began with, and mapped files."""

    own: int
    mapped: int


def read_resident_memory() -> Peak:
    lines = (line.split() for line in Path("/proc/self/status").read_text().splitlines())
    held = {words[0]: int(words[1]) * 1024 for words in lines if words[0] in ("RssAnon:", "RssFile:")}
    return Peak(held["RssAnon:"], held["RssFile:"])


def measure_peak(work: Callable[[], object]) -> Peak:
    """Do some work; return the most memory that this process had, looked at before, every 5 ms, and after."""
    found, over = [read_resident_memory()], threading.Event()

    def look() -> None:
        while not over.wait(_LOOK):
            found.append(read_resident_memory())

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    work()
    over.set()
    thread.join()
    found.append(read_resident_memory())
    return Peak(max(each.own for each in found) - found[0].own, max(each.mapped for each in found))


def make_suite(images: int, size: int) -> SuiteSpec:
    """Return ROAR and matched gain of one estimator on so many generated images."""
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
    found = replace(make_user_dataset_record("files", 3, size), own=FOLDERS, folder=str(folder), classes=len(_CLASSES))
    return replace(found, train_split="train", test_split="test", train_images=images, test_images=TEST)


def write_photographs(folder: Path, images: int) -> None:
    """Write JPEG files of noise into `train` and `test`, with a folder for each class."""
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
    """Do a stage whose needs are there; return its peak."""
    torch.set_num_threads(1)
    suite, workspace = make_suite(images, size), Workspace(folder)
    if stage == "files":
        return measure_peak(
            lambda: decode_dataset(make_photographs_record(folder / "photographs", images, size), folder / "files")
        )
    if stage == "decode":
        return measure_peak(lambda: decode_dataset(suite.dataset_record, workspace.data))
    decoded = next(path for path in workspace.data.iterdir() if path.is_dir())
    work = JobContext(workspace, open_decoded(decoded), suite)
    runs = [build_run(suite, point, work.images.fingerprint, None) for point in list_planned_runs(suite)]
    return measure_peak(
        partial(perform_jobs, [step.job for step in build_job_graph(work, runs) if find_stage(step) == stage])
    )


def perform_jobs(jobs: list[Job]) -> None:
    """Do jobs one after the other; raise RunError if one fails."""
    for job in jobs:
        _, error, _ = perform_job(job)
        if error:
            raise error


def measure_table_row(images: int, size: int, stages: Sequence[str]) -> list[str]:
    """Return the peaks of these stages at so many images, in MB, as cells of the table."""
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
    parser.add_argument("--size", type=int, default=16, help="pixels a side")
    stages = "in their order; each but the first two needs those before it"
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES, help=stages)
    arguments = parser.parse_args()
    lines = [measure_table_row(images, arguments.size, arguments.stages) for images in arguments.images]
    print(
        format_markdown_table(
            ["training images", "their MB", *(f"{stage}: own + mapped" for stage in arguments.stages)], lines
        )
    )


if __name__ == "__main__":
    main()
