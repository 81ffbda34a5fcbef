"""Trials of own networks before a run: estimators that apply, and a peak learning rate."""

import json
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps

from roarbench.common.enums import MapNumerics
from roarbench.common.errors import CallerError
from roarbench.datasets.decode_dataset import decode_dataset
from roarbench.execution import network_trials
from roarbench.execution.network_trials import (
    check_network_and_drop_estimators,
    insert_tuned_learning_rate,
    tune_peak_learning_rate,
)
from roarbench.plan.recipes import find_recipe
from roarbench.plan.suite_template import write_new_suite_file
from roarbench.plan.suites import read_suite
from tests.helpers.image_files import TEXT, write_pictures, write_suite, write_table

NET = """
import torch
from PIL import Image, ImageOps
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
        return self.net(x if x.abs().sum() >= 0 else -x)

class Aliased(Odd):
    def forward(self, x):
        scaled = alias = 2 * x
        scaled += 1
        return self.net(scaled * alias)

class Unlike(Odd):
    def forward(self, x):
        if x.requires_grad:
            raise TypeError("no\\ngradients")
        return self.net(x)

class Pair(Odd):
    def forward(self, x):
        return x, x

class Distilled(nn.Sequential):  # takes images of one size, and returns two outputs in train mode
    def __init__(self, *network):
        super().__init__(fixed(*network))

    def forward(self, x):
        y = super().forward(x)
        return (y, y) if self.training else y

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


def make_suite(folder, function, recipe="", estimators='["grad", "gb", "var-gb", "ig"]', protocols='["roar"]'):
    (folder / "net.py").write_text(NET)
    text = TEXT.replace('"resnet-planted"', f'"net.py:{function}"').replace('["grad"]', estimators)
    text = text.replace('["roar"]', protocols)
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


def test_estimators_of_one_base_are_tried_once(tmp_path, monkeypatch):
    """`plan` on a suite with twins tried each base of the paper's estimators up to 18 times before it printed."""
    tried, compute = [], network_trials.compute_importance_maps
    monkeypatch.setattr(network_trials, "compute_importance_maps", lambda *a: tried.append(a[0][0].id) or compute(*a))
    names = '["grad", "grad~untrained", "sg-grad~untrained", "grad-sq", "ig", "var-ig"]'
    check_network_and_drop_estimators(make_suite(tmp_path, "relu", estimators=names))
    assert tried == ["grad", "ig"]


UNUSABLE = {
    "many": r"returned shape \(2, 4\) for two images, expected .* \(2, 3\); write classes = 4 under \[data\], and",
    "Pair": "returned a tuple for two images",
    "Frozen": r"cannot be trained \(RuntimeError: element 0 .*\); use protocols that train no network",
    "Mixing": r"^net.Mixing@\S+ gives an image different logits alone than in a batch",
    "Viewing": r"cannot take images of 8 x 8 pixels \(RuntimeError: view size .*\.reshape",
    "InPlace": "modifies its input images in place",
    "double": "^double of net.py returned weights in float64",
    "Drawn": "with the same state dict, gives different logits: its construction draws weights",
    "Long": r"cannot take images of 8 x 8 pixels \(ValueError: \[2J(long )+(long|lon|lo|l)?…\)$",
    "fixed": r"cannot take images of 4 x 4 pixels \(Runtime.*\); write sides = \[1.0\]",
}


@pytest.mark.parametrize("function", UNUSABLE)
def test_drop_inapplicable_estimators_rejects_unusable_network(tmp_path, function):
    recipe = "sides = [0.5, 1.0]\n" if function == "fixed" else ""
    with pytest.raises(CallerError, match=UNUSABLE[function]):
        check_network_and_drop_estimators(make_suite(tmp_path, function, recipe))


def test_networks_that_no_protocol_trains_are_tried_in_eval_mode_on_whole_images(tmp_path):
    suite = make_suite(tmp_path, "Distilled", "sides = [0.5, 1.0]\n", protocols='["morf"]')
    assert check_network_and_drop_estimators(suite).warnings == []
    with pytest.raises(CallerError, match="returned a tuple"):
        check_network_and_drop_estimators(suite, trains_explained=True)


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


def test_bf16_maps_are_rejected_if_the_folded_network_has_other_logits(tmp_path):
    aliased = make_suite(tmp_path, "Aliased", estimators='["grad"]')
    assert check_network_and_drop_estimators(aliased).suite.left_out == {}
    words = r'maps is "bf16-stem", but net.Aliased@\S+ has other logits once .*`\+=`; write maps = "float32"$'
    with pytest.raises(CallerError, match=words):
        check_network_and_drop_estimators(replace(aliased, maps=MapNumerics.BF16_STEM))


NETWORK = """
from torch import nn


def build(classes, channels, size):
    return nn.Sequential(nn.Conv2d(channels, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(),
        nn.Linear(8 * (size - 4) ** 2, classes))
"""
STEEP = TEXT.replace('"resnet-planted"', '"net.py:build"').replace("epochs = 1", "epochs = 20\npeak = 0.8\nbatch = 8")


@pytest.fixture
def steep(tmp_path):
    """A suite file of a network of two convolutions with a peak learning rate that is too high."""
    (tmp_path / "net.py").write_text(NETWORK)
    write_pictures(tmp_path / "pictures", 32)
    return write_suite(tmp_path, STEEP)


