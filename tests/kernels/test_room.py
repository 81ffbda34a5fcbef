"""A training finds the part of a batch that fits in memory, on a network that says when memory ran out."""

import pytest
import torch
from torch import Tensor, nn

from roarbench.errors import MachineError, NoRoom
from roarbench.kernels import room
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.kernels.room import find_room
from roarbench.kernels.train import _Training
from roarbench.models.build import build
from roarbench.plan.recipe import Augmentation, Decay, Recipe
from roarbench.terms import Precision, Unit

NORM = Normalisation((120.0,) * 3, (60.0,) * 3)
RECIPE = Recipe("test", 1, 2, 8, 0.1, 1, Decay.LINEAR, Augmentation.SHIFT_FLIP, Precision.FLOAT32, sides=(0.5, 1.0))
SIDE, LABELS = 16, torch.arange(24) % 4


class LimitedRoom(nn.Module):
    """A network that fits in memory with so many pixels at once."""

    def __init__(self, model: nn.Module, pixels: float) -> None:
        super().__init__()
        self.model, self.pixels, self.seen = model, pixels, list[tuple[int, int]]()

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append((len(images), images.shape[3]))
        if len(images) * images.shape[2] * images.shape[3] > self.pixels:
            raise torch.OutOfMemoryError("CUDA out of memory")
        logits: Tensor = self.model(images)
        return logits


def plain() -> nn.Module:
    """Without batch norm."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    return nn.Sequential(*layers)


def normed() -> nn.Module:
    return build("resnet-planted", 4, 3, SIDE, torch.Generator().manual_seed(0))


def training_of(model: nn.Module, images: float, recipe: Recipe = RECIPE) -> _Training:
    """A training with memory for so many images at full size."""
    pixels = torch.randint(256, (24, 3, SIDE, SIDE), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    inputs = DegradedImages(pixels, None, torch.zeros(3), Unit.SCALAR)
    return _Training(LimitedRoom(model, images * SIDE**2), inputs, LABELS, NORM, recipe, seed=3)


def weights_after(training: _Training, finding: bool) -> dict[str, Tensor]:
    if finding:
        find_room(training)
    while training.step < training.steps:
        training.advance()
    return training.state()["model"]


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    memory = {"share": 4e9, "there": 4e9}
    monkeypatch.setattr(room, "gpu_share", lambda: memory["share"])
    monkeypatch.setattr(room, "gpu_memory", lambda: memory["there"])
    return memory


@pytest.mark.parametrize("make", [plain, normed])
def test_what_fits_is_tried_and_taken_back(make):
    """Weights, running means, momentum, draws: the training is the same bit for bit."""
    tried, untried = training_of(make(), 8), training_of(make(), 8)
    found, expected = weights_after(tried, True), weights_after(untried, False)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.equal(found[name], value), name
    assert list(tried.losses) == list(untried.losses)
    assert tried._model.seen[0] == (8, SIDE), "the trial is as large as any step"
    assert tried._model.seen[1:] == untried._model.seen


@pytest.mark.parametrize(("images", "parts"), [(7, 4), (3, 2), (1, 1)])
def test_without_batch_norm_parts_are_halved_and_the_training_stays(images, parts):
    training = training_of(plain(), images)
    found, expected = weights_after(training, True), weights_after(training_of(plain(), 8), False)
    assert training._model.seen[-1] == (parts, SIDE)
    for name, value in expected.items():  # float32, in sums of another order
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("make", "images"), [(normed, 7), (plain, 0.5)], ids=["batch norm", "one image"])
def test_what_cannot_be_halved_is_refused_in_one_line(make, images):
    with pytest.raises(NoRoom) as told:
        find_room(training_of(make(), images))
    line = str(told.value)
    assert isinstance(told.value, MachineError), "another device may have the room"
    assert "\n" not in line
    count, why = (8, "; batch norm allows no smaller parts") if make is normed else (1, "")
    images = f"a step of {count} images takes more than 4.0 GB of GPU memory, the share of each worker{why}"
    assert line == f"{images}; write fewer --workers, or use a larger GPU"


def test_memory_that_others_hold_is_no_reason_to_refuse(gpu):
    """The machine failed, and the job is tried again."""
    gpu["there"] = 1e9
    with pytest.raises(torch.OutOfMemoryError):
        find_room(training_of(normed(), 7))
