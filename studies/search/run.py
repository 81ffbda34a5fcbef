"""Search the published networks of a benchmark's data set, and store which predictions the found masks leave unchanged.

`python -m studies.search.run NAME --images 200` writes `NAME.npz` into this folder: `kept`, packed bits (lengths, maps,
networks, levels, images), and the record of the run. With `--data FOLDER`, the images come from a local folder. With
`--order lerf`, searches are for LeRF order, and the file is `NAME-lerf.npz`.
"""

import json
import platform
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.common.enums import OWN_NETWORK_LEVELS, Order, Split
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import Normalisation, normalise
from roarbench.compute.ranking import count_removed, draw_tie_order, rank
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import MapTask, compute_maps_of_tasks
from roarbench.estimators.estimator import Batch, make_image_ids
from roarbench.plan.planned_runs import make_reference_spec
from roarbench.plan.suite import SuiteSpec
from roarbench.plan.suites import find_builtin_suite
from roarbench.store.published_networks import find_network_file, read_network_file
from studies.page import make_parser

LENGTHS = (2, 8, 32, 128, 512, 2048)
NETWORKS = Path(__file__).parents[2] / "results" / "networks"
FOLDER = Path(__file__).parent
_AT_ONCE = {True: 512, False: 64}  # rows of a table, or images, that are searched together


def load_networks(suite: SuiteSpec, fingerprint: str) -> list[nn.Module]:
    """Load the published explained networks of a suite, in eval mode."""
    networks = []
    for number in range(suite.references):
        path = find_network_file([NETWORKS], make_reference_spec(suite, fingerprint, number))
        assert path, "the networks of these images are not published"
        network = build_network(**suite.find_network()._asdict(), generator=torch.Generator().manual_seed(0))
        network.load_state_dict({k: torch.from_numpy(v) for k, v in read_network_file(path).weights.items()})
        networks.append(network.eval())
    return networks


def predict_classes(network: nn.Module, images: Tensor) -> Tensor:
    """Return the predicted classes of normalised images."""
    with torch.inference_mode():
        return torch.cat([network(part).argmax(1) for part in torch.split(images, 64)])


class AgreedImages(NamedTuple):
    """The first test images of a benchmark suite of which its published networks predict the same class."""

    suite: SuiteSpec
    data: str  # fingerprint of the images
    networks: list[nn.Module]
    batch: Batch  # the agreed images
    black: Tensor  # a black pixel after normalisation
    images: int  # number of images of which those of `batch` are a part
    rows: NDArray[np.int64]  # their positions


def load_agreed_images(name: str, images: int, data: Path | None, decoded: Path) -> AgreedImages:
    """Load the networks and the agreed images among the first `images` test images of `benchmark-NAME`."""
    suite = find_builtin_suite(f"benchmark-{name}")
    dataset = decode_dataset(suite.dataset_record, decoded, data)
    networks, norm = load_networks(suite, dataset.fingerprint), Normalisation.of(dataset)
    count = min(images, len(dataset.test.labels))
    normalised = normalise(torch.from_numpy(np.array(dataset.test.pixels[:count])).float(), norm).contiguous()
    classes = torch.stack([predict_classes(network, normalised) for network in networks])
    agreed, ids = (classes == classes[0]).all(0), make_image_ids(Split.TEST, 0, count)
    batch = Batch(normalised[agreed], classes[0, agreed], ids[agreed])
    return AgreedImages(suite, dataset.fingerprint, networks, batch, norm.black, count, np.flatnonzero(agreed.numpy()))


def search_networks(
    networks: list[nn.Module], batch: Batch, black: Tensor, lengths: list[int], order: Order = Order.MORF
) -> list[list[Tensor]]:
    """Return the maps of each length and network, found by one search of the longest length."""
    rows = [find_estimator(f"search(passes={length},order={order})") for length in lengths]
    at_once = _AT_ONCE[batch.images.shape[2] == 1]
    maps: list[list[Tensor]] = [[] for _ in rows]
    for network in networks:
        parts = [slice(start, start + at_once) for start in range(0, len(batch.ids), at_once)]
        made = [compute_maps_of_tasks([MapTask(rows, network, batch.select_rows(part), black)])[0] for part in parts]
        for row, found in zip(rows, maps, strict=True):
            found.append(torch.cat([part[row.id] for part in made]))
    return maps


def score(networks: list[nn.Module], batch: Batch, maps: list[Tensor], order: Order = Order.MORF) -> NDArray[np.bool_]:
    """Return which predictions stay the same, bool (maps, networks, levels, images)."""
    kept = np.zeros((len(maps), len(networks), len(OWN_NETWORK_LEVELS), len(batch.ids)), np.bool_)
    for i, importance in enumerate(maps):
        flat = importance.flatten(1).numpy()
        ranks = rank(flat, draw_tie_order(batch.ids.numpy(), flat.shape[1]))
        first_removed = torch.from_numpy((ranks if order is Order.MORF else ranks[:, ::-1]).copy())
        for number, t in enumerate(OWN_NETWORK_LEVELS):
            removed = first_removed[:, : count_removed(t, flat.shape[1])]
            degraded = batch.images.flatten(1).scatter(1, removed, 0.0).view(batch.images.shape)
            for j, network in enumerate(networks):
                kept[i, j, number] = (predict_classes(network, degraded) == batch.targets).numpy()
    return kept


def main() -> None:
    """Search, score and store."""
    parser = make_parser(__doc__)
    parser.add_argument("name", help="data set of a benchmark suite, such as imagenette64")
    parser.add_argument("--images", type=int, default=200, help="number of test images, the first ones")
    parser.add_argument("--longest", type=int, default=LENGTHS[-1], help="largest number of passes")
    parser.add_argument("--order", type=Order, default=Order.MORF, help="morf or lerf")
    parser.add_argument("--suffix", default="", help="end of the file's name, such as -short")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--decoded", type=Path, default=Path("decoded"), help="folder of decoded images")
    options = parser.parse_args()
    torch.set_num_threads(1)
    agreed = load_agreed_images(options.name, options.images, options.data, options.decoded)
    networks, batch, started = agreed.networks, agreed.batch, time.process_time()
    lengths = [length for length in LENGTHS if length <= options.longest]
    found = search_networks(networks, batch, agreed.black, lengths, options.order)
    kept = np.stack([score(networks, batch, maps, options.order) for maps in found])
    record = {
        "suite": agreed.suite.versioned,
        "data": agreed.data,
        "images": agreed.images,
        "agreed": len(batch.ids),
        "lengths": lengths,
        "levels": OWN_NETWORK_LEVELS,
        "search": find_estimator(f"search(order={options.order})").fingerprint,
        "seconds": round(time.process_time() - started, 1),
        "torch": torch.__version__,
        "processor": platform.processor() or platform.machine(),
    }
    lerf = "-lerf" if options.order is Order.LERF else ""
    path = FOLDER / f"{options.name}{lerf}{options.suffix}.npz"
    bits, shape = np.packbits(kept), np.array(kept.shape)
    np.savez_compressed(path, kept=bits, shape=shape, rows=agreed.rows, record=json.dumps(record))
    print(record)  # noqa: T201


if __name__ == "__main__":
    main()
