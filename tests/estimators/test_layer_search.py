"""Class activation maps explain one layer, however the network is written; unsuitable networks are rejected."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.parametrizations import spectral_norm, weight_norm
from torch.utils.checkpoint import checkpoint

from roarbench.common.errors import RunError
from roarbench.compute.networks import build_network
from roarbench.estimators.estimator import Batch
from roarbench.estimators.layer_search import compute_layer_output, find_blocks
from tests.helpers.networks import importance
from tests.helpers.trainings import seeded

SIDE, CLASSES = 16, 3


class Plain(nn.Module):
    """The network that the others rewrite: its layer is the second ReLU's output, (n, 6, 4, 4)."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 5, 3, 2, 1), nn.Conv2d(5, 6, 3, 2, 1)
        self.point, self.head = nn.Conv2d(6, 6, 1), nn.Linear(6, CLASSES)

    def make_features(self, x):
        return F.relu(self.point(F.relu(self.second(F.relu(self.first(x))))))

    def read_out(self, features):
        return self.head(F.adaptive_avg_pool2d(features, 1).flatten(1))

    def forward(self, x):
        return self.read_out(self.make_features(x))


class MeanPool(Plain):
    def read_out(self, features):
        return self.head(features.mean((2, 3)))


class TwoPools(Plain):
    def read_out(self, features):
        return self.head(F.avg_pool2d(F.avg_pool2d(features, 2), 2).flatten(1))


class FlattenAndLinear(Plain):
    def read_out(self, features):
        weight = self.head.weight.repeat_interleave(features.shape[2:].numel(), 1) / features.shape[2:].numel()
        return F.linear(features.flatten(1), weight, self.head.bias)


class PointwiseHead(Plain):
    def read_out(self, features):
        pooled = F.adaptive_avg_pool2d(features, 1)
        return F.conv2d(pooled, self.head.weight[:, :, None, None], self.head.bias)[:, :, 0, 0]


class ChannelsLast(Plain):
    """The last layers as linear layers on (n, h, w, c)."""

    def make_features(self, x):
        x = F.relu(self.second(F.relu(self.first(x)))).permute(0, 2, 3, 1)
        return F.relu(F.linear(x, self.point.weight[:, :, 0, 0], self.point.bias))

    def read_out(self, features):
        return self.head(features.mean((1, 2)))


class Tokens(Plain):
    """The last layers on a sequence of positions, (n, h * w, c)."""

    def make_features(self, x):
        x = F.relu(self.second(F.relu(self.first(x)))).flatten(2).transpose(1, 2)
        return F.relu(F.linear(x, self.point.weight[:, :, 0, 0], self.point.bias))

    def read_out(self, features):
        return self.head(features.mean(1))


class TokensFirst(Tokens):
    """A sequence of positions whose first axis is not that of the images, (h * w, n, c)."""

    def read_out(self, features):
        return self.head(F.relu(features.transpose(0, 1)).mean(0))


class InPlace(Plain):
    def make_features(self, x):
        return self.point(self.second(self.first(x).relu_()).relu_()).relu_()


class Branches(Plain):
    """Two branches, each with half of the channels."""

    def make_features(self, x):
        x = F.relu(self.second(F.relu(self.first(x))))
        halves = zip(self.point.weight.chunk(2), self.point.bias.chunk(2), strict=True)
        return torch.cat([F.relu(F.conv2d(x, weight, bias)) for weight, bias in halves], 1)


class Checkpointed(Plain):
    def make_features(self, x):
        return checkpoint(super().make_features, x, use_reentrant=False)


class LowRank(Plain):
    """An unmerged adapter: half of a weight in one branch, half in another branch."""

    def make_features(self, x):
        x = F.relu(self.second(F.relu(self.first(x))))
        half = self.point.weight / 2
        return F.relu(F.conv2d(x, half, self.point.bias) + F.conv2d(x, half))


