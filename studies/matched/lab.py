"""The answers of studies.matched.run: networks trained on development images alone, none of the board's.

Run: python -m studies.matched.lab --decoded DIR adds to results.npz what it lacks, with --corpus to that of
studies/corpus; DIR is the folder of the decoded photographs in a store.

Trains a reference and a common network on 7,000 of the bundled training photographs, tunes the network on each row, and
asks it about the other 2,469 with every candidate's masks.
"""

import copy
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from roarbench.datasets.decoded import open_decoded
from roarbench.estimators.base import Batch
from roarbench.estimators.baselines import blurred
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import importance_maps
from roarbench.estimators.noise import noisy_copies
from roarbench.estimators.pairing import other_images
from roarbench.kernels.bit_planes import Layout, encode, removed_bits
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.exchange import ExchangedImages
from roarbench.kernels.fill import change_numbers
from roarbench.kernels.inputs import Normalisation, normalise
from roarbench.kernels.matching import matched, strata
from roarbench.kernels.ranking import features, sort_keys, tie_order
from roarbench.kernels.scoring import predict
from roarbench.kernels.streaming import Cut
from roarbench.kernels.train import fit
from roarbench.models.build import build
from roarbench.plan.common import tuning_of
from roarbench.plan.recipes import find_recipe
from roarbench.terms import PAPER_LEVELS, Order, Unit
from studies.corpus.corpus import SHUFFLED, TEMPLATES, WITHOUT, shuffled
from studies.corpus.fitted import Fitted, fitted_rows
from studies.matched.run import CORPUS, LEVELS, RESULTS, Answers, stored
from studies.page import program
from submissions import class_evidence, half_images

SHAPE, TRAINED = (3, 64, 64), 7000
LAYOUT = Layout(SHAPE, Unit.SCALAR, PAPER_LEVELS)
TEST_IDS = 2**32
RECIPE = find_recipe("quick@2")


