"""Passes counted, memory that runs out, twins and bad input."""

import copy

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor, nn

from roarbench.errors import MachineError
from roarbench.estimators import CONTROLS, IG_STEPS, SAMPLES, SEED, Estimator, ensembles
from roarbench.estimators.base import Batch
from roarbench.estimators.baselines import blurred
from roarbench.estimators.catalogue import PAPER, find_estimator
from roarbench.estimators.engine import Explained, Passes, Subject, fitting, importance_maps, maps_together, passes
from roarbench.estimators.noise import noisy_copies
from roarbench.models.build import build
from roarbench.terms import Precision
from tests.helpers.networks import CountingPasses, images_like_photographs, residual_network


def estimators(*names: str) -> list[Estimator]:
    return [find_estimator(name) for name in names]


QUICK = ("grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb")


@pytest.mark.parametrize(
    ("names", "forward", "backward"),
    [
        (PAPER, 400, 416),  # docs/protocol.md, section 3
        (QUICK, 15 + 25, 15 + 25 + 1),
        (("grad", "grad-sq"), 1, 1),
        (("gb",), 1, 1),
        (("gb", "grad-sq"), 1, 2),
        (("ig",), 25, 25),
        (("var-gb", "sg-gb", "sg-gb~blurred"), 15, 15),
        (CONTROLS, 0, 0),
    ],
)
def test_passes_are_counted(names, forward, backward, tiny, batch, black):
    counting = CountingPasses(tiny).eval()
    importance_maps(estimators(*names), counting, batch, black)
    n = len(batch.ids)
    assert (counting.forwards, counting.backwards) == (forward * n, backward * n)
    assert passes(estimators(*names)) == Passes(forward, backward)


def test_passes_of_variants_add_up():
    grad, gb = Passes(1, 1), Passes(1, 1)
    assert passes(estimators("grad", "gb")) == Passes(1, 2)
    assert passes(estimators("grad", "gb~untrained")) == Passes(grad.forward + gb.forward, grad.backward + gb.backward)


def test_one_call_is_every_estimator_alone(tiny, batch, black):
    names = ("random", "sobel", "truth", *QUICK, "sg-gb-sq")
    together = importance_maps(estimators(*names), tiny, batch, black)
    assert tuple(together) == names
    for name in names:
        alone = importance_maps(estimators(name), tiny, batch, black)
        torch.testing.assert_close(alone, {name: together[name]}, rtol=0, atol=0)


def test_controls_need_no_model(batch, black):
    names = ("random", "sobel", "truth", "truth-inverted", "random-blurred")
    assert set(importance_maps(estimators(*names), None, batch, black)) == set(names)


def test_blurred_twins_are_blurred_maps(tiny, batch, black):
    names = ("var-grad", "var-grad~blurred", "random-blurred")
    maps = importance_maps(estimators(*names), tiny, batch, black)
    torch.testing.assert_close(maps["var-grad~blurred"], blurred(maps["var-grad"]), rtol=0, atol=0)
    random = importance_maps(estimators("random"), None, batch, black)["random"]
    torch.testing.assert_close(maps["random-blurred"], blurred(random), rtol=0, atol=0)


@pytest.mark.parametrize("twin", ["untrained", "other-target"])
def test_other_twins_are_the_same_estimator_on_what_the_caller_passes(twin, tiny, batch, black):
    maps = importance_maps(estimators("grad", f"grad~{twin}"), tiny, batch, black)
    torch.testing.assert_close(maps[f"grad~{twin}"], maps["grad"], rtol=0, atol=0)


# --- bfloat16


@pytest.fixture(scope="module")
def short():
    """A network, images and black in float32."""
    drawn = images_like_photographs(4, torch.float32)
    return residual_network(torch.float32), drawn, torch.tensor([-2.1, -2.0, -1.8])[:, None, None]


