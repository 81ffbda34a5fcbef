"""`check`, `own_network_gain` and `perturbation_curve` check networks and restore them and random generators."""

import copy
import random
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from captum.attr import GuidedGradCam, IntegratedGradients, NoiseTunnel, Saliency
from torch import nn

import roarbench as rb
from roarbench.api.call_guard import CallGuard
from roarbench.api.user_networks import warn_if_at_chance
from roarbench.compute.network_checks import describe_changed_gradient
from roarbench.submissions.network_changes import NetworkState
from tests.helpers.user_networks import WithChangedOutput

IMAGES = torch.randn(24, 2, 6, 6, generator=torch.Generator().manual_seed(1))
LABELS = np.arange(24) % 2
pytestmark = pytest.mark.filterwarnings(
    "ignore:the network classifies .* not significantly above chance",
    "ignore:network . predicts the (right )?class .* not significantly above chance",  # untrained
)

API_CALLS = {
    "curve": lambda one, others: rb.perturbation_curve(one, IMAGES, LABELS, IMAGES, levels=(0.5,)),
    "check": lambda one, others: rb.check(one, IMAGES, LABELS, ["grad"], fills=("mean",)),
    "siblings": lambda one, others: rb.check(others[0], IMAGES, LABELS, ["grad"], [others[1], one], fills=("mean",)),
    "own-network": lambda one, others: rb.own_network_gain([*others[:2], one], IMAGES, "grad"),
}


@pytest.fixture(params=API_CALLS)
def judge(request, networks):
    """Return a function that passes a network to one function of the API."""
    return lambda one: API_CALLS[request.param](one, networks)


def return_logits_object(model):
    """Wrap a network so that it returns an object with `logits`, as those of Hugging Face do."""
    return WithChangedOutput(model, lambda y: SimpleNamespace(logits=y))


def test_network_with_logits_object_matches_inner_network(judge, networks):
    assert repr(judge(return_logits_object(networks[2]))) == repr(judge(networks[2]))


def test_layer_tracing_estimators_unwrap_logits_object(networks):
    names, last = ["gb", "deeplift"], (networks[2], return_logits_object(networks[2]))
    one, other = (rb.own_network_gain([*networks[:2], each], IMAGES, names).to_dataframe() for each in last)
    assert one.equals(other)


class WithLogitsObject(nn.Module):
    """A network that is called as those of Hugging Face are."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, pixel_values, output_features=False):
        features = self.body[0](pixel_values)
        return SimpleNamespace(logits=self.body[1:](features), features=features if output_features else None)


def compute_gradient(model, inputs, targets):
    inputs = inputs.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(model(inputs).gather(1, targets[:, None]).sum(), inputs)
    return gradient


@pytest.mark.filterwarnings("ignore:Setting backward hooks on ReLU activations")
@pytest.mark.filterwarnings("ignore:more than 50% of the features in the maps of captum")
def test_functions_get_own_network_that_returns_logits_object(networks):
    def mine(model, inputs, targets):
        assert type(model) is WithLogitsObject
        logits = model.body(inputs)
        assert torch.equal(model(inputs), logits) and torch.equal(model(inputs).logits, logits)
        assert model(inputs).features is None  # as attentions of transformers, a field of the network's own output
        assert torch.equal(model(pixel_values=inputs).logits, logits)
        whole = model(inputs, output_features=True)
        assert isinstance(whole, SimpleNamespace) and torch.equal(model.body[1:](whole.features), logits)
        return compute_gradient(model, inputs, targets)

    given = list(map(WithLogitsObject, networks))
    found = rb.own_network_gain(
        given, IMAGES, {"mine": mine, "captum": lambda model: GuidedGradCam(model, model.body[0])}
    )
    plain = {"mine": compute_gradient, "captum": lambda model: GuidedGradCam(model, model[0])}
    assert repr(found) == repr(rb.own_network_gain(networks, IMAGES, plain)) and found.gain("mine").value != 0
    assert not any(module._forward_hooks for model in given for module in model.modules())
    assert isinstance(given[0](IMAGES), SimpleNamespace)


class Averaged(WithChangedOutput):
    """The `eval` of ema_pytorch's wrapper leaves the wrapper itself in training mode."""

    def eval(self):
        return self.model.eval()


