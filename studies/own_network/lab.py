"""Networks, images and answers that the programs of this study share."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from roarbench.api.removal import Removal, compute_logits, flatten_maps
from roarbench.compute.degrade import DegradedImages, replace_features
from roarbench.compute.inputs import Normalisation, normalise
from roarbench.compute.networks import build_network
from roarbench.compute.ranking import draw_tie_order, rank
from roarbench.compute.train import fit
from roarbench.datasets.decoded import ImageData, open_decoded
from roarbench.enums import OWN_NETWORK_LEVELS, Order, Precision, Unit
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.engine import EXPLAINED, compute_importance_maps
from roarbench.estimators.estimator import Batch
from roarbench.plan.recipes import find_recipe
from roarbench.store.networks import StoredNetwork

Kept = NDArray[np.bool_]  # (maps, networks, levels, images)
RESULTS = Path(__file__).with_name("results.npz")
TEST_IDS = 2**32
MORF = Removal(Order.MORF, OWN_NETWORK_LEVELS, Unit.SCALAR)
ERASED_AREA, ERASED_SHAPE = (0.02, 0.33), (0.3, 3.3)  # of torchvision's RandomErasing: shares, height / width


class Variant(NamedTuple):
    """Training of the networks of a variant."""

    model: str = "resnet-quick"
    recipe: str = "quick@2"
    erasing: bool = False
    images: int = 200  # test images, of which those count that all networks put into one class
    lacks: tuple[str, ...] = ()  # estimators that do not apply: they need ReLUs, or a convolution's output
    first_seed: int = 3000


VARIANTS = {  # the last two with few epochs, to save processor time
    "other networks": Variant(),
    "other networks 2": Variant(first_seed=3006),
    "other networks 3": Variant(first_seed=3012),
    "random erasing": Variant(erasing=True),
    "small ViT": Variant(
        "vit-quick", "modern@1(epochs=4,warmup=1,precision=float32)", lacks=("gb", "gb-sq", "gradcam")
    ),
    "ResNet-18": Variant("resnet18", "quick@2(epochs=5)", images=150),
}


def read_results(path: Path = RESULTS) -> dict[str, Kept]:
    """Read the answers that are kept, by `experiment/row`."""
    found = {}
    for key, bits in np.load(path).items() if path.exists() else ():
        name, shape = key.rsplit("/", 1)
        sizes = [int(size) for size in shape.split("x")]
        found[name] = np.unpackbits(bits, count=int(np.prod(sizes))).astype(bool).reshape(sizes)
    return found


def keep_results(found: Mapping[str, Kept], path: Path = RESULTS) -> None:
    """Write answers, packed, with their shape in the name."""
    named = {f"{name}/{'x'.join(map(str, kept.shape))}": np.packbits(kept) for name, kept in found.items()}
    partial_file = path.with_name(f".{path.name}")
    np.savez_compressed(partial_file, **named)  # type: ignore[arg-type]
    partial_file.replace(path)


class Lab:
    """Photographs of a store, its references of one recipe, and further networks of the same recipe.

    Args:
        store: A folder with decoded photographs and references.
        networks: A folder for networks that this study trains.
    """

    def __init__(self, store: Path, networks: Path) -> None:
        held = [open_decoded(path) for path in (store / "data").glob("imagenette64-1000-*") if path.is_dir()]
        self.data: ImageData = max(held, key=lambda data: len(data.test.labels))  # others were limited
        self.norm, self.mean = Normalisation.of(self.data), torch.tensor(self.data.mean)
        self._store, self._networks = store, networks

    def references(self) -> list[nn.Module]:
        """Return the references of the store, in the order of their seeds."""
        found = {}
        for path in (self._store / "references").glob("imagenette64-1000-resnet-quick-*"):
            seed = json.loads((path / "manifest.json").read_text())["reference"]["seed"]
            found[seed] = _loaded(StoredNetwork(path.parent, "", path.name))
        return [found[seed] for seed in sorted(found)]

    def others(self, variant: str = "other networks", count: int = 3) -> list[nn.Module]:
        """Return networks of a variant with other seeds, trained where they are missing."""
        return [self._other(variant, VARIANTS[variant].first_seed + 2 * number) for number in range(count)]

    def _other(self, variant: str, seed: int) -> nn.Module:
        model_name, recipe, erasing, *_ = VARIANTS[variant]
        stored = StoredNetwork(self._networks, f"{variant} {seed}")
        if not stored.has():
            pixels, labels = torch.from_numpy(self.data.train.pixels), torch.from_numpy(self.data.train.labels)
            chance = torch.Generator().manual_seed(seed + 1)
            whole = DegradedImages(pixels, None, self.mean, Unit.SCALAR)
            images = ErasedImages(pixels, self.mean, chance) if erasing else whole
            model = untrained(seed, model_name)
            fit(model, images, labels, self.norm, find_recipe(recipe), seed)
            stored.save(model, {"seed": seed})
        return _loaded(stored, model_name)

    def group(self, models: Sequence[nn.Module], first: int, last: int) -> "Group":
        """Return the test images first … last - 1 that these networks put into one class."""
        pixels = torch.from_numpy(self.data.test.pixels[first:last])
        said = torch.stack([compute_logits(model, normalise(pixels, self.norm)).argmax(1) for model in models])
        rows = torch.nonzero((said == said[0]).all(0)).flatten()
        return Group(self, list(models), pixels[rows], said[0, rows], TEST_IDS + first + rows)


def untrained(seed: int, model: str = "resnet-quick") -> nn.Module:
    """Return a network before training."""
    made = build_network(model, 10, 3, 64, torch.Generator().manual_seed(seed))
    return made.to(memory_format=torch.channels_last).eval()  # type: ignore[call-overload, no-any-return]


def _loaded(stored: StoredNetwork, name: str = "resnet-quick") -> nn.Module:
    model = untrained(0, name)
    model.load_state_dict(stored.weights())
    return model


class ErasedImages:
    """Photographs of which every second one lacks a rectangle, another at each reading (Zhong et al. 2020).

    Args:
        pixels: uint8 (n, c, h, w).
        fill: Colour of the rectangles, float32 (c,), in [0, 255].
        generator: Source of the draws.
    """

    def __init__(self, pixels: Tensor, fill: Tensor, generator: torch.Generator) -> None:
        self._pixels, self._fill, self._generator = pixels, fill[:, None, None], generator

    def __len__(self) -> int:
        return len(self._pixels)

    def batch(self, index: Tensor) -> Tensor:
        """Return images by index, int64 (b,), as float32 (b, c, h, w) in [0, 255]."""
        images = self._pixels.index_select(0, index).float()
        return torch.where(rectangles(len(index), images.shape[-1], self._generator), self._fill, images)


def rectangles(count: int, size: int, generator: torch.Generator) -> Tensor:
    """Mark a rectangle in about half of the squares with sides of `size` pixels, bool (count, 1, size, size)."""
    chosen, area, shape, *place = torch.rand(5, count, generator=generator)
    area = ERASED_AREA[0] + (ERASED_AREA[1] - ERASED_AREA[0]) * area
    low, high = np.log(ERASED_SHAPE)
    shape = torch.exp(low + (high - low) * shape)
    inside = []
    for side, at in zip(((area * shape).sqrt(), (area / shape).sqrt()), place, strict=True):
        length = (size * side).round().clamp(max=size)[:, None]
        start, pixel = (at[:, None] * (size - length)).round(), torch.arange(size)
        inside.append((pixel >= start) & (pixel < start + length))
    rows, columns = inside
    found: Tensor = (chosen < 0.5)[:, None, None, None] & rows[:, None, :, None] & columns[:, None, None, :]
    return found


class Group(NamedTuple):
    """Networks, and the images that all of them put into one class."""

    lab: Lab
    models: list[nn.Module]
    pixels: Tensor  # uint8 (n, c, h, w)
    targets: Tensor  # int64 (n,)
    ids: Tensor

    def first(self, count: int) -> "Group":
        """Return the first so many of the images."""
        return self._replace(pixels=self.pixels[:count], targets=self.targets[:count], ids=self.ids[:count])

    @property
    def images(self) -> Tensor:
        """The images as the networks take them."""
        return normalise(self.pixels, self.lab.norm)

    def maps(
        self, names: Iterable[str], models: Sequence[nn.Module] = (), precision: Precision = Precision.FLOAT32
    ) -> dict[str, list[Tensor]]:
        """Return the maps of estimators of the table by name, one tensor for each network."""
        rows, made = [find_estimator(name) for name in names], []
        for model in models or self.models:
            batch = Batch(self.images, self.targets, self.ids)
            parts = [
                compute_importance_maps(
                    rows, model, batch.part(slice(at, at + EXPLAINED)), self.lab.norm.black, precision
                )
                for at in range(0, len(self.ids), EXPLAINED)
            ]
            made.append({row.id: torch.cat([part[row.id] for part in parts]) for row in rows})
        return {row.id: [each[row.id] for each in made] for row in rows}

    def kept(self, maps: Sequence[Tensor], removal: Removal = MORF, fill: str = "mean") -> Kept:
        """Return whether each network still predicts the class without what each map ranks first."""
        count, images = len(self.models), self.images
        found = np.zeros((len(maps), count, len(removal.levels), len(images)), np.bool_)
        for number, one in enumerate(maps):
            features = flatten_maps(one.detach(), tuple(images.shape[1:]), removal.unit)
            ranked = rank(features, draw_tie_order(self.ids.numpy(), features.shape[1]))
            for level, mask in enumerate(removal.masks(ranked, images.shape)):
                left = normalise(replace_features(self.pixels, mask, fill, self.lab.mean, self.ids), self.lab.norm)
                for judge, model in enumerate(self.models):
                    found[number, judge, level] = (compute_logits(model, left).argmax(1) == self.targets).numpy()
        return found
