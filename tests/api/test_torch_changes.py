"""Functions that change torch for the whole process are refused and undone; modes of the caller have no effect."""

import contextlib
import copy
import re
import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captum.attr import (
    DeepLift,
    FeaturePermutation,
    GuidedBackprop,
    InputXGradient,
    NoiseTunnel,
    Saliency,
)
from captum.module import GaussianStochasticGates
from torch import nn
from torch.nn import functional as F
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode

import roarbench as rb
from roarbench.api.call_guard import list_foreign_functions, read_functions, restore_functions
from roarbench.api.explainers import make_batch_per_network
from roarbench.api.read_explainers import read_explainers
from roarbench.api.torch_settings import read_settings, restore_settings, set_neutral_settings
from roarbench.compute.networks import StridedProjection, build_network
from tests.helpers.user_networks import WithChangedOutput

IMAGES = torch.randn(24, 2, 6, 6, generator=torch.Generator().manual_seed(1))
LABELS = np.arange(24) % 2
pytestmark = pytest.mark.filterwarnings("ignore:.* not significantly above chance")


class Net(nn.Module):
    """A network with a class, a function and a table of its own module."""

    def __init__(self):
        super().__init__()
        self.norm, self.head = nn.LayerNorm([2, 6, 6]), nn.Linear(72, 2)

    def forward(self, images):
        return 5 * self.head(ACTIVATIONS["gelu"](scale(self.norm(images))).flatten(1))


def scale(images):
    return F.gelu(2 * images)


ACTIVATIONS = {"gelu": torch.tanh}


def make_networks():
    torch.manual_seed(0)
    return [Net().eval() for _ in range(3)]


@pytest.fixture
def networks():
    return make_networks()


def compute_gradient(model, images, targets):
    images = images.clone().requires_grad_()
    return torch.autograd.grad(model(images).gather(1, targets[:, None]).sum(), images)[0] * images


def half(*args, **options):
    return torch.zeros(24, 72)


def replace(owner, name):
    """Return a function that explains images, and replaces a function for the whole process."""

    def mine(model, images, targets):
        setattr(owner, name, half) if not isinstance(owner, dict) else owner.update({name: half})
        return images

    return mine


REPLACED = {
    "class": (nn.LayerNorm, "forward", "torch.nn.modules.normalization.LayerNorm.forward"),
    "call": (nn.Module, "__call__", "torch.nn.modules.module.Module.__call__"),
    "function": (F, "gelu", "torch.nn.functional.gelu"),
    "builtin": (torch, "softmax", "torch.softmax"),
    "method": (torch.Tensor, "softmax", "torch.Tensor.softmax"),  # hides the method of the parent class
    "subclass": (nn.LayerNorm, "__call__", "torch.nn.modules.normalization.LayerNorm.__call__"),
    "own class": (Net, "forward", "Net.forward"),
    "own function": (None, "scale", f"{__name__}.scale"),
    "NumPy": (np, "put_along_axis", "numpy.put_along_axis"),  # without which no table could be right
    "own table": (ACTIVATIONS, "gelu", "ACTIVATIONS['gelu']"),
}


@pytest.mark.parametrize("case", REPLACED)
def test_replaced_functions_are_put_back_and_refused(networks, case):
    owner, name, title = REPLACED[case]
    owner = owner or sys.modules[__name__]
    before = dict(owner) if isinstance(owner, dict) else dict(vars(owner))
    with pytest.raises(rb.CallerError, match="mine replaced .*; put the originals back") as error:
        rb.own_network_gain(networks, IMAGES, {"grad": "grad", "mine": replace(owner, name)})
    assert title in str(error.value) and "\n" not in str(error.value)
    assert (dict(owner) if isinstance(owner, dict) else dict(vars(owner))) == before


@pytest.mark.parametrize("operator", ["gelu", "gelu_backward"])  # changes logits; changes gradients alone
def test_replaced_operators_are_refused(networks, operator):
    """No attribute of Python shows such a replacement."""
    library = torch.library.Library("aten", "IMPL")

    def mine(model, images, targets):
        library.impl(operator, lambda first, *rest, **options: first * 0, "CPU", allow_override=True)
        return images

    try:
        with warnings.catch_warnings(), pytest.raises(rb.CallerError, match="has other logits or gradients"):
            warnings.simplefilter("ignore")  # of torch
            rb.own_network_gain(networks, IMAGES, {"mine": mine})
    finally:
        library._destroy()