class UnfoldedConvolution(Plain):
    """A convolution written as patches times a matrix."""

    def make_features(self, x):
        x = F.relu(self.first(x))
        patches = F.unfold(x, 3, padding=1, stride=2)
        made = self.second.weight.flatten(1) @ patches + self.second.bias[:, None]
        side = math.isqrt(made.shape[2])
        return F.relu(self.point(F.relu(made.view(len(x), 6, side, side))))


class Upright(Plain):
    """A network that works on the transposed, mirrored image."""

    def forward(self, x):
        turn = copy.deepcopy(self)
        for layer in (turn.first, turn.second):
            layer.weight = nn.Parameter(layer.weight.detach().transpose(2, 3))
        return turn.read_out(turn.make_features(x.transpose(2, 3)))


class Frozen(Plain):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)


class ReadsAttributes(Plain):
    """A network that looks for a parameter with a gradient, as Opacus' hooks do."""

    def make_features(self, x):
        assert any(weight.requires_grad for weight in self.parameters())
        return super().make_features(x)


class SparseHead(Plain):
    def read_out(self, features):
        weight = nn.Parameter(self.head.weight.detach().to_sparse_csr(), requires_grad=False)
        return (weight @ features.mean((2, 3)).T).T + self.head.bias


REWRITINGS = (
    *(MeanPool, TwoPools, FlattenAndLinear, PointwiseHead, ChannelsLast, Tokens, TokensFirst, InPlace, Branches),
    *(Checkpointed, LowRank, UnfoldedConvolution, Upright, Frozen),
    *(ReadsAttributes, SparseHead),
)


def make_batch(n=3):
    images = torch.randn(n, 3, SIDE, SIDE, generator=seeded(5))
    return Batch(images, make_plain()(images).argmax(1), torch.arange(n))


def write_as(kind):
    """Return a network of this class with the weights of `Plain`."""
    network = kind()
    network.load_state_dict(make_plain().state_dict())
    return network.eval()


def make_plain():
    """Make the plain network, with a logit above 0 and therefore a map for each predicted class."""
    network, generator = Plain(), seeded(1)
    for values in network.parameters():
        nn.init.normal_(values, std=0.5, generator=generator)
    nn.init.zeros_(network.head.bias)
    return network.eval()


def compute_gradcam_by_hand(network, batch):
    features = network.make_features(batch.images).detach().requires_grad_()
    total = network.read_out(features).gather(1, batch.targets[:, None]).sum()
    (gradient,) = torch.autograd.grad(total, features)
    sums = (gradient.mean((2, 3), keepdim=True) * features.detach()).sum(1, keepdim=True).relu()
    return F.interpolate(sums, batch.images.shape[2:], mode="bilinear").expand(batch.images.shape)


