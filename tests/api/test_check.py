"""`check`: columns against single steps, controls, siblings, and the description of disagreement."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

import roarbench as rb
from roarbench.api.gain_tables import CheckTable, OwnNetworkTable
from roarbench.api.removal import compute_image_seeds
from roarbench.common.enums import Order
from roarbench.common.errors import CallerError
from roarbench.estimators.catalogue import find_estimator
from roarbench.estimators.compute_maps import compute_importance_maps
from roarbench.estimators.map_input import Batch
from roarbench.stats.bootstrap_intervals import Sample
from roarbench.stats.own_network_gain import OwnNetworkVerdict
from tests.helpers.given import WithChangedOutput, gradient


@pytest.fixture(scope="module")
def images():
    return torch.randn(40, 2, 6, 6, generator=torch.Generator().manual_seed(1)) + 0.5


LABELS = np.arange(40) % 2
pytestmark = pytest.mark.filterwarnings("ignore:the network classifies .* not significantly above chance")


@pytest.fixture(scope="module")
def table(networks, images):
    return rb.check(networks[0], images, LABELS, {"mine": gradient}, networks[1:], levels=(0.2, 0.5))


def compute_gain_slowly(model, images, maps, random, order, levels, fill):
    """Compute the gain level by level, with areas by the trapezoidal rule."""

    def area(of):
        whole = torch.as_tensor(LABELS)
        accuracy = [float((model(images).argmax(1) == whole).double().mean())]
        for t in levels:
            if fill == "linear":
                curve = rb.perturbation_curve(model, images, LABELS, of, order, (t,), "linear")
                accuracy.append(curve.accuracy[1].value)
            else:
                left = rb.remove(images, of, t, order)
                accuracy.append(float((model(left).argmax(1) == whole).double().mean()))
        return np.trapezoid(accuracy, (0.0, *levels)) / levels[-1]

    return 100 * (area(random) - area(maps)) * (1 if order == "morf" else -1)


@pytest.mark.parametrize(("fill", "levels"), [("mean", (0.2, 0.5)), ("linear", (0.5,))])
@pytest.mark.parametrize("order", ["morf", "lerf"])
def test_check_column_equals_gain_over_random(networks, images, table, order, fill, levels):
    model = networks[0]
    targets = model(images).argmax(1)
    maps = gradient(model, images.clone(), targets)
    batch = Batch(images, targets, compute_image_seeds(images))
    random = compute_importance_maps([find_estimator("random")], None, batch, torch.zeros(2, 1, 1))["random"]
    expected = compute_gain_slowly(model, images, maps, random, order, levels, fill)
    assert table.gain(f"{order} {fill}", "mine").value == pytest.approx(expected)
    assert table.gain(f"{order} {fill}", "random") == (0.0, None, None)


def test_check_own_network_column_matches_own_network_gain(networks, images, table):
    alone = rb.own_network_gain(networks, images, {"mine": gradient})
    assert table.own_network.images == alone.images
    assert table.own_network.gain("mine") == alone.gain("mine")
    assert table.gain("own network", "mine").value == pytest.approx(alone.gain("mine").value)
    assert table.gain("own network", "sobel") == (0.0, None, None)


def test_check_explains_sibling_networks_on_agreed_images_only(networks, images):
    """The network explains all of them; each network explains two more in the trial."""
    asked = []

    def count(model, inputs, targets):
        asked.extend(inputs)
        return gradient(model, inputs, targets)

    rb.check(networks[0], images, LABELS, {"mine": count}, networks[1:], levels=(0.2, 0.5))
    said = torch.stack([network(images).argmax(1) for network in networks])
    agreed = int((said == said[0]).all(0).sum())
    assert 0 < agreed < 40
    assert len(asked) == 3 * 2 + 40 + 2 * agreed


def test_check_supports_networks_that_call_view(images):
    """Maps and scores use the channels-last layout, in which `view` fails."""

    def make_network(flatten, scale):
        torch.manual_seed(0)
        convolutions = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.ReLU())
        convolutions[0].weight.data.mul_(scale)
        return nn.Sequential(WithChangedOutput(convolutions, flatten), nn.Linear(4 * 6 * 6, 2)).eval()

    def check(flatten):
        networks = [make_network(flatten, scale) for scale in (1, 1.1, 1.2)]
        names = ["grad", "lrp", "deeplift"]
        return rb.check(networks[0], images, LABELS, names, networks[1:]).to_dataframe()

    pd.testing.assert_frame_equal(check(lambda x: x.view(x.size(0), -1)), check(lambda x: x.flatten(1)))


def test_check_gives_function_same_noise_for_each_network(networks, images):
    def noise(model, inputs, targets, generator):
        return torch.rand(inputs.shape, generator=generator)

    found = rb.check(networks[0], images, LABELS, {"noise": noise}, networks[1:], levels=(0.5,), fills=("mean",))
    assert found.own_network.verdicts["noise"] == "0 by construction"


def test_check_shares_noisy_passes_within_estimator_family(networks, images):
    """One or three estimators need the same fifteen noisy copies of each image."""

    def forwards(estimators):
        seen = []
        counter = networks[0].register_forward_hook(lambda model, inputs, logits: seen.append(len(logits)))
        found = rb.check(networks[0], images[:6], LABELS[:6], estimators, levels=(0.5,), fills=("mean",))
        counter.remove()
        scored = 2 * 6 * len(found.to_dataframe())  # MoRF and LeRF of each row
        return sum(seen) - scored, found

    one, alone = forwards(["sg-grad"])
    three, together = forwards(["sg-grad", "sgsq-grad", "var-grad"])
    assert three == one + 2 * 2 * 15, "each estimator is tried alone on two images"
    assert alone.gain("morf mean", "sg-grad") == together.gain("morf mean", "sg-grad")


def test_check_reports_all_inapplicable_estimators_before_work(images):
    flat, seen = nn.Sequential(nn.Flatten(), nn.Hardswish(), nn.Linear(72, 2)), []
    estimators = {"mine": lambda model, x, y: seen.extend(x) or x, "gradcam": "gradcam", "gb": "gb", "grad": "grad"}
    with pytest.raises(CallerError, match=r"network 1 cannot be explained by gradcam: .*; gb: [^;]*; leave out"):
        rb.check(flat, images, LABELS, estimators)
    assert len(seen) == 2


def test_check_table_has_text_frames_plot(table, tmp_path):
    lines = repr(table).splitlines()
    assert [line.split()[0] for line in lines[:4]] == ["estimator", "random", "sobel", "mine"]
    assert "own network" in lines[0] and lines[4].startswith("The network classifies 20 of 40 ")
    assert "<table" in table._repr_html_()
    assert len(table.to_dataframe()) == 3 and len(table.to_dataframe().columns) == 1 + 5 + 1
    long = table.intervals_to_dataframe()
    assert len(long) == 3 * 5 and list(long.columns) == ["estimator", "column", "gain", "low", "high", "note"]
    mine = long[(long["estimator"] == "mine") & (long["column"] == "lerf mean")].iloc[0]
    assert (mine["gain"], mine["low"], mine["high"]) == table.gain("lerf mean", "mine")
    table.plot(tmp_path / "check.png")
    assert (tmp_path / "check.png").stat().st_size > 5000


def test_check_reports_accuracy(networks, images):
    right = networks[0](images).argmax(1)
    caption = rb.check(networks[0], images, right, "grad", fills=("mean",)).caption
    assert "40 images, of which the network classifies 100.0 % correctly; morf" in caption


NOISE = np.random.default_rng(0).normal(size=(4, 2000))


def make_table(columns, **fields):
    """Return a table with gains given by column and name; the draws of all rows except Random vary independently."""
    gains = {
        column: {
            name: Sample(float(value), value + (name != "random") * noise)
            for (name, value), noise in zip(rows.items(), NOISE, strict=False)
        }
        for column, rows in columns.items()
    }
    return CheckTable(gains, dict.fromkeys(columns, (0.5,)), 40, 0.5, **fields)


def test_check_table_describes_disagreement_of_columns():
    against = make_table({"x": {"random": 0, "a": 18, "b": 9}, "y": {"random": 0, "a": 9, "b": 18}})
    assert against.reversed == [("a", "b")]
    assert against.disagreement.startswith("a leads x, b leads y; 1 pair of rows with significantly")
    unclear = make_table({"x": {"random": 0, "a": 18, "b": 9}, "y": {"random": 0, "a": 9, "b": 10}})
    assert unclear.disagreement == (
        "a leads x, b leads y (not significantly above a); no pair of rows has significantly opposite orders in two "
        "columns."
    )


def test_check_names_no_leader_that_is_tied_a_control_or_not_significantly_above_random():
    table = make_table(
        {
            "small": {"random": 0, "centre": 0.5, "a": 1, "b": -9},
            "control": {"random": 0, "centre": 9, "a": 8, "b": 0},
            "tied": {"random": 0, "centre": 1, "a": 9, "b": 9},
            "clear": {"random": 0, "centre": 1, "a": 9, "b": 0},
        },
        controls={"random", "centre"},
    )
    assert table.leaders == {"small": None, "control": None, "tied": None, "clear": "a"}
    assert table.disagreement.startswith("a leads clear, no estimator leads small or control or tied; ")


def test_control_that_the_caller_asked_for_counts_as_control(networks, images):
    table = rb.check(networks[0], images, LABELS, ["centre", "grad"], levels=(0.5,), fills=("mean",))
    assert table.controls == {"random", "sobel", "centre"}


@pytest.mark.parametrize(("verdict", "leader"), [("EXPLAINS", "a"), ("OPEN", None)])
def test_check_leader_of_own_network_is_shown_to_explain_its_network(verdict, leader):
    verdicts = {"random": OwnNetworkVerdict.BY_CONSTRUCTION, "a": OwnNetworkVerdict[verdict]}
    own = OwnNetworkTable({}, verdicts, 3, 40, 40, (0.5,), Order.MORF)
    table = make_table({"own network": {"random": 0, "a": 9}}, own_network=own)
    assert table.leaders == {"own network": leader}


def test_check_names_no_leader_for_network_at_chance(networks, images, tmp_path):
    rows = {"random": 0, "a": 18, "b": 9}
    seen = "The network classifies 21 of 40 images correctly."
    table = make_table({"x": rows, "y": {"random": 0, "a": 9, "b": 18}}, at_chance_warning=seen)
    assert table.leaders == {"x": None, "y": None} and table.reversed == []
    assert "leads" not in table.caption and table.caption.startswith(f"{seen}\n")
    assert set(table.to_dataframe()["note"]) == set(table.intervals_to_dataframe()["note"])
    assert table.to_dataframe()["note"][0] == "accuracy not significantly above chance"
    assert table.plot()._suptitle.get_text() == seen
    assert "note" not in make_table({"x": rows}).to_dataframe()
    wrong = 1 - networks[0](images).argmax(1)
    found = rb.check(networks[0], images, wrong, "grad", levels=(0.5,), fills=("mean",))
    assert repr(found).splitlines()[4] == (
        "The network classifies 0 of 40 images correctly, which is not significantly above chance of 90.0% "
        "(always the largest class), so no estimator leads."
    )


def test_check_names_no_leader_of_few_images(networks, images):
    rows = {"x": {"random": 0, "a": 18, "b": 9}, "y": {"random": 0, "a": 9, "b": 18}}
    enough, few = (replace(make_table(rows), images=images) for images in (10, 9))
    assert enough.leaders == {"x": "a", "y": "b"} and enough.reversed == [("a", "b")]
    assert few.leaders == {"x": None, "y": None} and few.reversed == []
    assert few.gain("x", "a") == (18, None, None) and few.cells()[2] == ("a", "+18.0", "+9.0")
    assert few.caption.startswith("Fewer than 10 images: no intervals and no verdicts.\n9 images, ")
    assert "95 %" not in few.caption and "without an interval" not in few.caption
    one = rb.check(networks[0], images[:1], LABELS[:1], "grad", levels=(0.5,), fills=("mean",))
    assert not any(one.leaders.values()) and one.intervals_to_dataframe()["low"].isna().all()


def test_check_names_no_leader_of_own_network_gain_on_few_agreed_images():
    verdicts = {"random": OwnNetworkVerdict.BY_CONSTRUCTION, "a": None}
    own = OwnNetworkTable({}, verdicts, 3, 9, 40, (0.5,), Order.MORF)
    rows = {"random": 0, "a": 9}
    table = make_table({"x": rows, "own network": rows}, own_network=own)
    assert table.leaders == {"x": "a", "own network": None}
    assert table.gain("own network", "a") == (9, None, None) and table.gain("x", "a").low is not None
    words = "\n95 % intervals over images; none for own network, because the networks agree on fewer than 10 images."
    assert table.caption.endswith(words)


def test_check_says_0_by_construction_as_own_network_gain_does(table):
    assert table.own_network.verdicts["sobel"] == "0 by construction"
    headings, random, sobel, mine = table.cells()
    assert headings[-1] == "own network"
    assert random[-1] == sobel[-1] == "0 by construction" != mine[-1]


def test_check_gives_no_interval_to_gain_without_any_difference():
    table = make_table({"x": {"random": 0, "mine": 0, "other": 1}})
    equal = Sample(0.0, np.zeros(2000))
    found = replace(table, gains={"x": {**table.gains["x"], "mine": equal}})
    assert found.gain("x", "mine") == (0.0, None, None) and found.gain("x", "other").low is not None
    words = "0.0 without an interval: the gain is 0 on every image, which does not show equality."
    assert words in found.caption and words not in table.caption


def return_inputs(model, inputs, targets):
    return inputs


class Constant(nn.Module):
    """Assign all images to the first of three classes, with logits that differ by `shift`."""

    def __init__(self, shift):
        super().__init__()
        self.bias = nn.Parameter(torch.tensor([9.0 + shift, 0.0, 0.0]))

    def forward(self, inputs):
        return self.bias + 0.001 * inputs.mean((1, 2, 3))[:, None]


def test_check_compares_accuracy_with_largest_class(images):
    """Of 40 labels of three classes, 28 are 0; the second call lacks class 2, so chance is a third."""
    words = "classifies 28 of 40 images correctly, which is not significantly above chance of 70.0% .always the largest"
    check = partial(rb.check, Constant(1), images, estimators={"mine": return_inputs}, levels=(0.5,), fills=("mean",))
    with pytest.warns(UserWarning, match=words):
        check(labels=np.repeat([0, 1, 2], [28, 9, 3]))
    with pytest.warns(UserWarning, match="a single class is predicted for all 40 images by network 1; if ") as caught:
        check(labels=np.repeat([0, 1], [28, 12]))
    assert [Path(warning.filename).name for warning in caught] == [Path(__file__).name]
    check(labels=np.zeros(40, int))
    with pytest.warns(UserWarning, match="images by network 1, 2, 3"):
        rb.own_network_gain([*map(Constant, (1, 2, 3))], images, {"mine": return_inputs}, levels=(0.5,))


def test_check_and_own_network_gain_warn_of_tied_features(networks, images):
    half, mostly = np.ones((40, 6, 6)), np.zeros((40, 6, 6))
    half[:, :3] = 0
    mostly[:, :2] = 1
    maps = {"flat": np.zeros((40, 6, 6)), "mostly": mostly, "half": half}
    words = r"more than 50% of the features in the maps of flat \(100%\), mostly \(67%\) have the same value"
    with pytest.warns(UserWarning, match=words):
        rb.check(networks[0], images, networks[0](images).argmax(1), maps, levels=(0.5,), fills=("mean",))
    with pytest.warns(UserWarning, match=words):
        rb.own_network_gain(networks, images, {name: [array] * 3 for name, array in maps.items()}, levels=(0.5,))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"siblings": 1}, "there is 1 sibling, expected none or at least 2"),
        ({"fills": "mean"}, "write fills="),
        ({"fills": ("best",)}, "fill 'best'"),
        ({"levels": (30,)}, "write 0.3 for 30 %"),
        ({"estimators": {"random": gradient}}, "random is a control of this table"),
        ({"estimators": ["mine.npy"]}, "the file mine.npy; load the file with np.load"),
        ({"estimators": {"mine": Path("mine.pt")}}, "the file mine.pt; load the file with torch.load"),
        ({"estimators": [gradient]}, 'a function without a name; write {"mine": …}'),
    ],
)
def test_check_rejects_invalid_arguments(networks, images, change, words):
    asked = {"labels": LABELS, "estimators": "grad", **change}
    asked["siblings"] = networks[: asked.get("siblings", 0)]
    with pytest.raises(CallerError, match=words):
        rb.check(networks[0], images, **asked)
