"""How well a network learns a data set by a recipe, and in how many core-seconds: one training on one thread.

python benchmarks/learning.py vit-quick "modern@1(epochs=6)"
"""

import argparse
import time
from pathlib import Path

import torch

from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decoded import Images
from roarbench.datasets.loading import decode_dataset
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.scoring import predict, scored_at_once
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.recipes import find_recipe
from roarbench.terms import Unit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("recipe")
    parser.add_argument("--dataset", default="imagenette64")
    parser.add_argument("--store", type=Path, default=Path("store"))
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    data = decode_dataset(find_dataset(asked.dataset), asked.store / "data")
    record, norm, fill = data.record, Normalisation(data.mean, data.std), torch.tensor(data.mean)

    def whole(images: Images) -> DegradedImages:
        return DegradedImages(torch.from_numpy(images.pixels), None, fill, Unit.SCALAR)

    generator = torch.Generator().manual_seed(asked.seed)
    model = build(asked.network, record.classes, record.channels, record.size, generator)
    start = time.process_time()
    labels = torch.from_numpy(data.train.labels)
    loss = fit(model, whole(data.train), labels, norm, find_recipe(asked.recipe), asked.seed)
    seconds = time.process_time() - start
    logits = predict(model, whole(data.test), norm, scored_at_once(record.size))
    accuracy = (logits.argmax(1) == torch.from_numpy(data.test.labels)).double().mean().item()
    print(f"{asked.network} by {asked.recipe}: {accuracy:.1%} correct, loss {loss:.3f}, {seconds:.0f} core-seconds")


if __name__ == "__main__":
    main()
