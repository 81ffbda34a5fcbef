"""One's own network is tried before hours of work: what it takes, what it returns, which estimators apply to it."""

from dataclasses import replace

import pytest

from roarbench.datasets import superpixel_files as superpixels
from roarbench.errors import CallerError
from roarbench.execution.fitness import fitted
from roarbench.plan.suite_file import read_suite
from roarbench.terms import Making
from tests.helpers.own_photos import TEXT, write_suite

NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self, channels, classes, between):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, 8, 3), between, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.last = nn.Linear(8, classes)

    def forward(self, x):
        return self.last(self.layers(x))

def relu(classes, channels, size):
    return Net(channels, classes, nn.ReLU())

def gelu(classes, channels, size):
    return Net(channels, classes, nn.GELU())

def many(classes, channels, size):
    return Net(channels, classes + 1, nn.ReLU())

def fixed(classes, channels, size):
    return nn.Sequential(nn.Flatten(), nn.Linear(channels * size * size, classes))

def branching(classes, channels, size):
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net(channels, classes, nn.ReLU())

        def forward(self, x):
            return self.net(x if x.sum() > 0 else -x)
    return Branching()

def unlike(classes, channels, size):
    class Unlike(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = Net(channels, classes, nn.ReLU())

        def forward(self, x):
            if x.requires_grad:
                raise TypeError("no\\ngradients")
            return self.net(x)
    return Unlike()

def pair(classes, channels, size):
    class Two(nn.Module):
        def forward(self, x):
            return x, x
    return Two()
"""


def suite(folder, function, recipe="", estimators='["grad", "gb", "var-gb", "ig"]'):
    (folder / "net.py").write_text(NET)
    text = TEXT.replace('"resnet-planted"', f'"net.py:{function}"').replace('["grad"]', estimators)
    return read_suite(write_suite(folder, text + recipe))


def test_what_does_not_apply_is_left_out_with_the_reason(tmp_path):
    made = fitted(suite(tmp_path, "gelu"))
    why = "guided backprop needs ReLUs and the network has none"
    assert made.left_out == {"gb": why, "var-gb": why}
    assert made.estimators == ("random", "sobel", "random-blurred", "grad", "ig")


def test_an_error_of_the_network_s_own_leaves_the_row_out_in_one_line(tmp_path):
    made = fitted(suite(tmp_path, "unlike", estimators='["grad", "deeplift", "rise"]'))
    assert made.left_out == {
        name: f"{name} cannot explain the network (TypeError: no gradients)" for name in ("grad", "deeplift")
    }


@pytest.mark.parametrize(
    ("function", "recipe", "said"),
    (
        ("many", "", r"returned shape \(2, 4\) for two images, expected logits of shape \(2, 3\)"),
        ("pair", "", "returned a tuple for two images"),
        (
            "fixed",
            "sides = [0.5, 1.0]\n",
            r"cannot take images of 4 x 4 pixels \(RuntimeError: .*\); write sides = \[1.0\]",
        ),
    ),
)
def test_a_network_that_does_not_fit_is_refused(tmp_path, function, recipe, said):
    with pytest.raises(CallerError, match=said):
        fitted(suite(tmp_path, function, recipe))


@pytest.mark.parametrize("maps", ["float32", "float32-stem", "bf16", "bf16-stem"])
def test_maps_that_need_a_folded_network_are_refused_where_it_cannot_be_folded(tmp_path, maps):
    assert fitted(replace(suite(tmp_path, "relu"), maps=Making(maps))).left_out == {}
    asked = replace(suite(tmp_path, "branching"), maps=Making(maps))
    if maps == "float32":
        assert fitted(asked).left_out == {}
    else:
        words = rf'maps is "{maps}", and .* cannot be folded \(TraceError: .*\); write maps = "float32"$'
        with pytest.raises(CallerError, match=words):
            fitted(asked)


def test_lrp_is_left_out_where_a_step_has_no_rule(tmp_path):
    made = fitted(suite(tmp_path, "gelu", estimators='["grad", "lrp"]'))
    assert made.left_out == {"lrp": "lrp has no rule for GELU, which the network has"}
    assert fitted(suite(tmp_path, "relu", estimators='["grad", "lrp"]')).left_out == {}


def test_superpixels_need_scikit_image_before_anything_runs(tmp_path, monkeypatch):
    asked = suite(tmp_path, "relu", estimators='["grad"]\nunits = ["superpixel"]')
    monkeypatch.setattr(superpixels.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CallerError, match="unit superpixel needs scikit-image, which is not installed"):
        fitted(asked)