def test_changes_of_other_networks_without_effect_are_undone(networks):
    def mine(model, images, targets):
        networks[2].head.register_forward_hook(lambda layer, inputs, output: None)
        return compute_gradient(model, images, targets)

    rb.own_network_gain(networks, IMAGES, {"mine": mine})
    assert not networks[2].head._forward_hooks


def test_changes_of_other_networks_are_refused_and_undone(networks):
    before = [network.head.weight.clone() for network in networks]

    def mine(model, images, targets):
        networks[2].head.weight.data += 1
        return images

    with pytest.raises(rb.CallerError, match="mine modified a network that it does not explain"):
        rb.own_network_gain(networks, IMAGES, {"mine": mine})
    assert all(torch.equal(network.head.weight, weight) for network, weight in zip(networks, before, strict=True))


def test_function_that_puts_its_patch_back_changes_no_other_row(networks):
    def mine(model, images, targets):
        forward = nn.LayerNorm.forward
        nn.LayerNorm.forward = lambda self, images: images
        try:
            return compute_gradient(model, images, targets)
        finally:
            nn.LayerNorm.forward = forward

    alone = rb.own_network_gain(networks, IMAGES, ["grad", "input-x-grad"]).to_dataframe()
    beside = rb.own_network_gain(networks, IMAGES, {"mine": mine, "grad": "grad", "input-x-grad": "input-x-grad"})
    gains = beside.to_dataframe().set_index("estimator")["gain"]
    assert alone.set_index("estimator")["gain"].to_dict().items() <= gains.to_dict().items()


def test_torch_itself_replaces_no_function(networks):
    """Libraries and torch's compiler wrap functions lazily, which is no fault of an explainer."""
    bundled = build_network("resnet-quick", 10, 3, 64, torch.Generator())  # has layers that name torch's module
    assert any(type(module) is StridedProjection for module in bundled.modules())
    assert list_foreign_functions([*networks, bundled]) == []
    before = read_functions(networks)
    torch.fx.symbolic_trace(nn.Sequential(nn.Linear(2, 2)))
    Saliency(networks[0]).attribute(IMAGES.clone().requires_grad_(), target=1)
    assert restore_functions(before) == []
    nn.Module.added_by_a_library = half
    try:
        assert restore_functions(before) == [] and list_foreign_functions(networks) == []
    finally:
        del nn.Module.added_by_a_library


def test_wrapper_of_lightning_causes_no_warning(networks, monkeypatch):
    space = {}
    file = "/elsewhere/site-packages/lightning/fabric/wrappers.py"
    exec(compile("def capture(*values):\n    return values", file, "exec"), space)
    monkeypatch.setattr(torch, "compile", space["capture"])
    assert list_foreign_functions(networks) == []


@pytest.mark.parametrize(
    ("owner", "name", "title"),
    [
        (nn.LayerNorm, "forward", "torch.nn.modules.normalization.LayerNorm.forward"),
        (F, "gelu", "torch.nn.functional.gelu"),
        (GaussianStochasticGates, "forward", "captum.module.gaussian_stochastic_gates.GaussianStochasticGates.forward"),
    ],
)
def test_functions_replaced_before_the_call_cause_a_warning(networks, monkeypatch, owner, name, title):
    file = f"{Path(rb.__file__).parent}_rules/gelu.py" if owner is F else "/elsewhere/site-packages/lxt/rules.py"
    code = compile("def forward(*values):\n    return values[-1]", file, "exec")
    space = {}
    exec(code, space)
    networks[0].gates = GaussianStochasticGates(1)  # a class of an installed package
    monkeypatch.setattr(owner, name, space["forward"])
    with pytest.warns(UserWarning, match=f"^{re.escape(title)} had been replaced by another package before this call"):
        rb.perturbation_curve(networks[0], IMAGES, LABELS, IMAGES, levels=(0.5,))


