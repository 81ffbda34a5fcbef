"""Trials of own networks before a run: accepted inputs, outputs, and applicable estimators."""

import json
from dataclasses import replace

import pytest

from roarbench.common.enums import MapNumerics
from roarbench.common.errors import CallerError
from roarbench.execution.network_trials import check_network_and_drop_estimators
from roarbench.plan.read_suite_file import read_suite
from tests.helpers.own_photos import TEXT, write_suite

NET = """
import torch
from torch import nn

def relu(classes, channels, size, between=nn.ReLU):
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return nn.Sequential(nn.Conv2d(channels, 8, 3), between(), pooled, nn.Linear(8, classes))

def gelu(classes, channels, size):
    return relu(classes, channels, size, nn.GELU)

def double(*network):
    return relu(*network).double()

def many(classes, channels, size):
    return relu(classes + 1, channels, size)

def fixed(classes, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, classes))

class Odd(nn.Module):
    def __init__(self, *network):
        super().__init__()
        self.net = relu(*network)

class Branching(Odd):
    def forward(self, x):
        return self.net(x if x.sum() > 0 else -x)

class Unlike(Odd):
    def forward(self, x):
        if x.requires_grad:
            raise TypeError("no\\ngradients")
        return self.net(x)

class Pair(Odd):
    def forward(self, x):
        return x, x

class Absolute(Odd):
    def __init__(self, *network):  # adds a step without a rule, in a branch that starts at 0
        super().__init__(*network)
        self.net[0].bias.data.zero_()
        self.branch, self.scale = nn.Conv2d(3, 3, 1, bias=False), nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.net(x + self.scale * self.branch(x).abs())

class Frozen(Odd):
    def forward(self, x):
        with torch.no_grad():
            return self.net(x)

class Softmax(Odd):
    def forward(self, x):
        return self.net(x).softmax(1)

class Mixing(Odd):
    def forward(self, x):
        return self.net(x - x.mean(0))

class Viewing(Odd):
    def forward(self, x):
        x = self.net[0](x)
        return self.net[3](x.view(len(x), -1)[:, :8])

class Long(Odd):
    def forward(self, x):
        raise ValueError("\x1b[2J" + "long " * 100)

class InPlace(Odd):
    def forward(self, x):
        return self.net(x.mul_(2))

class Drawn(Odd):
    def __init__(self, *network):
        super().__init__(*network)
        self.weights = torch.rand(network[2])

    def forward(self, x):
        return self.net(x * self.weights)
"""


def make_suite(folder, function, recipe="", estimators='["grad", "gb", "var-gb", "ig"]'):
    (folder / "net.py").write_text(NET)
    text = TEXT.replace('"resnet-planted"', f'"net.py:{function}"').replace('["grad"]', estimators)
    return read_suite(write_suite(folder, text + recipe))


ADDS_UP = "deeplift's contributions do not add up, because it lacks a rule for an operation of the network"
RELUS = "guided backprop needs ReLUs, but the network has none"
RULE = "lrp has no rule for GELU, an operation of the network"


@pytest.mark.parametrize(
    ("function", "estimators", "left_out"),
    [
        ("gelu", ["grad", "gb", "var-gb", "ig", "lrp"], {"gb": RELUS, "var-gb": RELUS, "lrp": RULE}),
        (
            "Unlike",  # the network raises the error
            ["grad", "deeplift", "rise"],
            {name: f"{name} cannot explain the network (TypeError: no gradients)" for name in ("grad", "deeplift")},
        ),
        ("Absolute", ["grad", "deeplift"], {"deeplift": ADDS_UP}),
    ],
)
def test_drop_inapplicable_estimators_records_reasons(tmp_path, function, estimators, left_out):
    made = check_network_and_drop_estimators(make_suite(tmp_path, function, estimators=json.dumps(estimators))).suite
    assert made.left_out == left_out
    kept = [name for name in estimators if name not in left_out]
    assert made.estimators == ("random", "sobel", "random-blurred", *kept)


UNUSABLE = {
    "many": r"returned shape \(2, 4\) for two images, expected .* \(2, 3\); write classes = 4 under \[data\], and",
    "Pair": "returned a tuple for two images",
    "Frozen": r"cannot be trained \(RuntimeError: element 0 .*\); use protocols that train no network",
    "Mixing": r"^net.Mixing@\S+ gives an image different logits alone than in a batch",
    "Viewing": r"cannot take images of 8 x 8 pixels \(RuntimeError: view size .*\.reshape",
    "InPlace": "modifies its input images in place",
    "double": r"^double of net.py returned .* weights in float64, expected float32",
    "Drawn": "with the same state dict, gives different logits: its construction draws weights",
    "Long": r"cannot take images of 8 x 8 pixels \(ValueError: \[2J(long )+(long|lon|lo|l)?…\)$",
    "fixed": r"cannot take images of 4 x 4 pixels \(Runtime.*\); write sides = \[1.0\]",
}


@pytest.mark.parametrize("function", UNUSABLE)
def test_drop_inapplicable_estimators_rejects_unusable_network(tmp_path, function):
    recipe = "sides = [0.5, 1.0]\n" if function == "fixed" else ""
    with pytest.raises(CallerError, match=UNUSABLE[function]):
        check_network_and_drop_estimators(make_suite(tmp_path, function, recipe))


def test_drop_inapplicable_estimators_warns_of_probabilities(tmp_path):
    (line,) = check_network_and_drop_estimators(make_suite(tmp_path, "Softmax")).warnings
    assert line.startswith("net.Softmax@") and "returns probabilities instead of logits" in line
    assert check_network_and_drop_estimators(make_suite(tmp_path, "relu")).warnings == []


def test_bf16_maps_are_rejected_for_network_that_cannot_be_folded(tmp_path):
    folded = replace(make_suite(tmp_path, "relu"), maps=MapNumerics.BF16)
    branching = make_suite(tmp_path, "Branching")
    for suite in (folded, branching):
        assert check_network_and_drop_estimators(suite).suite.left_out == {}
    words = r'maps is "bf16", but .* cannot be folded into its convolutions \(TraceError: .*\); write maps = "float32"$'
    with pytest.raises(CallerError, match=words):
        check_network_and_drop_estimators(replace(branching, maps=MapNumerics.BF16))