def test_network_whose_eval_reaches_the_network_inside_alone(networks):
    given = [Averaged(copy.deepcopy(each), lambda y: y).train() for each in networks]
    assert repr(rb.own_network_gain(given, IMAGES, ["grad"])) == repr(rb.own_network_gain(networks, IMAGES, ["grad"]))
    assert all(module.training for each in given for module in each.modules())


def test_functions_that_index_the_output_of_transformers_get_a_remedy(networks):
    def mine(model, inputs, targets):
        return torch.autograd.grad(model(inputs.requires_grad_())[0][:, 0].sum(), inputs)[0]

    with pytest.raises(rb.CallerError, match=r"mine raised IndexError: .*; model\(images\) is its logits here"):
        rb.check(WithLogitsObject(networks[0]), IMAGES, LABELS, {"mine": mine})


@pytest.mark.parametrize("change", [lambda y: y[:, 0], lambda y: SimpleNamespace(logits=y[:, :1])])
def test_functions_get_own_network_with_one_logit(networks, change):
    def mine(model, inputs, targets):
        assert type(model) is WithChangedOutput and model(inputs).shape == (len(inputs), 2)
        z = model.model(inputs)[:, 0]
        torch.testing.assert_close(model(inputs), torch.stack([-z / 2, z / 2], 1))
        return compute_gradient(model, inputs, targets)

    given = [WithChangedOutput(model, change) for model in networks]
    found = rb.check(given[0], IMAGES, LABELS, {"mine": mine, "captum": Saliency, "grad": "grad"}, given[1:])
    gains = found.to_dataframe().set_index("estimator")
    assert gains.loc["mine"].tolist() == pytest.approx(gains.loc["grad"].tolist(), abs=1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda one: nn.Sequential(nn.ReLU(inplace=True), one), "modifies its input images in place"),
        (lambda one: copy.deepcopy(one).to("meta"), "is on the device meta, .*; build the network on the CPU"),
        (lambda one: lambda x: one(x), "is a function, expected a torch.nn.Module$"),
        (
            lambda one: SimpleNamespace(module_=one),
            "is a SimpleNamespace, expected a torch.nn.Module; pass its .module_$",
        ),
        (lambda one: torch.export.export(one, (IMAGES,)), r"is an ExportedProgram, .*; pass its \.module\(\)$"),
    ],
)
def test_api_functions_reject_unusable_networks(judge, networks, change, words):
    with pytest.raises(rb.CallerError, match=words):
        judge(change(networks[2]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_api_functions_copy_network_to_float32(judge, networks, dtype):
    given = copy.deepcopy(networks[2]).to(dtype)
    expected = judge(copy.deepcopy(given).float())
    words = f"has weights in {str(dtype).removeprefix('torch.')}; a copy in float32 is used"
    with pytest.warns(UserWarning, match=words):
        found = judge(given)
    assert repr(found) == repr(expected) and next(given.parameters()).dtype is dtype


def read_generators():
    return torch.get_rng_state().tolist(), repr(np.random.get_state()), random.getstate()  # noqa: NPY002


def compute_noisy_gradient_and_freeze(model, images, targets):
    """Leave gradients in the network, freeze it, and draw from every global generator."""
    inputs = images.requires_grad_()
    model(inputs).gather(1, targets[:, None]).sum().backward()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    noise = torch.rand(inputs.shape) + random.random() * torch.from_numpy(np.random.rand(*inputs.shape))  # noqa: NPY002
    return inputs.grad + noise


def make_noise_tunnel(model):
    return NoiseTunnel(IntegratedGradients(model))


def keep_one_logit(model):
    return WithChangedOutput(model, lambda y: y[:, :1] - 0.3)


@pytest.mark.filterwarnings("ignore:a single class is predicted")
@pytest.mark.parametrize("wrap", [nn.Sequential, keep_one_logit])
@pytest.mark.parametrize("mine", [compute_noisy_gradient_and_freeze, make_noise_tunnel, "grad"])
def test_api_functions_restore_networks_or_random_generators(networks, mine, wrap):
    models = [wrap(copy.deepcopy(each)) for each in networks]
    next(models[0].parameters()).grad = torch.ones_like(next(models[0].parameters()))
    weights = [each.clone() for each in models[0].parameters()]
    before = read_generators()
    rb.check(models[0], IMAGES, LABELS, {"mine": mine}, models[1:], levels=(0.3,), fills=("mean",))
    rb.own_network_gain(models, IMAGES, {"mine": mine})
    rb.perturbation_curve(models[0], IMAGES, LABELS, IMAGES)
    assert read_generators() == before
    assert all(each.training for each in models)
    assert all(each.requires_grad for model in models for each in model.parameters())
    first, *others = (each.grad for model in models for each in model.parameters())
    assert (first == 1).all() and all(each is None for each in others)
    assert all(map(torch.equal, models[0].parameters(), weights))


@pytest.mark.parametrize("module", [nn.BatchNorm2d(2), nn.Dropout(), nn.Identity()])
def test_saved_maps_of_networks_in_training_mode_cause_a_warning(networks, module, recwarn):
    models, maps = [nn.Sequential(copy.deepcopy(module), each).train() for each in networks], [IMAGES] * 3
    calls = (
        lambda: rb.perturbation_curve(models[0], IMAGES, LABELS, IMAGES, levels=(0.5,)),
        lambda: rb.check(models[0], IMAGES, LABELS, {"saved": IMAGES}, fills=("mean",)),
        lambda: rb.own_network_gain(models, IMAGES, {"saved": maps}),
    )
    line = f"a network was in training mode ({type(module).__name__}), and is used in eval mode; compute the maps after"
    for call, mode in ((call, mode) for call in calls for mode in (True, False)):
        for model in models:
            model.train(mode)
        recwarn.clear()
        call()
        warned = any(str(each.message).startswith(line) for each in recwarn)
        assert warned == (mode and not isinstance(module, nn.Identity))
    recwarn.clear()
    API_CALLS["check"](models[0].train(), ())  # a function or an estimator computes its maps in eval mode
    assert not any("training mode" in str(each.message) for each in recwarn)


@pytest.mark.filterwarnings("ignore:the maps of .* are the same for all networks")
def test_check_gives_functions_same_noise_for_each_call_and_network(networks):
    estimators = {
        "global": lambda model, images, targets: torch.rand(images.shape),
        "own": lambda model, images, targets, generator: torch.rand(images.shape, generator=generator),
    }
    once = rb.check(networks[0], IMAGES, LABELS, estimators, networks[1:], levels=(0.3,))
    torch.rand(3)
    again = rb.check(networks[0], IMAGES, LABELS, estimators, networks[1:], levels=(0.3,))
    assert once.to_dataframe().equals(again.to_dataframe())
    assert not any(once.own_network.gains[name] for name in estimators)  # 0 by construction


def replace_parameter(model):
    model[0].weight = nn.Parameter(model[0].weight.detach() + 1)


def patch_forward(model):
    model[0].forward = torch.zeros_like


def count_calls(model):
    model.calls, model.tables["seen"] = 1, [1]
    model.register_forward_pre_hook(lambda module, inputs: None)
    model.config.output_attentions = model.config.parts[0].eager = True


def store_parameters_anew(model):
    for module in model.modules():
        for name, parameter in module.named_parameters(recurse=False):
            setattr(module, name, nn.Parameter(parameter.detach().clone()))


class WithSettings(nn.Module):
    """A layer whose number, tensor and function are plain attributes."""

    def __init__(self):
        super().__init__()
        self.scale, self.shift, self.function = 1.0, torch.zeros(2), torch.sin

    def forward(self, logits):
        return self.function(logits * self.scale + self.shift)


def read_everything(model):
    """Return ids and values of what a network holds, by module, found by a walk of its own."""
    state = {}
    for path, module in model.named_modules():
        state |= {(path, "kind"): type(module), (path, "training"): module.training}
        state |= {(path, name): id(value) for name, value in vars(module).items() if name != "training"}
        for table in ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks"):
            state |= {(path, table, key): id(value) for key, value in getattr(module, table).items()}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        state[name] = (tensor.data_ptr() if tensor.layout is torch.strided else 0), repr(tensor), id(tensor.grad)
    config = vars(model).get("config")
    return state, repr(config), repr(vars(model).get("tables"))


@pytest.mark.parametrize(
    "change",
    [
        count_calls,
        store_parameters_anew,
        lambda model: model.train(),
        lambda model: model.append(nn.Identity()),
        lambda model: nn.utils.parametrizations.weight_norm(model[0]),
        lambda model: model.requires_grad_(False),
        lambda model: model(IMAGES).sum().backward(),
        lambda model: model.double().float(),
        lambda model: model[-1].sparse.mul_(0),  # `torch.equal` does not support sparse tensors
        lambda model: model.tables["layers"].clear(),
        lambda model: model.tables["array"].fill(7),
    ],
)
def test_changes_without_effect_on_outputs_are_undone(networks, change):
    """transformers adds hooks that only record, zennit 1.0.0 replaces parameters, networks keep caches."""
    model = copy.deepcopy(networks[0]).eval()
    model[-1].register_buffer("sparse", torch.tensor([[0, 1.5], [torch.nan, 0]]).to_sparse())
    model.config = SimpleNamespace(output_attentions=False, parts=[SimpleNamespace(eager=False)])
    model.tables = {"layers": [model[0]], "array": np.zeros(3), "names": {"a", "b"}}
    next(model.parameters()).grad = torch.ones_like(next(model.parameters()))
    before, optimiser = read_everything(model), torch.optim.SGD(model.parameters(), 1)
    with CallGuard([model]).protect("mine", 0, IMAGES):
        change(model)
        assert read_everything(model) != before
    assert read_everything(model) == before
    optimiser.zero_grad()
    nn.functional.cross_entropy(model(IMAGES), torch.from_numpy(LABELS)).backward()
    assert all(each.grad is not None for each in optimiser.param_groups[0]["params"])


@pytest.mark.parametrize(
    "change",
    [
        lambda model: next(model.parameters()).data.add_(1),
        lambda model: model.half(),
        lambda model: model.to("meta"),
        replace_parameter,
        lambda model: model[1].register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 0,)),
        lambda model: model.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,)),
        lambda model: model[0].register_forward_hook(lambda module, inputs, output: output * 0),
        patch_forward,
        lambda model: model.set_submodule("1", nn.Tanh()),
        lambda model: model.append(nn.Softmax(1)),
        lambda model: vars(model[0]).update(dilation=(2, 2), padding=(1, 1)),
        lambda model: setattr(model[-1], "scale", 2.0),
        lambda model: setattr(model[-1], "shift", torch.ones(2)),
        lambda model: setattr(model[-1], "function", torch.tanh),
    ],
)
def test_changes_of_network_are_refused_and_undone(networks, change):
    model = copy.deepcopy(networks[0]).eval().append(WithSettings())
    model[-1].register_buffer("sparse", torch.tensor([[0, 1.5], [torch.nan, 0]]).to_sparse())
    with CallGuard([model]).protect("mine", 0, IMAGES):
        logits = model(IMAGES)
    before, layers = {name: value.clone() for name, value in model.state_dict().items()}, list(model)
    words = r"^mine modified the model \(weights, mode, hooks, methods or modules\); undo this at the end, or work"
    with pytest.raises(rb.CallerError, match=words), CallGuard([model]).protect("mine", 0, IMAGES):
        change(model)
    torch.testing.assert_close(dict(model.state_dict()), before, rtol=0, atol=0, equal_nan=True)
    assert list(model) == layers and torch.equal(model(IMAGES), logits)
    assert all("forward" not in vars(layer) and not layer._backward_hooks for layer in layers)


