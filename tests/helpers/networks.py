"""A small network with random weights, and images that are smooth like photographs."""

from functools import partial

import torch
from torch import Tensor, nn

from roarbench.compute.networks import build_network
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.estimator import Batch, ClassImages

CLASSES = 5
SIDE = 12


def importance(name: str, model: nn.Module | None, batch: Batch, black: Tensor | None = None) -> Tensor:
    """The maps of one estimator, (n, c, h, w); controls have to do without the network."""
    if black is None:
        black = torch.full((batch.images.shape[1], 1, 1), -2.0, dtype=batch.images.dtype)
    row = find_estimator(name)
    return compute_importance_maps([row], None if row.control else model, batch, black)[row.id]


def assert_near(found: Tensor, expected: Tensor, share: float = 1e-9) -> None:
    """Float64 leaves 1e-16; sums over layers and samples lose some digits of the largest value."""
    largest = expected.abs().max().item()
    assert largest > 0
    torch.testing.assert_close(found, expected.expand_as(found), rtol=0, atol=share * largest)


def dense(*rows: tuple[float, ...]) -> nn.Linear:
    layer = nn.Linear(len(rows[0]), len(rows), bias=False)
    layer.weight.data = torch.tensor(rows)
    return layer


def make_residual_network(dtype: torch.dtype) -> nn.Module:
    generator = torch.Generator().manual_seed(1)
    return randomise_weights(build_network("resnet8", CLASSES, 3, SIDE, generator), generator).to(dtype)


def randomise_weights(model: nn.Module, generator: torch.Generator) -> nn.Module:
    """Draw all weights, for eval mode: as they are built, networks would multiply their residual branches by 0."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            for values, low, high in (
                (module.weight, 0.5, 1.5),
                (module.bias, -0.5, 0.5),
                (module.running_mean, -0.5, 0.5),
                (module.running_var, 0.5, 1.5),
            ):
                nn.init.uniform_(values, low, high, generator=generator)  # type: ignore[arg-type]
        elif isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, generator=generator)
    return model.eval()


def make_smooth_images(n: int, dtype: torch.dtype) -> Batch:
    draw = partial(torch.randn, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    smooth = nn.functional.interpolate(draw(n, 3, SIDE // 4, SIDE // 4), size=SIDE, mode="bilinear")
    images = smooth + 0.2 * draw(n, 3, SIDE, SIDE)
    truth, class_images = draw(n, 3, SIDE, SIDE), ClassImages(*draw(2, CLASSES, 3, SIDE, SIDE).to(dtype))
    return Batch(images.to(dtype), torch.arange(n) % CLASSES, torch.arange(n) * 7 + 3, truth.to(dtype), class_images)


class CountingPasses(nn.Module):
    """Passes on to a model and counts the images that go through, forward and back."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.forwards = self.backwards = 0

    def forward(self, images: Tensor) -> Tensor:
        self.forwards += len(images)
        logits: Tensor = self.model(images)
        if logits.requires_grad:
            logits.register_hook(self.count)  # type: ignore[no-untyped-call]
        return logits

    def count(self, back: Tensor) -> None:
        self.backwards += len(back)


class Small(nn.Module):
    """Needs memory that no machine has when it is given more than `limit` images, or raises another error."""

    def __init__(self, model: nn.Module, limit: int, error: Exception | None = None) -> None:
        super().__init__()
        self.model, self.limit, self.error = model, limit, error
        self.seen, self.sides = list[int](), list[int]()

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(len(images))
        self.sides.append(images.shape[3])
        if len(images) > self.limit:
            if self.error is not None:
                raise self.error
            torch.empty(2**50)
        logits: Tensor = self.model(images)
        return logits
