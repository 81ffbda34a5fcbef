"""LRP and DeepLIFT: hand-made cases, conservation of sums, and rejected networks."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.swa_utils import AveragedModel

from roarbench.common.errors import RunError
from roarbench.compute.external_networks import add_second_logit
from roarbench.compute.networks import build_network
from roarbench.estimators.backward_rules import Rescaled
from roarbench.estimators.estimator import Batch
from roarbench.estimators.lrp_network import rewrite_for_relevance_rules
from tests.helpers.networks import CLASSES, assert_near, dense, importance
from tests.helpers.trainings import seeded


def compute_lrp(model, image):
    """Compute the LRP map of the first logit for one image."""
    return importance("lrp", model.eval(), Batch(image, torch.tensor([0]), torch.tensor([0]))).flatten()


def compute_lrp_of_pixel(model, *numbers):
    return compute_lrp(model, torch.tensor(numbers).view(1, -1, 1, 1))


def make_convolution(*rows):
    layer = nn.Conv2d(len(rows[0]), len(rows), 1, bias=False)
    layer.weight.data = torch.tensor(rows)[:, :, None, None]
    return layer


def test_lrp_epsilon_and_z_plus_rules_match_hand_computed_values():
    model = nn.Sequential(nn.Flatten(), dense((1.0, -1.0), (1.0, 1.0)), nn.ReLU(), dense((3.0, 5.0)))
    torch.testing.assert_close(compute_lrp_of_pixel(model, 2.0, 1.0), torch.tensor([16.0, 2.0]))
    unit = make_convolution((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    model = nn.Sequential(unit, nn.ReLU(), make_convolution((1.0, -1.0, 1.0)), nn.ReLU(), nn.Flatten(), dense((2.0,)))
    torch.testing.assert_close(compute_lrp_of_pixel(model, 3.0, 1.0, 2.0), torch.tensor([8 * 3 / 5, 0.0, 8 * 2 / 5]))
    # without a ReLU, 3 * 1 and -1 * -1 are positive contributions, and -2 * 1 is none
    model = nn.Sequential(unit, make_convolution((1.0, -1.0, 1.0)), nn.ReLU(), nn.Flatten(), dense((2.0,)))
    torch.testing.assert_close(compute_lrp_of_pixel(model, 3.0, -1.0, -2.0), torch.tensor([4 * 3 / 4, 4 * 1 / 4, 0.0]))


class Residual(nn.Module):
    """Two convolutions of one weight, 1 and 2, with biases, 1 and -1, the second beside the identity; then the mean."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Conv2d(1, 1, 1), nn.Conv2d(1, 1, 1), dense((1.0,), (0.0,))
        for layer, weight, bias in ((self.first, 1.0, 1.0), (self.second, 2.0, -1.0)):
            nn.init.constant_(layer.weight, weight)
            nn.init.constant_(layer.bias, bias)

    def forward(self, x):
        x = self.first(x).relu()
        x = torch.relu(self.second(x) + x)
        return self.last(x.mean(dim=(2, 3)))


def test_lrp_of_residual_network_matches_hand_computed_values():
    # a = (1, 3), b = a + 1 = (2, 4), c = 2 b - 1 = (3, 7), c + b = (5, 11), its mean and the logit 8; the places have
    # 8 * 5 / 16 = 2.5 and 5.5, of which the branches have 3 : 2 and 7 : 4; z+ leaves out the bias and passes all on, so
    # b has 2.5 and 5.5 again; the first bias keeps 1 of 2 parts and 1 of 4
    found = compute_lrp(Residual(), torch.tensor([[[[1.0, 3.0]]]]))
    torch.testing.assert_close(found, torch.tensor([1.25, 4.125]))


@pytest.mark.parametrize("name", ["resnet-quick", "resnet50", "torchvision:vgg11"])
@pytest.mark.slow
def test_network_rewritten_for_lrp_keeps_logits(name):
    model = build_network(name, 5, 3, 32, seeded(0)).eval()
    images = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(rewrite_for_relevance_rules(model)(images), model(images), rtol=1e-4, atol=1e-4)


