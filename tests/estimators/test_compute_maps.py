"""The paper's 18 estimators match captum; passes, lack of memory, shared noise, and parameters of names."""

import numpy as np
import pytest
import torch
from captum.attr import GuidedBackprop, IntegratedGradients, Saliency
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from roarbench.common.enums import PAPER_LEVELS, Precision, Unit
from roarbench.common.errors import MachineError
from roarbench.compute.external_networks import MakeContiguous
from roarbench.compute.networks import build_network
from roarbench.compute.ranking import Layout, read_bin_codes
from roarbench.estimators import compute_maps
from roarbench.estimators.catalogue import ESTIMATORS, PAPER_IDS, count_passes, find_estimator
from roarbench.estimators.compute_maps import (
    MapRequest,
    MapTask,
    PassReport,
    RunningMoments,
    compute_importance_maps,
    compute_maps_of_tasks,
    compute_shared_pass_maps,
)
from roarbench.estimators.estimator import CONTROLS, IG_STEPS, NOISE, SAMPLES, SEED, Batch, Passes, blur
from roarbench.estimators.random_draws import make_noisy_copies
from tests.helpers.networks import (
    CountingPasses,
    Small,
    assert_near,
    importance,
    make_residual_network,
    make_smooth_images,
)
from tests.helpers.trainings import encoded, seeded


def find_estimators(*names):
    return [find_estimator(name) for name in names]


def explain_and_report(*tasks):
    """Return the maps of the tasks, and the reports of each batch."""
    told: list[list[PassReport]] = []
    return compute_maps_of_tasks(tasks, report_passes=told.append), told


@pytest.mark.parametrize(
    ("names", "forward", "backward"),
    [
        (PAPER_IDS, 400, 416),  # docs/protocol.md, section 3
        (("grad", "grad-sq", "sgsq-grad", "var-grad", "ig", "gb"), 15 + 25, 15 + 25 + 1),
        (("gb", "grad-sq"), 1, 2),
        (("grad", "var-grad", "var-grad(noise=0.05)", "sgsq-grad(noise=0.05)~blurred"), 1 + 15 + 15, 1 + 15 + 15),
        (("sgsq-ig(samples=4,steps=50)",), 200, 200),
        (CONTROLS, 0, 0),
    ],
)
def test_count_passes_equals_passes_of_network(names, forward, backward, tiny, batch, black):
    counting = CountingPasses(tiny).eval()
    compute_importance_maps(find_estimators(*names), counting, batch, black)
    n = len(batch.ids)
    assert (counting.forwards, counting.backwards) == (forward * n, backward * n)
    assert count_passes(find_estimators(*names)) == Passes(forward, backward)
    assert count_passes(find_estimators("grad", "gb~untrained")) == Passes(2, 2)  # of two networks


def compute_captum_base(base, model, images, targets, black):
    # a copy, because the batch fixture is shared by all tests
    inputs = images.clone(memory_format=torch.contiguous_format).requires_grad_()
    if base == "grad":
        return Saliency(model).attribute(inputs, target=targets, abs=False)
    if base == "gb":
        return GuidedBackprop(model).attribute(inputs, target=targets)
    baselines = black.expand(images.shape[1:])[None]
    steps = {"method": "riemann_right", "n_steps": IG_STEPS}
    found = IntegratedGradients(model).attribute(inputs, baselines=baselines, target=targets, **steps)
    # captum 0.9 rounds the step size 1/25 to float32 in every precision: 2e-8 too much on each value
    return found * (1 / IG_STEPS / float(np.float32(1 / IG_STEPS)))


