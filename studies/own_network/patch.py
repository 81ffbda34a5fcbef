"""Where do maps put the patch that a network reads? The reason for what own-network gain says of VarGrad.

Run: python -m studies.own_network.patch --store DIR, with the references of planted-corners, writes patch.json.
"""

import json
from pathlib import Path

import torch
from torch import Tensor

from roarbench.compute.inputs import Normalisation, normalise
from roarbench.datasets import planted_corners
from roarbench.datasets.decoded import open_decoded
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import EXPLAINED, compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.store.networks import StoredNetwork
from studies.own_network.lab import TEST_IDS, untrained
from studies.page import program

FILE = Path(__file__).with_name("patch.json")
ROWS, IMAGES, TOP = ("grad-sq", "sgsq-grad", "var-grad", "gb-sq", "input-x-grad", "sg-grad"), 192, 0.05


def patches(shape: torch.Size, corner: int) -> Tensor:
    """Mark a network's own patch with 1 and the other three with 2, int (c h w)."""
    found = torch.zeros(shape, dtype=torch.int)
    for number in range(planted_corners.CORNERS):
        rows, columns = planted_corners.locate_patch(number, shape[-1])
        found[:, rows, columns] = 1 if number == corner else 2
    return found.flatten()


def measure(store: Path) -> dict[str, dict[str, float]]:
    """Return shares by row, each the mean over four networks."""
    (decoded,) = (path for path in (store / "data").iterdir() if path.is_dir())
    data, parts = open_decoded(decoded), list[dict[str, dict[str, float]]]()
    images = normalise(torch.from_numpy(data.test.pixels[:IMAGES]), Normalisation.of(data))
    for path in sorted((store / "references").glob("planted-corners-*")):
        seed = json.loads((path / "manifest.json").read_text())["reference"]["seed"]
        model = untrained(0)
        model.load_state_dict(StoredNetwork(path.parent, "", path.name).weights())
        with torch.no_grad():
            batch = Batch(images, model(images).argmax(1), TEST_IDS + torch.arange(IMAGES))
        where = patches(images.shape[1:], planted_corners.find_corner_of_network(seed))
        rows = [find_estimator(name) for name in ROWS]
        starts = range(0, IMAGES, EXPLAINED)
        made = [
            compute_importance_maps(rows, model, batch.part(slice(at, at + EXPLAINED)), torch.zeros(3, 1, 1))
            for at in starts
        ]
        parts.append(shares({name: torch.cat([one[name] for one in made]).flatten(1) for name in ROWS}, where))
    return {row: {what: round(sum(one[row][what] for one in parts) / len(parts), 3) for what in parts[0][row]}
        for row in parts[0]}  # fmt: skip


def shares(maps: dict[str, Tensor], where: Tensor) -> dict[str, dict[str, float]]:
    """Return how much of each region lies in the first places of a map, and how much of its sum."""
    found = {}
    for name, one in maps.items():
        first = torch.zeros_like(one).scatter_(1, one.topk(int(TOP * one.shape[1]), 1).indices, 1.0)
        found[name] = {f"first, {region}": float(first[:, where == number].mean()) for number, region in
            enumerate(("elsewhere", "own patch", "other patches"))}  # fmt: skip
    steady = maps["sg-grad"] ** 2 / maps["sgsq-grad"].clamp(min=1e-12)
    level = maps["var-grad"] / maps["var-grad"].mean(1, keepdim=True)
    square = maps["grad-sq"] / maps["grad-sq"].mean(1, keepdim=True)
    for number, region in enumerate(("elsewhere", "own patch", "other patches")):
        found["var-grad"][f"squared mean / mean square, {region}"] = float(steady[:, where == number].mean())
        found["var-grad"][f"times its mean, {region}"] = float(level[:, where == number].mean())
        found["grad-sq"][f"times its mean, {region}"] = float(square[:, where == number].mean())
    return found


def main() -> None:
    """Measure, and write what was found."""
    made = program(__doc__)
    made.add_argument("--store", type=Path, required=True, help="a folder with the references of planted-corners")
    torch.set_num_threads(1)
    found = measure(made.parse_args().store)
    FILE.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(FILE.read_text("utf-8"))


if __name__ == "__main__":
    main()