class Stepwise(nn.Module):
    """Two convolutions with one step between them, the mean of their outputs and a linear layer."""

    def __init__(self, step, padding=0):
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=padding)
        self.step, self.last = step, nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.last(self.two(self.step(self.one(x))).relu().mean((2, 3)))


RELU = nn.ReLU()
# Steps, each with an equivalent step and the padding of the second convolution that equals a padding step
EQUIVALENT_STEPS = {
    "relu6": (lambda x: F.relu6(x, inplace=True), RELU, 0),
    "Hardtanh": (nn.Hardtanh(0, 9), RELU, 0),
    "ZeroPad2d": (nn.Sequential(RELU, nn.ZeroPad2d(1)), RELU, 1),
    "pad": (lambda x: F.pad(x.relu(), (1, 1, 1, 1)), RELU, 1),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2, stride=2).relu(), nn.Sequential(nn.MaxPool2d(2), RELU), 0),
    "adaptive_avg_pool2d": (
        lambda x: F.adaptive_avg_pool2d(x, (6, 6)).relu(),
        nn.Sequential(nn.AdaptiveAvgPool2d(6), RELU),
        0,
    ),
    "squeeze": (lambda x: x.relu().unsqueeze(1).squeeze(1), RELU, 0),
    "flatten two axes": (nn.Sequential(RELU, nn.Flatten(2, 3), nn.Unflatten(2, (12, 12))), RELU, 0),
    "empty containers": (nn.Sequential(nn.Sequential(), RELU), RELU, 0),
}


@pytest.mark.parametrize("case", EQUIVALENT_STEPS)
def test_lrp_equals_for_equivalent_layers_and_functions(case, batch):
    step, known, padding = EQUIVALENT_STEPS[case]
    models = Stepwise(step).double().eval(), Stepwise(known, padding).double().eval()
    found, expected = (importance("lrp", model, batch) for model in models)
    assert_near(found, expected, 1e-6)  # an additional step divides by numbers plus 1e-9


class WithOptions(Stepwise):
    def forward(self, x, scale=None, *others, **more):
        logits = super().forward(x)
        return logits if scale is None and not others and not more else scale * logits


def test_lrp_leaves_further_arguments_at_their_defaults(batch):
    models = [kind(RELU).double().eval() for kind in (WithOptions, Stepwise)]
    torch.testing.assert_close(*(importance("lrp", model, batch) for model in models))


@pytest.mark.parametrize("pad", [nn.ReflectionPad2d(1), nn.ReplicationPad2d(1), nn.CircularPad2d(1)])
def test_lrp_returns_relevance_of_padding_to_its_source(pad):
    # the logit is the sum of all 25 numbers of the padded image, and each number has its copies' share
    model = nn.Sequential(nn.Conv2d(1, 1, 1, bias=False), nn.ReLU(), pad, nn.Flatten(), nn.Linear(25, 1, bias=False))
    for parameter in model.parameters():
        nn.init.ones_(parameter)
    image = torch.tensor([1.0, 2.0, 4.0]).expand(1, 1, 3, 3)
    copies = pad(torch.arange(9.0).view(1, 1, 3, 3)).flatten().long().bincount(minlength=9)
    torch.testing.assert_close(compute_lrp(model, image), copies * image.flatten())


def test_lrp_passes_all_relevance_through_clipping():
    # 9 is cut to 6, and 6 + 2 is the logit
    model = nn.Sequential(make_convolution((1.0,)), nn.ReLU6(), nn.Flatten(), dense((1.0, 1.0, 1.0)))
    found = compute_lrp(model, torch.tensor([[[[9.0, 2.0, -1.0]]]]))
    torch.testing.assert_close(found, torch.tensor([6.0, 2.0, 0.0]))