def test_what_is_not_asked_for_is_float32_bit_for_bit(short):
    plain = importance_maps(estimators("grad", "gb", "ig"), *short)
    asked = importance_maps(estimators("grad", "gb", "ig"), *short, Precision.FLOAT32)
    torch.testing.assert_close(plain, asked, rtol=0, atol=0)


def test_bf16_orders_features_almost_as_float32_does(short):
    """8 bits of mantissa through ten layers: measured here are .962 (squared gradient) and more."""
    exact = importance_maps(estimators(*QUICK), *short)
    found = importance_maps(estimators(*QUICK), *short, Precision.BF16)
    for name in QUICK:
        assert found[name].dtype is torch.float32
        assert not torch.equal(found[name], exact[name])
        for one, other in zip(exact[name].flatten(1).numpy(), found[name].flatten(1).numpy(), strict=True):
            assert 0.95 < spearmanr(one, other).statistic < 1


def test_in_bf16_the_network_is_short_and_every_sum_is_not(short):
    """Each pass by autocast alone, all sums over them in float64."""
    model, drawn, black = short

    def gradient(images):
        inputs = images.detach().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(inputs)
        chosen = logits.float().gather(1, drawn.targets[:, None]).sum()
        return torch.autograd.grad(chosen, inputs)[0].double()

    lasting = drawn.images.contiguous(memory_format=torch.channels_last)
    copies = torch.stack([gradient(noisy_copies(lasting, drawn.ids, j, SEED)) for j in range(SAMPLES)])
    path = [gradient(torch.lerp(black, lasting, i / IG_STEPS)) for i in range(1, IG_STEPS)] + [gradient(lasting)]
    expected = {
        "grad": path[-1],
        "sg-grad": copies.mean(0),
        "sgsq-grad": (copies**2).mean(0),
        "var-grad": copies.var(0, correction=0),
        "ig": (drawn.images - black) * torch.stack(path).mean(0),
    }
    found = importance_maps(estimators(*expected), *short, Precision.BF16)
    for name, maps in expected.items():  # float32 sums of 25 terms; bfloat16 sums would be off by 1e-2
        torch.testing.assert_close(found[name].double(), maps, rtol=1e-4, atol=1e-6 * maps.abs().max().item())


def test_controls_and_blurs_are_float32_in_any_case(short):
    names = ("random", "sobel", "random-blurred")
    asked = importance_maps(estimators(*names, "grad", "grad~blurred"), *short, Precision.BF16)
    plain = importance_maps(estimators(*names), *short)
    for name in names:
        torch.testing.assert_close(asked[name], plain[name], rtol=0, atol=0)
    torch.testing.assert_close(asked["grad~blurred"], blurred(asked["grad"]), rtol=0, atol=0)


def test_in_bf16_the_model_is_left_as_it_is(short):
    before = copy.deepcopy(short[0].state_dict())
    importance_maps(estimators("grad", "gb"), *short, Precision.BF16)
    torch.testing.assert_close(short[0].state_dict(), before, rtol=0, atol=0)
    with pytest.raises(ValueError, match="must be in eval mode"):
        importance_maps(estimators("grad"), copy.deepcopy(short[0]).train(), *short[1:], Precision.BF16)


class Small(nn.Module):
    """Needs memory that no machine has when it is given more than `limit` images."""

    def __init__(self, model: nn.Module, limit: int, seen: list[int], error: Exception | None = None) -> None:
        super().__init__()
        self.model, self.limit, self.seen, self.error = model, limit, seen, error

    def forward(self, images: Tensor) -> Tensor:
        self.seen.append(len(images))
        if len(images) > self.limit:
            if self.error is not None:
                raise self.error
            torch.empty(2**50)
        return self.model(images)