SLOW = {  # from the clean map and the array of noisy ones (docs/protocol.md, section 3)
    "base": lambda clean, noisy: clean,
    "squared": lambda clean, noisy: clean * clean,
    "smooth": lambda clean, noisy: sum(noisy) / 15,
    "smooth-squared": lambda clean, noisy: (sum(noisy) / 15) ** 2,
    "smoothed-square": lambda clean, noisy: sum(g * g for g in noisy) / 15,
    "variance": lambda clean, noisy: np.var(noisy, axis=0),
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU")  # captum's, on each guided backprop
@pytest.mark.parametrize("base", ["grad", "gb", "ig"])
def test_paper_estimators_match_captum_bases_combined(base, model, batch, black):
    assert {row.form for row in map(ESTIMATORS.get, PAPER_IDS) if row.base == base} == set(SLOW)
    copies = [batch.images, *(make_noisy_copies(batch.images, batch.ids, j, SEED, NOISE) for j in range(SAMPLES))]
    clean, *noisy = (compute_captum_base(base, model, copy, batch.targets, black).detach().numpy() for copy in copies)
    (found,) = compute_shared_pass_maps([MapRequest({(base, form) for form in SLOW}, model, batch, black)])
    for form, slow in SLOW.items():
        # 1e-10 of the largest value: some hundred summands in each layer and 25 points lose 2 to 4 digits of float64
        assert_near(found.maps[base, form], torch.from_numpy(slow(clean, np.stack(noisy))), 1e-10)


@given(
    values=st.lists(st.lists(st.floats(-10, 10), min_size=3, max_size=3), min_size=1, max_size=20),
    offset=st.sampled_from([0.0, 1e6]),
)
def test_running_moments_match_numpy(values, offset):
    samples = np.array(values) + offset
    moments = RunningMoments(torch.zeros(3, dtype=torch.float64))
    for sample in samples:
        moments.add(torch.from_numpy(sample))
    # with an offset of 1e6 and values of 10 the variance keeps 16 - 5 digits of 1e2; a sum of squares would keep 4
    np.testing.assert_allclose(moments.compute_form("variance"), samples.var(axis=0), rtol=0, atol=1e-7)
    np.testing.assert_allclose(moments.compute_form("smooth"), samples.mean(axis=0), rtol=1e-14, atol=1e-12)
    squares = (samples**2).mean(axis=0)
    np.testing.assert_allclose(moments.compute_form("smoothed-square"), squares, rtol=1e-13, atol=1e-12)


@pytest.mark.slow
def test_bf16_maps_use_bf16_passes_and_float32_sums():
    """The reference computes each pass under autocast and all sums over passes in float64."""
    model, drawn = make_residual_network(torch.float32), make_smooth_images(2, torch.float32)
    short = model, drawn, (black := torch.tensor([-2.1, -2.0, -1.8])[:, None, None])

    def gradient(images):
        inputs = images.detach().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(inputs)
        return torch.autograd.grad(logits.float().gather(1, drawn.targets[:, None]).sum(), inputs)[0].double()

    lasting = drawn.images.contiguous(memory_format=torch.channels_last)
    copies = torch.stack([gradient(make_noisy_copies(lasting, drawn.ids, j, SEED, NOISE)) for j in range(SAMPLES)])
    path = [gradient(torch.lerp(black, lasting, i / IG_STEPS)) for i in range(1, IG_STEPS)] + [gradient(lasting)]
    expected = {
        "grad": path[-1],
        "sg-grad": copies.mean(0),
        "sgsq-grad": (copies**2).mean(0),
        "var-grad": copies.var(0, correction=0),
        "ig": (drawn.images - black) * torch.stack(path).mean(0),
        **compute_importance_maps(find_estimators("random", "sobel", "gradcam"), *short),  # float32 in any case
    }
    found = compute_importance_maps(find_estimators(*expected, "grad~blurred"), *short, Precision.BF16)
    torch.testing.assert_close(found["grad~blurred"], blur(found["grad"]), rtol=0, atol=0)
    for name, maps in expected.items():  # float32 sums of 25 terms; bfloat16 sums would be off by 1e-2
        torch.testing.assert_close(found[name].double(), maps.double(), rtol=1e-4, atol=1e-6 * maps.abs().max().item())


@pytest.mark.parametrize(
    "error", [None, MemoryError(), torch.OutOfMemoryError("CUDA out of memory"), RuntimeError("not enough memory")]
)
def test_batches_are_halved_until_they_fit_in_memory(error, tiny, batch, black):
    small = Small(tiny, 2, error).eval()  # a single image passes twice
    names = ("random", "grad", "gb", "truth", "sobel", "input-x-grad", "var-grad(samples=2)")
    (found,), told = explain_and_report(MapTask(find_estimators(*names), small, batch, black))
    assert small.seen[0] == 3 and max(small.seen[1:]) == 2
    assert [each.images for (each,) in told] == [1, 2]  # batches that did not fit are not counted
    (expected,), ((whole,),) = explain_and_report(MapTask(find_estimators(*names), tiny, batch, black))
    stable_copies = torch.cat([each.stable_copies[names[-1]] for (each,) in told])
    assert torch.equal(stable_copies, whole.stable_copies[names[-1]])
    for name in names:  # other batch sizes sum in another order
        torch.testing.assert_close(found[name], expected[name], rtol=1e-10, atol=1e-12)


def test_gradient_of_a_single_image_is_right_behind_batch_norm_and_a_transpose():
    """torch 2.13 computes another gradient for one image alone (findings/torch-batch-norm-of-one-image.sh)."""
    norm, image = nn.BatchNorm2d(3), torch.randn(1, 3, 12, 12, generator=seeded(0), dtype=torch.float64)
    norm.running_var.uniform_(0.5, 2.0, generator=seeded(1))
    weights = torch.randn(144, 3, generator=seeded(2), dtype=torch.float64)  # of the tokens

    class Tokens(nn.Module):
        def forward(self, x):
            return (x.flatten(2).transpose(1, 2) * weights).sum((1, 2))[:, None]

    model = nn.Sequential(MakeContiguous(), norm, Tokens()).double().eval()
    found = importance("grad", model, Batch(image, torch.zeros(1, dtype=torch.int64), torch.arange(1)))
    scale = (norm.running_var + norm.eps).rsqrt()[:, None, None]
    torch.testing.assert_close(found, weights.T.view(1, 3, 12, 12) * scale)


def test_maps_raise_errors_that_smaller_batches_cannot_avoid(tiny, batch):
    with pytest.raises(MachineError, match="one image of 3 x 12 x 12") as caught:
        importance("grad", Small(tiny, 0).eval(), batch)
    assert "\n" not in str(caught.value)
    small = Small(tiny, 0, RuntimeError("shape")).eval()
    with pytest.raises(RuntimeError, match="shape"):
        importance("grad", small, batch)
    assert small.seen == [3]
    model = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.LazyLinear(5)).eval()
    model[0].train()
    with pytest.raises(ValueError, match=r"model\.eval\(\)"):
        importance("grad", model, batch)