@pytest.mark.parametrize("kind", (Plain, *REWRITINGS), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_map_does_not_depend_on_how_network_is_written(kind, n):
    batch, network = make_batch(n), write_as(kind)
    expected = compute_gradcam_by_hand(make_plain(), batch)
    assert expected.amax((1, 2, 3)).gt(0.1).all()
    torch.testing.assert_close(network(batch.images), make_plain()(batch.images))
    torch.testing.assert_close(importance("gradcam", network, batch), expected, rtol=0, atol=1e-5)


class Normalised(Plain):
    """A network that normalises over positions, so that each position depends on all others."""

    def __init__(self, normalise):
        super().__init__()
        self.normalise = normalise

    def make_features(self, x):
        for layer in (self.first, self.second, self.point):
            x = F.relu(self.normalise(layer(x)))
        return x


NORMALISATIONS = {
    "group": lambda x: F.group_norm(x, 1),
    "instance": F.instance_norm,
    "layer": lambda x: F.layer_norm(x, x.shape[1:]),
    "by hand": lambda x: (x - x.mean((1, 2, 3), keepdim=True)) / x.std((1, 2, 3), keepdim=True),
    "response": lambda x: x * (x.pow(2).mean((2, 3), keepdim=True) + 1e-6).rsqrt(),
    "variance and mean": lambda x: (x - torch.var_mean(x, (2, 3), keepdim=True)[1]) / x.norm(dim=(2, 3), keepdim=True),
}


@pytest.mark.parametrize("normalise", NORMALISATIONS.values(), ids=NORMALISATIONS)
def test_map_of_network_that_normalises_over_positions_is_of_its_last_layer(normalise):
    """Regression: the layer was an earlier one, or the tensor before the normalisation."""
    network, batch = Normalised(normalise), make_batch()
    batch = batch._replace(images=batch.images[..., :8, :8])  # the last layer has 2 x 2 positions
    network.load_state_dict(make_plain().state_dict())
    expected = compute_gradcam_by_hand(network.eval(), batch)
    assert expected.amax((1, 2, 3)).gt(0.01).any()
    torch.testing.assert_close(importance("gradcam", network, batch), expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", ["hires-cam", "layer-cam", "score-cam", "guided-gradcam"])
def test_other_maps_do_not_depend_on_how_network_is_written(name):
    batch = make_batch()
    maps = [importance(name, write_as(kind), batch) for kind in (Plain, ChannelsLast, Tokens)]
    assert maps[0].abs().amax((1, 2, 3)).gt(0.01).all()
    for other in maps[1:]:
        torch.testing.assert_close(other, maps[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("parametrize", [weight_norm, spectral_norm])
def test_parametrized_layers_have_maps(parametrize):
    network, batch = make_plain(), make_batch()
    for layer in (network.first, network.second, network.point):
        parametrize(layer)
    network.eval()
    expected = compute_gradcam_by_hand(network, batch)
    torch.testing.assert_close(importance("gradcam", network, batch), expected, rtol=0, atol=1e-5)


def test_find_blocks_returns_residual_blocks_of_resnet():
    of_50 = [f"layer{layer}.{i}" for layer, count in enumerate((3, 4, 6, 3), 1) for i in range(count)]
    for name, inside in (("resnet8", [f"blocks.{i}" for i in range(3)]), ("resnet50", of_50)):
        network = build_network(name, 3, 3, 32, seeded(0))
        names = {module: path for path, module in network.named_modules()}
        assert [names[block] for block in find_blocks(network)] == inside


class Gate(nn.Sequential):
    """Squeeze and excitation: one weight per channel, or, without the pool, per position."""

    def __init__(self, *first):
        super().__init__(*first, nn.Conv2d(4, 2, 1), nn.ReLU(), nn.Conv2d(2, 4, 1), nn.Sigmoid())


class Gated(nn.Module):
    def __init__(self, gate):
        super().__init__()
        self.features, self.gate, self.kept = make_convolutions(), gate, nn.Identity()

    def forward(self, x):
        x = self.features(x)
        return self.kept(x * self.gate(x))


def make_convolutions(*last, stride=1):
    return nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 4, 3, stride, 1), nn.ReLU(), *last)


def make_classifier(*parts, features=4):
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(features, 3)).eval()


POOL, ONE_POSITION = nn.AdaptiveAvgPool2d, nn.Sequential(nn.Conv2d(4, 4, 4), nn.Conv2d(4, 4, 1))
LAST_LAYERS = {  # networks, with the module whose output is the last layer for images of 4 x 4
    "pool": (make_classifier(make_convolutions(), POOL(1)), "0"),
    "pool inside": (make_classifier(make_convolutions(POOL(1))), "0.3"),
    "one position, repeated by pool": (make_classifier(make_convolutions(stride=4), POOL(2), features=16), "0.1"),
    "one position at the end": (make_classifier(make_convolutions(), ONE_POSITION), "0"),
    "pool to fewer positions": (make_classifier(make_convolutions(), POOL(2), features=16), "0"),
    "max-pool": (make_classifier(make_convolutions(nn.MaxPool2d(2)), features=16), "0.4"),
    "resized": (make_classifier(make_convolutions(), nn.Upsample(scale_factor=2), POOL(1)), "0"),
    "padded": (make_classifier(make_convolutions(), nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(4, 4, 5)), "0"),
    "padded on all sides": (make_classifier(make_convolutions(), nn.ReflectionPad2d(1), nn.Conv2d(4, 4, 6)), "0"),
    "gate per channel": (make_classifier(Gated(Gate(POOL(1))), POOL(1)), "0.kept"),
    "gate per position": (make_classifier(Gated(Gate()), POOL(1)), "0.kept"),
    "one convolution": (make_classifier(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), POOL(1)), "1"),
}