SETTINGS = {
    "gradients": lambda: torch.set_grad_enabled(False),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16).__enter__(),
    "the default dtype": lambda: torch.set_default_dtype(torch.float64),
    "the default device": lambda: torch.set_default_device("meta"),
    "anomaly detection": lambda: torch.autograd.set_detect_anomaly(True),
    "deterministic algorithms": lambda: torch._C._set_deterministic_algorithms(
        True
    ),  # the public function imports a compiler
    "the number of threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "denormal numbers": lambda: torch.set_flush_denormal(True),
    "precision and kernels": lambda: torch.set_float32_matmul_precision("medium"),
    "the kernels of attention": lambda: torch.backends.cuda.enable_flash_sdp(False),
    "the hooks of all modules": lambda: modules.register_module_forward_hook(lambda *rest: None),
    "the hooks of saved tensors": lambda: torch.autograd.graph.save_on_cpu().__enter__(),
}


def read_torch():
    """Return settings, each read in its own way."""
    return {
        "grad": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "autocast": torch.is_autocast_enabled("cpu"),
        "open contexts of autocast": (torch.autocast_increment_nesting(), torch.autocast_decrement_nesting()),
        "default": (torch.get_default_dtype(), torch.ones(1).device, torch.empty(1).dtype),
        "anomaly": torch.is_anomaly_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "threads": torch.get_num_threads(),
        "denormal": float(torch.tensor(1e-310, dtype=torch.float64, device="cpu") * 1),
        "matmul": torch.get_float32_matmul_precision(),
        "attention": torch.backends.cuda.flash_sdp_enabled(),
        "hooks": len(modules._global_forward_hooks),
        "saved": torch._C._autograd._top_saved_tensors_default_hooks(True),
    }


@pytest.mark.parametrize("title", SETTINGS)
def test_settings_that_a_function_leaves_are_restored_and_refused(networks, title):
    def mine(model, images, targets):
        SETTINGS[title]()
        return images

    before = read_torch()
    with pytest.raises(rb.CallerError, match=f"mine changed .*{title}.* of torch; change settings in a `with` block"):
        rb.own_network_gain(networks, IMAGES, {"mine": mine})
    assert read_torch() == before


CALLER = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "anomaly": torch.autograd.detect_anomaly,
    "device": lambda: torch.device("meta"),
}


def compute_all_results(networks):
    estimators = {"ixg": "input-x-grad", "captum": InputXGradient, "mine": compute_gradient}
    table = rb.check(networks[0], IMAGES, LABELS, estimators, networks[1:], fills=("mean",))
    curve = rb.perturbation_curve(networks[0], IMAGES, LABELS, IMAGES, levels=(0.5,))
    own = rb.own_network_gain(networks, IMAGES, estimators)
    removed = rb.remove(IMAGES, IMAGES, 0.3).tolist()
    return repr((table.to_dataframe().to_dict(), curve, own.to_dataframe().to_dict(), removed))


@pytest.fixture(scope="module")
def results_without_modes():
    return compute_all_results(make_networks())


@pytest.mark.filterwarnings("ignore:Anomaly Detection has been enabled")
@pytest.mark.parametrize("mode", CALLER)
def test_modes_of_the_caller_change_no_result(networks, results_without_modes, mode):
    with CALLER[mode]():
        before = read_torch()
        assert compute_all_results(networks) == results_without_modes
        assert str(read_torch()) == str(before)


def use_double():
    torch.set_default_dtype(torch.float64)
    return contextlib.ExitStack()


def test_weights_rounded_to_the_dtype_of_a_function_are_forgotten():
    layer, images = nn.Linear(4, 4), torch.ones(2, 4)
    with torch.autocast("cpu"), set_neutral_settings():  # in a caller's context, torch keeps rounded weights
        before = read_settings()
        torch.set_autocast_dtype("cpu", torch.float16)
        with torch.autocast("cpu"):
            layer(images)
        assert restore_settings(before) == ["autocast"]
        with torch.autocast("cpu", torch.bfloat16):
            assert layer(images).dtype is torch.bfloat16


