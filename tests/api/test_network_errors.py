"""Networks of other origins work, or are refused in one line that names the estimator and keeps the exception."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import roarbench as rb

IMAGES = torch.randn(12, 3, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 3
pytestmark = [
    pytest.mark.filterwarnings("ignore:a single class is predicted"),
    pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad"),
]


class Network(nn.Module):
    """A small network; `around` calls its convolutions."""

    def __init__(self, around=lambda layers, x: layers(x)):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.ReLU())
        self.head, self.around = nn.Linear(4, 3), around

    def forward(self, x):
        return self.head(self.around(self.layers, x).mean((2, 3)))


class WithPositions(Network):
    """A network with scaled ReLUs of weights, as the position biases and scales of Swin transformers of version 2."""

    def __init__(self):
        super().__init__()
        self.scale, self.bias = nn.Parameter(torch.ones(())), nn.Parameter(torch.randn(5, 4))
        self.register_buffer("index", torch.arange(5))

    def forward(self, x):
        places = torch.clamp(self.index, max=3)
        bias = torch.relu(self.bias)[places].mean(0)
        return self.head(torch.clamp(self.scale, max=2.0) * self.layers(x).mean((2, 3)) + bias)


class WithNamedArgument(Network):
    def forward(self, x):
        return self.head(nn.functional.relu(input=self.layers[2](self.layers[:2](x))).mean((2, 3)))


class TokensFirst(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.patches, self.layer, self.head = nn.Conv2d(3, 8, 2, 2), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, x):
        tokens = self.patches(x).flatten(2).permute(2, 0, 1)
        return self.head((tokens + self.layer(tokens).relu()).mean(0))


def export(network):
    sizes = ({0: torch.export.Dim("n", min=1, max=512)},)
    return torch.export.export(network.eval(), (IMAGES[:4],), dynamic_shapes=sizes).module()


def make_under_inference_mode():
    with torch.inference_mode():
        return copy.deepcopy(Network())


def check(network, *estimators, **options):
    return rb.check(network, IMAGES, LABELS, list(estimators), fills=("mean",), **options)


def fail(model, images, targets):
    raise KeyError("a fault of the function")


def fail_later(model, images, targets):
    if len(images) > 2:
        raise IndexError("a fault with more images")
    return images


def name_no_parameters(*arguments, **options):
    return (lambda model, images, targets: images)(*arguments, **options)


def detach(layers, x):
    return layers(x.detach())


def compute_gradient_inside(layers, x):
    with torch.enable_grad():
        x = x if x.requires_grad else x.clone().requires_grad_()
        maps = layers(x)
        (slope,) = torch.autograd.grad(maps.sum(), x, create_graph=True)
    return maps + 0 * slope.sum()


def make_with_failing_hook():
    """Make a network whose hook expects what a pass in training mode keeps, as Opacus' GradSampleModule does."""
    network, kept = Network(), []
    network.layers[0].register_full_backward_hook(lambda *call: kept.pop())
    return network


REFUSED = {
    "backward hook": (make_with_failing_hook, "ig", "pop from empty list; backward hooks of 'layers.0' fail: remove"),
    "checkpoint, reentrant": (lambda: Network(lambda f, x: checkpoint(f, x, use_reentrant=True)), "grad",
        "grad raised RuntimeError: When use_reentrant=True.*; the network recomputes activations; switch its gradient"),
    "checkpoint": (lambda: Network(lambda f, x: checkpoint(f, x, use_reentrant=False)), "deeplift",
        "deeplift raised CheckpointError.*; the network recomputes activations; switch its gradient checkpointing off"),
    "detached": (lambda: Network(detach), "grad", "logits have no gradient.*; use an estimator without gradients"),
    "detached and frozen": (lambda: Network(detach).requires_grad_(False), "ig", "logits have no gradient"),
    "tokens first": (TokensFirst, "deeplift",
        r"network calls relu on a tensor whose first axis is not the images, \(16, 2, 8\) for two images; put the im"),
    "function": (Network, fail, "mine raised KeyError: 'a fault of the function'; correct it, or leave mine out"),
    "parameters without names": (Network, name_no_parameters, r"argument 'inputs'; write its parameters \(model, im"),
    "later batch": (Network, fail_later, "mine raised IndexError: a fault with more images; correct it"),
}  # fmt: skip


