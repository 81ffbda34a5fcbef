"""Weights that a hook, a parametrization or `forward` recomputes: maps equal those of a network with plain weights."""

from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune

from roarbench.common.errors import RunError
from roarbench.estimators.estimator import Batch
from roarbench.estimators.lrp_network import rewrite_for_relevance_rules
from roarbench.estimators.network_copies import fold_batchnorm
from tests.helpers.networks import importance

LATER = 3  # position of the second convolution, which has rule z+


def make_network():
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Flatten(), nn.Linear(64, 3))
    for norm in (network[1], network[4]):
        norm.running_mean, norm.running_var = torch.rand(4), torch.rand(4) + 0.5
    return network.double().eval()


class Doubled(nn.Module):
    """A parametrization whose result, set as the new original, would be doubled again."""

    def forward(self, weight):
        return 2 * weight


class Standardised(nn.Conv2d):
    """A convolution that computes its weights in `forward`."""

    def forward(self, x):
        weight = (self.weight - self.weight.mean((1, 2, 3), True)) / self.weight.std((1, 2, 3), keepdim=True)
        return F.conv2d(x, weight, self.bias, stride=self.stride)


class Adapter(nn.Module):
    """A low-rank adapter with the interface of PEFT's layers; its output is that of two branches until `merge`."""

    def __init__(self, base):
        super().__init__()
        self.base_layer, self.merged = base, False
        self.down, self.up = nn.Conv2d(4, 2, 3, bias=False).double(), nn.Conv2d(2, 4, 1, bias=False).double()

    def forward(self, x, *arguments):
        added = 0 if self.merged else 0.7 * self.up(self.down(x))
        return self.base_layer(x) + added

    def get_base_layer(self):
        return self.base_layer

    def merge(self):
        self.base_layer.weight.data += 0.7 * torch.einsum("oi,ichw->ochw", self.up.weight[:, :, 0, 0], self.down.weight)
        self.merged = True


def standardise(network):
    layer = Standardised(4, 4, 3).double()
    layer.load_state_dict(network[LATER].state_dict())
    network[LATER] = layer


def add_adapter(network):
    network[LATER] = Adapter(network[LATER])


def on_later_layer(function):
    return lambda network: function(network[LATER])


CHANGES = {
    "pruned": on_later_layer(partial(prune.l1_unstructured, name="weight", amount=0.3)),
    "weight_norm by hook": on_later_layer(lambda layer: torch.nn.utils.weight_norm(layer)),
    "spectral_norm by hook": on_later_layer(torch.nn.utils.spectral_norm),
    "weight_norm": on_later_layer(parametrizations.weight_norm),
    "spectral_norm": on_later_layer(parametrizations.spectral_norm),
    "doubled": on_later_layer(lambda layer: parametrize.register_parametrization(layer, "weight", Doubled())),
    "bias": on_later_layer(lambda layer: parametrize.register_parametrization(layer, "bias", Doubled())),
    "norm": lambda network: parametrize.register_parametrization(network[4], "weight", Doubled()),
    "head": lambda network: parametrize.register_parametrization(network[7], "weight", Doubled()),
    "observed": lambda network: [part.register_forward_hook(lambda *seen: None) for part in network.modules()],
    "standardised": standardise,
    "adapter": add_adapter,
}


def make_plain_by_hand(network, image):
    """Return the network with the weights that its layers have in a pass, read by impulses from convolution 2."""
    plain, layer = make_network(), network[LATER]
    plain.load_state_dict(make_network().state_dict())
    with torch.no_grad():
        network(image)
        impulses = torch.zeros(36, 4, 3, 3, dtype=torch.float64)
        impulses.view(36, 36).fill_diagonal_(1)
        plain[LATER].bias.data = layer(torch.zeros(1, 4, 3, 3, dtype=torch.float64)).flatten()
        kernel = (layer(impulses).view(36, 4) - plain[LATER].bias).T
        plain[LATER].weight.data = kernel.reshape(4, 4, 3, 3).clone()
        plain[4].weight.data, plain[7].weight.data = network[4].weight.clone(), network[7].weight.clone()
    return plain


@pytest.fixture
def batch():
    torch.manual_seed(1)
    return Batch(torch.randn(2, 3, 8, 8, dtype=torch.float64), torch.tensor([0, 2]), torch.arange(2))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
