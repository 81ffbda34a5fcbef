"""The answers of studies.matched.run: networks trained on development images alone, none of the board's.

Run: python -m studies.matched.lab --decoded DIR adds to results.npz what it lacks, with --corpus to that of
studies/corpus; DIR is the folder of the decoded photographs in a store.

Trains a reference and a common network on 7,000 of the bundled training photographs, tunes the network on each row, and
asks it about the other 2,469 with every candidate's masks.
"""

import copy
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.compute.bit_planes import Layout, encode, find_removed_bits, read_bin_codes
from roarbench.compute.degrade import DegradedImages, compute_removal_magnitude
from roarbench.compute.exchanged_masks import ExchangedImages, StreamedMask
from roarbench.compute.inputs import Inputs, Normalisation, normalise
from roarbench.compute.matched_other_image_masks import assign_strata, make_other_image_masks
from roarbench.compute.networks import build_network
from roarbench.compute.prediction import predict
from roarbench.compute.ranking import arrange_features, draw_tie_order, make_sort_keys
from roarbench.compute.train import fit
from roarbench.datasets.decoded import open_decoded
from roarbench.enums import PAPER_LEVELS, Order, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import compute_importance_maps
from roarbench.estimators.estimator import NOISE, Batch, blur
from roarbench.estimators.noise_and_random_draws import make_noisy_copies
from roarbench.estimators.randomness import pair_images
from roarbench.plan.planned_runs import make_tuning_recipe
from roarbench.plan.recipes import find_recipe
from studies.corpus import corpus
from studies.corpus.fitted import Fitted, fitted_rows
from studies.matched.run import CORPUS, LEVELS, RESULTS, Answers, stored
from studies.page import program
from submissions import class_evidence, half_images