@pytest.mark.parametrize(
    "call",
    [
        lambda networks, estimators: rb.check(networks[0], IMAGES, LABELS, estimators),
        lambda networks, estimators: rb.own_network_gain(networks, IMAGES, estimators),
    ],
)
def test_functions_that_leave_a_hook_are_refused(networks, call):
    """The caller's own hook stays."""
    networks, seen = copy.deepcopy(networks), []
    networks[0][0].register_forward_hook(lambda module, inputs, output: seen.append(len(output)))

    def mine(model, images, targets):
        model[0].register_forward_hook(lambda module, inputs, output: output * 0)
        return images

    with pytest.raises(rb.CallerError, match="mine modified the model"):
        call(networks, {"mine": mine})
    seen.clear()
    assert networks[0](IMAGES).abs().sum() > 0 and seen == [24]


def test_changes_of_network_are_undone_after_exception():
    model = nn.Linear(2, 2)
    with pytest.raises(ZeroDivisionError), CallGuard([model]).protect("mine", 0, IMAGES):
        model.register_forward_hook(lambda module, inputs, output: output * 0)
        print(1 / 0)
    assert not model._forward_hooks


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("freeze", [lambda model: model, torch.jit.freeze])
def test_script_modules_count_as_unchanged(freeze):
    model = freeze(torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU()).eval()))
    state = NetworkState.read(model)
    with CallGuard([model]).protect("mine", 0, IMAGES):
        model(torch.ones(1, 2))
    assert state.has_same_outputs()