@pytest.mark.parametrize("case", LAST_LAYERS)
def test_last_layer_has_several_positions_on_every_path(case):
    model, expected = LAST_LAYERS[case]
    for values in model.parameters():
        nn.init.normal_(values, generator=seeded(values.numel()))
    images, outputs = torch.randn(2, 3, 4, 4, generator=seeded(0)), []
    with model.get_submodule(expected).register_forward_hook(lambda module, inputs, output: outputs.append(output)):
        found = compute_layer_output(model, images, "last")
    assert found.tensor is outputs[-1]


def test_layer_output_rejects_single_position():
    with pytest.raises(RunError, match="layer block1 has no grid of several positions, .*; use layer=last"):
        compute_layer_output(LAST_LAYERS["pool inside"][0], torch.zeros(1, 3, 4, 4), "block1")


class TwoViews(nn.Module):
    """A network that sees the image and its mirror image; `join` makes logits from both."""

    def __init__(self, join):
        super().__init__()
        self.inner, self.join = make_plain(), join

    def forward(self, x):
        return self.join(self.inner, x)


def add_aligned_features(inner, x):
    return inner.read_out(inner.make_features(x) + inner.make_features(x.flip(3)).flip(3))


REFUSED = {
    "logits of two passes": (
        lambda inner, x: inner(x) + inner(x.flip(3)),
        r"no layer is suitable: inner\.first runs 2 times per image",
    ),
    "features of two passes, not aligned": (
        lambda inner, x: inner.read_out(inner.make_features(x) + inner.make_features(x.flip(3))),
        r"no layer is suitable: inner\.first runs 2 times per image",
    ),
    "two views in one batch": (
        lambda inner, x: sum(inner(torch.cat([x, x.flip(3)])).chunk(2)),
        "no layer is suitable: the network joins 2 views of each image in one batch",
    ),
    "class token": (
        lambda inner, x: attend_with_class_token(inner, x),
        r"no layer is suitable: the positions of the last layer \(n, 17, 6\) form no grid that follows the image",
    ),
    "two branches behind a stem": (
        lambda inner, x: join_branches(inner, F.relu(inner.first(x))),
        r"the last tensor on every path \(n, 5, 8, 8\) is early: 2 layers with positions follow it on branches",
    ),
    "crop": (
        lambda inner, x: inner(F.interpolate(x[..., 4:-4, 4:-4], x.shape[2:])),
        "the layer's positions show a part of the image only, as after a crop in the network",
    ),
    "crop of an eighth": (
        lambda inner, x: inner(x[..., 2:, :]),
        "the layer's positions show a part of the image only, as after a crop in the network",
    ),
    "one half": (
        lambda inner, x: inner(x[..., :8]),
        "the layer's positions show a part of the image only, as after a crop in the network",
    ),
    "checkpoint of the network": (
        lambda inner, x: checkpoint(inner, x, use_reentrant=True),
        r"CheckpointFunction hides the last layers; write checkpoint\(\.\.\., use_reentrant=False\)",
    ),
    "checkpoint of the last layers": (
        lambda inner, x: checkpoint(lambda made: run_branch(inner, made), inner.first(x).relu(), use_reentrant=True),
        r"CheckpointFunction hides the last layers; write checkpoint\(\.\.\., use_reentrant=False\)",
    ),
    "gradient in the forward pass": (
        lambda inner, x: inner(x) * compute_energy_gradient(inner, x).square().sum((1, 2, 3))[:, None],
        "no layer is suitable: the network's forward computes a gradient",
    ),
    "more layers for more images": (
        lambda inner, x: inner.read_out(nn.Sequential(*[inner.point] * len(x))(inner.make_features(x))),
        "the network calls other functions for other images, so it has no fixed layer",
    ),
    "stacked crops": (
        lambda inner, x: torch.stack([inner(x[..., a : a + 12, b : b + 12]) for a in (0, 4) for b in (0, 4)]).mean(0),
        "runs 4 times per image, and the paths of these runs have no later layer in common",
    ),
    "no gradient": (lambda inner, x: inner(x).detach(), "the network's logits have no gradient"),
    "no convolution": (
        lambda inner, x: F.linear(x.flatten(1), torch.ones(CLASSES, x[0].numel())),
        "no layer is suitable: no tensor with several positions lies on every path from the image to the logits",
    ),
}