@pytest.mark.gpu
def test_paper_maps_on_gpu_fall_into_bins_of_cpu_maps():
    """Float32 on both: only features that a rounding error moves over a bin's boundary may differ."""
    model, black = build_network("resnet8", 10, 3, 32, seeded(0)).eval(), torch.full((3, 1, 1), -2.0)
    drawn = Batch(torch.randn(8, 3, 32, 32, generator=seeded(1)), torch.arange(8), torch.arange(8))
    here = compute_importance_maps(find_estimators(*PAPER_IDS), model, drawn, black)
    there = compute_importance_maps(find_estimators(*PAPER_IDS), model.cuda(), drawn.to(torch.device("cuda")), black)
    layout = Layout((3, 32, 32), Unit.SCALAR, PAPER_LEVELS)
    for name in PAPER_IDS:
        one, other = (read_bin_codes(encoded(maps[name].cpu().numpy(), layout), layout) for maps in (here, there))
        assert (one == other).mean() > 0.999


def test_jointly_explained_tasks_equal_separate_maps_and_share_noise(tiny, model, batch, black, monkeypatch):
    drawn, draws = [], compute_maps.draw_normal_noise
    monkeypatch.setattr(compute_maps, "draw_normal_noise", lambda *asked: drawn.append(asked[2]) or draws(*asked))
    brighter = batch._replace(images=batch.images + 1, targets=batch.targets.flip(0))  # its own normalisation
    tasks = [
        MapTask(find_estimators("grad", "var-grad", "sobel"), tiny, batch, black),
        MapTask(find_estimators("sg-ig(noise=0.5)", "var-grad"), tiny, brighter, black + 1),
        MapTask(find_estimators("gb"), model, batch, black),  # without noisy copies
        MapTask(find_estimators("random"), None, batch, black),
    ]
    together, (noted,) = explain_and_report(*tasks)
    assert drawn == list(range(SAMPLES))
    assert [set(each.stable_copies) for each in noted] == [{"var-grad"}, {"sg-ig(noise=0.5)", "var-grad"}, set(), set()]
    for task, found, counted in zip(tasks, together, noted, strict=True):
        (alone,), ((counted_alone,),) = explain_and_report(task)
        torch.testing.assert_close(found, compute_importance_maps(*task), rtol=0, atol=0)
        torch.testing.assert_close(found, alone, rtol=0, atol=0)
        torch.testing.assert_close(counted.stable_copies, counted_alone.stable_copies, rtol=0, atol=0)