class Lab:
    """Images, a reference and a common network of one seed."""

    def __init__(self, decoded: Path, seed: int) -> None:
        data = open_decoded(decoded)
        order = np.random.default_rng(0).permutation(len(data.train.labels))
        pixels, labels = data.train.pixels, data.train.labels
        self.seed = seed
        self.train, self.test = (torch.from_numpy(pixels[rows]) for rows in (order[:TRAINED], order[TRAINED:]))
        self.train_labels, self.labels = torch.from_numpy(labels[order[:TRAINED]]), labels[order[TRAINED:]]
        self.norm, self.fill = Normalisation(data.mean, data.std), torch.tensor(data.mean)
        self.batch = Batch(normalise(self.test, self.norm), torch.zeros(0), TEST_IDS + torch.arange(len(self.test)))
        self.ties = tie_order(self.batch.ids.numpy(), LAYOUT.features)
        self.turns = np.argsort(self.ties, axis=1)  # the place of each feature among equals in other images' masks
        self.others = other_images(len(self.test), TEST_IDS, seed)

    def reference(self) -> nn.Module:
        """Train the network that is explained."""
        model = build("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(1000 + 2 * self.seed))
        untouched = DegradedImages(self.train, None, self.fill, Unit.SCALAR)
        fit(model, untouched, self.train_labels, self.norm, RECIPE, 1000 + 2 * self.seed)
        return model.eval()

    def common(self) -> nn.Module:
        """Train a network on the exchanged masks of the three controls."""
        model = build("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(self.seed))
        ids, cuts = torch.arange(TRAINED), []
        batch = Batch(normalise(self.train, self.norm), torch.zeros(0), ids)
        ties = tie_order(ids.numpy(), LAYOUT.features)
        for made in (control("random", batch), control("sobel", batch), blurred(control("random", batch))):
            planes = encode(sort_keys(features(made.numpy(), SHAPE, Unit.SCALAR), ties), LAYOUT)
            cuts += [Cut(planes, LAYOUT, t, Order.MORF) for t in (0.0, *PAPER_LEVELS)]
        inputs = ExchangedImages(self.train, cuts, self.fill, Unit.SCALAR, torch.Generator().manual_seed(4))
        fit(model, inputs, self.train_labels, self.norm, RECIPE, self.seed)
        return model

    def tuned(self, common: nn.Module, planes: NDArray[np.uint8]) -> nn.Module:
        """Tune it for an epoch on a row's masks of test images, each on a training image drawn at random."""
        cuts = [Cut(planes, LAYOUT, t, Order.MORF) for t in (0.0, *PAPER_LEVELS)]
        generator = torch.Generator().manual_seed(5 + self.seed)
        inputs = ExchangedImages(self.train, cuts, self.fill, Unit.SCALAR, generator, lent=True)
        model = copy.deepcopy(common)
        fit(model, inputs, self.train_labels, self.norm, tuning_of(RECIPE), 1_000_000 + self.seed)
        return model

    def correct(self, model: nn.Module, removed: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return whether each test image is answered correctly without these features."""
        images = DegradedImages(self.test, torch.from_numpy(removed), self.fill, Unit.SCALAR)
        right: NDArray[np.bool_] = predict(model, images, self.norm, 128).argmax(1).numpy() == self.labels
        return right


def gradient(model: nn.Module, images: Tensor, targets: Tensor) -> Tensor:
    """Return d logit / d x."""
    parts = []
    for x, y in zip(images.split(256), targets.split(256), strict=True):
        x = x.detach().requires_grad_()
        model(x).gather(1, y[:, None]).sum().backward()
        parts.append(x.grad)
    return torch.cat(parts)


def asking(lab: Lab, model: nn.Module) -> dict[str, Callable[[], Tensor]]:
    """Return maps that ask a network, by row."""
    x, ids = lab.batch.images, lab.batch.ids
    with torch.no_grad():
        targets = torch.cat([model(part).argmax(1) for part in x.split(256)])

    def grad(at: Tensor) -> Tensor:
        return gradient(model, at, targets)

    return {
        "ig-mean": lambda: x * sum(grad(x * (i + 1) / 16) for i in range(16)),
        "input-x-grad": lambda: x * grad(x),
        "abs-ixg": lambda: (x * grad(x)).abs(),
        "grad": lambda: grad(x),
        "sgsq": lambda: sum(grad(noisy_copies(x, ids, j, 0)) ** 2 for j in range(8)),
        **{
            name: lambda estimate=made.estimate: torch.cat(
                [estimate(model, a, b, None) for a, b in zip(x.split(256), targets.split(256), strict=True)]
            )
            for name, made in (("half-images", half_images), ("class-evidence", class_evidence))
        },
        "sg-ixg-abs": lambda: (x * sum(grad(noisy_copies(x, ids, j, 0)) for j in range(8))).abs(),
    }


def control(name: str, batch: Batch) -> Tensor:
    """Return the map of a control."""
    return importance_maps([find_estimator(name)], None, batch, torch.zeros(3, 1, 1))[name]


def not_asking(lab: Lab) -> dict[str, Callable[[], Tensor]]:
    """Return maps that ask none, by row."""
    batch, x = lab.batch, lab.batch.images
    away = x.abs()
    laplace = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])[None, None]

    def filtered(made: Tensor) -> Tensor:
        return F.conv2d(F.pad(made, (1, 1, 1, 1), mode="reflect").flatten(0, 1)[:, None], laplace).view(made.shape)

    grey = x.mean(1, keepdim=True).expand_as(x)
    return {
        "random": lambda: control("random", batch),
        "random-blurred": lambda: blurred(control("random", batch)),
        "deviation": lambda: away,
        "deviation-blurred": lambda: blurred(away),
        "deviation-sq-blurred": lambda: blurred(x**2, 0.02),
        "blur-deviation": lambda: blurred(x, 0.03).abs(),
        "grey-deviation": lambda: grey.abs(),
        "contrast": lambda: control("contrast", batch),
        "sobel": lambda: control("sobel", batch),
        "laplace": lambda: filtered(x).abs(),
        "bright": lambda: x,
        "dark": lambda: -x,
        "deviation-x-contrast": lambda: away * control("contrast", batch),
        "deviation-x-sobel": lambda: away * control("sobel", batch),
        "sharp-product": lambda: x * (x - blurred(x, 0.03)),
        "centre-product": lambda: (
            away * torch.exp(-(torch.linspace(-2, 2, 64)[:, None] ** 2 + torch.linspace(-2, 2, 64) ** 2) / 2)
        ),
        "image-deviation": lambda: (x - x.mean((2, 3), keepdim=True)).abs(),
        "saturation": lambda: (x.amax(1, keepdim=True) - x.amin(1, keepdim=True)).expand_as(x),
    }


def corpus_rows(lab: Lab, reference: nn.Module) -> dict[str, Callable[[], Tensor]]:
    """Return the maps of the corpus, by row."""
    x, model = lab.batch.images, shuffled(reference)
    targets = torch.cat([reference(part).argmax(1) for part in x.split(256)])
    asking = {
        name: lambda make=make: torch.cat(
            [make(model, a, b) for a, b in zip(x.split(256), targets.split(256), strict=True)]
        )
        for name, make in SHUFFLED.items()
    }
    seen = normalise(lab.train, lab.norm)
    means = torch.stack([seen[lab.train_labels == number].mean(0) for number in range(10)]) - seen.mean(0)
    told = {name: lambda make=make: make(x, means[targets]) for name, make in TEMPLATES.items()}
    made = {name: lambda make=make: make(x) for name, make in WITHOUT.items()}
    return made | told | asking | fitted_rows(Fitted(seen, lab.train_labels, x, targets))


def candidates(lab: Lab) -> dict[str, NDArray[np.uint16]]:
    """Return the strata of each candidate, uint16 (n, d)."""
    raw = lab.test.float()
    away = (raw - lab.fill[:, None, None]).abs()

    def number(made: Tensor) -> NDArray[np.uint8]:
        return made.round().clamp(0, 255).to(torch.uint8).flatten(1).numpy()

    first, second = number(away), number(blurred(away))
    third = number(control("contrast", lab.batch._replace(images=raw)))
    found = {f"dev-{bins}": strata([first], bins) for bins in (8, 16, 64)}
    found |= {f"dev-blur-{bins}x{bins}": strata([first, second], bins) for bins in (4, 8)}
    found |= {f"dev-blur-contrast-{bins}^3": strata([first, second, third], bins) for bins in (4,)}
    return found


def scored(lab: Lab, common: nn.Module, importance: Tensor) -> dict[str, NDArray[np.bool_]]:
    """Return the answers of a row by level and mask."""
    d, made = LAYOUT.features, {}
    keys = sort_keys(features(importance.detach().numpy(), SHAPE, Unit.SCALAR), lab.ties)
    places = np.empty(keys.shape, np.int32)
    order = np.argsort(keys, axis=1)[:, ::-1]
    np.put_along_axis(places, order, np.arange(d, dtype=np.int32)[None], axis=1)
    planes = encode(keys, LAYOUT)
    bounds = np.array(LAYOUT.boundaries)
    bins = np.searchsorted(bounds, places, side="right").astype(np.int16)
    fine = (places.astype(np.int64) * 1000 // d).astype(np.int16)  # a thousand bins stand for the whole ranking
    model = lab.tuned(common, planes)

    def asked(given: NDArray[np.int16], found: NDArray[np.uint16]) -> NDArray[np.bool_]:
        return lab.correct(model, np.packbits(matched(own, given[lab.others], found, Order.MORF, lab.turns), axis=1))

    energy = (lab.test.float() - lab.fill[:, None, None]).square().flatten(1).numpy()
    for t in LEVELS:
        packed = removed_bits(planes, t, Order.MORF, LAYOUT)
        own = np.unpackbits(packed, axis=1, count=d).astype(bool)
        made[f"{t} own"] = lab.correct(model, packed)
        made[f"{t} other"] = lab.correct(model, packed[lab.others])
        for name, found in lab.strata.items():
            made[f"{t} {name}"] = asked(fine, found)
        made[f"{t} dev-blur-8x8 bits"] = asked(bins, lab.chosen)
        if lab.strata:
            given, equal = order[lab.others], np.zeros_like(own)
            spent = np.take_along_axis(energy, given, 1).cumsum(1)
            np.put_along_axis(equal, given, spent <= (energy * own).sum(1, keepdims=True), axis=1)
            made[f"{t} energy"] = lab.correct(model, np.packbits(equal, axis=1))
    return made


def keep(found: dict[str, Answers], path: Path) -> None:
    """Write all answers, packed."""
    packed = {f"{row}/{mask}": np.packbits(bits) for row, made in found.items() for mask, bits in made.items()}
    np.savez_compressed(path, **packed)  # type: ignore[arg-type]


def main() -> None:
    """Train and score what is asked and not there."""
    parser = program(__doc__)
    parser.add_argument("--decoded", type=Path, required=True, help="folder of the decoded photographs in a store")
    parser.add_argument("--corpus", action="store_true", help="the maps of studies/corpus, by the chosen strata alone")
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = CORPUS if options.corpus else RESULTS
    lab, found = Lab(options.decoded, 0), stored(path) if path.exists() else {}
    lab.chosen = strata(change_numbers(lab.test, lab.fill[:, None, None], Unit.SCALAR))
    lab.strata = {} if options.corpus else candidates(lab)
    reference, common = lab.reference(), lab.common()
    rows = not_asking(lab) | asking(lab, reference)
    if options.corpus:
        rows |= corpus_rows(lab, reference)
    for name, make in rows.items():
        if name not in found:
            start = time.process_time()
            found[name] = scored(lab, common, make())
            keep(found, path)
            print(name, round(time.process_time() - start, 1), flush=True)


if __name__ == "__main__":
    main()