ERRORS = [None, MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("not enough memory")]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_batches_are_halved_until_they_fit(error, tiny, batch, black):
    seen, told = list[int](), []
    names = ("random", "grad", "gb", "truth", "sobel")
    found = importance_maps(estimators(*names), Small(tiny, 1, seen, error).eval(), batch, black, note=told.append)
    assert seen == [3, 1, 2, 1, 1]
    assert [each.images for each in told] == [1, 1, 1]  # what did not fit was not explained
    expected = importance_maps(estimators(*names), tiny, batch, black)
    for name in names:  # other batch sizes sum in another order
        torch.testing.assert_close(found[name], expected[name], rtol=1e-10, atol=1e-12)


def test_one_image_that_does_not_fit_is_a_failed_run(tiny, batch, black):
    with pytest.raises(MachineError, match="one image of 3 x 12 x 12") as caught:
        importance_maps(estimators("grad"), Small(tiny, 0, []).eval(), batch, black)
    assert "\n" not in str(caught.value)


def test_other_errors_are_not_taken_for_memory(tiny, batch, black):
    seen: list[int] = []
    with pytest.raises(RuntimeError, match="shape"):
        importance_maps(estimators("grad"), Small(tiny, 0, seen, RuntimeError("shape")).eval(), batch, black)
    assert seen == [3]


def test_training_mode_is_refused(batch, black):
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.LazyLinear(5)).eval()
    model[0].train()
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        importance_maps(estimators("grad"), model, batch, black)


def bins(importance: Tensor) -> np.ndarray:
    """Which of the levels .1, .3, .5, .7, .9 a feature goes at, most important first, one row per image."""
    ranking = np.argsort(-importance.flatten(1).numpy(), axis=1, kind="stable")
    d = ranking.shape[1]
    counts = [round(t * d) for t in (0.1, 0.3, 0.5, 0.7, 0.9)]
    places = np.argsort(ranking, axis=1)
    return np.searchsorted(counts, places, side="right")


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU")  # captum's, on each guided backprop
@pytest.mark.parametrize("name", ["grad", "gb", "ig"])
def test_float32_puts_features_in_the_bins_of_captum_in_float32(name, model, batch, black, captum_base):
    batch = batch._replace(images=batch.images.float())
    model, black = copy.deepcopy(model).float(), black.float()
    found = importance_maps(estimators(name), model, batch, black)[name]
    expected = captum_base(name, model, batch.images, batch.targets, black)
    same = float((bins(found) == bins(expected)).mean())
    print(f"{name}: {same:.5f} of the features in the same level bin as captum's")
    # 5 edges x 3 images, and a rounding of 1e-6 swaps neighbours at an edge at most: 2 features each of 3 x 432
    assert same >= 1 - 5 * 3 * 2 / (3 * 432)


def test_float32_is_not_rounded_to_tf32_and_flags_are_put_back(tiny, batch, black):
    """The network looks at the flags of cuDNN while it is explained; a CPU has the flags too."""
    seen = []

    class Looking(nn.Module):
        def forward(self, x):
            seen.append((torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic))
            return tiny(x)

    before = (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic)
    importance_maps([find_estimator("grad")], Looking().eval(), batch, black)
    assert seen == [(False, True)]
    assert (torch.backends.cudnn.allow_tf32, torch.backends.cudnn.deterministic) == before


@pytest.mark.parametrize(
    ("free", "activations", "shape", "estimators", "images"),
    [
        (140e9, 32_040_424, (3, 224, 224), 18, 128),  # ResNet-50, 342 MB an image with 18 maps: 204 fit into half
        (560e9, 32_040_424, (3, 224, 224), 18, 256),  # enough
        (140e9, 245_770, (3, 32, 32), 18, 8192),
        (1e6, 32_040_424, (3, 224, 224), 18, 1),
    ],
)
def test_images_at_once_fit_and_are_enough(free, activations, shape, estimators, images):
    assert fitting(free, activations, shape, estimators) == images


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_finds_the_bins_of_the_cpu():
    """Float32 on both: only features that a rounding error moves over a bin's boundary may differ."""
    model = build("resnet8", 10, 3, 32, torch.Generator().manual_seed(0)).eval()
    images = torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(1))
    drawn, black = Batch(images, torch.arange(8), torch.arange(8)), torch.full((3, 1, 1), -2.0)
    wanted = [find_estimator(name) for name in PAPER]
    here = importance_maps(wanted, model, drawn, black)
    there = importance_maps(wanted, model.cuda(), drawn.to(torch.device("cuda")), black)
    for name in PAPER:
        assert (bins(here[name]) == bins(there[name].cpu())).mean() > 0.999