def clamp_gradient_of_first_layer(model):
    changed = copy.deepcopy(model)
    changed[0].register_full_backward_hook(lambda layer, inputs, outputs: (inputs[0].clamp(min=0),))
    return changed


class StraightThrough(torch.autograd.Function):
    """A ReLU that lets every gradient through."""

    @staticmethod
    def forward(context, values):
        return values.clamp(min=0)

    @staticmethod
    def backward(context, gradient):
        return gradient


class WithStraightThrough(nn.Module):
    def forward(self, values):
        return StraightThrough.apply(values)


class WithRoundedValues(nn.Module):
    """Quantises in steps, with the gradient of the identity, as training for few bits does."""

    def forward(self, values):
        return values + (values.round() - values).detach()


def detach_half(model):
    class Half(nn.Module):
        def forward(self, images):
            return images / 2 + images.detach() / 2

    return nn.Sequential(Half(), copy.deepcopy(model))


def keep_from_copies(model):
    """A network that holds a lock cannot be copied."""
    rounded = nn.Sequential(WithRoundedValues(), *model)
    rounded.lock = threading.Lock()
    return rounded


def hook_tensor(model):
    class Hooked(nn.Module):
        def forward(self, values):
            if values.requires_grad:
                values.register_hook(torch.relu)
            return values

    return nn.Sequential(model[0], Hooked(), *model[1:])


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (clamp_gradient_of_first_layer, "backward hooks of '0'"),
        (lambda one: nn.Sequential(one[0], WithStraightThrough(), *one[2:]), "a hook, detach, or an operation"),
        (lambda one: nn.Sequential(WithRoundedValues(), *one), "a hook, detach, or an operation"),
        (detach_half, "a hook, detach"),
        (keep_from_copies, "a hook, detach"),
        (hook_tensor, "a hook, detach"),
    ],
)
def test_gradient_that_is_not_the_derivative_is_reported(judge, networks, change, cause):
    with pytest.warns(
        UserWarning, match=f"the gradient of (the )?network.* is not the derivative .* because of {cause}"
    ):
        judge(change(networks[2]))


