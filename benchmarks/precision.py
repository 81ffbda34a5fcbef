"""How many features another precision of the network moves to another level bin, for each of the 18 estimators.

Run: OMP_NUM_THREADS=1 python benchmarks/precision.py --model resnet8 --images 16

A network is trained for a short while on bundled photographs. Maps in bfloat16 (autocast) and in TF32 are held against
float32, on a GPU by its own arithmetic, on a processor with TF32 as cuDNN does it: what enters a convolution or a
matrix product is rounded to 10 bits, sums are float32. `one by one` is float32 with batches of one image: what rounding
in another order moves, and so the least that any other machine moves. `fold_batchnorm` and `stem` are float32 by the
network with its batch norms folded, and with its stem passed once for each path as well.
"""

import argparse
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from roarbench.compute.bit_planes import Layout, encode, find_removed_bits
from roarbench.compute.degrade import DegradedImages
from roarbench.compute.inputs import Normalisation, normalise
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import choose_scoring_batch_size, predict
from roarbench.compute.ranking import arrange_features, draw_tie_order, make_sort_keys
from roarbench.compute.train import fit
from roarbench.datasets.catalogue import find_dataset
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.devices import choose_device
from roarbench.enums import PAPER_LEVELS, Order, Unit
from roarbench.estimators import engine
from roarbench.estimators.catalogue import PAPER, find_estimator
from roarbench.estimators.engine import compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.estimators.network_surgery import fold_batchnorm, split_stem
from roarbench.plan.recipes import find_recipe

_RECIPE = "imagenette64@1"  # with fewer epochs, see `--epochs`


def moved(exact: NDArray[np.uint8], other: NDArray[np.uint8], layout: Layout) -> list[float]:
    """Compare two rankings of the same images, bit-planes uint8 (n, planes, width).

    Returns:
        The share of features in another level bin, and for each level, of the removed features those that would not be
        removed.
    """
    differs = np.bitwise_or.reduce(exact ^ other, axis=1)
    shares = [np.unpackbits(differs).sum() / (len(exact) * layout.features)]
    for t in layout.levels:
        one, two = (np.unpackbits(find_removed_bits(planes, t, Order.MORF, layout)) for planes in (exact, other))
        shares.append((one & ~two & 1).sum() / one.sum())
    return [float(share) for share in shares]


def rounded(x: Tensor) -> Tensor:
    """Round float32 to the nearest of TF32, 10 bits of mantissa; halves to even."""
    bits = x.contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32).view_as(x)


class EmulatedTF32(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds what enters convolutions and matrix products, forward and backward."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket._qualified_op_name
        if name in ("aten::convolution", "aten::convolution_backward", "aten::mm", "aten::addmm"):
            args = tuple(rounded(a) if isinstance(a, Tensor) and a.dtype is torch.float32 else a for a in args)
        return func(*args, **(kwargs or {}))


@contextmanager
def real_tf32() -> Iterator[None]:
    """Let a GPU compute in TF32, which the attribution pass itself would switch off."""
    kept = engine.use_exact_float32
    engine.use_exact_float32 = lambda: torch.backends.cudnn.flags(enabled=True, deterministic=True, allow_tf32=True)
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        engine.use_exact_float32, torch.backends.cuda.matmul.allow_tf32 = kept, False


def prepared(name: str, train: int, epochs: float, count: int) -> tuple[nn.Module, Batch, Tensor]:
    """Return a network after a short training, and test images with its predictions."""
    record = find_dataset("imagenette64")
    with TemporaryDirectory() as folder:
        data = decode_dataset(record, Path(folder), None, max(train, count))
        pixels, labels = (torch.tensor(np.array(array)) for array in (data.train.pixels, data.train.labels))
        tested = torch.tensor(np.array(data.test.pixels[:count]))
    norm, fill = Normalisation(data.mean, data.std), torch.tensor(data.mean)
    model = build_network(name, record.classes, record.channels, record.size, torch.Generator().manual_seed(0)).to(
        choose_device()
    )
    recipe = replace(find_recipe(_RECIPE), epochs=epochs, warmup=epochs / 5)
    fit(model, DegradedImages(pixels, None, fill, Unit.SCALAR), labels, norm, recipe, 0)
    untouched = DegradedImages(tested, None, fill, Unit.SCALAR)
    targets = predict(model, untouched, norm, choose_scoring_batch_size(record.size)).argmax(1)
    accuracy = (targets == torch.tensor(np.array(data.test.labels[:count]))).float().mean()
    print(f"{name}: {epochs:g} epochs of {len(pixels)} images, right on {accuracy:.0%} of {count} test images")
    return model.eval(), Batch(normalise(tested, norm), targets, torch.arange(count)).to(choose_device()), norm.black


def rankings(model: nn.Module, batch: Batch, black: Tensor, size: int, layout: Layout) -> dict[str, NDArray[np.uint8]]:
    """Return the bit-planes of the 18, explained `size` images at a time."""
    n, wanted = len(batch.ids), [find_estimator(name) for name in PAPER]
    parts = [compute_importance_maps(wanted, model, batch.part(slice(i, i + size)), black) for i in range(0, n, size)]
    ties = draw_tie_order(batch.ids.numpy(), layout.features)
    found = {}
    for id_ in PAPER:
        maps = torch.cat([part[id_] for part in parts]).float().cpu().numpy()
        found[id_] = encode(make_sort_keys(arrange_features(maps, layout.shape, layout.unit), ties), layout)
    return found


def main() -> None:
    """Print a row for each estimator, in percent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="resnet8")
    parser.add_argument("--images", type=int, default=16)
    parser.add_argument("--train", type=int, default=2000)
    parser.add_argument("--epochs", type=float, default=3)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    model, batch, black = prepared(arguments.model, arguments.train, arguments.epochs, arguments.images)
    _, *(channels, height, width) = batch.images.shape
    layout = Layout((channels, height, width), Unit.SCALAR, PAPER_LEVELS)
    exact, kind = rankings(model, batch, black, arguments.images, layout), choose_device().type
    tf32 = real_tf32() if kind == "cuda" else EmulatedTF32()  # type: ignore[no-untyped-call]
    cases: dict[str, tuple[AbstractContextManager[Any], nn.Module, int]] = {
        "bf16": (torch.autocast(kind, torch.bfloat16), model, arguments.images),
        "tf32": (tf32, model, arguments.images),
        "one by one": (nullcontext(), model, 1),
        "folded": (nullcontext(), fold_batchnorm(model), arguments.images),
        "stem": (nullcontext(), split_stem(fold_batchnorm(model)), arguments.images),
    }
    found: dict[str, dict[str, list[float]]] = {}
    for name, (way, network, size) in cases.items():
        with way:
            planes = rankings(network, batch, black, size, layout)
        found[name] = {id_: moved(exact[id_], planes[id_], layout) for id_ in PAPER}
    levels = [f"{t:g}" for t in PAPER_LEVELS]
    print("| estimator | " + " | ".join(f"{name}: bins | " + " | ".join(levels) for name in found) + " |")
    print("|---" * (1 + len(found) * (1 + len(levels))) + "|")
    for id_ in PAPER:
        shares = [share for way in found.values() for share in way[id_]]
        print(f"| `{id_}` | " + " | ".join(f"{100 * share:.2f}" for share in shares) + " |")


if __name__ == "__main__":
    main()