# --- several models at the same images


def test_models_explained_together_have_the_maps_of_each_alone_and_share_their_noise(
    tiny, model, batch, black, monkeypatch
):
    drawn, draws = [], ensembles.noise_draws
    monkeypatch.setattr(ensembles, "noise_draws", lambda *asked: drawn.append(asked[2]) or draws(*asked))
    brighter = batch._replace(images=batch.images + 1, targets=batch.targets.flip(0))  # its own normalisation
    subjects = [
        Subject(estimators("grad", "var-grad", "sobel"), tiny, batch, black),
        Subject(estimators("sg-ig(noise=0.5)", "var-grad"), tiny, brighter, black + 1),
        Subject(estimators("gb"), model, batch, black),  # without noisy copies
        Subject(estimators("random"), None, batch, black),
    ]
    told: list[list[Explained]] = []
    together = maps_together(subjects, note=told.append)
    assert drawn == list(range(SAMPLES))
    (noted,) = told
    assert [set(each.kept) for each in noted] == [{"var-grad"}, {"sg-ig(noise=0.5)", "var-grad"}, set(), set()]
    for subject, found, counted in zip(subjects, together, noted, strict=True):
        alone: list[Explained] = []
        expected = importance_maps(*subject, note=alone.append)
        assert set(found) == set(expected)
        for name in expected:
            torch.testing.assert_close(found[name], expected[name], rtol=0, atol=0)
        for name, kept in alone[0].kept.items():
            assert counted.kept[name].tolist() == kept.tolist()


def test_a_batch_too_large_for_one_of_several_models_is_halved_for_all(tiny, batch, black):
    asked = estimators("grad", "var-grad")
    told: list[list[Explained]] = []
    subjects = [Subject(asked, tiny, batch, black), Subject(asked, Small(tiny, 1, []).eval(), batch, black)]
    found = maps_together(subjects, note=told.append)
    assert [[each.images for each in both] for both in told] == [[1, 1]] * 3
    for name in ("grad", "var-grad"):
        torch.testing.assert_close(found[0][name], found[1][name], rtol=0, atol=0)


def test_models_are_explained_together_on_the_same_images_only(tiny, batch, black):
    other = batch._replace(ids=batch.ids + 1)
    with pytest.raises(ValueError, match="same images"):
        maps_together([Subject(estimators("grad"), tiny, each, black) for each in (batch, other)])


# --- noise as a parameter, and the copies that keep their class


def test_noise_of_a_name_is_the_noise_of_its_copies(tiny, batch, black):
    names = ("var-grad(noise=0.05)", "var-grad", "sgsq-grad(noise=0.3)", "grad")
    found = importance_maps(estimators(*names), tiny, batch, black)

    def gradients(noise: float) -> np.ndarray:
        copies = [noisy_copies(batch.images, batch.ids, j, SEED, noise) for j in range(SAMPLES)]
        return np.stack(
            [importance_maps(estimators("grad"), tiny, batch._replace(images=x), black)["grad"] for x in copies]
        )

    for name, expected in {
        "var-grad(noise=0.05)": gradients(0.05).var(0),
        "var-grad": gradients(0.15).var(0),
        "sgsq-grad(noise=0.3)": (gradients(0.3) ** 2).mean(0),
    }.items():
        np.testing.assert_allclose(found[name].numpy(), expected, rtol=1e-9, atol=1e-12)
    for name in names:  # what else is asked for changes no bit
        alone = importance_maps(estimators(name), tiny, batch, black)[name]
        torch.testing.assert_close(found[name], alone, rtol=0, atol=0)