class Converted(nn.Module):
    """A network that converts its images or its logits, as code for mixed precision does."""

    def __init__(self, network, before=lambda x: x, after=lambda y: y):
        super().__init__()
        self.network, self.before, self.after = network, before, after

    def forward(self, images):
        return self.after(self.network(self.before(images)))


CONVERSIONS = {
    "float": (torch.Tensor.float,),
    "to": (lambda x: x.to(torch.float32),),
    "type": (lambda x: x.type(dtype=torch.float32),),
    "logits": (lambda x: x, lambda y: y.float()),
    "softmax": (lambda x: x, lambda y: torch.softmax(y, 1, dtype=torch.float32) - 0.1),
}


@pytest.mark.parametrize("conversion", CONVERSIONS)
def test_conversions_within_a_network_hide_no_changed_gradient(networks, conversion):
    for change in (clamp_gradient_of_first_layer, detach_half):
        changed = Converted(change(networks[2]), *CONVERSIONS[conversion])
        assert "is not the derivative of its logits" in describe_changed_gradient(changed, IMAGES)
    assert describe_changed_gradient(Converted(networks[2], *CONVERSIONS[conversion]), IMAGES) == ""


@pytest.mark.parametrize("convert", [lambda one: torch.jit.trace(one, IMAGES[:2]), torch.jit.script])
@pytest.mark.filterwarnings("ignore:.torch.jit", "error:The .grad attribute")
def test_copies_of_scripts_cause_no_warning_of_torch(networks, convert):
    assert describe_changed_gradient(convert(networks[0].eval()), IMAGES) == ""