def compute_energy_gradient(inner, x):
    with torch.enable_grad():
        x = x if x.requires_grad else x.detach().requires_grad_()
        return torch.autograd.grad(inner(x).logsumexp(1).sum(), x, create_graph=True)[0]


def run_branch(inner, stem):
    return inner.read_out(F.relu(inner.point(F.relu(inner.second(stem)))))


def join_branches(inner, stem):
    return run_branch(inner, stem) + run_branch(inner, stem.flip(3))


def attend_with_class_token(inner, x):
    tokens = inner.make_features(x).flatten(2).transpose(1, 2)
    tokens = torch.cat([torch.ones(len(x), 1, 6), tokens], 1)
    tokens = tokens + F.scaled_dot_product_attention(*[tokens[:, None]] * 3)[:, 0]
    return inner.head(tokens[:, 0])


@pytest.mark.parametrize("name", ["gradcam", "score-cam"])
@pytest.mark.parametrize("case", REFUSED)
def test_network_without_common_layer_is_refused(case, name):
    join, words = REFUSED[case]
    with pytest.raises(RunError, match=words) as caught:
        importance(name, TwoViews(join).eval(), make_batch())
    assert "\n" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_layers_hidden_by_torch_jit_are_named():
    network, parts = make_plain(), make_plain()
    tail = nn.Sequential(parts.second, nn.ReLU(), parts.point, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    partly = nn.Sequential(parts.first, nn.ReLU(), torch.jit.script(tail), parts.head).eval()
    for hiding in (torch.jit.trace(network, make_batch().images), partly):
        with pytest.raises(RunError, match=r"torch\.jit hides the layers of the network; pass the network itself"):
            importance("gradcam", hiding, make_batch())


class JointPool(nn.Module):
    """An attention pool that computes keys and values by one layer, as timm's `AttentionPoolLatent` does."""

    def __init__(self, parts, convolution=False):
        super().__init__()
        self.layer, self.parts = nn.Conv1d(6, 12, 1) if convolution else nn.Linear(6, 12), parts

    def forward(self, query, tokens, _):
        joint = self.layer(tokens.transpose(1, 2)).transpose(1, 2) if self.parts == "chunk" else self.layer(tokens)
        if self.parts == "unbind":
            keys, values = joint.unflatten(2, (2, 6)).permute(2, 0, 1, 3).unbind()
        elif self.parts == "slice":
            keys, values = joint[..., :6], joint[..., 6:]
        else:
            keys, values = joint.chunk(2, dim=2)
        return (F.scaled_dot_product_attention(query, keys, values),)


POOLS = {
    "separate": lambda: nn.MultiheadAttention(6, 2, batch_first=True),
    "unbind": lambda: JointPool("unbind"),
    "slice": lambda: JointPool("slice"),
    "chunk": lambda: JointPool("chunk", convolution=True),
}


@pytest.mark.parametrize("kind", POOLS)
def test_attention_pool_explains_pooled_positions(kind):
    """Keys and values of the pool are computed per position, after the layer; they are no later layers."""
    inner, pool = make_plain(), POOLS[kind]()
    for values in pool.parameters():
        nn.init.normal_(values, std=0.3, generator=seeded(values.numel()))

    def read_out(features):
        tokens = features.flatten(2).transpose(1, 2)
        return inner.head(pool(torch.ones(len(tokens), 1, 6), tokens, tokens)[0][:, 0])

    network = TwoViews(lambda inner, x: read_out(inner.make_features(x)))
    network.inner, network.pool, inner.read_out = inner, pool, read_out
    batches = [make_batch()._replace(targets=torch.full((3,), label)) for label in range(CLASSES)]
    batch = max(batches, key=lambda batch: compute_gradcam_by_hand(inner, batch).sum())
    expected = compute_gradcam_by_hand(inner, batch)
    assert expected.max() > 0
    torch.testing.assert_close(importance("gradcam", network.eval(), batch), expected, rtol=0, atol=1e-5)


def test_passes_that_are_joined_position_by_position_have_maps():
    batch, inner = make_batch(), make_plain()
    features = inner.make_features(batch.images) + inner.make_features(batch.images.flip(3)).flip(3)
    features = features.detach().requires_grad_()
    total = inner.read_out(features).gather(1, batch.targets[:, None]).sum()
    (gradient,) = torch.autograd.grad(total, features)
    sums = (gradient.mean((2, 3), keepdim=True) * features.detach()).sum(1, keepdim=True).relu()
    expected = F.interpolate(sums, (SIDE, SIDE), mode="bilinear").expand(batch.images.shape)
    found = importance("gradcam", TwoViews(add_aligned_features).eval(), batch)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_mirrored_features_are_mirrored_back():
    batch, inner = make_batch(), make_plain()
    seen = batch._replace(images=batch.images.flip(3))
    mirrored = TwoViews(lambda inner, x: inner(x.flip(3))).eval()
    expected = compute_gradcam_by_hand(inner, seen).flip(3)
    torch.testing.assert_close(importance("gradcam", mirrored, batch), expected, rtol=0, atol=1e-5)


def test_named_block_that_runs_twice_is_refused():
    network = make_classifier(nn.Sequential(make_convolutions(), nn.Identity()), POOL(1))
    twice = TwoViews(lambda inner, x: network(x) + network(x.flip(3)))
    twice.network = network
    with pytest.raises(RunError, match="layer block2 runs 2 times per image, expected once; use layer=last"):
        importance("gradcam(layer=block2)", twice.eval(), make_batch())


def test_named_block_in_channels_last_equals_block_in_channels_first():
    class Turned(nn.Sequential):
        def forward(self, x):
            return super().forward(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)

    batch, block, head = make_batch(), make_convolutions(), nn.Linear(4, CLASSES)
    first = nn.Sequential(block, POOL(1), nn.Flatten(), head)
    for values in first.parameters():
        nn.init.normal_(values, generator=seeded(values.numel()))
    turned = TwoViews(lambda inner, x: head(turned.block(x.permute(0, 2, 3, 1)).mean((1, 2))))
    turned.block = Turned(*block)
    networks = {"block1": first.eval(), "block2": turned.eval()}  # `turned` has another network as its first block
    maps = [importance(f"hires-cam(layer={layer})", network, batch) for layer, network in networks.items()]
    assert maps[0].abs().max() > 0
    torch.testing.assert_close(*maps, rtol=0, atol=1e-5)


def test_signals_have_maps():
    """A signal is an image of height 1; `nn.Conv1d` works on (n, c, length)."""
    layers = nn.Conv1d(2, 4, 3, padding=1), nn.ReLU(), nn.Conv1d(4, 5, 3, 2, 1), nn.ReLU()
    features, head = nn.Sequential(*layers), nn.Linear(5, CLASSES)
    network = nn.Sequential(nn.Flatten(2), features, nn.AdaptiveAvgPool1d(1), nn.Flatten(), head).eval()
    for values in network.parameters():
        nn.init.normal_(values, generator=seeded(values.numel()))
    images = torch.randn(3, 2, 1, 24, generator=seeded(0))
    batch = Batch(images, network(images).argmax(1), torch.arange(3))
    made = features(images[:, :, 0]).detach()
    weights = head.weight[batch.targets].detach() / made.shape[2]
    sums = torch.einsum("nk,nkl->nl", weights, made).relu()[:, None, None]
    expected = F.interpolate(sums, (1, 24), mode="bilinear").expand(images.shape)
    assert expected.max() > 0
    torch.testing.assert_close(importance("gradcam", network, batch), expected, rtol=0, atol=1e-5)


def test_rows_and_columns_of_oblong_images_are_told_apart():
    network, images = write_as(Tokens), torch.randn(2, 3, 24, 16, generator=seeded(3))
    batch = Batch(images, network(images).argmax(1), torch.arange(2))
    expected = compute_gradcam_by_hand(make_plain(), batch)
    torch.testing.assert_close(importance("gradcam", network, batch), expected, rtol=0, atol=1e-5)


def test_layer_is_searched_once_per_network():
    network, sizes = make_plain(), []
    network.register_forward_pre_hook(lambda module, inputs: sizes.append(len(inputs[0])))
    batch = make_batch()
    for _ in range(3):
        importance("gradcam", network, batch)
    assert sizes == [2, 11, 11, 3, 3, 3]


class CornerEnsemble(nn.Module):
    """The mean probability of classifiers whose four classes lie in the four corners of the image."""

    def __init__(self):
        super().__init__()
        rows = (torch.arange(SIDE) >= SIDE // 2).long()
        corners = F.one_hot(2 * rows[:, None] + rows, 4).permute(2, 0, 1).flatten(1).float()
        self.members = nn.ModuleList(nn.Linear(SIDE**2, 4) for _ in range(3))
        for member in self.members:
            member.weight = nn.Parameter(corners + 0.01 * member.weight.detach())

    def forward(self, x):
        return torch.stack([member(x.mean(1).flatten(1)) for member in self.members], 1).softmax(2).mean(1).log()


class StackedCornerEnsemble(CornerEnsemble):
    """The same with one tensor of weights, (features, members, classes)."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.stack([member.weight.detach() for member in self.members]).permute(2, 0, 1))

    def forward(self, x):
        return torch.tensordot(x.mean(1).flatten(1), self.weight, 1).softmax(2).mean(1).log()


@pytest.mark.parametrize("make", [CornerEnsemble, StackedCornerEnsemble])
def test_axis_of_classes_that_lie_at_places_of_the_image_is_no_grid(make):
    """Regression: Grad-CAM was a map of 2 x 2 classes."""
    images = torch.rand(2, 3, SIDE, SIDE, generator=seeded(0))
    with pytest.raises(RunError, match="no layer is suitable"):
        compute_layer_output(make().eval(), images, "last")


class Quantised(torch.Tensor):
    """A matrix whose entries cannot be selected, as torchao's."""

    def index_select(self, *arguments):
        raise NotImplementedError


def test_weights_of_other_types_than_torch_are_not_shuffled():
    network, batch = make_plain(), make_batch()
    expected = compute_gradcam_by_hand(network, batch)
    network.head.weight = nn.Parameter(network.head.weight.detach().as_subclass(Quantised))
    torch.testing.assert_close(importance("gradcam", network, batch).as_subclass(torch.Tensor), expected)


def test_distributed_network_has_map_of_its_module(tmp_path):
    network, batch = nn.Sequential(nn.BatchNorm2d(3), make_plain()).eval(), make_batch()
    expected = importance("gradcam", network, batch)
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        distributed = nn.parallel.DistributedDataParallel(network).eval()
        with torch.no_grad():  # after such a pass, the wrapper calls fewer functions in the next one
            distributed(batch.images)
        torch.testing.assert_close(importance("gradcam", distributed, batch), expected, rtol=0, atol=0)
    finally:
        torch.distributed.destroy_process_group()


def test_layer_is_searched_again_after_network_changes():
    network, batch = write_as(ChannelsLast), make_batch()
    importance("gradcam", network, batch)
    network.__class__ = Branches
    expected = compute_gradcam_by_hand(make_plain(), batch)
    torch.testing.assert_close(importance("gradcam", network, batch), expected, rtol=0, atol=1e-5)