def test_samples_steps_and_baseline_of_a_name_are_what_is_computed(tiny, batch, black):
    names = ("sgsq-grad(noise=0.1,samples=4)", "ig(steps=7,baseline=mean)", "ig(baseline=blur)", "ig", "sgsq-grad")
    found = importance_maps(estimators(*names), tiny, batch, black)

    def gradient(images: Tensor) -> Tensor:
        return importance_maps(estimators("grad"), tiny, batch._replace(images=images), black)["grad"]

    def path(start: Tensor, steps: int) -> Tensor:
        points = [start + i / steps * (batch.images - start) for i in range(1, steps + 1)]
        return (batch.images - start) * torch.stack([gradient(point) for point in points]).mean(0)

    copies = [gradient(noisy_copies(batch.images, batch.ids, j, SEED, 0.1)) ** 2 for j in range(4)]
    expected = {
        "sgsq-grad(noise=0.1,samples=4)": torch.stack(copies).mean(0),
        "ig(steps=7,baseline=mean)": path(torch.zeros_like(batch.images), 7),
        "ig(baseline=blur)": path(blurred(batch.images), IG_STEPS),
    }
    for name, maps in expected.items():
        torch.testing.assert_close(found[name], maps, rtol=1e-9, atol=1e-12)
    for name in names:  # what else is asked for changes no bit
        alone = importance_maps(estimators(name), tiny, batch, black)[name]
        torch.testing.assert_close(found[name], alone, rtol=0, atol=0)


class BrightOrDark(nn.Module):
    """Puts an image into class 1 if its mean is above 0, else into class 0."""

    def forward(self, images: Tensor) -> Tensor:
        mean = images.relu().mean((1, 2, 3)) - (-images).relu().mean((1, 2, 3))
        return torch.stack((-mean, mean), 1)


@pytest.mark.parametrize("names", [("var-grad",), ("grad", "sg-ig", "var-gb~blurred", "sgsq-grad(noise=2)")])
def test_copies_that_keep_their_class_are_counted(names, batch, black):
    told: list[Explained] = []
    targets = (batch.images.mean((1, 2, 3)) > 0).long()
    targets[0] = 1 - targets[0]  # a class that the model does not predict is kept by the other copies
    asked = batch._replace(targets=targets)
    importance_maps(estimators(*names), BrightOrDark().eval(), asked, black, note=told.append)
    (noted,) = told
    assert noted.images == len(batch.ids)
    assert set(noted.kept) == {name for name in names if name != "grad"}
    for name, kept in noted.kept.items():
        noise = find_estimator(name).value("noise")
        copies = [noisy_copies(batch.images, batch.ids, j, SEED, noise) for j in range(SAMPLES)]
        expected = sum(((copy.mean((1, 2, 3)) > 0).long() == targets).long() for copy in copies)
        torch.testing.assert_close(kept, expected, rtol=0, atol=0)
    assert 0 < sum(int(kept.sum()) for kept in noted.kept.values()) < len(noted.kept) * SAMPLES * len(batch.ids)


def test_counts_of_a_batch_that_was_cut_come_in_order(tiny, batch, black):
    whole, halves = list[Explained](), list[Explained]()
    names = estimators("var-grad")
    importance_maps(names, tiny, batch, black, note=whole.append)
    importance_maps(names, Small(tiny, 1, []).eval(), batch, black, note=halves.append)
    assert [each.images for each in halves] == [1, 1, 1]
    joined = torch.cat([each.kept["var-grad"] for each in halves])
    torch.testing.assert_close(joined, whole[0].kept["var-grad"], rtol=0, atol=0)