SHAPE, TRAINED = (3, 64, 64), 7000
LAYOUT = Layout(SHAPE, Unit.SCALAR, PAPER_LEVELS)
TEST_IDS = 2**32
RECIPE = find_recipe("quick@2")
BITS = "dev-blur-8x8 bits"  # the strata that were chosen, with the bins of a stored ranking
Maps = dict[str, Callable[[], Tensor]]  # what makes them, by row
Strata = NDArray[np.unsignedinteger[Any]]  # of each feature, (images, features)


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
        self._explain(self.test, TEST_IDS)
        self.turns = np.argsort(self.ties, axis=1)  # the place of each feature among equals in other images' masks
        self.numbers = compute_removal_magnitude(self.test, self.fill[:, None, None], Unit.SCALAR)
        self.strata = assign_strata(self.numbers)

    def _explain(self, images: Tensor, first: int) -> None:
        ids = first + torch.arange(len(images))
        self.batch = Batch(normalise(images, self.norm), torch.zeros(0), ids)
        self.ties = draw_tie_order(ids.numpy(), LAYOUT.features)
        self.others = pair_images(len(images), first, self.seed)

    def on_training_images(self) -> "Lab":
        """Return a lab that explains the images which networks are trained on."""
        training = copy.copy(self)
        training._explain(self.train, 0)
        return training

    def network(self, inputs: Inputs, seed: int) -> nn.Module:
        """Train a network."""
        model = build_network("resnet-quick", 10, 3, 64, torch.Generator().manual_seed(seed))
        fit(model, inputs, self.train_labels, self.norm, RECIPE, seed)
        return model

    def reference(self) -> nn.Module:
        """Train the network that is explained."""
        untouched = DegradedImages(self.train, None, self.fill, Unit.SCALAR)
        return self.network(untouched, 1000 + 2 * self.seed).eval()

    def common(self) -> nn.Module:
        """Train a network on the exchanged masks of the three controls."""
        training = self.on_training_images()
        random, sobel = (control(name, training.batch) for name in ("random", "sobel"))
        cuts = [cut for made in (random, sobel, blur(random)) for cut in cuts_of(training.planes(made))]
        inputs = ExchangedImages(self.train, cuts, self.fill, Unit.SCALAR, torch.Generator().manual_seed(4))
        return self.network(inputs, self.seed)

    def tuned(self, common: nn.Module, planes: NDArray[np.uint8]) -> nn.Module:
        """Tune it for an epoch on a row's masks of test images, each on a training image drawn at random."""
        generator = torch.Generator().manual_seed(5 + self.seed)
        inputs = ExchangedImages(self.train, cuts_of(planes), self.fill, Unit.SCALAR, generator, lent=True)
        model = copy.deepcopy(common)
        fit(model, inputs, self.train_labels, self.norm, make_tuning_recipe(RECIPE), 1_000_000 + self.seed)
        return model

    def keys(self, importance: Tensor) -> NDArray[Any]:
        """Return what orders the features of each map, ascending."""
        return make_sort_keys(arrange_features(importance.detach().numpy(), SHAPE, Unit.SCALAR), self.ties)

    def planes(self, importance: Tensor) -> NDArray[np.uint8]:
        """Return the bit-planes of maps of the images that are explained."""
        return encode(self.keys(importance), LAYOUT)

    def correct(self, model: nn.Module, removed: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return whether each test image is answered correctly without these features."""
        images = DegradedImages(self.test, torch.from_numpy(removed), self.fill, Unit.SCALAR)
        right: NDArray[np.bool_] = predict(model, images, self.norm, 128).argmax(1).numpy() == self.labels
        return right

    def answers(self, model: nn.Module, planes: NDArray[np.uint8], name: str = "matched") -> Answers:
        """Return the answers by level with the own mask, another image's, and a matched one, which has this name."""
        codes, made = read_bin_codes(planes, LAYOUT)[self.others], {}
        for t in LEVELS:
            packed = find_removed_bits(planes, t, Order.MORF, LAYOUT)
            given = make_other_image_masks(unpacked(packed), codes, self.strata, Order.MORF, self.turns)
            made[f"{t} own"] = self.correct(model, packed)
            made[f"{t} other"] = self.correct(model, packed[self.others])
            made[f"{t} {name}"] = self.correct(model, np.packbits(given, axis=1))
        return made


def cuts_of(planes: NDArray[np.uint8]) -> list[StreamedMask]:
    """Return what maps remove at every level."""
    return [StreamedMask(planes, LAYOUT, t, Order.MORF) for t in (0.0, *PAPER_LEVELS)]


def unpacked(removed: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return which features are removed, bool (images, features)."""
    return np.unpackbits(removed, axis=1, count=LAYOUT.features).view(np.bool_)


def in_parts(make: Callable[..., Tensor], *tensors: Tensor) -> Tensor:
    """Return what is made of 256 images at a time."""
    return torch.cat([make(*part) for part in zip(*(each.split(256) for each in tensors), strict=True)])


def answered(model: nn.Module, images: Tensor) -> Tensor:
    """Return the classes that a network answers."""
    with torch.no_grad():
        return in_parts(model, images).argmax(1)


def asking(lab: Lab, model: nn.Module) -> Maps:
    """Return maps that ask a network, by row."""
    x, ids = lab.batch.images, lab.batch.ids
    targets = answered(model, x)

    def grad(at: Tensor) -> Tensor:
        return in_parts(partial(corpus.gradient, model), at, targets)

    def submitted(module: ModuleType) -> Callable[[], Tensor]:
        return lambda: in_parts(lambda a, b: module.estimate(model, a, b, None), x, targets)

    return {
        "ig-mean": lambda: x * sum(grad(x * (i + 1) / 16) for i in range(16)),
        "input-x-grad": lambda: x * grad(x),
        "abs-ixg": lambda: (x * grad(x)).abs(),
        "grad": lambda: grad(x),
        "sgsq": lambda: sum(grad(make_noisy_copies(x, ids, j, 0, NOISE)) ** 2 for j in range(8)),
        "half-images": submitted(half_images),
        "class-evidence": submitted(class_evidence),
        "sg-ixg-abs": lambda: (x * sum(grad(make_noisy_copies(x, ids, j, 0, NOISE)) for j in range(8))).abs(),
    }


def control(name: str, batch: Batch) -> Tensor:
    """Return the map of a control."""
    return compute_importance_maps([find_estimator(name)], None, batch, torch.zeros(3, 1, 1))[name]


def not_asking(lab: Lab) -> Maps:
    """Return maps that ask none, by row."""
    batch, x = lab.batch, lab.batch.images
    away = x.abs()
    laplace = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])
    return {
        "random": lambda: control("random", batch),
        "random-blurred": lambda: blur(control("random", batch)),
        "deviation": lambda: away,
        "deviation-blurred": lambda: blur(away),
        "deviation-sq-blurred": lambda: blur(x**2, 0.02),
        "blur-deviation": lambda: blur(x, 0.03).abs(),
        "grey-deviation": lambda: corpus.grey(x).abs(),
        "contrast": lambda: control("contrast", batch),
        "sobel": lambda: control("sobel", batch),
        "laplace": lambda: corpus.filtered(x, laplace).abs(),
        "bright": lambda: x,
        "dark": lambda: -x,
        "deviation-x-contrast": lambda: away * control("contrast", batch),
        "deviation-x-sobel": lambda: away * control("sobel", batch),
        "sharp-product": lambda: x * (x - blur(x, 0.03)),
        "centre-product": lambda: away * corpus.centre(x),
        "image-deviation": lambda: corpus.WITHOUT["image-deviation"](x),
        "saturation": lambda: corpus.spread(x),
    }


def corpus_rows(lab: Lab, reference: nn.Module) -> Maps:
    """Return the maps of the corpus, by row."""
    x, targets = lab.batch.images, answered(reference, lab.batch.images)
    seen = normalise(lab.train, lab.norm)
    means = torch.stack([seen[lab.train_labels == number].mean(0) for number in range(10)]) - seen.mean(0)
    made = {name: partial(make, x) for name, make in corpus.WITHOUT.items()}
    told = {name: partial(make, x, means[targets]) for name, make in corpus.TEMPLATES.items()}
    model = corpus.shuffled(reference)
    asked = {name: partial(in_parts, partial(make, model), x, targets) for name, make in corpus.SHUFFLED.items()}
    return made | told | asked | fitted_rows(Fitted(seen, lab.train_labels, x, targets))


def candidates(lab: Lab) -> dict[str, Strata]:
    """Return the strata of each candidate."""
    contrast = control("contrast", lab.batch._replace(images=lab.test.float()))
    third = contrast.round().clamp(0, 255).to(torch.uint8).flatten(1).numpy()
    found = {f"dev-{bins}": assign_strata(lab.numbers[:1], bins) for bins in (8, 16, 64)}
    found |= {f"dev-blur-{bins}x{bins}": assign_strata(lab.numbers, bins) for bins in (4, 8)}
    return found | {"dev-blur-contrast-4^3": assign_strata([*lab.numbers, third], 4)}


def scored(lab: Lab, common: nn.Module, importance: Tensor, tried: dict[str, Strata]) -> Answers:
    """Return the answers of a row by level and mask, of masks matched by each candidate and by energy, too, if any."""
    keys = lab.keys(importance)
    planes = encode(keys, LAYOUT)
    model = lab.tuned(common, planes)
    made = lab.answers(model, planes, BITS)
    if not tried:
        return made
    order = np.argsort(keys, axis=1)[:, ::-1]
    fine = np.argsort(order, axis=1) * 1000 // LAYOUT.features  # a thousand bins stand for the whole ranking
    given, fine = order[lab.others], fine[lab.others].astype(np.uint16)
    energy = (lab.test.float() - lab.fill[:, None, None]).square().flatten(1).numpy()
    for t in LEVELS:
        own = unpacked(find_removed_bits(planes, t, Order.MORF, LAYOUT))
        equal = np.zeros_like(own)
        spent = np.take_along_axis(energy, given, 1).cumsum(1)
        np.put_along_axis(equal, given, spent <= (energy * own).sum(1, keepdims=True), axis=1)
        masks = {name: make_other_image_masks(own, fine, found, Order.MORF, lab.turns) for name, found in tried.items()}
        for name, mask in (masks | {"energy": equal}).items():
            made[f"{t} {name}"] = lab.correct(model, np.packbits(mask, axis=1))
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
    reference, common = lab.reference(), lab.common()
    rows = not_asking(lab) | asking(lab, reference)
    rows |= corpus_rows(lab, reference) if options.corpus else {}
    tried = {} if options.corpus else candidates(lab)
    for name, make in rows.items():
        if name not in found:
            start = time.process_time()
            found[name] = scored(lab, common, make(), tried)
            keep(found, path)
            print(name, round(time.process_time() - start, 1), flush=True)


if __name__ == "__main__":
    main()