def test_tune_peak_learning_rate_finds_peak_that_trains(steep, tmp_path):
    suite = read_suite(steep)
    images = decode_dataset(suite.dataset_record, tmp_path / "store")
    state = torch.random.get_rng_state()
    found = tune_peak_learning_rate(suite, images)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert (found.peak, found.trained) == (0.05, True)
    assert re.match(r"peak = 0\.05 \(three trials of at most 100 steps on 54 training images; correct on ", found.line)
    assert tune_peak_learning_rate(suite, replace(images, test=None)) == found, "no test image is read"
    lower = read_suite(write_suite(tmp_path, STEEP.replace("peak = 0.8", "peak = 0.05")))
    found = tune_peak_learning_rate(lower, images)
    assert found.peak == 0.013, "of 0.05, 0.013 and 0.0031, which all train, the second"
    assert "not 0.05, which does about as well" in found.line


def write_copies(folder):
    """Write photographs with mirrored copies as test images."""
    for path in sorted(write_pictures(folder / "train").glob("*/*.png")):
        copy = folder / "test" / path.parent.name / f"{path.stem}.bmp"
        copy.parent.mkdir(parents=True, exist_ok=True)
        with Image.open(path) as image:
            ImageOps.mirror(image).save(copy)
    return folder


def write_suite_for_network(tmp_path, network, said):
    (tmp_path / "net.py").write_text(network)
    tune = partial(insert_tuned_learning_rate, say=said.append)
    path = write_new_suite_file(write_pictures(tmp_path / "mine", 32), said.append, "net.py:build", tune_recipe=tune)
    return path.read_text(), read_suite(path)


def test_new_suite_file_has_tuned_peak_and_full_sides(working_folder):
    """The last layer of the network fixes the image size."""
    said, hot = [], NETWORK.replace("nn.Sequential(", "nn.Sequential(Hot(), ")
    layer = "class Hot(nn.Module):\n    def forward(self, x):\n        return 4 * x\n\n\n"
    text, suite = write_suite_for_network(working_folder, hot.replace("def build", f"{layer}def build"), said)
    recipe = find_recipe(suite.recipe)
    assert said[-1].startswith(f"peak = {recipe.peak:g} (three trials of at most 100 steps on ")
    assert recipe.peak < 0.2 and f"\npeak = {recipe.peak:g} " in text
    (peak, batch) = (next(line for line in text.splitlines() if line.startswith(key)) for key in ("peak =", "batch ="))
    assert peak.index("#") == batch.index("#")
    assert recipe.sides == (1.0,) and "\nsides = [1.0]  # the network takes no smaller images" in text


@pytest.mark.parametrize("write", [write_table, write_copies])
def test_trials_of_each_kind_of_data_name_copies_in_both_splits(working_folder, write):
    """A table is tried, too, although its rows are not compared as images."""
    said = []
    write_new_suite_file(
        write(working_folder / "rows.csv"), tune_recipe=partial(insert_tuned_learning_rate, say=said.append)
    )
    assert said[-1].startswith(("peak = ", "warning: the network stays near chance"))
    similar = [line for line in said if "compared test images look like a training image, such as 'test/blue/" in line]
    assert len(similar) == (write is write_copies)


def write_suite_without_signal(folder):
    """Write a table of noise whose three classes have 70, 23 and 7 % of the rows, and its suite."""
    rng, path = np.random.default_rng(0), folder / "noise.csv"
    labels = rng.permutation(["a"] * 280 + ["b"] * 92 + ["c"] * 28)
    rows = (f"{a},{b},{label}\n" for (a, b), label in zip(rng.normal(size=(400, 2)), labels, strict=True))
    path.write_text("one,two,label\n" + "".join(rows))
    return write_new_suite_file(path)


def test_network_that_answers_largest_class_is_near_chance(working_folder, monkeypatch):
    suite = read_suite(write_suite_without_signal(working_folder))
    images = decode_dataset(suite.dataset_record, working_folder / "store")
    found = tune_peak_learning_rate(suite, images)
    assert not found.trained
    assert "stays near chance of 70.0% (always the largest class) at all three peak learning rates" in found.line
    # if 90 % of the images are of one class, 90 % is chance and not nearly as good as 100 %
    counts = iter([70, 63, 63])
    monkeypatch.setattr(network_trials, "_train_and_count_correct", lambda *_: next(counts))
    monkeypatch.setattr(network_trials, "compute_largest_class_share", lambda _: 0.9)
    found = tune_peak_learning_rate(suite, images)
    assert (found.peak, found.trained, "100.0% at 0.005, 90.0%" in found.line) == (0.005, True, True)


def test_few_held_out_images_are_named_as_the_reason(working_folder, monkeypatch):
    """Three correct predictions of three are no evidence; the line does not call them near chance."""
    suite = read_suite(write_suite(working_folder, TEXT))
    images = decode_dataset(suite.dataset_record, working_folder / "store", limit=9)
    found = tune_peak_learning_rate(suite, images)
    assert not found.trained and re.match(r"\d held-out images are too few to tell a trained network", found.line)
    monkeypatch.setattr(network_trials, "_train_and_count_correct", lambda *_: 5)  # of 6, of three classes
    found = tune_peak_learning_rate(suite, decode_dataset(suite.dataset_record, working_folder / "more", limit=18))
    assert not found.trained and "6 held-out images are too few to tell" in found.line and "83.3% at" in found.line


@pytest.mark.slow
def test_run_stops_when_explained_network_is_near_chance(steep, tmp_path, call):
    answer = call("run", "--suite", steep, "--store", tmp_path / "store")
    assert answer.code == 2
    said = "maps have little to explain; the run stopped before training networks on these maps; "
    assert said in answer.err
    assert "; write peak = 0.05 (three trials" in answer.err
    assert "under [recipe]" in answer.err
    assert "1 run" not in call("table", "--suite", steep, "--store", tmp_path / "store").err
    few = call("run", "--suite", steep, "--store", tmp_path / "store", "--max-images", "9")
    assert (few.code, "; use a --max-images above 9, other epochs" in few.err) == (2, True)