def test_parameters_of_estimator_name_set_samples_steps_and_baseline(tiny, batch, black):
    def gradient(images):
        return importance("grad", tiny, batch._replace(images=images), black)

    def path(start, steps):
        points = [start + i / steps * (batch.images - start) for i in range(1, steps + 1)]
        return (batch.images - start) * torch.stack([gradient(point) for point in points]).mean(0)

    copies = [gradient(make_noisy_copies(batch.images, batch.ids, j, SEED, 0.1)) ** 2 for j in range(4)]
    expected = {
        "sgsq-grad(noise=0.1,samples=4)": torch.stack(copies).mean(0),
        "ig(steps=7,baseline=mean)": path(torch.zeros_like(batch.images), 7),
        "ig(baseline=blur)": path(blur(batch.images), IG_STEPS),
    }
    found = compute_importance_maps(find_estimators(*expected, "ig", "grad"), tiny, batch, black)
    for name, maps in expected.items():
        torch.testing.assert_close(found[name], maps, rtol=1e-9, atol=1e-12)
    for name, maps in found.items():  # other requested estimators change no bit
        torch.testing.assert_close(importance(name, tiny, batch, black), maps, rtol=0, atol=0)


def test_pass_reports_count_noisy_copies_with_unchanged_class(tiny, batch, black):
    names = ("grad", "var-grad", "sg-ig", "var-gb~blurred", "sgsq-grad(noise=2)")
    asked = batch._replace(targets=tiny(batch.images).argmax(1))
    asked.targets[0] = tiny(batch.images[:1]).argmin()  # a class that the model does not predict
    _, ((noted,),) = explain_and_report(MapTask(find_estimators(*names), tiny, asked, black))
    assert set(noted.stable_copies) == {name for name in names if name != "grad"}
    for name, kept in noted.stable_copies.items():
        noise = find_estimator(name).get_value("noise")
        copies = [make_noisy_copies(batch.images, batch.ids, j, SEED, noise) for j in range(SAMPLES)]
        expected = sum((tiny(copy).argmax(1) == asked.targets).long() for copy in copies)
        torch.testing.assert_close(kept, expected, rtol=0, atol=0)
    unchanged = sum(int(kept.sum()) for kept in noted.stable_copies.values())
    assert 0 < unchanged < len(noted.stable_copies) * SAMPLES * len(batch.ids)