@pytest.mark.parametrize(("make", "estimator", "words"), REFUSED.values(), ids=REFUSED)
def test_exceptions_become_one_line_that_names_the_estimator(make, estimator, words):
    estimators = [estimator] if isinstance(estimator, str) else {"mine": estimator}
    with pytest.raises(rb.CallerError, match=words) as caught:
        rb.check(make(), IMAGES, LABELS, estimators, fills=("mean",))
    assert "\n" not in str(caught.value)
    assert caught.value.__cause__ is not None


WORKING = {
    "exported": (lambda: export(Network()), "occlusion"),
    "exported, gradient": (lambda: export(Network()), "ig"),
    "made under inference_mode": (make_under_inference_mode, "grad"),
    "clamped weights": (WithPositions, "deeplift"),
    "named argument": (WithNamedArgument, "deeplift"),
    "checkpoint": (lambda: Network(lambda f, x: checkpoint(f, x, use_reentrant=False)), "ig"),
    "gradient in its forward": (lambda: Network(compute_gradient_inside), "ig"),
}


@pytest.mark.parametrize(("make", "estimator"), WORKING.values(), ids=WORKING)
@pytest.mark.filterwarnings("ignore:the network has weights made under torch.inference_mode")
def test_networks_of_other_origins_are_explained(make, estimator):
    network = make()
    modes = [module.training for module in network.modules()]
    found = check(network, estimator)
    assert [module.training for module in network.modules()] == modes
    if not isinstance(network, WithPositions):
        assert found.to_dataframe().equals(check(Network(), estimator).to_dataframe())


def test_perturbation_curve_takes_exported_networks_and_names_their_limits():
    maps = torch.rand(12, 8, 8)
    assert rb.perturbation_curve(export(Network()), IMAGES, LABELS, maps) == rb.perturbation_curve(
        Network(), IMAGES, LABELS, maps
    )
    fixed = torch.export.export(Network().eval(), (IMAGES[:4],)).module()
    with pytest.raises(
        rb.CallerError, match="does not accept a batch of shape 12 x 3 x 8 x 8 .*; export it for any num"
    ):
        rb.perturbation_curve(fixed, IMAGES, LABELS, maps)
    few = torch.export.export(Network().eval(), (IMAGES[:4],), dynamic_shapes=({0: torch.export.Dim("n", max=13)},))
    more = torch.cat([IMAGES, IMAGES + 1])
    with pytest.raises(rb.CallerError, match="for 24 images; its forward must take any number of images"):
        rb.perturbation_curve(few.module(), more, [*LABELS, *LABELS], torch.cat([maps, maps]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.filterwarnings("ignore:the network has weights in")
def test_networks_that_convert_images_to_another_type_are_told_to_leave_them(dtype):
    class Converting(nn.Sequential):
        def forward(self, images):
            return super().forward(images.to(dtype))

    for layers in ((nn.Flatten(), nn.Linear(192, 3)), (nn.Conv2d(3, 3, 8), nn.Flatten())):
        with pytest.raises(rb.CallerError, match=r"used in float32, so its forward must not convert images, as x.half"):
            check(Converting(*layers).to(dtype), "grad")


def test_mask_with_one_channel_is_expected_in_one_shape():
    with pytest.raises(rb.CallerError, match=r"expected bool \(2, 1, 4, 4\), True where removed"):
        rb.fill(torch.zeros(2, 1, 4, 4, dtype=torch.uint8), torch.zeros(2, 4, 4, dtype=torch.bool))
