"""Steps for a GPU, on a processor: each does what fits in memory, or is launched again as it was recorded.

`recorder` launches a recording again, which has to do what the step does; a network says when memory ran out.
"""

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from roarbench.errors import NoRoom
from roarbench.kernels import cuda_graphs as graphs
from roarbench.kernels import degrade, room, train
from roarbench.kernels.cuda_graphs import Graphs
from roarbench.kernels.room import find_room
from roarbench.kernels.train import Training
from roarbench.plan.recipe import Augmentation, Optimiser
from roarbench.terms import Precision
from tests.helpers.networks import Small
from tests.helpers.recorder import recorded
from tests.helpers.trainings import NORM, RECIPE, SIDE, network, pictures

GROWING = replace(RECIPE, epochs=3, batch=10, precision=Precision.BF16, sides=(0.5, 1.0, 1.0))


@pytest.fixture
def training(monkeypatch):
    """Trainings on a processor that takes the path of a GPU, at rates rounded to the float32 that a graph reads."""
    exact = train.learning_rate
    monkeypatch.setattr(train, "learning_rate", lambda *asked: torch.tensor(exact(*asked)).item())
    monkeypatch.setattr(train, "fits", lambda inputs: False)
    monkeypatch.setattr(degrade, "_unpacked", degrade._shifted)  # NumPy's operations are not dispatched
    monkeypatch.setattr(graphs, "recorded", recorded)
    monkeypatch.setattr(graphs, "_FAILED", [])

    def make(recipe=GROWING, model=None):
        return Training(model or network(), *pictures(40), NORM, recipe, seed=5)

    return make


def done(begun, by_graph):
    """Do all its steps; return the tensors that they changed, and the losses."""
    begun._graphs = Graphs(torch.device("cpu")) if by_graph else None
    while begun.step < begun.steps:
        begun.advance()
    return begun.changing(), list(begun.losses)


@pytest.mark.parametrize(
    ("kind", "micro_batch"),
    [(Augmentation.NOISE_FLIP, 0), pytest.param(Augmentation.CROP_FLIP, 4, marks=pytest.mark.slow)],
)
def test_trainings_by_graphs_are_those_without_bit_for_bit(training, kind, micro_batch):
    recipe = replace(GROWING, augmentation=kind, micro_batch=micro_batch)
    by_graph, alone = training(recipe), training(recipe)
    torch.testing.assert_close(done(by_graph, True), done(alone, False), rtol=0, atol=0)
    assert by_graph._graphs.sizes == (8, 16)
    torch.testing.assert_close(by_graph._generator.get_state(), alone._generator.get_state(), rtol=0, atol=0)


def test_a_state_that_is_taken_back_is_no_longer_the_graphs(training):
    """Momenta are other tensors then, and a graph would go on with the old ones."""
    begun, alone = training(), training()
    begun._graphs = Graphs(torch.device("cpu"))
    for _ in range(8):
        begun.advance()
    begun.restore(begun.state())
    assert begun._graphs.sizes == ()
    while begun.step < begun.steps:
        begun.advance()
    torch.testing.assert_close(begun.changing(), done(alone, False)[0], rtol=0, atol=0)


class ByNumber(Training):
    """A training whose learning rate goes into the graph as a number."""

    def compute(self, parts, rate):
        return super().compute(parts, float(rate))


class Unrecordable(Training):
    """A training with a kernel that cannot be recorded."""

    def compute(self, parts, rate):
        if isinstance(rate, Tensor):
            raise RuntimeError("operation not permitted when stream is capturing")
        return super().compute(parts, rate)


@pytest.mark.parametrize(("kind", "reason"), [(ByNumber, "differs from the step"), (Unrecordable, "not permitted")])
def test_a_graph_that_does_something_else_is_not_believed(training, kind, reason, caplog):
    begun, alone = training(), training()
    begun.__class__ = alone.__class__ = kind
    torch.testing.assert_close(done(begun, True), done(alone, False), rtol=0, atol=0)
    assert begun._graphs.sizes == ()
    (line,) = caplog.messages
    assert line.startswith("steps are launched kernel by kernel") and reason in line


def test_only_small_resident_images_are_recorded_by_sgd_and_no_network_that_draws_itself(training):
    drawing, alone = (training(model=nn.Sequential(nn.Dropout(0.5), network())) for _ in range(2))
    torch.testing.assert_close(done(drawing, True), done(alone, False), rtol=0, atol=0)
    assert (drawing._graphs.sizes, drawing.draws) == ((), True)
    begun = training()
    assert begun._graphs is None  # on a processor
    begun._device = torch.device("cuda")
    inputs = begun._inputs
    large = replace(inputs, pixels=torch.zeros(4, 3, 65, 65, dtype=torch.uint8), removed=None)
    assert [begun._recordable(some) for some in (inputs, large)] == [True, False]
    begun._recipe = replace(GROWING, optimiser=Optimiser.ADAMW, precision=Precision.FLOAT32)
    assert not begun._recordable(inputs)


def plain():
    """Without batch norm."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


def training_of(model, images):
    """A training with memory for so many images."""
    limited = Small(model, images, torch.OutOfMemoryError("CUDA out of memory"))
    return Training(limited, *pictures(24), NORM, replace(RECIPE, epochs=2, sides=(0.5, 1.0)), seed=3)


def weights_after(training, finding):
    if finding:
        find_room(training)
    while training.step < training.steps:
        training.advance()
    return training.state()["model"]


@pytest.fixture(autouse=True)
def gpu(monkeypatch):
    memory = {"share": 4e9, "there": 4e9}
    monkeypatch.setattr(room, "gpu_share", lambda: memory["share"])
    monkeypatch.setattr(room, "gpu_memory", lambda: memory["there"])
    return memory


@pytest.mark.parametrize("make", [plain, network])
def test_what_fits_is_tried_and_taken_back(make):
    """Weights, running means, momentum, draws: the training is the same bit for bit."""
    tried, untried = training_of(make(), 8), training_of(make(), 8)
    found, expected = weights_after(tried, True), weights_after(untried, False)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert list(tried.losses) == list(untried.losses)
    assert tried._model.seen == [8, *untried._model.seen]
    assert tried._model.sides == [SIDE, *untried._model.sides], "the trial is as large as any step"


@pytest.mark.parametrize(("images", "parts"), [(7, 4), (3, 2), (1, 1)])
def test_without_batch_norm_parts_are_halved_and_the_training_stays(images, parts):
    training = training_of(plain(), images)
    found, expected = weights_after(training, True), weights_after(training_of(plain(), 8), False)
    assert training._model.seen[-1] == parts
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)  # float32, in sums of another order


@pytest.mark.parametrize(
    ("make", "images", "said"),
    [
        (network, 7, "a step of 8 images takes .* worker; batch norm allows no smaller parts; write fewer --workers"),
        (plain, 0, "a step of 1 images takes more than 4.0 GB of GPU memory, the share of each worker; write"),
    ],
)
def test_what_cannot_be_halved_is_refused_unless_others_hold_the_memory(make, images, said, gpu):
    """Then the machine failed, and the job is tried again."""
    with pytest.raises(NoRoom, match=said):
        find_room(training_of(make(), images))
    gpu["there"] = 1e9
    with pytest.raises(torch.OutOfMemoryError):
        find_room(training_of(make(), images))