def test_lrp_explains_a_network_that_returns_one_number_per_image():
    # the logit is 2 * 3 + 4 * 1, and half of it is the logit of class 1
    model = nn.Sequential(make_convolution((1.0,)), nn.ReLU(), nn.Flatten(), dense((2.0, 4.0)), nn.Flatten(0))
    image = torch.tensor([[[[3.0, 1.0]]]])
    wrapped = add_second_logit(model.eval(), image.repeat(2, 1, 1, 1))
    found = importance("lrp", wrapped, Batch(image, torch.tensor([1]), torch.tensor([0])))
    torch.testing.assert_close(found.flatten(), torch.tensor([3.0, 2.0]))


WHOLE, SAME = nn.Conv2d(3, 5, 12), nn.Conv2d(3, 3, 1)


class Branching(nn.Module):
    def forward(self, x):
        return x.mean((2, 3)) if x.sum() > 0 else x.amax((2, 3))


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (nn.Sequential(WHOLE, nn.GELU(), nn.Flatten()), "has no rule for GELU, an operation of the network"),
        (nn.Sequential(WHOLE, nn.Hardtanh(), nn.Flatten()), "has no rule for Hardtanh, an operation of the network"),
        (Stepwise(lambda x: x.clamp(0, 6)), "has no rule for clamp, an operation of the network"),
        (nn.Sequential(SAME, RELU, SAME, nn.Flatten()), "supports only modules that are used once, but 0 is used .*"),
        (Branching(), "cannot trace the operations of the network"),
    ],
)
def test_lrp_rejects_unsupported_networks(model, words, batch):
    with pytest.raises(RunError, match=f"^lrp {words}; leave lrp out$"):
        importance("lrp", model.double().eval(), batch)


@pytest.mark.parametrize(
    "wrap", [lambda model: AveragedModel(nn.DataParallel(model)), lambda model: torch.compile(model, backend="eager")]
)
def test_lrp_explains_the_network_in_a_wrapper_of_torch(wrap, batch):
    network = nn.Sequential(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), nn.Flatten(), nn.Linear(400, 5)).double()
    expected = importance("lrp", network.eval(), batch)
    wrapped = wrap(nn.Sequential(wrap(network[0]), *network[1:]))
    torch.testing.assert_close(importance("lrp", wrapped.eval(), batch), expected)


class PartsOfWrapped(nn.Module):
    """Calls the parts of a network in a wrapper, as code for several GPUs does."""

    def __init__(self, network):
        super().__init__()
        self.part = nn.DataParallel(network)

    def forward(self, x):
        return self.part.module[1](self.part.module[0](x))


def test_lrp_explains_a_network_that_calls_parts_of_a_wrapped_network(batch):
    network = nn.Sequential(nn.Flatten(), nn.Linear(432, 5)).double().eval()
    expected = importance("lrp", network, batch)
    torch.testing.assert_close(importance("lrp", PartsOfWrapped(network).eval(), batch), expected)


@pytest.mark.parametrize(
    ("x", "start", "multipliers"),
    [
        # maxima rise by 1 and by 3, at the place of the image's, which rose by 3
        ((1.0, 5.0, 2.0), (4.0, 2.0, 0.0), (0.0, 1 / 3 + 3 / 3, 0.0)),
        # the first falls by 2, at the place of the baseline's, which fell by 3; the other rises by 2, as its place does
        ((1.0, 2.0, 3.0), (4.0, 0.0, 1.0), (2 / 3, 0.0, 2 / 2)),
    ],
)
def test_deeplift_max_pool_rule_matches_hand_computed_multipliers(x, start, multipliers):
    both = torch.tensor([x, start], dtype=torch.float64).view(2, 1, 1, 3).requires_grad_()
    with Rescaled(len(both)):
        out = nn.MaxPool2d((1, 2), stride=1)(both)
    (found,) = torch.autograd.grad(out.sum(), both)
    torch.testing.assert_close(found[0].flatten(), torch.tensor(multipliers, dtype=torch.float64))


