"""Quantus' faithfulness of the maps whose own-network gains the study has: three references, 64 images.

Run: python -m studies.own_network.faithfulness --store DIR, with the references of quick 7, writes faithfulness.csv.
Region perturbation is AOPC (Samek et al. 2017) with 8 x 8 regions, of which 16 are removed.
"""

import csv
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roarbench.analysis.retraining_free_metrics import METRICS
from roarbench.execution.quantus import QuantusInput, score_maps
from studies.own_network.lab import Lab
from studies.own_network.make import ROWS
from studies.page import program

FILE, IMAGES, STEP = Path(__file__).with_name("faithfulness.csv"), 64, 512
ESTIMATE = "faithfulness-estimate"  # Alvarez-Melis and Jaakkola 2018


def faithfulness_estimate(explained: QuantusInput) -> float:
    """Return the correlation of importance with the loss of probability, over steps of 512 scalars."""
    quantus: Any = import_module("quantus")  # takes seconds, and mypy does not find its names
    metric = quantus.FaithfulnessEstimate(
        features_in_step=STEP, abs=False, normalise=False, perturb_baseline=0.0, disable_warnings=True
    )
    model, images, targets, maps = explained
    found = metric(model, images, targets, maps, channel_first=True, softmax=True, batch_size=len(images))
    return float(np.nanmean(found))


def main() -> None:
    """Score the maps of each reference, and write the mean over images."""
    made = program(__doc__)
    made.add_argument("--store", type=Path, required=True, help="a folder with the references of quick 7")
    torch.set_num_threads(1)
    store = made.parse_args().store
    lab = Lab(store, store)
    group = lab.group(lab.references()[:3], 0, 200).first(IMAGES)
    maps, lines = group.maps(ROWS), []
    for row in ROWS:
        for number, model in enumerate(group.models):
            images = group.images.contiguous().numpy()
            explained = QuantusInput(model, images, group.targets.numpy(), maps[row][number].detach().numpy())
            scores = {metric.id: float(np.nanmean(score_maps(metric.id, explained))) for metric in METRICS}
            scores[ESTIMATE] = faithfulness_estimate(explained)
            lines += [(name, number, row, f"{value:.5f}") for name, value in scores.items()]
        print(row, flush=True)
    with FILE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([("metric", "network", "row", "score"), *lines])


if __name__ == "__main__":
    main()
