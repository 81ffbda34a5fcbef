"""Steps as graphs, on a processor: a recording is launched again by `recorder`, and has to do what the step does."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from roarbench.kernels import cuda_graphs as graphs
from roarbench.kernels import degrade, train
from roarbench.kernels.cuda_graphs import DrawnPart, Graphs
from roarbench.kernels.degrade import DegradedImages
from roarbench.kernels.inputs import Normalisation
from roarbench.models.build import build
from roarbench.plan.recipe import Augmentation, Decay, Optimiser, Recipe
from roarbench.terms import Precision, Unit
from tests.helpers.recorder import recorded
from tests.helpers.streamed import seeded

NORM = Normalisation((120.0, 100.0, 90.0), (60.0, 70.0, 50.0))
RECIPE = Recipe("test", 1, 3, 10, 0.05, 1, Decay.LINEAR, Augmentation.SHIFT_FLIP, sides=(0.5, 1.0, 1.0))
CPU = torch.device("cpu")
RECORDED = "steps are launched kernel by kernel"


@pytest.fixture(autouse=True)
def recordable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a processor take the path of a GPU; round learning rates to the float32 that a graph reads."""
    exact = train.learning_rate
    monkeypatch.setattr(train, "learning_rate", lambda *asked: torch.tensor(exact(*asked)).item())
    monkeypatch.setattr(train, "fits", lambda inputs: False)
    monkeypatch.setattr(degrade, "_unpacked", degrade._shifted)  # NumPy's operations are not dispatched
    monkeypatch.setattr(graphs, "recorded", recorded)
    monkeypatch.setattr(graphs, "_FAILED", [])


def training(recipe: Recipe, model: nn.Module | None = None) -> train._Training:
    pixels = torch.randint(0, 256, (40, 3, 16, 16), dtype=torch.uint8, generator=seeded(1))
    removed = torch.randint(0, 256, (40, 96), dtype=torch.uint8, generator=seeded(2))
    inputs = DegradedImages(pixels, removed, torch.tensor([9.5, 0.25, 77.0]), Unit.SCALAR)
    model = model or build("resnet-planted", 4, 3, 16, seeded(0))
    return train._Training(model, inputs, torch.arange(40) % 4, NORM, recipe, seed=5)


def done(begun: train._Training, by_graph: bool) -> tuple[list[Tensor], list[Tensor]]:
    """Do all its steps; return the tensors that they changed, and the losses."""
    begun._graphs = Graphs(CPU) if by_graph else None
    while begun.step < begun.steps:
        begun.advance()
    return begun.changing(), list(begun.losses)


def sizes_recorded(begun: train._Training) -> list[int]:
    return list(begun._graphs.sizes)


@pytest.mark.parametrize(
    ("kind", "micro_batch"),
    [(Augmentation.NOISE_FLIP, 0), pytest.param(Augmentation.CROP_FLIP, 4, marks=pytest.mark.slow)],
)
def test_trainings_by_graphs_are_those_without_bit_for_bit(kind: Augmentation, micro_batch: int) -> None:
    recipe = replace(RECIPE, augmentation=kind, micro_batch=micro_batch)
    by_graph, alone = training(recipe), training(recipe)
    torch.testing.assert_close(done(by_graph, True), done(alone, False), rtol=0, atol=0)
    assert sizes_recorded(by_graph) == [8, 16]
    torch.testing.assert_close(by_graph._generator.get_state(), alone._generator.get_state(), rtol=0, atol=0)


def test_a_state_that_is_taken_back_is_no_longer_the_graphs() -> None:
    """Momenta are other tensors then, and a graph would go on with the old ones."""
    begun, alone = training(RECIPE), training(RECIPE)
    begun._graphs = Graphs(CPU)
    for _ in range(8):
        begun.advance()
    begun.restore(begun.state())
    assert sizes_recorded(begun) == []
    while begun.step < begun.steps:
        begun.advance()
    torch.testing.assert_close(begun.changing(), done(alone, False)[0], rtol=0, atol=0)


class ByNumber(train._Training):
    """A training whose learning rate goes into the graph as a number."""

    def compute(self, parts: list[DrawnPart], rate: float | Tensor) -> Tensor:
        return super().compute(parts, float(rate))


class Unrecordable(train._Training):
    """A training with a kernel that cannot be recorded."""

    def compute(self, parts: list[DrawnPart], rate: float | Tensor) -> Tensor:
        if isinstance(rate, Tensor):
            raise RuntimeError("operation not permitted when stream is capturing")
        return super().compute(parts, rate)


@pytest.mark.parametrize(("kind", "reason"), [(ByNumber, "differs from the step"), (Unrecordable, "not permitted")])
def test_a_graph_that_does_something_else_is_not_believed(
    kind: type[train._Training], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun, alone = training(RECIPE), training(RECIPE)
    begun.__class__ = alone.__class__ = kind
    torch.testing.assert_close(done(begun, True), done(alone, False), rtol=0, atol=0)
    assert sizes_recorded(begun) == []
    assert [RECORDED in line and reason in line for line in caplog.messages] == [True]


def test_a_network_that_draws_itself_is_not_recorded() -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Dropout(0.5), build("resnet-planted", 4, 3, 16, seeded(0)))

    begun, alone = training(RECIPE, network()), training(RECIPE, network())
    torch.testing.assert_close(done(begun, True), done(alone, False), rtol=0, atol=0)
    assert (sizes_recorded(begun), begun.draws) == ([], True)


def test_only_small_resident_images_are_recorded_and_by_sgd_alone() -> None:
    begun = training(RECIPE)
    assert begun._graphs is None  # on a processor
    begun._device = torch.device("cuda")
    inputs = begun._inputs
    large = replace(inputs, pixels=torch.zeros(4, 3, 65, 65, dtype=torch.uint8), removed=None)
    assert [begun._recordable(some) for some in (inputs, large)] == [True, False]
    begun._recipe = replace(RECIPE, optimiser=Optimiser.ADAMW, precision=Precision.FLOAT32)
    assert not begun._recordable(inputs)