@pytest.mark.parametrize("mode", [torch.inference_mode, CALLER["autocast"], use_double])
def test_modes_of_the_caller_change_no_suite_from_arrays(tmp_path, mode):
    """A suite's version is a hash of the arguments, of the network's weights and of a trial of its training."""
    network, drawing = nn.Sequential(nn.Flatten(), nn.Linear(192, 2)), np.random.default_rng(0)
    train, test = ((drawing.normal(size=(40, 3, 8, 8)).clip(-1, 1), np.arange(40) % 2) for _ in range(2))

    def make(folder):
        suite = rb.Suite.from_arrays(network, train, test, protocols=["matched"], store=tmp_path / folder)
        return suite.version, suite.warnings

    expected = make("first")
    with mode():
        before = read_torch()
        try:
            assert make("second") == expected
            assert str(read_torch()) == str(before)
        finally:
            torch.set_default_dtype(torch.float32)


def test_default_dtype_of_the_caller_changes_no_result(networks):
    expected = repr(rb.own_network_gain(networks, IMAGES, {"mine": compute_gradient}))
    torch.set_default_dtype(torch.float64)
    try:
        assert repr(rb.own_network_gain(networks, IMAGES, {"mine": compute_gradient})) == expected
        assert torch.get_default_dtype() is torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


class Doubling(TorchFunctionMode):
    def __torch_function__(self, function, kinds, args=(), options=None):
        return function(*args, **(options or {}))


def test_modes_that_replace_operations_are_refused(networks):
    with Doubling(), pytest.raises(rb.CallerError, match="Doubling is active, which changes what torch computes"):
        rb.own_network_gain(networks, IMAGES, ["grad"])


def test_transforms_of_torch_func_are_refused(networks):
    def call(x):
        rb.own_network_gain(networks, IMAGES, ["grad"])
        return x

    with pytest.raises(rb.CallerError, match="a transform of torch.func .* is active, which"):
        torch.func.vmap(call)(torch.ones(2))


def subtract_batch_mean(model, images, targets):
    return images - images.mean(0)


def divide_by_batch_deviation(model, images, targets):
    return (images / images.std()).round()


def use_batch_statistics(model, images, targets):
    return F.batch_norm(compute_gradient(model, images, targets), None, None, training=True)


def add_logits_of_all_targets(model, images, targets):
    images = images.clone().requires_grad_()
    return torch.autograd.grad(model(images)[:, targets].sum(), images)[0]


def call_captum(model):
    return FeaturePermutation(model)


def noise_tunnel(model):
    return NoiseTunnel(Saliency(model))


def draw_unseeded(model, images, targets):
    return images + torch.from_numpy(np.random.default_rng().normal(size=images.shape))


def sort_by_target(model, images, targets):
    order = targets.argsort()
    return compute_gradient(model, images[order], targets[order])


def group_by_target(model, images, targets):
    """Return maps class by class, in the order in which classes occur, not in the order of the images."""
    classes = dict.fromkeys(targets.tolist())
    return torch.cat([compute_gradient(model, images[targets == c], targets[targets == c]) for c in classes])


@pytest.mark.filterwarnings(
    "ignore:more than 50% of the features", "ignore:the maps of .* are the same for all networks"
)
@pytest.mark.parametrize(
    "mine",
    [
        *(subtract_batch_mean, divide_by_batch_deviation, use_batch_statistics, FeaturePermutation, call_captum),
        *(sort_by_target, group_by_target),
        *(
            lambda m, x, t: compute_gradient(m, x, t[:1].expand(len(x))),
            lambda m, x, t: compute_gradient(m, x, t[-1:].expand(len(x))),
        ),
        *(lambda m, x, t: compute_gradient(m, x, t.flip(0)), add_logits_of_all_targets),
    ],
)
def test_maps_that_depend_on_other_images_cause_a_warning(networks, mine):
    with pytest.warns(UserWarning, match="an image's map by mine depends on other images of its batch"):
        rb.own_network_gain(networks, IMAGES, {"mine": mine})


def keep_maps_by(read_key):
    """Return a function that computes maps once for each key, and returns them for all later batches of this key."""
    kept = {}

    def mine(model, images, targets):
        key = read_key(images, targets)
        if key not in kept:
            kept[key] = compute_gradient(model, images, targets)
        return kept[key]

    return mine