class WithCounter(Converted):
    """Counts its calls in a buffer, which changes no logits, and has a sparse buffer."""

    def __init__(self, network):
        super().__init__(network)
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("sparse", torch.eye(2).to_sparse())

    def forward(self, images):
        self.calls += 1
        return super().forward(images)


def test_buffers_that_passes_change_are_not_changes_of_a_function(networks):
    """Passes of `grad` count, too, before the function is called for the second network."""

    def multiply(model, images, targets):
        images = images.requires_grad_()
        return images * torch.autograd.grad(model(images).gather(1, targets[:, None]).sum(), images)[0]

    calls = []  # a function that left changes would be called again in another order

    def weigh(model, images, targets):
        calls.append(len(images))
        return images * next(model.parameters()).flatten()[: images[0].numel()].view_as(images[0]).detach()

    estimators = {"grad": "grad", "mine": multiply, "weights": weigh}
    plain = rb.own_network_gain(networks, IMAGES, estimators)
    calls_of_plain = [*calls]
    counting = rb.own_network_gain(map(WithCounter, networks), IMAGES, estimators)
    assert plain.to_dataframe().equals(counting.to_dataframe()) and calls == 2 * calls_of_plain


@pytest.mark.parametrize("act", [nn.GELU, nn.Softplus, nn.LeakyReLU, lambda: nn.MaxPool2d(1)])
def test_gradient_that_is_the_derivative_is_not_reported(networks, act):
    network = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), act(), *networks[0][2:])
    network[2].register_full_backward_hook(lambda layer, inputs, outputs: None)  # only looks
    assert describe_changed_gradient(network.eval(), IMAGES) == ""


class DoubleAlone(torch.autograd.Function):
    """The identity; the gradient of a single image is doubled."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * (2 if len(gradient) == 1 else 1)


def test_gradient_that_is_wrong_for_a_single_image_alone_is_named(networks):
    """As torch's own is, of batch norm before a transposed view (findings/torch-batch-norm-of-one-image.sh)."""
    network = Converted(networks[0], DoubleAlone.apply).eval()
    assert "is wrong for one image alone and right for two" in describe_changed_gradient(network, IMAGES)


@pytest.mark.parametrize("last", [nn.Softmax(1), nn.LogSoftmax(1)])
def test_saturated_probabilities_have_no_measured_derivative(networks, last):
    """The derivative of a probability near 1 drowns in the rounding of its differences."""
    confident = WithChangedOutput(networks[0], lambda y: 30 * y / y.detach().diff().abs()).eval()
    assert describe_changed_gradient(nn.Sequential(confident, last), IMAGES) == ""