def test_lrp_and_folded_logits_equal_those_of_plain_weights(change, batch):
    network = make_network()
    change(network)
    network.eval()
    plain = make_plain_by_hand(network, batch.images)
    torch.testing.assert_close(plain(batch.images), network(batch.images))
    expected = importance("lrp", plain, batch)
    state = deepcopy(network.state_dict())
    importance("grad", network, batch)  # a hook's weight now has a graph, which `deepcopy` refuses
    torch.testing.assert_close(importance("lrp", network, batch), expected, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(fold_batchnorm(network)(batch.images), plain(batch.images))
    torch.testing.assert_close(network.state_dict(), state, rtol=0, atol=0)


def test_lrp_rules_of_one_layer_do_not_change_weights_of_another(batch):
    shared, separate = (nn.Sequential(nn.Conv2d(3, 3, 3), nn.ReLU(), nn.Conv2d(3, 3, 3)) for _ in range(2))
    shared[2].weight = shared[0].weight  # rule epsilon in the first convolution, rule z+ in the second
    separate.load_state_dict(shared.state_dict())
    heads = [
        nn.Sequential(*part, nn.ReLU(), nn.Flatten(), nn.Linear(48, 3)).double().eval() for part in (shared, separate)
    ]
    heads[1][5].load_state_dict(heads[0][5].state_dict())
    torch.testing.assert_close(*(importance("lrp", network, batch) for network in heads), rtol=0, atol=0)


def test_convolution_before_two_norms_is_not_folded_twice(batch):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            network = make_network()
            self.shared, self.one, self.two = nn.Conv2d(3, 3, 3, padding=1).double(), nn.BatchNorm2d(3), network[1]
            self.two = nn.BatchNorm2d(3)
            self.one.running_var = 2 * self.one.running_var

        def forward(self, x):
            return self.two(self.shared(self.one(self.shared(x)).relu())).mean((2, 3))

    network = Twice().double().eval()
    torch.testing.assert_close(fold_batchnorm(network)(batch.images), network(batch.images))


def scale_logits(module, arguments, output):
    return 3 * output - 1


@pytest.mark.parametrize("position", [None, 5], ids=["network", "ReLU"])
def test_lrp_refuses_hooks_that_change_outputs(position, batch):
    network = make_network()
    (network if position is None else network[position]).register_forward_hook(scale_logits)
    with pytest.raises(RunError, match="whose logits differ from those of its traced operations"):
        importance("lrp", network, batch)


IN_PLACE = {
    "module": nn.ReLU(inplace=True),
    "function": lambda x: F.relu(x, inplace=True),
    "method": lambda x: x.relu_(),
    "twice": lambda x: x.add_(x.mean((2, 3), keepdim=True)).relu_(),
}


class ReadsAgain(nn.Module):
    """A network whose last sum reads a tensor that was changed in place."""

    def __init__(self, change):
        super().__init__()
        self.first, self.second, self.last = make_network()[0], nn.Conv2d(4, 4, 1).double(), nn.Linear(4, 3).double()
        self.change = IN_PLACE[change]

    def forward(self, x):
        hidden = self.first(x)
        changed = self.change(hidden)
        return self.last((self.second(changed) + hidden).mean((2, 3)))


@pytest.mark.parametrize("change", IN_PLACE)
def test_lrp_reads_changes_in_place(change, batch):
    network = ReadsAgain(change).eval()
    rewritten = rewrite_for_relevance_rules(network)
    torch.testing.assert_close(rewritten(batch.images), network(batch.images))
    assert importance("lrp", network, batch).any()


def test_lrp_names_changes_in_place_that_it_cannot_follow(batch):
    class Aliased(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = make_network()[0], nn.Linear(4, 3).double()

        def forward(self, x):
            hidden = alias = self.first(x)
            hidden += alias.mean((2, 3), keepdim=True)
            return self.last((hidden + alias).mean((2, 3)))

    with pytest.raises(RunError, match=r"or because a tensor that is read again was changed in place, as by `\+=`"):
        importance("lrp", Aliased().eval(), batch)


def test_lrp_refuses_layers_without_plain_equivalent(batch):
    network = make_network()
    network[LATER].register_forward_hook(lambda module, arguments, output: output.abs())
    with pytest.raises(RunError, match="lrp has no rule for Conv2d '3', whose weights change in each pass"):
        importance("lrp", network, batch)