KEPT_OR_PLACED = {
    "kept by shape": lambda: keep_maps_by(lambda images, targets: images.shape),
    "kept by id": lambda: keep_maps_by(lambda images, targets: (id(images), len(images))),
    "kept by id of targets": lambda: keep_maps_by(lambda images, targets: (id(targets), len(targets))),
    "kept by address": lambda: keep_maps_by(lambda images, targets: (images.data_ptr(), len(images))),
    "kept by targets": lambda: keep_maps_by(lambda images, targets: tuple(targets.tolist())),
    "first labels": lambda: lambda m, x, t: compute_gradient(m, x, torch.arange(len(x)) // 2 % 2),
    "one noise": lambda: lambda m, x, t: torch.rand(x.shape, generator=torch.Generator().manual_seed(0)),
}


def test_functions_may_return_one_array_again(networks, monkeypatch):
    """On a GPU, a batch of a suite's size is explained in several calls."""
    held = np.zeros((2, 2, 6, 6), np.float32)

    def mine(model, images, targets):
        held[: len(images)] = compute_gradient(model, images, targets).detach()
        return held[: len(images)]

    explained = read_explainers({"mine": mine}, IMAGES, 3)
    (batch, *_) = make_batch_per_network(networks, IMAGES, torch.zeros(24, dtype=torch.long), torch.arange(24))
    monkeypatch.setattr("roarbench.api.explainers._EXPLAINED_PIXELS", 2 * 36)
    maps = explained.make_maps_in_calling_thread(batch)["mine"]
    torch.testing.assert_close(maps, compute_gradient(networks[0], IMAGES, batch.targets).detach())


@pytest.mark.filterwarnings("ignore:the maps of .* are the same for all networks")
@pytest.mark.parametrize("kind", KEPT_OR_PLACED)
def test_maps_that_depend_on_place_or_an_earlier_batch_cause_a_warning(networks, kind):
    with pytest.warns(
        UserWarning, match="an image's map by mine depends on the image's place .*, or on an earlier batch"
    ):
        rb.own_network_gain(networks, IMAGES, {"mine": KEPT_OR_PLACED[kind]()})


class OfFirstCall:
    """A function that keeps the target of its first call for all later calls."""

    def __call__(self, model, images, targets):
        self.target = getattr(self, "target", targets[0])
        return compute_gradient(model, images, self.target.expand(len(images)))


def use_logits_of_object(model, images, targets):
    images = images.clone().requires_grad_()
    return torch.autograd.grad(model(images).logits[:, 1].sum(), images)[0]


OTHER_CLASSES = {
    "class 0": lambda m, x, t: compute_gradient(m, x, 0 * t),
    "sorted labels": lambda m, x, t: compute_gradient(m, x, torch.ones(24, dtype=torch.long)[: len(x)]),
    "first call": OfFirstCall(),
    "runner-up": lambda m, x, t: compute_gradient(m, x, m(x).argsort(1)[:, -2]),
    "next class": lambda m, x, t: compute_gradient(m, x, (t + 1) % 2),
}


@pytest.mark.parametrize("kind", OTHER_CLASSES)
def test_maps_of_a_class_that_is_not_the_target_cause_a_warning(networks, kind):
    with pytest.warns(UserWarning, match="map by mine is of another class than the target"):
        rb.own_network_gain(networks, IMAGES, {"mine": OTHER_CLASSES[kind]})


def compute_gradient_of_loss(model, images, targets):
    images = images.clone().requires_grad_()
    return torch.autograd.grad(F.cross_entropy(model(images), targets), images)[0]


LOSSES = [
    compute_gradient_of_loss,
    lambda m, x, t: -compute_gradient(m, x, t).sum(1),
    lambda m, x, t: (x * compute_gradient_of_loss(m, x, t)).sum(1, keepdim=True),
]


@pytest.mark.parametrize("mine", LOSSES)
def test_gradients_of_the_loss_cause_a_warning(networks, mine):
    with pytest.warns(UserWarning, match="map by mine is the gradient of the loss, or of minus the logit"):
        rb.own_network_gain(networks, IMAGES, {"mine": mine})


def test_maps_of_another_class_of_a_network_with_logits_object_cause_a_warning(networks):
    wrapped = [WithChangedOutput(network, lambda y: SimpleNamespace(logits=y)) for network in networks]
    with pytest.warns(UserWarning, match="map by mine is of another class than the target"):
        rb.own_network_gain(wrapped, IMAGES, {"mine": use_logits_of_object})


def read_last_layer(model, images, targets):
    """Explain class 0 of the last layer, whose output a hook keeps, as captum's `NeuronGradient(model, layer)` does."""
    images, kept = images.clone().requires_grad_(), []
    with model[-1].register_forward_hook(lambda *call: kept.append(call[2])):
        model(images)
    return torch.autograd.grad(kept[0][:, 0].sum(), images)[0]


def test_maps_of_another_class_that_are_read_from_the_last_layer_cause_a_warning():
    torch.manual_seed(0)
    networks = [nn.Sequential(nn.Flatten(), nn.Linear(72, 8), nn.Tanh(), nn.Linear(8, 2)) for _ in range(3)]
    with pytest.warns(UserWarning, match="map by mine is of another class than the target"):
        rb.own_network_gain(networks, IMAGES, {"mine": read_last_layer})


class HeadCalledOtherwise(nn.Module):
    """Its head's output is the logits, but the head runs twice, or gets its input by name."""

    def __init__(self, twice):
        super().__init__()
        self.twice, self.body, self.head = twice, nn.Linear(72, 3), nn.Linear(3, 3)

    def forward(self, x):
        hidden = self.body(x.flatten(1))
        return self.head(F.relu(self.head(hidden))) if self.twice else self.head(input=hidden)


@pytest.mark.parametrize(
    ("twice", "mine", "warns"),
    [
        (True, lambda m, x, t: compute_gradient(m, x, m(x).argmax(1)), False),
        (True, OTHER_CLASSES["class 0"], True),
        (False, OTHER_CLASSES["class 0"], True),
    ],
)
def test_classes_are_told_apart_if_the_last_layer_runs_twice_or_takes_its_input_by_name(twice, mine, warns):
    torch.manual_seed(0)
    networks = [HeadCalledOtherwise(twice)]
    for _ in range(2):  # networks that mostly agree
        networks.append(copy.deepcopy(networks[0]))
        with torch.no_grad():
            for values in networks[-1].parameters():
                values.add_(0.02 * torch.randn_like(values))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rb.own_network_gain(networks, IMAGES, {"mine": mine})
    assert any("map by mine is of another class" in str(each.message) for each in caught) is warns


def test_evaluate_warns_of_maps_of_another_class_and_of_exchanged_axes(tmp_path, monkeypatch):
    def mine(model, images, targets):
        warnings.simplefilter("ignore")  # hides no warning about this function
        return compute_gradient(model, images, 0 * targets)

    monkeypatch.setattr("roarbench.api.evaluate._Evaluation.evaluate_all", lambda *rest: None)
    suite = rb.load_suite("planted", tmp_path)
    with pytest.warns(UserWarning, match="map by mine is of another class than the target"):
        rb.evaluate(suite, {"mine": mine}, quiet=True)
    with pytest.warns(UserWarning, match="map by mine follows a change of .* seems to be transposed"):
        rb.evaluate(suite, {"mine": lambda model, images, targets: images.transpose(2, 3)}, quiet=True)


@pytest.mark.filterwarnings("ignore:the maps of .* are the same for all networks")
def test_functions_that_ignore_warnings_or_change_numpy_hide_no_fault(networks):
    def mine(model, images, targets):
        warnings.filterwarnings("ignore")
        np.seterr(all="raise")
        return subtract_batch_mean(model, images, targets)

    before = np.geterr()
    with pytest.warns(UserWarning, match="an image's map by mine depends on other images of its batch"):
        rb.own_network_gain(networks, IMAGES, {"mine": mine, "sobel": "sobel"})
    assert np.geterr() == before
    with np.errstate(all="raise"):
        rb.own_network_gain(networks, IMAGES, {"grad": "grad"})
        assert np.geterr()["under"] == "raise"


def smooth(model, images, targets):
    """SmoothGrad with a generator of its own, so that noise belongs to a place."""
    generator = torch.Generator().manual_seed(0)
    return compute_gradient(model, images + 0.3 * torch.randn(images.shape, generator=generator), targets)


def use_hook_of_images(model, images, targets):
    images.requires_grad_().register_hook(lambda gradient: 2 * gradient)
    model(images).gather(1, targets[:, None]).sum().backward()
    return images.grad


def use_weights_of_predicted_class(model, images, targets):
    """Class activation maps (CAM): the last layer's weights times its input."""
    predicted, features = model(images).argmax(1), 5 * model.norm(images)
    return (model.head.weight[predicted] * features.flatten(1)).reshape(images.shape)


def weight_classes_by_probability(model, images, targets):
    weights = model(images).softmax(1) @ model.head.weight
    return (weights * model.norm(images).flatten(1)).reshape(images.shape)


def weigh_pixels(model, images, targets):
    return model.head.weight[targets].reshape(images.shape) * images


def mark_centre(model, images, targets):
    return -torch.linspace(-1, 1, 6).abs().expand(images.shape)


def test_maps_that_cannot_be_repeated_cause_a_warning(networks):
    with pytest.warns(UserWarning, match="an image's map by mine differs from call to call"):
        rb.own_network_gain(networks, IMAGES, {"mine": draw_unseeded})


@pytest.mark.parametrize(
    "mine",
    [
        *(compute_gradient, noise_tunnel, smooth, mark_centre, use_hook_of_images, weigh_pixels),
        *(use_weights_of_predicted_class, weight_classes_by_probability),
        *(lambda m, x, t: x + torch.rand(x.shape), lambda m, x, t: torch.rand(x.shape)),
        *(lambda m, x, t: compute_gradient(m, x, m(x).argmax(1)), Saliency),
        lambda m, x, t: compute_gradient_of_loss(m, x, t).abs(),
    ],
)
def test_maps_of_single_images_cause_no_warning(networks, mine):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", "the maps of mine are the same for all networks")
        rb.own_network_gain(networks, IMAGES, {"mine": mine})


@pytest.mark.parametrize("turn", [lambda y: y.mT, lambda y: y.flip(2), lambda y: y.flip(3), lambda y: y.flip(2, 3)])
def test_maps_that_are_transposed_or_mirrored_cause_a_warning(networks, turn):
    with pytest.warns(UserWarning, match="by mine follows a change of .* it seems to be transposed, mirrored or"):
        rb.own_network_gain(networks, IMAGES, {"mine": lambda m, x, t: turn(weigh_pixels(m, x, t))})


class WithFunctions(nn.Module):
    """A network whose activations are functions, as those of GoogLeNet and the last one of DenseNet are."""

    def __init__(self, act):
        super().__init__()
        self.first, self.second, self.head = nn.Conv2d(2, 8, 3), nn.Conv2d(8, 8, 3), nn.Linear(32, 2)
        self.act, self.last = act, nn.ReLU()

    def forward(self, images):
        values = self.last(self.second(self.act(self.first(images))))
        return self.head(values.flatten(1))


def pool(values):
    return F.max_pool2d(values, 3, stride=1, padding=1)


@pytest.mark.parametrize("act", [F.relu, lambda x: x.relu_(), torch.tanh, pool, nn.ReLU()])
@pytest.mark.parametrize("mine", [GuidedBackprop, DeepLift, Saliency, InputXGradient])
@pytest.mark.filterwarnings("ignore:Setting (forward, )?backward hooks", "ignore:more than 50%")
def test_rules_that_reach_modules_alone_cause_a_warning(act, mine, recwarn):
    """captum's guided backprop of DenseNet-121 lacks one ReLU, that of GoogLeNet nearly is the gradient."""
    torch.manual_seed(0)
    model = WithFunctions(act).eval()
    rb.check(model, IMAGES, LABELS, {"mine": mine}, fills=("mean",))
    missed = [
        warning for warning in recwarn if "by mine misses activations or pools that the network" in str(warning.message)
    ]
    has_rule = mine is DeepLift or (act not in (torch.tanh, pool) and mine is GuidedBackprop)
    assert bool(missed) is (has_rule and not isinstance(act, nn.Module))
    assert [name for name, _ in model.named_children()][:3] == ["first", "second", "head"] and len(model._modules) < 6


@pytest.mark.filterwarnings("ignore:Setting (forward, )?backward hooks", "ignore:the network classifies")
def test_compiled_network_causes_the_warning_and_is_explained_by_other_rows():
    torch.manual_seed(0)
    model = torch.compile(WithFunctions(F.relu).eval(), backend="eager")
    with pytest.warns(UserWarning, match="by mine misses activations"):
        found = rb.check(model, IMAGES, LABELS, {"mine": GuidedBackprop, "lrp": "lrp"}, fills=("mean",))
    alone = rb.check(model._orig_mod, IMAGES, LABELS, ["lrp"], fills=("mean",))
    assert found.gain("morf mean", "lrp") == alone.gain("morf mean", "lrp")


def use_activation(model, images, targets):
    """Multiply the gradient by a function of an activation, which is called within the network's forward pass."""
    seen = []
    with model[0].register_forward_hook(lambda module, inputs, output: seen.append(torch.sigmoid(output))):
        return compute_gradient(model, images, targets) * seen[0].mean((1, 2, 3), keepdim=True)


def explain_without_last(model, images, targets):
    features = nn.Sequential(*list(model.children())[:-1])
    return compute_gradient(features, images, 0 * targets) * model[-1].weight[0, 0]


@pytest.mark.parametrize("mine", [Saliency, InputXGradient, use_activation, explain_without_last, GuidedBackprop])
@pytest.mark.filterwarnings("ignore:Setting (forward, )?backward hooks", "ignore:the network classifies")
def test_only_rules_cause_the_warning_of_a_network_that_calls_its_parts_in_a_row(mine, recwarn):
    """A module more in a `Sequential` would be one more layer."""
    torch.manual_seed(0)
    parts = (nn.Conv2d(2, 8, 3), WithFunction(torch.tanh), WithFunction(F.relu), nn.Flatten(), nn.Linear(128, 2))
    model = nn.Sequential(*parts).eval()
    rb.check(model, IMAGES, LABELS, {"mine": mine}, fills=("mean",))
    assert any("misses" in str(each.message) for each in recwarn) is (mine is GuidedBackprop)
    assert len(model) == 5 and not model._forward_pre_hooks


class WithFunction(nn.Module):
    """A module that calls a function."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, values):
        return self.function(values)


def keep_hooks(change):
    """Return a function that adds a hook in its first call alone, as an object of grad-cam that is kept."""
    seen = {}

    def mine(model, images, targets):
        if model not in seen:
            model.norm.register_forward_hook(lambda module, inputs, output: seen.update({model: output}))
        return change(model(images), seen[model], targets)

    return mine


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda logits, kept, targets: kept.detach(), "depends on its place in the batch"),
        (
            lambda logits, kept, targets: torch.autograd.grad(logits.sum(), kept)[0],
            "raised RuntimeError: .*; correct it",
        ),
    ],
)
def test_functions_that_keep_hooks_are_refused(networks, change, words):
    """Batches of two images, as of 224 pixels, all got the maps of the first two."""
    with pytest.raises(rb.CallerError, match=f"{words}.* add hooks anew in each call"):
        rb.own_network_gain(networks, IMAGES, {"mine": keep_hooks(change)})


def test_maps_without_any_order_are_refused(networks):
    """For example an attention rollout over no attentions."""
    with pytest.raises(rb.CallerError, match="same importance in the maps of all 16 images tried"):
        rb.own_network_gain(networks, IMAGES, {"mine": lambda model, images, targets: torch.zeros(images.shape)})


def test_single_maps_without_any_order_cause_a_warning(networks):
    """For example a class-activation map without a positive part; the first two images have such maps."""

    def mine(model, images, targets):
        is_empty = (images[:, None] == IMAGES[:2]).flatten(2).all(2).any(1)
        return compute_gradient(model, images, targets) * ~is_empty[:, None, None, None]

    with pytest.warns(UserWarning, match="2 of 24 maps of mine have the same value everywhere"):
        rb.check(networks[0], IMAGES, torch.arange(24) % 2, {"mine": mine})


def test_evaluate_warns_of_functions_that_get_too_few_images(tmp_path, monkeypatch):
    """A suite explains one image at a time by functions that draw random numbers; one image cannot be permuted."""
    monkeypatch.setattr("roarbench.api.evaluate._Evaluation.evaluate_all", lambda *rest: None)
    suite = rb.load_suite("digits", tmp_path)
    with pytest.warns(UserWarning, match="same importance in the maps of 4 noise images by mine; .*FeaturePermutation"):
        rb.evaluate(suite, {"mine": FeaturePermutation}, quiet=True)