def leave_early_together(model):
    """Take a short way if all images of a batch are easy, as one in six is."""

    class EarlyExit(nn.Module):
        def forward(self, images):
            easy = (images.mean((1, 2, 3)) > 0.1).all()
            return model(images) * (0.5 if easy else 1)

    return EarlyExit()


def drop_rest_of_parts(model):
    class InParts(nn.Module):
        def forward(self, images):
            logits, rest = model(images), len(images) % 4
            return torch.cat([logits[: len(images) - rest], 0 * logits[len(images) - rest :]])

    return InParts()


@pytest.mark.parametrize("change", [leave_early_together, drop_rest_of_parts])
def test_networks_whose_logits_depend_on_a_batch_are_refused(judge, networks, change):
    """The first four images, and 24 images in one batch, show neither."""
    with pytest.raises(rb.CallerError, match="gives an image different logits alone than in a batch"):
        judge(change(networks[2]))


@pytest.mark.parametrize("judged", ["check", "own-network"])
def test_network_that_changes_during_the_call_is_refused(networks, judged):
    """A counter in Python changes the logits at the end, as a schedule does."""
    calls = []

    def change(logits, last=10**9):
        calls.append(1)
        return logits if len(calls) < last else -logits

    API_CALLS[judged](WithChangedOutput(networks[2], change), networks)
    late = len(calls) - 2
    calls.clear()
    with pytest.raises(rb.CallerError, match="gives the same images other logits than at the start of this call"):
        API_CALLS[judged](WithChangedOutput(networks[2], lambda y: change(y, late)), networks)


@pytest.mark.parametrize(("axes", "warned"), [((0, 2, 3, 1), True), ((0, 1, 2, 3), False)])
def test_images_with_channels_last_cause_a_warning(recwarn, axes, warned):
    class Permuted(nn.Module):
        def forward(self, images):
            return images.permute(*np.argsort(axes).tolist())

    model = nn.Sequential(Permuted(), nn.Flatten(), nn.Linear(3 * 36, 2))
    rb.check(model, torch.rand(24, 3, 6, 6).permute(*axes), LABELS, ["grad"], fills=("mean",))
    assert any("are read as 6 channels of 6 x 3 pixels" in str(each.message) for each in recwarn) == warned


@pytest.mark.parametrize(("right", "end"), [(57, "weights, or pass more images, also of rare"), (53, "weights$")])
def test_warning_of_network_not_proved_above_chance_names_few_images(right, end):
    """Of 60 images, 53 are of class 0: a network that is right on 57 may be good, one that is right on 53 is not."""
    labels = np.repeat([0, 1], [53, 7])
    with pytest.warns(UserWarning, match=f"{right} of 60 images .* chance of 88.3% .* normalisation, labels and {end}"):
        warn_if_at_chance(np.arange(60) < right, labels, 2)


@pytest.mark.filterwarnings("ignore:a single class is predicted", "ignore:more than 50%")
def test_network_that_the_caller_changed_since_the_last_call_is_traced_anew():
    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(n, 8, 3, padding=1), nn.ReLU()) for n in (2, 8, 8)]
    model = nn.Sequential(nn.Sequential(*blocks[:2]), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2)).eval()

    def check(network, *names):
        network[3].bias.data -= network(IMAGES).mean(0)  # so that both classes are predicted
        return repr(rb.check(network, IMAGES, LABELS, names, levels=np.arange(1, 20) / 20, fills=("mean",)))

    before = check(model, "gradcam", "lrp")
    model[0].append(blocks[2])
    after = check(model, "gradcam", "lrp")
    assert after == check(copy.deepcopy(model), "gradcam", "lrp") and after != before
    model.register_forward_hook(lambda module, inputs, logits: 2 * logits)  # torch.fx does not trace it
    with pytest.raises(rb.CallerError, match="lrp cannot follow the network"):
        check(model, "lrp")