class Functional(nn.Module):
    """Functional steps, one of them used twice, some in place; pooling windows overlap and cross the border."""

    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 8, 3, padding=1)
        self.relu, self.last = nn.ReLU(inplace=True), nn.Linear(8 * 49, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(self.relu(self.one(x)), 3, stride=2, padding=1, ceil_mode=True)
        x = self.relu(self.two(x)).add_(x)
        x = x + F.relu6(x).clamp_(0.1, 0.5) + F.hardtanh(x) + F.threshold(x, 0.2, 0.2) + x.clamp(max=0.3)
        return self.last(torch.sigmoid(x - 1).flatten(1)) + self.last(F.leaky_relu(x).relu_().flatten(1))


@pytest.mark.parametrize("estimator", ["deeplift", "deeplift(baseline=mean)"])
def test_deeplift_contributions_sum_to_logit_difference(estimator, black):
    torch.manual_seed(0)
    model, images = Functional().double().eval(), torch.randn(2, 3, 12, 12, generator=seeded(3), dtype=torch.float64)
    start = torch.zeros_like(images) if "mean" in estimator else black.expand_as(images)
    with torch.no_grad():
        targets = model(images).argmax(1)
        differences = (model(images) - model(start)).gather(1, targets[:, None])[:, 0]
    assert (differences.abs() > 0).all()
    found = importance(estimator, model, Batch(images, targets, torch.arange(2)), black)
    torch.testing.assert_close(found.sum((1, 2, 3)), differences, rtol=1e-9, atol=0)


class TiltedEnergy(nn.Module):
    """Logits from the gradient of an energy, with which the rescale rule would interfere."""

    def __init__(self, activation, scale):
        super().__init__()
        self.layer, self.head = nn.Conv2d(3, 4, 3), nn.Linear(3, 5)
        self.activation, self.scale = activation, scale

    def forward(self, x):
        with torch.enable_grad():
            x = x.clone() if x.requires_grad else x.detach().requires_grad_()
            (slope,) = torch.autograd.grad(self.activation(self.layer(x)).sum(), x, create_graph=True)
        return self.head(self.scale * (slope * x).mean((2, 3)))


class Tilted(nn.Module):
    """A large logit beside which those of the image are small."""

    def __init__(self, activation):
        super().__init__()
        self.layer, self.head, self.activation = nn.Conv2d(3, 4, 3), nn.Linear(4, 5), activation

    def forward(self, x):
        return 0.05 * self.head(self.activation(self.layer(x)).mean((2, 3))) + 1000


def compute_deeplift(model):
    images = torch.randn(3, 3, 8, 8, generator=seeded(1))
    return importance("deeplift", model.eval(), Batch(images, torch.tensor([0, 1, 2]), torch.arange(3))), images


@pytest.mark.parametrize("activation", [F.softplus, torch.relu])
@pytest.mark.parametrize("scale", [1.0, 0.01])
def test_deeplift_refuses_networks_whose_logits_it_would_change(activation, scale):
    torch.manual_seed(0)
    with pytest.raises(RunError, match="deeplift's rules change the network's logits, .* computes a gradient; leave"):
        compute_deeplift(TiltedEnergy(activation, scale))


def test_deeplift_sees_missing_rules_beside_large_logits():
    """Rounding hides the sums of contributions in float32, so they are compared in float64."""
    torch.manual_seed(0)
    with pytest.raises(RunError, match="deeplift's contributions do not add up"):
        compute_deeplift(Tilted(F.gelu))
    torch.manual_seed(0)
    model = Tilted(torch.relu)
    found, images = compute_deeplift(model)
    exact = model.double()
    with torch.no_grad():
        change = exact(images.double()) - exact(torch.full_like(images, -2.0).double())
    torch.testing.assert_close(found.double().sum((1, 2, 3)), change[:, :3].diagonal(), rtol=1e-4, atol=0)
